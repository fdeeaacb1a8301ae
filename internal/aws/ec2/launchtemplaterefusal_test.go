package ec2_test

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// launchTemplateRefusals returns the bad requests about launch templates, and about fleets, Spot requests, placement
// groups, types and images.
func launchTemplateRefusals(f *instanceFixture) []refused {
	w := f.Fixture
	ctx := f.Context()
	s := aws.String
	x86, template := f.x86, f.template
	newTemplate := func(name string, data *types.RequestLaunchTemplateData) func() error {
		return func() error {
			_, err := w.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
				LaunchTemplateData: data})
			return err
		}
	}
	fleet := func(change func(*ec2.CreateFleetInput)) func() error {
		return func() error {
			in := ec2.CreateFleetInput{Type: types.FleetTypeInstant,
				TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(
					1)},
				LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{
					{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
						LaunchTemplateId: &template, Version: s("$Latest")}}}}
			change(&in)
			_, err := w.CreateFleet(ctx, &in)
			return err
		}
	}
	requirements := func(change func(*types.InstanceRequirementsRequest)) func() error {
		return func() error {
			q := types.InstanceRequirementsRequest{VCpuCount: &types.VCpuCountRangeRequest{Min: aws.Int32(2),
				Max: aws.Int32(4)}, MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(4096)}}
			change(&q)
			_, err := w.GetInstanceTypesFromInstanceRequirements(ctx,
				&ec2.GetInstanceTypesFromInstanceRequirementsInput{
					ArchitectureTypes:   []types.ArchitectureType{"x86_64"},
					VirtualizationTypes: []types.VirtualizationType{"hvm"}, InstanceRequirements: &q,
				})
			return err
		}
	}
	return []refused{
		{"template with a strange name", newTemplate("my nodes!", &types.RequestLaunchTemplateData{ImageId: &x86}),
			"InvalidLaunchTemplateName.MalformedException", "between 3 and 128 characters"},
		{"template of a name that is taken", newTemplate("nodes", &types.RequestLaunchTemplateData{ImageId: &x86}),
			"InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use."},
		{"template with bad user data", newTemplate("data", &types.RequestLaunchTemplateData{UserData: s("#!/bin/sh")}),
			"InvalidUserData.Malformed", ""},
		{"template with strange tags", newTemplate("data",
			&types.RequestLaunchTemplateData{TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{
				{ResourceType: types.ResourceTypeVpc}}}), "InvalidParameterValue",
			"'vpc' is not a valid taggable resource type"},
		{"template with a type and requirements",
			newTemplate("data", &types.RequestLaunchTemplateData{InstanceType: "m5.large",
				InstanceRequirements: &types.InstanceRequirementsRequest{
					VCpuCount: &types.VCpuCountRangeRequest{Min: aws.Int32(2)},
					MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(4096)},
				}}), "InvalidParameterCombination", ""},
		{"templates of unknown names", func() error {
			_, err := w.DescribeLaunchTemplates(ctx,
				&ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"none"}})
			return err
		}, "InvalidLaunchTemplateName.NotFoundException",
			"At least one of the launch templates specified in the request does not exist."},
		{"version of an unknown source", func() error {
			_, err := w.CreateLaunchTemplateVersion(ctx,
				&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &template, SourceVersion: s("7"),
					LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: &x86}})
			return err
		}, "InvalidLaunchTemplateId.VersionNotFound", ""},
		{"default version unknown", func() error {
			_, err := w.ModifyLaunchTemplate(ctx, &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: &template,
				DefaultVersion: s("7")})
			return err
		}, "InvalidLaunchTemplateId.VersionNotFound", ""},
		{"versions of no template", func() error {
			_, err := w.DescribeLaunchTemplateVersions(ctx,
				&ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"1"}})
			return err
		}, "MissingParameter", ""},
		{"delete an unknown template", func() error {
			_, err := w.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: s("none")})
			return err
		}, "InvalidLaunchTemplateName.NotFoundException", "none"},

		{"fleet that is maintained", fleet(func(in *ec2.CreateFleetInput) { in.Type = "" }), "UnsupportedOperation",
			"Auto Scaling group"},
		{"fleet of nothing",
			fleet(func(in *ec2.CreateFleetInput) { in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(0) }),
			"InvalidTargetCapacitySpecification", ""},
		{"fleet with more parts than the whole",
			fleet(func(in *ec2.CreateFleetInput) { in.TargetCapacitySpecification.SpotTargetCapacity = aws.Int32(2) }),
			"InvalidTargetCapacitySpecification", ""},
		{"fleet of an unknown template", fleet(func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateId = s("lt-" + gone)
		}), "InvalidLaunchTemplateId.NotFound", ""},
		{"fleet of too many subnets", fleet(func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].Overrides = []types.FleetLaunchTemplateOverridesRequest{{
				InstanceType: types.InstanceTypeM5Large, SubnetId: s(strings.Repeat(",", 10_000))}}
		}), "InvalidParameterValue", "more than 10000 combinations of an instance type and a subnet"},
		{"fleet whose answer would be too long", fleet(func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].Overrides = []types.FleetLaunchTemplateOverridesRequest{{
				InstanceType: types.InstanceTypeM5Large, SubnetId: s(strings.Repeat(",", 9_000)),
				AvailabilityZone: s(strings.Repeat("a", 10_000))}}
		}), "InvalidParameterValue", "bytes of overrides"},
		{"fleet that tags a subnet", fleet(func(in *ec2.CreateFleetInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeSubnet}}
		}), "InvalidParameterValue", "'subnet' is not a valid taggable resource type"},
		{"fleet unknown", func() error {
			_, err := w.DescribeFleets(ctx,
				&ec2.DescribeFleetsInput{FleetIds: []string{"fleet-01234567-89ab-cdef-0123-456789abcdef"}})
			return err
		}, "InvalidFleetId.NotFound", "fleet-01234567-89ab-cdef-0123-456789abcdef"},
		{"spot request unknown", func() error {
			_, err := w.CancelSpotInstanceRequests(ctx,
				&ec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{"sir-01234567"}})
			return err
		}, "InvalidSpotInstanceRequestID.NotFound", "sir-01234567"},
		{"spot request of yesterday", func() error {
			_, err := w.RequestSpotInstances(ctx,
				&ec2.RequestSpotInstancesInput{LaunchSpecification: &types.RequestSpotLaunchSpecification{ImageId: &x86,
					InstanceType: "m5.large"}, InstanceCount: aws.Int32(0)})
			return err
		}, "InvalidParameterValue", "instanceCount"},
		{"placement group exists", func() error {
			_, err := w.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: s("rack"),
				Strategy: "spread"})
			return err
		}, "InvalidPlacementGroup.Duplicate", "The Placement Group 'rack' already exists."},
		{"placement group in use", func() error {
			_, err := w.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: s("rack")})
			return err
		}, "InvalidPlacementGroup.InUse", "rack"},
		{"too many partitions", func() error {
			_, err := w.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: s("p"),
				Strategy: "partition", PartitionCount: aws.Int32(8)})
			return err
		}, "InvalidParameterValue", "partitionCount"},
		{"instance types unknown", func() error {
			_, err := w.DescribeInstanceTypes(ctx,
				&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.large", "m5.enormous"}})
			return err
		}, "InvalidInstanceType", "The following supplied instance types do not exist: [m5.enormous]"},
		{"images unknown", func() error {
			_, err := w.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{"ami-" + gone}})
			return err
		}, "InvalidAMIID.NotFound", gone},
		{"requirements the wrong way round",
			requirements(func(q *types.InstanceRequirementsRequest) { q.VCpuCount.Min = aws.Int32(8) }),
			"InvalidParameterValue", "VCpuCount"},
		{"requirements with junk", requirements(func(q *types.InstanceRequirementsRequest) {
			q.LocalStorageTypes = []types.LocalStorageType{types.LocalStorageType(strings.Repeat("x", 1<<17))}
		}), "InvalidParameterValue", "LocalStorageType"},
		{"requirements with many values", requirements(func(q *types.InstanceRequirementsRequest) {
			q.CpuManufacturers = slices.Repeat([]types.CpuManufacturer{"intel"}, 401)
		}), "InvalidParameterValue", "401 values, and may have 400"},
		{"requirements with many types", requirements(func(q *types.InstanceRequirementsRequest) {
			q.AllowedInstanceTypes = slices.Repeat([]string{"m5.*"}, 401)
		}), "InvalidParameterValue", "length less than or equal to 400"},
		{"requirements with a long type", requirements(func(q *types.InstanceRequirementsRequest) {
			q.ExcludedInstanceTypes = []string{strings.Repeat("*", 31)}
		}), "InvalidParameterValue", "31 characters, and may have 30"},
		{"requirements that allow and exclude", requirements(func(q *types.InstanceRequirementsRequest) {
			q.AllowedInstanceTypes, q.ExcludedInstanceTypes = []string{"m*"}, []string{"c*"}
		}), "InvalidParameterCombination", ""},
	}
}
