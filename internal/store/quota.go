package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Quota bounds what users have in the store. Zero fields have defaults.
type Quota struct {
	// PerAccount is the quota of the records of an account, in bytes; 256 MiB when 0.
	PerAccount int64
	// Total is the quota of all accounts together: with many, each may have its even part of it; 1 GiB when 0.
	Total int64
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// FullError reports that an account may not write: its rows, or what it has written within the last
// minutes, take all the space that it may have.
type FullError struct {
	Account string // empty for rows that are of no account
	Limit   int64  // bytes
	// Recent is set when it is the history of its rows that takes the space: time frees it.
	Recent bool
}

func (e *FullError) Error() string {
	who := "Account " + e.Account
	if e.Account == "" {
		who = "This installation"
	}
	if e.Recent {
		return fmt.Sprintf(
			"%s has written more than %d MiB of resource configuration within %d minutes: send fewer requests, and "+
				"try again later",
			who,
			e.Limit>>20,
			int(recently.Minutes()),
		)
	}
	return fmt.Sprintf(
		"%s has reached the quota of %d MiB for the configuration of its resources: delete some, such as old "+
			"parameters, launch template versions or log streams, and try again",
		who,
		e.Limit>>20,
	)
}

// limitedKey marks the context of a request whose writes are subject to the quota.
type limitedKey struct{}

// Limited returns a context whose writes fail with a [FullError] beyond the quota of the account that
// they add to. Others do not: controllers have to write what they observe.
func Limited(ctx context.Context) context.Context { return context.WithValue(ctx, limitedKey{}, true) }

// IsLimited reports whether the writes of a context are subject to the quota.
func IsLimited(ctx context.Context) bool { return ctx.Value(limitedKey{}) != nil }

// pacedKey marks the context of a controller whose writes count as what their account has written recently.
type pacedKey struct{}

// Paced returns a context whose writes fail with a [FullError] while the account that they add to has written too much
// recently: for a controller that writes as often as a user wants, and tries again later. What the account stores does
// not matter, so that it can be deleted.
func Paced(ctx context.Context) context.Context { return context.WithValue(ctx, pacedKey{}, true) }

// meterKey is of the meter that reads are counted by.
type meterKey struct{}

// meter counts what is read in a context.
type meter struct {
	count  func(bytes int64) error
	failed atomic.Pointer[error] // the first one
}

// Metered returns a context whose reads are counted: count is called with the size of what a list or a Get returns, in
// bytes of the store, before it is decoded. An error of count refuses the read. Since a caller may take it for another
// failure, such as that of a row that is not there, nothing is written in the context from then on, and [MeterError]
// returns it.
func Metered(ctx context.Context, count func(bytes int64) error) context.Context {
	return context.WithValue(ctx, meterKey{}, &meter{count: count})
}

// IsMetered reports whether the reads of a context are counted.
func IsMetered(ctx context.Context) bool { return ctx.Value(meterKey{}) != nil }

// Bounded returns a context whose reads fail beyond so many bytes, and are counted by the meter of ctx as well. It is
// for what anybody can have done who has signed no request, or whose requests no account is charged for.
func Bounded(ctx context.Context, most int64) context.Context {
	var read atomic.Int64
	return Metered(ctx, func(bytes int64) error {
		if read.Add(bytes) > most {
			return fmt.Errorf("it takes more than %d bytes of records, which is the most that is read for it", most)
		}
		return meterRead(ctx, bytes)
	})
}

// Unmetered returns a context whose reads are not counted: for rows that are not of the caller alone.
func Unmetered(ctx context.Context) context.Context { return context.WithValue(ctx, meterKey{}, nil) }

// MeterError returns the error with which a read of a metered context was refused, nil for none.
func MeterError(ctx context.Context) error {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		if err := m.failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}

func meterRead(ctx context.Context, bytes int64) error {
	m, ok := ctx.Value(meterKey{}).(*meter)
	if !ok {
		return nil
	}
	err := m.count(bytes)
	if err != nil {
		m.failed.CompareAndSwap(nil, &err)
	}
	return err
}

// recently is the longest time that etcd retains the history of a row: it compacts every five minutes what is
// older than five minutes.
const recently = 10 * time.Minute

// rowOverhead is the size of a record beyond its key and value, in etcd and in the mirror.
const rowOverhead = 256

func rowSize(key string, value []byte) int64 { return int64(len(key) + len(value) + rowOverhead) }

// accountOf returns the account that a row is charged to: the one that its key begins with, table/ACCOUNT/..., or, in
// tables whose keys are unique among all accounts, the one that its Account field names. It returns "" for the rows of
// the daemon itself.
func accountOf(key string, value []byte) string {
	_, rest, _ := strings.Cut(key, "/")
	if account, _, _ := strings.Cut(rest, "/"); isAccount(account) {
		return account
	}
	var row struct{ Account string }
	// A row that is no object, or has no such field, is no account's.
	if err := json.Unmarshal(value, &row); err != nil || !isAccount(row.Account) {
		return ""
	}
	return row.Account
}

func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

// usage counts the bytes of accounts.
type usage struct {
	quota Quota

	mu      sync.Mutex
	stored  map[string]int64 // by account
	pending map[string]int64 // by account: writes under way, as far as they add
	written map[string]*[minutes]minute
}

// minute counts the bytes that were written within one minute.
type minute struct {
	number int64 // since 1970
	bytes  int64
}

const minutes = int(recently / time.Minute)

func newUsage(q Quota) *usage {
	if q.PerAccount == 0 {
		q.PerAccount = 256 << 20
	}
	if q.Total == 0 {
		q.Total = 1 << 30
	}
	if q.Now == nil {
		q.Now = time.Now
	}
	return &usage{
		quota: q, stored: map[string]int64{}, pending: map[string]int64{}, written: map[string]*[minutes]minute{},
	}
}

// replace counts a row that replaces another in the mirror; either may be nil.
func (u *usage) replace(key string, old, now *entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old != nil {
		u.store(old.account, -rowSize(key, old.raw))
	}
	if now != nil {
		u.store(now.account, rowSize(key, now.raw))
	}
}

// store adds bytes to what an account stores. It is called with mu held.
func (u *usage) store(account string, bytes int64) {
	if u.stored[account] += bytes; u.stored[account] == 0 {
		delete(u.stored, account)
	}
}

// accountLimit returns how much an account may store. It is called with mu held.
func (u *usage) accountLimit(account string) int64 {
	if account == "" {
		return u.quota.PerAccount
	}
	accounts := int64(len(u.stored))
	if _, ok := u.stored[""]; ok {
		accounts--
	}
	return min(u.quota.PerAccount, u.quota.Total/max(accounts, 1))
}

// change is the change that a transaction makes to the rows of one account.
type change struct {
	added   int64 // bytes, net
	written int64 // bytes
	creates bool  // a row
	changes bool  // a row that is there
}

// admitChanges refuses changes that are too much, and counts others until done is called. What is written
// in a transaction that fails counts, too: it may have been carried out.
//
// With paced, what an account stores does not matter, and what it has written recently does even if it adds nothing.
func (u *usage) admitChanges(changes map[string]change, paced bool) (done func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.quota.Now().Unix() / 60
	for account, c := range changes {
		limit := u.accountLimit(account)
		full := limit
		if !c.creates || c.changes {
			// A resource can still be changed, for it to be deleted: that begins with its new state.
			full += limit / 16
		}
		if !paced && c.added > 0 && u.stored[account]+u.pending[account]+c.added > full {
			return nil, &FullError{Account: account, Limit: limit}
		}
		if recent := u.recentBytes(account, now); (c.added >= 0 || paced) && recent+c.written > limit {
			return nil, &FullError{Account: account, Limit: limit, Recent: true}
		}
	}
	for account, c := range changes {
		u.pending[account] += max(c.added, 0)
		if u.written[account] == nil {
			u.written[account] = &[minutes]minute{}
		}
		m := &u.written[account][now%int64(minutes)]
		if m.number != now {
			*m = minute{number: now}
		}
		m.bytes += c.written
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for account, c := range changes {
			if u.pending[account] -= max(c.added, 0); u.pending[account] == 0 {
				delete(u.pending, account)
			}
		}
	}, nil
}

// recentBytes returns what an account has written recently. It is called with mu held.
func (u *usage) recentBytes(account string, now int64) (bytes int64) {
	if u.written[account] == nil {
		return 0
	}
	for _, m := range u.written[account] {
		if now-m.number < int64(minutes) {
			bytes += m.bytes
		}
	}
	return bytes
}

// admitOps checks the ops of a limited context against the quota.
func (s *Store) admitOps(ctx context.Context, ops []Op) (done func(), err error) {
	limited := IsLimited(ctx)
	if !limited && ctx.Value(pacedKey{}) == nil {
		return func() {}, nil
	}
	changes := map[string]change{}
	s.mu.RLock()
	for _, o := range ops {
		if o.put == nil && !o.del {
			continue
		}
		old, ok := s.rows.Get(o.key)
		if ok {
			c := changes[old.account]
			c.added -= rowSize(o.key, old.raw)
			c.changes = true
			changes[old.account] = c
		}
		if o.put != nil {
			account, size := accountOf(o.key, o.put), rowSize(o.key, o.put)
			c := changes[account]
			c.added += size
			c.written += size
			c.creates = c.creates || !ok
			changes[account] = c
		}
	}
	s.mu.RUnlock()
	return s.usage.admitChanges(changes, !limited)
}
