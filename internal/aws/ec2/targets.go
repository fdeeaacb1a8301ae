package ec2

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// named are the resource types of the ids that a member of a request holds, by the member's name.
var named = map[string]types.ResourceType{
	"AllocationId":                types.ResourceTypeElasticIp,
	"DhcpOptionsId":               types.ResourceTypeDhcpOptions,
	"EgressOnlyInternetGatewayId": types.ResourceTypeEgressOnlyInternetGateway,
	"GroupId":                     types.ResourceTypeSecurityGroup,
	"Groups":                      types.ResourceTypeSecurityGroup,
	"FleetId":                     types.ResourceTypeFleet,
	"FleetIds":                    types.ResourceTypeFleet,
	"InstanceId":                  types.ResourceTypeInstance,
	"InstanceIds":                 types.ResourceTypeInstance,
	"InternetGatewayId":           types.ResourceTypeInternetGateway,
	"KeyPairId":                   types.ResourceTypeKeyPair,
	"LaunchTemplateId":            types.ResourceTypeLaunchTemplate,
	"NatGatewayId":                types.ResourceTypeNatgateway,
	"NetworkAclId":                types.ResourceTypeNetworkAcl,
	"NetworkInterfaceId":          types.ResourceTypeNetworkInterface,
	"RouteTableId":                types.ResourceTypeRouteTable,
	"RouteTableIds":               types.ResourceTypeRouteTable,
	"AddRouteTableIds":            types.ResourceTypeRouteTable,
	"RemoveRouteTableIds":         types.ResourceTypeRouteTable,
	"SecurityGroupIds":            types.ResourceTypeSecurityGroup,
	"AddSecurityGroupIds":         types.ResourceTypeSecurityGroup,
	"RemoveSecurityGroupIds":      types.ResourceTypeSecurityGroup,
	"SecurityGroupRuleIds":        types.ResourceTypeSecurityGroupRule,
	"SpotInstanceRequestIds":      types.ResourceTypeSpotInstancesRequest,
	"SubnetId":                    types.ResourceTypeSubnet,
	"SubnetIds":                   types.ResourceTypeSubnet,
	"AddSubnetIds":                types.ResourceTypeSubnet,
	"RemoveSubnetIds":             types.ResourceTypeSubnet,
	"VpcEndpointId":               types.ResourceTypeVpcEndpoint,
	"VpcEndpointIds":              types.ResourceTypeVpcEndpoint,
	"VolumeId":                    types.ResourceTypeVolume,
	"VpcId":                       types.ResourceTypeVpc,
}

// creates are the types of what operations create.
var creates = map[string]types.ResourceType{
	"AllocateAddress":                 types.ResourceTypeElasticIp,
	"AuthorizeSecurityGroupEgress":    types.ResourceTypeSecurityGroupRule,
	"AuthorizeSecurityGroupIngress":   types.ResourceTypeSecurityGroupRule,
	"CreateDhcpOptions":               types.ResourceTypeDhcpOptions,
	"CreateEgressOnlyInternetGateway": types.ResourceTypeEgressOnlyInternetGateway,
	"CreateFleet":                     types.ResourceTypeFleet,
	"CreateInternetGateway":           types.ResourceTypeInternetGateway,
	"CreateKeyPair":                   types.ResourceTypeKeyPair,
	"CreateLaunchTemplate":            types.ResourceTypeLaunchTemplate,
	"CreateNatGateway":                types.ResourceTypeNatgateway,
	"CreateNetworkAcl":                types.ResourceTypeNetworkAcl,
	"CreateNetworkInterface":          types.ResourceTypeNetworkInterface,
	"CreatePlacementGroup":            types.ResourceTypePlacementGroup,
	"CreateRouteTable":                types.ResourceTypeRouteTable,
	"CreateSecurityGroup":             types.ResourceTypeSecurityGroup,
	"CreateSubnet":                    types.ResourceTypeSubnet,
	"CreateVpc":                       types.ResourceTypeVpc,
	"CreateVpcEndpoint":               types.ResourceTypeVpcEndpoint,
	"ImportKeyPair":                   types.ResourceTypeKeyPair,
}

// readsOne are the operations that only read, and that AWS authorizes on the resource that they name.
var readsOne = []string{
	"DescribeInstanceAttribute", "DescribeNetworkInterfaceAttribute", "DescribeVpcAttribute", "GetConsoleOutput", "GetLaunchTemplateData",
	"GetSecurityGroupsForVpc",
}

