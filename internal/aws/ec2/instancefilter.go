package ec2

import (
	"maps"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// instanceFilters are the filters of DescribeInstances, but for those about what an instance does not show.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
var instanceFilters = mergeFilters(filters[types.Instance]{
	"architecture":            enumFilter(func(x types.Instance) types.ArchitectureValues { return x.Architecture }),
	"availability-zone":       stringFilter(func(x types.Instance) *string { return x.Placement.AvailabilityZone }),
	"availability-zone-id":    stringFilter(func(x types.Instance) *string { return x.Placement.AvailabilityZoneId }),
	"boot-mode":               enumFilter(func(x types.Instance) types.BootModeValues { return x.BootMode }),
	"capacity-reservation-id": noValues,
	"capacity-reservation-specification.capacity-reservation-preference": enumFilter(
		func(x types.Instance) types.CapacityReservationPreference {
			return x.CapacityReservationSpecification.CapacityReservationPreference
		}),
	"capacity-reservation-specification.capacity-reservation-target.capacity-reservation-id":                 noValues,
	"capacity-reservation-specification.capacity-reservation-target.capacity-reservation-resource-group-arn": noValues,
	"client-token": stringFilter(func(x types.Instance) *string { return x.ClientToken }),
	"current-instance-boot-mode": enumFilter(
		func(x types.Instance) types.InstanceBootModeValues { return x.CurrentInstanceBootMode }),
	"dns-name":                stringFilter(func(x types.Instance) *string { return x.PublicDnsName }),
	"ebs-optimized":           boolFilter(func(x types.Instance) *bool { return x.EbsOptimized }),
	"ena-support":             boolFilter(func(x types.Instance) *bool { return x.EnaSupport }),
	"enclave-options.enabled": boolFilter(func(x types.Instance) *bool { return x.EnclaveOptions.Enabled }),
	"hibernation-options.configured": boolFilter(func(x types.Instance) *bool {
		return x.HibernationOptions.Configured
	}),
	"host-id":                  noValues,
	"hypervisor":               enumFilter(func(x types.Instance) types.HypervisorType { return x.Hypervisor }),
	"iam-instance-profile.arn": profile(func(p types.IamInstanceProfile) *string { return p.Arn }),
	"iam-instance-profile.id":  profile(func(p types.IamInstanceProfile) *string { return p.Id }),
	"iam-instance-profile.name": func(x types.Instance) []string {
		if x.IamInstanceProfile == nil {
			return nil
		}
		arn := *x.IamInstanceProfile.Arn
		return []string{arn[strings.LastIndex(arn, "/")+1:]}
	},
	"image-id":            stringFilter(func(x types.Instance) *string { return x.ImageId }),
	"instance-id":         stringFilter(func(x types.Instance) *string { return x.InstanceId }),
	"instance-lifecycle":  lifecycleOf,
	"instance-state-code": intFilter(func(x types.Instance) *int32 { return x.State.Code }),
	"instance-state-name": enumFilter(func(x types.Instance) types.InstanceStateName { return x.State.Name }),
	"instance-type":       enumFilter(func(x types.Instance) types.InstanceType { return x.InstanceType }),
	"instance.group-id":   groupsOf(func(g types.GroupIdentifier) *string { return g.GroupId }),
	"instance.group-name": groupsOf(func(g types.GroupIdentifier) *string { return g.GroupName }),
	"ip-address":          stringFilter(func(x types.Instance) *string { return x.PublicIpAddress }),
	"ipv6-address":        stringFilter(func(x types.Instance) *string { return x.Ipv6Address }),
	"kernel-id":           noValues,
	"key-name":            stringFilter(func(x types.Instance) *string { return x.KeyName }),
	"launch-index":        intFilter(func(x types.Instance) *int32 { return x.AmiLaunchIndex }),
	"launch-time":         timeFilter(func(x types.Instance) *time.Time { return x.LaunchTime }),
	"maintenance-options.auto-recovery": enumFilter(func(x types.Instance) types.InstanceAutoRecoveryState {
		return x.MaintenanceOptions.AutoRecovery
	}),
	"metadata-options.http-endpoint": enumFilter(
		func(x types.Instance) types.InstanceMetadataEndpointState { return x.MetadataOptions.HttpEndpoint }),
	"metadata-options.http-protocol-ipv4": noValues,
	"metadata-options.http-protocol-ipv6": enumFilter(
		func(x types.Instance) types.InstanceMetadataProtocolState { return x.MetadataOptions.HttpProtocolIpv6 }),
	"metadata-options.http-put-response-hop-limit": intFilter(
		func(x types.Instance) *int32 { return x.MetadataOptions.HttpPutResponseHopLimit }),
	"metadata-options.http-tokens": enumFilter(
		func(x types.Instance) types.HttpTokensState { return x.MetadataOptions.HttpTokens }),
	"metadata-options.instance-metadata-tags": enumFilter(func(x types.Instance) types.InstanceMetadataTagsState {
		return x.MetadataOptions.InstanceMetadataTags
	}),
	"monitoring-state": enumFilter(
		func(x types.Instance) types.MonitoringState { return x.Monitoring.State }),
	"operator.managed":           boolFilter(func(x types.Instance) *bool { return x.Operator.Managed }),
	"operator.principal":         stringFilter(func(x types.Instance) *string { return x.Operator.Principal }),
	"outpost-arn":                noValues,
	"placement-group-name":       stringFilter(func(x types.Instance) *string { return x.Placement.GroupName }),
	"placement-partition-number": intFilter(func(x types.Instance) *int32 { return x.Placement.PartitionNumber }),
	"platform":                   noValues,
	"platform-details":           stringFilter(func(x types.Instance) *string { return x.PlatformDetails }),
	"private-dns-name":           stringFilter(func(x types.Instance) *string { return x.PrivateDnsName }),
	"private-dns-name-options.enable-resource-name-dns-a-record": boolFilter(func(x types.Instance) *bool {
		return x.PrivateDnsNameOptions.EnableResourceNameDnsARecord
	}),
	"private-dns-name-options.enable-resource-name-dns-aaaa-record": boolFilter(func(x types.Instance) *bool {
		return x.PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord
	}),
	"private-dns-name-options.hostname-type": enumFilter(
		func(x types.Instance) types.HostnameType { return x.PrivateDnsNameOptions.HostnameType }),
	"private-ip-address": stringFilter(
		func(x types.Instance) *string { return x.PrivateIpAddress }),
	"product-code":      noValues,
	"product-code.type": noValues,
	"ramdisk-id":        noValues,
	"reason": stringFilter(
		func(x types.Instance) *string { return x.StateTransitionReason }),
	"root-device-name": stringFilter(func(x types.Instance) *string { return x.RootDeviceName }),
	"root-device-type": enumFilter(
		func(x types.Instance) types.DeviceType { return x.RootDeviceType }),
	"source-dest-check": boolFilter(func(x types.Instance) *bool { return x.SourceDestCheck }),
	"spot-instance-request-id": stringFilter(
		func(x types.Instance) *string { return x.SpotInstanceRequestId }),
	"state-reason-code":    reasonFilter(func(r types.StateReason) *string { return r.Code }),
	"state-reason-message": reasonFilter(func(r types.StateReason) *string { return r.Message }),
	"subnet-id":            stringFilter(func(x types.Instance) *string { return x.SubnetId }),
	"tenancy": enumFilter(
		func(x types.Instance) types.Tenancy { return x.Placement.Tenancy }),
	"tpm-support":     noValues,
	"usage-operation": stringFilter(func(x types.Instance) *string { return x.UsageOperation }),
	"usage-operation-update-time": timeFilter(
		func(x types.Instance) *time.Time { return x.UsageOperationUpdateTime }),
	"virtualization-type": enumFilter(
		func(x types.Instance) types.VirtualizationType { return x.VirtualizationType }),
	"vpc-id": stringFilter(func(x types.Instance) *string { return x.VpcId }),
}, prefixed("block-device-mapping.", func(
	x types.Instance) []types.InstanceBlockDeviceMapping {
	return x.BlockDeviceMappings
}, filters[types.InstanceBlockDeviceMapping]{
	"attach-time": timeFilter(
		func(b types.InstanceBlockDeviceMapping) *time.Time { return b.Ebs.AttachTime }),
	"delete-on-termination": boolFilter(
		func(b types.InstanceBlockDeviceMapping) *bool { return b.Ebs.DeleteOnTermination }),
	"device-name": stringFilter(func(b types.InstanceBlockDeviceMapping) *string { return b.DeviceName }),
	"status": enumFilter(
		func(b types.InstanceBlockDeviceMapping) types.AttachmentStatus { return b.Ebs.Status }),
	"volume-id": stringFilter(func(b types.InstanceBlockDeviceMapping) *string { return b.Ebs.VolumeId }),
}), prefixed("network-interface.", func(
	x types.Instance) []types.InstanceNetworkInterface {
	return x.NetworkInterfaces
}, instanceInterfaceFilters))

var instanceInterfaceFilters = mergeFilters(filters[types.InstanceNetworkInterface]{
	"addresses.association.allocation-id":  func(types.InstanceNetworkInterface) []string { return nil },
	"addresses.association.association-id": func(types.InstanceNetworkInterface) []string { return nil },
	"association.allocation-id":            func(types.InstanceNetworkInterface) []string { return nil },
	"association.association-id":           func(types.InstanceNetworkInterface) []string { return nil },
	"association.carrier-ip":               func(types.InstanceNetworkInterface) []string { return nil },
	"association.customer-owned-ip":        func(types.InstanceNetworkInterface) []string { return nil },
	"attachment.attach-time": timeFilter(
		func(n types.InstanceNetworkInterface) *time.Time { return n.Attachment.AttachTime }),
	"attachment.attachment-id": stringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.Attachment.AttachmentId }),
	"attachment.delete-on-termination": boolFilter(
		func(n types.InstanceNetworkInterface) *bool { return n.Attachment.DeleteOnTermination }),
	"attachment.device-index": intFilter(
		func(n types.InstanceNetworkInterface) *int32 { return n.Attachment.DeviceIndex }),
	"attachment.network-card-index": intFilter(
		func(n types.InstanceNetworkInterface) *int32 { return n.Attachment.NetworkCardIndex }),
	"attachment.status": enumFilter(
		func(n types.InstanceNetworkInterface) types.AttachmentStatus { return n.Attachment.Status }),
	"description": stringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.Description }),
	"group-id": func(n types.InstanceNetworkInterface) []string {
		return collectValues(n.Groups, func(g types.GroupIdentifier) *string { return g.GroupId })
	},
	"group-name": func(n types.InstanceNetworkInterface) []string {
		return collectValues(n.Groups, func(g types.GroupIdentifier) *string { return g.GroupName })
	},
	"ipv4-prefixes.ipv4-prefix": func(n types.InstanceNetworkInterface) []string {
		return collectValues(n.Ipv4Prefixes, func(p types.InstanceIpv4Prefix) *string { return p.Ipv4Prefix })
	},
	"ipv6-address":                ipv6Addresses,
	"ipv6-addresses.ipv6-address": ipv6Addresses,
	"ipv6-addresses.is-primary-ipv6": func(n types.InstanceNetworkInterface) []string {
		var all []string
		for _, a := range n.Ipv6Addresses {
			all = append(all, boolFilter(func(a types.InstanceIpv6Address) *bool { return a.IsPrimaryIpv6 })(a)...)
		}
		return all
	},
	"ipv6-prefixes.ipv6-prefix": func(n types.InstanceNetworkInterface) []string {
		return collectValues(n.Ipv6Prefixes, func(p types.InstanceIpv6Prefix) *string { return p.Ipv6Prefix })
	},
	"mac-address": stringFilter(func(n types.InstanceNetworkInterface) *string { return n.MacAddress }),
	"network-interface-id": stringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.NetworkInterfaceId }),
	"operator.managed": boolFilter(func(n types.InstanceNetworkInterface) *bool { return n.Operator.Managed }),
	"operator.principal": stringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.Operator.Principal }),
	"outpost-arn":        func(types.InstanceNetworkInterface) []string { return nil },
	"owner-id":           stringFilter(func(n types.InstanceNetworkInterface) *string { return n.OwnerId }),
	"private-dns-name":   stringFilter(func(n types.InstanceNetworkInterface) *string { return n.PrivateDnsName }),
	"private-ip-address": stringFilter(func(n types.InstanceNetworkInterface) *string { return n.PrivateIpAddress }),
	"requester-id":       func(types.InstanceNetworkInterface) []string { return nil },
	"requester-managed":  func(types.InstanceNetworkInterface) []string { return []string{"false"} },
	"source-dest-check":  boolFilter(func(n types.InstanceNetworkInterface) *bool { return n.SourceDestCheck }),
	"status": enumFilter(func(
		n types.InstanceNetworkInterface) types.NetworkInterfaceStatus {
		return n.Status
	}),
	"subnet-id": stringFilter(func(n types.InstanceNetworkInterface) *string { return n.SubnetId }),
	"vpc-id":    stringFilter(func(n types.InstanceNetworkInterface) *string { return n.VpcId }),
	"addresses.primary": func(n types.InstanceNetworkInterface) []string {
		var all []string
		for _, a := range n.PrivateIpAddresses {
			all = append(all, boolFilter(func(a types.InstancePrivateIpAddress) *bool { return a.Primary })(a)...)
		}
		return all
	},
	"addresses.private-ip-address": func(n types.InstanceNetworkInterface) []string {
		return collectValues(n.PrivateIpAddresses,
			func(a types.InstancePrivateIpAddress) *string { return a.PrivateIpAddress })
	},
}, associationFilters("association."), associationFilters("addresses.association."), interfaceAttachedTo)

