package cloudtrail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
)

// Bounds of what is recorded, for each class of the events of an account.
const (
	// retention is how long an event is kept at most.
	// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/view-cloudtrail-events.html
	retention = 90 * 24 * time.Hour
	// principalRate is how many bytes a second a principal may add in the long run, principalBurst how many at once, and
	// accountRate and accountBurst the same for all principals of an account.
	principalRate, principalBurst = 32 << 10, 2 << 20
	accountRate, accountBurst     = 128 << 10, 8 << 20
	// leastEvent is the size that an event counts at least, in bytes.
	leastEvent = 1 << 10
	// maxPending is the size of events of an account that wait to be written, in bytes, and maxAllPending of all.
	maxPending, maxAllPending = 2 << 20, 16 << 20
)

// mostStored is the size of the events of a class that an account keeps, in bytes before compression. The oldest go
// first.
var mostStored = [classes]int64{change: 128 << 20, refusal: 64 << 20, read: 64 << 20}

// delay is how long an event waits for others to be written with it, unless somebody looks for it.
const delay = time.Second

// upkeepInterval is how often events that are too old are deleted.
const upkeepInterval = time.Hour

// Options configures a History.
type Options struct {
	Events *events.Store
	Now    func() time.Time // time.Now unless set
	Log    *slog.Logger     // slog.Default() unless set
}

// History is the event history of all accounts. It is safe for concurrent use.
type History struct {
	events     *events.Store
	now        func() time.Time
	log        *slog.Logger
	principals *limiters // bytes, by account, class and principal
	accounts   *limiters // bytes, by account and class

	mu      sync.Mutex
	pending map[events.GroupID][]events.Event
	waiting map[string]int64 // bytes of each account that are pending
	all     int64            // bytes of all

	wake  chan struct{}
	write sync.Mutex // held by who writes
	lost  bool       // the last write failed, which the log says; of who writes
}

// NewHistory returns the history that a store of log events has. Run keeps it.
func NewHistory(o Options) *History {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &History{events: o.Events, now: o.Now, log: o.Log,
		principals: newLimiters(principalRate, principalBurst), accounts: newLimiters(accountRate, accountBurst),
		pending: map[events.GroupID][]events.Event{}, waiting: map[string]int64{}, wake: make(chan struct{}, 1)}
}

// Record adds the event of a request that has been answered. It does not wait, and fails nobody: what is too much is
// dropped, and counted in the metrics of the daemon.
func (h *History) Record(a *wire.Answered) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("a request was not recorded in the event history", "request", a.RequestID, "panic", p,
				"stack", string(debug.Stack()))
		}
	}()
	c, ok := classOf(a)
	if !ok || amazonaccount.Is(a.Caller.Account) {
		return
	}
	if a.Caller.ARN != "" && !h.mayAdd(a.Caller.Account, c, a.Caller.PrincipalARN, leastEvent) {
		return // before any work is done for it
	}
	for _, e := range newEvents(a) {
		text, err := e.text()
		if err != nil {
			h.log.Error("a request was not recorded in the event history", "request", a.RequestID, "error", err)
			continue
		}
		account, principal, charged := e.record.RecipientAccountID, a.Caller.PrincipalARN, leastEvent
		if account != a.Caller.Account {
			principal, charged = "another account", 0
		}
		if !h.mayAdd(account, c, principal, len(text)-charged) {
			continue
		}
		h.add(account, c, events.Event{Stream: streamOf(e.Region), Timestamp: a.Time.UnixMilli(),
			Ingested: h.now().UnixMilli(), Message: text})
	}
}

// mayAdd takes room for an event from what its principal and its account may add.
func (h *History) mayAdd(account string, c class, principal string, bytes int) bool {
	if bytes <= 0 {
		return true
	}
	key := account + " " + c.String()
	if h.principals.allow(key+" "+principal, h.now(), bytes) && h.accounts.allow(key, h.now(), bytes) {
		return true
	}
	dropped.WithLabelValues(c.String()).Inc()
	return false
}

