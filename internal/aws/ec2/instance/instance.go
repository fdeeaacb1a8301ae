package instance

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

func (s *Service) newInstanceView() resource.View[record.Instance, types.Instance] {
	return resource.View[record.Instance, types.Instance]{
		Kind: s.Instances,
		Show: func(sc resource.Scope, r record.Instance) types.Instance {
			return s.viewInstance(sc, r, resource.MustRead(s.loadRelated(sc, []record.Instance{r})))
		},
		Tagged:  func(x types.Instance) []types.Tag { return x.Tags },
		Filters: instanceFilters,
	}
}

// relatedRecords has the records beside those of instances that describe them, loaded once for all of them.
type relatedRecords struct {
	interfaces map[string][]record.NetworkInterface // by instance, in the order of their device indexes
	elastic    map[string]map[string]record.Address // by interface and private address
	// instances that this request has launched: their machines are pending, however fast they are
	launched []string
}

func (s *Service) loadRelated(sc resource.Scope, instances []record.Instance) (relatedRecords, error) {
	related := relatedRecords{
		interfaces: make(map[string][]record.NetworkInterface, len(instances)),
		elastic:    map[string]map[string]record.Address{},
	}
	for _, r := range instances { // a region may have some ten thousand interfaces of others
		attached, err := s.InterfacesOf(sc, r.ID)
		if err != nil {
			return related, err
		}
		related.interfaces[r.ID] = attached
	}
	addresses, err := s.Addresses.Table.List(sc, sc.KeyPrefix())
	if err != nil {
		return related, err
	}
	for _, row := range addresses {
		if a := row.Value; a.NetworkInterfaceID != "" {
			if related.elastic[a.NetworkInterfaceID] == nil {
				related.elastic[a.NetworkInterfaceID] = map[string]record.Address{}
			}
			related.elastic[a.NetworkInterfaceID][a.PrivateIPAddress] = a
		}
	}
	return related, nil
}

// stateCodes are the numbers of the states.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceState.html
var stateCodes = map[types.InstanceStateName]int32{
	types.InstanceStateNamePending: 0, types.InstanceStateNameRunning: 16, types.InstanceStateNameShuttingDown: 32,
	types.InstanceStateNameTerminated: 48, types.InstanceStateNameStopping: 64, types.InstanceStateNameStopped: 80,
}

func viewState(state types.InstanceStateName) *types.InstanceState {
	return &types.InstanceState{Code: aws.Int32(stateCodes[state]), Name: state}
}

// hostname returns the private DNS name of an instance, made from its primary address or its ID.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-naming.html
func hostname(r record.Instance, ip string) string {
	if r.HostnameType == types.HostnameTypeResourceName {
		if r.Region == "us-east-1" {
			return r.ID + ".ec2.internal"
		}
		return r.ID + "." + r.Region + ".compute.internal"
	}
	return networkinterface.PrivateDNSName(r.Region, ip)
}

// viewInstance returns an instance as DescribeInstances shows it.
func (s *Service) viewInstance(sc resource.Scope, r record.Instance, related relatedRecords) types.Instance {
	machine := s.Machine(sc, r)
	if slices.Contains(related.launched, r.ID) {
		machine = record.Machine{}
	}
	state := record.InstanceState(r, machine)
	v := s.viewRecord(sc, r)
	v.State = viewState(state)
	setStateReason(&v, r, machine, state)
	if state == types.InstanceStateNameTerminated {
		return v // what it had is being taken away, and is not shown
	}
	v.SubnetId, v.VpcId = aws.String(r.SubnetID), aws.String(r.VPCID)
	for _, b := range r.BlockDevices {
		attachment, _ := s.ShowAttachment(sc, r, b.VolumeID)
		status := types.AttachmentStatus(attachment.State)
		if attachment.State == types.VolumeAttachmentStateBusy {
			status = types.AttachmentStatusDetaching
		}
		v.BlockDeviceMappings = append(v.BlockDeviceMappings, types.InstanceBlockDeviceMapping{
			DeviceName: aws.String(b.DeviceName),
			Ebs: &types.EbsInstanceBlockDevice{
				AttachTime: aws.Time(b.AttachedAt), DeleteOnTermination: aws.Bool(b.DeleteOnTermination),
				Status: status, VolumeId: aws.String(b.VolumeID),
			},
		})
	}
	s.addInterfaces(sc, &v, r, related)
	return v
}

