package instance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/image"
	"github.com/coracle-eks/coracle/internal/aws/ec2/launchtemplate"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// Launch is a request for instances, read: merged with its launch template and checked as far as that goes without what
// a transaction must hold.
type Launch struct {
	asked        any                   // the request as it came, for its client token
	request      ec2.RunInstancesInput // with what its launch template adds
	template     record.LaunchTemplateVersion
	origin       origin // of the members of request
	byService    bool   // Auto Scaling or EC2 Fleet asks
	least, most  int
	launched     []string // IDs of instances, by this request
	instanceType instancetype.Type
	image        ami.Image
	userData     []byte
	profile      *record.InstanceProfile
	metadata     record.InstanceMetadataOptions
	group        record.PlacementGroup
	interfaces   []types.InstanceNetworkInterfaceSpecification
	groupNames   []string // security groups by name
	volumes      []launchVolume
	tags         map[types.ResourceType][]types.Tag
	spot         *types.SpotMarketOptions // nil for on-demand instances
	Fleet        string                   // ID of the EC2 Fleet that launches, if one does
}

// ReadLaunch reads a request. With mergeSubnet, a subnet beside the network interfaces of a launch template goes into
// its primary one, which AWS does for Auto Scaling and EC2 Fleet, and refuses everybody else.
func (s *Service) ReadLaunch(sc resource.Scope, asked *ec2.RunInstancesInput, mergeSubnet bool) (*Launch, error) {
	l := &Launch{asked: asked, request: *asked, byService: mergeSubnet}
	if asked.LaunchTemplate != nil {
		_, version, err := launchtemplate.Requested(s.Records, sc, asked.LaunchTemplate.LaunchTemplateId,
			asked.LaunchTemplate.LaunchTemplateName, asked.LaunchTemplate.Version)
		if err != nil {
			return nil, err
		}
		if version.Data.InstanceRequirements != nil && asked.InstanceType == "" {
			return nil, wire.Errorf("InvalidParameterCombination",
				"You can't use a launch template that specifies InstanceRequirements with RunInstances. Specify an "+
					"instance type.")
		}
		l.template = version
		if l.origin, err = mergeTemplate(&l.request, version.Data); err != nil {
			return nil, err
		}
	}
	for _, read := range []func(sc resource.Scope, l *Launch) error{
		readCounts, readUnserved, s.readImage, s.readUserData, s.readProfile, s.readKey, readMetadata, readMarket,
		s.readPlacement, s.readVolumes, readLaunchTags, readChoices,
	} {
		if err := read(sc, l); err != nil {
			return nil, err
		}
	}
	return l, readInterfaces(l, mergeSubnet)
}

// mergeTemplate fills what a request leaves open from a launch template, and returns which of both said what. Network
// interfaces are the same by device index, block devices by name, tags by resource type and key.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/launch-instances-from-launch-template.html
func mergeTemplate(request *ec2.RunInstancesInput, data types.RequestLaunchTemplateData) (o origin, err error) {
	var base, over map[string]any
	for value, copies := range map[any][]*map[string]any{&data: {&base, &o.template}, request: {&over, &o.request}} {
		text, err := json.Marshal(value)
		if err != nil {
			return o, fmt.Errorf("merge a launch template: %w", err)
		}
		for _, into := range copies { // merging changes the first
			if err := json.Unmarshal(text, into); err != nil {
				return o, fmt.Errorf("merge a launch template: %w", err)
			}
		}
	}
	mergeParameters(base, over)
	text, err := json.Marshal(base)
	if err != nil {
		return o, fmt.Errorf("merge a launch template: %w", err)
	}
	var merged ec2.RunInstancesInput
	if err := json.Unmarshal(text, &merged); err != nil {
		return o, fmt.Errorf("merge a launch template: %w", err)
	}
	*request = merged
	return o, nil
}

