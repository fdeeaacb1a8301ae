package endpoint

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// A file system's name leads to the mount target in the Availability Zone of who asks.
func TestNamesOfFileSystems(t *testing.T) {
	t.Parallel()
	c, err := New(Options{Store: storetest.New(t), Namespace: func(name string) string { return "/ns/" + name },
		PublicRange: netip.MustParsePrefix("198.18.0.0/16"), API: netip.MustParseAddr("198.18.0.3")})
	if err != nil {
		t.Fatal(err)
	}
	const account, region = "111122223333", "eu-west-1"
	resource := func(id string) record.EC2Resource {
		return record.EC2Resource{Account: account, Region: region, ID: id}
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, hostnames := range []bool{true, false} {
		id := map[bool]string{true: "vpc-1", false: "vpc-2"}[hostnames]
		vpc := record.VPC{EC2Resource: resource(id), EnableDNSSupport: true, EnableDNSHostnames: hostnames,
			CIDRs: []record.CIDRAssociation{{CIDR: "10.0.0.0/16"}}}
		must(c.rows.vpcs.Create(t.Context(), vpc.Key(), vpc))
		for zone, cidr := range map[string]string{"a": "10.0.1.0/24", "b": "10.0.2.0/24", "c": "10.0.3.0/24"} {
			subnet := record.Subnet{EC2Resource: resource("subnet-" + id + zone), VPCID: id, CIDR: cidr,
				AvailabilityZone: region + zone}
			must(c.rows.subnets.Create(t.Context(), subnet.Key(), subnet))
		}
		for zone, address := range map[string]string{"a": "10.0.1.9", "b": "10.0.2.9"} {
			m := record.MountTarget{Account: account, Region: region, ID: "fsmt-" + id + zone, FileSystemID: "fs-1",
				VPCID: id, AvailabilityZone: region + zone, IPAddress: address}
			must(c.rows.mountTargets.Create(t.Context(), m.Key(), m))
		}
	}
	gone := record.MountTarget{Account: account, Region: region, ID: "fsmt-gone", FileSystemID: "fs-2", VPCID: "vpc-1",
		AvailabilityZone: region + "a", IPAddress: "10.0.1.10", Deleted: time.Now()}
	must(c.rows.mountTargets.Create(t.Context(), gone.Key(), gone))
	config, _, err := c.rows.buildConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	byVPC := map[string]*Resolver{}
	for i := range config.Resolvers {
		byVPC[strings.TrimPrefix(config.Resolvers[i].Namespace, "/ns/")] = &config.Resolvers[i]
	}
	const none = "NXDOMAIN"
	for _, test := range []struct{ vpc, name, from, want string }{
		{"vpc-1", "fs-1.efs.eu-west-1.amazonaws.com.", "10.0.1.77", "10.0.1.9"},
		{"vpc-1", "FS-1.efs.eu-west-1.amazonaws.com.", "10.0.2.77", "10.0.2.9"},
		{"vpc-1", "fs-1.efs.eu-west-1.amazonaws.com.", "10.0.3.77", none}, // no mount target in the zone
		{"vpc-1", "fs-1.efs.eu-west-1.amazonaws.com.", "10.0.9.77", "10.0.1.9"},
		{"vpc-1", "eu-west-1b.fs-1.efs.eu-west-1.amazonaws.com.", "10.0.1.77", "10.0.2.9"},
		{"vpc-1", "eu-west-1c.fs-1.efs.eu-west-1.amazonaws.com.", "10.0.1.77", none},
		{"vpc-1", "fs-2.efs.eu-west-1.amazonaws.com.", "10.0.1.77", none},
		{"vpc-1", "fs-3.efs.eu-west-1.amazonaws.com.", "10.0.1.77", none},
		{"vpc-1", "efs.eu-west-1.amazonaws.com.", "10.0.1.77", "198.18.0.3"},
		{"vpc-2", "fs-1.efs.eu-west-1.amazonaws.com.", "10.0.1.77", none}, // a VPC without DNS hostnames
	} {
		m := answerQuestion(byVPC[test.vpc], nil, netip.MustParseAddr(test.from), dns.Question{Name: test.name,
			Qtype: dns.TypeA, Qclass: dns.ClassINET})
		got := "nothing"
		if m != nil {
			got = dns.RcodeToString[m.Rcode]
			if len(m.Answer) > 0 {
				got = dns.Field(m.Answer[0], 1)
			}
		}
		if got != test.want {
			t.Errorf("%s of %s in %s: %s, want %s", test.name, test.from, test.vpc, got, test.want)
		}
	}
}
