package ec2_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/ec2/instance"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestLifeOfAnInstance(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	key := awstest.Must[*ec2.CreateKeyPairOutput](t)(
		w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: aws.String("mine")}),
	)
	tags := []types.Tag{{Key: aws.String("Name"), Value: aws.String("node")},
		{Key: aws.String("kubernetes.io/cluster/ironman"), Value: aws.String("owned")}}
	first := runInstance(w, ec2.RunInstancesInput{
		KeyName: key.KeyName, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\ndate\n"))),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags},
			{ResourceType: types.ResourceTypeVolume, Tags: tags[:1]}},
	})
	id := *first.InstanceId
	ec2test.WantID(t, first.InstanceId, "i-")
	if first.State.Name != types.InstanceStateNamePending || *first.State.Code != 0 || first.StateReason == nil ||
		*first.StateReason.Code != "pending" {
		t.Errorf("a new instance is in the state %+v because of %+v", first.State, first.StateReason)
	}

	// It runs, with all that an instance has.
	v := waitForState(w, id, types.InstanceStateNameRunning)
	if *v.PrivateDnsName != "ip-"+strings.ReplaceAll(*v.PrivateIpAddress, ".", "-")+".eu-west-1.compute.internal" ||
		v.PublicIpAddress == nil ||
		*v.PublicDnsName != "ec2-"+strings.ReplaceAll(*v.PublicIpAddress, ".", "-")+".eu-west-1.compute.amazonaws.com" {
		t.Errorf("names %s and %s of %s and %s", *v.PrivateDnsName, aws.ToString(v.PublicDnsName), *v.PrivateIpAddress,
			aws.ToString(v.PublicIpAddress))
	}
	if v.Architecture != "x86_64" || *v.RootDeviceName != "/dev/xvda" || v.RootDeviceType != "ebs" ||
		v.VirtualizationType != "hvm" || *v.PlatformDetails != "Linux/UNIX" ||
		*v.KeyName != "mine" || len(v.Tags) != 2 || v.StateReason != nil ||
		*v.Placement.AvailabilityZone != "eu-west-1a" || *v.CpuOptions.CoreCount != 1 ||
		v.MetadataOptions.HttpTokens != "required" {
		t.Errorf("instance %+v", v)
	}
	ni := v.NetworkInterfaces[0]
	if len(v.NetworkInterfaces) != 1 || !*ni.Attachment.DeleteOnTermination || *ni.Association.IpOwnerId != "amazon" ||
		*ni.Attachment.DeviceIndex != 0 {
		t.Errorf("interface %+v", ni)
	}
	alone := ec2test.DescribeInterface(w, ni.NetworkInterfaceId)
	if *alone.Attachment.InstanceId != id || *alone.Association.PublicIp != *v.PublicIpAddress ||
		alone.Status != types.NetworkInterfaceStatusInUse {
		t.Errorf("the interface is shown as %+v", alone)
	}
	disks{w}.waitForVolume(*v.BlockDeviceMappings[0].Ebs.VolumeId, types.VolumeStateInUse)
	volumes := awstest.Must[*ec2.DescribeVolumesOutput](t)(w.DescribeVolumes(ctx,
		&ec2.DescribeVolumesInput{Filters: []types.Filter{ec2test.Filter("attachment.instance-id", id)}})).Volumes
	if len(volumes) != 1 || *volumes[0].VolumeId != *v.BlockDeviceMappings[0].Ebs.VolumeId || *volumes[0].Size != 20 ||
		volumes[0].State != "in-use" || len(volumes[0].Tags) != 1 {
		t.Errorf("volumes %+v", volumes)
	}

	// Stopped it keeps its private address and loses the public one, which a start gives anew.
	awstest.Must[*ec2.RebootInstancesOutput](t)(
		w.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}}),
	)
	stopping := awstest.Must[*ec2.StopInstancesOutput](t)(w.StopInstances(ctx,
		&ec2.StopInstancesInput{InstanceIds: []string{id}})).StoppingInstances
	if stopping[0].PreviousState.Name != "running" || stopping[0].CurrentState.Name != "stopping" {
		t.Errorf("stop: %+v", stopping[0])
	}
	stopped := waitForState(w, id, types.InstanceStateNameStopped)
	if stopped.PublicIpAddress != nil || *stopped.PrivateIpAddress != *v.PrivateIpAddress ||
		*stopped.StateReason.Code != "Client.UserInitiatedShutdown" ||
		!strings.HasPrefix(*stopped.StateTransitionReason, "User initiated (20") {
		t.Errorf("stopped: %+v, %+v, %s", stopped.PublicIpAddress, stopped.StateReason, *stopped.StateTransitionReason)
	}
	awstest.Must[*ec2.ModifyInstanceAttributeOutput](t)(w.ModifyInstanceAttribute(ctx,
		&ec2.ModifyInstanceAttributeInput{InstanceId: &id,
			InstanceType: &types.AttributeValue{Value: aws.String("m5.xlarge")}}))
	awstest.Must[*ec2.StartInstancesOutput](t)(w.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}}))
	again := waitForState(w, id, types.InstanceStateNameRunning)
	if again.PublicIpAddress == nil || again.InstanceType != "m5.xlarge" || !again.LaunchTime.After(*v.LaunchTime) ||
		again.StateReason != nil {
		t.Errorf("started again: %+v", again)
	}

	// An elastic address takes the place of the lent one, and a lent one its place again.
	elastic := w.Address()
	association := awstest.Must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx,
		&ec2.AssociateAddressInput{InstanceId: &id, AllocationId: elastic.AllocationId})).AssociationId
	if now := describeInstance(w, id); *now.PublicIpAddress != *elastic.PublicIp ||
		*now.NetworkInterfaces[0].Association.IpOwnerId != ec2test.Account {
		t.Errorf("with an elastic address: %s of %+v", *now.PublicIpAddress, now.NetworkInterfaces[0].Association)
	}
	awstest.Must[*ec2.DisassociateAddressOutput](t)(w.DisassociateAddress(ctx,
		&ec2.DisassociateAddressInput{AssociationId: association}))
	if now := describeInstance(w, id); now.PublicIpAddress == nil || *now.PublicIpAddress == *elastic.PublicIp {
		t.Errorf("without its elastic address: %s", aws.ToString(now.PublicIpAddress))
	}
	awstest.Must[*ec2.AssociateAddressOutput](t)(w.AssociateAddress(ctx, &ec2.AssociateAddressInput{InstanceId: &id,
		AllocationId: elastic.AllocationId}))

	// Terminated it loses all that goes with it, and is shown for an hour.
	kept := w.NetworkInterface(*v.SubnetId)
	awstest.Must[*ec2.AttachNetworkInterfaceOutput](t)(w.AttachNetworkInterface(ctx,
		&ec2.AttachNetworkInterfaceInput{InstanceId: &id, NetworkInterfaceId: kept.NetworkInterfaceId,
			DeviceIndex: aws.Int32(1)}))
	ended := awstest.Must[*ec2.TerminateInstancesOutput](t)(w.TerminateInstances(ctx,
		&ec2.TerminateInstancesInput{InstanceIds: []string{id}})).TerminatingInstances
	if ended[0].PreviousState.Name != "running" || ended[0].CurrentState.Name != "shutting-down" {
		t.Errorf("terminate: %+v", ended[0])
	}
	eventually.True(t, "the interface is gone", func() bool {
		_, err := w.DescribeNetworkInterfaces(ctx,
			&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*ni.NetworkInterfaceId}})
		got, _, _ := awstest.Failure(err)
		return got == "InvalidNetworkInterfaceID.NotFound"
	})
	gone := waitForState(w, id, types.InstanceStateNameTerminated)
	if len(gone.NetworkInterfaces)+len(gone.BlockDeviceMappings) != 0 || gone.PrivateIpAddress != nil ||
		len(gone.Tags) != 2 || *gone.StateReason.Code != "Client.UserInitiatedShutdown" {
		t.Errorf("terminated: %+v", gone)
	}
	eventually.True(t, "the interface that stays is available", func() bool {
		now := ec2test.DescribeInterface(w, kept.NetworkInterfaceId)
		return now.Status == types.NetworkInterfaceStatusAvailable && now.Attachment == nil
	})
	eventually.True(t, "the volumes are gone", func() bool {
		return len(awstest.Must[*ec2.DescribeVolumesOutput](t)(w.DescribeVolumes(ctx,
			&ec2.DescribeVolumesInput{})).Volumes) == 0
	})
	if a := awstest.Must[*ec2.DescribeAddressesOutput](t)(w.DescribeAddresses(ctx,
		&ec2.DescribeAddressesInput{})).Addresses[0]; a.AssociationId != nil {
		t.Errorf("the address is associated still: %+v", a)
	}
	if claims, _ := record.PublicIPs(w.Store).List(ctx, ""); len(claims) != 1 {
		t.Errorf("public addresses in use: %+v, want the elastic one", claims)
	}
	awstest.Must[*ec2.DeleteNetworkInterfaceOutput](t)(w.DeleteNetworkInterface(ctx,
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: kept.NetworkInterfaceId}))
	if free := ec2test.CountFreeAddresses(w, *v.SubnetId); free != 4091 {
		t.Errorf("%d addresses are free in the subnet at last, want 4091", free)
	}
}