// interfaceAttachedTo are the filters about the instance that an interface is attached to, which is the one in
// question.
var interfaceAttachedTo = filters[types.InstanceNetworkInterface]{
	"attachment.instance-owner-id": stringFilter(func(n types.InstanceNetworkInterface) *string { return n.OwnerId }),
	// shown with the instance
	"availability-zone": func(types.InstanceNetworkInterface) []string { return nil },
}

func associationFilters(prefix string) filters[types.InstanceNetworkInterface] {
	of := func(member func(types.InstanceNetworkInterfaceAssociation) *string) func(
		types.InstanceNetworkInterface) []string {
		return func(n types.InstanceNetworkInterface) []string {
			return collectValues(n.PrivateIpAddresses, func(a types.InstancePrivateIpAddress) *string {
				if a.Association == nil {
					return nil
				}
				return member(*a.Association)
			})
		}
	}
	return filters[types.InstanceNetworkInterface]{
		prefix + "ip-owner-id": of(func(
			a types.InstanceNetworkInterfaceAssociation) *string {
			return a.IpOwnerId
		}),
		prefix + "public-dns-name": of(func(
			a types.InstanceNetworkInterfaceAssociation) *string {
			return a.PublicDnsName
		}),
		prefix + "public-ip": of(func(a types.InstanceNetworkInterfaceAssociation) *string { return a.PublicIp }),
	}
}

