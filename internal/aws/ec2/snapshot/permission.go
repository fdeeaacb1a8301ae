package snapshot

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// maxShares is the number of accounts that a snapshot may be shared with, and maxShared the number of snapshots that an
// account may share in a region: every account's DescribeSnapshots reads those of all.
const (
	maxShares = 1000
	maxShared = 100
)

// permissionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) permissionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeSnapshotAttribute, resource.Touching[ec2.DescribeSnapshotAttributeInput](s.Records)),
		wire.Handle(s.ModifySnapshotAttribute, s.modifyTargets),
		wire.Handle(s.ResetSnapshotAttribute, resource.Touching[ec2.ResetSnapshotAttributeInput](s.Records)),
	}
}

// DescribeSnapshotAttribute returns who may make volumes of a snapshot of the account.
func (s *Service) DescribeSnapshotAttribute(ctx context.Context, in *ec2.DescribeSnapshotAttributeInput) (
	*ec2.DescribeSnapshotAttributeOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := own(resource.NewChange(s.Records, sc), in.SnapshotId)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeSnapshotAttributeOutput{SnapshotId: in.SnapshotId}
	switch in.Attribute {
	case types.SnapshotAttributeNameCreateVolumePermission:
		out.CreateVolumePermissions = []types.CreateVolumePermission{}
		if r.Public {
			out.CreateVolumePermissions = append(out.CreateVolumePermissions,
				types.CreateVolumePermission{Group: types.PermissionGroupAll})
		}
		for _, account := range r.SharedWith {
			out.CreateVolumePermissions = append(out.CreateVolumePermissions,
				types.CreateVolumePermission{UserId: aws.String(account)})
		}
	case types.SnapshotAttributeNameProductCodes:
		out.ProductCodes = []types.ProductCode{}
	case "":
		return nil, resource.MissingParameter("attribute")
	default:
		return nil, resource.InvalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	if aws.ToBool(in.DryRun) {
		return nil, resource.ErrDryRun
	}
	return out, nil
}

// shares are the accounts and groups that a request adds and removes.
type shares struct {
	add, remove []types.CreateVolumePermission
}

// readShares reads both forms in which a request has them.
func readShares(in *ec2.ModifySnapshotAttributeInput) shares {
	var sh shares
	if p := in.CreateVolumePermission; p != nil {
		sh = shares{slices.Clone(p.Add), slices.Clone(p.Remove)}
	}
	var flat []types.CreateVolumePermission
	for _, id := range in.UserIds {
		flat = append(flat, types.CreateVolumePermission{UserId: aws.String(id)})
	}
	for _, name := range in.GroupNames {
		flat = append(flat, types.CreateVolumePermission{Group: types.PermissionGroup(name)})
	}
	if in.OperationType == types.OperationTypeRemove {
		sh.remove = append(sh.remove, flat...)
	} else {
		sh.add = append(sh.add, flat...)
	}
	return sh
}

// modifyTargets returns the snapshot, and whom it is shared with.
func (s *Service) modifyTargets(ctx context.Context, action string, in *ec2.ModifySnapshotAttributeInput) (
	[]wire.Target, error) {
	targets, err := resource.Touching[ec2.ModifySnapshotAttributeInput](s.Records)(ctx, action, in)
	sh := readShares(in)
	for _, t := range targets {
		for prefix, list := range map[string][]types.CreateVolumePermission{"ec2:Add/": sh.add,
			"ec2:Remove/": sh.remove} {
			for _, p := range list {
				if p.Group != "" {
					t.Conditions[prefix+"group"] = append(t.Conditions[prefix+"group"], string(p.Group))
				}
				if p.UserId != nil {
					t.Conditions[prefix+"userId"] = append(t.Conditions[prefix+"userId"], *p.UserId)
				}
			}
		}
	}
	return targets, err
}

func (sh shares) check() error {
	if len(sh.add)+len(sh.remove) == 0 {
		return resource.Invalid("The request must contain accounts or groups to add or to remove.")
	}
	for _, p := range slices.Concat(sh.add, sh.remove) {
		switch {
		case p.UserId == nil && p.Group == "":
			return resource.MissingParameter("userId or group")
		case p.Group != "" && p.Group != types.PermissionGroupAll:
			return resource.InvalidValue(p.Group, "group", "The only group is all.")
		case p.UserId != nil && !accountID.MatchString(*p.UserId):
			return malformedUser(*p.UserId)
		}
	}
	return nil
}

// ModifySnapshotAttribute shares a snapshot with accounts or everybody, or no longer.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-modifying-snapshot-permissions.html
func (s *Service) ModifySnapshotAttribute(ctx context.Context, in *ec2.ModifySnapshotAttributeInput) (
	*ec2.ModifySnapshotAttributeOutput, error) {
	sh := readShares(in)
	return &ec2.ModifySnapshotAttributeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		if _, err := own(c, in.SnapshotId); err != nil {
			return err
		}
		if err := checkAttribute(in.Attribute, true); err != nil {
			return err
		}
		if err := resource.CheckEnum(in.OperationType, "operationType"); err != nil {
			return err
		}
		if err := sh.check(); err != nil {
			return err
		}
		return c.Snapshots.UpdateRecord(c, *in.SnapshotId, func(r *record.Snapshot) error {
			if err := s.checkShareable(c.Scope, *r, sh); err != nil {
				return err
			}
			share(r, sh)
			if len(r.SharedWith) > maxShares {
				return resource.Invalid("A snapshot may be shared with %d accounts.", maxShares)
			}
			return checkShared(c, *r)
		})
	})
}

