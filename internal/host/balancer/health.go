//go:build linux

package balancer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// initialInterval is the time between the first checks of a target, until it has passed one.
const initialInterval = 500 * time.Millisecond

// mostInitialChecks bounds how often a target that has not passed one is checked in this interval.
const mostInitialChecks = 120

// mostChecking bounds how many targets of a pool are checked at a time.
const mostChecking = 32

// maxAnswerHeader bounds the header of the answer to a check. Decoded, a header of many short fields takes some twenty
// times as much of the daemon's memory, and hundreds are read at a time.
const maxAnswerHeader = 8 << 10

// check is what is known of a target beside its record.
type check struct {
	registered time.Time
	state      record.TargetState
	next       time.Time
	passed     int // checks in a row
	failed     int
	healthy    bool // it has been once
}

// reconcileHealth checks those targets of a pool whose turn it is, and records what it has found. The key is that of
// the TargetHealth.
func (c *Controller) reconcileHealth(ctx context.Context, key string) (reconcile.Result, error) {
	pool, user, err := c.reader.Pool(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, c.forget(ctx, key)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	observed, err := c.healths.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	known := observed.Value.Targets
	if observed.Value.Owner != pool.Owner {
		known = nil
	}
	checks := c.checksOf(key, pool, known)
	if user == nil { // nothing leads to it
		return reconcile.Result{After: time.Minute}, c.record(ctx, key, pool, observed, map[string]record.TargetState{})
	}
	c.checkDue(ctx, user.Namespace(), pool, checks)
	states, after := map[string]record.TargetState{}, time.Duration(0)
	for name, one := range checks {
		states[name] = one.state
		if wait := max(time.Until(one.next), time.Millisecond); after == 0 || wait < after {
			after = wait
		}
	}
	return reconcile.Result{After: after}, c.record(ctx, key, pool, observed, states)
}

// forget deletes what is known of a pool that has gone.
func (c *Controller) forget(ctx context.Context, key string) error {
	c.mu.Lock()
	delete(c.checks, key)
	delete(c.recorded, key)
	c.mu.Unlock()
	if _, err := c.healths.Get(ctx, key); errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	if err := c.o.Store.Txn(ctx, c.healths.RemoveOp(key)); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// checksOf returns the checks of the targets of a pool. One pass at a time works on a key.
func (c *Controller) checksOf(key string, pool balancing.Pool, known map[string]record.TargetState,
) map[string]*check {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := c.checks[key], map[string]*check{}
	for _, m := range pool.Members {
		if !m.Deregistered.IsZero() {
			continue
		}
		one := before[m.Name]
		if one == nil || !one.registered.Equal(m.RegisteredAt) {
			one = &check{registered: m.RegisteredAt, state: record.TargetState{
				RegisteredAt: m.RegisteredAt, State: record.TargetInitial, Reason: "Elb.RegistrationInProgress",
				Description: "Target registration is in progress"}}
			if was, ok := known[m.Name]; ok && was.RegisteredAt.Equal(m.RegisteredAt) {
				one.state = was // the daemon has started since
			}
		}
		now[m.Name] = one
	}
	c.checks[key] = now
	return now
}

// checkDue checks the targets whose turn it is.
func (c *Controller) checkDue(ctx context.Context, namespace string, pool balancing.Pool, checks map[string]*check) {
	var running sync.WaitGroup
	places := make(chan struct{}, mostChecking)
	now := time.Now()
	for _, m := range pool.Members {
		one := checks[m.Name]
		if one == nil || one.next.After(now) {
			continue
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			var found error
			if err := recovery.Try(func() error { found = c.probe(ctx, namespace, pool, m); return nil }); err != nil {
				found = err
			}
			if ctx.Err() == nil {
				one.observe(pool.Check, found, time.Now())
			}
		})
	}
	running.Wait()
}

// observe takes the outcome of a check. A target that has not passed one yet needs one to be healthy, as those of
// Network Load Balancers do.
func (o *check) observe(settings record.HealthCheck, outcome error, now time.Time) {
	interval := time.Duration(settings.Interval) * time.Second
	if outcome == nil {
		o.passed, o.failed = o.passed+1, 0
	} else {
		o.passed, o.failed = 0, o.failed+1
	}
	first := o.state.State == record.TargetInitial
	switch {
	case outcome == nil && (first || o.passed >= int(settings.HealthyThreshold)):
		if o.state.State != record.TargetHealthy {
			o.state.HealthySince = now.UTC()
		}
		o.state.State, o.state.Reason, o.state.Description = record.TargetHealthy, "", ""
	case outcome != nil && (o.failed >= int(settings.UnhealthyThreshold) || o.state.State == record.TargetUnhealthy):
		o.state.State, o.state.HealthySince = record.TargetUnhealthy, time.Time{}
		o.state.Reason, o.state.Description = explain(outcome)
	}
	o.healthy = o.healthy || o.state.State == record.TargetHealthy
	// One that comes up gets its first traffic soon, without a check every half second of one that never does.
	if !o.healthy && o.failed < mostInitialChecks {
		interval = min(interval, initialInterval)
	}
	o.next = now.Add(interval)
}

// statusError is an answer with a status that the health check does not accept.
type statusError int

func (s statusError) Error() string {
	return fmt.Sprintf("Health checks failed with these codes: [%d]", int(s))
}

var errUnaddressed = errors.New("the instance has no network interface")

// explain returns why a target is unhealthy, in the words of the API.
func explain(err error) (reason, description string) {
	var status statusError
	var network net.Error
	switch {
	case errors.As(err, &status):
		return "Target.ResponseCodeMismatch", status.Error()
	case errors.Is(err, errUnaddressed):
		return "Target.InvalidState", "Target is in the stopped or terminated state"
	case errors.As(err, &network) && network.Timeout():
		return "Target.Timeout", "Request timed out"
	}
	return "Target.FailedHealthChecks", "Health checks failed"
}

// probe checks a target once.
func (c *Controller) probe(ctx context.Context, namespace string, pool balancing.Pool, m balancing.Member) error {
	if !m.Address.IsValid() {
		return errUnaddressed
	}
	settings := pool.Check
	ctx, cancel := context.WithTimeout(ctx, time.Duration(settings.Timeout)*time.Second)
	defer cancel()
	at := m.Address
	if settings.Port != 0 {
		at = netip.AddrPortFrom(at.Addr(), uint16(settings.Port))
	}
	dial := func(dialing context.Context, _, _ string) (net.Conn, error) {
		conn, err := c.o.Network.Dial(dialing, namespace, "tcp", at.String())
		if err == nil {
			// Also while net/http or TLS waits for the target to take something, which no context ends.
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
	if settings.Protocol != "HTTP" && settings.Protocol != "HTTPS" {
		conn, err := dial(ctx, "", "")
		if err != nil {
			return err
		}
		return conn.Close()
	}
	secure, most := unverified.Clone(), time.Duration(settings.Timeout)*time.Second
	if pool.Version == "HTTP2" || pool.Version == "GRPC" {
		secure.NextProtos = []string{"h2"}
	}
	transport := &http.Transport{DialContext: dial, DialTLSContext: handshake.Dialer(dial, secure, most),
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswerHeader}
	// Connections of HTTP/2 do not end by themselves.
	defer transport.CloseIdleConnections()
	if pool.Version == "HTTP2" || pool.Version == "GRPC" {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	client := http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	method, body := http.MethodGet, io.Reader(nil)
	if pool.Version == "GRPC" {
		method, body = http.MethodPost, bytes.NewReader(make([]byte, 5)) // one empty message
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.ToLower(settings.Protocol)+"://"+at.String()+
		settings.Path, body)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "ELB-HealthChecker/2.0")
	if pool.Version == "GRPC" {
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("Te", "trailers")
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)); err != nil {
		return err
	}
	if pool.Version == "GRPC" {
		return checkGRPC(settings.Matcher, answer)
	}
	if !matches(settings.Matcher, answer.StatusCode) {
		return statusError(answer.StatusCode)
	}
	return nil
}

// checkGRPC checks the gRPC status of an answer that has been read. One without a message has it among the headers.
func checkGRPC(matcher string, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return statusError(answer.StatusCode)
	}
	text := cmp.Or(answer.Trailer.Get("Grpc-Status"), answer.Header.Get("Grpc-Status"))
	status, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("the target answers without a gRPC status: %q", text)
	}
	if !matches(matcher, status) {
		return statusError(status)
	}
	return nil
}

