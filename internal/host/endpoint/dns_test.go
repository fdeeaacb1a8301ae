//go:build linux

package endpoint

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/coracle-eks/coracle/internal/eventually"
)

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

var testNames = map[string][]netip.Addr{"0123.gr7.eu-west-1.eks.amazonaws.com": addrs("198.18.8.16")}

func testResolver(namespace string) Resolver {
	return Resolver{
		Namespace: namespace, Addresses: addrs("10.0.0.2", "169.254.169.253"), Region: "eu-west-1",
		CIDRs:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("100.64.0.0/16")},
		API:    netip.MustParseAddr("198.18.8.3"),
		Public: map[netip.Addr]netip.Addr{netip.MustParseAddr("198.18.9.7"): netip.MustParseAddr("10.0.1.5")},
		Records: map[string][]netip.Addr{
			"4567.gr7.eu-west-1.eks.amazonaws.com": addrs("10.0.1.4", "10.0.2.4"),
			"logs.eu-west-1.amazonaws.com":         addrs("10.0.3.9"),
			"*.dkr.ecr.eu-west-1.amazonaws.com":    addrs("10.0.3.10"),
			"i-0123.eu-west-1.compute.internal":    addrs("10.0.1.5", "2001:db8::5"),
		},
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	r := testResolver("")
	forwarding := r
	forwarding.ForwardsS3 = true
	east := r
	east.Region, east.Records = "us-east-1", nil
	const none, elsewhere = "NXDOMAIN", "elsewhere"
	for _, c := range []struct {
		r          Resolver
		name, kind string
		want       string
	}{
		{r, "ip-10-0-1-5.eu-west-1.compute.internal.", "A", "10.0.1.5"},
		{r, "IP-10-0-1-5.EU-west-1.compute.internal.", "A", "10.0.1.5"},
		{r, "ip-100-64-3-4.eu-west-1.compute.internal.", "A", "100.64.3.4"},
		{r, "ip-10-0-1-5.eu-west-1.compute.internal.", "AAAA", ""},
		{r, "ip-10-1-1-5.eu-west-1.compute.internal.", "A", none}, // another VPC's
		{r, "ip-10-0-1-5.eu-west-2.compute.internal.", "A", none},
		{r, "ip-10-0-1.eu-west-1.compute.internal.", "A", none},
		{r, "ip-10-0-1-5.ec2.internal.", "A", none},
		{r, "sts.eu-west-1.amazonaws.com.eu-west-1.compute.internal.", "A", none}, // with the search domain behind
		{east, "ip-10-0-1-5.ec2.internal.", "A", "10.0.1.5"},
		{east, "5.1.0.10.in-addr.arpa.", "PTR", "ip-10-0-1-5.ec2.internal."},
		{r, "5.1.0.10.in-addr.arpa.", "PTR", "ip-10-0-1-5.eu-west-1.compute.internal."},
		{r, "5.1.1.10.in-addr.arpa.", "PTR", none},
		{r, "7.9.18.198.in-addr.arpa.", "PTR", "ec2-198-18-9-7.eu-west-1.compute.amazonaws.com."},
		{r, "8.8.8.8.in-addr.arpa.", "PTR", elsewhere},
		{r, "1.0.168.192.in-addr.arpa.", "PTR", none}, // of the host's network
		{r, "1.0.254.169.in-addr.arpa.", "PTR", none},
		{r, strings.Repeat("1.", 30) + "D.F.ip6.arpa.", "PTR", none},
		{r, strings.Repeat("1.", 28) + "0.8.e.f.ip6.arpa.", "PTR", none},
		{r, "d.f.ip6.arpa.", "SOA", none},
		{r, strings.Repeat("1.", 28) + "1.0.0.2.ip6.arpa.", "PTR", elsewhere},
		{r, "ec2-198-18-9-7.eu-west-1.compute.amazonaws.com.", "A", "10.0.1.5"},
		{r, "ec2-198-18-9-8.eu-west-1.compute.amazonaws.com.", "A", "198.18.9.8"},
		{east, "ec2-198-18-9-7.compute-1.amazonaws.com.", "A", "10.0.1.5"},
		{r, "i-0123.eu-west-1.compute.internal.", "A", "10.0.1.5"},
		{r, "i-0123.eu-west-1.compute.internal.", "AAAA", "2001:db8::5"},
		{r, "4567.gr7.eu-west-1.eks.amazonaws.com.", "A", "10.0.1.4 10.0.2.4"},
		{r, "4567.GR7.eu-west-1.eks.amazonaws.com.", "A", "10.0.1.4 10.0.2.4"},
		{r, "0123.gr7.eu-west-1.eks.amazonaws.com.", "A", "198.18.8.16"},
		{r, "89AB.gr7.eu-west-1.eks.amazonaws.com.", "A", none},
		{r, "instance-data.ec2.internal.", "A", "169.254.169.254"},
		{r, "sts.eu-west-1.amazonaws.com.", "A", "198.18.8.3"},
		{r, "sts.eu-west-1.amazonaws.com.", "AAAA", ""},
		{r, "logs.eu-west-1.amazonaws.com.", "A", "10.0.3.9"},
		{r, "111122223333.dkr.ecr.eu-west-1.amazonaws.com.", "A", "10.0.3.10"},
		{east, "111122223333.dkr.ecr.eu-west-1.amazonaws.com.", "A", "198.18.8.3"},
		{r, "example.com.", "A", elsewhere},
		{r, "bucket.s3.eu-west-1.amazonaws.com.", "A", elsewhere},
		{forwarding, "s3.eu-west-1.amazonaws.com.", "A", "198.18.8.3"},
		{forwarding, "bucket.s3.eu-west-1.amazonaws.com.", "A", "198.18.8.3"},
		{forwarding, "1.s3-control.eu-west-1.amazonaws.com.", "A", elsewhere},
	} {
		m := answerQuestion(&c.r, testNames, netip.Addr{}, dns.Question{Name: c.name, Qtype: dns.StringToType[c.kind],
			Qclass: dns.ClassINET})
		got := elsewhere
		if m != nil {
			var all []string
			for _, rr := range m.Answer {
				all = append(all, dns.Field(rr, 1))
			}
			got = strings.Join(all, " ")
			if m.Rcode != dns.RcodeSuccess {
				got = dns.RcodeToString[m.Rcode]
			}
			if len(m.Answer) == 0 && len(m.Ns) == 0 {
				t.Errorf("%s %s: nothing says how long to believe that there is nothing", c.name, c.kind)
			}
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.kind, got, c.want)
		}
	}
}

