package balancing

import (
	"slices"
	"strings"
)

// SecurityPolicy says which protocols and ciphers a listener with TLS offers, by AWS's names.
type SecurityPolicy struct {
	Name      string
	Protocols []string // "TLSv1.3"
	Ciphers   []string // in the order of preference
}

// cipherClasses are the ciphers of the security policies in the order of preference, each with the letters of its
// classes: 3 for TLS 1.3, and f if FIPS policies have it; g (GCM), c (CBC with SHA-2) and s (SHA-1) with ephemeral
// keys, and G, C and S without.
var cipherClasses = []struct{ classes, name string }{
	{"3f", "TLS_AES_128_GCM_SHA256"},
	{"3f", "TLS_AES_256_GCM_SHA384"},
	{"3", "TLS_CHACHA20_POLY1305_SHA256"},
	{"gf", "ECDHE-ECDSA-AES128-GCM-SHA256"},
	{"gf", "ECDHE-RSA-AES128-GCM-SHA256"},
	{"cf", "ECDHE-ECDSA-AES128-SHA256"},
	{"cf", "ECDHE-RSA-AES128-SHA256"},
	{"sf", "ECDHE-ECDSA-AES128-SHA"},
	{"sf", "ECDHE-RSA-AES128-SHA"},
	{"gf", "ECDHE-ECDSA-AES256-GCM-SHA384"},
	{"gf", "ECDHE-RSA-AES256-GCM-SHA384"},
	{"cf", "ECDHE-ECDSA-AES256-SHA384"},
	{"cf", "ECDHE-RSA-AES256-SHA384"},
	{"sf", "ECDHE-RSA-AES256-SHA"},
	{"sf", "ECDHE-ECDSA-AES256-SHA"},
	{"Gf", "AES128-GCM-SHA256"},
	{"Cf", "AES128-SHA256"},
	{"Sf", "AES128-SHA"},
	{"Gf", "AES256-GCM-SHA384"},
	{"Cf", "AES256-SHA256"},
	{"Sf", "AES256-SHA"},
}

// policyClasses has the policies with the versions of TLS, and the classes of their ciphers: those with f have only
// ciphers that FIPS policies have. The policies of RFC 9151 are not among them.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html
var policyClasses = []struct{ name, versions, classes string }{
	{"ELBSecurityPolicy-TLS13-1-2-2021-06", "1.3 1.2", "3gc"},
	{"ELBSecurityPolicy-TLS13-1-2-Res-2021-06", "1.3 1.2", "3g"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext1-2021-06", "1.3 1.2", "3gcGC"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext2-2021-06", "1.3 1.2", "3gcsGCS"},
	{"ELBSecurityPolicy-TLS13-1-1-2021-06", "1.3 1.2 1.1", "3gcsGCS"},
	{"ELBSecurityPolicy-TLS13-1-0-2021-06", "1.3 1.2 1.1 1", "3gcsGCS"},
	{"ELBSecurityPolicy-TLS13-1-3-2021-06", "1.3", "3"},
	{"ELBSecurityPolicy-TLS13-1-2-PQ-2025-09", "1.3 1.2", "3gc"},
	{"ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09", "1.3 1.2", "3g"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext1-PQ-2025-09", "1.3 1.2", "3gcGC"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext2-PQ-2025-09", "1.3 1.2", "3gcsGCS"},
	{"ELBSecurityPolicy-TLS13-1-0-PQ-2025-09", "1.3 1.2 1.1 1", "3gcsGCS"},
	{"ELBSecurityPolicy-TLS13-1-3-PQ-2025-09", "1.3", "3"},
	{"ELBSecurityPolicy-TLS13-1-3-FIPS-2023-04", "1.3", "3f"},
	{"ELBSecurityPolicy-TLS13-1-2-FIPS-2023-04", "1.3 1.2", "3gcf"},
	{"ELBSecurityPolicy-TLS13-1-2-Res-FIPS-2023-04", "1.3 1.2", "3gf"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext2-FIPS-2023-04", "1.3 1.2", "3gcsGCSf"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext1-FIPS-2023-04", "1.3 1.2", "3gcGCf"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext0-FIPS-2023-04", "1.3 1.2", "3gcsf"},
	{"ELBSecurityPolicy-TLS13-1-1-FIPS-2023-04", "1.3 1.2 1.1", "3gcsGCSf"},
	{"ELBSecurityPolicy-TLS13-1-0-FIPS-2023-04", "1.3 1.2 1.1 1", "3gcsGCSf"},
	{"ELBSecurityPolicy-TLS13-1-3-FIPS-PQ-2025-09", "1.3", "3f"},
	{"ELBSecurityPolicy-TLS13-1-2-FIPS-PQ-2025-09", "1.3 1.2", "3gcf"},
	{"ELBSecurityPolicy-TLS13-1-2-Res-FIPS-PQ-2025-09", "1.3 1.2", "3gf"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext2-FIPS-PQ-2025-09", "1.3 1.2", "3gcsGCSf"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext1-FIPS-PQ-2025-09", "1.3 1.2", "3gcGCf"},
	{"ELBSecurityPolicy-TLS13-1-2-Ext0-FIPS-PQ-2025-09", "1.3 1.2", "3gcsf"},
	{"ELBSecurityPolicy-TLS13-1-0-FIPS-PQ-2025-09", "1.3 1.2 1.1 1", "3gcsGCSf"},
	{"ELBSecurityPolicy-FS-1-2-Res-2020-10", "1.2", "g"},
	{"ELBSecurityPolicy-FS-1-2-Res-2019-08", "1.2", "gc"},
	{"ELBSecurityPolicy-FS-1-2-2019-08", "1.2", "gcs"},
	{"ELBSecurityPolicy-FS-1-1-2019-08", "1.2 1.1", "gcs"},
	{"ELBSecurityPolicy-FS-2018-06", "1.2 1.1 1", "gcs"},
	{"ELBSecurityPolicy-TLS-1-2-Ext-2018-06", "1.2", "gcsGCS"},
	{"ELBSecurityPolicy-TLS-1-2-2017-01", "1.2", "gcGC"},
	{"ELBSecurityPolicy-TLS-1-1-2017-01", "1.2 1.1", "gcsGCS"},
	{"ELBSecurityPolicy-2016-08", "1.2 1.1 1", "gcsGCS"},
	{"ELBSecurityPolicy-2015-05", "1.2 1.1 1", "gcsGCS"},
}

// SecurityPolicies returns the security policies that listeners can have.
func SecurityPolicies() []SecurityPolicy {
	all := make([]SecurityPolicy, 0, len(policyClasses))
	for _, p := range policyClasses {
		policy := SecurityPolicy{Name: p.name}
		for v := range strings.FieldsSeq(p.versions) {
			policy.Protocols = append(policy.Protocols, "TLSv"+v)
		}
		for _, c := range cipherClasses {
			if strings.ContainsAny(p.classes, strings.TrimSuffix(c.classes, "f")) &&
				(!strings.Contains(p.classes, "f") || strings.Contains(c.classes, "f")) {
				policy.Ciphers = append(policy.Ciphers, c.name)
			}
		}
		all = append(all, policy)
	}
	return all
}

// SecurityPolicyNamed returns a security policy by its name.
func SecurityPolicyNamed(name string) (SecurityPolicy, bool) {
	all := SecurityPolicies()
	if i := slices.IndexFunc(all, func(p SecurityPolicy) bool { return p.Name == name }); i >= 0 {
		return all[i], true
	}
	return SecurityPolicy{}, false
}
