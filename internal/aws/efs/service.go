// Package efs serves the Amazon Elastic File System API: file systems, their mount targets, access points, policies and
// settings.
//
// The API records what is wanted: [record.FileSystem], [record.MountTarget], [record.AccessPoint]. The content of a
// file system is a directory of the host, which internal/controller/filesystem makes, measures and removes; the state
// of a file system and of a mount target follows from what that controller observes. What is deleted keeps its record
// until nothing is left of it ([Lifecycle]).
//
// A mount target is made and deleted in one transaction with its network interface. All mount targets of a file system
// are in its record: no two are in one Availability Zone, all are in one VPC, and a file system that has some cannot be
// deleted, whatever requests come at once.
//
// Whether an NFS client may mount a file system is decided here, too ([Service.AuthorizeMount]), by the policy of the
// file system and those of the client.
//
// https://docs.aws.amazon.com/efs/latest/ug/api-reference.html
package efs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// Identity knows access keys, and decides. *identity.Identity does.
type Identity interface {
	wire.Credentials
	wire.Authorizer
	// AuthorizeAnonymous decides about a target by the policy of its resource alone.
	AuthorizeAnonymous(ctx context.Context, t wire.Target) error
}

// Options configures a Service.
type Options struct {
	Store    *store.Store
	Identity Identity
	// EC2 has the records of EC2, in which mount targets have their network interfaces.
	EC2 *resource.Records
	// Keys uses KMS keys; without it no file system can be encrypted.
	Keys resource.Keys
	Now  func() time.Time // time.Now unless set
}

// Service serves the EFS API. It is safe for concurrent use.
type Service struct {
	store    *store.Store
	identity Identity
	ec2      *resource.Records
	keys     resource.Keys
	named    *identity.Named
	now      func() time.Time

	fileSystems  store.Table[record.FileSystem]
	contents     store.Table[record.FileSystemContent]
	tokens       store.Table[record.FileSystemToken]
	mountTargets store.Table[record.MountTarget]
	statuses     store.Table[record.MountTargetStatus]
	accessPoints store.Table[record.AccessPoint]
	kmsKeys      store.Table[record.KMSKey]

	accessPointsOf store.Index[record.AccessPoint] // by file system
	mountTargetsOf store.Index[record.MountTarget] // by VPC
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{
		store: o.Store, identity: o.Identity, ec2: o.EC2, keys: o.Keys, named: identity.NewNamed(o.Store), now: o.Now,
		fileSystems: record.FileSystems(o.Store), contents: record.FileSystemContents(o.Store),
		tokens: record.FileSystemTokens(o.Store), mountTargets: record.MountTargets(o.Store),
		statuses: record.MountTargetStatuses(o.Store), accessPoints: record.AccessPoints(o.Store),
		kmsKeys: record.KMSKeys(o.Store), accessPointsOf: record.AccessPointsByFileSystem(o.Store),
		mountTargetsOf: record.MountTargetsByVPC(o.Store),
	}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticfilesystem.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.accessPointHandlers(),
		s.fileSystemHandlers(),
		s.updateHandlers(),
		s.mountTargetHandlers(),
		s.securityGroupHandlers(),
		s.policyHandlers(),
		s.replicationHandlers(),
		s.settingHandlers(),
		s.tagHandlers(),
	} {
		mux.Register(wire.EFS, handlers...)
	}
}

// place is an account and a region.
type place struct{ account, region string }

// placeOf returns the account and the region of a request.
func placeOf(ctx context.Context) place {
	return place{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

// checkRegion refuses a region that does not exist: nothing can be created there.
func (p place) checkRegion() error {
	if !region.Valid(p.region) {
		return badRequest("There is no region %q.", p.region)
	}
	return nil
}

// timestamp returns the time of now as the API has it.
func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Second) }

// newID returns a new ID with that prefix and 17 hexadecimal digits.
func newID(prefix string) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return prefix + "0" + hex.EncodeToString(b[:])
}

// isLostRace reports whether a transaction failed because another one came before: its plan is made again.
func isLostRace(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound)
}

// retry carries out an attempt until it has lost no race.
func retry[T any](attempt func() (T, error)) (T, error) {
	for {
		out, err := attempt()
		if !isLostRace(err) {
			return out, err
		}
	}
}
