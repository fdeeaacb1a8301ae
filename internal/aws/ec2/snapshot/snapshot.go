package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

var snapshotFilters = resource.Filters[types.Snapshot]{
	"description":   resource.StringFilter(func(x types.Snapshot) *string { return x.Description }),
	"encrypted":     resource.BoolFilter(func(x types.Snapshot) *bool { return x.Encrypted }),
	"owner-alias":   resource.StringFilter(func(x types.Snapshot) *string { return x.OwnerAlias }),
	"owner-id":      resource.StringFilter(func(x types.Snapshot) *string { return x.OwnerId }),
	"progress":      resource.StringFilter(func(x types.Snapshot) *string { return x.Progress }),
	"snapshot-id":   resource.StringFilter(func(x types.Snapshot) *string { return x.SnapshotId }),
	"start-time":    resource.TimeFilter(func(x types.Snapshot) *time.Time { return x.StartTime }),
	"status":        resource.EnumFilter(func(x types.Snapshot) types.SnapshotState { return x.State }),
	"storage-tier":  resource.EnumFilter(func(x types.Snapshot) types.StorageTier { return x.StorageTier }),
	"transfer-type": resource.EnumFilter(func(x types.Snapshot) types.TransferType { return x.TransferType }),
	"volume-id":     resource.StringFilter(func(x types.Snapshot) *string { return x.VolumeId }),
	"volume-size":   resource.IntFilter(func(x types.Snapshot) *int32 { return x.VolumeSize }),
}

// viewSnapshot returns a snapshot as DescribeSnapshots shows it. Tags are the owner's alone.
func (s *Service) viewSnapshot(sc resource.Scope, r record.Snapshot) types.Snapshot {
	disk := s.SnapshotDisk(sc, r)
	v := types.Snapshot{
		Description: aws.String(r.Description), Encrypted: aws.Bool(r.Encrypted), KmsKeyId: resource.OrNil(r.KMSKeyID),
		OwnerId: aws.String(r.Account), Progress: aws.String(progress(disk)), SnapshotId: aws.String(r.ID),
		StartTime: aws.Time(r.CreatedAt), State: resource.SnapshotState(disk),
		StorageTier: types.StorageTierStandard, VolumeId: aws.String(r.VolumeID), VolumeSize: aws.Int32(r.VolumeSize),
	}
	switch v.State {
	case types.SnapshotStateCompleted:
		v.FullSnapshotSizeInBytes = aws.Int64(disk.UsedBytes)
	case types.SnapshotStateError:
		if r.Account == sc.Account {
			v.StateMessage = aws.String(resource.WithoutPaths(disk.Failure))
		}
	}
	if r.Source != nil {
		v.TransferType = types.TransferTypeStandard
	}
	if r.Account == sc.Account {
		v.Tags = s.ListTags(sc, r.ID)
	}
	return v
}

func progress(disk record.SnapshotDisk) string {
	if disk.Complete {
		return "100%"
	}
	return fmt.Sprintf("%d%%", min(99, max(0, disk.Progress)))
}

// snapshotHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) snapshotHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeSnapshots, resource.OnRegion),
		wire.Handle(s.DeleteSnapshot, resource.Touching[ec2.DeleteSnapshotInput](s.Records)),
	}
}

var accountID = regexp.MustCompile(`^[0-9]{12}$`)

func malformedUser(id string) error {
	return wire.Errorf("InvalidUserID.Malformed", "Invalid user id: \"%s\"", id)
}