// viewRecord returns the properties that an instance has in every state.
func (s *Service) viewRecord(sc resource.Scope, r record.Instance) types.Instance {
	kind, _ := instancetype.Get(string(r.InstanceType))
	image, _ := ami.Get(r.Region, r.ImageID)
	z, _ := sc.FindZone(r.AvailabilityZone)
	v := types.Instance{
		AmiLaunchIndex:      aws.Int32(r.LaunchIndex),
		Architecture:        types.ArchitectureValues(kind.Architecture),
		BlockDeviceMappings: []types.InstanceBlockDeviceMapping{},
		BootMode:            types.BootModeValuesUefiPreferred,
		CapacityReservationSpecification: &types.CapacityReservationSpecificationResponse{
			CapacityReservationPreference: types.CapacityReservationPreferenceOpen,
		},
		ClientToken: aws.String(r.ClientToken),
		CpuOptions: &types.CpuOptions{CoreCount: aws.Int32(int32(kind.Cores)),
			ThreadsPerCore: aws.Int32(int32(kind.ThreadsPerCore))},
		CurrentInstanceBootMode: types.InstanceBootModeValuesUefi,
		EbsOptimized:            aws.Bool(r.EBSOptimized),
		EnaSupport:              aws.Bool(true),
		EnclaveOptions:          &types.EnclaveOptions{Enabled: aws.Bool(false)},
		HibernationOptions:      &types.HibernationOptions{Configured: aws.Bool(false)},
		Hypervisor:              types.HypervisorTypeXen, // which AWS says of Nitro too
		ImageId:                 aws.String(r.ImageID),
		InstanceId:              aws.String(r.ID),
		InstanceLifecycle:       r.Lifecycle,
		InstanceType:            r.InstanceType,
		KeyName:                 resource.OrNil(r.KeyName),
		LaunchTime:              aws.Time(r.LaunchTime),
		MaintenanceOptions: &types.InstanceMaintenanceOptions{AutoRecovery: r.AutoRecovery,
			RebootMigration: types.InstanceRebootMigrationStateDefault},
		MetadataOptions:   viewMetadataOptions(r.Metadata, types.InstanceMetadataOptionsStateApplied),
		Monitoring:        viewMonitoring(r.DetailedMonitoring),
		NetworkInterfaces: []types.InstanceNetworkInterface{},
		NetworkPerformanceOptions: &types.InstanceNetworkPerformanceOptions{
			BandwidthWeighting: types.InstanceBandwidthWeightingDefault,
		},
		Operator: &types.OperatorResponse{Managed: aws.Bool(false)},
		Placement: &types.Placement{
			AvailabilityZone: aws.String(r.AvailabilityZone), AvailabilityZoneId: aws.String(z.ID),
			GroupName: aws.String(r.PlacementGroup), Tenancy: r.Tenancy,
		},
		PlatformDetails: aws.String("Linux/UNIX"),
		PrivateDnsName:  aws.String(""),
		PrivateDnsNameOptions: &types.PrivateDnsNameOptionsResponse{
			HostnameType:                    r.HostnameType,
			EnableResourceNameDnsARecord:    aws.Bool(r.EnableResourceNameDNSARecord),
			EnableResourceNameDnsAAAARecord: aws.Bool(r.EnableResourceNameDNSAAAARecord),
		},
		ProductCodes:             []types.ProductCode{},
		PublicDnsName:            aws.String(""),
		RootDeviceName:           aws.String(cmp.Or(image.RootDeviceName, "/dev/xvda")),
		RootDeviceType:           types.DeviceTypeEbs,
		SecurityGroups:           []types.GroupIdentifier{},
		SpotInstanceRequestId:    resource.OrNil(r.SpotInstanceRequestID),
		StateTransitionReason:    aws.String(""),
		Tags:                     s.ListTags(sc, r.ID),
		UsageOperation:           aws.String("RunInstances"),
		UsageOperationUpdateTime: aws.Time(r.CreatedAt),
		VirtualizationType:       types.VirtualizationTypeHvm,
	}
	if r.PartitionNumber > 0 {
		v.Placement.PartitionNumber = aws.Int32(r.PartitionNumber)
	}
	if r.PlacementGroup != "" {
		if row, err := s.PlacementGroupNamed(sc, r.PlacementGroup); err == nil {
			v.Placement.GroupId = aws.String(row.ID)
		}
	}
	if r.InstanceProfileARN != "" {
		v.IamInstanceProfile = &types.IamInstanceProfile{Arn: aws.String(r.InstanceProfileARN),
			Id: aws.String(r.InstanceProfileID)}
	}
	return v
}

