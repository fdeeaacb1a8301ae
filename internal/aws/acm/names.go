package acm

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/acm"

	"github.com/coracle-eks/coracle/internal/record"
)

// reserved are the domains that no certificate is issued in: those of AWS, where the endpoints of the daemon, of
// clusters and of load balancers are, and those that are nobody's, as they mean something else everywhere.
// [Authority] is not believed about them either.
var reserved = []string{"amazonaws.com", "amazonaws.com.cn", "aws", "arpa", "default", "internal", "invalid", "local",
	"localhost", "onion", "svc"}

// longestCommonName is what a common name holds.
// https://datatracker.ietf.org/doc/html/rfc5280#appendix-A
const longestCommonName = 64

// namePattern is the pattern of names as AWS writes it.
const namePattern = `^(\*\.)?(((?!-)[A-Za-z0-9-]{0,62}[A-Za-z0-9])\.)+((?!-)[A-Za-z0-9-]{1,62}[A-Za-z0-9])$`

// isDomainName reports whether a text is a domain name by AWS's pattern, which may begin with "*.".
func isDomainName(name string) bool {
	labels := strings.Split(strings.TrimPrefix(name, "*."), ".")
	if len(name) > 253 || len(labels) < 2 || len(labels[len(labels)-1]) < 2 {
		return false
	}
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool {
				return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			}) {
			return false
		}
	}
	return true
}

// covers reports whether a certificate for pattern, which may begin with "*.", is good for name.
func covers(pattern, name string) bool {
	if rest, ok := strings.CutPrefix(pattern, "*."); ok {
		_, parent, _ := strings.Cut(name, ".")
		return parent == rest
	}
	return pattern == name
}

// isWithin reports whether a name is a domain or one of its subdomains.
func isWithin(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

// checkNames returns the names of a request: in lower case, the first first, each once.
func (s *Service) checkNames(in *acm.RequestCertificateInput) ([]string, error) {
	if len(*in.DomainName) > longestCommonName {
		return nil, invalidParameter("The first domain name can be no longer than %d characters: request a shorter name, "+
			"and add this one as a subject alternative name.", longestCommonName)
	}
	var names []string
	for i, name := range append([]string{*in.DomainName}, in.SubjectAlternativeNames...) {
		if !isDomainName(name) {
			member := "domainName"
			if i > 0 {
				member = "subjectAlternativeNames"
			}
			return nil, validation("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member "+
				"must satisfy regular expression pattern: %s", name, member, namePattern)
		}
		name = strings.ToLower(name)
		if err := s.checkAllowed(name); err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > maxNames {
		return nil, limitExceeded("The certificate would have %d domain names, and can have %d: request several "+
			"certificates.", len(names), maxNames)
	}
	return names, nil
}

// checkAllowed refuses names that nobody may have a certificate for.
func (s *Service) checkAllowed(name string) error {
	base := strings.TrimPrefix(name, "*.")
	if _, err := netip.ParseAddr(base); err == nil {
		return invalidParameter("%s is an IP address: certificates are issued for domain names only.", name)
	}
	for _, domain := range reserved {
		if isWithin(base, domain) {
			return invalidParameter("No certificate can be requested for %s: names in the domain %s are reserved. Request one "+
				"for a domain of yours, or import a certificate.", name, domain)
		}
	}
	for _, host := range s.hostNames {
		if host = strings.ToLower(host); covers(name, host) || isWithin(base, host) {
			return invalidParameter("No certificate can be requested for %s: %s is a name of the host that coracle runs on. "+
				"Request one for another name, or import a certificate.", name, host)
		}
	}
	return nil
}

// domainsOf returns the domains that the owner of a certificate would have validated, a wildcard's as its parent.
func domainsOf(c record.Certificate) (domains []string) {
	for _, name := range c.SubjectAlternativeNames {
		if base := strings.TrimPrefix(name, "*."); !slices.Contains(domains, base) {
			domains = append(domains, base)
		}
	}
	return domains
}
