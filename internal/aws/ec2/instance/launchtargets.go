package instance

import (
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/volume"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// launchTargets returns the authorization targets of a launch: the resources that it uses and creates. An invalid
// request has the target of all instances; the operation reports what is wrong with it.
//
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html#amazonec2-actions-as-permissions
func (s *Service) launchTargets(sc resource.Scope, action, createAction string, request *ec2.RunInstancesInput,
	mergeSubnet bool) []wire.Target {
	l, err := s.ReadLaunch(sc, request, mergeSubnet)
	if err != nil {
		return []wire.Target{{Action: action, Resource: sc.ARN(types.ResourceTypeInstance, "*"),
			Conditions: map[string][]string{
				"ec2:Region": {sc.Region}, "ec2:InstanceType": {string(request.InstanceType)},
			}}}
	}
	return s.targetsOfLaunch(sc, action, createAction, l)
}

func (s *Service) targetsOfLaunch(sc resource.Scope, action, createAction string, l *Launch) []wire.Target {
	a := launchAuthorization{s: s, sc: sc, action: action, created: createAction, l: l,
		shared: map[string][]string{"ec2:Region": {sc.Region}}}
	if l.template.TemplateID != "" {
		a.shared["ec2:LaunchTemplate"] = []string{sc.ARN(types.ResourceTypeLaunchTemplate, l.template.TemplateID)}
		a.existing(types.ResourceTypeLaunchTemplate, l.template.TemplateID, true)
	}
	a.add(imageTarget(sc, action, l.image), l.origin.isTemplates("ImageId"))
	a.network()
	if l.request.KeyName != nil {
		if key, err := s.KeyPairNamed(sc, *l.request.KeyName); err == nil {
			a.existing(types.ResourceTypeKeyPair, key.ID, l.origin.isTemplates("KeyName"))
		}
	}
	if l.group.ID != "" {
		t := s.ResourceTarget(sc, action, types.ResourceTypePlacementGroup, l.group.ID)
		t.Conditions["ec2:PlacementGroupName"] = []string{l.group.Name}
		t.Conditions["ec2:PlacementGroupStrategy"] = []string{string(l.group.Strategy)}
		a.add(t, l.origin.isTemplates("Placement", "GroupName") || l.origin.isTemplates("Placement", "GroupId"))
	}
	a.instance()
	for _, v := range l.volumes {
		conditions := map[string][]string{}
		row := v.draft.Volume
		row.AvailabilityZone = ""
		s.VolumeConditions(sc, conditions, row)
		delete(conditions, "ec2:AvailabilityZone") // which all targets have
		a.addCreated(types.ResourceTypeVolume, conditions, !l.origin.overridesVolume(v.device))
		if v.draft.Snapshot != nil {
			a.existing(types.ResourceTypeSnapshot, v.draft.Snapshot.Value.ID,
				l.origin.isTemplates("BlockDeviceMappings", v.device, "Ebs", "SnapshotId"))
		}
	}
	if l.spot != nil {
		// A service decides itself about the market: templates of its groups and fleets cannot.
		a.addCreated(types.ResourceTypeSpotInstancesRequest, nil,
			l.byService || !sets(l.origin.request, []string{"InstanceMarketOptions"}))
	}
	return a.targets
}

// launchAuthorization collects the targets of a launch.
type launchAuthorization struct {
	s               *Service
	sc              resource.Scope
	action, created string
	l               *Launch
	shared          map[string][]string
	targets         []wire.Target
}

// add adds a target; fromTemplate says that it is as the launch template says: what it names, and not what the request
// names, nor a default; or what the launch makes, if the request says nothing about it.
func (a *launchAuthorization) add(t wire.Target, fromTemplate bool) {
	maps.Copy(t.Conditions, a.shared)
	if a.l.template.TemplateID != "" {
		t.Conditions["ec2:IsLaunchTemplateResource"] = []string{strconv.FormatBool(fromTemplate)}
	}
	a.targets = append(a.targets, t)
}

func (a *launchAuthorization) existing(resourceType types.ResourceType, id string, fromTemplate bool) {
	a.add(a.s.ResourceTarget(a.sc, a.action, resourceType, id), fromTemplate)
}

// addCreated adds what the launch makes of a type, and its tagging.
func (a *launchAuthorization) addCreated(resourceType types.ResourceType, conditions map[string][]string,
	fromTemplate bool) {
	t := wire.Target{Action: a.action, Resource: a.sc.ARN(resourceType, "*"), Conditions: map[string][]string{}}
	maps.Copy(t.Conditions, conditions)
	tags := a.l.tags[resourceType]
	resource.AddRequestTags(t.Conditions, tags)
	a.add(t, fromTemplate)
	if len(tags) > 0 {
		tagging := wire.Target{Action: "ec2:CreateTags", Resource: t.Resource,
			Conditions: map[string][]string{"ec2:Region": {a.sc.Region}, "ec2:CreateAction": {a.created}}}
		resource.AddRequestTags(tagging.Conditions, tags)
		a.targets = append(a.targets, tagging)
	}
}

func imageTarget(sc resource.Scope, action string, i ami.Image) wire.Target {
	return wire.Target{Action: action, Resource: "arn:aws:ec2:" + sc.Region + "::image/" + i.ID,
		Conditions: map[string][]string{
			"ec2:ImageID": {i.ID}, "ec2:ImageType": {"machine"}, "ec2:Owner": {i.OwnerAlias, i.Owner},
			"ec2:Public": {"true"}, "ec2:RootDeviceType": {"ebs"}, "ec2:Region": {sc.Region},
		}}
}

func (a *launchAuthorization) network() {
	plan := resource.NewChange(a.s.Records, a.sc) // which is never committed
	from := a.l.origin
	for _, spec := range a.l.interfaces {
		index := aws.ToInt32(spec.DeviceIndex)
		if spec.NetworkInterfaceId != nil {
			a.existing(types.ResourceTypeNetworkInterface, *spec.NetworkInterfaceId,
				from.isTemplates("NetworkInterfaces", indexKey(index), "NetworkInterfaceId") &&
					!from.overridesInterface(index))
			continue
		}
		subnet, err := launchSubnet(plan, a.l, spec)
		if err != nil {
			continue
		}
		a.existing(types.ResourceTypeSubnet, subnet.ID, from.isTemplatesSubnet(index))
		groups := []string{"SecurityGroupIds"} // of a launch without a list of interfaces
		if len(a.l.request.NetworkInterfaces) > 0 {
			groups = []string{"NetworkInterfaces", indexKey(index), "Groups"}
		}
		for _, id := range spec.Groups {
			a.existing(types.ResourceTypeSecurityGroup, id, from.isTemplates(groups...))
		}
		for _, name := range a.l.groupNames {
			if group, err := a.s.SecurityGroupNamed(a.sc, subnet.VPCID, name); err == nil {
				a.existing(types.ResourceTypeSecurityGroup, group.ID, from.isTemplates("SecurityGroups"))
			}
		}
		conditions := map[string][]string{
			"ec2:Subnet":           {a.sc.ARN(types.ResourceTypeSubnet, subnet.ID)},
			"ec2:Vpc":              {a.sc.ARN(types.ResourceTypeVpc, subnet.VPCID)},
			"ec2:AvailabilityZone": {subnet.AvailabilityZone},
		}
		public := subnet.MapPublicIPOnLaunch
		if spec.AssociatePublicIpAddress != nil {
			public = *spec.AssociatePublicIpAddress
		}
		conditions["ec2:AssociatePublicIpAddress"] = []string{strconv.FormatBool(public)}
		a.addCreated(types.ResourceTypeNetworkInterface, conditions, !from.overridesInterface(index))
		if index == 0 {
			a.shared["ec2:AvailabilityZone"] = conditions["ec2:AvailabilityZone"]
		}
	}
}

func (a *launchAuthorization) instance() {
	l, sc := a.l, a.sc
	market := "on-demand"
	if l.spot != nil {
		market = "spot"
	}
	conditions := map[string][]string{
		"ec2:InstanceType": {l.instanceType.Name}, "ec2:InstanceMarketType": {market}, "ec2:RootDeviceType": {"ebs"},
		"ec2:EbsOptimized": {strconv.FormatBool(aws.ToBool(l.request.EbsOptimized))},
		"ec2:Tenancy":      {string(types.TenancyDefault)},
	}
	resource.MetadataConditions(conditions, l.metadata)
	if l.request.Placement != nil && l.request.Placement.Tenancy != "" {
		conditions["ec2:Tenancy"] = []string{string(l.request.Placement.Tenancy)}
	}
	if l.profile != nil {
		conditions["ec2:InstanceProfile"] = []string{l.profile.ARN()}
	}
	if l.group.ID != "" {
		conditions["ec2:PlacementGroup"] = []string{sc.ARN(types.ResourceTypePlacementGroup, l.group.Name)}
	}
	overridden := l.origin.overridesInstance() || slices.ContainsFunc(l.origin.devices(), func(name string) bool {
		return !slices.ContainsFunc(l.volumes, func(v launchVolume) bool { return v.device == name }) // it is left out
	})
	a.addCreated(types.ResourceTypeInstance, conditions, !overridden)
}

// authorizeLaunch demands that the caller may make and touch all that a launch does, and may pass the role of its
// instance profile, and use the KMS keys of its volumes. The request was authorized by what it said when it came; what
// is carried out is authorized again, because a launch template may have changed since, and a fleet launches what its
// own request does not say.
func (s *Service) authorizeLaunch(sc resource.Scope, l *Launch) error {
	action, created := "ec2:RunInstances", "RunInstances"
	switch service, operation := wire.OperationFrom(sc.Context); {
	case l.Fleet != "":
		created = "CreateFleet"
	case service == wire.EC2 && operation == "RequestSpotInstances":
		action, created = "ec2:RequestSpotInstances", operation
	}
	if err := wire.Authorize(sc.Context, s.targetsOfLaunch(sc, action, created, l)...); err != nil {
		return err
	}
	encrypted := false
	for i := range l.volumes {
		if err := l.volumes[i].draft.AuthorizeKeys(s.Records, sc, volume.UnknownVolume, true); err != nil {
			return err
		}
		encrypted = encrypted || l.volumes[i].draft.Volume.Encrypted
	}
	if encrypted { // with the keys that aliases stood for
		if err := wire.Authorize(sc.Context, s.targetsOfLaunch(sc, action, created, l)...); err != nil {
			return err
		}
	}
	return s.mayPass(sc, l.profile)
}
