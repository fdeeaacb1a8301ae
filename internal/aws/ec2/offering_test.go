package ec2_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

func TestInstanceTypesAndImages(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	info := awstest.Must[*ec2.DescribeInstanceTypesOutput](t)(w.DescribeInstanceTypes(ctx,
		&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.large"}})).InstanceTypes[0]
	if *info.VCpuInfo.DefaultVCpus != 2 || *info.MemoryInfo.SizeInMiB != 8192 ||
		*info.NetworkInfo.MaximumNetworkInterfaces != 3 || *info.NetworkInfo.Ipv4AddressesPerInterface != 10 ||
		info.Hypervisor != "nitro" ||
		*info.NetworkInfo.NetworkCards[0].MaximumNetworkInterfaces != 3 ||
		info.ProcessorInfo.SupportedArchitectures[0] != "x86_64" {
		t.Errorf("m5.large is %+v", info)
	}
	arm := awstest.Must[*ec2.DescribeInstanceTypesOutput](t)(w.DescribeInstanceTypes(ctx,
		&ec2.DescribeInstanceTypesInput{Filters: []types.Filter{
			ec2test.Filter("processor-info.supported-architecture", "arm64"), ec2test.Filter("vcpu-info.default-vcpus", "2"),
			ec2test.Filter(
				"instance-type",
				"m*.large",
			), ec2test.Filter("bare-metal", "false"), ec2test.Filter("supported-virtualization-type",
				"hvm"), ec2test.Filter("hypervisor", "nitro"),
		}})).InstanceTypes
	if len(arm) == 0 || slices.ContainsFunc(arm,
		func(i types.InstanceTypeInfo) bool { return *i.VCpuInfo.DefaultVCpus != 2 }) {
		t.Errorf("%d types", len(arm))
	}
	offered := awstest.Must[*ec2.DescribeInstanceTypeOfferingsOutput](t)(w.DescribeInstanceTypeOfferings(ctx,
		&ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone",
			Filters: []types.Filter{ec2test.Filter("instance-type", "m5.large")}})).InstanceTypeOfferings
	if len(offered) != 3 || *offered[0].Location != "eu-west-1a" {
		t.Errorf("offerings %+v", offered)
	}
	pages := 0
	for p := ec2.NewDescribeInstanceTypesPaginator(w.Client,
		&ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100)}); p.HasMorePages(); pages++ {
		awstest.Must[any](t)(p.NextPage(ctx))
	}
	if pages < 2 {
		t.Errorf("all types on %d pages", pages)
	}
	found := awstest.Must[*ec2.GetInstanceTypesFromInstanceRequirementsOutput](t)(
		w.GetInstanceTypesFromInstanceRequirements(
			ctx, &ec2.GetInstanceTypesFromInstanceRequirementsInput{
				ArchitectureTypes:   slices.Repeat([]types.ArchitectureType{"x86_64"}, 3), // answers once
				VirtualizationTypes: []types.VirtualizationType{"hvm"},
				InstanceRequirements: &types.InstanceRequirementsRequest{VCpuCount: &types.VCpuCountRangeRequest{
					Min: aws.Int32(2), Max: aws.Int32(2)}, MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(8192),
					Max: aws.Int32(8192)}, ExcludedInstanceTypes: []string{"m5a*"}},
			}),
	).InstanceTypes
	names := func(list []types.InstanceTypeInfoFromInstanceRequirements) (all []string) {
		for _, i := range list {
			all = append(all, *i.InstanceType)
		}
		return all
	}(found)
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("types are listed more than once")
	}
	if !slices.Contains(names, "m5.large") || slices.Contains(names, "m5a.large") || slices.Contains(names,
		"t3.large") || slices.Contains(names, "m5.xlarge") {
		t.Errorf("types that meet the requirements: %v", names)
	}

	images := awstest.Must[*ec2.DescribeImagesOutput](t)(w.DescribeImages(ctx,
		&ec2.DescribeImagesInput{Owners: []string{"602401143452"}, Filters: []types.Filter{
			ec2test.Filter("name", "amazon-eks-node-al2023-x86_64-standard-1.35-v*"), ec2test.Filter("architecture", "x86_64"),
			ec2test.Filter("virtualization-type", "hvm"), ec2test.Filter("state", "available"),
		}})).Images
	if len(images) == 0 || *images[0].OwnerId != "602401143452" || *images[0].RootDeviceName != "/dev/xvda" ||
		*images[0].BlockDeviceMappings[0].Ebs.VolumeSize != 20 || images[0].ImdsSupport != "v2.0" {
		t.Errorf("images %+v", images)
	}
	if mine := awstest.Must[*ec2.DescribeImagesOutput](t)(w.DescribeImages(ctx,
		&ec2.DescribeImagesInput{Owners: []string{"self"}})).Images; len(mine) != 0 {
		t.Errorf("images of one's own: %+v", mine)
	}
}
