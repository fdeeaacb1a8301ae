//go:build linux

package balancer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	id      = "i-0123456789abcdef0"
)

// fakeNetwork is this host's: no namespace is there.
type fakeNetwork struct{}

func (fakeNetwork) Namespace(name string) string    { return "/run/" + name }
func (fakeNetwork) Identity(string) (uint64, error) { return 0, fs.ErrNotExist }
func (fakeNetwork) Dial(ctx context.Context, _, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

type fixture struct {
	*testing.T
	store *store.Store
	c     *Controller
}

func newFixture(t *testing.T, change ...func(*store.Options)) *fixture {
	t.Helper()
	o := store.Options{Prefix: storetest.Prefix(t), Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	s, err := store.Open(t.Context(), storetest.Client(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &fixture{t, s, New(Options{Store: s, Network: fakeNetwork{}, Log: slog.New(slog.DiscardHandler)})}
}

// run runs the controller of health until the test ends or stop is called.
func (f *fixture) run() (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), f.c.Controllers()[1]) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			f.Error(err)
		}
	}
	f.Cleanup(stop)
	return stop
}

// balancer records a Classic Load Balancer with an instance at an address.
func (f *fixture) balancer(address string, port int32, check record.HealthCheck) record.LoadBalancer {
	f.Helper()
	eni := record.NetworkInterface{EC2Resource: record.EC2Resource{Account: account, Region: region,
		ID: "eni-0123456789abcdef0"}, PrivateIPs: []string{address}, AvailabilityZone: region + "a",
		Attachment: &record.NetworkInterfaceAttachment{InstanceID: id}}
	_, err := record.NetworkInterfaces(f.store).Create(f.Context(), eni.Key(), eni)
	b := record.LoadBalancer{Account: account, Region: region, Kind: record.ClassicLoadBalancer, Name: "web", ID: "1",
		Listeners: []record.Listener{{Protocol: "TCP", Port: 80, InstanceProtocol: "TCP", InstancePort: port}},
		Zones:     []record.LoadBalancerZone{{Name: region + "a", PrivateIP: "10.0.0.20"}},
		Classic: &record.ClassicConfiguration{HealthCheck: check,
			Instances: []record.RegisteredInstance{{ID: id, RegisteredAt: time.Now().UTC()}}}}
	_, err2 := record.LoadBalancers(f.store).Create(f.Context(), b.Key(), b)
	if err := errors.Join(err, err2); err != nil {
		f.Fatal(err)
	}
	return b
}

