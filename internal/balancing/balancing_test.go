package balancing_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestServing has targets by zone and state (its first letter), and those that get
// the connections that come in by zone 1.
func TestServing(t *testing.T) {
	t.Parallel()
	states := map[byte]string{'h': record.TargetHealthy, 'u': record.TargetUnhealthy, 'i': record.TargetInitial,
		'd': record.TargetDraining}
	for _, c := range []struct {
		targets   string // zone and state of each
		crossZone bool
		failsOpen bool
		want      string // their indexes
	}{
		{"1h 1h 2h", false, true, "0 1"},
		{"1h 1h 2h", true, true, "0 1 2"},
		{"1u 1h 2h", false, true, "1"},
		{"1u 1u 2h", false, true, "2"},
		{"1u 1u 2u", false, true, "0 1"},
		{"1u 1i 2u", true, true, "0 1 2"},
		{"1u 1u 2u", false, false, ""},
		{"1d 1u", false, true, "1"},
		{"1d 2d", true, true, ""},
		{"", true, true, ""},
	} {
		pool := balancing.Pool{FailsOpen: c.failsOpen}
		for i, target := range strings.Fields(c.targets) {
			pool.Members = append(pool.Members, balancing.Member{Zone: target[:1], State: states[target[1]],
				Address: netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:80", i))})
		}
		var got []string
		for _, at := range pool.Serving("1", c.crossZone) {
			got = append(got, strings.TrimPrefix(at.Addr().String(), "10.0.0."))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q, cross-zone %v: got %v, want %s", c.targets, c.crossZone, got, c.want)
		}
	}
}

// TestNames has the addresses of a load balancer in two zones, of which the first has a target.
func TestNames(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := store.Open(ctx, storetest.Client(t), store.Options{Prefix: storetest.Prefix(t),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	subnet := record.Subnet{EC2Resource: record.EC2Resource{Account: "1", Region: "r", ID: "subnet-1"}, VPCID: "vpc-1",
		CIDR: "10.0.0.0/24", AvailabilityZone: "ra"}
	group := record.TargetGroup{Account: "1", Region: "r", Name: "g", ID: "2", Protocol: "TCP", Port: 80, TargetType: "ip",
		VPCID: "vpc-1", LoadBalancer: "web", Targets: []record.Target{{ID: "10.0.0.5", Port: 80,
			RegisteredAt: time.Now()}}}
	_, err1 := record.Subnets(s).Create(ctx, subnet.Key(), subnet)
	_, err2 := record.TargetGroups(s).Create(ctx, group.Key(), group)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	b := record.LoadBalancer{Account: "1", Region: "r", Kind: record.NetworkLoadBalancer, Name: "web", ID: "3",
		DNSName: "WEB-3.elb.r.amazonaws.com", VPCID: "vpc-1", Scheme: record.SchemeInternetFacing,
		Zones: []record.LoadBalancerZone{{Name: "ra", PrivateIP: "10.0.0.9", PublicIP: "192.0.2.1"},
			{Name: "rb", PrivateIP: "10.0.1.9", PublicIP: "192.0.2.2"}},
		Listeners: []record.Listener{{Protocol: "TCP", Port: 80, TargetGroup: "g"}}}
	names := func(want ...string) {
		t.Helper()
		got, err := balancing.NewReader(s).Names(ctx, b)
		var texts []string
		for _, a := range got["web-3.elb.r.amazonaws.com"] {
			texts = append(texts, a.String())
		}
		if err != nil || !slices.Equal(texts, want) {
			t.Errorf("names are %v, %v, want %v", got, err, want)
		}
	}
	names("192.0.2.1", "192.0.2.2") // nothing is known
	health := record.TargetHealth{Owner: "2", Targets: map[string]record.TargetState{
		balancing.TargetName("10.0.0.5", 80): {State: record.TargetHealthy, RegisteredAt: group.Targets[0].RegisteredAt}}}
	if _, err := record.TargetHealths(s).Put(ctx, group.TargetHealthKey(), health); err != nil {
		t.Fatal(err)
	}
	names("192.0.2.1")
	b.Attributes = map[string]string{"load_balancing.cross_zone.enabled": "true"}
	names("192.0.2.1", "192.0.2.2")
	b.Scheme = record.SchemeInternal
	names("10.0.0.9", "10.0.1.9")
	health.Owner = "of another group of that name"
	if _, err := record.TargetHealths(s).Put(ctx, group.TargetHealthKey(), health); err != nil {
		t.Fatal(err)
	}
	b.Attributes = nil
	names("10.0.0.9", "10.0.1.9")
}

// TestRoutesReadWhatTheyHaveInCommonOnce has a load balancer whose listeners, targets and subnets are as many as they
// may be: all load balancers wait for it.
func TestRoutesReadWhatTheyHaveInCommonOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := store.Open(ctx, storetest.Client(t), store.Options{Prefix: storetest.Prefix(t),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for i := range 100 {
		subnet := record.Subnet{EC2Resource: record.EC2Resource{Account: "1", Region: "r", ID: fmt.Sprintf("subnet-%d", i)},
			VPCID: "vpc-1", CIDR: fmt.Sprintf("10.0.%d.0/24", i), AvailabilityZone: fmt.Sprintf("r%d", i)}
		if _, err := record.Subnets(s).Create(ctx, subnet.Key(), subnet); err != nil {
			t.Fatal(err)
		}
	}
	group := record.TargetGroup{Account: "1", Region: "r", Name: "g", ID: "2", Protocol: "TCP", Port: 80, TargetType: "ip",
		VPCID: "vpc-1", LoadBalancer: "web"}
	for i := range 1000 {
		group.Targets = append(group.Targets, record.Target{ID: "10.0.99.5", Port: int32(i + 1)})
	}
	if _, err := record.TargetGroups(s).Create(ctx, group.Key(), group); err != nil {
		t.Fatal(err)
	}
	b := record.LoadBalancer{Account: "1", Region: "r", Kind: record.NetworkLoadBalancer, Name: "web", ID: "3",
		VPCID: "vpc-1"}
	for i := range 50 {
		b.Listeners = append(b.Listeners, record.Listener{Protocol: "TCP", Port: int32(i + 1), TargetGroup: "g"})
	}
	routes, err := balancing.NewReader(s).Routes(store.Bounded(ctx, 1<<20), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(routes) != len(b.Listeners) {
		t.Fatalf("%d listeners have %d routes", len(b.Listeners), len(routes))
	}
	for i, route := range routes {
		last := len(route.Pool.Members) - 1
		if route.Listener.Port != b.Listeners[i].Port || last != 999 || route.Pool.Members[last].Zone != "r99" {
			t.Errorf("listener %d leads from port %d to %d targets", i, route.Listener.Port, last+1)
		}
	}
}
