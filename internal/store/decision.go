package store

import (
	"context"
	"sync"
)

// Decision is a decision that rows led to, such as that a caller may change what these rows describe. A write in its
// context is carried out only while the rows are as the decision read them; otherwise it is decided anew before the
// write. Nobody can change what is judged between the judgment and the deed.
//
// A decision holds the rows that it reads by [Table.Get] and [Table.Copy], and the absence of those that it looks for.
// It does not hold lists. Where it reads more rows than a transaction of etcd can compare, it holds the rest as of just
// before the write.
type Decision struct {
	decide func(context.Context) error

	mu       sync.Mutex
	read     *recording
	released bool
}

// recording is the set of records that a decision read.
type recording struct {
	mu        sync.Mutex
	revisions map[string]int64 // by key below the store's prefix; 0 for a row that did not exist
}

type (
	decisionKey  struct{} // of the context whose writes a decision holds for
	recordingKey struct{} // of the context whose reads a decision records
)

// Decide calls decide, whose context records the rows that it reads, and returns the context of the writes that depend
// on the decision. An error of decide refuses them, now or at the time of a write, which returns it.
func Decide(ctx context.Context, decide func(context.Context) error) (context.Context, *Decision, error) {
	d := &Decision{decide: decide}
	return context.WithValue(ctx, decisionKey{}, d), d, d.decideAnew(ctx)
}

// Release ends the decision: work that outlives the request which began it is no longer the caller's.
func (d *Decision) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released = true
}

// decideAnew decides by the rows as they are now. Until it has, writes depend on what was read before.
func (d *Decision) decideAnew(ctx context.Context) error {
	read := &recording{revisions: map[string]int64{}}
	if err := d.decide(context.WithValue(ctx, recordingKey{}, read)); err != nil {
		return err
	}
	if err := MeterError(ctx); err != nil { // what it read is not all that there is
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = read
	return nil
}

// recordRead records that a decision read a row at a revision, 0 for one that does not exist. The first read counts:
// when a later one differs, the decision is made anew.
func recordRead(ctx context.Context, key string, revision int64) {
	read, ok := ctx.Value(recordingKey{}).(*recording)
	if !ok {
		return
	}
	read.mu.Lock()
	defer read.mu.Unlock()
	if _, ok := read.revisions[key]; !ok {
		read.revisions[key] = revision
	}
}

// decisionOf returns the decision that writes in a context depend on, nil for none.
func decisionOf(ctx context.Context) *Decision {
	d, _ := ctx.Value(decisionKey{}).(*Decision)
	return d
}

// recorded returns what a decision read, nil when nothing depends on it (any more).
func (d *Decision) recorded() *recording {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released {
		return nil
	}
	return d.read
}

// checks returns what must hold for the decision to stand.
func (d *Decision) checks() []Op {
	read := d.recorded()
	if read == nil {
		return nil
	}
	read.mu.Lock()
	defer read.mu.Unlock()
	checks := make([]Op, 0, len(read.revisions))
	for key, revision := range read.revisions {
		check := Op{name: key, key: key, want: wantRevision, rev: revision}
		if revision == 0 {
			check.want = wantAbsent
		}
		checks = append(checks, check)
	}
	return checks
}

// recordWrite records what a transaction that depended on the decision made of the rows.
func (d *Decision) recordWrite(ops []Op, revision int64) {
	read := d.recorded()
	if read == nil {
		return
	}
	read.mu.Lock()
	defer read.mu.Unlock()
	for _, o := range ops {
		if _, ok := read.revisions[o.key]; !ok {
			continue
		}
		switch {
		case o.del:
			read.revisions[o.key] = 0
		case o.put != nil:
			read.revisions[o.key] = revision
		}
	}
}
