package ec2

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// direction is one of the two directions that rules of security groups have.
type direction struct {
	egress   bool
	property string // of the security group
	// The properties of a rule that name its other end.
	group, groupName, prefixList string
}

var (
	ingress = direction{false, "SecurityGroupIngress", "SourceSecurityGroupId", "SourceSecurityGroupName",
		"SourcePrefixListId"}
	egress = direction{true, "SecurityGroupEgress", "DestinationSecurityGroupId", "", "DestinationPrefixListId"}
)

// ruleKey tells rules of a direction apart: EC2 has no two rules of a group that allow the same.
type ruleKey struct {
	protocol string
	from, to int32
	peer     string
}

// rule is a rule that a template asks for.
type rule struct {
	key         ruleKey
	permission  types.IpPermission
	description string
}

// protocolNames are the protocols that EC2 shows by name.
var protocolNames = map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}

// hasPorts reports whether rules of a protocol have ports, or types and codes.
func hasPorts(protocol string) bool {
	return slices.Contains([]string{"tcp", "udp", "icmp", "icmpv6"}, protocol)
}

// canonicalBlock returns a CIDR block as EC2 shows it.
func canonicalBlock(cidr string) string {
	block, err := netip.ParsePrefix(cidr)
	if err != nil {
		return cidr
	}
	return block.Masked().String()
}

// keyOf returns the key of a rule as EC2 shows it.
func keyOf(live types.SecurityGroupRule) ruleKey {
	key := ruleKey{protocol: aws.ToString(live.IpProtocol), from: -1, to: -1}
	if hasPorts(key.protocol) {
		key.from, key.to = aws.ToInt32(live.FromPort), aws.ToInt32(live.ToPort)
	}
	switch {
	case live.CidrIpv4 != nil:
		key.peer = *live.CidrIpv4
	case live.CidrIpv6 != nil:
		key.peer = *live.CidrIpv6
	case live.PrefixListId != nil:
		key.peer = *live.PrefixListId
	case live.ReferencedGroupInfo != nil:
		key.peer = aws.ToString(live.ReferencedGroupInfo.GroupId)
	}
	return key
}

// readRule returns the rule of an object of properties, of a group.
func (d direction) readRule(ctx context.Context, c *ec2.Client, groupID string, object map[string]any) (rule, error) {
	r := &resource.Request{Properties: object}
	protocol := strings.ToLower(r.Text("IpProtocol"))
	if name, ok := protocolNames[protocol]; ok {
		protocol = name
	}
	made := rule{key: ruleKey{protocol: protocol, from: -1, to: -1}, description: r.Text("Description"),
		permission: types.IpPermission{IpProtocol: &protocol}}
	description := r.Pointer("Description")
	if hasPorts(protocol) {
		made.permission.FromPort, made.permission.ToPort = r.Int32("FromPort"), r.Int32("ToPort")
		if from := made.permission.FromPort; from != nil {
			made.key.from = *from
		}
		if to := made.permission.ToPort; to != nil {
			made.key.to = *to
		}
	}
	peers := 0
	if cidr := r.Pointer("CidrIp"); cidr != nil {
		made.key.peer, peers = canonicalBlock(*cidr), peers+1
		made.permission.IpRanges = []types.IpRange{{CidrIp: cidr, Description: description}}
	}
	if cidr := r.Pointer("CidrIpv6"); cidr != nil {
		made.key.peer, peers = canonicalBlock(*cidr), peers+1
		made.permission.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: cidr, Description: description}}
	}
	if list := r.Pointer(d.prefixList); list != nil {
		made.key.peer, peers = *list, peers+1
		made.permission.PrefixListIds = []types.PrefixListId{{PrefixListId: list, Description: description}}
	}
	group := r.Pointer(d.group)
	if name := r.Text(d.groupName); group == nil && d.groupName != "" && name != "" {
		id, err := groupNamed(ctx, c, groupID, name)
		if err != nil {
			return made, err
		}
		group = &id
	}
	if group != nil {
		made.key.peer, peers = *group, peers+1
		made.permission.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: group, Description: description,
			UserId: r.Pointer("SourceSecurityGroupOwnerId")}}
	}
	if peers != 1 {
		return made, resource.Errorf(resource.InvalidRequest, "Exactly one of CidrIp, CidrIpv6, %s and %s must be "+
			"specified and not empty", d.prefixList, d.group)
	}
	return made, nil
}