func TestNamesOfAPIs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"sts.amazonaws.com": true, "iam.amazonaws.com": true, "sts.eu-west-1.amazonaws.com": true,
		"ec2.us-gov-west-1.amazonaws.com": true,
		"eks.cn-north-1.amazonaws.com.cn": true, "ec2.eu-west-1.api.aws": true, "eks-auth.eu-west-1.api.aws": true,
		"iam.global.api.aws":               true,
		"sts-fips.us-east-1.amazonaws.com": true, "fips.eks.us-east-1.amazonaws.com": true,
		"api.ecr.eu-west-1.amazonaws.com":              true,
		"111122223333.dkr.ecr.eu-west-1.amazonaws.com": true, "111122223333.dkr.ecr-fips.us-east-1.amazonaws.com": true,
		"dkr.ecr.eu-west-1.amazonaws.com":       true,
		"111122223333.dkr-ecr.eu-west-1.on.aws": true, "oidc.eks.eu-west-1.amazonaws.com": true,
		"api.pricing.us-east-1.amazonaws.com":                               true,
		"cloudformation-waitcondition-eu-west-1.s3.eu-west-1.amazonaws.com": true,
		"public-keys.auth.elb.eu-west-1.amazonaws.com":                      true,
		"amazonaws.com": false, "eu-west-1.amazonaws.com": false, "s3.amazonaws.com": false,
		"s3.eu-west-1.amazonaws.com": false, "bucket.s3.amazonaws.com": false,
		"s3-us-west-2.amazonaws.com": false, "bucket.s3.dualstack.eu-west-1.amazonaws.com": false,
		"x.elb.eu-west-1.amazonaws.com": false, "x.auth.elb.eu-west-1.amazonaws.com": false,
		"db.abc.eu-west-1.rds.amazonaws.com": false, "fs-1.efs.eu-west-1.amazonaws.com": false,
		"11.dkr.ecr.eu-west-1.amazonaws.com":   false,
		"function.lambda-url.eu-west-1.on.aws": false, "sts.eu-west-1.amazonaws.com.evil.com": false,
		"notamazonaws.com": false, "": false,
	} {
		if got := isAPIName(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestResolverOnTheWire(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, filepath.Join(t.TempDir(), "vpc"))
	inside(t, ns, func() error { return addAddress("lo", "10.0.0.2/32") })
	p := startProcess(t)
	config := Config{Names: testNames, Resolvers: []Resolver{testResolver(ns)}}
	p.done(config)
	// An address that comes after the server serves as well.
	inside(t, ns, func() error { return addAddress("lo", "169.254.169.253/32") })
	ask := func(network, server, name string) string {
		t.Helper()
		var conn net.Conn
		inside(t, ns, func() (err error) {
			conn, err = net.DialTimeout(network, server+":53", eventually.Limit)
			return err
		})
		defer conn.Close()
		c := dns.Client{Timeout: eventually.Limit, Net: network}
		reply, _, err := c.ExchangeWithConn(new(dns.Msg).SetQuestion(name, dns.TypeA), &dns.Conn{Conn: conn})
		if err != nil {
			t.Fatal(err)
		}
		if reply.Rcode != dns.RcodeSuccess {
			return dns.RcodeToString[reply.Rcode]
		}
		if !reply.RecursionAvailable {
			t.Error("it does not say that it is a resolver")
		}
		var all []string
		for _, rr := range reply.Answer {
			all = append(all, dns.Field(rr, 1))
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	for _, network := range []string{"udp", "tcp"} {
		for _, server := range []string{"10.0.0.2", "169.254.169.253"} {
			if got := ask(network, server, "4567.GR7.eu-west-1.eks.amazonaws.com."); got != "10.0.1.4 10.0.2.4" {
				t.Errorf("%s %s: %q", network, server, got)
			}
		}
	}
	// Changes are served at once, without another socket.
	config.Names = map[string][]netip.Addr{"0123.gr7.eu-west-1.eks.amazonaws.com": addrs("10.9.9.9")}
	config.Resolvers[0].Records = nil
	p.done(config)
	for name, want := range map[string]string{"0123.gr7.eu-west-1.eks.amazonaws.com.": "10.9.9.9",
		"4567.gr7.eu-west-1.eks.amazonaws.com.": "NXDOMAIN"} {
		if got := ask("udp", "10.0.0.2", name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// upstreamServer answers questions for names with an address, if answers says so, and no others.
func upstreamServer(t *testing.T, answers func(name string) bool) string {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if answers(q.Question[0].Name) {
			m := new(dns.Msg).SetReply(q)
			m.Answer = append(m.Answer, &dns.A{Hdr: answerHeader(q.Question[0], dns.TypeA, 1),
				A: net.IPv4(93, 184, 216, 34)})
			w.WriteMsg(m) //nolint:errcheck
		}
	})}
	go s.ActivateAndServe() //nolint:errcheck
	t.Cleanup(func() { packets.Close() })
	return packets.LocalAddr().String()
}

func TestOtherNamesAreTheHostsBusiness(t *testing.T) {
	t.Parallel()
	query := new(dns.Msg).SetQuestion("example.com.", dns.TypeA)
	file := filepath.Join(t.TempDir(), "resolv.conf")
	u := &upstream{file: file}
	if reply := u.forwardQuery(query); reply != nil {
		t.Errorf("without resolvers: %v", reply)
	}
	if err := os.WriteFile(file, []byte("nameserver 127.0.0.1\nnameserver 127.0.0.2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := u.availableServers(); fmt.Sprint(got) != "[127.0.0.1:53 127.0.0.2:53]" {
		t.Errorf("servers %v", got)
	}
	// A silent one is left alone until it answers a question of ours, and the next is asked.
	silent := upstreamServer(t, func(string) bool { return false })
	good := upstreamServer(t, func(string) bool { return true })
	u.servers = []string{silent, good}
	eventually.Nil(t, "the next is asked, and the silent one is found down", func() error {
		if reply := u.forwardQuery(query); reply == nil || len(reply.Answer) != 1 {
			return fmt.Errorf("reply %v", reply)
		}
		if got := u.availableServers(); !slices.Equal(got, []string{good}) {
			return fmt.Errorf("servers %v", got)
		}
		return nil
	})
	u.servers = []string{silent}
	if got := u.availableServers(); len(got) != 0 || u.forwardQuery(query) != nil {
		t.Errorf("all silent: %v", got)
	}
}

// TestNobodySwitchesTheHostsResolversOff asks for a name whose own servers are silent.
func TestNobodySwitchesTheHostsResolversOff(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server := upstreamServer(t, func(name string) bool { return name != "silent.example." })
	u := &upstream{file: file}
	u.availableServers() // reads the file
	u.servers = []string{server}
	if reply := u.forwardQuery(new(dns.Msg).SetQuestion("silent.example.", dns.TypeA)); reply != nil {
		t.Fatalf("reply %v", reply)
	}
	eventually.True(t, "the server was asked by us", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return !u.health[server].probed.IsZero()
	})
	eventually.Nil(t, "others are answered", func() error { // a busy machine may not answer in time
		if reply := u.forwardQuery(new(dns.Msg).SetQuestion("example.com.", dns.TypeA)); reply == nil {
			return fmt.Errorf("no answer of %v", u.availableServers())
		}
		return nil
	})
}

// TestQueriesLeaveOthersAPlace sends as many queries from VPCs as possible that nobody answers: all VPCs share the
// sockets.
func TestQueriesLeaveOthersAPlace(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	for range 6 {
		mine := 0
		for u.acquire(&mine) {
		}
		if mine == 0 || mine > maxAsking/2 {
			t.Errorf("a VPC has %d queries under way, of %d", mine, u.asking)
		}
	}
	mine := 0
	if !u.acquire(&mine) {
		t.Errorf("one more VPC finds no place beside %d", u.asking)
	}
	before := u.asking
	if u.release(&mine); mine != 0 || u.asking != before-1 {
		t.Errorf("%d and %d after a release", mine, u.asking)
	}
}

// A panic over a query, wherever it is, is a failure of that query.
func TestAPanicOverAQueryFailsIt(t *testing.T) {
	t.Parallel()
	r := &resolver{upstream: &upstream{}, names: new(atomic.Pointer[map[string][]netip.Addr]),
		log: slog.New(slog.DiscardHandler)}
	spec := testResolver("")
	r.spec.Store(&spec)
	for name, query := range map[string]*dns.Msg{
		"while it is answered":   new(dns.Msg).SetQuestion("sts.eu-west-1.amazonaws.com.", dns.TypeA),
		"while it is forwarded":  new(dns.Msg).SetQuestion("example.com.", dns.TypeA),
		"while it is cut to fit": new(dns.Msg).SetQuestion("example.com.", dns.TypeA).SetUpdate("example.com."),
	} {
		query.Extra = []dns.RR{nil} // of which the library cannot get the type
		client := &answered{remote: &net.UDPAddr{}}
		r.ServeDNS(client, query)
		var reply dns.Msg
		if err := reply.Unpack(client.reply); err != nil || reply.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s: %v %v", name, reply.Rcode, err)
		}
		if r.asking != 0 {
			t.Errorf("%s: %d queries are under way", name, r.asking)
		}
	}
}
