package ec2

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var networkACLs = kind[types.NetworkAcl]{
	resource: types.ResourceTypeNetworkAcl,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.NetworkAcl, error) {
		out, err := c.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{NetworkAclIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.NetworkAcls, nil
	},
	id: func(a *types.NetworkAcl) *string { return a.NetworkAclId },
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-networkacl.html
var networkACL = resource.Type{
	Tagged: true,
	Handler: resource.Handle(resource.Table[*ec2.Client, types.NetworkAcl]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateNetworkAcl, nil,
			func(out *ec2.CreateNetworkAclOutput) *string { return out.NetworkAcl.NetworkAclId },
			func(r *resource.Request, in *ec2.CreateNetworkAclInput) error {
				in.TagSpecifications = networkACLs.tags(r)
				return nil
			}),
		Find:      networkACLs.find,
		Describe:  networkACLs.describe,
		Configure: []resource.Step[*ec2.Client]{retag},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteNetworkAcl(ctx, &ec2.DeleteNetworkAclInput{NetworkAclId: &r.PhysicalID})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.NetworkAcl) map[string]any {
			return map[string]any{"Id": r.PhysicalID}
		},
		Properties: func(_ context.Context, _ *ec2.Client, _ *resource.Request, a *types.NetworkAcl) (map[string]any, error) {
			return encode(map[string]any{"VpcId": aws.ToString(a.VpcId)}, nil, a.Tags, nil), nil
		},
	}),
}

// entryID returns the physical ID of the entry of a request: its network ACL, its number and its direction.
func entryID(r *resource.Request) string {
	return strings.Join([]string{r.Text("NetworkAclId"), r.Text("RuleNumber"),
		strconv.FormatBool(aws.ToBool(r.Flag("Egress")))}, "|")
}

// splitEntryID reverses entryID.
func splitEntryID(id string) (acl string, number int32, egress bool) {
	parts := strings.Split(id, "|")
	if len(parts) != 3 {
		return id, 0, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		n = 0 // no entry has the number
	}
	return parts[0], int32(n), parts[2] == "true"
}

// aclEntryMembers are the members of entries that have other names than properties.
var aclEntryMembers = resource.Members{"Icmp": "IcmpTypeCode"}

// completeEntry adds what the API demands of entries.
func completeEntry(r *resource.Request, egress **bool) { *egress = new(aws.ToBool(r.Flag("Egress"))) }

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-networkaclentry.html
var networkACLEntry = resource.Type{
	Handler: resource.Claim(resource.Table[*ec2.Client, types.NetworkAclEntry]{
		Client: client,
		Create: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			_, err := resource.Call(ctx, c, r, (*ec2.Client).CreateNetworkAclEntry, aclEntryMembers,
				func(r *resource.Request, in *ec2.CreateNetworkAclEntryInput) error {
					completeEntry(r, &in.Egress)
					return nil
				})
			if err != nil {
				return "", err
			}
			return entryID(r), nil
		},
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			called := *r
			called.PhysicalID = entryID(r)
			live, err := describeEntry(ctx, c, &called)
			if err != nil {
				return "", err
			}
			if string(live.RuleAction) != r.Text("RuleAction") ||
				!sameDestination(live.CidrBlock, r.Pointer("CidrBlock")) || !sameDestination(live.Ipv6CidrBlock, r.Pointer("Ipv6CidrBlock")) {
				return "", resource.ErrNotFound
			}
			return called.PhysicalID, nil
		},
		Describe: describeEntry,
		Configure: []resource.Step[*ec2.Client]{{
			Properties: []string{"CidrBlock", "Icmp", "Ipv6CidrBlock", "PortRange", "Protocol", "RuleAction"}, Update: true,
			Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
				_, err := resource.Call(ctx, c, r, (*ec2.Client).ReplaceNetworkAclEntry, aclEntryMembers,
					func(r *resource.Request, in *ec2.ReplaceNetworkAclEntryInput) error {
						completeEntry(r, &in.Egress)
						return nil
					})
				return err
			}}},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			acl, number, egress := splitEntryID(r.PhysicalID)
			_, err := c.DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{NetworkAclId: &acl,
				RuleNumber: &number, Egress: &egress})
			return err
		},
		Attributes: func(r *resource.Request, _ *types.NetworkAclEntry) map[string]any {
			return map[string]any{"Id": r.PhysicalID}
		},
		Properties: func(_ context.Context, _ *ec2.Client, r *resource.Request, live *types.NetworkAclEntry) (
			map[string]any, error) {
			acl, _, _ := splitEntryID(r.PhysicalID)
			properties := encode(live, aclEntryMembers, nil, map[string]any{"NetworkAclId": acl})
			properties["Protocol"] = json.Number(aws.ToString(live.Protocol))
			return properties, nil
		},
	}, func(r *resource.Request) (string, bool) { return entryID(r), false }),
}