func TestMachineThatCannotBoot(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	h := startHardware(w)
	h.broken = "the image could not be unpacked"
	v := runInstance(w, ec2.RunInstancesInput{})
	gone := waitForState(w, *v.InstanceId, types.InstanceStateNameTerminated)
	if *gone.StateReason.Code != "Server.InternalError" || !strings.Contains(*gone.StateReason.Message, h.broken) {
		t.Errorf("state reason %+v", gone.StateReason)
	}
	eventually.True(t, "its interface is gone", func() bool {
		return len(awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(w.Context(),
			&ec2.DescribeNetworkInterfacesInput{})).NetworkInterfaces) == 0
	})
}

func TestShutDownFromInside(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	startHardware(w)
	for behavior, want := range map[types.ShutdownBehavior]types.InstanceStateName{
		types.ShutdownBehaviorStop:      types.InstanceStateNameStopped,
		types.ShutdownBehaviorTerminate: types.InstanceStateNameTerminated,
	} {
		id := *runInstance(w, ec2.RunInstancesInput{InstanceInitiatedShutdownBehavior: behavior}).InstanceId
		waitForState(w, id, types.InstanceStateNameRunning)
		key := record.EC2Key(ec2test.Account, ec2test.Region, id)
		awstest.Must[any](t)(record.Machines(w.Store).Modify(w.Context(), key,
			func(m *record.Machine) error { m.PoweredOff = true; return nil }))
		if v := waitForState(w, id, want); *v.StateReason.Code != "Client.InstanceInitiatedShutdown" {
			t.Errorf("%s: state reason %+v", behavior, v.StateReason)
		}
	}
}

