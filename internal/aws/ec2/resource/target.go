package resource

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
	"BranchInterfaceId":           types.ResourceTypeNetworkInterface,
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
	"NetworkInsightsAnalysisId":   types.ResourceTypeNetworkInsightsAnalysis,
	"NetworkInsightsPathId":       types.ResourceTypeNetworkInsightsPath,
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
	"TrunkInterfaceId":            types.ResourceTypeNetworkInterface,
	"VpcEndpointId":               types.ResourceTypeVpcEndpoint,
	"VpcEndpointIds":              types.ResourceTypeVpcEndpoint,
	"SnapshotId":                  types.ResourceTypeSnapshot,
	"SourceVolumeId":              types.ResourceTypeVolume,
	"VolumeId":                    types.ResourceTypeVolume,
	"VpcId":                       types.ResourceTypeVpc,
}

// OnRegion returns the action on "*" as the target: AWS authorizes most of what only reads on everything.
func OnRegion[In any](ctx context.Context, action string, _ *In) ([]wire.Target, error) {
	sc, err := ScopeOf(ctx)
	return []wire.Target{{Action: action, Resource: "*", Conditions: map[string][]string{"ec2:Region": {sc.Region}}}},
		err
}

// Touching returns every resource that a request names as the targets: by the members in named, and by what idsBehind
// finds.
func Touching[In any](s *Records) wire.Targets[In] { return targeting[In](s.touched) }

// Creating returns the resources that a request names, and the one that it creates, as the targets.
func Creating[In any](s *Records, resource types.ResourceType) wire.Targets[In] {
	return targeting[In](func(sc Scope, action string, request any) ([]wire.Target, error) {
		targets, err := s.touched(sc, action, request)
		return append(targets, s.createTargets(sc, action, resource, request)...), err
	})
}

// targeting returns what find finds as the targets; without any, the action on "*".
func targeting[In any](
	find func(sc Scope, action string, request any) ([]wire.Target, error),
) wire.Targets[In] {
	return func(ctx context.Context, action string, request *In) ([]wire.Target, error) {
		sc, err := ScopeOf(ctx)
		if err != nil {
			return nil, err
		}
		targets, err := find(sc, action, request)
		if err != nil || len(targets) > 0 {
			return targets, err
		}
		return OnRegion(ctx, action, request)
	}
}

// touched returns the resources that a request names, each once, as authorization targets.
func (s *Records) touched(sc Scope, action string, request any) ([]wire.Target, error) {
	behind, err := s.idsBehind(sc, request)
	if err != nil {
		return nil, err
	}
	var targets []wire.Target
	for _, id := range append(requestIDs(request), behind...) {
		targets = append(targets, s.ResourceTarget(sc, action, id.resource, id.id))
	}
	return targets, nil
}

// namedID is an id in a request.
type namedID struct {
	resource types.ResourceType
	id       string
}

