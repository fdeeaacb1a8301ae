package efs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxAccessPoints is the quota of access points of a file system.
// https://docs.aws.amazon.com/efs/latest/ug/limits.html
const maxAccessPoints = 10_000

// accessPointHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) accessPointHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateAccessPoint, func(
			ctx context.Context, action string, in *efs.CreateAccessPointInput,
		) ([]wire.Target, error) {
			targets, err := s.onFileSystem(ctx, action, in.FileSystemId)
			if err != nil {
				return nil, err
			}
			addRequestTags(targets[0].Conditions, in.Tags)
			n := fileSystemName(ctx, in.FileSystemId)
			return withTagging(targets, record.AccessPointARN(n.account, n.region, "*"), in.Tags), nil
		}),
		wire.Handle(s.DescribeAccessPoints, func(
			ctx context.Context, action string, in *efs.DescribeAccessPointsInput,
		) ([]wire.Target, error) {
			switch {
			case in.AccessPointId != nil:
				return s.onAccessPoint(ctx, action, in.AccessPointId)
			case in.FileSystemId != nil:
				return s.onFileSystem(ctx, action, in.FileSystemId)
			}
			return []wire.Target{anyOf(ctx, action, "access-point")}, nil
		}),
		wire.Handle(s.DeleteAccessPoint, func(
			ctx context.Context, action string, in *efs.DeleteAccessPointInput,
		) ([]wire.Target, error) {
			return s.onAccessPoint(ctx, action, in.AccessPointId)
		}),
	}
}

// CreateAccessPoint creates an access point of a file system.
// https://docs.aws.amazon.com/efs/latest/ug/API_CreateAccessPoint.html
func (s *Service) CreateAccessPoint(ctx context.Context, in *efs.CreateAccessPointInput) (
	*efs.CreateAccessPointOutput, error) {
	n := fileSystemName(ctx, in.FileSystemId)
	a := record.AccessPoint{
		Account: n.account, Region: n.region, CreatedAt: s.timestamp(), FileSystemID: n.id,
		ClientToken: aws.ToString(in.ClientToken), Path: "/",
	}
	var err error
	if a.User, err = posixUser(in.PosixUser); err != nil {
		return nil, err
	}
	if err := setRoot(&a, in.RootDirectory); err != nil {
		return nil, err
	}
	if a.Tags, err = tagMap(ctx, in.Tags); err != nil {
		return nil, err
	}
	_, err = retry(func() (struct{}, error) { return struct{}{}, s.createAccessPoint(ctx, &a, in.FileSystemId) })
	if err != nil {
		return nil, err
	}
	d := describeAccessPoint(a, types.LifeCycleStateAvailable)
	return &efs.CreateAccessPointOutput{
		AccessPointArn: d.AccessPointArn, AccessPointId: d.AccessPointId, ClientToken: d.ClientToken,
		FileSystemId: d.FileSystemId, LifeCycleState: d.LifeCycleState, Name: d.Name, OwnerId: d.OwnerId,
		PosixUser: d.PosixUser, RootDirectory: d.RootDirectory, Tags: d.Tags,
	}, nil
}

