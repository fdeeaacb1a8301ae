package clusterinsight

import (
	"context"
	"reflect"
	"slices"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxUnwritten is how much of an audit log is read without a note of it in the store: after a restart it is read again.
const maxUnwritten = 8 << 20

// latest returns the insights of a cluster as the last pass made them, for this pass to change: those in the store, the
// row before, unless later ones are not worth writing yet. Those are forgotten until save has them again, so that a
// pass that fails in between counts nothing twice.
func (c *Controller) latest(
	ctx context.Context, key, clusterID string, before store.Row[record.Insights],
) (store.Row[record.Insights], error) {
	c.mu.Lock()
	row, kept := c.unwritten[key]
	delete(c.unwritten, key)
	c.mu.Unlock()
	switch {
	case kept && row.Revision == before.Revision && row.Value.ClusterID == clusterID:
		return row, nil
	case before.Revision == 0 || before.Value.ClusterID != clusterID:
		return store.Row[record.Insights]{
			Key: key, Revision: before.Revision, Value: record.Insights{ClusterID: clusterID},
		}, nil
	}
	return c.insights.Copy(ctx, key) // what is compared must share nothing with what is changed
}

// save writes insights if they are worth it, and keeps them for the next pass otherwise. Users decide how often they
// change, and with which texts.
func (c *Controller) save(ctx context.Context, before, row store.Row[record.Insights], asked bool) error {
	var err error
	if row.Revision == 0 {
		_, err = c.insights.Create(store.Paced(ctx), row.Key, row.Value)
	} else if worthWriting(before.Value, row.Value, asked) {
		_, err = c.insights.Update(store.Paced(ctx), row)
	} else {
		c.deferWrite(row)
	}
	if err != nil {
		c.deferWrite(row) // and are dropped where another daemon has written others
	}
	return err
}

func (c *Controller) deferWrite(row store.Row[record.Insights]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwritten[row.Key] = row
}

// worthWriting reports whether insights differ by more than the times of the pass and some bytes of the audit log. The
// requests that have been counted are written once in a pause, and when a user asked for them.
func worthWriting(before, after record.Insights, asked bool) bool {
	var progress int64
	for id, offset := range after.AuditOffsets {
		progress += max(0, offset-before.AuditOffsets[id])
	}
	age := after.CheckedAt.Sub(before.CheckedAt)
	switch {
	case progress > maxUnwritten || age >= stale || !reflect.DeepEqual(uncounted(before), uncounted(after)):
		return true
	case age >= pause || asked:
		return !reflect.DeepEqual(before.Deprecated, after.Deprecated)
	}
	return false
}

// uncounted returns what is worth writing at once if it changes.
func uncounted(in record.Insights) record.Insights {
	in = record.Insights{ClusterID: in.ClusterID, Checks: slices.Clone(in.Checks), Kubelets: in.Kubelets,
		Proxies: in.Proxies}
	for i := range in.Checks {
		in.Checks[i].APIs = nil
	}
	return in
}
