package status

import (
	"context"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/record"
)

// volumes returns the EBS volumes of all accounts that have disks, and the snapshots that failed, with what is wrong
// with them. Root volumes of instances are among them only if something is.
func (r *Reporter) volumes(ctx context.Context) ([]admin.Volume, error) {
	rows, err := record.Volumes(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	disks, err := record.VolumeDisks(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	failures := map[string]string{}
	for _, row := range disks {
		failures[row.Key] = row.Value.Failure
	}
	var all []admin.Volume
	for _, row := range rows {
		v := row.Value
		if v.Diskless || v.OfImage && v.InstanceID != "" && failures[row.Key] == "" {
			continue
		}
		out := admin.Volume{Account: v.Account, Region: v.Region, ID: v.ID, Size: int64(v.Size) << 30,
			Type: string(v.Type), Instances: v.InstanceIDs()}
		if failure := failures[row.Key]; failure != "" {
			out.Issues = append(out.Issues, failure)
		}
		all = append(all, out)
	}
	contents, err := record.SnapshotDisks(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, row := range contents {
		if row.Value.Failure == "" {
			continue
		}
		snapshot, err := record.Snapshots(r.o.Store).Get(ctx, row.Key)
		if err != nil {
			continue // it is being deleted
		}
		s := snapshot.Value
		all = append(all, admin.Volume{Account: s.Account, Region: s.Region, ID: s.ID, Size: int64(s.VolumeSize) << 30,
			Type: "snapshot", Issues: []string{row.Value.Failure}})
	}
	return all, nil
}