func (f *fixture) await(b record.LoadBalancer, state, reason string) {
	f.Helper()
	eventually.Nil(f.T, "the instance is "+state, func() error {
		row, err := record.TargetHealths(f.store).Get(f.Context(), b.Key())
		if err != nil {
			return err
		}
		if got := row.Value.Targets[balancing.TargetName(id, 0)]; got.State != state || got.Reason != reason {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
}

// TestHealth follows an instance that answers, fails, and answers again, over a restart of the daemon, until its load
// balancer is deleted.
func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	b := f.balancer(at.Addr().String(), int32(at.Port()), record.HealthCheck{Protocol: "HTTP", Port: int32(at.Port()),
		Path: "/healthz", Interval: 1, Timeout: 1, HealthyThreshold: 2, UnhealthyThreshold: 2})
	stop := f.run()
	f.await(b, record.TargetUnhealthy, "Target.ResponseCodeMismatch")
	status.Store(http.StatusOK)
	f.await(b, record.TargetHealthy, "")
	stop()
	f.c = New(f.c.o)
	stop = f.run()
	pool, err := f.c.reader.Instances(t.Context(), b, 80)
	if err != nil || pool.Members[0].State != record.TargetHealthy {
		t.Errorf("after a restart: %+v, %v", pool, err)
	}
	status.Store(http.StatusInternalServerError)
	f.await(b, record.TargetUnhealthy, "Target.ResponseCodeMismatch")
	server.Close()
	f.await(b, record.TargetUnhealthy, "Target.FailedHealthChecks")
	if err := f.store.Txn(t.Context(), record.LoadBalancers(f.store).RemoveOp(b.Key())); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "what was observed goes", func() error {
		if _, err := record.TargetHealths(f.store).Get(t.Context(), b.Key()); !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	stop()
}

// TestHealthOfAnApplicationLoadBalancer has an Application Load Balancer as the target of a Network Load Balancer: it
// answers at one of its addresses, and then gets another.
func TestHealthOfAnApplicationLoadBalancer(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t), t.Context()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(server.Close)
	port := int32(netip.MustParseAddrPort(server.Listener.Addr().String()).Port())
	application := record.LoadBalancer{Account: account, Region: region, Kind: record.ApplicationLoadBalancer, Name: "app",
		ID: "1", Zones: []record.LoadBalancerZone{{Name: region + "a", PrivateIP: "127.0.0.1"},
			{Name: region + "b", PrivateIP: "127.0.0.2"}}}
	network := record.LoadBalancer{Account: account, Region: region, Kind: record.NetworkLoadBalancer, Name: "net",
		ID: "2", Listeners: []record.Listener{{ID: "l", Protocol: "TCP", Port: 80, TargetGroup: "front"}}}
	group := record.TargetGroup{Account: account, Region: region, Name: "front", ID: "3", Protocol: "TCP", Port: 80,
		TargetType: "alb", LoadBalancer: "net", Targets: []record.Target{{ID: application.ARN(), Port: port,
			RegisteredAt: time.Now().UTC()}}, HealthCheck: record.HealthCheck{Protocol: "HTTP", Path: "/",
			Matcher: "200-399", Interval: 300, Timeout: 5, HealthyThreshold: 5, UnhealthyThreshold: 2}}
	_, err1 := record.LoadBalancers(f.store).Create(ctx, application.Key(), application)
	_, err2 := record.LoadBalancers(f.store).Create(ctx, network.Key(), network)
	_, err3 := record.TargetGroups(f.store).Create(ctx, group.Key(), group)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	f.run()
	await := func(want map[string]string) {
		t.Helper()
		eventually.Nil(t, fmt.Sprint("the addresses are ", want), func() error {
			row, err := record.TargetHealths(f.store).Get(ctx, group.TargetHealthKey())
			if err != nil {
				return err
			}
			got := map[string]string{}
			for name, state := range row.Value.Targets {
				got[name] = state.State
			}
			if !maps.Equal(got, want) {
				return fmt.Errorf("they are %v", got)
			}
			return nil
		})
	}
	name := func(address string) string { return balancing.TargetName(address, port) }
	await(map[string]string{name("127.0.0.1"): record.TargetHealthy, name("127.0.0.2"): record.TargetUnhealthy})
	application.Zones[1].PrivateIP = "127.0.0.3"
	other := httptest.NewUnstartedServer(server.Config.Handler)
	other.Listener.Close()
	var err error
	if other.Listener, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.3:%d", port)); err != nil {
		t.Fatal(err)
	}
	other.Start()
	t.Cleanup(other.Close)
	if _, err := record.LoadBalancers(f.store).Put(ctx, application.Key(), application); err != nil {
		t.Fatal(err)
	}
	await(map[string]string{name("127.0.0.1"): record.TargetHealthy, name("127.0.0.3"): record.TargetHealthy})
}

// TestTargetsThatChangeWriteAsMuchAsTheirAccountMay has a thousand targets that change with each check: their state, or
// the reason of it alone.
func TestTargetsThatChangeWriteAsMuchAsTheirAccountMay(t *testing.T) {
	t.Parallel()
	const quota = 1 << 20
	var later atomic.Int64
	f := newFixture(t, func(o *store.Options) {
		o.Quota = store.Quota{PerAccount: quota, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}
	})
	healths, key := record.TargetHealths(f.store),
		record.TargetGroup{Account: account, Region: region, Name: "web"}.TargetHealthKey()
	states := map[string]record.TargetState{}
	change := func(state, reason string) (recorded bool) {
		for i := range 1000 {
			states[fmt.Sprint(i)] = record.TargetState{State: state, Reason: reason}
		}
		before, err := healths.Get(t.Context(), key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if err := f.c.record(t.Context(), key, balancing.Pool{Key: key}, before, states); err != nil {
			t.Fatal(err)
		}
		row, err := healths.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return row.Value.Targets["0"].Reason == reason
	}
	if !change(record.TargetUnhealthy, "first") || change(record.TargetUnhealthy, "second") {
		t.Error("reasons are written with each check")
	}
	written := 0
	for change([]string{record.TargetHealthy, record.TargetUnhealthy}[written%2], fmt.Sprint("reason-", written)) {
		if written++; written > quota>>10 {
			t.Fatal("targets write without end")
		}
	}
	if written == 0 {
		t.Error("nothing is written")
	}
	later.Store(int64(time.Hour))
	if !change(record.TargetInitial, "later") {
		t.Error("nothing is written later")
	}
}

// TestAnswersToChecksAreBounded has a target that answers a check with a long header, or a long certificate.
func TestAnswersToChecksAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var fields atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range fields.Load() {
			w.Header().Set(fmt.Sprintf("A%d", i), "")
		}
	}))
	t.Cleanup(server.Close)
	probe := func(protocol string, server *httptest.Server) error {
		return f.c.probe(t.Context(), "",
			balancing.Pool{Check: record.HealthCheck{Protocol: protocol, Path: "/", Timeout: 60}},
			balancing.Member{Address: netip.MustParseAddrPort(server.Listener.Addr().String())})
	}
	fields.Store(100)
	if err := probe("HTTP", server); err != nil {
		t.Errorf("a target with a usual header is not healthy: %v", err)
	}
	fields.Store(5000)
	if err := probe("HTTP", server); err == nil {
		t.Error("the whole of a long header has been read")
	}
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.StartTLS()
	t.Cleanup(secure.Close)
	if err := probe("HTTPS", secure); err != nil {
		t.Errorf("a target with a usual certificate is not healthy: %v", err)
	}
	chain := &secure.TLS.Certificates[0].Certificate
	*chain = append(*chain, make([]byte, handshake.MostOfServer))
	if err := probe("HTTPS", secure); !errors.Is(err, handshake.ErrLong) {
		t.Errorf("a long certificate: %v", err)
	}
}

