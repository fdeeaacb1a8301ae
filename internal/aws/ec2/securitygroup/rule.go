package securitygroup

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// UntagRules removes the tags of rules that are deleted.
func UntagRules(c *resource.Change, rules ...record.SecurityGroupRule) {
	for _, r := range rules {
		if c.ListTags(c.Scope, r.ID) != nil {
			c.RemoveTags(r.ID)
		}
	}
}

// permissions shows the rules of one direction as AWS groups them: by protocol and ports.
func permissions(g record.SecurityGroup, egress bool) []types.IpPermission {
	list := []types.IpPermission{}
	at := map[string]int{}
	for _, r := range g.Rules {
		if r.Egress != egress {
			continue
		}
		name := fmt.Sprint(r.Protocol, r.FromPort, r.ToPort)
		i, ok := at[name]
		if !ok {
			i = len(list)
			at[name] = i
			p := types.IpPermission{
				IpProtocol: aws.String(r.Protocol), IpRanges: []types.IpRange{}, Ipv6Ranges: []types.Ipv6Range{},
				PrefixListIds: []types.PrefixListId{}, UserIdGroupPairs: []types.UserIdGroupPair{},
			}
			if hasPorts(r.Protocol) {
				p.FromPort, p.ToPort = aws.Int32(r.FromPort), aws.Int32(r.ToPort)
			}
			list = append(list, p)
		}
		p, description := &list[i], resource.OrNil(r.Description)
		switch {
		case r.CIDRIPv4 != "":
			p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: aws.String(r.CIDRIPv4), Description: description})
		case r.CIDRIPv6 != "":
			p.Ipv6Ranges = append(p.Ipv6Ranges, types.Ipv6Range{CidrIpv6: aws.String(r.CIDRIPv6),
				Description: description})
		case r.PrefixListID != "":
			p.PrefixListIds = append(p.PrefixListIds, types.PrefixListId{PrefixListId: aws.String(r.PrefixListID),
				Description: description})
		default:
			p.UserIdGroupPairs = append(p.UserIdGroupPairs, types.UserIdGroupPair{GroupId: aws.String(r.GroupID),
				UserId: aws.String(g.Account), Description: description})
		}
	}
	return list
}

// hasPorts reports whether rules of a protocol have ports, or ICMP types and codes.
func hasPorts(protocol string) bool {
	return slices.Contains([]string{"tcp", "udp", "icmp", "icmpv6"}, protocol)
}

func (s *Service) viewRule(
	sc resource.Scope, g record.SecurityGroup, r record.SecurityGroupRule,
) types.SecurityGroupRule {
	v := types.SecurityGroupRule{
		CidrIpv4:             resource.OrNil(r.CIDRIPv4),
		CidrIpv6:             resource.OrNil(r.CIDRIPv6),
		Description:          resource.OrNil(r.Description),
		FromPort:             aws.Int32(r.FromPort),
		GroupId:              aws.String(g.ID),
		GroupOwnerId:         aws.String(g.Account),
		IpProtocol:           aws.String(r.Protocol),
		IsEgress:             aws.Bool(r.Egress),
		PrefixListId:         resource.OrNil(r.PrefixListID),
		SecurityGroupRuleArn: aws.String(sc.ARN(resource.RuleNaming.Resource, r.ID)),
		SecurityGroupRuleId:  aws.String(r.ID),
		Tags:                 s.ListTagSet(sc, r.ID),
		ToPort:               aws.Int32(r.ToPort),
	}
	if r.GroupID != "" {
		v.ReferencedGroupInfo = &types.ReferencedSecurityGroup{GroupId: aws.String(r.GroupID),
			UserId: aws.String(g.Account)}
	}
	return v
}

// ProtocolNames has the protocols that AWS shows by name.
var ProtocolNames = map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}