func (h *History) add(account string, c class, e events.Event) {
	size := int64(len(e.Message))
	h.mu.Lock()
	full := h.waiting[account]+size > maxPending || h.all+size > maxAllPending
	if !full {
		id := groupOf(account, c)
		h.pending[id] = append(h.pending[id], e)
		h.waiting[account] += size
		h.all += size
	}
	h.mu.Unlock()
	if full {
		dropped.WithLabelValues(c.String()).Inc()
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// groupOf returns the group of an account's events in the store of log events. Groups of the event history have the
// highest bit; the account has the lowest forty.
func groupOf(account string, c class) events.GroupID {
	number, err := strconv.ParseUint(account, 10, 40)
	if err != nil {
		panic(fmt.Sprintf("cloudtrail: %q is no account", account))
	}
	return events.Reserved | events.GroupID(c)<<40 | events.GroupID(number)
}

// streamOf returns the stream of a region's events: a hash (FNV-1a), by which others are passed over.
func streamOf(region string) events.StreamID {
	hash := uint64(14695981039346656037)
	for i := range len(region) {
		hash = (hash ^ uint64(region[i])) * 1099511628211
	}
	return events.StreamID(hash)
}

// Run writes events until ctx ends, and deletes those that are too old or too many.
func (h *History) Run(ctx context.Context) error {
	h.deleteOld()
	upkeep := time.NewTicker(upkeepInterval)
	defer upkeep.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-upkeep.C:
			h.deleteOld()
			continue
		case <-h.wake:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
		h.Flush()
	}
}

// Flush writes what was recorded. Once it returns, a reader sees it, and it is on the disk.
func (h *History) Flush() {
	h.write.Lock()
	defer h.write.Unlock()
	h.mu.Lock()
	pending := h.pending
	h.pending, h.waiting, h.all = map[events.GroupID][]events.Event{}, map[string]int64{}, 0
	h.mu.Unlock()
	var failed []error
	for id, list := range pending {
		if _, err := h.events.Append(context.Background(), events.Batch{Group: id, Events: list}); err != nil {
			failed = append(failed, err)
			dropped.WithLabelValues(classOfGroup(id).String()).Add(float64(len(list)))
			continue
		}
		if err := h.bound(id); err != nil {
			failed = append(failed, err)
		}
	}
	err := errors.Join(failed...)
	if err != nil && !h.lost {
		h.log.Warn("events of the event history are lost; CloudTrail's LookupEvents will not show them", "error", err)
	}
	if len(pending) > 0 {
		h.lost = err != nil
	}
}

func classOfGroup(id events.GroupID) class { return class(id >> 40 & 0xff) }

// bound deletes the oldest events of a group that has too many. It leaves room for a quarter more.
func (h *History) bound(id events.GroupID) error {
	most := mostStored[min(classOfGroup(id), classes-1)]
	excess := h.events.GroupStat(id).StoredBytes - most
	if excess <= 0 {
		return nil
	}
	excess += most / 4
	for e, err := range h.events.Events(context.Background(), id, events.Range{From: math.MinInt64, To: math.MaxInt64}) {
		if err != nil {
			return err
		}
		if excess -= int64(len(e.Message)); excess <= 0 {
			return h.events.Expire(id, e.Timestamp+1)
		}
	}
	return nil
}

// deleteOld deletes the events of all accounts that are older than the retention.
func (h *History) deleteOld() {
	before := h.now().Add(-retention).UnixMilli()
	for _, id := range h.events.Groups() {
		if id < events.Reserved || h.events.GroupStat(id).First >= before {
			continue
		}
		if err := h.events.Expire(id, before); err != nil && !errors.Is(err, events.ErrClosed) {
			h.log.Warn("old events of the event history are still there", "error", err)
		}
	}
}

// limiters are limiters by key, of which those used last are kept.
type limiters struct {
	rate  rate.Limit
	burst int

	mu    sync.Mutex
	known *lru.Cache[string, *rate.Limiter]
}

// maxLimiters is how many keys are remembered. Who has more of them begins with a full burst.
const maxLimiters = 4096

func newLimiters(perSecond rate.Limit, burst int) *limiters {
	known, _ := lru.New[string, *rate.Limiter](maxLimiters) // fails for sizes below 1 alone
	return &limiters{rate: perSecond, burst: burst, known: known}
}

func (l *limiters) allow(key string, now time.Time, n int) bool {
	l.mu.Lock()
	limiter, ok := l.known.Get(key)
	if !ok {
		limiter = rate.NewLimiter(l.rate, l.burst)
		l.known.Add(key, limiter)
	}
	l.mu.Unlock()
	return limiter.AllowN(now, n)
}