// TestChecksEnd has a target that begins its answer on HTTP/2, asks for more answers than the connection holds, and
// takes none.
func TestChecksEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	closed := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			closed <- err
			return
		}
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			closed <- err
			return
		}
		framer := http2.NewFramer(conn, conn)
		for err = framer.WriteSettings(); err == nil; {
			var frame http2.Frame
			if frame, err = framer.ReadFrame(); err == nil && frame.Header().Type == http2.FrameHeaders {
				break
			}
		}
		var header bytes.Buffer
		err = errors.Join(err, hpack.NewEncoder(&header).WriteField(hpack.HeaderField{Name: ":status", Value: "200"}),
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true}))
		for err == nil {
			err = framer.WritePing(false, [8]byte{}) // until the other side has closed the connection
		}
		closed <- err
	}()
	err = f.c.probe(t.Context(), "", balancing.Pool{Version: "HTTP2",
		Check: record.HealthCheck{Protocol: "HTTP", Path: "/", Timeout: 1, Matcher: "200"}},
		balancing.Member{Address: netip.MustParseAddrPort(l.Addr().String())})
	if err == nil {
		t.Error("the target is healthy")
	}
	if err := <-closed; !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the connection of the target ends with %v", err)
	}
}

// TestLoadBalancersOfAnAccountShareConnections has two load balancers of an account, and one of another.
func TestLoadBalancersOfAnAccountShareConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	shares := map[string]int{}
	for _, b := range []record.LoadBalancer{{Account: "1", ID: "a"}, {Account: "1", ID: "b"}, {Account: "2", ID: "c"}} {
		b.Kind, b.Classic = record.ClassicLoadBalancer, &record.ClassicConfiguration{}
		b.Zones = []record.LoadBalancerZone{{Name: region + "a", PrivateIP: "10.0.0.20"}}
		specs, _, err := f.c.specs(t.Context(), b, balancing.Route{Listener: record.Listener{Protocol: "TCP", Port: 80}})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range specs {
			shares[s.Share]++
		}
	}
	if len(shares) != 2 || !slices.Contains(slices.Collect(maps.Values(shares)), 2) {
		t.Errorf("the shares of two load balancers of an account and one of another are %v", shares)
	}
}

