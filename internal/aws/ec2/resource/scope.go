package resource

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/store"
)

// Scope is the scope of a call: its account, its region and its caller.
type Scope struct {
	context.Context
	Account string
	Region  string
	Caller  wire.Caller
	DryRun  bool // whether nothing may be written
}

// RequestScope returns the scope of a request, in which the account's default resources exist.
func (s *Records) RequestScope(ctx context.Context) (Scope, error) {
	sc, err := ScopeOf(ctx)
	if err != nil {
		return sc, err
	}
	return sc, s.EnsureDefaults(sc)
}

// ScopeOf returns the scope of a request, whether the account's default resources exist or not.
func ScopeOf(ctx context.Context) (Scope, error) {
	caller := wire.CallerFrom(ctx)
	sc := Scope{Context: ctx, Account: caller.Account, Region: wire.RegionFrom(ctx), Caller: caller}
	if !region.Valid(sc.Region) {
		return sc, wire.Errorf("InvalidParameterValue",
			"Invalid region: '%s'. DescribeRegions lists the valid regions.", sc.Region)
	}
	return sc, nil
}

// KeyPrefix returns the prefix of the keys of the account's resources in the region.
func (sc Scope) KeyPrefix() string { return store.Prefix(sc.Account, sc.Region) }

// Key returns the key of a resource of the account.
func (sc Scope) Key(id string) string { return record.EC2Key(sc.Account, sc.Region, id) }

// ARN returns the ARN of a resource of the account. That of a snapshot has no account.
func (sc Scope) ARN(resource types.ResourceType, id string) string {
	if resource == types.ResourceTypeSnapshot {
		return "arn:aws:ec2:" + sc.Region + "::snapshot/" + id
	}
	return "arn:aws:ec2:" + sc.Region + ":" + sc.Account + ":" + string(resource) + "/" + id
}

// IsService reports whether the caller is an AWS service that acts for the account under its service-linked role.
func (sc Scope) IsService() bool {
	// Only the prefix tells: the path of a user may hold anything.
	return strings.HasPrefix(sc.Caller.PrincipalARN, "arn:aws:iam::"+sc.Account+":role/aws-service-role/")
}

// NewID returns a new id with that prefix and 17 hexadecimal digits, of which AWS's first is always 0.
func NewID(prefix string) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return prefix + "0" + hex.EncodeToString(b[:])
}

// NewShortID returns an id of eight hexadecimal digits, as spot requests have.
func NewShortID(prefix string) string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}
