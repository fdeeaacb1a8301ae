package offering

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
)

func viewInstanceType(t instancetype.Type) types.InstanceTypeInfo {
	n32 := func(n int) *int32 { return aws.Int32(int32(n)) }
	nitro := t.Hypervisor == "nitro"
	gbps := float64(t.NetworkBaselineMbps) / 1000
	v := types.InstanceTypeInfo{
		AutoRecoverySupported:         aws.Bool(!t.BareMetal && t.LocalStorageGB == 0),
		BareMetal:                     aws.Bool(t.BareMetal),
		BurstablePerformanceSupported: aws.Bool(t.Burstable),
		CurrentGeneration:             aws.Bool(t.CurrentGeneration),
		DedicatedHostsSupported:       aws.Bool(!t.Burstable),
		EbsInfo: &types.EbsInfo{
			AttachmentLimitType: types.AttachmentLimitTypeShared, EbsOptimizedSupport: types.EbsOptimizedSupportDefault,
			EncryptionSupport:     types.EbsEncryptionSupportSupported,
			MaximumEbsAttachments: aws.Int32(28), MaximumEbsCards: aws.Int32(1),
			NvmeSupport: types.EbsNvmeSupportRequired,
		},
		FreeTierEligible:         aws.Bool(t.Name == "t3.micro" || t.Name == "t2.micro"),
		HibernationSupported:     aws.Bool(false),
		Hypervisor:               types.InstanceTypeHypervisor(t.Hypervisor),
		InstanceStorageSupported: aws.Bool(t.LocalStorageGB > 0),
		InstanceType:             types.InstanceType(t.Name),
		MemoryInfo:               &types.MemoryInfo{SizeInMiB: aws.Int64(int64(t.MemoryMiB))},
		NetworkInfo: &types.NetworkInfo{
			DefaultNetworkCardIndex: aws.Int32(0), EfaSupported: aws.Bool(false), EnaSrdSupported: aws.Bool(false),
			EnaSupport:                   types.EnaSupportRequired,
			EncryptionInTransitSupported: aws.Bool(t.EncryptionInTransit), Ipv4AddressesPerInterface: n32(t.IPv4PerENI),
			Ipv6AddressesPerInterface: n32(t.IPv6PerENI),
			Ipv6Supported:             aws.Bool(true), MaximumNetworkCards: aws.Int32(1),
			MaximumNetworkInterfaces: n32(t.MaxENIs),
			NetworkPerformance:       aws.String(t.NetworkPerformance),
			NetworkCards: []types.NetworkCardInfo{{
				MaximumNetworkInterfaces: n32(t.MaxENIs), NetworkCardIndex: aws.Int32(0),
				NetworkPerformance: aws.String(t.NetworkPerformance),
			}},
		},
		NitroEnclavesSupport: types.NitroEnclavesSupportUnsupported,
		NitroTpmSupport:      types.NitroTpmSupportUnsupported,
		PhcSupport:           types.PhcSupportUnsupported,
		PlacementGroupInfo: &types.PlacementGroupInfo{SupportedStrategies: []types.PlacementGroupStrategy{
			types.PlacementGroupStrategyPartition, types.PlacementGroupStrategySpread,
		}},
		ProcessorInfo: &types.ProcessorInfo{
			Manufacturer:             aws.String(t.Manufacturer),
			SupportedArchitectures:   []types.ArchitectureType{types.ArchitectureType(t.Architecture)},
			SustainedClockSpeedInGhz: aws.Float64(t.ClockGHz),
		},
		RebootMigrationSupport:       types.RebootMigrationSupportUnsupported,
		SupportedBootModes:           []types.BootModeType{types.BootModeTypeUefi},
		SupportedRootDeviceTypes:     []types.RootDeviceType{types.RootDeviceTypeEbs},
		SupportedUsageClasses:        []types.UsageClassType{types.UsageClassTypeOnDemand, types.UsageClassTypeSpot},
		SupportedVirtualizationTypes: []types.VirtualizationType{types.VirtualizationTypeHvm},
		VCpuInfo: &types.VCpuInfo{DefaultCores: n32(t.Cores),
			DefaultThreadsPerCore: n32(t.ThreadsPerCore), DefaultVCpus: n32(t.VCPU)},
	}
	if t.NetworkBaselineMbps > 0 {
		v.NetworkInfo.NetworkCards[0].BaselineBandwidthInGbps = aws.Float64(gbps)
	}
	if !nitro && !t.BareMetal {
		v.EbsInfo.NvmeSupport, v.NetworkInfo.EnaSupport = types.EbsNvmeSupportUnsupported, types.EnaSupportSupported
	}
	if t.Architecture == instancetype.X86_64 {
		v.SupportedBootModes = []types.BootModeType{types.BootModeTypeLegacyBios, types.BootModeTypeUefi}
	}
	if !t.Burstable {
		v.PlacementGroupInfo.SupportedStrategies = append([]types.PlacementGroupStrategy{
			types.PlacementGroupStrategyCluster}, v.PlacementGroupInfo.SupportedStrategies...)
	}
	if t.EBSBandwidthMbps > 0 {
		most := n32(t.EBSBandwidthMbps)
		v.EbsInfo.EbsOptimizedInfo = &types.EbsOptimizedInfo{MaximumBandwidthInMbps: most,
			MaximumThroughputInMBps: aws.Float64(float64(t.EBSBandwidthMbps) / 8)}
	}
	if t.LocalStorageGB > 0 {
		v.InstanceStorageInfo = &types.InstanceStorageInfo{
			EncryptionSupport: types.InstanceStorageEncryptionSupportRequired,
			NvmeSupport:       types.EphemeralNvmeSupportRequired, TotalSizeInGB: aws.Int64(int64(t.LocalStorageGB)),
			Disks: []types.DiskInfo{{Count: aws.Int32(1), SizeInGB: aws.Int64(int64(t.LocalStorageGB)),
				Type: types.DiskTypeSsd}},
		}
	}
	if t.GPUs > 0 {
		v.GpuInfo = &types.GpuInfo{TotalGpuMemoryInMiB: n32(t.GPUs * t.GPUMemoryMiB), Gpus: []types.GpuDeviceInfo{{
			Count: n32(t.GPUs), Manufacturer: aws.String(t.GPUManufacturer), Name: aws.String(t.GPUName),
			MemoryInfo: &types.GpuDeviceMemoryInfo{SizeInMiB: n32(t.GPUMemoryMiB)},
		}}}
	}
	return v
}

// instanceTypeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) instanceTypeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeInstanceTypes, resource.OnRegion),
		wire.Handle(s.DescribeInstanceTypeOfferings, resource.OnRegion),
	}
}

// DescribeInstanceTypes lists the instance types that can be launched, which are the same in all regions.
func (s *Service) DescribeInstanceTypes(ctx context.Context, in *ec2.DescribeInstanceTypesInput) (
	*ec2.DescribeInstanceTypesOutput, error) {
	wanted := instancetype.All()
	if len(in.InstanceTypes) > 0 {
		wanted = nil
		var unknown []string
		for _, name := range in.InstanceTypes {
			if t, ok := instancetype.Get(string(name)); ok {
				wanted = append(wanted, t)
			} else {
				unknown = append(unknown, string(name))
			}
		}
		if len(unknown) > 0 {
			return nil, wire.Errorf("InvalidInstanceType", "The following supplied instance types do not exist: %v",
				unknown)
		}
	}
	slices.SortFunc(wanted, func(a, b instancetype.Type) int { return cmp.Compare(a.Name, b.Name) })
	var items []resource.Item[types.InstanceTypeInfo]
	for _, t := range slices.CompactFunc(wanted, func(a, b instancetype.Type) bool { return a.Name == b.Name }) {
		items = append(items, resource.Item[types.InstanceTypeInfo]{ID: t.Name, View: viewInstanceType(t)})
	}
	ids := make([]string, len(in.InstanceTypes))
	found, next, err := resource.DescribeItems(
		ctx,
		resource.Query{Operation: "DescribeInstanceTypes", DryRun: in.DryRun, IDs: ids, Filters: in.Filters,
			Max: in.MaxResults, Token: in.NextToken},
		items,
		instanceTypeFilters,
		nil,
	)
	if found == nil {
		found = []types.InstanceTypeInfo{}
	}
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: found, NextToken: next}, err
}