// Targets names the resources that a request touches: each one it names, and what it creates. The other calls that only
// read are about everything.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
func (s *Service) Targets(ctx context.Context, operation string, input any) ([]wire.Target, error) {
	in, err := scopeOf(ctx)
	if err != nil {
		return nil, err
	}
	action := wire.EC2.ActionPrefix + ":" + operation
	reads := strings.HasPrefix(operation, "Describe") || strings.HasPrefix(operation, "Get")
	if reads && !slices.Contains(readsOne, operation) {
		return []wire.Target{{Action: action, Resource: "*", Conditions: map[string][]string{"ec2:Region": {in.region}}}}, nil
	}
	var targets []wire.Target
	switch request := input.(type) {
	case *ec2.CreateTagsInput:
		targets = s.tagTargets(in, action, request.Resources, request.Tags)
	case *ec2.DeleteTagsInput:
		targets = s.tagTargets(in, action, request.Resources, request.Tags)
	case *ec2.RunInstancesInput:
		targets = s.launchTargets(in, action, operation, request, in.service())
	case *ec2.RequestSpotInstancesInput:
		if launch, err := spotLaunch(request, s.now()); err == nil {
			targets = s.launchTargets(in, action, operation, launch, false)
		}
	default:
		behind, err := s.idsBehind(in, input)
		if err != nil {
			return nil, err
		}
		for _, id := range append(idsIn(input), behind...) {
			targets = append(targets, s.target(in, action, id.resource, id.id))
		}
		targets = append(targets, s.createTargets(in, action, operation, input)...)
	}
	if len(targets) == 0 {
		targets = []wire.Target{{Action: action, Resource: "*", Conditions: map[string][]string{"ec2:Region": {in.region}}}}
	}
	return targets, nil
}

// namedID is an id in a request.
type namedID struct {
	resource types.ResourceType
	id       string
}

// idsIn are the ids of resources in a request.
func idsIn(input any) []namedID {
	var ids []namedID
	v := reflect.Indirect(reflect.ValueOf(input))
	for i := range v.NumField() {
		resource, ok := named[v.Type().Field(i).Name]
		if !ok {
			continue
		}
		switch value := v.Field(i).Interface().(type) {
		case *string:
			if value != nil {
				ids = append(ids, namedID{resource, *value})
			}
		case []string:
			for _, id := range value {
				ids = append(ids, namedID{resource, id})
			}
		}
	}
	slices.SortFunc(ids, func(a, b namedID) int { return strings.Compare(a.id, b.id) })
	return slices.Compact(ids)
}

// target is an action on an existing resource, with what policies can ask about it.
func (s *Service) target(in scope, action string, resource types.ResourceType, id string) wire.Target {
	conditions := map[string][]string{"ec2:Region": {in.region}}
	for _, t := range s.tagsOf(in, id) {
		conditions["aws:ResourceTag/"+*t.Key] = []string{*t.Value}
		conditions["ec2:ResourceTag/"+*t.Key] = []string{*t.Value}
	}
	if k, ok := s.kindOf(id); ok {
		if vpc := k.vpcOf(in, id); vpc != "" {
			conditions["ec2:Vpc"] = []string{in.arn(types.ResourceTypeVpc, vpc)}
		}
		if names := k.names(); names.resource == resource {
			if key := idKeys[resource]; key != "" {
				conditions[key] = []string{id}
			}
		}
	}
	if resource == types.ResourceTypeSubnet {
		if subnet, err := s.subnets.value(in, &id); err == nil {
			conditions["ec2:AvailabilityZone"] = []string{subnet.AvailabilityZone}
		}
	}
	if resource == types.ResourceTypeInstance {
		if r, err := s.instances.value(in, &id); err == nil {
			s.instanceConditions(in, conditions, r)
		}
	}
	if resource == types.ResourceTypePlacementGroup {
		if group, err := s.placementGroups.value(in, &id); err == nil {
			id = group.Name
		}
	}
	if resource == types.ResourceTypeKeyPair {
		if key, err := s.keyPairs.value(in, &id); err == nil {
			id = key.Name // which is what AWS has in the ARN of a key pair
		}
	}
	return wire.Target{Action: action, Resource: in.arn(resource, id), Conditions: conditions}
}