// mergeParameters puts what over has into base.
func mergeParameters(base, over map[string]any) {
	for name, value := range over {
		switch value := value.(type) {
		case nil:
		case string:
			if value != "" {
				base[name] = value
			}
		case map[string]any:
			if below, ok := base[name].(map[string]any); ok {
				mergeParameters(below, value)
			} else {
				base[name] = value
			}
		case []any:
			if len(value) > 0 {
				base[name] = mergeLists(name, base[name], value)
			}
		default:
			base[name] = value
		}
	}
}

// mergedBy are the members by which elements of a list are the same.
var mergedBy = map[string]string{"NetworkInterfaces": "DeviceIndex", "BlockDeviceMappings": "DeviceName",
	"TagSpecifications": "ResourceType", "Tags": "Key"}

func mergeLists(name string, base any, over []any) []any {
	by, ok := mergedBy[name]
	all, _ := base.([]any)
	if !ok || len(all) == 0 {
		return over
	}
	key := func(element any) string { return elementKey(element, by) }
	first := make(map[string]int, len(all))
	add := func(i int, element any) {
		if _, ok := first[key(element)]; !ok {
			first[key(element)] = i
		}
	}
	for i, element := range all {
		add(i, element)
	}
	for _, value := range over {
		if i, ok := first[key(value)]; ok {
			mergeParameters(all[i].(map[string]any), value.(map[string]any))
		} else {
			add(len(all), value)
			all = append(all, value)
		}
	}
	return all
}

func readCounts(_ resource.Scope, l *Launch) error {
	least, most := l.request.MinCount, l.request.MaxCount
	switch {
	case least == nil:
		return resource.MissingParameter("MinCount")
	case most == nil:
		return resource.MissingParameter("MaxCount")
	case *least < 1:
		return resource.InvalidValue(*least, "minCount", "Expected a positive integer.")
	case *most < *least:
		return resource.InvalidValue(*least, "minCount",
			fmt.Sprintf("The minimum count must not be greater than the maximum count %d.", *most))
	case *most > 1000:
		return wire.Errorf("InstanceLimitExceeded",
			"You have requested more instances (%d) than the 1000 that one call may launch.", *most)
	}
	l.least, l.most = int(*least), int(*most)
	return nil
}

// readUnserved refuses what AWS has and coracle does not. What only says that the default is wanted passes.
func readUnserved(_ resource.Scope, l *Launch) error {
	in := &l.request
	for _, p := range []struct {
		asked bool
		name  string
	}{
		{len(in.ElasticGpuSpecification) > 0, "ElasticGpuSpecification"},
		{len(in.ElasticInferenceAccelerators) > 0, "ElasticInferenceAccelerators"},
		{len(in.LicenseSpecifications) > 0, "LicenseSpecifications"},
		{len(in.SecondaryInterfaces) > 0, "SecondaryInterfaces"},
		{in.Operator != nil, "Operator"},
		{in.KernelId != nil, "KernelId"},
		{in.RamdiskId != nil, "RamdiskId"},
		{in.EnclaveOptions != nil && aws.ToBool(in.EnclaveOptions.Enabled), "EnclaveOptions.Enabled=true"},
		{in.HibernationOptions != nil && aws.ToBool(in.HibernationOptions.Configured),
			"HibernationOptions.Configured=true"},
		{in.CapacityReservationSpecification != nil &&
			in.CapacityReservationSpecification.CapacityReservationTarget != nil,
			"CapacityReservationSpecification.CapacityReservationTarget"},
		{in.Placement != nil && (in.Placement.HostId != nil || in.Placement.HostResourceGroupArn != nil ||
			in.Placement.Tenancy == types.TenancyHost), "Placement.HostId"},
		{in.CpuOptions != nil && (in.CpuOptions.AmdSevSnp == types.AmdSevSnpSpecificationEnabled),
			"CpuOptions.AmdSevSnp"},
	} {
		if p.asked {
			return resource.Unsupported(p.name)
		}
	}
	return nil
}

