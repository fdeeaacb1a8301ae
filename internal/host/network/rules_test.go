//go:build linux

package network

import (
	"fmt"
	"net/netip"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/nftables/expr"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestRulesAreValidatedInLinearTime counts the rules that a kernel visits to validate the table of a router. Kernels
// that do not remember which chains they have validated visit a chain once for each way that leads to it.
func TestRulesAreValidatedInLinearTime(t *testing.T) {
	t.Parallel()
	few, depth := validation(t, largeDesign(200, 60).ruleset())
	many, _ := validation(t, largeDesign(400, 60).ruleset())
	if many != few {
		t.Errorf("%.0f rules are visited for 400 ENIs, and %.0f for 200 with the same groups", many, few)
	}
	r := largeDesign(200, 60).ruleset()
	rules := 0
	for _, c := range r.chains {
		rules += len(c.rules)
	}
	// Each group is one of at most five of an ENI, in two chains of each direction.
	if most := 4 * 5 * rules; few > float64(most) {
		t.Errorf("%.0f rules are visited, and the table has %d: want at most %d", few, rules, most)
	}
	if depth > 4 { // the kernel refuses more than 16
		t.Errorf("chains call each other %d deep", depth)
	}
}

// largeDesign returns a design of ENIs with five groups each, whose rules refer to other groups, and subnets with
// network ACLs.
func largeDesign(enis, groups int) *design {
	d := &design{vpc: record.VPC{EC2Resource: resource("vpc-")}, groups: map[string]record.SecurityGroup{},
		acls: map[string]record.NetworkACL{}, lists: map[string][]netip.Prefix{}, internet: true}
	groupID := func(i int) string { return fmt.Sprintf("sg-%017x", i%groups) }
	for i := range groups {
		g := record.SecurityGroup{EC2Resource: record.EC2Resource{ID: groupID(i)}}
		for j := range 60 {
			for _, egress := range []bool{false, true} {
				g.Rules = append(g.Rules, record.SecurityGroupRule{Egress: egress, Protocol: "tcp",
					FromPort: int32(j), ToPort: int32(j), GroupID: groupID(i + j)})
			}
		}
		d.groups[g.ID] = g
	}
	for i := range 50 {
		acl := record.NetworkACL{EC2Resource: record.EC2Resource{ID: fmt.Sprintf("acl-%017x", i)}}
		for j := range int32(20) {
			for _, egress := range []bool{false, true} {
				acl.Entries = append(acl.Entries, record.NetworkACLEntry{Number: j + 1, Egress: egress, Protocol: "-1",
					Action: ec2types.RuleActionAllow, CIDR: fmt.Sprintf("10.%d.0.0/16", j)})
			}
		}
		d.acls[acl.ID] = acl
		d.subnets = append(d.subnets, subnet{id: fmt.Sprintf("subnet-%017x", i), acl: acl.ID,
			cidr: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)})
	}
	for i := range enis {
		p := port{subnet: d.subnets[0], holder: fmt.Sprintf("i-%017x", i), eni: record.NetworkInterface{
			EC2Resource: record.EC2Resource{ID: fmt.Sprintf("eni-%017x", i<<12)}, SourceDestCheck: true,
			PrivateIPs: []string{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()},
		}}
		for j := range 5 {
			p.eni.SecurityGroupIDs = append(p.eni.SecurityGroupIDs, groupID(i+7*j))
		}
		d.ports = append(d.ports, p)
	}
	d.endpoints = append(d.endpoints, d.ports[0])
	return d
}

// validation returns how many rules a kernel visits that follows each way through the chains, and how deep the ways
// go.
func validation(t *testing.T, r *ruleset) (visits float64, depth int) {
	t.Helper()
	chains, sets := map[string]*chain{}, map[string]*set{}
	for _, c := range r.chains {
		chains[c.name] = c
	}
	for _, s := range r.sets {
		sets[s.name] = s
	}
	type cost struct {
		visits float64
		depth  int
	}
	known := map[string]cost{}
	var of func(name string) cost
	follow := func(total *cost, v *expr.Verdict) {
		if v == nil || v.Kind != expr.VerdictJump && v.Kind != expr.VerdictGoto {
			return
		}
		next := of(v.Chain)
		total.visits, total.depth = total.visits+next.visits, max(total.depth, next.depth+1)
	}
	of = func(name string) cost {
		if c, there := known[name]; there {
			return c
		}
		c := chains[name]
		if c == nil {
			t.Fatalf("there is no chain %s", name)
		}
		total := cost{visits: float64(len(c.rules))}
		for _, rule := range c.rules {
			for _, e := range rule {
				switch e := e.(type) {
				case *expr.Verdict:
					follow(&total, e)
				case *expr.Lookup:
					if sets[e.SetName] == nil {
						t.Fatalf("there is no set %s", e.SetName)
					}
					for _, element := range sets[e.SetName].elements {
						follow(&total, element.VerdictData)
					}
				}
			}
		}
		known[name] = total
		return total
	}
	for _, c := range r.chains {
		if c.hook != nil {
			total := of(c.name)
			visits, depth = visits+total.visits, max(depth, total.depth)
		}
	}
	return visits, depth
}