// groupNamed returns the ID of the security group of a name in the VPC of another group.
func groupNamed(ctx context.Context, c *ec2.Client, beside, name string) (string, error) {
	g, err := securityGroups.get(ctx, c, beside)
	if err != nil {
		return "", err
	}
	found, err := only(securityGroups.list(ctx, c, nil, []types.Filter{filter("vpc-id", aws.ToString(g.VpcId)),
		filter("group-name", name)}))
	if resource.IsNotFound(err) {
		return "", resource.Errorf(resource.NotFound, "The security group '%s' does not exist", name)
	}
	if err != nil {
		return "", err
	}
	return aws.ToString(found.GroupId), nil
}

// wantedRules returns the rules that the property of a group asks for. A group of which no egress is told has the rule
// that EC2 gives to every group: it lets everything out.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-securitygroup.html
func wantedRules(ctx context.Context, c *ec2.Client, groupID string, objects []map[string]any, d direction) (
	[]rule, error) {
	if len(objects) == 0 && d.egress {
		objects = []map[string]any{{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}}
	}
	var rules []rule
	for _, object := range objects {
		made, err := d.readRule(ctx, c, groupID, object)
		if err != nil {
			return nil, err
		}
		rules = append(rules, made)
	}
	return rules, nil
}

// rulesOf returns the rules of a group.
func rulesOf(ctx context.Context, c *ec2.Client, groupID string) ([]types.SecurityGroupRule, error) {
	out, err := c.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{
		Filters: []types.Filter{filter("group-id", groupID)}})
	if err != nil {
		return nil, err
	}
	return out.SecurityGroupRules, nil
}

// encode returns a rule in the terms of its properties.
func (d direction) encode(live types.SecurityGroupRule) map[string]any {
	properties := map[string]any{"IpProtocol": aws.ToString(live.IpProtocol)}
	if hasPorts(aws.ToString(live.IpProtocol)) {
		properties["FromPort"] = number(live.FromPort)
		properties["ToPort"] = number(live.ToPort)
	}
	for name, value := range map[string]*string{"CidrIp": live.CidrIpv4, "CidrIpv6": live.CidrIpv6,
		d.prefixList: live.PrefixListId, "Description": live.Description} {
		if value != nil {
			properties[name] = *value
		}
	}
	if g := live.ReferencedGroupInfo; g != nil {
		properties[d.group] = aws.ToString(g.GroupId)
	}
	return properties
}

func (d direction) authorize(ctx context.Context, c *ec2.Client, groupID string,
	permissions []types.IpPermission) error {
	if len(permissions) == 0 {
		return nil
	}
	_, err := d.authorizeOne(ctx, c, groupID, permissions...)
	return err
}

// authorizeOne adds rules, and returns the ID of the first.
func (d direction) authorizeOne(ctx context.Context, c *ec2.Client, groupID string,
	permissions ...types.IpPermission) (string, error) {
	var rules []types.SecurityGroupRule
	if d.egress {
		out, err := c.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{GroupId: &groupID,
			IpPermissions: permissions})
		if err != nil {
			return "", err
		}
		rules = out.SecurityGroupRules
	} else {
		out, err := c.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &groupID,
			IpPermissions: permissions})
		if err != nil {
			return "", err
		}
		rules = out.SecurityGroupRules
	}
	if len(rules) == 0 {
		return "", resource.Errorf(resource.ServiceInternalError, "the service returned no rule")
	}
	return aws.ToString(rules[0].SecurityGroupRuleId), nil
}

func (d direction) revoke(ctx context.Context, c *ec2.Client, groupID string, rules []string) error {
	if len(rules) == 0 {
		return nil
	}
	var err error
	if d.egress {
		_, err = c.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: &groupID,
			SecurityGroupRuleIds: rules})
	} else {
		_, err = c.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &groupID,
			SecurityGroupRuleIds: rules})
	}
	return err
}