// setStateReason sets the reasons of an instance's state and of the last change of it.
func setStateReason(v *types.Instance, r record.Instance, machine record.Machine, state types.InstanceStateName) {
	switch {
	case machine.FailureCode != "" && machine.State == types.InstanceStateNameTerminated:
		v.StateReason = &types.StateReason{Code: aws.String(machine.FailureCode),
			Message: aws.String(machine.FailureCode + ": " + machine.Failure)}
		v.StateTransitionReason = aws.String(cmp.Or(r.TransitionReason, machine.FailureCode))
	case r.Wanted == types.InstanceStateNameRunning:
	default:
		v.StateReason = &types.StateReason{Code: aws.String(r.StateReasonCode),
			Message: aws.String(r.StateReasonMessage)}
		v.StateTransitionReason = aws.String(r.TransitionReason)
	}
	if state == types.InstanceStateNamePending && v.StateReason == nil {
		v.StateReason = &types.StateReason{Code: aws.String("pending"), Message: aws.String("pending")}
	}
}

// addInterfaces adds the network interfaces of an instance, and the properties that it has from its primary one.
func (s *Service) addInterfaces(sc resource.Scope, v *types.Instance, r record.Instance, related relatedRecords) {
	vpc := resource.MustRead(s.VPCs.Table.Get(sc, sc.Key(r.VPCID))).Value
	for i, ni := range related.interfaces[r.ID] {
		shown := s.viewInstanceInterface(sc, ni, vpc, related.elastic[ni.ID])
		v.NetworkInterfaces = append(v.NetworkInterfaces, shown)
		if i > 0 || ni.Attachment.DeviceIndex != 0 {
			continue
		}
		v.PrivateIpAddress, v.PrivateDnsName = shown.PrivateIpAddress, aws.String(hostname(r, ni.PrivateIPs[0]))
		v.SecurityGroups, v.SourceDestCheck = shown.Groups, shown.SourceDestCheck
		if shown.Association != nil {
			v.PublicIpAddress, v.PublicDnsName = shown.Association.PublicIp, shown.Association.PublicDnsName
		}
		if len(ni.IPv6IPs) > 0 {
			v.Ipv6Address = aws.String(ni.IPv6IPs[0])
		}
	}
}