// createAccessPoint records an access point, unless its client token has created one.
func (s *Service) createAccessPoint(ctx context.Context, a *record.AccessPoint, fileSystem *string) error {
	f, err := s.available(ctx, fileSystem)
	if err != nil {
		return err
	}
	token := record.FileSystemTokenKey(a.Account, a.Region, "fsap-", a.ClientToken)
	row, err := s.tokens.Get(ctx, token)
	if err == nil {
		return &types.AccessPointAlreadyExists{
			ErrorCode_: new("AccessPointAlreadyExists"), AccessPointId: &row.Value.ResourceID,
			Message: text("Access point '%s' already exists with client token '%s'", row.Value.ResourceID, a.ClientToken),
		}
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if s.accessPointsOf.Count(f.Value.Key()) >= maxAccessPoints {
		return &types.AccessPointLimitExceeded{
			ErrorCode_: new("AccessPointLimitExceeded"), Message: text(
				"The file system '%s' has %d access points, which is as many as it may have.", f.Value.ID, maxAccessPoints)}
	}
	a.ID = newID("fsap-")
	return s.store.Txn(ctx, s.fileSystems.CheckOp(f), s.accessPoints.CreateOp(a.Key(), *a),
		s.tokens.CreateOp(token, record.FileSystemToken{ResourceID: a.ID}))
}

// maxID is the greatest ID of a user or group that the API has.
const maxID = 1<<32 - 1

// checkIDs refuses IDs that the model lets through. The greatest is none on Linux: to system calls it means that the ID
// stays as it is, which is that of root. The one before is of whom no machine has: what is deleted belongs to it.
func checkIDs(ids ...*int64) error {
	for _, id := range ids {
		if *id >= maxID-1 {
			return badRequest("%d is not the ID of a user or a group here: the greatest is %d.", *id, maxID-2)
		}
	}
	return nil
}

// posixUser returns the user of a request; nil for none.
func posixUser(in *types.PosixUser) (*record.PosixUser, error) {
	if in == nil {
		return nil, nil
	}
	if err := checkIDs(in.Uid, in.Gid); err != nil {
		return nil, err
	}
	u := &record.PosixUser{UID: uint32(*in.Uid), GID: uint32(*in.Gid)} //nolint:gosec // the model bounds them
	for i, gid := range in.SecondaryGids {
		path := fmt.Sprintf("posixUser.secondaryGids.%d.member", i+1)
		switch {
		case gid < 0:
			return nil, violation(gid, path, "have value greater than or equal to 0")
		case gid > maxID:
			return nil, violation(gid, path, fmt.Sprintf("have value less than or equal to %d", maxID))
		}
		if err := checkIDs(&gid); err != nil {
			return nil, err
		}
		u.SecondaryGIDs = append(u.SecondaryGIDs, uint32(gid))
	}
	return u, nil
}

// rootPath is what the model says of the path of an access point, but that no directory's name begins with a dot.
var rootPath = regexp.MustCompile("^(/|(/[^$#<>;`|&?{}^*/\\n]+){1,4})$")

// rootPathSource is the pattern as AWS writes it.
const rootPathSource = "^(\\/|(\\/(?!\\.)+[^$#<>;`|&?{}^*/\\n]+){1,4})$"

// setRoot sets the root directory of an access point as a request has it.
func setRoot(a *record.AccessPoint, in *types.RootDirectory) error {
	if in == nil {
		return nil
	}
	if in.Path != nil {
		a.Path = *in.Path
	}
	if !rootPath.MatchString(a.Path) || strings.Contains(a.Path, "/.") {
		return violation(a.Path, "rootDirectory.path", "satisfy regular expression pattern: "+rootPathSource)
	}
	if in.CreationInfo == nil {
		return nil
	}
	if err := checkIDs(in.CreationInfo.OwnerUid, in.CreationInfo.OwnerGid); err != nil {
		return err
	}
	mode, err := strconv.ParseUint(*in.CreationInfo.Permissions, 8, 12)
	if err != nil {
		return violation(*in.CreationInfo.Permissions, "rootDirectory.creationInfo.permissions",
			"satisfy regular expression pattern: ^[0-7]{3,4}$")
	}
	a.Creation = &record.RootCreation{
		UID:  uint32(*in.CreationInfo.OwnerUid), //nolint:gosec // the model bounds it
		GID:  uint32(*in.CreationInfo.OwnerGid), //nolint:gosec // the model bounds it
		Mode: uint32(mode), Permissions: *in.CreationInfo.Permissions,
	}
	return nil
}

// DescribeAccessPoints describes an access point, or those of a file system or of the account in the region.
func (s *Service) DescribeAccessPoints(ctx context.Context, in *efs.DescribeAccessPointsInput) (
	*efs.DescribeAccessPointsOutput, error) {
	if in.AccessPointId != nil && in.FileSystemId != nil {
		return nil, badRequest("Give AccessPointId or FileSystemId, not both.")
	}
	rows, err := s.findAccessPoints(ctx, in)
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, atMost100(in.MaxResults), in.NextToken,
		func(r store.Row[record.AccessPoint]) string { return r.Value.ID })
	if err != nil {
		return nil, err
	}
	views := make([]types.AccessPointDescription, 0, len(page))
	for _, row := range page {
		a := row.Value
		f, err := of(ctx, s.fileSystems, name{place{a.Account, a.Region}, a.FileSystemID})
		if err != nil {
			return nil, err
		}
		state := types.LifeCycleStateAvailable
		if !f.Deleted.IsZero() {
			state = types.LifeCycleStateDeleting
		}
		views = append(views, describeAccessPoint(a, state))
	}
	return &efs.DescribeAccessPointsOutput{AccessPoints: views, NextToken: next}, nil
}