// TestTargetGroupsOfAListenerShareWhatListens has a load balancer in two zones, and routes of two listeners.
func TestTargetGroupsOfAListenerShareWhatListens(t *testing.T) {
	t.Parallel()
	specs := func(port uint16, target string, version byte) (all []endpoint.Balancer) {
		for _, zone := range []string{"10.0.0.20", "10.0.1.20"} {
			all = append(all, endpoint.Balancer{Listen: netip.AddrPortFrom(netip.MustParseAddr(zone), port),
				Targets: []netip.AddrPort{netip.MustParseAddrPort(target)}, ProxyProtocol: version})
		}
		return all
	}
	all := appendSpecs(nil, specs(80, "10.0.0.1:1", 0), balancing.Share{})
	all = appendSpecs(all, specs(81, "10.0.0.2:1", 0), balancing.Share{Weight: 1, Of: 3, Sticky: true})
	all = appendSpecs(all, specs(81, "10.0.0.3:1", 2), balancing.Share{Weight: 2, Of: 2, Sticky: true})
	if len(all) != 4 {
		t.Fatalf("the process listens at %d places, want 4: %+v", len(all), all)
	}
	for _, s := range all[:2] {
		if len(s.Targets) != 1 || len(s.Shares) > 0 {
			t.Errorf("a listener to one target group has %+v", s)
		}
	}
	for _, s := range all[2:] {
		if len(s.Targets) > 0 || !s.Sticky || len(s.Shares) != 2 || s.Shares[0].Weight != 1 || s.Shares[1].Weight != 2 ||
			s.Shares[0].ProxyProtocol != 0 || s.Shares[1].ProxyProtocol != 2 {
			t.Errorf("a listener to two target groups has %+v", s)
		}
	}
}

// hostNetwork is this host's, once it is there.
type hostNetwork struct {
	fakeNetwork
	there atomic.Bool
}

func (*hostNetwork) Namespace(string) string { return "" }

func (n *hostNetwork) Identity(string) (uint64, error) {
	if n.there.Load() {
		return 0, nil
	}
	return 0, fs.ErrNotExist
}

// runningHost says that the process runs, which the test does.
type runningHost struct{}

func (runningHost) Ensure(context.Context, process.Spec) (process.Status, error) {
	return process.Status{Running: true}, nil
}

// TestStatus follows a load balancer whose network comes, and whose port is taken at first, until it is deleted.
func TestStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dir, err := os.MkdirTemp("", "balancer") // unix sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- endpoint.Serve(ctx, dir, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	network := &hostNetwork{}
	f.c = New(Options{Store: f.store, Network: network, Log: slog.New(slog.DiscardHandler),
		Process: &endpoint.Process{Host: runningHost{}, Name: ProcessName, Dir: dir, LogFile: "/dev/null"}})
	b := f.balancer("127.0.0.1", 1, record.HealthCheck{})
	b.Zones[0].PrivateIP = "127.0.0.1"
	b.Listeners[0].Port = int32(other.Addr().(*net.TCPAddr).Port)
	if _, err := record.LoadBalancers(f.store).Put(t.Context(), b.Key(), b); err != nil {
		t.Fatal(err)
	}
	await := func(what string, want func(record.LoadBalancerStatus) bool) {
		t.Helper()
		eventually.Nil(t, what, func() error {
			if _, err := f.c.reconcileProcess(t.Context(), "all"); err != nil {
				return err
			}
			row, err := record.LoadBalancerStatuses(f.store).Get(t.Context(), b.Key())
			if err == nil && !want(row.Value) {
				err = fmt.Errorf("it is %+v", row.Value)
			}
			return err
		})
	}
	await("provisioning", func(s record.LoadBalancerStatus) bool { return !s.Active && s.Failure == "" })
	network.there.Store(true)
	await("failed", func(s record.LoadBalancerStatus) bool { return s.Active && s.Failure != "" })
	other.Close()
	await("active", func(s record.LoadBalancerStatus) bool { return s.Active && s.Failure == "" })
	conn, err := net.Dial("tcp4", other.Addr().String())
	if err == nil {
		conn.Close()
	} else if !errors.Is(err, unix.ECONNRESET) { // it has accepted, and has no target
		t.Fatalf("the load balancer does not listen: %v", err)
	}
	if err := f.store.Txn(t.Context(), record.LoadBalancers(f.store).RemoveOp(b.Key())); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "nothing is left", func() error {
		if _, err := f.c.reconcileProcess(t.Context(), "all"); err != nil {
			return err
		}
		if _, err := record.LoadBalancerStatuses(f.store).Get(t.Context(), b.Key()); !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("the status is there: %v", err)
		}
		if conn, err := net.Dial("tcp4", other.Addr().String()); err == nil {
			conn.Close()
			return errors.New("the process listens")
		}
		return nil
	})
}