func (s *Service) viewInstanceInterface(sc resource.Scope, r record.NetworkInterface, vpc record.VPC,
	elastic map[string]record.Address) types.InstanceNetworkInterface {
	a := r.Attachment
	v := types.InstanceNetworkInterface{
		Attachment: &types.InstanceNetworkInterfaceAttachment{
			AttachTime: aws.Time(a.AttachedAt), AttachmentId: aws.String(a.ID),
			DeleteOnTermination: aws.Bool(a.DeleteOnTermination),
			DeviceIndex:         aws.Int32(a.DeviceIndex), NetworkCardIndex: aws.Int32(a.NetworkCardIndex),
			Status: types.AttachmentStatusAttached,
		},
		Description:        aws.String(r.Description),
		Groups:             s.SecurityGroupIdentifiers(sc, r.SecurityGroupIDs),
		InterfaceType:      aws.String(string(r.InterfaceType)),
		Ipv6Addresses:      []types.InstanceIpv6Address{},
		MacAddress:         aws.String(r.MACAddress),
		NetworkInterfaceId: aws.String(r.ID),
		Operator:           &types.OperatorResponse{Managed: aws.Bool(false)},
		OwnerId:            aws.String(r.Account),
		PrivateIpAddress:   aws.String(r.PrivateIPs[0]),
		PrivateIpAddresses: make([]types.InstancePrivateIpAddress, len(r.PrivateIPs)),
		SourceDestCheck:    aws.Bool(r.SourceDestCheck),
		Status:             types.NetworkInterfaceStatusInUse,
		SubnetId:           aws.String(r.SubnetID),
		VpcId:              aws.String(r.VPCID),
	}
	for i, ip := range r.PrivateIPs {
		p := &v.PrivateIpAddresses[i]
		p.Primary, p.PrivateIpAddress = aws.Bool(i == 0), aws.String(ip)
		if vpc.EnableDNSHostnames {
			p.PrivateDnsName = aws.String(networkinterface.PrivateDNSName(sc.Region, ip))
		}
		owner, public := r.Account, elastic[ip].PublicIP
		if public == "" && i == 0 {
			owner, public = networkinterface.AmazonOwner, r.PublicIP
		}
		if public != "" {
			p.Association = &types.InstanceNetworkInterfaceAssociation{
				IpOwnerId: aws.String(owner), PublicDnsName: aws.String(networkinterface.PublicName(sc.Region, vpc, public)),
				PublicIp: aws.String(public),
			}
		}
	}
	v.PrivateDnsName, v.Association = v.PrivateIpAddresses[0].PrivateDnsName, v.PrivateIpAddresses[0].Association
	for _, p := range r.IPv4Prefixes {
		v.Ipv4Prefixes = append(v.Ipv4Prefixes, types.InstanceIpv4Prefix{Ipv4Prefix: aws.String(p)})
	}
	for i, ip := range r.IPv6IPs {
		v.Ipv6Addresses = append(v.Ipv6Addresses, types.InstanceIpv6Address{Ipv6Address: aws.String(ip),
			IsPrimaryIpv6: aws.Bool(i == 0 && r.PrimaryIPv6)})
	}
	for _, p := range r.IPv6Prefixes {
		v.Ipv6Prefixes = append(v.Ipv6Prefixes, types.InstanceIpv6Prefix{Ipv6Prefix: aws.String(p)})
	}
	return v
}

func viewMetadataOptions(o record.InstanceMetadataOptions,
	state types.InstanceMetadataOptionsState) *types.InstanceMetadataOptionsResponse {
	return &types.InstanceMetadataOptionsResponse{
		HttpEndpoint: o.HTTPEndpoint, HttpProtocolIpv6: o.HTTPProtocolIPv6,
		HttpPutResponseHopLimit: aws.Int32(o.HTTPPutResponseHopLimit),
		HttpTokens:              o.HTTPTokens, InstanceMetadataTags: o.InstanceMetadataTags, State: state,
	}
}

func viewMonitoring(detailed bool) *types.Monitoring {
	if detailed {
		return &types.Monitoring{State: types.MonitoringStateEnabled}
	}
	return &types.Monitoring{State: types.MonitoringStateDisabled}
}

// instanceHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) instanceHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeInstances, resource.OnRegion),
	}
}

// DescribeInstances lists instances, those that were terminated within the last hour included.
func (s *Service) DescribeInstances(ctx context.Context, in *ec2.DescribeInstancesInput) (
	*ec2.DescribeInstancesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeInstances", DryRun: in.DryRun, IDs: in.InstanceIds, Filters: in.Filters,
		Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	rows, err := s.Instances.ListByID(sc, in.InstanceIds)
	if err != nil {
		return nil, err
	}
	if rows, err = s.narrowInstances(sc, rows, in.Filters); err != nil {
		return nil, err
	}
	byID := make(map[string]record.Instance, len(rows))
	related, err := s.loadRelated(sc, rows)
	if err != nil {
		return nil, err
	}
	items := make([]resource.Item[types.Instance], len(rows))
	for i, r := range rows {
		byID[r.ID] = r
		items[i] = resource.Item[types.Instance]{ID: r.ID, View: s.viewInstance(sc, r, related)}
	}
	filters, special := instanceFilters, reservationFilters(byID)
	found, next, err := resource.DescribeItems(
		ctx, query, items, resource.MergeFilters(filters, special), s.instanceView.Tagged,
	)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeInstancesOutput{Reservations: []types.Reservation{}, NextToken: next}
	index := map[string]int{}
	for _, v := range found {
		r := byID[*v.InstanceId]
		i, ok := index[r.ReservationID]
		if !ok {
			i = len(out.Reservations)
			index[r.ReservationID] = i
			out.Reservations = append(out.Reservations, types.Reservation{
				Groups: []types.GroupIdentifier{}, OwnerId: aws.String(r.Account), RequesterId: resource.OrNil(r.RequesterID),
				ReservationId: aws.String(r.ReservationID),
			})
		}
		out.Reservations[i].Instances = append(out.Reservations[i].Instances, v)
	}
	return out, nil
}

