package ec2_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/ec2/instance"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// fargateLaunch returns the launch of a machine for a capacity.
func fargateLaunch(subnet, capacity string) instance.FargateLaunch {
	return instance.FargateLaunch{
		Account: ec2test.Account, Region: ec2test.Region, SubnetID: subnet, KubernetesVersion: "1.35",
		Machine: record.FargateMachine{
			Capacity: capacity, ClusterID: "c-1", Cluster: "demo",
			RoleARN:    "arn:aws:iam::" + ec2test.Account + ":role/pods",
			ProfileARN: "arn:aws:eks:eu-west-1:" + ec2test.Account + ":fargateprofile/demo/fp/1",
			CPU:        250, Memory: 512, Storage: 20,
		},
		NodeConfig: func(address, nodeName, zone string) ([]byte, error) {
			return json.Marshal([]string{address, nodeName, zone})
		},
	}
}

func TestFargateMachine(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	subnet := w.Subnet(vpc, "10.0.1.0/24", "a")
	machines := w.Service.Fargate()
	launch := fargateLaunch(subnet, "19bf1ab524-15c9a381b2364958b32dba8ceaed0cbb")
	r, ni, err := machines.Launch(ctx, launch)
	if err != nil {
		t.Fatal(err)
	}
	address := ni.PrivateIPs[0]
	dns := "ip-" + strings.ReplaceAll(address, ".", "-") + "." + ec2test.Region + ".compute.internal"
	if f := r.Fargate; f == nil || f.NodeName != "fargate-"+dns || f.CPU != 250 ||
		string(f.NodeConfig) != fmt.Sprintf(`[%q,%q,%q]`, address, "fargate-"+dns, ec2test.Region+"a") {
		t.Errorf("the machine is %+v", f)
	}
	image, _ := ami.Get(ec2test.Region, r.ImageID)
	if image.KubernetesVersion != "1.35" || image.Family != ami.AL2023 || r.Wanted != types.InstanceStateNameRunning ||
		r.SubnetID != subnet || r.VPCID != vpc {
		t.Errorf("the instance is %+v of image %s", r, image.Name)
	}
	v, err := record.Volumes(w.Store).Get(ctx, diskKey(r.BlockDevices[0].VolumeID))
	if err != nil || !v.Value.Fargate || v.Value.Size < 20 || v.Value.InstanceID != r.ID || !r.BlockDevices[0].Root {
		t.Errorf("the volume is %+v, %v", v.Value, err)
	}

	// The oldest region has names of its own.
	east := w.NewClient(w.URL, "us-east-1")
	zones := awstest.Must[*ec2.DescribeSubnetsOutput](t)(east.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{}))
	old := fargateLaunch(*zones.Subnets[0].SubnetId, "0123456789-east")
	old.Region = "us-east-1"
	if r, ni, err := machines.Launch(ctx, old); err != nil ||
		r.Fargate.NodeName != "fargate-ip-"+strings.ReplaceAll(ni.PrivateIPs[0], ".", "-")+".ec2.internal" {
		t.Errorf("in us-east-1 the machine is %+v: %v", r.Fargate, err)
	}

	// The same launch again, and several at once, change nothing.
	other := launch
	other.SubnetID = w.Subnet(vpc, "10.0.2.0/24", "b")
	before := w.Dump()
	for _, again := range []instance.FargateLaunch{launch, other} {
		if same, eni, err := machines.Launch(ctx, again); err != nil || same.ID != r.ID || eni.ID != ni.ID ||
			same.Fargate.NodeName != r.Fargate.NodeName {
			t.Errorf("launched again: %s with %s, %v", same.ID, eni.ID, err)
		}
	}
	if w.Dump() != before {
		t.Error("another launch with the same capacity changed the store")
	}
	var launching sync.WaitGroup
	ids := make([]string, 4)
	for i := range ids {
		launching.Go(func() {
			r, _, err := machines.Launch(ctx, fargateLaunch(subnet, "0123456789-other"))
			if err != nil {
				t.Error(err)
			}
			ids[i] = r.ID
		})
	}
	launching.Wait()
	if ids[0] == r.ID || ids[0] != ids[1] || ids[0] != ids[2] || ids[0] != ids[3] {
		t.Errorf("launches at once made %q", ids)
	}

	for name, change := range map[string]func(*instance.FargateLaunch){
		"InvalidSubnetID.NotFound": func(l *instance.FargateLaunch) { l.SubnetID = "subnet-" + gone },
		"InvalidGroup.NotFound":    func(l *instance.FargateLaunch) { l.SecurityGroupIDs = []string{"sg-" + gone} },
		"InvalidParameterValue": func(l *instance.FargateLaunch) {
			l.NodeConfig = func(string, string, string) ([]byte, error) { return make([]byte, 64<<10+1), nil }
		},
	} {
		l := fargateLaunch(subnet, "refused")
		change(&l)
		if _, _, err := machines.Launch(ctx, l); awstest.Code(err) != name {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	for name, change := range map[string]func(*instance.FargateLaunch){
		"no capacity":   func(l *instance.FargateLaunch) { l.Machine.Capacity = "" },
		"no node image": func(l *instance.FargateLaunch) { l.KubernetesVersion = "1.2" },
		"broken": func(l *instance.FargateLaunch) {
			l.NodeConfig = func(string, string, string) ([]byte, error) { return nil, errors.New("broken") }
		},
	} {
		l := fargateLaunch(subnet, "refused")
		change(&l)
		if _, _, err := machines.Launch(ctx, l); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q in it", err, name)
		}
	}
}