// reservationFilters are the filters by what DescribeInstances shows of a reservation, or of the instance's row alone.
func reservationFilters(rows map[string]record.Instance) filters[types.Instance] {
	of := func(member func(record.Instance) string) func(types.Instance) []string {
		return func(x types.Instance) []string {
			if value := member(rows[*x.InstanceId]); value != "" {
				return []string{value}
			}
			return nil
		}
	}
	zone := func(x types.Instance) []string { return []string{*x.Placement.AvailabilityZone} }
	return filters[types.Instance]{
		"group-id":       noValues, // of EC2-Classic
		"group-name":     noValues,
		"owner-id":       of(func(r record.Instance) string { return r.Account }),
		"requester-id":   of(func(r record.Instance) string { return r.RequesterID }),
		"reservation-id": of(func(r record.Instance) string { return r.ReservationID }),
		"network-interface.attachment.instance-id": func(x types.Instance) []string {
			return []string{
				*x.InstanceId}
		},
		"network-interface.availability-zone":          zone,
		"network-interface.network-interface-owner-id": of(func(r record.Instance) string { return r.Account }),
	}
}

func noValues(types.Instance) []string { return nil }

// lifecycleOf has no value for on-demand instances.
func lifecycleOf(x types.Instance) []string {
	if x.InstanceLifecycle == "" {
		return nil
	}
	return []string{string(x.InstanceLifecycle)}
}

