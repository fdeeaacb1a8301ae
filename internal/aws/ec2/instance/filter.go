package instance

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
)

// instanceFilters are the filters of DescribeInstances, but for those about what an instance does not show.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
var instanceFilters = resource.MergeFilters(resource.Filters[types.Instance]{
	"architecture": resource.EnumFilter(
		func(x types.Instance) types.ArchitectureValues { return x.Architecture },
	),
	"availability-zone": resource.StringFilter(
		func(x types.Instance) *string { return x.Placement.AvailabilityZone },
	),
	"availability-zone-id": resource.StringFilter(
		func(x types.Instance) *string { return x.Placement.AvailabilityZoneId },
	),
	"boot-mode":               resource.EnumFilter(func(x types.Instance) types.BootModeValues { return x.BootMode }),
	"capacity-reservation-id": noValues,
	"capacity-reservation-specification.capacity-reservation-preference": resource.EnumFilter(
		func(x types.Instance) types.CapacityReservationPreference {
			return x.CapacityReservationSpecification.CapacityReservationPreference
		}),
	"capacity-reservation-specification.capacity-reservation-target.capacity-reservation-id":                 noValues,
	"capacity-reservation-specification.capacity-reservation-target.capacity-reservation-resource-group-arn": noValues,
	"client-token": resource.StringFilter(func(x types.Instance) *string { return x.ClientToken }),
	"current-instance-boot-mode": resource.EnumFilter(
		func(x types.Instance) types.InstanceBootModeValues { return x.CurrentInstanceBootMode }),
	"dns-name":                resource.StringFilter(func(x types.Instance) *string { return x.PublicDnsName }),
	"ebs-optimized":           resource.BoolFilter(func(x types.Instance) *bool { return x.EbsOptimized }),
	"ena-support":             resource.BoolFilter(func(x types.Instance) *bool { return x.EnaSupport }),
	"enclave-options.enabled": resource.BoolFilter(func(x types.Instance) *bool { return x.EnclaveOptions.Enabled }),
	"hibernation-options.configured": resource.BoolFilter(func(x types.Instance) *bool {
		return x.HibernationOptions.Configured
	}),
	"host-id":                  noValues,
	"hypervisor":               resource.EnumFilter(func(x types.Instance) types.HypervisorType { return x.Hypervisor }),
	"iam-instance-profile.arn": profile(func(p types.IamInstanceProfile) *string { return p.Arn }),
	"iam-instance-profile.id":  profile(func(p types.IamInstanceProfile) *string { return p.Id }),
	"iam-instance-profile.name": func(x types.Instance) []string {
		if x.IamInstanceProfile == nil {
			return nil
		}
		arn := *x.IamInstanceProfile.Arn
		return []string{arn[strings.LastIndex(arn, "/")+1:]}
	},
	"image-id":            resource.StringFilter(func(x types.Instance) *string { return x.ImageId }),
	"instance-id":         resource.StringFilter(func(x types.Instance) *string { return x.InstanceId }),
	"instance-lifecycle":  lifecycleOf,
	"instance-state-code": resource.IntFilter(func(x types.Instance) *int32 { return x.State.Code }),
	"instance-state-name": resource.EnumFilter(func(x types.Instance) types.InstanceStateName { return x.State.Name }),
	"instance-type":       resource.EnumFilter(func(x types.Instance) types.InstanceType { return x.InstanceType }),
	"instance.group-id":   groupsOf(func(g types.GroupIdentifier) *string { return g.GroupId }),
	"instance.group-name": groupsOf(func(g types.GroupIdentifier) *string { return g.GroupName }),
	"ip-address":          resource.StringFilter(func(x types.Instance) *string { return x.PublicIpAddress }),
	"ipv6-address":        resource.StringFilter(func(x types.Instance) *string { return x.Ipv6Address }),
	"kernel-id":           noValues,
	"key-name":            resource.StringFilter(func(x types.Instance) *string { return x.KeyName }),
	"launch-index":        resource.IntFilter(func(x types.Instance) *int32 { return x.AmiLaunchIndex }),
	"launch-time":         resource.TimeFilter(func(x types.Instance) *time.Time { return x.LaunchTime }),
	"maintenance-options.auto-recovery": resource.EnumFilter(func(x types.Instance) types.InstanceAutoRecoveryState {
		return x.MaintenanceOptions.AutoRecovery
	}),
	"metadata-options.http-endpoint": resource.EnumFilter(
		func(x types.Instance) types.InstanceMetadataEndpointState { return x.MetadataOptions.HttpEndpoint }),
	"metadata-options.http-protocol-ipv4": noValues,
	"metadata-options.http-protocol-ipv6": resource.EnumFilter(
		func(x types.Instance) types.InstanceMetadataProtocolState { return x.MetadataOptions.HttpProtocolIpv6 }),
	"metadata-options.http-put-response-hop-limit": resource.IntFilter(
		func(x types.Instance) *int32 { return x.MetadataOptions.HttpPutResponseHopLimit }),
	"metadata-options.http-tokens": resource.EnumFilter(
		func(x types.Instance) types.HttpTokensState { return x.MetadataOptions.HttpTokens }),
	"metadata-options.instance-metadata-tags": resource.EnumFilter(func(x types.Instance) types.InstanceMetadataTagsState {
		return x.MetadataOptions.InstanceMetadataTags
	}),
	"monitoring-state": resource.EnumFilter(
		func(x types.Instance) types.MonitoringState { return x.Monitoring.State }),
	"operator.managed":           resource.BoolFilter(func(x types.Instance) *bool { return x.Operator.Managed }),
	"operator.principal":         resource.StringFilter(func(x types.Instance) *string { return x.Operator.Principal }),
	"outpost-arn":                noValues,
	"placement-group-name":       resource.StringFilter(func(x types.Instance) *string { return x.Placement.GroupName }),
	"placement-partition-number": resource.IntFilter(func(x types.Instance) *int32 { return x.Placement.PartitionNumber }),
	"platform":                   noValues,
	"platform-details":           resource.StringFilter(func(x types.Instance) *string { return x.PlatformDetails }),
	"private-dns-name":           resource.StringFilter(func(x types.Instance) *string { return x.PrivateDnsName }),
	"private-dns-name-options.enable-resource-name-dns-a-record": resource.BoolFilter(func(x types.Instance) *bool {
		return x.PrivateDnsNameOptions.EnableResourceNameDnsARecord
	}),
	"private-dns-name-options.enable-resource-name-dns-aaaa-record": resource.BoolFilter(func(x types.Instance) *bool {
		return x.PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord
	}),
	"private-dns-name-options.hostname-type": resource.EnumFilter(
		func(x types.Instance) types.HostnameType { return x.PrivateDnsNameOptions.HostnameType }),
	"private-ip-address": resource.StringFilter(
		func(x types.Instance) *string { return x.PrivateIpAddress }),
	"product-code":      noValues,
	"product-code.type": noValues,
	"ramdisk-id":        noValues,
	"reason": resource.StringFilter(
		func(x types.Instance) *string { return x.StateTransitionReason }),
	"root-device-name": resource.StringFilter(func(x types.Instance) *string { return x.RootDeviceName }),
	"root-device-type": resource.EnumFilter(
		func(x types.Instance) types.DeviceType { return x.RootDeviceType }),
	"source-dest-check": resource.BoolFilter(func(x types.Instance) *bool { return x.SourceDestCheck }),
	"spot-instance-request-id": resource.StringFilter(
		func(x types.Instance) *string { return x.SpotInstanceRequestId }),
	"state-reason-code":    reasonFilter(func(r types.StateReason) *string { return r.Code }),
	"state-reason-message": reasonFilter(func(r types.StateReason) *string { return r.Message }),
	"subnet-id":            resource.StringFilter(func(x types.Instance) *string { return x.SubnetId }),
	"tenancy": resource.EnumFilter(
		func(x types.Instance) types.Tenancy { return x.Placement.Tenancy }),
	"tpm-support":     noValues,
	"usage-operation": resource.StringFilter(func(x types.Instance) *string { return x.UsageOperation }),
	"usage-operation-update-time": resource.TimeFilter(
		func(x types.Instance) *time.Time { return x.UsageOperationUpdateTime }),
	"virtualization-type": resource.EnumFilter(
		func(x types.Instance) types.VirtualizationType { return x.VirtualizationType }),
	"vpc-id": resource.StringFilter(func(x types.Instance) *string { return x.VpcId }),
}, resource.ElementFilters("block-device-mapping.", func(x types.Instance) []types.InstanceBlockDeviceMapping {
	return x.BlockDeviceMappings
}, resource.Filters[types.InstanceBlockDeviceMapping]{
	"attach-time": resource.TimeFilter(
		func(b types.InstanceBlockDeviceMapping) *time.Time { return b.Ebs.AttachTime }),
	"delete-on-termination": resource.BoolFilter(
		func(b types.InstanceBlockDeviceMapping) *bool { return b.Ebs.DeleteOnTermination }),
	"device-name": resource.StringFilter(func(b types.InstanceBlockDeviceMapping) *string { return b.DeviceName }),
	"status": resource.EnumFilter(
		func(b types.InstanceBlockDeviceMapping) types.AttachmentStatus { return b.Ebs.Status }),
	"volume-id": resource.StringFilter(func(b types.InstanceBlockDeviceMapping) *string { return b.Ebs.VolumeId }),
}), resource.ElementFilters("network-interface.", func(x types.Instance) []types.InstanceNetworkInterface {
	return x.NetworkInterfaces
}, instanceInterfaceFilters))