// TestFargateMachineIsHidden asks everything that names instances and volumes for those of a Fargate machine.
func TestFargateMachineIsHidden(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	startHardware(w)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.1.0/24", "a")
	r, ni, err := w.Service.Fargate().Launch(ctx, fargateLaunch(subnet, "hidden"))
	if err != nil {
		t.Fatal(err)
	}
	key := record.EC2Key(ec2test.Account, ec2test.Region, r.ID)
	eventually.True(t, "the machine runs", func() bool {
		m, err := record.Machines(w.Store).Get(ctx, key)
		return err == nil && m.Value.State == types.InstanceStateNameRunning
	})
	id, ids, disk := &r.ID, []string{r.ID}, &r.BlockDevices[0].VolumeID
	disks := []string{*disk}
	eventually.True(t, "its volume is attached", func() bool {
		d, err := record.VolumeDisks(w.Store).Get(ctx, diskKey(*disk))
		return err == nil && len(d.Value.Attachments) == 1
	})
	allocation := awstest.Must[*ec2.AllocateAddressOutput](t)(w.AllocateAddress(ctx, &ec2.AllocateAddressInput{}))
	volume := awstest.Must[*ec2.CreateVolumeOutput](t)(w.CreateVolume(ctx, &ec2.CreateVolumeInput{Size: aws.Int32(1),
		AvailabilityZone: &r.AvailabilityZone})).VolumeId
	free := awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(w.CreateNetworkInterface(ctx,
		&ec2.CreateNetworkInterfaceInput{SubnetId: &subnet})).NetworkInterface.NetworkInterfaceId
	eventually.True(t, "nothing changes any more", func() bool {
		before := w.Dump()
		return before == w.Dump()
	})
	const noInstance, noVolume = "InvalidInstanceID.NotFound", "InvalidVolume.NotFound"
	tag := []types.Tag{{Key: aws.String("Name"), Value: aws.String("mine")}}
	on := &types.AttributeBooleanValue{Value: aws.Bool(true)}
	var all []refused
	refuse := func(code string, calls map[string]func() error) {
		for name, call := range calls {
			all = append(all, refused{name, call, code, ""})
		}
	}
	refuse(noInstance, map[string]func() error{
		"DescribeInstances": func() error {
			return failed(w.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}))
		},
		"DescribeInstanceStatus": func() error {
			return failed(w.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{InstanceIds: ids}))
		},
		"DescribeInstanceAttribute": func() error {
			return failed(w.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: id,
				Attribute: types.InstanceAttributeNameUserData}))
		},
		"ModifyInstanceAttribute": func() error {
			return failed(w.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: id,
				DisableApiTermination: on}))
		},
		"ModifyInstanceMetadataOptions": func() error {
			return failed(w.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{InstanceId: id,
				HttpTokens: types.HttpTokensStateOptional}))
		},
		"TerminateInstances": func() error {
			return failed(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}))
		},
		"StopInstances": func() error { return failed(w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids})) },
		"StartInstances": func() error {
			return failed(w.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids}))
		},
		"RebootInstances": func() error {
			return failed(w.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: ids}))
		},
		"MonitorInstances": func() error {
			return failed(w.MonitorInstances(ctx, &ec2.MonitorInstancesInput{InstanceIds: ids}))
		},
		"GetConsoleOutput": func() error {
			return failed(w.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: id}))
		},
		"GetLaunchTemplateData": func() error {
			return failed(w.GetLaunchTemplateData(ctx, &ec2.GetLaunchTemplateDataInput{InstanceId: id}))
		},
		"AttachVolume": func() error {
			return failed(w.AttachVolume(ctx, &ec2.AttachVolumeInput{InstanceId: id, VolumeId: volume,
				Device: aws.String("/dev/xvdf")}))
		},
		"AttachNetworkInterface": func() error {
			return failed(w.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{InstanceId: id,
				NetworkInterfaceId: free, DeviceIndex: aws.Int32(1)}))
		},
		"AssociateAddress": func() error {
			return failed(w.AssociateAddress(ctx, &ec2.AssociateAddressInput{InstanceId: id,
				AllocationId: allocation.AllocationId}))
		},
		"CreateSnapshots": func() error {
			return failed(w.CreateSnapshots(ctx, &ec2.CreateSnapshotsInput{
				InstanceSpecification: &types.InstanceSpecification{InstanceId: id}}))
		},
		"CreateTags": func() error {
			return failed(w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: tag}))
		},
		"DeleteTags": func() error {
			return failed(w.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: ids, Tags: tag}))
		},
		"AssociateIamInstanceProfile": func() error {
			return failed(w.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{InstanceId: id,
				IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: aws.String("nodes")}}))
		},
		"DescribeInstanceCreditSpecifications": func() error {
			return failed(w.DescribeInstanceCreditSpecifications(ctx,
				&ec2.DescribeInstanceCreditSpecificationsInput{InstanceIds: ids}))
		},
	})
	refuse(noVolume, map[string]func() error{
		"DescribeVolumes": func() error {
			return failed(w.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: disks}))
		},
		"DescribeVolumeStatus": func() error {
			return failed(w.DescribeVolumeStatus(ctx, &ec2.DescribeVolumeStatusInput{VolumeIds: disks}))
		},
		"DescribeVolumeAttribute": func() error {
			return failed(w.DescribeVolumeAttribute(ctx, &ec2.DescribeVolumeAttributeInput{VolumeId: disk,
				Attribute: types.VolumeAttributeNameAutoEnableIO}))
		},
		"ModifyVolumeAttribute": func() error {
			return failed(w.ModifyVolumeAttribute(ctx, &ec2.ModifyVolumeAttributeInput{VolumeId: disk, AutoEnableIO: on}))
		},
		"ModifyVolume": func() error {
			return failed(w.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: disk, Size: aws.Int32(100)}))
		},
		"DetachVolume": func() error { return failed(w.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: disk})) },
		"DeleteVolume": func() error { return failed(w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: disk})) },
		"CreateSnapshot": func() error {
			return failed(w.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: disk}))
		},
		"CopyVolumes": func() error {
			return failed(w.CopyVolumes(ctx, &ec2.CopyVolumesInput{SourceVolumeId: disk}))
		},
		"CreateTags of the volume": func() error {
			return failed(w.CreateTags(ctx, &ec2.CreateTagsInput{Resources: disks, Tags: tag}))
		},
	})
	refuse("AuthFailure", map[string]func() error{
		"DeleteNetworkInterface": func() error {
			return failed(w.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &ni.ID}))
		},
		"ModifyNetworkInterfaceAttribute": func() error {
			return failed(w.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
				NetworkInterfaceId: &ni.ID, SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)}}))
		},
		"AssignPrivateIpAddresses": func() error {
			return failed(w.AssignPrivateIpAddresses(ctx, &ec2.AssignPrivateIpAddressesInput{
				NetworkInterfaceId: &ni.ID, SecondaryPrivateIpAddressCount: aws.Int32(1)}))
		},
		"AssociateAddress with the network interface": func() error {
			return failed(w.AssociateAddress(ctx, &ec2.AssociateAddressInput{NetworkInterfaceId: &ni.ID,
				AllocationId: allocation.AllocationId}))
		},
	})
	refuse("OperationNotPermitted", map[string]func() error{
		"DetachNetworkInterface": func() error {
			return failed(w.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{
				AttachmentId: &ni.Attachment.ID, Force: aws.Bool(true)}))
		},
	})
	checkRefusals(w, t, all)

	if got := awstest.Must[*ec2.DescribeInstancesOutput](t)(w.DescribeInstances(ctx,
		&ec2.DescribeInstancesInput{})); len(got.Reservations) != 0 {
		t.Errorf("instances are %+v", got.Reservations)
	}
	if got := awstest.Must[*ec2.DescribeInstanceStatusOutput](t)(w.DescribeInstanceStatus(ctx,
		&ec2.DescribeInstanceStatusInput{IncludeAllInstances: aws.Bool(true)})); len(got.InstanceStatuses) != 0 {
		t.Errorf("statuses are %+v", got.InstanceStatuses)
	}
	if got := awstest.Must[*ec2.DescribeVolumesOutput](t)(w.DescribeVolumes(ctx,
		&ec2.DescribeVolumesInput{})); len(got.Volumes) != 1 || *got.Volumes[0].VolumeId != *volume {
		t.Errorf("volumes are %+v", got.Volumes)
	}
	if got := awstest.Must[*ec2.DescribeVolumeStatusOutput](t)(w.DescribeVolumeStatus(ctx,
		&ec2.DescribeVolumeStatusInput{})); len(got.VolumeStatuses) != 1 {
		t.Errorf("statuses of volumes are %+v", got.VolumeStatuses)
	}
	if err := w.Service.Fargate().Terminate(ctx, ec2test.Account, ec2test.Region, *runInstance(w,
		ec2.RunInstancesInput{}).InstanceId); awstest.Code(err) != noInstance {
		t.Errorf("Fargate terminates an instance of the account: %v", err)
	}
}

