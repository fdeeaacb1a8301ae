package ec2_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestFleet(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, s := w.Context(), aws.String
	startHardware(w)
	vpc := w.VPC("10.0.0.0/16")
	a, tiny := w.Subnet(vpc, "10.0.16.0/20", "a"), w.Subnet(vpc, "10.0.0.0/28", "b")
	template := createLaunchTemplate(w, "karpenter", types.RequestLaunchTemplateData{ImageId: s(image(t, "x86_64")),
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), Groups: []string{w.SecurityGroup(vpc, "nodes")}},
		}})
	override := func(kind, subnet string) types.FleetLaunchTemplateOverridesRequest {
		return types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(kind), SubnetId: &subnet}
	}
	request := func(target int32, overrides ...types.FleetLaunchTemplateOverridesRequest) *ec2.CreateFleetInput {
		return &ec2.CreateFleetInput{
			Type: types.FleetTypeInstant, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
				TotalTargetCapacity: &target, DefaultTargetCapacityType: "on-demand"},
			LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{
				{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
					LaunchTemplateName: s("karpenter"), Version: s("$Latest")}, Overrides: overrides}},
			OnDemandOptions: &types.OnDemandOptionsRequest{AllocationStrategy: "lowest-price"},
			TagSpecifications: []types.TagSpecification{
				{ResourceType: types.ResourceTypeInstance,
					Tags: []types.Tag{{Key: s("karpenter.sh/nodepool"), Value: s("default")}}},
				{ResourceType: types.ResourceTypeFleet,
					Tags: []types.Tag{{Key: s("karpenter.sh/nodepool"), Value: s("default")}}},
			},
		}
	}
	// The cheapest that works; what does not is said.
	one := request(1, override("m5.xlarge", a), override("m6g.medium", a), override("t3.large", a),
		override("m5.enormous", a))
	one.ClientToken = s("karpenter-1")
	out := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, one))
	if len(out.Instances) != 1 || out.Instances[0].InstanceType != "t3.large" ||
		len(out.Instances[0].InstanceIds) != 1 || out.Instances[0].Lifecycle != "on-demand" ||
		*out.Instances[0].LaunchTemplateAndOverrides.Overrides.SubnetId != a ||
		*out.Instances[0].LaunchTemplateAndOverrides.LaunchTemplateSpecification.LaunchTemplateId != template {
		t.Fatalf("launched %+v", out.Instances)
	}
	codes := map[string]string{}
	for _, e := range out.Errors {
		codes[string(e.LaunchTemplateAndOverrides.Overrides.InstanceType)] = *e.ErrorCode + ": " + *e.ErrorMessage
	}
	if len(codes) != 2 || !strings.Contains(codes["m6g.medium"], "architecture") ||
		!strings.HasPrefix(codes["m5.enormous"], "InvalidParameterValue: Invalid value 'm5.enormous'") {
		t.Errorf("errors %v", codes)
	}
	long := override("m5.xlarge", a)
	long.InstanceType = types.InstanceType("m5." + strings.Repeat("x", 10_000))
	cut := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, request(1, long))).Errors
	if len(cut) != 1 || len(*cut[0].ErrorMessage) > 520 || !strings.HasSuffix(*cut[0].ErrorMessage, "x...") {
		t.Errorf("of a long name: %.600s", *cut[0].ErrorMessage)
	}
	id := out.Instances[0].InstanceIds[0]
	v := waitForState(w, id, types.InstanceStateNameRunning)
	if tags := listTags(w, id); tags["aws:ec2:fleet-id"] != *out.FleetId || tags["karpenter.sh/nodepool"] != "default" ||
		tags["aws:ec2launchtemplate:version"] != "1" || *v.SubnetId != a {
		t.Errorf("tags %v", tags)
	}
	again := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, one))
	if *again.FleetId != *out.FleetId || again.Instances[0].InstanceIds[0] != id {
		t.Errorf("the same request again: %+v", again)
	}

	// What does not fit into one subnet goes into another.
	many := request(14, override("m5.large", tiny), override("m5.large", a))
	spread := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, many))
	if len(spread.Instances) != 2 || len(spread.Instances[0].InstanceIds) != 11 ||
		len(spread.Instances[1].InstanceIds) != 3 {
		t.Errorf("14 instances were launched as %+v with errors %+v", spread.Instances, spread.Errors)
	}
	full := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, request(1, override("m5.large", tiny))))
	if len(full.Instances) != 0 || len(full.Errors) != 1 ||
		*full.Errors[0].ErrorCode != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("in a full subnet: %+v, %+v", full.Instances, full.Errors)
	}

	// Spot, weights and requirements.
	weighted := request(10, types.FleetLaunchTemplateOverridesRequest{SubnetId: &a, WeightedCapacity: aws.Float64(4),
		InstanceRequirements: &types.InstanceRequirementsRequest{
			VCpuCount:            &types.VCpuCountRangeRequest{Min: aws.Int32(4), Max: aws.Int32(4)},
			MemoryMiB:            &types.MemoryMiBRequest{Min: aws.Int32(16384), Max: aws.Int32(16384)},
			AllowedInstanceTypes: []string{"m5*"},
		}})
	weighted.TargetCapacitySpecification.DefaultTargetCapacityType = "spot"
	weighted.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: "price-capacity-optimized"}
	heavy := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, weighted))
	if len(heavy.Instances) != 1 || len(heavy.Instances[0].InstanceIds) != 3 ||
		!strings.HasSuffix(string(heavy.Instances[0].InstanceType), ".xlarge") ||
		heavy.Instances[0].Lifecycle != "spot" {
		t.Errorf("ten of weight four: %+v, %+v", heavy.Instances, heavy.Errors)
	}
	requests := awstest.Must[*ec2.DescribeSpotInstanceRequestsOutput](t)(w.DescribeSpotInstanceRequests(ctx,
		&ec2.DescribeSpotInstanceRequestsInput{Filters: []types.Filter{ec2test.Filter("state",
			"active")}})).SpotInstanceRequests
	if len(requests) != 3 || *requests[0].Status.Code != "fulfilled" {
		t.Errorf("spot requests %+v", requests)
	}

	// Policies about launches are about those of fleets.
	w.Mu.Lock()
	w.Deny = func(_ wire.Caller, t wire.Target) bool {
		return t.Action == "ec2:RunInstances" && strings.HasSuffix(t.Resource, ":instance/*")
	}
	w.Mu.Unlock()
	denied := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, request(1, override("m5.large", a))))
	if len(denied.Instances) != 0 || len(denied.Errors) != 1 || *denied.Errors[0].ErrorCode != "UnauthorizedOperation" {
		t.Errorf("without permission: %+v, %+v", denied.Instances, denied.Errors)
	}
	w.Mu.Lock()
	w.Deny = nil
	w.Mu.Unlock()

	data := awstest.Must[*ec2.DescribeFleetsOutput](t)(w.DescribeFleets(ctx,
		&ec2.DescribeFleetsInput{FleetIds: []string{*spread.FleetId}})).Fleets[0]
	active := awstest.Must[*ec2.DescribeFleetInstancesOutput](t)(w.DescribeFleetInstances(ctx,
		&ec2.DescribeFleetInstancesInput{FleetId: spread.FleetId})).ActiveInstances
	if *data.FulfilledCapacity != 14 || data.FleetState != "active" || len(data.Instances) != 2 || len(active) != 14 {
		t.Errorf("fleet %+v with %d instances", data, len(active))
	}
	if shown := awstest.Must[*ec2.DescribeFleetsOutput](t)(w.DescribeFleets(ctx, &ec2.DescribeFleetsInput{})).Fleets; len(
		shown) != 0 {
		t.Errorf("instant fleets are shown unasked: %+v", shown)
	}
	deleted := awstest.Must[*ec2.DeleteFleetsOutput](t)(w.DeleteFleets(ctx,
		&ec2.DeleteFleetsInput{FleetIds: []string{*spread.FleetId, "fleet-01234567-89ab-cdef-0123-456789abcdef"},
			TerminateInstances: aws.Bool(true)}))
	if len(deleted.SuccessfulFleetDeletions) != 1 ||
		deleted.UnsuccessfulFleetDeletions[0].Error.Code != types.DeleteFleetErrorCodeFleetIdDoesNotExist {
		t.Errorf("deleted %+v", deleted)
	}
	waitForState(w, spread.Instances[0].InstanceIds[0], types.InstanceStateNameTerminated)
}

