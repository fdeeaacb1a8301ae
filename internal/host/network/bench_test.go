//go:build linux

package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// BenchmarkPodToPod compares the throughput of TCP between two ENIs in different subnets of a VPC, with security
// groups, a network ACL and many other ENIs in place, with that of two namespaces with one router between them and
// nothing else. Both are measured in turns, so that whatever else the machine does meets both.
func BenchmarkPodToPod(b *testing.B) {
	w := newFixture(b)
	v := w.newVPC("10.0.0.0/16")
	s1, s2 := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	nodes := w.newGroup(v, everything(true))
	change(w, record.SecurityGroups, nodes, func(g *record.SecurityGroup) {
		for port := range int32(50) {
			g.Rules = append(g.Rules, record.SecurityGroupRule{Protocol: "tcp", FromPort: 1000 + port, ToPort: 1000 +
				port, CIDRIPv4: "10.9.0.0/16"})
		}
		g.Rules = append(g.Rules, record.SecurityGroupRule{Protocol: "-1", FromPort: -1, ToPort: -1, GroupID: nodes.ID})
	})
	groups := []record.SecurityGroup{nodes}
	a, z := w.newENI(s1, "", 0, groups, "10.0.1.10"), w.newENI(s2, "", 0, groups, "10.0.2.10")
	for i := range 30 {
		w.newENI(s1, "", 0, groups, fmt.Sprintf("10.0.1.%d", 20+i))
	}
	w.plugged(a, z)
	w.waitForRules(v)

	client, server := w.plainPair()
	vpc := stream{w, instanceOf(a), instanceOf(z), "10.0.2.10:5201"}
	plain := stream{w, client, server, "10.2.2.2:5201"}
	ends := []func() float64{plain.open(), vpc.open()}
	measured := make([][]float64, len(ends))
	for b.Loop() {
		for i, measure := range ends {
			measured[i] = append(measured[i], measure())
		}
	}
	median := func(all []float64) float64 { slices.Sort(all); return all[len(all)/2] }
	base, got := median(measured[0]), median(measured[1])
	b.ReportMetric(base, "plain-Gbit/s")
	b.ReportMetric(got, "vpc-Gbit/s")
	b.ReportMetric(100*got/base, "%-of-plain")
	b.ReportMetric(0, "ns/op")
}

// stream is a TCP stream from one namespace to another.
type stream struct {
	w        *fixture
	from, to string
	address  string
}

// open connects, and answers how to measure Gbit/s.
func (s stream) open() func() float64 {
	var l net.Listener
	eventually.Nil(s.w, "listen", func() (err error) {
		l, err = s.w.Listen(s.w.Context(), s.to, "tcp", s.address)
		return err
	})
	defer l.Close()
	ctx, cancel := context.WithTimeout(s.w.Context(), eventually.Limit)
	defer cancel()
	out, err := s.w.Dial(ctx, s.from, "tcp", s.address)
	if err != nil {
		s.w.Fatal(err)
	}
	in, err := l.Accept()
	if err != nil {
		s.w.Fatal(err)
	}
	s.w.Cleanup(func() { out.Close(); in.Close() })
	const size, count = 1 << 20, 512
	go func() {
		b := make([]byte, size)
		for {
			for range count {
				if _, err := io.ReadFull(in, b); err != nil {
					return
				}
			}
			if _, err := in.Write(b[:1]); err != nil {
				return
			}
		}
	}()
	b := make([]byte, size)
	return func() float64 {
		start := time.Now()
		for range count {
			if _, err := out.Write(b); err != nil {
				s.w.Fatal(err)
			}
		}
		if _, err := io.ReadFull(out, b[:1]); err != nil {
			s.w.Fatal(err)
		}
		return size * count * 8 / time.Since(start).Seconds() / 1e9
	}
}

// plainPair returns two namespaces with a third between them that forwards.
func (w *fixture) plainPair() (client, server string) {
	w.Helper()
	client, server = "bench-client", "bench-server"
	const router = "bench-router"
	w.stop() // it would collect them
	for _, name := range []string{client, router, server} {
		if _, err := makeNamespace(w.Namespace(name)); err != nil {
			w.Fatal(err)
		}
	}
	w.inside(router, func(r *namespace) error {
		if err := r.applySysctl(map[string]string{"ipv4/ip_forward": "1"}); err != nil {
			return err
		}
		for i, name := range []string{client, server} {
			name, link := name, fmt.Sprintf("p%d", i)
			near, far := netip.MustParsePrefix(fmt.Sprintf("10.2.%d.1/24", i+1)),
				netip.MustParsePrefix(fmt.Sprintf("10.2.%d.2/24", i+1))
			w.inside(name, func(s *namespace) error {
				attrs := netlink.NewLinkAttrs()
				attrs.Name, attrs.MTU = link, MTU
				if err := r.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: s.netlinkFD(),
					PeerMTU: MTU}); err != nil {
					return err
				}
				inner, err := s.LinkByName("eth0")
				if err != nil {
					return err
				}
				if err := s.AddrAdd(inner, &netlink.Addr{IPNet: toIPNet(far)}); err != nil {
					return err
				}
				if err := s.LinkSetUp(inner); err != nil {
					return err
				}
				return s.RouteAdd(&netlink.Route{LinkIndex: inner.Attrs().Index,
					Dst: toIPNet(netip.MustParsePrefix("0.0.0.0/0")), Gw: near.Addr().AsSlice()})
			})
			outer, err := r.LinkByName(link)
			if err != nil {
				return err
			}
			if err := r.AddrAdd(outer, &netlink.Addr{IPNet: toIPNet(near)}); err != nil {
				return err
			}
			if err := r.LinkSetUp(outer); err != nil {
				return err
			}
		}
		return nil
	})
	return client, server
}

// BenchmarkReconcile measures the time until an assigned address is routed, in a VPC with 40 nodes and 3,000 addresses.
func BenchmarkReconcile(b *testing.B) {
	w := newFixture(b)
	v := w.newVPC("10.0.0.0/16")
	s := w.newSubnet(v, "10.0.0.0/17")
	g := w.open(v)
	var last record.NetworkInterface
	for i := range 40 {
		holder := ""
		for j := range int32(3) {
			var addresses []string
			for k := range 25 {
				addresses = append(addresses, fmt.Sprintf("10.0.%d.%d", i*3+int(j)+1, 10+k))
			}
			last = w.newENI(s, holder, j, g, addresses...)
			holder = instanceOf(last)
		}
	}
	w.plugged(last)
	w.stop()
	w.waitForRules(v)
	for i := 0; b.Loop(); i++ {
		change(w, record.NetworkInterfaces, last, func(e *record.NetworkInterface) {
			e.PrivateIPs = append(e.PrivateIPs[:25], fmt.Sprintf("10.0.126.%d", i%250))
		})
		w.waitForRules(v)
	}
	b.ReportMetric(3000, "addresses")
}