// TestFargateNetworkInterface finds the network interface as the cloud controller manager does.
// https://github.com/kubernetes/cloud-provider-aws/blob/master/pkg/providers/v1/variant/fargate/fargate.go
func TestFargateNetworkInterface(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	vpc := w.VPC("10.0.0.0/16")
	awstest.Must[any](t)(w.ModifyVpcAttribute(ctx, &ec2.ModifyVpcAttributeInput{VpcId: &vpc,
		EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	subnet := w.Subnet(vpc, "10.0.1.0/24", "a")
	group := *awstest.Must[*ec2.CreateSecurityGroupOutput](t)(w.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		VpcId: &vpc, GroupName: aws.String("cluster"), Description: aws.String("cluster")})).GroupId
	launch := fargateLaunch(subnet, "found")
	launch.SecurityGroupIDs = []string{group}
	r, ni, err := w.Service.Fargate().Launch(ctx, launch)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"addresses.private-ip-address": ni.PrivateIPs[0],
		"private-ip-address":           ni.PrivateIPs[0],
		"private-dns-name":             strings.TrimPrefix(r.Fargate.NodeName, "fargate-"),
		"requester-managed":            "true",
	} {
		found := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(ctx,
			&ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{
				{Name: aws.String("attachment.status"), Values: []string{"attached"}},
				{Name: aws.String("vpc-id"), Values: []string{vpc}},
				{Name: &name, Values: []string{value}},
			}})).NetworkInterfaces
		if len(found) != 1 {
			t.Fatalf("by %s: %+v", name, found)
		}
		v := found[0]
		a := v.Attachment
		if *v.NetworkInterfaceId != ni.ID || !*v.RequesterManaged || v.Status != types.NetworkInterfaceStatusInUse ||
			v.InterfaceType != types.NetworkInterfaceTypeInterface || len(v.Groups) != 1 || *v.Groups[0].GroupId != group ||
			*v.AvailabilityZone != ec2test.Region+"a" {
			t.Errorf("it is %+v", v)
		}
		if a.InstanceId != nil || *a.DeviceIndex != 0 || a.Status != types.AttachmentStatusAttached ||
			*a.AttachmentId == "" || *a.InstanceOwnerId == ec2test.Account {
			t.Errorf("its attachment is %+v", a)
		}
	}
	if found := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.DescribeNetworkInterfaces(ctx,
		&ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{{Name: aws.String("attachment.instance-id"),
			Values: []string{r.ID}}}})).NetworkInterfaces; len(found) != 0 {
		t.Errorf("by its instance: %+v", found)
	}
	wantRefusal(t, "delete the group", failed(w.DeleteSecurityGroup(ctx,
		&ec2.DeleteSecurityGroupInput{GroupId: &group})), "DependencyViolation")
	wantRefusal(t, "delete the subnet", failed(w.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &subnet})),
		"DependencyViolation")
}