// checkAttribute refuses what cannot be modified.
func checkAttribute(name types.SnapshotAttributeName, optional bool) error {
	switch {
	case name == types.SnapshotAttributeNameCreateVolumePermission, name == "" && optional:
		return nil
	case name == "":
		return resource.MissingParameter("attribute")
	}
	return resource.InvalidValue(name, "attribute", "Only createVolumePermission can be modified.")
}

// checkShareable refuses to share a snapshot that others could not use, or must not.
func (s *Service) checkShareable(sc resource.Scope, r record.Snapshot, sh shares) error {
	if !r.Encrypted || len(sh.add) == 0 {
		return nil
	}
	if slices.ContainsFunc(sh.add, func(p types.CreateVolumePermission) bool { return p.Group != "" }) {
		return wire.Errorf("OperationNotPermitted", "Encrypted snapshots cannot be shared publicly: %s is encrypted.", r.ID)
	}
	if r.KMSKeyID == s.KeyARN(sc, resource.ManagedKeyAlias) {
		return wire.Errorf("OperationNotPermitted", "Encrypted snapshots with EBS default key cannot be shared")
	}
	return nil
}

// checkShared refuses to share more snapshots than an account may.
func checkShared(c *resource.Change, r record.Snapshot) error {
	isShared := func(r record.Snapshot) bool { return r.Public || len(r.SharedWith) > 0 }
	if !isShared(r) {
		return nil
	}
	others, err := c.Snapshots.List(c.Scope, func(o record.Snapshot) bool {
		return o.ID != r.ID && isShared(o) && o.Deleted.IsZero()
	})
	if err == nil && len(others) >= maxShared {
		err = wire.Errorf("ResourceLimitExceeded", "The account shares %d snapshots in the region, which is the most "+
			"that coracle lets it share: reset the createVolumePermission of others first.", maxShared)
	}
	return err
}

func share(r *record.Snapshot, sh shares) {
	with := slices.Clone(r.SharedWith)
	for _, p := range sh.add {
		r.Public = r.Public || p.Group != ""
		if p.UserId != nil {
			with = append(with, *p.UserId)
		}
	}
	for _, p := range sh.remove {
		r.Public = r.Public && p.Group == ""
		if p.UserId != nil {
			with = slices.DeleteFunc(with, func(id string) bool { return id == *p.UserId })
		}
	}
	r.SharedWith = slices.Compact(slices.Sorted(slices.Values(with)))
}

// ResetSnapshotAttribute makes a snapshot private again.
func (s *Service) ResetSnapshotAttribute(ctx context.Context, in *ec2.ResetSnapshotAttributeInput) (
	*ec2.ResetSnapshotAttributeOutput, error) {
	return &ec2.ResetSnapshotAttributeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		if _, err := own(c, in.SnapshotId); err != nil {
			return err
		}
		if err := checkAttribute(in.Attribute, false); err != nil {
			return err
		}
		return c.Snapshots.UpdateRecord(c, *in.SnapshotId, func(r *record.Snapshot) error {
			r.Public, r.SharedWith = false, nil
			return nil
		})
	})
}
