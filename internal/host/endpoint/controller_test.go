//go:build linux

package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/host/hostsfile"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// inProcess is a Host that has the process in this one.
type inProcess struct {
	ctx   context.Context
	dir   string
	ended chan error
}

func (h *inProcess) Ensure(context.Context, process.Spec) (process.Status, error) {
	if h.ended == nil {
		h.ended = make(chan error, 1)
		go func() { h.ended <- Serve(h.ctx, h.dir, slog.New(slog.DiscardHandler)) }()
	}
	return process.Status{Running: true}, nil
}

func newController(t *testing.T, adjust func(*Options)) *Controller {
	t.Helper()
	dir, err := os.MkdirTemp("", "endpoint")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	host := &inProcess{ctx: ctx, dir: dir}
	t.Cleanup(func() {
		cancel()
		if host.ended != nil {
			if err := <-host.ended; err != nil {
				t.Error(err)
			}
		}
		os.RemoveAll(dir)
	})
	o := Options{
		Store: storetest.New(t), Host: host, Owner: "0123456789abcdef", Dir: dir, LogFile: "log", Program: "none",
		Log:      slog.New(slog.DiscardHandler),
		SetNames: func(context.Context, string, []hostsfile.Entry) error { return nil },
	}
	if adjust != nil {
		adjust(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Where machines have no network, a cluster is a port of the host that leads to whichever API server serves.
func TestAClusterWithoutNetwork(t *testing.T) {
	t.Parallel()
	c := newController(t, nil)
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "c", ID: strings.Repeat("0123", 8),
		EndpointPublicAccess: true}
	if _, err := c.rows.clusters.Create(t.Context(), cluster.Key(), cluster); err != nil {
		t.Fatal(err)
	}
	server := func(name string) int {
		_, text, _ := net.SplitHostPort(echo(t, "", "127.0.0.1:0", name))
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	port := freePort(t)
	plane := record.ControlPlane{ClusterID: cluster.ID, Port: port, ServerPort: server("one"), StandbyPort: server("two")}
	if _, err := c.rows.planes.Create(t.Context(), cluster.Key(), plane); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one", "two"} {
		if err := c.ForwardPort(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		conn, err := dial(t, "", net.Dialer{}, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		says(t, conn, want)
		_, err = c.rows.planes.Modify(t.Context(), cluster.Key(), func(o *record.ControlPlane) error {
			o.ServerPort, o.StandbyPort = o.StandbyPort, o.ServerPort
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Apply(t.Context(), cluster); err != nil {
		t.Error(err)
	}
	if socket := c.EgressSocket(cluster.ID); socket != "" {
		t.Errorf("egress by %s", socket)
	}
	if address, err := c.PublicAddress(nil); address != "" || err != nil {
		t.Errorf("public address %q, %v", address, err)
	}

	// Another program has the port.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = c.rows.planes.Modify(t.Context(), cluster.Key(), func(o *record.ControlPlane) error {
		o.Port = l.Addr().(*net.TCPAddr).Port
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ForwardPort(t.Context(), cluster); !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("with a port that another program has: %v", err)
	}
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	c := newController(t, func(o *Options) {
		o.Namespace, o.PublicRange, o.API = filepath.Base, netip.MustParsePrefix("198.18.8.0/21"),
			netip.MustParseAddr("198.18.8.3")
	})
	var taken []string
	for range 239 {
		a, err := c.PublicAddress(taken)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, a)
	}
	if taken[0] != "198.18.8.16" || taken[238] != "198.18.8.254" {
		t.Errorf("from %s to %s", taken[0], taken[238])
	}
	if a, err := c.PublicAddress(taken); err == nil || !strings.Contains(err.Error(), "all 239 addresses") {
		t.Errorf("one more: %s, %v", a, err)
	}
	if a, err := c.PublicAddress(append(taken[:7:7], taken[8:]...)); err != nil || a != taken[7] {
		t.Errorf("one that was given back: %s, %v", a, err)
	}
}

// What the rows say, for two clusters with different access in two VPCs.
func TestConfigFollowsFromRows(t *testing.T) {
	t.Parallel()
	c := newController(t, func(o *Options) {
		o.Namespace = func(name string) string { return "/ns/" + name }
		o.PublicRange, o.API = netip.MustParsePrefix("198.18.8.0/21"), netip.MustParseAddr("198.18.8.3")
		o.Dir, o.Webhooks = "/run/e", []string{"127.0.0.1:20099"}
	})
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for n, id := range []string{"vpc-1", "vpc-2"} {
		must(c.rows.vpcs.Create(t.Context(), resource(id).Key(), record.VPC{
			EC2Resource: resource(id), CIDRs: []record.CIDRAssociation{{CIDR: "10.0.0.0/16"}}, EnableDNSSupport: true,
			EnableDNSHostnames: n == 0,
		}))
	}
	must(c.rows.vpcs.Create(t.Context(), resource("vpc-3").Key(), record.VPC{EC2Resource: resource("vpc-3"),
		CIDRs: []record.CIDRAssociation{{CIDR: "10.0.0.0/16"}}}))
	eni := func(id, vpc string, ips ...string) record.NetworkInterface {
		return record.NetworkInterface{EC2Resource: resource(id), VPCID: vpc, PrivateIPs: ips}
	}
	instance := eni("eni-5", "vpc-1", "10.0.5.5", "10.0.5.6")
	instance.Attachment = &record.NetworkInterfaceAttachment{InstanceID: "i-5"}
	for _, row := range []record.NetworkInterface{eni("eni-1", "vpc-1", "10.0.1.4"), eni("eni-2", "vpc-1", "10.0.2.4"),
		eni("eni-3", "vpc-2", "10.0.1.4"), eni("eni-4", "vpc-1", "10.0.3.9"), instance} {
		must(c.rows.interfaces.Create(t.Context(), row.Key(), row))
	}
	for n, access := range []struct {
		vpc             string
		public, private bool
		interfaces      []string
	}{{"vpc-1", true, true, []string{"eni-1", "eni-2"}}, {"vpc-2", false, true, []string{"eni-3"}}} {
		cluster := record.Cluster{
			Account: "111122223333", Region: "eu-west-1", Name: "c" + strconv.Itoa(n), ID: "C" + strconv.Itoa(n),
			VPCID:                access.vpc,
			EndpointPublicAccess: access.public, EndpointPrivateAccess: access.private,
			PublicAccessCIDRs: []string{"203.0.113.0/24"},
		}
		must(c.rows.clusters.Create(t.Context(), cluster.Key(), cluster))
		must(c.rows.planes.Create(t.Context(), cluster.Key(), record.ControlPlane{
			ClusterID: cluster.ID, Port: 20000 + 10*n, ServerPort: 20001 + 10*n, PublicAddress: "198.18.8." +
				strconv.Itoa(16+n), NetworkInterfaceIDs: access.interfaces,
		}))
	}
	must(c.rows.endpoints.Create(t.Context(), resource("vpce-1").Key(), record.VPCEndpoint{
		EC2Resource: resource("vpce-1"), VPCID: "vpc-1", Type: ec2types.VpcEndpointTypeInterface,
		ServiceName:         "com.amazonaws.eu-west-1.ecr.dkr",
		NetworkInterfaceIDs: []string{"eni-4"}, PrivateDNSEnabled: true,
	}))
	must(c.rows.addresses.Create(t.Context(), resource("eipalloc-1").Key(),
		record.Address{EC2Resource: resource("eipalloc-1"), PublicIP: "198.18.9.1", NetworkInterfaceID: "eni-5",
			PrivateIPAddress: "10.0.5.6"}))
	must(c.rows.publicIPs.Create(t.Context(), "198.18.9.2", record.PublicIP{Account: "111122223333",
		Region: "eu-west-1", OwnerID: "eni-5"}))
	must(c.rows.instances.Create(t.Context(), resource("i-5").Key(), record.Instance{EC2Resource: resource("i-5"),
		VPCID: "vpc-1", EnableResourceNameDNSARecord: true}))

	got, hosts, err := c.rows.buildConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort
	dns := addrs("10.0.0.2", "169.254.169.253")
	want := Config{
		Forwards: []Forward{
			{Listen: at("127.0.0.1:20000"), Target: "127.0.0.1:20001"},
			{Namespace: "/ns/C0", Listen: at("10.0.1.4:443"), Target: "127.0.0.1:20001", Socket: "/run/e/20001.sock"},
			{Namespace: "/ns/C0", Listen: at("10.0.2.4:443"), Target: "127.0.0.1:20001", Socket: "/run/e/20001.sock"},
			{Namespace: "/ns/internet", Listen: at("198.18.8.16:443"), Target: "127.0.0.1:20001",
				Socket: "/run/e/20001.sock", Allow: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}},
			{Listen: at("127.0.0.1:20010"), Target: "127.0.0.1:20011"},
			{Namespace: "/ns/C1", Listen: at("10.0.1.4:443"), Target: "127.0.0.1:20011", Socket: "/run/e/20011.sock"},
		},
		Egresses: []Egress{
			{Socket: "/run/e/C0.sock", Namespace: "/ns/C0", DNS: at("169.254.169.253:53")},
			{Socket: "/run/e/C0-managed.sock", Namespace: "/ns/internet", Host: []string{"127.0.0.1:20099"}},
			{Socket: "/run/e/C1.sock", Namespace: "/ns/C1", DNS: at("169.254.169.253:53")},
			{Socket: "/run/e/C1-managed.sock", Namespace: "/ns/internet", Host: []string{"127.0.0.1:20099"}},
		},
		Names: map[string][]netip.Addr{
			"c0.gr7.eu-west-1.eks.amazonaws.com": addrs("198.18.8.16"),
			"c1.gr7.eu-west-1.eks.amazonaws.com": addrs("10.0.1.4"),
		},
		Resolvers: []Resolver{
			{
				Namespace: "/ns/vpc-1", Addresses: dns, Region: "eu-west-1",
				CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, API: netip.MustParseAddr("198.18.8.3"),
				Public: map[netip.Addr]netip.Addr{netip.MustParseAddr("198.18.9.1"): netip.MustParseAddr("10.0.5.6"),
					netip.MustParseAddr("198.18.9.2"): netip.MustParseAddr("10.0.5.5")},
				Records: map[string][]netip.Addr{
					"c0.gr7.eu-west-1.eks.amazonaws.com":          addrs("10.0.1.4", "10.0.2.4"),
					"*.dkr.ecr.eu-west-1.amazonaws.com":           addrs("10.0.3.9"),
					"vpce-1.dkr.ecr.eu-west-1.vpce.amazonaws.com": addrs("10.0.3.9"),
					"i-5.eu-west-1.compute.internal":              addrs("10.0.5.5"),
				},
			},
			// Without DNS hostnames there is no private hosted zone.
			{Namespace: "/ns/vpc-2", Addresses: dns, Region: "eu-west-1",
				CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, API: netip.MustParseAddr("198.18.8.3"),
				Records: map[string][]netip.Addr{}},
		},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		t.Error(d)
	}
	wantHosts := []hostsfile.Entry{{Address: netip.MustParseAddr("198.18.8.16"),
		Name: "C0.gr7.eu-west-1.eks.amazonaws.com"}, {Address: netip.MustParseAddr("10.0.1.4"),
		Name: "C1.gr7.eu-west-1.eks.amazonaws.com"}, {Address: netip.MustParseAddr("198.18.8.3"),
		Name: "oidc.eks.eu-west-1.amazonaws.com"}}
	if d := cmp.Diff(wantHosts, hosts, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}

	// A cluster whose network is not there yet is not said to serve.
	if problem := c.problemOf(record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "c1", ID: "C1"},
		map[string]string{want.Forwards[5].listenerKey(): "no such namespace"}, nil); problem == nil ||
		!strings.Contains(problem.Error(), "10.0.1.4:443") {
		t.Errorf("problem %v", problem)
	}
}