// TestFargateTermination fills a subnet with machines, and ends them: nothing is left.
func TestFargateTermination(t *testing.T) {
	t.Parallel()
	for name, fixture := range map[string]func(testing.TB) *ec2test.Fixture{"disks": ec2test.New,
		"diskless": ec2test.NewDiskless} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fixture(t)
			ctx := w.Context()
			vpc := w.VPC("10.0.0.0/16")
			subnet := w.Subnet(vpc, "10.0.1.0/28", "a") // of 16 addresses, 5 of them Amazon's
			startHardware(w)
			machines := w.Service.Fargate()
			var ids []string
			for n := 0; ; n++ {
				r, _, err := machines.Launch(ctx, fargateLaunch(subnet, fmt.Sprint("capacity-", n)))
				if awstest.Code(err) == "InsufficientFreeAddressesInSubnet" {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, r.ID)
			}
			if len(ids) != 11 {
				t.Errorf("%d machines had addresses", len(ids))
			}
			for _, id := range ids {
				for range 2 {
					if err := machines.Terminate(ctx, ec2test.Account, ec2test.Region, id); err != nil {
						t.Fatal(err)
					}
				}
			}
			eventually.True(t, "nothing is left", func() bool {
				return isEmpty(ctx, t, record.Instances(w.Store)) && isEmpty(ctx, t, record.Volumes(w.Store)) &&
					isEmpty(ctx, t, record.NetworkInterfaces(w.Store)) && isEmpty(ctx, t, record.EC2ClientTokens(w.Store))
			})
			if err := machines.Terminate(ctx, ec2test.Account, ec2test.Region, ids[0]); err != nil {
				t.Errorf("terminate what is gone: %v", err)
			}
			if after := w.Dump(); strings.Contains(after, "capacity-") {
				t.Error("a capacity is left in the store")
			}
			// A capacity may be launched again once nothing is left of it.
			if r, _, err := machines.Launch(ctx, fargateLaunch(subnet, "capacity-0")); err != nil || r.ID == ids[0] {
				t.Errorf("launched again: %s, %v", r.ID, err)
			}
		})
	}
}

// isEmpty reports whether a table has no rows.
func isEmpty[R any](ctx context.Context, t *testing.T, table store.Table[R]) bool {
	t.Helper()
	rows, err := table.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	return len(rows) == 0
}