// ReadRule reads protocol and ports of a rule.
func ReadRule(protocol string, from, to *int32) (record.SecurityGroupRule, error) {
	r := record.SecurityGroupRule{Protocol: strings.ToLower(protocol), FromPort: -1, ToPort: -1}
	if name, ok := ProtocolNames[r.Protocol]; ok {
		r.Protocol = name
	}
	n, err := strconv.Atoi(r.Protocol)
	switch {
	case r.Protocol == "":
		return r, resource.MissingParameter("ipProtocol")
	case !hasPorts(r.Protocol) && (err != nil || n < -1 || n > 255):
		return r, resource.Invalid("Invalid value '%s' for IP protocol. Unknown protocol.", protocol)
	case !hasPorts(r.Protocol):
		return r, nil
	case from == nil || to == nil:
		if strings.HasPrefix(r.Protocol, "icmp") {
			return r, resource.Invalid("Invalid value 'Must specify both type and code with ICMP.' for portRange.")
		}
		return r, resource.Invalid("Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
	}
	r.FromPort, r.ToPort = *from, *to
	if strings.HasPrefix(r.Protocol, "icmp") {
		if r.FromPort < -1 || r.FromPort > 255 || r.ToPort < -1 || r.ToPort > 255 {
			return r, resource.Invalid("ICMP code (%d) out of range", r.ToPort)
		}
		return r, nil
	}
	for _, port := range []int32{r.FromPort, r.ToPort} {
		if port < 0 || port > 65535 {
			return r, resource.Invalid("Invalid value '%d' for portRange. Must be between 0 and 65535.", port)
		}
	}
	if r.FromPort > r.ToPort {
		return r, resource.Invalid("Invalid TCP/UDP port range (%d:%d)", r.FromPort, r.ToPort)
	}
	return r, nil
}

// peer is the source or destination that a request gives for a rule.
type peer struct {
	cidrIPv4, cidrIPv6, prefixList, group, groupName, description *string
}

// withPeer completes a rule of a group with its peer. A referenced group must exist, and stays as long as the rule.
func withPeer(c *resource.Change, g record.SecurityGroup, r record.SecurityGroupRule, p peer) (
	record.SecurityGroupRule, error) {
	r.Description = aws.ToString(p.description)
	if err := checkDescription(r.Description); err != nil {
		return r, err
	}
	switch {
	case p.cidrIPv4 != nil:
		block, err := netip.ParsePrefix(*p.cidrIPv4)
		if err != nil || !block.Addr().Is4() {
			return r, resource.Invalid("CIDR block %s is malformed", *p.cidrIPv4)
		}
		r.CIDRIPv4 = block.Masked().String()
	case p.cidrIPv6 != nil:
		block, err := netip.ParsePrefix(*p.cidrIPv6)
		if err != nil || !block.Addr().Is6() {
			return r, resource.Invalid("CIDR block %s is malformed", *p.cidrIPv6)
		}
		r.CIDRIPv6 = block.Masked().String()
	case p.prefixList != nil:
		if _, err := c.Scope.PrefixList(*p.prefixList); err != nil {
			return r, err
		}
		r.PrefixListID = *p.prefixList
	default:
		other, err := peerGroup(c, g, p)
		if err != nil {
			return r, err
		}
		r.GroupID = other.ID
		if other.ID != g.ID {
			if err := c.SecurityGroups.Require(c, other.ID); err != nil {
				return r, err
			}
			c.TouchVPC(g.VPCID)
		}
	}
	return r, nil
}

// checkDescription refuses what cannot be the description of a rule.
func checkDescription(text string) error {
	if text == "" || groupText.MatchString(text) {
		return nil
	}
	return resource.Invalid("Invalid rule description. Valid descriptions are strings less than 256 characters from " +
		"the following set: a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*")
}

func peerGroup(c *resource.Change, g record.SecurityGroup, p peer) (record.SecurityGroup, error) {
	if p.group == nil && p.groupName == nil {
		return g, resource.MissingParameter("groupId")
	}
	if p.group == nil {
		return c.SecurityGroupNamed(c.Scope, g.VPCID, *p.groupName)
	}
	other, err := c.SecurityGroups.GetRecord(c.Scope, p.group)
	if err == nil && other.VPCID != g.VPCID {
		err = wire.Errorf("InvalidGroup.NotFound",
			"You have specified two resources that belong to different networks.")
	}
	return other, err
}

// eachWanted calls each with every rule that permissions stand for.
func eachWanted(c *resource.Change, g record.SecurityGroup, egress bool, permissions []types.IpPermission,
	each func(record.SecurityGroupRule) error) error {
	for _, p := range permissions {
		shape, err := ReadRule(aws.ToString(p.IpProtocol), p.FromPort, p.ToPort)
		if err != nil {
			return err
		}
		shape.Egress = egress
		var peers []peer
		for _, r := range p.IpRanges {
			peers = append(peers, peer{cidrIPv4: r.CidrIp, description: r.Description})
		}
		for _, r := range p.Ipv6Ranges {
			peers = append(peers, peer{cidrIPv6: r.CidrIpv6, description: r.Description})
		}
		for _, r := range p.PrefixListIds {
			peers = append(peers, peer{prefixList: r.PrefixListId, description: r.Description})
		}
		for _, r := range p.UserIdGroupPairs {
			peers = append(peers, peer{group: r.GroupId, groupName: r.GroupName, description: r.Description})
		}
		if len(peers) == 0 {
			return wire.Errorf("MissingParameter",
				"The request must contain a CIDR block, a prefix list or a security group for each rule.")
		}
		for _, p := range peers {
			rule, err := withPeer(c, g, shape, p)
			if err != nil {
				return err
			}
			if err := each(rule); err != nil {
				return err
			}
		}
	}
	return nil
}

// equalRules reports whether two rules allow the same.
func equalRules(a, b record.SecurityGroupRule) bool {
	a.ID, a.Description, b.ID, b.Description = "", "", "", ""
	return a == b
}

// sentence describes a rule as AWS does in errors: "peer: 0.0.0.0/0, TCP, from port: 22, to port: 22, ALLOW".
func sentence(r record.SecurityGroupRule) string {
	parts := []string{"peer: " + r.CIDRIPv4 + r.CIDRIPv6 + r.PrefixListID + r.GroupID}
	switch r.Protocol {
	case "-1":
		parts = append(parts, "ALL")
	case "tcp", "udp":
		parts = append(parts, strings.ToUpper(r.Protocol), fmt.Sprintf("from port: %d", r.FromPort),
			fmt.Sprintf("to port: %d", r.ToPort))
	case "icmp", "icmpv6":
		parts = append(parts, strings.ToUpper(r.Protocol), fmt.Sprintf("type: %d", r.FromPort),
			fmt.Sprintf("code: %d", r.ToPort))
	default:
		parts = append(parts, "protocol: "+r.Protocol)
	}
	return strings.Join(append(parts, "ALLOW"), ", ")
}