var instanceInterfaceFilters = resource.MergeFilters(resource.Filters[types.InstanceNetworkInterface]{
	"addresses.association.allocation-id":  func(types.InstanceNetworkInterface) []string { return nil },
	"addresses.association.association-id": func(types.InstanceNetworkInterface) []string { return nil },
	"association.allocation-id":            func(types.InstanceNetworkInterface) []string { return nil },
	"association.association-id":           func(types.InstanceNetworkInterface) []string { return nil },
	"association.carrier-ip":               func(types.InstanceNetworkInterface) []string { return nil },
	"association.customer-owned-ip":        func(types.InstanceNetworkInterface) []string { return nil },
	"attachment.attach-time": resource.TimeFilter(
		func(n types.InstanceNetworkInterface) *time.Time { return n.Attachment.AttachTime }),
	"attachment.attachment-id": resource.StringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.Attachment.AttachmentId }),
	"attachment.delete-on-termination": resource.BoolFilter(
		func(n types.InstanceNetworkInterface) *bool { return n.Attachment.DeleteOnTermination }),
	"attachment.device-index": resource.IntFilter(
		func(n types.InstanceNetworkInterface) *int32 { return n.Attachment.DeviceIndex }),
	"attachment.network-card-index": resource.IntFilter(
		func(n types.InstanceNetworkInterface) *int32 { return n.Attachment.NetworkCardIndex }),
	"attachment.status": resource.EnumFilter(
		func(n types.InstanceNetworkInterface) types.AttachmentStatus { return n.Attachment.Status }),
	"description": resource.StringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.Description }),
	"group-id": func(n types.InstanceNetworkInterface) []string {
		return resource.CollectValues(n.Groups, func(g types.GroupIdentifier) *string { return g.GroupId })
	},
	"group-name": func(n types.InstanceNetworkInterface) []string {
		return resource.CollectValues(n.Groups, func(g types.GroupIdentifier) *string { return g.GroupName })
	},
	"ipv4-prefixes.ipv4-prefix": func(n types.InstanceNetworkInterface) []string {
		return resource.CollectValues(n.Ipv4Prefixes, func(p types.InstanceIpv4Prefix) *string { return p.Ipv4Prefix })
	},
	"ipv6-address":                ipv6Addresses,
	"ipv6-addresses.ipv6-address": ipv6Addresses,
	"ipv6-addresses.is-primary-ipv6": func(n types.InstanceNetworkInterface) []string {
		var all []string
		for _, a := range n.Ipv6Addresses {
			all = append(all, resource.BoolFilter(func(a types.InstanceIpv6Address) *bool { return a.IsPrimaryIpv6 })(a)...)
		}
		return all
	},
	"ipv6-prefixes.ipv6-prefix": func(n types.InstanceNetworkInterface) []string {
		return resource.CollectValues(n.Ipv6Prefixes, func(p types.InstanceIpv6Prefix) *string { return p.Ipv6Prefix })
	},
	"mac-address": resource.StringFilter(func(n types.InstanceNetworkInterface) *string { return n.MacAddress }),
	"network-interface-id": resource.StringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.NetworkInterfaceId }),
	"operator.managed": resource.BoolFilter(func(n types.InstanceNetworkInterface) *bool { return n.Operator.Managed }),
	"operator.principal": resource.StringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.Operator.Principal }),
	"outpost-arn": func(types.InstanceNetworkInterface) []string { return nil },
	"owner-id":    resource.StringFilter(func(n types.InstanceNetworkInterface) *string { return n.OwnerId }),
	"private-dns-name": resource.StringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.PrivateDnsName },
	),
	"private-ip-address": resource.StringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.PrivateIpAddress },
	),
	"requester-id":      func(types.InstanceNetworkInterface) []string { return nil },
	"requester-managed": func(types.InstanceNetworkInterface) []string { return []string{"false"} },
	"source-dest-check": resource.BoolFilter(func(n types.InstanceNetworkInterface) *bool { return n.SourceDestCheck }),
	"status": resource.EnumFilter(func(n types.InstanceNetworkInterface) types.NetworkInterfaceStatus {
		return n.Status
	}),
	"subnet-id": resource.StringFilter(func(n types.InstanceNetworkInterface) *string { return n.SubnetId }),
	"vpc-id":    resource.StringFilter(func(n types.InstanceNetworkInterface) *string { return n.VpcId }),
	"addresses.primary": func(n types.InstanceNetworkInterface) []string {
		var all []string
		for _, a := range n.PrivateIpAddresses {
			all = append(all, resource.BoolFilter(func(a types.InstancePrivateIpAddress) *bool { return a.Primary })(a)...)
		}
		return all
	},
	"addresses.private-ip-address": func(n types.InstanceNetworkInterface) []string {
		return resource.CollectValues(n.PrivateIpAddresses,
			func(a types.InstancePrivateIpAddress) *string { return a.PrivateIpAddress })
	},
}, associationFilters("association."), associationFilters("addresses.association."), interfaceAttachedTo)