func (s *Service) readImage(sc resource.Scope, l *Launch) (err error) {
	kind := string(l.request.InstanceType)
	if kind == "" {
		return resource.MissingParameter("InstanceType")
	}
	var ok bool
	if l.instanceType, ok = instancetype.Get(kind); !ok {
		return resource.Invalid("Invalid value '%s' for InstanceType.", kind)
	}
	if l.image, err = image.Requested(sc, l.request.ImageId); err != nil {
		return err
	}
	if l.image.Architecture != l.instanceType.Architecture {
		return resource.Invalid(
			"The architecture '%s' of the specified instance type does not match the architecture '%s' of the "+
				"specified AMI. Specify an instance type and an AMI that have matching architectures, and try again. "+
				"You can use 'describe-instance-types' or 'describe-images' to discover the architecture of the "+
				"instance type or AMI.", l.instanceType.Architecture, l.image.Architecture)
	}
	if o := l.request.CpuOptions; o != nil {
		if o.CoreCount != nil && int(*o.CoreCount) != l.instanceType.Cores || o.ThreadsPerCore != nil &&
			int(*o.ThreadsPerCore) != l.instanceType.ThreadsPerCore {
			return resource.Unsupported("CpuOptions other than those of the instance type")
		}
	}
	return nil
}

// readUserData decodes user data, which comes in base64.
func (s *Service) readUserData(_ resource.Scope, l *Launch) (err error) {
	l.userData, err = launchtemplate.DecodeUserData(l.request.UserData)
	return err
}

func (s *Service) readProfile(sc resource.Scope, l *Launch) error {
	asked := l.request.IamInstanceProfile
	if asked == nil || asked.Arn == nil && asked.Name == nil {
		return nil
	}
	p, err := s.profileAsked(sc, asked)
	if err == nil {
		l.profile = &p
	}
	return err
}

func (s *Service) readKey(sc resource.Scope, l *Launch) error {
	if aws.ToString(l.request.KeyName) == "" {
		l.request.KeyName = nil
		return nil
	}
	_, err := s.KeyPairNamed(sc, *l.request.KeyName)
	return err
}

// readMetadata reads how metadata may be asked for. Images of Amazon Linux 2023 demand tokens unless the request says
// otherwise.
//
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html#instance-metadata-options-order-of-precedence
func readMetadata(_ resource.Scope, l *Launch) error {
	l.metadata = record.InstanceMetadataOptions{
		HTTPEndpoint: types.InstanceMetadataEndpointStateEnabled, HTTPTokens: types.HttpTokensStateOptional,
		HTTPPutResponseHopLimit: 1,
		InstanceMetadataTags:    types.InstanceMetadataTagsStateDisabled,
		HTTPProtocolIPv6:        types.InstanceMetadataProtocolStateDisabled,
	}
	if l.image.Family == ami.AL2023 {
		l.metadata.HTTPTokens, l.metadata.HTTPPutResponseHopLimit = types.HttpTokensStateRequired, 2
	}
	if o := l.request.MetadataOptions; o != nil {
		return launchtemplate.EditMetadataOptions(&l.metadata, o.HttpEndpoint, o.HttpTokens, o.HttpPutResponseHopLimit,
			o.InstanceMetadataTags, o.HttpProtocolIpv6)
	}
	return nil
}

func readMarket(_ resource.Scope, l *Launch) error {
	m := l.request.InstanceMarketOptions
	switch {
	case m == nil || m.MarketType == "" && m.SpotOptions == nil:
		return nil
	case m.MarketType != types.MarketTypeSpot:
		if resource.CheckEnum(m.MarketType, "marketType") == nil {
			return resource.Unsupported("MarketType=" + string(m.MarketType))
		}
		return resource.InvalidValue(m.MarketType, "marketType", "")
	}
	l.spot = &types.SpotMarketOptions{}
	if m.SpotOptions != nil {
		*l.spot = *m.SpotOptions
	}
	return readSpot(l.spot, l.instanceType)
}