// describe changes the descriptions of rules.
func (d direction) describe(ctx context.Context, c *ec2.Client, groupID string,
	rules []types.SecurityGroupRuleDescription) error {
	if len(rules) == 0 {
		return nil
	}
	var err error
	if d.egress {
		_, err = c.UpdateSecurityGroupRuleDescriptionsEgress(ctx, &ec2.UpdateSecurityGroupRuleDescriptionsEgressInput{
			GroupId: &groupID, SecurityGroupRuleDescriptions: rules})
	} else {
		_, err = c.UpdateSecurityGroupRuleDescriptionsIngress(ctx,
			&ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: &groupID, SecurityGroupRuleDescriptions: rules})
	}
	return err
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-securitygroupingress.html
var securityGroupIngress = resource.Type{Handler: ruleHandler(ingress)}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-securitygroupegress.html
var securityGroupEgress = resource.Type{Handler: ruleHandler(egress)}

// ruleHandler returns the handler of rules of a direction that are resources of their own.
func ruleHandler(d direction) resource.Handler {
	return resource.Note(resource.Table[*ec2.Client, types.SecurityGroupRule]{
		Client: client,
		Create: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			groupID, made, err := d.readRequest(ctx, c, r)
			if err != nil {
				return "", err
			}
			return d.authorizeOne(ctx, c, groupID, made.permission)
		},
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			groupID, made, err := d.readRequest(ctx, c, r)
			if err != nil {
				return "", err
			}
			rules, err := rulesOf(ctx, c, groupID)
			if err != nil {
				return "", err
			}
			for _, live := range rules {
				if aws.ToBool(live.IsEgress) == d.egress && keyOf(live) == made.key {
					return aws.ToString(live.SecurityGroupRuleId), nil
				}
			}
			return "", resource.ErrNotFound
		},
		Describe: describeRule,
		Configure: []resource.Step[*ec2.Client]{{Properties: []string{"Description"}, Update: true,
			Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
				live, err := describeRule(ctx, c, r)
				if err != nil {
					return err
				}
				return d.describe(ctx, c, aws.ToString(live.GroupId), []types.SecurityGroupRuleDescription{
					{SecurityGroupRuleId: &r.PhysicalID, Description: new(r.Text("Description"))}})
			}}},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			live, err := describeRule(ctx, c, r)
			if err != nil {
				return err
			}
			return d.revoke(ctx, c, aws.ToString(live.GroupId), []string{r.PhysicalID})
		},
		Attributes: func(r *resource.Request, _ *types.SecurityGroupRule) map[string]any {
			return map[string]any{"Id": r.PhysicalID}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, live *types.SecurityGroupRule) (
			map[string]any, error) {
			properties := d.encode(*live)
			properties["GroupId"] = aws.ToString(live.GroupId)
			return properties, nil
		},
	})
}

// readRequest returns the rule of a request, and its group: that of an ID, or one of the default VPC of a name.
func (d direction) readRequest(ctx context.Context, c *ec2.Client, r *resource.Request) (string, rule, error) {
	groupID := r.Text("GroupId")
	if name := r.Text("GroupName"); groupID == "" && name != "" {
		out, err := c.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupNames: []string{name}})
		if err != nil {
			return "", rule{}, err
		}
		if len(out.SecurityGroups) > 0 {
			groupID = aws.ToString(out.SecurityGroups[0].GroupId)
		}
	}
	if groupID == "" {
		return "", rule{}, resource.Errorf(resource.InvalidRequest, "Either GroupId or GroupName must be specified")
	}
	made, err := d.readRule(ctx, c, groupID, r.Properties)
	return groupID, made, err
}

func describeRule(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.SecurityGroupRule, error) {
	out, err := c.DescribeSecurityGroupRules(ctx,
		&ec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{r.PhysicalID}})
	if err != nil {
		return nil, err
	}
	return only(out.SecurityGroupRules, nil)
}

func number(n *int32) any { return json.Number(strconv.Itoa(int(aws.ToInt32(n)))) }