// matches reports whether a status is one that a matcher names: "200", "200,202" or "200-399". Without one it is 200.
func matches(matcher string, status int) bool {
	if matcher == "" {
		return status == http.StatusOK
	}
	for part := range strings.SplitSeq(matcher, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil && first <= status && status <= last {
			return true
		}
	}
	return false
}

// reasonPace is the time for each target of a pool in which the reasons of its targets are written once: they may
// change with each check, and the states of all are written with them.
const reasonPace = 10 * time.Millisecond

// record writes what was found where it has changed.
func (c *Controller) record(ctx context.Context, key string, pool balancing.Pool,
	before store.Row[record.TargetHealth], states map[string]record.TargetState) error {
	same := before.Value.Owner == pool.Owner &&
		maps.EqualFunc(before.Value.Targets, states, func(a, b record.TargetState) bool {
			return a.State == b.State && a.Reason == b.Reason && a.RegisteredAt.Equal(b.RegisteredAt)
		})
	if same {
		return nil
	}
	sameStates := before.Value.Owner == pool.Owner &&
		maps.EqualFunc(before.Value.Targets, states, func(a, b record.TargetState) bool {
			return a.State == b.State && a.RegisteredAt.Equal(b.RegisteredAt)
		})
	c.mu.Lock()
	soon := time.Since(c.recorded[key]) < time.Duration(len(states))*reasonPace
	c.mu.Unlock()
	if sameStates && soon {
		return nil // a later pass writes them
	}
	// Targets choose how often this is written.
	_, err := c.healths.Put(store.Paced(ctx), key, record.TargetHealth{Owner: pool.Owner, Targets: states})
	crashChecked.Here()
	var full *store.FullError
	if errors.As(err, &full) {
		return nil // what was found is kept, and is written by a pass that may
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorded[key] = time.Now()
	return err
}