// TestThresholds has the outcomes of checks, and the states that follow: "+" has passed, "-" has failed.
func TestThresholds(t *testing.T) {
	t.Parallel()
	settings := record.HealthCheck{Interval: 10, Timeout: 5, HealthyThreshold: 3, UnhealthyThreshold: 2}
	for _, c := range []struct{ outcomes, states string }{
		{"+", "h"}, {"-+", "ih"}, {"--+++", "iuuuh"}, {"+-+-", "hhhh"}, {"+--++-+++", "hhuuuuuuh"},
	} {
		one, got := &check{state: record.TargetState{State: record.TargetInitial}}, ""
		now := time.Now()
		for _, o := range c.outcomes {
			var err error
			if o == '-' {
				err = errors.New("refused")
			}
			one.observe(settings, err, now)
			got += one.state.State[:1]
			wait := one.next.Sub(now)
			if want := 10 * time.Second; one.healthy && wait != want || !one.healthy && wait != initialInterval {
				t.Errorf("%s: the next check comes after %s", c.outcomes, wait)
			}
		}
		if got != c.states {
			t.Errorf("%s: states are %s, want %s", c.outcomes, got, c.states)
		}
	}
}

func TestMatchers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		matcher string
		status  int
		want    bool
	}{
		{"", 200, true}, {"", 204, false}, {"200-399", 302, true}, {"200-399", 400, false}, {"200,202", 202, true},
		{"200,202", 201, false}, {"x", 200, false},
	} {
		if got := matches(c.matcher, c.status); got != c.want {
			t.Errorf("%q and %d: %v", c.matcher, c.status, got)
		}
	}
}

// TestDraining keeps connections to instances that were deregistered for the time of connection draining.
func TestDraining(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.balancer("10.0.0.30", 8080, record.HealthCheck{})
	kept := func(draining int, since time.Duration) (bool, time.Duration) {
		t.Helper()
		b.Attributes = map[string]string{"connection_draining": strconv.Itoa(draining)}
		b.Classic.Instances[0].DeregisteredAt = time.Now().Add(-since)
		routes, err := f.c.reader.Routes(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		specs, after, err := f.c.specs(t.Context(), b, routes[0])
		if err != nil || len(specs) != 1 || len(specs[0].Targets) > 0 || !specs[0].Ends {
			t.Fatalf("the process gets %+v", specs)
		}
		return slices.Contains(specs[0].Keeping, netip.MustParseAddrPort("10.0.0.30:8080")), after
	}
	if kept, after := kept(60, 10*time.Second); !kept || after <= 0 || after > 50*time.Second {
		t.Errorf("while it drains: kept %v, for %s", kept, after)
	}
	if kept, after := kept(60, time.Minute+time.Second); kept || after != 0 {
		t.Errorf("once it has drained: kept %v, for %s", kept, after)
	}
	if kept, _ := kept(0, 0); kept {
		t.Error("without draining it is kept")
	}
}
