package status

import (
	"context"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/record"
)

// fileSystems returns the EFS file systems of all accounts, with their mount targets and what is wrong with them.
func (r *Reporter) fileSystems(ctx context.Context) ([]admin.FileSystem, error) {
	rows, err := record.FileSystems(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	list, err := record.FileSystemContents(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	contents := map[string]record.FileSystemContent{}
	for _, row := range list {
		contents[row.Key] = row.Value
	}
	targets, err := record.MountTargets(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	observed, err := record.MountTargetStatuses(r.o.Store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	statuses := map[string]record.MountTargetStatus{}
	for _, row := range observed {
		statuses[row.Key] = row.Value
	}
	all := make([]admin.FileSystem, 0, len(rows))
	index := map[string]int{}
	for i, row := range rows {
		f, content := row.Value, contents[row.Key]
		out := admin.FileSystem{Account: f.Account, Region: f.Region, ID: f.ID, Name: f.Tags["Name"], Size: content.Size,
			State: string(f.State(content))}
		if content.Failure != "" {
			out.Issues = append(out.Issues, content.Failure)
		}
		all, index[row.Key] = append(all, out), i
	}
	for _, row := range targets {
		m := row.Value
		i, known := index[record.FileSystemKey(m.Account, m.Region, m.FileSystemID)]
		if !known {
			continue
		}
		all[i].Addresses = append(all[i].Addresses, m.IPAddress)
		if failure := statuses[row.Key].Failure; failure != "" {
			all[i].Issues = append(all[i].Issues, "mount target "+m.ID+": "+failure)
		}
	}
	return all, nil
}