func describeEntry(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.NetworkAclEntry, error) {
	id, number, egress := splitEntryID(r.PhysicalID)
	acl, err := networkACLs.get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	for _, entry := range acl.Entries {
		if aws.ToInt32(entry.RuleNumber) == number && aws.ToBool(entry.Egress) == egress {
			return &entry, nil
		}
	}
	return nil, resource.ErrNotFound
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-subnetnetworkaclassociation.html
var subnetNetworkACLAssociation = resource.Type{
	Handler: resource.Note(resource.Table[*ec2.Client, types.NetworkAclAssociation]{
		Client: client,
		Create: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			now, err := aclAssociationOf(ctx, c, r.Text("SubnetId"))
			if err != nil {
				return "", err
			}
			return replaceACL(ctx, c, now, r.Text("NetworkAclId"))
		},
		Find: func(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
			now, err := aclAssociationOf(ctx, c, r.Text("SubnetId"))
			if err != nil {
				return "", err
			}
			if aws.ToString(now.NetworkAclId) != r.Text("NetworkAclId") {
				return "", resource.ErrNotFound
			}
			return aws.ToString(now.NetworkAclAssociationId), nil
		},
		Describe: describeACLAssociation,
		// A subnet always has a network ACL: that of its VPC takes the place of another one.
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			now, err := describeACLAssociation(ctx, c, r)
			if err != nil {
				return err
			}
			acl, err := networkACLs.get(ctx, c, aws.ToString(now.NetworkAclId))
			if err != nil {
				return err
			}
			standard, err := only(networkACLs.list(ctx, c, nil, []types.Filter{
				filter("vpc-id", aws.ToString(acl.VpcId)), filter("default", "true")}))
			if err != nil {
				return err
			}
			_, err = replaceACL(ctx, c, now, aws.ToString(standard.NetworkAclId))
			return err
		},
		Attributes: func(r *resource.Request, _ *types.NetworkAclAssociation) map[string]any {
			return map[string]any{"AssociationId": r.PhysicalID}
		},
	}),
}

func describeACLAssociation(ctx context.Context, c *ec2.Client, r *resource.Request) (
	*types.NetworkAclAssociation, error) {
	acls, err := networkACLs.list(ctx, c, nil, []types.Filter{filter("association.association-id", r.PhysicalID)})
	if err != nil {
		return nil, err
	}
	for _, acl := range acls {
		for _, a := range acl.Associations {
			if aws.ToString(a.NetworkAclAssociationId) == r.PhysicalID {
				return &a, nil
			}
		}
	}
	return nil, resource.ErrNotFound
}

// replaceACL gives a subnet another network ACL, and returns the new association.
func replaceACL(ctx context.Context, c *ec2.Client, now *types.NetworkAclAssociation, acl string) (string, error) {
	out, err := c.ReplaceNetworkAclAssociation(ctx, &ec2.ReplaceNetworkAclAssociationInput{
		AssociationId: now.NetworkAclAssociationId, NetworkAclId: &acl})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.NewAssociationId), nil
}

// aclAssociationOf returns the association of a subnet with its network ACL.
func aclAssociationOf(ctx context.Context, c *ec2.Client, subnetID string) (*types.NetworkAclAssociation, error) {
	acls, err := networkACLs.list(ctx, c, nil, []types.Filter{filter("association.subnet-id", subnetID)})
	if err != nil {
		return nil, err
	}
	for _, acl := range acls {
		for _, a := range acl.Associations {
			if aws.ToString(a.SubnetId) == subnetID {
				return &a, nil
			}
		}
	}
	return nil, resource.ErrNotFound
}
