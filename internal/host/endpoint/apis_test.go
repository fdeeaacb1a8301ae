//go:build linux

package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

func resource(id string) record.EC2Resource {
	return record.EC2Resource{Account: "111122223333", Region: "eu-west-1", ID: id}
}

// run runs controllers until the test ends.
func run(t *testing.T, controllers ...reconcile.Controller) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAPIsAreInEveryVPC(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storetest.New(t)
	vpcs, endpoints, interfaces := record.VPCs(s), record.VPCEndpoints(s), record.NetworkInterfaces(s)
	path := func(name string) string { return filepath.Join(dir, name) }
	routers := make(chan string, 10)
	a := NewAPIs(APIOptions{Store: s, Address: netip.MustParseAddr("198.18.8.3"), Namespace: path,
		Routers: reconcile.Channel(routers), Log: slog.New(slog.DiscardHandler)})
	run(t, a.Controller())
	t.Cleanup(func() { a.Close() })
	go func() { // the daemon: it says who calls
		for {
			conn, err := a.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, conn.RemoteAddr().(*net.TCPAddr).IP)
			conn.Close()
		}
	}()
	router := func(name string, addresses ...string) string {
		t.Helper()
		ns := newNamespace(t, path(name))
		inside(t, ns, func() error {
			for _, address := range append(addresses, "198.18.8.3/32") {
				if err := addAddress("lo", address); err != nil {
					return err
				}
			}
			return nil
		})
		return ns
	}
	serves := func(ns, address string) {
		t.Helper()
		eventually.True(t, address+" in "+ns, func() bool {
			conn, err := dial(t, ns, net.Dialer{}, address)
			return err == nil && callerKnown(conn, address)
		})
	}
	internetNS := router("internet")
	serves(internetNS, "198.18.8.3:443")

	// VPCs come while it runs, and their routers even later.
	for _, id := range []string{"vpc-1", "vpc-2"} {
		if _, err := vpcs.Create(t.Context(), resource(id).Key(), record.VPC{EC2Resource: resource(id)}); err != nil {
			t.Fatal(err)
		}
	}
	one, two := router("vpc-1", "10.0.3.9/32"), router("vpc-2")
	routers <- resource("vpc-1").Key()
	routers <- resource("vpc-2").Key()
	for _, port := range apiPorts {
		serves(one, fmt.Sprintf("198.18.8.3:%d", port))
		serves(two, fmt.Sprintf("198.18.8.3:%d", port))
	}

	// An interface endpoint is another address in its VPC alone.
	if _, err := interfaces.Create(t.Context(), resource("eni-1").Key(),
		record.NetworkInterface{EC2Resource: resource("eni-1"), VPCID: "vpc-1",
			PrivateIPs: []string{"10.0.3.9"}}); err != nil {
		t.Fatal(err)
	}
	endpoint, err := endpoints.Create(t.Context(), resource("vpce-1").Key(), record.VPCEndpoint{
		EC2Resource: resource("vpce-1"), VPCID: "vpc-1", Type: ec2types.VpcEndpointTypeInterface,
		ServiceName: "com.amazonaws.eu-west-1.sts", NetworkInterfaceIDs: []string{"eni-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	serves(one, "10.0.3.9:443")
	if err := endpoints.Delete(t.Context(), endpoint); err != nil {
		t.Fatal(err)
	}
	refused := func(ns, address string) {
		t.Helper()
		eventually.True(t, "the end of "+address, func() bool {
			conn, err := dial(t, ns, net.Dialer{}, address)
			return err != nil || !callerKnown(conn, address)
		})
	}
	refused(one, "10.0.3.9:443")
	serves(one, "198.18.8.3:443")

	// A router that is made anew is served again, one whose VPC is gone is not.
	dropNamespace(path("vpc-1"))
	one = router("vpc-1")
	routers <- resource("vpc-1").Key()
	serves(one, "198.18.8.3:443")
	row, err := vpcs.Get(t.Context(), resource("vpc-2").Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := vpcs.Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	refused(two, "198.18.8.3:443")
}

// callerKnown reports whether the server tells the caller its own address.
func callerKnown(conn net.Conn, address string) bool {
	var source string
	_, err := fmt.Fscanln(conn, &source)
	host, _, _ := net.SplitHostPort(address)
	return err == nil && source == host // both are on the router's lo
}