func (s *Service) readPlacement(sc resource.Scope, l *Launch) error {
	p := l.request.Placement
	if p == nil {
		return nil
	}
	if err := resource.CheckEnum(p.Tenancy, "tenancy"); err != nil {
		return err
	}
	name, id := aws.ToString(p.GroupName), aws.ToString(p.GroupId)
	switch {
	case name != "" && id != "":
		return wire.Errorf("InvalidParameterCombination",
			"The parameters GroupName and GroupId may not be specified together.")
	case name != "":
		group, err := s.PlacementGroupNamed(sc, name)
		l.group = group
		if err != nil {
			return err
		}
	case id != "":
		group, err := s.PlacementGroups.GetRecord(sc, &id)
		l.group = group
		if err != nil {
			return err
		}
	}
	if n := aws.ToInt32(p.PartitionNumber); n != 0 && (l.group.Strategy != types.PlacementStrategyPartition || n < 1 ||
		n > l.group.Partitions) {
		return resource.InvalidValue(n, "partitionNumber", "The placement group has no such partition.")
	}
	return nil
}

func readLaunchTags(sc resource.Scope, l *Launch) error {
	l.tags = map[types.ResourceType][]types.Tag{}
	for _, spec := range l.request.TagSpecifications {
		if !slices.Contains(launchtemplate.TaggableTypes, spec.ResourceType) {
			return resource.Invalid("'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
		l.tags[spec.ResourceType] = append(l.tags[spec.ResourceType], spec.Tags...)
	}
	for _, tags := range l.tags {
		if err := sc.CheckTags(tags); err != nil {
			return err
		}
		if len(tags) > resource.MaxTags {
			return wire.Errorf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
		}
	}
	return nil
}

// readChoices checks the members of which EC2 knows the values.
func readChoices(_ resource.Scope, l *Launch) error {
	in := &l.request
	if err := resource.CheckEnum(in.InstanceInitiatedShutdownBehavior, "instanceInitiatedShutdownBehavior"); err != nil {
		return err
	}
	if in.PrivateDnsNameOptions != nil {
		if err := resource.CheckEnum(in.PrivateDnsNameOptions.HostnameType, "hostnameType"); err != nil {
			return err
		}
	}
	if in.MaintenanceOptions != nil {
		if err := resource.CheckEnum(in.MaintenanceOptions.AutoRecovery, "autoRecovery"); err != nil {
			return err
		}
	}
	if in.CreditSpecification != nil {
		credits := aws.ToString(in.CreditSpecification.CpuCredits)
		if credits != "standard" && credits != "unlimited" {
			return resource.InvalidValue(credits, "cpuCredits", "Valid values are standard and unlimited.")
		}
		if !l.instanceType.Burstable && l.template.TemplateID == "" {
			return wire.Errorf("InvalidParameterCombination",
				"The specified instance type %s does not support credit specifications.", l.instanceType.Name)
		}
	}
	return nil
}

// cpuCredits returns the credit option of a burstable instance.
func (l *Launch) cpuCredits() string {
	if c := l.request.CreditSpecification; c != nil && c.CpuCredits != nil {
		return *c.CpuCredits
	}
	if strings.HasPrefix(l.instanceType.Name, "t2.") {
		return "standard"
	}
	return "unlimited"
}

// maxInterfaces is more network interfaces than any instance type has.
const maxInterfaces = 128

// checkInterfaces refuses more network interfaces and security groups than an instance can have: each of them is
// authorized.
func checkInterfaces(in *ec2.RunInstancesInput) error {
	if n := len(in.NetworkInterfaces); n > maxInterfaces {
		return wire.Errorf("AttachmentLimitExceeded",
			"The request has %d network interfaces, and no instance type has more than %d.", n, maxInterfaces)
	}
	groups := len(in.SecurityGroupIds) + len(in.SecurityGroups)
	for _, spec := range in.NetworkInterfaces {
		groups = max(groups, len(spec.Groups))
	}
	if groups > resource.MaxSecurityGroupsPerInterface {
		return wire.Errorf("SecurityGroupsPerInterfaceLimitExceeded",
			"The request has %d security groups for a network interface, which may have %d.", groups,
			resource.MaxSecurityGroupsPerInterface)
	}
	return nil
}

// readInterfaces makes one list of the interfaces, whether a request names them or only a subnet.
func readInterfaces(l *Launch, mergeSubnet bool) error {
	in := &l.request
	if err := checkInterfaces(in); err != nil {
		return err
	}
	if len(in.NetworkInterfaces) == 0 {
		if len(in.SecurityGroups) > 0 && aws.ToString(in.SubnetId) != "" {
			return wire.Errorf("InvalidParameterCombination",
				"The parameter groupName cannot be used with the parameter subnet")
		}
		l.groupNames = in.SecurityGroups
		spec := types.InstanceNetworkInterfaceSpecification{
			DeviceIndex: aws.Int32(0), SubnetId: in.SubnetId, Groups: in.SecurityGroupIds,
			PrivateIpAddress: in.PrivateIpAddress,
			Ipv6Addresses:    in.Ipv6Addresses, Ipv6AddressCount: in.Ipv6AddressCount,
			PrimaryIpv6: in.EnablePrimaryIpv6,
		}
		if aws.ToString(in.PrivateIpAddress) == "" {
			spec.PrivateIpAddress = nil
		}
		if spec.PrivateIpAddress != nil && l.most > 1 {
			return wire.Errorf("InvalidParameterCombination",
				"Cannot specify a private IP address for more than one instance.")
		}
		l.interfaces = []types.InstanceNetworkInterfaceSpecification{spec}
		return nil
	}
	for _, clash := range []struct {
		there bool
		what  string
	}{
		{aws.ToString(in.SubnetId) != "" && !mergeSubnet, "subnet ID"},
		{len(in.SecurityGroupIds)+len(in.SecurityGroups) > 0, "security groups"},
		{aws.ToString(in.PrivateIpAddress) != "", "private IP address"},
		{in.Ipv6AddressCount != nil || len(in.Ipv6Addresses) > 0, "IPv6 addresses"},
	} {
		if clash.there {
			return wire.Errorf("InvalidParameterCombination",
				"Network interfaces and an instance-level %s may not be specified on the same request", clash.what)
		}
	}
	l.interfaces = slices.Clone(in.NetworkInterfaces)
	for i := range l.interfaces {
		spec := &l.interfaces[i]
		if spec.DeviceIndex == nil {
			return resource.MissingParameter("networkInterfaces[" + strconv.Itoa(i) + "].deviceIndex")
		}
		if *spec.DeviceIndex == 0 && aws.ToString(in.SubnetId) != "" {
			spec.SubnetId = in.SubnetId
		}
		if aws.ToBool(spec.AssociatePublicIpAddress) && len(l.interfaces) > 1 {
			return wire.Errorf("InvalidParameterCombination",
				"The associatePublicIPAddress parameter cannot be specified when launching with multiple network "+
					"interfaces.")
		}
		if spec.AssociatePublicIpAddress != nil && *spec.DeviceIndex != 0 {
			return wire.Errorf("InvalidParameterCombination",
				"The associatePublicIPAddress parameter can only be specified for the network interface with "+
					"DeviceIndex 0.")
		}
		if spec.NetworkInterfaceId != nil {
			switch {
			case l.most > 1:
				return wire.Errorf("InvalidParameterCombination",
					"You may specify a network interface for one instance only. Set MaxCount to 1.")
			case spec.SubnetId != nil || len(spec.Groups) > 0 || spec.PrivateIpAddress != nil ||
				spec.AssociatePublicIpAddress != nil:
				return wire.Errorf(
					"InvalidParameterCombination",
					"You may not specify a subnet, security groups, or addresses together with the network interface '%s'.",
					*spec.NetworkInterfaceId,
				)
			}
		}
	}
	return nil
}
