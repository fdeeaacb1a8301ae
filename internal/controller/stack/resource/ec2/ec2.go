// Package ec2 has the handlers of the AWS::EC2 resource types of CloudFormation: Types is their table, which
// internal/controller/stack joins with those of the other services. They are clients of the EC2 API.
//
// Each file has the types of a subject. Most are a resource.Table over a kind, which lists the resources that EC2
// describes by ID and by filters. A resource that a lost answer named is found by the tags of its stack. Resources
// that have no tags, such as routes and associations, are found by what they connect.
package ec2

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types.
var Types = map[string]resource.Type{
	"AWS::EC2::DHCPOptions":                 dhcpOptions,
	"AWS::EC2::EgressOnlyInternetGateway":   egressOnlyInternetGateway,
	"AWS::EC2::EIP":                         elasticAddress,
	"AWS::EC2::EIPAssociation":              elasticAddressAssociation,
	"AWS::EC2::Instance":                    instance,
	"AWS::EC2::InternetGateway":             internetGateway,
	"AWS::EC2::KeyPair":                     keyPair,
	"AWS::EC2::LaunchTemplate":              launchTemplate,
	"AWS::EC2::NatGateway":                  natGateway,
	"AWS::EC2::NetworkAcl":                  networkACL,
	"AWS::EC2::NetworkAclEntry":             networkACLEntry,
	"AWS::EC2::NetworkInterface":            networkInterface,
	"AWS::EC2::NetworkInterfaceAttachment":  networkInterfaceAttachment,
	"AWS::EC2::PlacementGroup":              placementGroup,
	"AWS::EC2::Route":                       route,
	"AWS::EC2::RouteTable":                  routeTable,
	"AWS::EC2::SecurityGroup":               securityGroup,
	"AWS::EC2::SecurityGroupEgress":         securityGroupEgress,
	"AWS::EC2::SecurityGroupIngress":        securityGroupIngress,
	"AWS::EC2::Subnet":                      subnet,
	"AWS::EC2::SubnetCidrBlock":             subnetCIDRBlock,
	"AWS::EC2::SubnetNetworkAclAssociation": subnetNetworkACLAssociation,
	"AWS::EC2::SubnetRouteTableAssociation": subnetRouteTableAssociation,
	"AWS::EC2::Volume":                      volume,
	"AWS::EC2::VolumeAttachment":            volumeAttachment,
	"AWS::EC2::VPC":                         vpc,
	"AWS::EC2::VPCCidrBlock":                vpcCIDRBlock,
	"AWS::EC2::VPCDHCPOptionsAssociation":   vpcDHCPOptionsAssociation,
	"AWS::EC2::VPCEndpoint":                 vpcEndpoint,
	"AWS::EC2::VPCGatewayAttachment":        vpcGatewayAttachment,
}

// client returns the EC2 client of a request.
func client(config aws.Config) *ec2.Client { return ec2.NewFromConfig(config) }

// kind lists the resources of a type as L.
type kind[L any] struct {
	resource types.ResourceType // empty if they take no tags
	list     func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]L, error)
	id       func(*L) *string
	gone     func(*L) bool // nil where a resource that is listed exists
}

// describe returns the resource of the request.
func (k kind[L]) describe(ctx context.Context, c *ec2.Client, r *resource.Request) (*L, error) {
	return k.get(ctx, c, r.PhysicalID)
}

// get returns a resource by its ID.
func (k kind[L]) get(ctx context.Context, c *ec2.Client, id string) (*L, error) {
	found, err := k.list(ctx, c, []string{id}, nil)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || k.gone != nil && k.gone(&found[0]) {
		return nil, resource.ErrNotFound
	}
	return &found[0], nil
}

// find returns the ID of the resource that the stack made for the logical ID of the request.
func (k kind[L]) find(ctx context.Context, c *ec2.Client, r *resource.Request) (string, error) {
	found, err := k.list(ctx, c, nil, []types.Filter{
		filter("tag:"+resource.TagStackID, r.StackID), filter("tag:"+resource.TagLogicalID, r.LogicalID),
	})
	if err != nil {
		return "", err
	}
	for i := range found {
		id := aws.ToString(k.id(&found[i]))
		if (k.gone == nil || !k.gone(&found[i])) && !slices.Contains(r.Replaced, id) {
			return id, nil
		}
	}
	return "", resource.ErrNotFound
}

// tags returns the tags with which a resource is created.
func (k kind[L]) tags(r *resource.Request) []types.TagSpecification {
	return tagSpecifications(k.resource, r.Wanted("Tags"))
}

// literal takes their meaning from the wildcards of filters.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`)

// filter returns a filter of just the values: templates name nothing by wildcards.
func filter(name string, values ...string) types.Filter {
	f := types.Filter{Name: &name}
	for _, value := range values {
		f.Values = append(f.Values, literal.Replace(value))
	}
	return f
}

func tagList(tags map[string]string) []types.Tag {
	return resource.TagList(tags, func(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} })
}

// tagSpecifications returns tags in the form that calls which create a resource take.
func tagSpecifications(of types.ResourceType, tags map[string]string) []types.TagSpecification {
	if len(tags) == 0 {
		return nil
	}
	return []types.TagSpecification{{ResourceType: of, Tags: tagList(tags)}}
}

// retag is the step that changes the tags of the resource whose physical ID is its ID.
var retag = resource.Step[*ec2.Client]{Properties: []string{"Tags"}, Tags: true,
	Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
		return changeTags(ctx, c, r, r.PhysicalID)
	}}

// changeTags changes the tags of a resource as the update of the request does.
func changeTags(ctx context.Context, c *ec2.Client, r *resource.Request, id string) error {
	set, removed := r.TagChanges("Tags")
	if len(removed) > 0 {
		var tags []types.Tag
		for _, key := range removed {
			tags = append(tags, types.Tag{Key: &key})
		}
		if _, err := c.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: tags}); err != nil {
			return err
		}
	}
	if len(set) > 0 {
		_, err := c.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList(set)})
		return err
	}
	return nil
}

// ownTags returns the tags of a resource in the form of its property, without those of AWS.
func ownTags(tags []types.Tag) []any {
	var list []any
	for _, tag := range tags {
		if key := aws.ToString(tag.Key); !strings.HasPrefix(key, "aws:") {
			list = append(list, map[string]any{"Key": key, "Value": aws.ToString(tag.Value)})
		}
	}
	return list
}

// encode returns a resource in the terms of its properties: the members of the same names, and others that override
// them. A nil value leaves a property out.
func encode(live any, members resource.Members, tags []types.Tag, others map[string]any) map[string]any {
	properties := resource.Encode(live, members)
	delete(properties, "Tags")
	if own := ownTags(tags); own != nil {
		properties["Tags"] = own
	}
	maps.Copy(properties, others)
	maps.DeleteFunc(properties, func(_ string, value any) bool { return value == nil })
	return properties
}

// flag returns a property that is a Boolean in the form of attributes of EC2, with the default of AWS if it is missing.
func flag(r *resource.Request, property string, otherwise bool) *types.AttributeBooleanValue {
	if value := r.Flag(property); value != nil {
		return &types.AttributeBooleanValue{Value: value}
	}
	return &types.AttributeBooleanValue{Value: &otherwise}
}

// anyList returns texts as a list of values.
func anyList[T ~string](texts []T) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = string(text)
	}
	return list
}

// only returns the one element of a list, ErrNotFound if there is none.
func only[L any](list []L, err error) (*L, error) {
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, resource.ErrNotFound
	}
	return &list[0], nil
}

// nameOfARN returns the last part of the resource of an ARN.
func nameOfARN(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }
