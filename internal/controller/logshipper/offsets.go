package logshipper

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// offsets records how far the logs of a cluster have been shipped: one mark of the store of log events, which
// changes in the same atomic write as the events.
type offsets struct {
	// On are the types that are shipped. It follows Cluster.LoggingTypes: a type is On from the moment at
	// which it was taken over.
	On []ekstypes.LogType
	// Dir is the directory of the files. Another one, as after the restoration of a backup, holds other files.
	Dir fileID
	// Boot is the host's boot ID when it was written; see shipment.checkOffsets.
	Boot  string
	Files []fileOffset
}

// fileOffset records how far one file has been shipped. A file of a type that is On and has none is shipped
// from its beginning.
type fileOffset struct {
	fileID
	// Name is the name that the file had in the last reconcile pass.
	Name   string
	Offset int64
	// Done is set once a file that was put aside is shipped to its end, or not wanted. It is deleted then.
	Done bool `json:",omitempty"`
}

// marks is the prefix of the keys of offsets in the store of log events; the cluster's ID follows.
const marks = "control-plane-logs/"

// loadOffsets reads the offsets of a cluster. A cluster that is seen for the first time is shipped from the first
// line of its components, for the types with which it was created.
func (c *Controller) loadOffsets(cluster record.Cluster) (p *offsets, stored bool, err error) {
	value, err := c.o.Events.Mark(marks + cluster.ID)
	if err != nil {
		return nil, false, fmt.Errorf("how far the logs of cluster %s were shipped: %w", cluster.Name, err)
	}
	if value == nil {
		return &offsets{On: slices.Clone(cluster.LoggingTypes)}, false, nil
	}
	p = &offsets{}
	if err := json.Unmarshal(value, p); err != nil {
		return nil, false, fmt.Errorf("how far the logs of cluster %s were shipped: %w", cluster.Name, err)
	}
	return p, true, nil
}

func (p *offsets) encodeJSON() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and strings always marshal
	}
	return b
}

func (p *offsets) deepCopy() *offsets {
	q := *p
	q.On, q.Files = slices.Clone(p.On), slices.Clone(p.Files)
	return &q
}

func (p *offsets) equal(q *offsets) bool {
	return p.Dir == q.Dir && slices.Equal(p.On, q.On) && slices.Equal(p.Files, q.Files)
}

// ensureFileOffset returns the offset in a file, and adds one at its beginning when there is none.
func (p *offsets) ensureFileOffset(f *file) *fileOffset {
	i := slices.IndexFunc(p.Files, func(g fileOffset) bool { return g.matches(f) })
	if i < 0 {
		i = len(p.Files)
		p.Files = append(p.Files, fileOffset{fileID: f.fileID, Name: f.name})
	}
	p.Files[i].Name = f.name
	return &p.Files[i]
}

// matches reports whether it is the offset in that file. Where births are not known, a file that was deleted and
// another that has got its inode must not be taken for one another.
func (g fileOffset) matches(f *file) bool {
	return g.fileID == f.fileID && (f.Born != 0 || !g.Done || g.Name == f.name)
}

// removeOffsets removes the offsets of clusters that are gone.
func (c *Controller) removeOffsets(ctx context.Context) error {
	// What there is must be at least as old as the clusters that it is compared with.
	all, err := c.o.Events.Marks(marks)
	if err != nil {
		return err
	}
	rows, err := c.clusters.List(ctx, "")
	if err != nil {
		return err
	}
	for _, r := range rows {
		delete(all, marks+r.Value.ID)
	}
	if len(all) == 0 {
		return nil
	}
	for key := range all {
		all[key] = nil
		id := strings.TrimPrefix(key, marks)
		c.watch.unwatchDirectory(c.logDirectory(id))
		c.mu.Lock()
		delete(c.states, id)
		c.mu.Unlock()
	}
	return c.o.Events.SetMarks(all)
}
