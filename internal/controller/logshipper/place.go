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

// place is how far the logs of a cluster have been shipped: one mark of the store of log events, which
// changes in the same atomic write as the events.
type place struct {
	// On are the types that are shipped. It follows Cluster.LoggingTypes: a type is On from the moment at
	// which it was taken over.
	On []ekstypes.LogType
	// Dir is the directory of the files. Another one, as after the restoration of a backup, holds other files.
	Dir fileID
	// Boot is the machine's boot ID when it was written; see shipment.check.
	Boot  string
	Files []filePlace
}

// filePlace is how far one file has been shipped. A file of a type that is On and has none is shipped
// from its beginning.
type filePlace struct {
	fileID
	// Name is what the file was called when it was last looked at.
	Name   string
	Offset int64
	// Done is set once a file that was put aside is shipped to its end, or not wanted. It is deleted then.
	Done bool `json:",omitempty"`
}

// marks is how the keys of the marks begin; a cluster's ID follows.
const marks = "control-plane-logs/"

// loadPlace reads the place of a cluster. A cluster that is seen for the first time is shipped from the first
// line of its components, for the types with which it was created.
func (c *Controller) loadPlace(cluster record.Cluster) (p *place, stored bool, err error) {
	value, err := c.o.Events.Mark(marks + cluster.ID)
	if err != nil {
		return nil, false, fmt.Errorf("how far the logs of cluster %s were shipped: %w", cluster.Name, err)
	}
	if value == nil {
		return &place{On: slices.Clone(cluster.LoggingTypes)}, false, nil
	}
	p = &place{}
	if err := json.Unmarshal(value, p); err != nil {
		return nil, false, fmt.Errorf("how far the logs of cluster %s were shipped: %w", cluster.Name, err)
	}
	return p, true, nil
}

func (p *place) encodeJSON() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and strings always marshal
	}
	return b
}

func (p *place) deepCopy() *place {
	q := *p
	q.On, q.Files = slices.Clone(p.On), slices.Clone(p.Files)
	return &q
}

func (p *place) equal(q *place) bool {
	return p.Dir == q.Dir && slices.Equal(p.On, q.On) && slices.Equal(p.Files, q.Files)
}

// ensureFilePlace is the place in a file, made at the beginning when there is none.
func (p *place) ensureFilePlace(f *file) *filePlace {
	i := slices.IndexFunc(p.Files, func(g filePlace) bool { return g.matches(f) })
	if i < 0 {
		i = len(p.Files)
		p.Files = append(p.Files, filePlace{fileID: f.fileID, Name: f.name})
	}
	p.Files[i].Name = f.name
	return &p.Files[i]
}

// matches reports whether it is the place in that file. Where births are not known, a file that was deleted and another
// that has got its inode must not be taken for one another.
func (g filePlace) matches(f *file) bool {
	return g.fileID == f.fileID && (f.Born != 0 || !g.Done || g.Name == f.name)
}

// removeOffsets removes the places of clusters that are gone.
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
		delete(c.planes, id)
		c.mu.Unlock()
	}
	return c.o.Events.SetMarks(all)
}