// interfaceAttachedTo are the filters about the instance that an interface is attached to, which is the one in
// question.
var interfaceAttachedTo = resource.Filters[types.InstanceNetworkInterface]{
	"attachment.instance-owner-id": resource.StringFilter(
		func(n types.InstanceNetworkInterface) *string { return n.OwnerId },
	),
	// shown with the instance
	"availability-zone": func(types.InstanceNetworkInterface) []string { return nil },
}

func associationFilters(prefix string) resource.Filters[types.InstanceNetworkInterface] {
	of := func(member func(types.InstanceNetworkInterfaceAssociation) *string) func(
		types.InstanceNetworkInterface) []string {
		return func(n types.InstanceNetworkInterface) []string {
			return resource.CollectValues(n.PrivateIpAddresses, func(a types.InstancePrivateIpAddress) *string {
				if a.Association == nil {
					return nil
				}
				return member(*a.Association)
			})
		}
	}
	return resource.Filters[types.InstanceNetworkInterface]{
		prefix + "ip-owner-id": of(func(a types.InstanceNetworkInterfaceAssociation) *string {
			return a.IpOwnerId
		}),
		prefix + "public-dns-name": of(func(a types.InstanceNetworkInterfaceAssociation) *string {
			return a.PublicDnsName
		}),
		prefix + "public-ip": of(func(a types.InstanceNetworkInterfaceAssociation) *string { return a.PublicIp }),
	}
}