// narrowInstances drops instances that cannot pass, by those filters that need no more than a row: what remains is
// shown and filtered in full. Tools ask for one of thousands by its name or its tags.
func (s *Service) narrowInstances(
	sc resource.Scope, rows []record.Instance, wanted []types.Filter,
) ([]record.Instance, error) {
	if err := resource.CheckFilters(wanted); err != nil {
		return nil, err
	}
	g := &resource.Globs{Context: sc}
	for _, w := range wanted {
		var has func(record.Instance) string
		name := aws.ToString(w.Name)
		key, tag := strings.CutPrefix(name, "tag:")
		switch {
		case name == "instance-id":
			has = func(r record.Instance) string { return r.ID }
		case name == "instance-state-name":
			has = func(r record.Instance) string { return string(s.InstanceState(sc, r)) }
		case name == "vpc-id":
			has = func(r record.Instance) string { return r.VPCID }
		case tag:
			has = func(r record.Instance) string {
				if value, ok := resource.MustRead(s.Tags.Get(sc, r.Key())).Value.Tags[key]; ok {
					return value
				}
				return noTag
			}
		case name == "private-dns-name":
			named, err := s.instancesNamed(sc, w.Values)
			if err != nil {
				return nil, err
			}
			rows = slices.DeleteFunc(rows, func(r record.Instance) bool {
				return r.HostnameType != types.HostnameTypeResourceName && named != nil && !named[r.ID]
			})
			continue
		default:
			continue
		}
		rows = slices.DeleteFunc(rows, func(r record.Instance) bool {
			value := has(r)
			return value == noTag || !g.MatchesAny(w.Values, value)
		})
	}
	return rows, g.Err
}

// noTag is no value of a tag.
const noTag = "\x00"

// instancesNamed returns the instances whose primary private address has one of the DNS names; nil when a name is a
// pattern.
func (s *Service) instancesNamed(sc resource.Scope, names []string) (map[string]bool, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		if strings.ContainsAny(name, `*?\`) {
			return nil, nil
		}
		wanted[name] = true
	}
	found := map[string]bool{}
	rows, err := s.NetworkInterfaces.Table.List(sc, sc.KeyPrefix())
	for _, row := range rows {
		if a := row.Value.Attachment; a != nil && a.InstanceID != "" && a.DeviceIndex == 0 &&
			wanted[networkinterface.PrivateDNSName(sc.Region, row.Value.PrivateIPs[0])] {
			found[a.InstanceID] = true
		}
	}
	return found, err
}

// eachInstance edits each of the instances that a request names, all of which must exist.
func eachInstance(
	c *resource.Change, ids []string, edit func(r *record.Instance, state types.InstanceStateName) error,
) error {
	if len(ids) == 0 {
		return resource.MissingParameter("InstanceId")
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	rows, err := c.Instances.ListByID(c.Scope, ids)
	if err != nil {
		return err
	}
	for _, r := range rows {
		state := c.InstanceState(c.Scope, r)
		if err := c.Instances.UpdateRecord(c, r.ID,
			func(r *record.Instance) error { return edit(r, state) }); err != nil {
			return err
		}
	}
	return nil
}

// transition writes down why an instance is to be in a state, as AWS does: "User initiated (2026-11-21 14:00:00 GMT)".
func transition(r *record.Instance, wanted types.InstanceStateName, code, message, who string, now time.Time) {
	r.Wanted, r.WantedSince = wanted, now
	r.StateReasonCode, r.StateReasonMessage = code, code+": "+message
	r.TransitionReason = who + " (" + now.Format("2006-01-02 15:04:05") + " GMT)"
}

// incorrectState returns the error for an instance whose state does not allow an operation.
func incorrectState(id, done string) error {
	return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", id,
		done)
}