func TestSpotInterruption(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	startHardware(w)
	v := runInstance(w, ec2.RunInstancesInput{InstanceMarketOptions: &types.InstanceMarketOptionsRequest{
		MarketType: types.MarketTypeSpot}})
	id := *v.InstanceId
	if v.InstanceLifecycle != types.InstanceLifecycleTypeSpot || v.SpotInstanceRequestId == nil {
		t.Errorf("spot instance %+v", v)
	}
	waitForState(w, id, types.InstanceStateNameRunning)
	after := w.Service.InstanceLifecycle()
	began := time.Now()
	at := awstest.Must[time.Time](t)(after.Interrupt(w.Context(), id))
	if at.Before(began.Add(instance.SpotNotice-time.Second)) || at.After(time.Now().Add(instance.SpotNotice)) {
		t.Errorf("it is taken away at %s, and was asked for at %s", at, began)
	}
	if again := awstest.Must[time.Time](t)(after.Interrupt(w.Context(), id)); !again.Equal(at) {
		t.Errorf("asked for again, it is taken away at %s instead of %s", again, at)
	}
	onDemand := *runInstance(w, ec2.RunInstancesInput{}).InstanceId
	for other, want := range map[string]string{onDemand: "UnsupportedOperation",
		"i-0123456789abcdef0": "InvalidInstanceID.NotFound"} {
		if _, err := after.Interrupt(w.Context(), other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("interrupting %s: %v, want %s", other, err, want)
		}
	}
	awstest.Must[any](t)(record.Instances(w.Store).Modify(w.Context(), record.EC2Key(ec2test.Account, ec2test.Region, id),
		func(r *record.Instance) error {
			r.SpotInterruption = time.Now() // two minutes pass
			return nil
		}))
	if gone := waitForState(w, id,
		types.InstanceStateNameTerminated); *gone.StateReason.Code != "Server.SpotInstanceTermination" {
		t.Errorf("state reason %+v", gone.StateReason)
	}
}

// An hour after its end nothing is left of an instance, nor of what came with it.
func TestNothingIsLeftOfAnInstance(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	template := createLaunchTemplate(
		w,
		"karpenter",
		types.RequestLaunchTemplateData{ImageId: aws.String(image(t, "x86_64")),
			InstanceType: "m5.large"},
	)
	awstest.Must[any](t)(w.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})) // the default VPC is made
	tags := []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
		Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}}
	awstest.Must[any](t)(w.DeleteLaunchTemplate(ctx,
		&ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(createLaunchTemplate(w, "gone",
			types.RequestLaunchTemplateData{InstanceType: "m5.large"}))}))
	rows := func() (all []string) {
		for line := range strings.Lines(w.Dump()) {
			key, _, _ := strings.Cut(line, " ")
			if !strings.Contains(key, "/machines/") { // they are the hardware's
				all = append(all, key)
			}
		}
		return all
	}
	before := rows()
	v := runInstance(w, ec2.RunInstancesInput{ClientToken: aws.String("once"), TagSpecifications: tags,
		InstanceMarketOptions: &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot}})
	fleet := awstest.Must[*ec2.CreateFleetOutput](t)(w.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1)}, ClientToken: aws.String("fleet"),
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{
			{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: &template,
				Version: aws.String("1")}}},
	}))
	ids := []string{*v.InstanceId, fleet.Instances[0].InstanceIds[0]}
	for _, id := range ids {
		waitForState(w, id, types.InstanceStateNameRunning)
	}
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}))
	later := coracle.New(coracle.Options{Store: w.Store,
		Now: func() time.Time { return time.Now().Add(instance.KeepTerminated + time.Minute) }}).InstanceLifecycle()
	for _, id := range ids {
		waitForState(w, id, types.InstanceStateNameTerminated)
		eventually.True(t, id+" is gone", func() bool {
			_, gone, err := later.Reconcile(ctx, record.EC2Key(ec2test.Account, ec2test.Region, id))
			if err != nil {
				t.Fatal(err)
			}
			return gone
		})
	}
	if after := rows(); !slices.Equal(after, before) {
		t.Errorf("rows are\n%s\nand were\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}
