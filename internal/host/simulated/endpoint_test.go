package simulated

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// Users of a cluster say where its API server connects to: by webhooks, Nodes, Services and APIServices. It runs in
// this host's network, of which they reach nothing but what the operator allows.
func TestEgress(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	onHost := func() string {
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			fmt.Fprint(out, "here I am")
		}))
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	webhook, other := onHost(), onHost()
	_, port, err := net.SplitHostPort(other)
	if err != nil {
		t.Fatal(err)
	}
	loopback := outbound.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	const refused = "it is not an address of the public internet"
	for _, test := range []struct {
		name   string
		egress outbound.Policy
		socket func(dir, clusterID string) string
		target string
		want   string
	}{
		{"the daemon's webhook", outbound.Policy{}, ManagedSocket, webhook, "here I am"},
		{"the daemon's webhook as a node", outbound.Policy{}, Socket, webhook, refused},
		{"a webhook on this host", outbound.Policy{}, ManagedSocket, other, refused},
		{"a webhook on this host by name", outbound.Policy{}, ManagedSocket, "localhost:" + port, refused},
		{"a webhook on this host as IPv6 writes it", outbound.Policy{}, ManagedSocket, "[::ffff:127.0.0.1]:" + port,
			refused},
		{"a webhook on this host, which the operator allows", loopback, ManagedSocket, other, "here I am"},
		{"a node on this host", outbound.Policy{}, Socket, other, refused},
		{"a node on this host, which the operator allows", loopback, Socket, other, "here I am"},
		{"instance metadata", outbound.Policy{}, ManagedSocket, "169.254.169.254:80", refused},
		{"a neighbor", outbound.Policy{}, Socket, "192.168.1.1:443", refused},
		{"the VPC", loopback, Socket, "10.9.9.9:443", "machines are simulated"},
		{"no port", loopback, ManagedSocket, "127.0.0.1", "only CONNECT"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := asked.Load()
			got := through(t, test.egress, []string{webhook}, test.socket, test.target)
			if !strings.Contains(got, test.want) {
				t.Errorf("%s: %q, want %q", test.target, got, test.want)
			}
			if test.want == refused && asked.Load() != before {
				t.Errorf("%s was asked", test.target)
			}
		})
	}
}

// through returns what comes back from a target through a socket of a cluster in 10.0.0.0/8.
func through(t *testing.T, egress outbound.Policy, webhooks []string, socket func(dir, clusterID string) string,
	target string) string {
	t.Helper()
	s := storetest.New(t)
	dir, err := os.MkdirTemp("", "sim") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cluster := record.Cluster{Account: account, Region: region, Name: "demo", ID: "0123456789ABCDEF0123456789ABCDEF",
		VPCID: "vpc-1"}
	create(t, record.VPCs(s), record.EC2Key(account, region, "vpc-1"),
		record.VPC{CIDRs: []record.CIDRAssociation{{CIDR: "10.0.0.0/8"}}})
	create(t, record.Clusters(s), cluster.Key(), cluster)
	create(t, record.ControlPlanes(s), cluster.Key(), record.ControlPlane{ClusterID: cluster.ID})
	c := New(Options{Store: s, Dir: dir, Egress: egress, Webhooks: webhooks})
	c.Listen(t.Context())
	// It waits until the socket is served.
	conn, err := net.Dial("unix", socket(dir, cluster.ID))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.serveSockets(ctx, func(string) {})
	}()
	t.Cleanup(func() { cancel(); <-done })
	defer conn.Close()
	if _, err := fmt.Fprintf(conn,
		"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target,
		target); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