// DescribeSnapshots lists the snapshots that the account may make volumes of: its own, those that are shared with it,
// and public ones.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSnapshots.html
func (s *Service) DescribeSnapshots(ctx context.Context, in *ec2.DescribeSnapshotsInput) (
	*ec2.DescribeSnapshotsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeSnapshots", DryRun: in.DryRun, IDs: in.SnapshotIds, Filters: in.Filters,
		Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	owners, err := readUsers(sc, in.OwnerIds, "amazon", "aws-marketplace", "self")
	if err != nil {
		return nil, err
	}
	restorers, err := readUsers(sc, in.RestorableByUserIds, "all", "self")
	if err != nil {
		return nil, err
	}
	rows, err := s.visible(sc, in.SnapshotIds, wantsShared(sc, owners, in.Filters))
	if err != nil {
		return nil, err
	}
	items := []resource.Item[types.Snapshot]{}
	for _, r := range rows {
		if len(owners) > 0 && !slices.Contains(owners, r.Account) {
			continue
		}
		if len(restorers) > 0 && !slices.ContainsFunc(restorers, func(id string) bool {
			// Whom else a snapshot of another account is shared with is its owner's to know.
			return id == "all" && r.Public || id == r.Account ||
				(id == sc.Account || r.Account == sc.Account) && slices.Contains(r.SharedWith, id)
		}) {
			continue
		}
		items = append(items, resource.Item[types.Snapshot]{ID: r.ID, View: s.viewSnapshot(sc, r)})
	}
	slices.SortFunc(items, func(a, b resource.Item[types.Snapshot]) int { return cmp.Compare(a.ID, b.ID) })
	found, next, err := resource.DescribeItems(ctx, query, items, snapshotFilters, s.snapshotView.Tagged)
	if found == nil {
		found = []types.Snapshot{}
	}
	return &ec2.DescribeSnapshotsOutput{Snapshots: found, NextToken: next}, err
}

// readUsers reads IDs of accounts, among which some words may stand: "self" is the caller's account.
func readUsers(sc resource.Scope, ids []string, words ...string) ([]string, error) {
	var all []string
	for _, id := range ids {
		switch {
		case id == "self":
			all = append(all, sc.Account)
		case accountID.MatchString(id), slices.Contains(words, id):
			all = append(all, id)
		default:
			return nil, malformedUser(id)
		}
	}
	return all, nil
}

// wantsShared reports whether a request can find snapshots of other accounts: their tags are not shown.
func wantsShared(sc resource.Scope, owners []string, filters []types.Filter) bool {
	if len(owners) > 0 && !slices.ContainsFunc(owners, func(id string) bool { return id != sc.Account }) {
		return false
	}
	return !slices.ContainsFunc(filters, func(f types.Filter) bool {
		name := aws.ToString(f.Name)
		return strings.HasPrefix(name, "tag:") || name == "tag-key" || name == "tag-value"
	})
}

// visible returns the snapshots with the given IDs, or all that the account may make volumes of.
func (s *Service) visible(sc resource.Scope, ids []string, shared bool) ([]record.Snapshot, error) {
	if len(ids) == 0 {
		own, err := s.Snapshots.List(sc, func(r record.Snapshot) bool { return r.Deleted.IsZero() })
		if err != nil || !shared {
			return own, err
		}
		others, err := s.SharedSnapshots(sc)
		return append(own, others...), err
	}
	var rows []record.Snapshot
	var unknown []string
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if err := s.Snapshots.Validate(id); err != nil {
			return nil, err
		}
		row, err := s.UsableSnapshot(sc, id)
		switch {
		case resource.IsRefusal(err):
			unknown = append(unknown, id)
		case err != nil:
			return nil, err
		default:
			rows = append(rows, row.Value)
		}
	}
	if len(unknown) > 0 {
		return nil, s.Snapshots.Missing(unknown...)
	}
	return rows, nil
}

// own returns a snapshot of the account that is not deleted.
func own(c *resource.Change, id *string) (record.Snapshot, error) {
	r, err := c.Snapshots.GetRecord(c.Scope, id)
	if err == nil && !r.Deleted.IsZero() {
		err = c.Snapshots.Missing(r.ID)
	}
	return r, err
}

// DeleteSnapshot deletes a snapshot. Its content stays until volumes that are being made of it have it.
func (s *Service) DeleteSnapshot(ctx context.Context, in *ec2.DeleteSnapshotInput) (*ec2.DeleteSnapshotOutput, error) {
	return &ec2.DeleteSnapshotOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		if _, err := own(c, in.SnapshotId); err != nil {
			return err
		}
		return c.Snapshots.UpdateRecord(c, *in.SnapshotId, func(r *record.Snapshot) error {
			r.Deleted, r.Public, r.SharedWith = c.Now().UTC(), false, nil
			return nil
		})
	})
}
