package endpoint

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// How long answers may be kept, in seconds: what EC2 gives its names, and what may change when a cluster's access does.
const (
	nameTTL   = 60
	recordTTL = 5
)

// answerQuestion returns a resolver's answer to a question of from that it is authoritative for; nil when the question
// has to be forwarded.
func answerQuestion(r *Resolver, names map[string][]netip.Addr, from netip.Addr, q dns.Question) *dns.Msg {
	name := strings.ToLower(strings.TrimSuffix(q.Name, "."))
	if q.Qclass != dns.ClassINET && q.Qclass != dns.ClassANY {
		return refused()
	}
	_, parent, _ := strings.Cut(name, ".")
	for _, record := range []string{name, "*." + parent} {
		if all, ok := r.Records[record]; ok {
			return addresses(q, recordTTL, all...)
		}
	}
	if zones, ok := r.ZonalRecords[name]; ok {
		return answerFileSystem(r, name, zones, from, q)
	}
	if all, ok := names[name]; ok {
		return addresses(q, recordTTL, all...)
	}
	if strings.HasSuffix(name, ".in-addr.arpa") {
		return reverse(r, name, q)
	}
	if slices.ContainsFunc(privateIPv6, func(zone string) bool { return isInDomain(name, zone) }) {
		return missing(name)
	}
	switch {
	case name == "instance-data.ec2.internal" || name == "instance-data":
		return addresses(q, nameTTL, netip.AddrFrom4([4]byte{169, 254, 169, 254}))
	case isInDomain(name, "ec2.internal"), isInDomain(name, "compute.internal"):
		if a, ok := parseAddressName(name, "ip-", privateDomain(r.Region)); ok && isVPCAddress(r, a) {
			return addresses(q, nameTTL, a)
		}
		return missing(name)
	case strings.HasPrefix(name, "ec2-") && isInDomain(name, "amazonaws.com"):
		if a, ok := parseAddressName(name, "ec2-", publicDomain(r.Region)); ok {
			if private, here := r.Public[a]; here {
				a = private
			}
			return addresses(q, nameTTL, a)
		}
	case isAPIName(name), r.ForwardsS3 && isS3Name(name):
		return addresses(q, nameTTL, r.API)
	case isInDomain(name, fileSystemDomain(r.Region)):
		return missing(name) // a file system without a mount target in this VPC
	case isInDomain(name, "eks.amazonaws.com") && strings.Contains(name, ".gr7."):
		return missing(name) // the endpoint of a cluster that is no more
	}
	return nil
}

// privateDomain and publicDomain are the domains of the names that EC2 gives to instances.
// https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns-viewing.html
func privateDomain(region string) string {
	if region == "us-east-1" {
		return "ec2.internal"
	}
	return region + ".compute.internal"
}

func publicDomain(region string) string {
	if region == "us-east-1" {
		return "compute-1.amazonaws.com"
	}
	return region + ".compute.amazonaws.com"
}

// isInDomain reports whether the name is the domain or below it.
func isInDomain(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

// parseAddressName returns the address in a name such as ip-10-0-1-5.eu-west-1.compute.internal.
func parseAddressName(name, prefix, domain string) (netip.Addr, bool) {
	label, ok := strings.CutSuffix(name, "."+domain)
	if !ok {
		return netip.Addr{}, false
	}
	label, ok = strings.CutPrefix(label, prefix)
	if !ok {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", "."))
	return a, err == nil && a.Is4()
}

func formatAddressName(a netip.Addr, prefix, domain string) string {
	return prefix + strings.ReplaceAll(a.String(), ".", "-") + "." + domain + "."
}

func isVPCAddress(r *Resolver, a netip.Addr) bool {
	for _, p := range r.CIDRs {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// privateIPv6 are the reverse zones of private and link-local addresses of IPv6: what a host's resolvers know of those
// is its own network's, and none of a VPC's business (RFC 6303).
var privateIPv6 = []string{
	"c.f.ip6.arpa", "d.f.ip6.arpa", "8.e.f.ip6.arpa", "9.e.f.ip6.arpa", "a.e.f.ip6.arpa", "b.e.f.ip6.arpa",
}

// reverse answers for the addresses of the VPC, and for no others in private ranges there is anybody to ask (RFC 6303).
func reverse(r *Resolver, name string, q dns.Question) *dns.Msg {
	labels := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa"), ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	a, err := netip.ParseAddr(strings.Join(labels, "."))
	if err != nil {
		return nil
	}
	var target string
	switch {
	case isVPCAddress(r, a):
		target = formatAddressName(a, "ip-", privateDomain(r.Region))
	case r.Public[a].IsValid():
		target = formatAddressName(a, "ec2-", publicDomain(r.Region))
	case a.IsPrivate(), a.IsLinkLocalUnicast(), a.IsLoopback():
		return missing(name)
	default:
		return nil
	}
	m := new(dns.Msg)
	if q.Qtype == dns.TypePTR || q.Qtype == dns.TypeANY {
		m.Answer = append(m.Answer, &dns.PTR{Hdr: answerHeader(q, dns.TypePTR, nameTTL), Ptr: target})
	} else {
		m.Ns = append(m.Ns, authority(name))
	}
	return m
}

func answerHeader(q dns.Question, kind uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: q.Name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

// addresses answers with those of the family that was asked for.
func addresses(q dns.Question, ttl uint32, all ...netip.Addr) *dns.Msg {
	m := new(dns.Msg)
	for _, a := range all {
		switch {
		case a.Is4() && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeANY):
			m.Answer = append(m.Answer, &dns.A{Hdr: answerHeader(q, dns.TypeA, ttl), A: a.AsSlice()})
		case a.Is6() && (q.Qtype == dns.TypeAAAA || q.Qtype == dns.TypeANY):
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: answerHeader(q, dns.TypeAAAA, ttl), AAAA: a.AsSlice()})
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = append(m.Ns, authority(strings.TrimSuffix(q.Name, ".")))
	}
	return m
}

func missing(name string) *dns.Msg {
	m := new(dns.Msg)
	m.Rcode = dns.RcodeNameError
	m.Ns = append(m.Ns, authority(name))
	return m
}

func refused() *dns.Msg {
	m := new(dns.Msg)
	m.Rcode = dns.RcodeRefused
	return m
}

// authority returns the SOA record of a negative answer, which sets the time for which it may be cached.
func authority(name string) dns.RR {
	zone := name
	if labels := strings.Split(name, "."); len(labels) > 2 {
		zone = strings.Join(labels[1:], ".")
	}
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: dns.Fqdn(zone), Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: recordTTL},
		Ns:  "ns0." + dns.Fqdn(zone), Mbox: "hostmaster.amazon.com.",
		Serial: 1, Refresh: 7200, Retry: 900, Expire: 1209600, Minttl: recordTTL,
	}
}