// reservationFilters returns the filters on what DescribeInstances shows of a reservation, or of the instance's record
// alone.
func reservationFilters(rows map[string]record.Instance) resource.Filters[types.Instance] {
	of := func(member func(record.Instance) string) func(types.Instance) []string {
		return func(x types.Instance) []string {
			if value := member(rows[*x.InstanceId]); value != "" {
				return []string{value}
			}
			return nil
		}
	}
	zone := func(x types.Instance) []string { return []string{*x.Placement.AvailabilityZone} }
	return resource.Filters[types.Instance]{
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

// lifecycleOf returns the lifecycle of an instance; no value for on-demand instances.
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
		return resource.CollectValues([]types.IamInstanceProfile{*x.IamInstanceProfile}, member)
	}
}

func reasonFilter(member func(types.StateReason) *string) func(types.Instance) []string {
	return func(x types.Instance) []string {
		if x.StateReason == nil {
			return nil
		}
		return resource.CollectValues([]types.StateReason{*x.StateReason}, member)
	}
}

func groupsOf(member func(types.GroupIdentifier) *string) func(types.Instance) []string {
	return func(x types.Instance) []string { return resource.CollectValues(x.SecurityGroups, member) }
}

func ipv6Addresses(n types.InstanceNetworkInterface) []string {
	return resource.CollectValues(n.Ipv6Addresses, func(a types.InstanceIpv6Address) *string { return a.Ipv6Address })
}
