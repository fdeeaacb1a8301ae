//go:build linux

package endpoint

import (
	"encoding/binary"
	"net"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// answered is a client of the resolver.
type answered struct {
	dns.ResponseWriter
	remote net.Addr
	reply  []byte // nil before
}

func (a *answered) RemoteAddr() net.Addr { return a.remote }

func (a *answered) Write(reply []byte) (int, error) {
	a.reply = reply
	return len(reply), nil
}

// FuzzResolver shows that every query that the server takes is answered with a message that its client can read, and
// that is not larger than it wants: it begins with messages as they travel.
func FuzzResolver(f *testing.F) {
	for _, q := range []struct {
		name string
		kind uint16
	}{
		{"ip-10-0-1-5.eu-west-1.compute.internal.", dns.TypeA}, {"5.1.0.10.in-addr.arpa.", dns.TypePTR},
		{"4567.GR7.eu-west-1.eks.amazonaws.com.", dns.TypeANY}, {"sts.eu-west-1.amazonaws.com.", dns.TypeAAAA},
		{"111122223333.dkr.ecr.eu-west-1.amazonaws.com.", dns.TypeA}, {"example.com.", dns.TypeMX}, {".", dns.TypeNS},
		{"\\000\\255.in-addr.arpa.", dns.TypePTR}, {"ec2-198-18-9-7.eu-west-1.compute.amazonaws.com.", dns.TypeSOA},
	} {
		for _, edns := range []bool{false, true} {
			m := new(dns.Msg).SetQuestion(q.name, q.kind)
			if edns {
				m.SetEdns0(1232, true)
			}
			raw, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw, edns)
		}
	}
	var names atomic.Pointer[map[string][]netip.Addr]
	names.Store(&testNames)
	r := &resolver{names: &names, upstream: &upstream{file: filepath.Join(f.TempDir(), "none")}}
	spec := testResolver("")
	for i := range 200 { // more than a datagram holds
		spec.Records["*.dkr.ecr.eu-west-1.amazonaws.com"] = append(
			spec.Records["*.dkr.ecr.eu-west-1.amazonaws.com"],
			netip.AddrFrom4([4]byte{10, 0, 7, byte(i)}),
		)
	}
	r.spec.Store(&spec)
	f.Fuzz(func(t *testing.T, raw []byte, tcp bool) {
		if len(raw) < 12 {
			return
		}
		head := dns.Header{}
		for i, field := range []*uint16{&head.Id, &head.Bits, &head.Qdcount, &head.Ancount, &head.Nscount,
			&head.Arcount} {
			*field = binary.BigEndian.Uint16(raw[2*i:])
		}
		query := new(dns.Msg)
		if dns.DefaultMsgAcceptFunc(head) != dns.MsgAccept || query.Unpack(raw) != nil {
			return // as the library does
		}
		client := &answered{remote: &net.UDPAddr{}}
		if tcp {
			client.remote = &net.TCPAddr{}
		}
		r.ServeDNS(client, query)
		if client.reply == nil {
			t.Fatalf("%x has no answer", raw)
		}
		var reply dns.Msg
		if err := reply.Unpack(client.reply); err != nil {
			t.Fatalf("%x is answered with what is no message: %v\n%x", raw, err, client.reply)
		}
		most := dns.MaxMsgSize
		if !tcp {
			most = dns.MinMsgSize
			if opt := query.IsEdns0(); opt != nil {
				most = min(max(most, int(opt.UDPSize())), maxUDP)
			}
		}
		if len(client.reply) > most || reply.Id != query.Id || !reply.Response {
			t.Fatalf("%x is answered with %d bytes, of at most %d: %v", raw, len(client.reply), most, reply)
		}
	})
}