// instanceTypeFilters are the filters of DescribeInstanceTypes.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
var instanceTypeFilters = func() resource.Filters[types.InstanceTypeInfo] {
	type v = types.InstanceTypeInfo
	none := func(v) []string { return nil }
	optimized := func(member func(types.EbsOptimizedInfo) string) func(v) []string {
		return func(x v) []string {
			if x.EbsInfo.EbsOptimizedInfo == nil {
				return nil
			}
			return []string{member(*x.EbsInfo.EbsOptimizedInfo)}
		}
	}
	storage := func(member func(types.InstanceStorageInfo) string) func(v) []string {
		return func(x v) []string {
			if x.InstanceStorageInfo == nil {
				return nil
			}
			return []string{member(*x.InstanceStorageInfo)}
		}
	}
	return resource.Filters[v]{
		"auto-recovery-supported": resource.BoolFilter(
			func(x v) *bool { return x.AutoRecoverySupported }),
		"bare-metal": resource.BoolFilter(func(x v) *bool { return x.BareMetal }),
		"burstable-performance-supported": resource.BoolFilter(
			func(x v) *bool { return x.BurstablePerformanceSupported }),
		"current-generation": resource.BoolFilter(
			func(x v) *bool { return x.CurrentGeneration }),
		"dedicated-hosts-supported": resource.BoolFilter(
			func(x v) *bool { return x.DedicatedHostsSupported }),
		"ebs-info.attachment-limit-type": resource.EnumFilter(
			func(x v) types.AttachmentLimitType { return x.EbsInfo.AttachmentLimitType }),
		"ebs-info.maximum-ebs-attachments": resource.IntFilter(
			func(x v) *int32 { return x.EbsInfo.MaximumEbsAttachments }),
		"ebs-info.ebs-optimized-info.baseline-bandwidth-in-mbps":  none,
		"ebs-info.ebs-optimized-info.baseline-iops":               none,
		"ebs-info.ebs-optimized-info.baseline-throughput-in-mbps": none,
		"ebs-info.ebs-optimized-info.maximum-bandwidth-in-mbps": optimized(
			func(o types.EbsOptimizedInfo) string { return resource.Decimal(int(*o.MaximumBandwidthInMbps)) }),
		"ebs-info.ebs-optimized-info.maximum-iops": none,
		"ebs-info.ebs-optimized-info.maximum-throughput-in-mbps": optimized(
			func(o types.EbsOptimizedInfo) string { return formatFloat(*o.MaximumThroughputInMBps) }),
		"ebs-info.ebs-optimized-support": resource.EnumFilter(
			func(x v) types.EbsOptimizedSupport { return x.EbsInfo.EbsOptimizedSupport }),
		"ebs-info.encryption-support": resource.EnumFilter(
			func(x v) types.EbsEncryptionSupport { return x.EbsInfo.EncryptionSupport }),
		"ebs-info.nvme-support": resource.EnumFilter(
			func(x v) types.EbsNvmeSupport { return x.EbsInfo.NvmeSupport }),
		"free-tier-eligible": resource.BoolFilter(
			func(x v) *bool { return x.FreeTierEligible }),
		"hibernation-supported": resource.BoolFilter(
			func(x v) *bool { return x.HibernationSupported }),
		"hypervisor": resource.EnumFilter(
			func(x v) types.InstanceTypeHypervisor { return x.Hypervisor }),
		"instance-storage-info.disk.count": storage(
			func(i types.InstanceStorageInfo) string { return resource.Decimal(int(*i.Disks[0].Count)) }),
		"instance-storage-info.disk.size-in-gb": storage(
			func(i types.InstanceStorageInfo) string { return resource.Decimal(int(*i.Disks[0].SizeInGB)) }),
		"instance-storage-info.disk.type": storage(
			func(i types.InstanceStorageInfo) string { return string(i.Disks[0].Type) }),
		"instance-storage-info.encryption-support": storage(
			func(i types.InstanceStorageInfo) string { return string(i.EncryptionSupport) }),
		"instance-storage-info.nvme-support": storage(
			func(i types.InstanceStorageInfo) string { return string(i.NvmeSupport) }),
		"instance-storage-info.total-size-in-gb": storage(
			func(i types.InstanceStorageInfo) string { return resource.Decimal(int(*i.TotalSizeInGB)) }),
		"instance-storage-supported": resource.BoolFilter(
			func(x v) *bool { return x.InstanceStorageSupported }),
		"instance-type": resource.EnumFilter(
			func(x v) types.InstanceType { return x.InstanceType }),
		"memory-info.size-in-mib": func(x v) []string {
			return []string{
				strconv.FormatInt(*x.MemoryInfo.SizeInMiB, 10)}
		},
		"network-info.bandwidth-weightings":            none,
		"network-info.efa-info.maximum-efa-interfaces": none,
		"network-info.efa-supported": resource.BoolFilter(
			func(x v) *bool { return x.NetworkInfo.EfaSupported }),
		"network-info.ena-support": resource.EnumFilter(
			func(x v) types.EnaSupport { return x.NetworkInfo.EnaSupport }),
		"network-info.flexible-ena-queues-support": none,
		"network-info.encryption-in-transit-supported": resource.BoolFilter(
			func(x v) *bool { return x.NetworkInfo.EncryptionInTransitSupported }),
		"network-info.ipv4-addresses-per-interface": resource.IntFilter(
			func(x v) *int32 { return x.NetworkInfo.Ipv4AddressesPerInterface }),
		"network-info.ipv6-addresses-per-interface": resource.IntFilter(
			func(x v) *int32 { return x.NetworkInfo.Ipv6AddressesPerInterface }),
		"network-info.ipv6-supported": resource.BoolFilter(
			func(x v) *bool { return x.NetworkInfo.Ipv6Supported }),
		"network-info.maximum-network-cards": resource.IntFilter(
			func(x v) *int32 { return x.NetworkInfo.MaximumNetworkCards }),
		"network-info.maximum-network-interfaces": resource.IntFilter(
			func(x v) *int32 { return x.NetworkInfo.MaximumNetworkInterfaces }),
		"network-info.network-performance": resource.StringFilter(
			func(x v) *string { return x.NetworkInfo.NetworkPerformance }),
		"nitro-enclaves-support": resource.EnumFilter(
			func(x v) types.NitroEnclavesSupport { return x.NitroEnclavesSupport }),
		"nitro-tpm-support": resource.EnumFilter(
			func(x v) types.NitroTpmSupport { return x.NitroTpmSupport }),
		"nitro-tpm-info.supported-versions": none,
		"processor-info.supported-architecture": func(x v) []string {
			return resource.CollectValues(x.ProcessorInfo.SupportedArchitectures,
				func(a types.ArchitectureType) *types.ArchitectureType { return &a })
		},
		"processor-info.supported-features": none,
		"processor-info.sustained-clock-speed-in-ghz": func(x v) []string {
			return []string{
				formatFloat(*x.ProcessorInfo.SustainedClockSpeedInGhz)}
		},
		"reboot-migration-support": resource.EnumFilter(
			func(x v) types.RebootMigrationSupport { return x.RebootMigrationSupport }),
		"supported-boot-mode": func(x v) []string {
			return resource.CollectValues(x.SupportedBootModes, func(a types.BootModeType) *types.BootModeType { return &a })
		},
		"supported-root-device-type": func(x v) []string {
			return resource.CollectValues(x.SupportedRootDeviceTypes,
				func(a types.RootDeviceType) *types.RootDeviceType { return &a })
		},
		"supported-usage-class": func(x v) []string {
			return resource.CollectValues(x.SupportedUsageClasses,
				func(a types.UsageClassType) *types.UsageClassType { return &a })
		},
		"supported-virtualization-type": func(x v) []string {
			return resource.CollectValues(x.SupportedVirtualizationTypes,
				func(a types.VirtualizationType) *types.VirtualizationType { return &a })
		},
		"vcpu-info.default-cores": resource.IntFilter(func(x v) *int32 { return x.VCpuInfo.DefaultCores }),
		"vcpu-info.default-threads-per-core": resource.IntFilter(
			func(x v) *int32 { return x.VCpuInfo.DefaultThreadsPerCore },
		),
		"vcpu-info.default-vcpus":          resource.IntFilter(func(x v) *int32 { return x.VCpuInfo.DefaultVCpus }),
		"vcpu-info.valid-cores":            none,
		"vcpu-info.valid-threads-per-core": none,
	}
}()

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// DescribeInstanceTypeOfferings lists where instance types can be launched: everywhere.
func (s *Service) DescribeInstanceTypeOfferings(ctx context.Context, in *ec2.DescribeInstanceTypeOfferingsInput) (
	*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	by := cmp.Or(in.LocationType, types.LocationTypeRegion)
	var locations []string
	switch by {
	case types.LocationTypeRegion:
		locations = []string{sc.Region}
	case types.LocationTypeAvailabilityZone, types.LocationTypeAvailabilityZoneId:
		for _, z := range sc.Zones() {
			if by == types.LocationTypeAvailabilityZone {
				locations = append(locations, z.Name)
			} else {
				locations = append(locations, z.ID)
			}
		}
	case types.LocationTypeOutpost:
	default:
		return nil, resource.InvalidValue(by, "LocationType", "")
	}
	var items []resource.Item[types.InstanceTypeOffering]
	for _, t := range instancetype.All() {
		for _, l := range locations {
			items = append(items, resource.Item[types.InstanceTypeOffering]{ID: t.Name + " " + l,
				View: types.InstanceTypeOffering{InstanceType: types.InstanceType(t.Name), Location: aws.String(l),
					LocationType: by}})
		}
	}
	slices.SortFunc(items, func(a, b resource.Item[types.InstanceTypeOffering]) int { return cmp.Compare(a.ID, b.ID) })
	found, next, err := resource.DescribeItems(
		ctx,
		resource.Query{Operation: "DescribeInstanceTypeOfferings", DryRun: in.DryRun, Filters: in.Filters,
			Max: in.MaxResults, Token: in.NextToken},
		items,
		resource.Filters[types.InstanceTypeOffering]{
			"instance-type": resource.EnumFilter(
				func(x types.InstanceTypeOffering) types.InstanceType { return x.InstanceType }),
			"location": resource.StringFilter(func(x types.InstanceTypeOffering) *string { return x.Location }),
		},
		nil,
	)
	if found == nil {
		found = []types.InstanceTypeOffering{}
	}
	return &ec2.DescribeInstanceTypeOfferingsOutput{InstanceTypeOfferings: found, NextToken: next}, err
}
