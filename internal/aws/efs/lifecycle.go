package efs

import (
	"context"
	"errors"
	"maps"

	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Lifecycle deletes the records of what is deleted once nothing is left of it. The controller
// internal/controller/filesystem calls it, because only this package writes these records.
type Lifecycle struct{ s *Service }

// NewLifecycle returns the lifecycle of the resources of a service.
func NewLifecycle(s *Service) Lifecycle { return Lifecycle{s} }

// deletionBatch is how many access points are read and deleted at a time: etcd takes 128 operations in a transaction.
const deletionBatch = 50

// FinishFileSystem deletes the record of the file system with the given key, if it is deleted and has no content any
// more, with its access points and tokens. It does nothing for others, and for one that is not there.
func (l Lifecycle) FinishFileSystem(ctx context.Context, key string) error {
	_, err := retry(func() (struct{}, error) {
		row, err := l.s.fileSystems.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return struct{}{}, nil
		}
		if err != nil || row.Value.Deleted.IsZero() {
			return struct{}{}, err
		}
		return struct{}{}, l.finishFileSystem(ctx, row)
	})
	return err
}

func (l Lifecycle) finishFileSystem(ctx context.Context, row store.Row[record.FileSystem]) error {
	s, f := l.s, row.Value
	if _, err := s.contents.Get(ctx, row.Key); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// No access point is added any more: that would need the file system to be available. There may be many, with long
	// tags.
	for {
		points, _, err := s.accessPointsOf.Page(ctx, row.Key, "", deletionBatch)
		if err != nil {
			return err
		}
		if len(points) == 0 {
			break
		}
		var ops []store.Op
		for _, p := range points {
			ops = append(ops, s.deleteAccessPoint(p)...)
		}
		if err := s.store.Txn(ctx, ops...); err != nil {
			return err
		}
	}
	return s.store.Txn(ctx, s.fileSystems.DeleteOp(row), s.contents.AbsentOp(row.Key),
		s.tokens.RemoveOp(record.FileSystemTokenKey(f.Account, f.Region, "fs-", f.CreationToken)))
}

// FinishMountTarget deletes the record of the mount target with the given key, if it is deleted, with its network
// interface. It does nothing for others, and for one that is not there.
func (l Lifecycle) FinishMountTarget(ctx context.Context, key string) error {
	s := l.s
	row, err := s.mountTargets.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	sc := resource.Scope{Context: ctx, Account: row.Value.Account, Region: row.Value.Region}
	return s.ec2.CommitPlan(sc, nil, func(c *resource.Change) error {
		row, err := s.mountTargets.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		m := row.Value
		if err != nil || m.Deleted.IsZero() {
			return err
		}
		_, err = c.NetworkInterfaces.Table.Get(ctx, c.Key(m.NetworkInterfaceID))
		if err == nil {
			_, err = networkinterface.Delete(c, m.NetworkInterfaceID)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		c.Add("mounttarget/"+m.ID, func() store.Op { return s.mountTargets.DeleteOp(row) })
		return s.planRemoval(c, m)
	})
}

// planRemoval removes a mount target from the record of its file system.
func (s *Service) planRemoval(c *resource.Change, m record.MountTarget) error {
	row, err := s.fileSystems.Copy(c, record.FileSystemKey(m.Account, m.Region, m.FileSystemID))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	left := maps.Clone(row.Value.MountTargets)
	maps.DeleteFunc(left, func(_, id string) bool { return id == m.ID })
	row.Value.MountTargets = left
	if len(left) == 0 {
		row.Value.MountTargets, row.Value.VPCID = nil, ""
	}
	c.Add("filesystem/"+m.FileSystemID, func() store.Op { return s.fileSystems.UpdateOp(row) })
	return nil
}