func listTags(w *ec2test.Fixture, id string) map[string]string {
	tags := map[string]string{}
	for _, d := range awstest.Must[*ec2.DescribeTagsOutput](w.T)(w.DescribeTags(w.Context(),
		&ec2.DescribeTagsInput{Filters: []types.Filter{ec2test.Filter("resource-id", id)}})).Tags {
		tags[*d.Key] = *d.Value
	}
	return tags
}

func TestSpotRequests(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	out := awstest.Must[*ec2.RequestSpotInstancesOutput](t)(w.RequestSpotInstances(ctx, &ec2.RequestSpotInstancesInput{
		InstanceCount: aws.Int32(2), LaunchSpecification: &types.RequestSpotLaunchSpecification{
			ImageId: aws.String(image(t, "arm64")), InstanceType: "m6g.large"},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSpotInstancesRequest,
			Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}},
	})).SpotInstanceRequests
	if len(out) != 2 || out[0].State != "active" || *out[0].Status.Code != "fulfilled" ||
		!strings.HasPrefix(*out[0].SpotInstanceRequestId, "sir-") || len(out[0].Tags) != 1 ||
		out[0].LaunchSpecification.InstanceType != "m6g.large" {
		t.Fatalf("requests %+v", out)
	}
	waitForState(w, *out[0].InstanceId, types.InstanceStateNameRunning)
	awstest.Must[any](t)(w.CancelSpotInstanceRequests(ctx,
		&ec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*out[0].SpotInstanceRequestId}}))
	awstest.Must[any](t)(
		w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*out[1].InstanceId}}),
	)
	states := map[string]string{}
	for _, r := range awstest.Must[*ec2.DescribeSpotInstanceRequestsOutput](t)(w.DescribeSpotInstanceRequests(ctx,
		&ec2.DescribeSpotInstanceRequestsInput{})).SpotInstanceRequests {
		states[*r.SpotInstanceRequestId] = string(r.State) + " " + *r.Status.Code
	}
	if states[*out[0].SpotInstanceRequestId] != "cancelled request-canceled-and-instance-running" ||
		states[*out[1].SpotInstanceRequestId] != "closed instance-terminated-by-user" {
		t.Errorf("states %v", states)
	}
	prices := awstest.Must[*ec2.DescribeSpotPriceHistoryOutput](t)(w.DescribeSpotPriceHistory(ctx,
		&ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"m5.large"},
			ProductDescriptions: []string{"Linux/UNIX"}, StartTime: aws.Time(time.Now())})).SpotPriceHistory
	if len(prices) != 3 || *prices[0].SpotPrice != "0.033600" {
		t.Errorf("prices %+v", prices)
	}
}