// requestIDs returns the IDs of resources in a request.
func requestIDs(input any) []namedID {
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

// ResourceTarget returns an action on an existing resource, with what policies can ask about it.
func (s *Records) ResourceTarget(sc Scope, action string, resource types.ResourceType, id string) wire.Target {
	conditions := map[string][]string{"ec2:Region": {sc.Region}}
	for _, t := range s.ListTags(sc, id) {
		conditions["aws:ResourceTag/"+*t.Key] = []string{*t.Value}
		conditions["ec2:ResourceTag/"+*t.Key] = []string{*t.Value}
	}
	if k, ok := s.KindForID(id); ok {
		if vpc := k.resolveVPC(sc, id); vpc != "" {
			conditions["ec2:Vpc"] = []string{sc.ARN(types.ResourceTypeVpc, vpc)}
		}
		if names := k.IDFormat(); names.Resource == resource {
			if key := idKeys[resource]; key != "" {
				conditions[key] = []string{id}
			}
		}
	}
	if resource == types.ResourceTypeSubnet {
		if subnet, err := s.Subnets.GetRecord(sc, &id); err == nil {
			conditions["ec2:AvailabilityZone"] = []string{subnet.AvailabilityZone}
		}
	}
	if resource == types.ResourceTypeInstance {
		if r, err := s.Instances.GetRecord(sc, &id); err == nil {
			s.instanceConditions(sc, conditions, r)
		}
	}
	if resource == types.ResourceTypeVolume {
		if r, err := s.Volumes.GetRecord(sc, &id); err == nil {
			s.VolumeConditions(sc, conditions, r)
		}
	}
	if resource == types.ResourceTypeSnapshot {
		s.addSnapshotConditions(sc, conditions, id)
	}
	if resource == types.ResourceTypePlacementGroup {
		if group, err := s.PlacementGroups.GetRecord(sc, &id); err == nil {
			id = group.Name
		}
	}
	if resource == types.ResourceTypeKeyPair {
		if key, err := s.KeyPairs.GetRecord(sc, &id); err == nil {
			id = key.Name // which is what AWS has in the ARN of a key pair
		}
	}
	return wire.Target{Action: action, Resource: sc.ARN(resource, id), Conditions: conditions}
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
	types.ResourceTypeSnapshot:         "ec2:SnapshotID",
	types.ResourceTypeSubnet:           "ec2:SubnetID",
	types.ResourceTypeVolume:           "ec2:VolumeID",
	types.ResourceTypeVpc:              "ec2:VpcID",
}

// AddRequestTags adds the condition keys about tags in a request.
func AddRequestTags(conditions map[string][]string, tags []types.Tag) {
	for _, t := range tags {
		conditions["aws:RequestTag/"+aws.ToString(t.Key)] = []string{aws.ToString(t.Value)}
		conditions["aws:TagKeys"] = append(conditions["aws:TagKeys"], aws.ToString(t.Key))
	}
}

// createTargets returns what a request creates, as authorization targets: the new resource and, when it is tagged at
// once, ec2:CreateTags on it.
func (s *Records) createTargets(sc Scope, action string, resource types.ResourceType, input any) []wire.Target {
	var tags []types.Tag
	if specifications := reflect.Indirect(reflect.ValueOf(input)).FieldByName(
		"TagSpecifications"); specifications.IsValid() {
		tags = SpecifiedTags(resource, specifications.Interface().([]types.TagSpecification))
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
	fresh := wire.Target{Action: action, Resource: sc.ARN(resource, id),
		Conditions: map[string][]string{"ec2:Region": {sc.Region}}}
	ids := requestIDs(input)
	if behind, err := s.idsBehind(sc, input); err == nil { // or touched has said so
		ids = append(ids, behind...)
	}
	for _, id := range ids {
		switch {
		case id.resource == types.ResourceTypeVpc:
			fresh.Conditions["ec2:Vpc"] = []string{sc.ARN(types.ResourceTypeVpc, id.id)}
		case id.resource == types.ResourceTypeSubnet:
			if subnet, err := s.Subnets.GetRecord(sc, &id.id); err == nil {
				fresh.Conditions["ec2:Vpc"] = []string{sc.ARN(types.ResourceTypeVpc, subnet.VPCID)}
				fresh.Conditions["ec2:Subnet"] = []string{sc.ARN(types.ResourceTypeSubnet, subnet.ID)}
				fresh.Conditions["ec2:AvailabilityZone"] = []string{subnet.AvailabilityZone}
			}
		}
	}
	targets := WithTagging(sc, fresh, tags)
	if resource == types.ResourceTypeSecurityGroupRule {
		// The service authorization reference calls the rule optional: policies such as AmazonEKSServiceRolePolicy
		// allow these actions on the group alone.
		targets = targets[1:]
	}
	return targets
}

// SpecifiedTags returns the tags of specifications for a type of resource.
func SpecifiedTags(resource types.ResourceType, specifications []types.TagSpecification) []types.Tag {
	var tags []types.Tag
	for _, spec := range specifications {
		if spec.ResourceType == resource {
			tags = append(tags, spec.Tags...)
		}
	}
	return tags
}

// WithTagging returns the target of something new and, when it gets tags, ec2:CreateTags on it.
func WithTagging(sc Scope, fresh wire.Target, tags []types.Tag) []wire.Target {
	AddRequestTags(fresh.Conditions, tags)
	targets := []wire.Target{fresh}
	if len(tags) > 0 {
		tagging := wire.Target{Action: "ec2:CreateTags", Resource: fresh.Resource, Conditions: map[string][]string{
			"ec2:Region": {sc.Region}, "ec2:CreateAction": {strings.TrimPrefix(fresh.Action, "ec2:")},
		}}
		AddRequestTags(tagging.Conditions, tags)
		targets = append(targets, tagging)
	}
	return targets
}
