//go:build linux

package network

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestNetworkACLs(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s1, s2 := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	g := w.open(v)
	client, server, neighbor := w.newENI(s1, "", 0, g, "10.0.1.10"), w.newENI(s2, "", 0, g, "10.0.2.10"), w.newENI(s2,
		"", 0, g, "10.0.2.11")
	w.plugged(client, server, neighbor)
	w.serve(instanceOf(server), "10.0.2.10:80")
	w.serve(instanceOf(server), "10.0.2.10:81")

	allow, deny := ec2types.RuleActionAllow, ec2types.RuleActionDeny
	tcp := func(number int32, egress bool, action ec2types.RuleAction, block string, first,
		last int32) record.NetworkACLEntry {
		return record.NetworkACLEntry{Number: number, Egress: egress, Protocol: "6", Action: action, CIDR: block,
			Ports: &ec2types.PortRange{From: aws.Int32(first), To: aws.Int32(last)}}
	}
	all := func(number int32, egress bool, action ec2types.RuleAction, block string) record.NetworkACLEntry {
		return record.NetworkACLEntry{Number: number, Egress: egress, Protocol: "-1", Action: action, CIDR: block}
	}
	ping := func(number int32, egress bool, kind int32) record.NetworkACLEntry {
		return record.NetworkACLEntry{Number: number, Egress: egress, Protocol: "1", Action: allow, CIDR: "0.0.0.0/0",
			ICMP: &ec2types.IcmpTypeCode{Type: aws.Int32(kind), Code: aws.Int32(-1)}}
	}
	for _, c := range []struct {
		what    string
		entries []record.NetworkACLEntry
		port80  bool
		port81  bool
		ping    bool
	}{
		{"everything allowed", []record.NetworkACLEntry{all(100, false, allow, "0.0.0.0/0"),
			all(100, true, allow, "0.0.0.0/0")}, true, true, true},
		{"nothing allowed", nil, false, false, false},
		{"stateless: the way back must be allowed, too", []record.NetworkACLEntry{all(100, false, allow, "0.0.0.0/0")},
			false, false, false},
		{"a port, and ephemeral ports back", []record.NetworkACLEntry{tcp(100, false, allow, "10.0.1.0/24", 80, 80),
			tcp(100, true, allow, "0.0.0.0/0", 1024, 65535)}, true, false, false},
		{"a port, but too few ephemeral ports back", []record.NetworkACLEntry{tcp(100, false, allow, "10.0.1.0/24", 80,
			80), tcp(100, true, allow, "0.0.0.0/0", 1024, 1025)}, false, false, false},
		{"the lower number decides: deny first", []record.NetworkACLEntry{all(200, false, allow, "0.0.0.0/0"),
			tcp(100, false, deny, "10.0.1.0/24", 80, 80), all(100, true, allow, "0.0.0.0/0")}, false, true, true},
		{"the lower number decides: allow first", []record.NetworkACLEntry{all(100, false, allow, "0.0.0.0/0"),
			tcp(200, false, deny, "10.0.1.0/24", 80, 80), all(100, true, allow, "0.0.0.0/0")}, true, true, true},
		{"another block", []record.NetworkACLEntry{all(100, false, allow, "10.0.9.0/24"),
			all(100, true, allow, "0.0.0.0/0")}, false, false, false},
		{"ICMP by type", []record.NetworkACLEntry{ping(100, false, 8), ping(100, true, 0)}, false, false, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			acl := put(w, record.NetworkACLs, record.NetworkACL{EC2Resource: resource("acl-"), VPCID: v.ID,
				Entries: c.entries})
			change(w, record.Subnets, s2, func(s *record.Subnet) { s.NetworkACLID = acl.ID })
			w.waitForRules(v)
			for port, allowed := range map[int]bool{80: c.port80, 81: c.port81} {
				if err := w.attempt("tcp", instanceOf(client), "10.0.2.10", port, allowed); (err == nil) != allowed {
					t.Errorf("port %d: got %v, want allowed %v", port, err, allowed)
				}
			}
			if err := w.ping(instanceOf(client), "10.0.2.10", c.ping); (err == nil) != c.ping {
				t.Errorf("ping: got %v, want allowed %v", err, c.ping)
			}
			if err := w.attempt("tcp", instanceOf(neighbor), "10.0.2.10", 80, true); err != nil {
				t.Errorf("within the subnet, where no ACL applies: %v", err)
			}
		})
	}
}

// The interfaces of services are the router's own: packets between them and machines are not forwarded.
func TestNetworkACLsOfServices(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s1, s2 := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	g := w.open(v)
	target := w.newENI(s2, "", 0, g, "10.0.2.50")
	change(w, record.NetworkInterfaces, target, func(e *record.NetworkInterface) {
		e.InterfaceType, e.Attachment.InstanceID, e.RequesterManaged = record.InterfaceTypeEFS, "", true
	})
	client, neighbor := w.newENI(s1, "", 0, g, "10.0.1.10"), w.newENI(s2, "", 0, g, "10.0.2.10")
	w.plugged(client, neighbor)
	w.serve(VPCNamespace(v.ID), "10.0.2.50:2049")

	entry := func(egress bool, protocol, block string, first, last int32) record.NetworkACLEntry {
		e := record.NetworkACLEntry{Number: 100, Egress: egress, Protocol: protocol, Action: ec2types.RuleActionAllow,
			CIDR: block}
		if first > 0 {
			e.Ports = &ec2types.PortRange{From: aws.Int32(first), To: aws.Int32(last)}
		}
		return e
	}
	const everywhere = "0.0.0.0/0"
	for _, c := range []struct {
		what     string
		subnet   record.Subnet
		entries  []record.NetworkACLEntry
		reachers bool
	}{
		{"everything allowed", s2, []record.NetworkACLEntry{entry(false, "-1", everywhere, 0, 0),
			entry(true, "-1", everywhere, 0, 0)}, true},
		{"nothing allowed", s2, nil, false},
		{"stateless: the way back must be allowed, too", s2, []record.NetworkACLEntry{entry(false, "-1", everywhere, 0, 0)},
			false},
		{"the port, and ephemeral ports back", s2, []record.NetworkACLEntry{entry(false, "6", "10.0.1.0/24", 2049, 2049),
			entry(true, "6", "10.0.1.0/24", 1024, 65535)}, true},
		{"another port", s2, []record.NetworkACLEntry{entry(false, "6", "10.0.1.0/24", 2048, 2048),
			entry(true, "-1", everywhere, 0, 0)}, false},
		{"nothing may leave the client's subnet", s1, []record.NetworkACLEntry{entry(false, "-1", everywhere, 0, 0)}, false},
		{"nothing may enter it", s1, []record.NetworkACLEntry{entry(true, "-1", everywhere, 0, 0)}, false},
		{"both may", s1, []record.NetworkACLEntry{entry(true, "6", "10.0.2.50/32", 2049, 2049),
			entry(false, "6", "10.0.2.0/24", 1024, 65535)}, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			acl := put(w, record.NetworkACLs, record.NetworkACL{EC2Resource: resource("acl-"), VPCID: v.ID,
				Entries: c.entries})
			change(w, record.Subnets, c.subnet, func(s *record.Subnet) { s.NetworkACLID = acl.ID })
			w.waitForRules(v)
			w.reaches(instanceOf(client), "10.0.2.50:2049", c.reachers)
			w.reaches(instanceOf(neighbor), "10.0.2.50:2049", true) // within the subnet, where no ACL applies
			change(w, record.Subnets, c.subnet, func(s *record.Subnet) { s.NetworkACLID = v.acl.ID })
		})
	}
}