func profile(member func(types.IamInstanceProfile) *string) func(types.Instance) []string {
	return func(x types.Instance) []string {
		if x.IamInstanceProfile == nil {
			return nil
		}
		return collectValues([]types.IamInstanceProfile{*x.IamInstanceProfile}, member)
	}
}

func reasonFilter(member func(types.StateReason) *string) func(types.Instance) []string {
	return func(x types.Instance) []string {
		if x.StateReason == nil {
			return nil
		}
		return collectValues([]types.StateReason{*x.StateReason}, member)
	}
}

func groupsOf(member func(types.GroupIdentifier) *string) func(types.Instance) []string {
	return func(x types.Instance) []string { return collectValues(x.SecurityGroups, member) }
}

func ipv6Addresses(n types.InstanceNetworkInterface) []string {
	return collectValues(n.Ipv6Addresses, func(a types.InstanceIpv6Address) *string { return a.Ipv6Address })
}

// timeFilter is the filter of a time.
func timeFilter[V any](member func(V) *time.Time) func(V) []string {
	return func(v V) []string {
		t := member(v)
		if t == nil {
			return nil
		}
		return []string{aws.ToTime(t).UTC().Format("2006-01-02T15:04:05.000Z")}
	}
}

// prefixed are the filters by what the elements of a list have.
func prefixed[V, E any](prefix string, list func(V) []E, by filters[E]) filters[V] {
	all := filters[V]{}
	for name, values := range by {
		all[prefix+name] = func(v V) []string {
			var found []string
			for _, e := range list(v) {
				found = append(found, values(e)...)
			}
			return found
		}
	}
	return all
}

// mergeFilters are all filters of several sets.
func mergeFilters[V any](sets ...filters[V]) filters[V] {
	all := filters[V]{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}