func (s *Service) findAccessPoints(ctx context.Context, in *efs.DescribeAccessPointsInput) (
	[]store.Row[record.AccessPoint], error) {
	switch {
	case in.AccessPointId != nil:
		row, err := s.accessPoint(ctx, in.AccessPointId)
		return []store.Row[record.AccessPoint]{row}, err
	case in.FileSystemId != nil:
		f, err := s.fileSystem(ctx, in.FileSystemId)
		if err != nil {
			return nil, err
		}
		return s.accessPointsOf.List(ctx, f.Value.Key())
	}
	at := placeOf(ctx)
	return s.accessPoints.List(ctx, store.Prefix(at.account, at.region))
}

// DeleteAccessPoint deletes an access point: nobody can mount the file system by it any more. Machines that have
// mounted it keep it until they unmount it, unlike on AWS.
func (s *Service) DeleteAccessPoint(ctx context.Context, in *efs.DeleteAccessPointInput) (
	*efs.DeleteAccessPointOutput, error) {
	return retry(func() (*efs.DeleteAccessPointOutput, error) {
		row, err := s.accessPoint(ctx, in.AccessPointId)
		if err != nil {
			return nil, err
		}
		return &efs.DeleteAccessPointOutput{}, s.store.Txn(ctx, s.deleteAccessPoint(row)...)
	})
}

// deleteAccessPoint returns what deletes an access point with its client token.
func (s *Service) deleteAccessPoint(row store.Row[record.AccessPoint]) []store.Op {
	a := row.Value
	return []store.Op{s.accessPoints.DeleteOp(row),
		s.tokens.RemoveOp(record.FileSystemTokenKey(a.Account, a.Region, "fsap-", a.ClientToken))}
}

// accessPoint returns an access point that a request names.
func (s *Service) accessPoint(ctx context.Context, id *string) (store.Row[record.AccessPoint], error) {
	row, err := s.accessPoints.Get(ctx, accessPointName(ctx, id).key())
	if errors.Is(err, store.ErrNotFound) {
		err = accessPointNotFound(aws.ToString(id))
	}
	return row, err
}

// describeAccessPoint returns an access point as the API shows it.
func describeAccessPoint(a record.AccessPoint, state types.LifeCycleState) types.AccessPointDescription {
	d := types.AccessPointDescription{
		AccessPointArn: new(a.ARN()), AccessPointId: new(a.ID), ClientToken: new(a.ClientToken),
		FileSystemId: new(a.FileSystemID), LifeCycleState: state, OwnerId: new(a.Account), Name: nameTag(a.Tags),
		RootDirectory: &types.RootDirectory{Path: new(a.Path)}, Tags: tagList(a.Tags),
	}
	if u := a.User; u != nil {
		d.PosixUser = &types.PosixUser{Uid: new(int64(u.UID)), Gid: new(int64(u.GID))}
		for _, gid := range u.SecondaryGIDs {
			d.PosixUser.SecondaryGids = append(d.PosixUser.SecondaryGids, int64(gid))
		}
	}
	if c := a.Creation; c != nil {
		d.RootDirectory.CreationInfo = &types.CreationInfo{OwnerUid: new(int64(c.UID)), OwnerGid: new(int64(c.GID)),
			Permissions: new(c.Permissions)}
	}
	return d
}