// idKeys are the condition keys that hold the id of a resource.
var idKeys = map[types.ResourceType]string{
	types.ResourceTypeElasticIp:        "ec2:AllocationId",
	types.ResourceTypeInstance:         "ec2:InstanceID",
	types.ResourceTypeInternetGateway:  "ec2:InternetGatewayID",
	types.ResourceTypeNetworkAcl:       "ec2:NetworkAclID",
	types.ResourceTypeNetworkInterface: "ec2:NetworkInterfaceID",
	types.ResourceTypeRouteTable:       "ec2:RouteTableID",
	types.ResourceTypeSecurityGroup:    "ec2:SecurityGroupID",
	types.ResourceTypeSubnet:           "ec2:SubnetID",
	types.ResourceTypeVolume:           "ec2:VolumeID",
	types.ResourceTypeVpc:              "ec2:VpcID",
}

// tagTargets are the targets of a call that tags existing resources.
func (s *Service) tagTargets(in scope, action string, ids []string, tags []types.Tag) []wire.Target {
	var targets []wire.Target
	for _, id := range ids {
		resource := types.ResourceType("*")
		if k, ok := s.kindOf(id); ok {
			resource = k.names().resource
		}
		target := s.target(in, action, resource, id)
		requestTags(target.Conditions, tags)
		targets = append(targets, target)
	}
	return targets
}

// requestTags adds the condition keys about tags in a request.
func requestTags(conditions map[string][]string, tags []types.Tag) {
	for _, t := range tags {
		conditions["aws:RequestTag/"+aws.ToString(t.Key)] = []string{aws.ToString(t.Value)}
		conditions["aws:TagKeys"] = append(conditions["aws:TagKeys"], aws.ToString(t.Key))
	}
}

// createTargets are what a request creates: the new resource and, when it is tagged at once, ec2:CreateTags on it.
func (s *Service) createTargets(in scope, action, operation string, input any) []wire.Target {
	resource, ok := creates[operation]
	if !ok {
		return nil
	}
	var tags []types.Tag
	if specifications := reflect.Indirect(reflect.ValueOf(input)).FieldByName("TagSpecifications"); specifications.IsValid() {
		for _, spec := range specifications.Interface().([]types.TagSpecification) {
			if spec.ResourceType == resource {
				tags = append(tags, spec.Tags...)
			}
		}
	}
	id := "*"
	switch request := input.(type) { // the only ones that know before
	case *ec2.CreateKeyPairInput:
		id = aws.ToString(request.KeyName)
	case *ec2.ImportKeyPairInput:
		id = aws.ToString(request.KeyName)
	case *ec2.CreatePlacementGroupInput:
		id = aws.ToString(request.GroupName)
	}
	fresh := wire.Target{Action: action, Resource: in.arn(resource, id), Conditions: map[string][]string{"ec2:Region": {in.region}}}
	for _, id := range idsIn(input) {
		switch {
		case id.resource == types.ResourceTypeVpc:
			fresh.Conditions["ec2:Vpc"] = []string{in.arn(types.ResourceTypeVpc, id.id)}
		case id.resource == types.ResourceTypeSubnet:
			if subnet, err := s.subnets.value(in, &id.id); err == nil {
				fresh.Conditions["ec2:Vpc"] = []string{in.arn(types.ResourceTypeVpc, subnet.VPCID)}
				fresh.Conditions["ec2:Subnet"] = []string{in.arn(types.ResourceTypeSubnet, subnet.ID)}
				fresh.Conditions["ec2:AvailabilityZone"] = []string{subnet.AvailabilityZone}
			}
		}
	}
	requestTags(fresh.Conditions, tags)
	targets := []wire.Target{fresh}
	if resource == types.ResourceTypeSecurityGroupRule {
		// The service authorization reference calls the rule optional: policies such as AmazonEKSServiceRolePolicy allow
		// these actions on the group alone.
		targets = nil
	}
	if len(tags) > 0 {
		tagging := wire.Target{Action: "ec2:CreateTags", Resource: fresh.Resource, Conditions: map[string][]string{
			"ec2:Region": {in.region}, "ec2:CreateAction": {operation},
		}}
		requestTags(tagging.Conditions, tags)
		targets = append(targets, tagging)
	}
	return targets
}
