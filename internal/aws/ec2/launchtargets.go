package ec2

import (
	"maps"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// launchTargets are what a launch touches and makes. A request that cannot be read touches instances; the operation
// says what is wrong with it.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html#amazonec2-actions-as-permissions
func (s *Service) launchTargets(in scope, action, createAction string, request *ec2.RunInstancesInput,
	place bool) []wire.Target {
	l, err := s.readLaunch(in, request, place)
	if err != nil {
		return []wire.Target{{Action: action, Resource: in.arn(types.ResourceTypeInstance, "*"),
			Conditions: map[string][]string{
				"ec2:Region": {in.region}, "ec2:InstanceType": {string(request.InstanceType)},
			}}}
	}
	return s.targetsOf(in, action, createAction, l)
}

func (s *Service) targetsOf(in scope, action, createAction string, l *launch) []wire.Target {
	a := launchAuthorization{s: s, in: in, action: action, created: createAction, l: l,
		shared: map[string][]string{"ec2:Region": {in.region}}}
	if l.template.TemplateID != "" {
		a.shared["ec2:LaunchTemplate"] = []string{in.arn(types.ResourceTypeLaunchTemplate, l.template.TemplateID)}
		a.existing(types.ResourceTypeLaunchTemplate, l.template.TemplateID, false)
	}
	data := l.template.Data
	a.addImage(data.ImageId != nil)
	a.network(data.SecurityGroupIds != nil || data.NetworkInterfaces != nil)
	if l.request.KeyName != nil {
		if key, err := s.keyNamed(in, *l.request.KeyName); err == nil {
			a.existing(types.ResourceTypeKeyPair, key.ID, data.KeyName != nil)
		}
	}
	if l.group.ID != "" {
		t := s.resourceTarget(in, action, types.ResourceTypePlacementGroup, l.group.ID)
		t.Conditions["ec2:PlacementGroupName"] = []string{l.group.Name}
		t.Conditions["ec2:PlacementGroupStrategy"] = []string{string(l.group.Strategy)}
		a.add(t, data.Placement != nil)
	}
	a.instance()
	for _, v := range l.volumes {
		a.addCreated(types.ResourceTypeVolume, map[string][]string{
			"ec2:VolumeSize": {decimal(int(v.row.Size))}, "ec2:VolumeType": {string(v.row.Type)},
			"ec2:VolumeIops":       {decimal(int(v.row.IOPS))},
			"ec2:VolumeThroughput": {decimal(int(v.row.Throughput))},
			"ec2:Encrypted":        {strconv.FormatBool(v.row.Encrypted)},
		})
	}
	if l.spot != nil {
		a.addCreated(types.ResourceTypeSpotInstancesRequest, nil)
	}
	return a.targets
}

// launchAuthorization collects the targets of a launch.
type launchAuthorization struct {
	s               *Service
	in              scope
	action, created string
	l               *launch
	shared          map[string][]string
	targets         []wire.Target
}

// add adds a target; fromTemplate says that the launch template names it.
func (a *launchAuthorization) add(t wire.Target, fromTemplate bool) {
	maps.Copy(t.Conditions, a.shared)
	if a.l.template.TemplateID != "" {
		t.Conditions["ec2:IsLaunchTemplateResource"] = []string{strconv.FormatBool(fromTemplate)}
	}
	a.targets = append(a.targets, t)
}

func (a *launchAuthorization) existing(resource types.ResourceType, id string, fromTemplate bool) {
	a.add(a.s.resourceTarget(a.in, a.action, resource, id), fromTemplate)
}

// addCreated adds what the launch makes of a type, and its tagging.
func (a *launchAuthorization) addCreated(resource types.ResourceType, conditions map[string][]string) {
	t := wire.Target{Action: a.action, Resource: a.in.arn(resource, "*"), Conditions: map[string][]string{}}
	maps.Copy(t.Conditions, conditions)
	tags := a.l.tags[resource]
	requestTags(t.Conditions, tags)
	a.add(t, false)
	if len(tags) > 0 {
		tagging := wire.Target{Action: "ec2:CreateTags", Resource: t.Resource,
			Conditions: map[string][]string{"ec2:Region": {a.in.region}, "ec2:CreateAction": {a.created}}}
		requestTags(tagging.Conditions, tags)
		a.targets = append(a.targets, tagging)
	}
}

func (a *launchAuthorization) addImage(fromTemplate bool) {
	a.add(imageTarget(a.in, a.action, a.l.image), fromTemplate)
}

func imageTarget(in scope, action string, i ami.Image) wire.Target {
	return wire.Target{Action: action, Resource: "arn:aws:ec2:" + in.region + "::image/" + i.ID,
		Conditions: map[string][]string{
			"ec2:ImageID": {i.ID}, "ec2:ImageType": {"machine"}, "ec2:Owner": {i.OwnerAlias, i.Owner},
			"ec2:Public": {"true"}, "ec2:RootDeviceType": {"ebs"}, "ec2:Region": {in.region},
		}}
}

func (a *launchAuthorization) network(fromTemplate bool) {
	plan := &change{scope: a.in, s: a.s, pending: map[string]*pending{}} // which is never committed
	for _, spec := range a.l.interfaces {
		if spec.NetworkInterfaceId != nil {
			a.existing(types.ResourceTypeNetworkInterface, *spec.NetworkInterfaceId, fromTemplate)
			continue
		}
		subnet, err := plan.launchSubnet(a.l, spec)
		if err != nil {
			continue
		}
		a.existing(types.ResourceTypeSubnet, subnet.ID, fromTemplate)
		groups := spec.Groups
		for _, name := range a.l.groupNames {
			if group, err := a.s.groupNamed(a.in, subnet.VPCID, name); err == nil {
				groups = append(groups, group.ID)
			}
		}
		for _, id := range groups {
			a.existing(types.ResourceTypeSecurityGroup, id, fromTemplate)
		}
		conditions := map[string][]string{
			"ec2:Subnet":           {a.in.arn(types.ResourceTypeSubnet, subnet.ID)},
			"ec2:Vpc":              {a.in.arn(types.ResourceTypeVpc, subnet.VPCID)},
			"ec2:AvailabilityZone": {subnet.AvailabilityZone},
		}
		public := subnet.MapPublicIPOnLaunch
		if spec.AssociatePublicIpAddress != nil {
			public = *spec.AssociatePublicIpAddress
		}
		conditions["ec2:AssociatePublicIpAddress"] = []string{strconv.FormatBool(public)}
		a.addCreated(types.ResourceTypeNetworkInterface, conditions)
		if aws.ToInt32(spec.DeviceIndex) == 0 {
			a.shared["ec2:AvailabilityZone"] = conditions["ec2:AvailabilityZone"]
		}
	}
}

func (a *launchAuthorization) instance() {
	l, in := a.l, a.in
	market := "on-demand"
	if l.spot != nil {
		market = "spot"
	}
	conditions := map[string][]string{
		"ec2:InstanceType": {l.kind.Name}, "ec2:InstanceMarketType": {market}, "ec2:RootDeviceType": {"ebs"},
		"ec2:EbsOptimized": {strconv.FormatBool(aws.ToBool(l.request.EbsOptimized))},
		"ec2:Tenancy":      {string(types.TenancyDefault)},
	}
	metadataConditions(conditions, l.metadata)
	if l.request.Placement != nil && l.request.Placement.Tenancy != "" {
		conditions["ec2:Tenancy"] = []string{string(l.request.Placement.Tenancy)}
	}
	if l.profile != nil {
		conditions["ec2:InstanceProfile"] = []string{l.profile.ARN()}
	}
	if l.group.ID != "" {
		conditions["ec2:PlacementGroup"] = []string{in.arn(types.ResourceTypePlacementGroup, l.group.Name)}
	}
	a.addCreated(types.ResourceTypeInstance, conditions)
}

func metadataConditions(conditions map[string][]string, o record.InstanceMetadataOptions) {
	conditions["ec2:MetadataHttpEndpoint"] = []string{string(o.HTTPEndpoint)}
	conditions["ec2:MetadataHttpTokens"] = []string{string(o.HTTPTokens)}
	conditions["ec2:MetadataHttpPutResponseHopLimit"] = []string{decimal(int(o.HTTPPutResponseHopLimit))}
	conditions["ec2:InstanceMetadataTags"] = []string{string(o.InstanceMetadataTags)}
}

// instanceConditions are what policies can ask about an instance.
func (s *Service) instanceConditions(in scope, conditions map[string][]string, r record.Instance) {
	conditions["ec2:InstanceType"] = []string{string(r.InstanceType)}
	conditions["ec2:AvailabilityZone"] = []string{r.AvailabilityZone}
	conditions["ec2:Tenancy"] = []string{string(r.Tenancy)}
	conditions["ec2:RootDeviceType"] = []string{"ebs"}
	conditions["ec2:EbsOptimized"] = []string{strconv.FormatBool(r.EBSOptimized)}
	conditions["ec2:InstanceMarketType"] = []string{"on-demand"}
	if r.Lifecycle == types.InstanceLifecycleTypeSpot {
		conditions["ec2:InstanceMarketType"] = []string{"spot"}
	}
	if r.InstanceProfileARN != "" {
		conditions["ec2:InstanceProfile"] = []string{r.InstanceProfileARN}
	}
	if r.PlacementGroup != "" {
		conditions["ec2:PlacementGroup"] = []string{in.arn(types.ResourceTypePlacementGroup, r.PlacementGroup)}
	}
	metadataConditions(conditions, r.Metadata)
}

// mayLaunch demands that the caller may make and touch all that a launch does, and may pass the role of its instance
// profile. The request was authorized by what it said when it came; what is carried out is authorized again, because a
// launch template may have changed since, and a fleet launches what its own request does not say.
func (s *Service) mayLaunch(in scope, l *launch) error {
	action, created := "ec2:RunInstances", "RunInstances"
	switch service, operation := wire.OperationFrom(in.Context); {
	case l.fleet != "":
		created = "CreateFleet"
	case service == wire.EC2 && operation == "RequestSpotInstances":
		action, created = "ec2:RequestSpotInstances", operation
	}
	if err := wire.Authorize(in.Context, s.targetsOf(in, action, created, l)...); err != nil {
		return err
	}
	return s.mayPass(in, l.profile)
}
