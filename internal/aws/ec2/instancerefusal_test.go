package ec2_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// instanceFixture is a VPC with instances in several states, and launch templates.
type instanceFixture struct {
	*ec2test.Fixture
	subnet, second, foreign, tiny    string // subnets
	group, foreignGroup              string // security groups
	x86, arm                         string // images
	template, ported, anyType        string // launch templates
	id, guarded, ended, volume, full string
	spot                             types.Instance
	placed                           types.Instance
	primary                          types.InstanceNetworkInterface
	loose                            types.NetworkInterface
	far                              types.NetworkInterface
	association                      *string
}

func newInstanceFixture(t *testing.T) *instanceFixture {
	t.Helper()
	w := ec2test.New(t)
	startHardware(w)
	ctx := w.Context()
	vpc, other := w.VPC("10.0.0.0/16"), w.VPC("10.1.0.0/16")
	subnet, second, foreign := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.2.0/24", "b"), w.Subnet(other,
		"10.1.0.0/24", "a")
	tiny := w.Subnet(vpc, "10.0.1.0/28", "a")
	group, foreignGroup := w.SecurityGroup(vpc, "nodes"), w.SecurityGroup(other, "nodes")
	createInstanceProfile(w, "nodes", "node-role")
	createInstanceProfile(w, "empty", "")
	x86, arm := image(t, "x86_64"), image(t, "arm64")
	s := aws.String
	template := createLaunchTemplate(w, "nodes", types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large"})
	ported := createLaunchTemplate(w, "ported", types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large",
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: aws.Int32(0), Groups: []string{group}},
		}})
	anyType := createLaunchTemplate(w, "any-type", types.RequestLaunchTemplateData{ImageId: &x86,
		InstanceRequirements: &types.InstanceRequirementsRequest{
			VCpuCount: &types.VCpuCountRangeRequest{Min: aws.Int32(2)},
			MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(4096)},
		}})
	awstest.Must[*ec2.CreatePlacementGroupOutput](t)(w.CreatePlacementGroup(ctx,
		&ec2.CreatePlacementGroupInput{GroupName: s("rack"), Strategy: types.PlacementStrategySpread}))

	id := *runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet}).InstanceId
	guarded := *runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet, DisableApiTermination: aws.Bool(true),
		DisableApiStop: aws.Bool(true)}).InstanceId
	spot := runInstance(
		w,
		ec2.RunInstancesInput{SubnetId: &subnet, InstanceMarketOptions: &types.InstanceMarketOptionsRequest{
			MarketType: types.MarketTypeSpot}},
	)
	ended := *runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet}).InstanceId
	placed := runInstance(
		w,
		ec2.RunInstancesInput{SubnetId: &subnet, IamInstanceProfile: &types.IamInstanceProfileSpecification{
			Name: s("nodes")}, Placement: &types.Placement{GroupName: s("rack")}, ClientToken: s("seen")},
	)
	for _, i := range []string{id, guarded, *spot.InstanceId, ended, *placed.InstanceId} {
		waitForState(w, i, types.InstanceStateNameRunning)
	}
	awstest.Must[any](t)(w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{ended}}))
	waitForState(w, ended, types.InstanceStateNameTerminated)
	eventually.True(t, "the terminated instance holds nothing", func() bool {
		row, _ := record.Instances(w.Store).Get(ctx, record.EC2Key(ec2test.Account, ec2test.Region, ended))
		return len(row.Value.BlockDevices) == 0
	})
	primary := describeInstance(w, id).NetworkInterfaces[0]
	loose, far := w.NetworkInterface(subnet), w.NetworkInterface(second)
	volume := *describeInstance(w, id).BlockDeviceMappings[0].Ebs.VolumeId
	association := awstest.Must[*ec2.DescribeIamInstanceProfileAssociationsOutput](t)(
		w.DescribeIamInstanceProfileAssociations(
			ctx, &ec2.DescribeIamInstanceProfileAssociationsInput{})).IamInstanceProfileAssociations[0].AssociationId
	// An interface of an instance with as many addresses as m5.large has: ten.
	full := *awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(w.CreateNetworkInterface(ctx,
		&ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			SecondaryPrivateIpAddressCount: aws.Int32(10)})).NetworkInterface.NetworkInterfaceId
	return &instanceFixture{
		Fixture: w, subnet: subnet, second: second, foreign: foreign, tiny: tiny, group: group, foreignGroup: foreignGroup,
		x86: x86, arm: arm, template: template, ported: ported, anyType: anyType, id: id, guarded: guarded, ended: ended,
		volume: volume, full: full, spot: spot, placed: placed, primary: primary, loose: loose, far: far,
		association: association,
	}
}

// TestRefusedLaunches sends requests about instances that AWS refuses, and checks code, message and that nothing
// changed.
func TestRefusedLaunches(t *testing.T) {
	t.Parallel()
	f := newInstanceFixture(t)
	checkRefusals(f.Fixture, t, slices.Concat(launchRefusals(f), instanceRefusals(f), launchTemplateRefusals(f)))
}

// instanceRefusals returns the bad requests about instances that exist, and about their interfaces and volumes.
func instanceRefusals(f *instanceFixture) []refused {
	w := f.Fixture
	ctx := f.Context()
	s := aws.String
	group, foreignGroup, id, guarded, spot := f.group, f.foreignGroup, f.id, f.guarded, f.spot
	ended, placed, primary, loose, far := f.ended, f.placed, f.primary, f.loose, f.far
	volume, association, full := f.volume, f.association, f.full
	describe := func(in ec2.DescribeInstancesInput) func() error {
		return func() error { _, err := w.DescribeInstances(ctx, &in); return err }
	}
	modify := func(in ec2.ModifyInstanceAttributeInput) func() error {
		return func() error { _, err := w.ModifyInstanceAttribute(ctx, &in); return err }
	}
	attach := func(instance, ni string, index int32) func() error {
		return func() error {
			_, err := w.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{InstanceId: &instance,
				NetworkInterfaceId: &ni, DeviceIndex: &index})
			return err
		}
	}
	return []refused{
		{"instance unknown", describe(ec2.DescribeInstancesInput{InstanceIds: []string{"i-" + gone}}),
			"InvalidInstanceID.NotFound", "The instance ID 'i-0123456789abcdef0' does not exist"},
		{"two instances unknown", describe(ec2.DescribeInstancesInput{InstanceIds: []string{"i-" + gone, "i-00000000",
			id}}), "InvalidInstanceID.NotFound", "The instance IDs 'i-00000000, i-0123456789abcdef0' do not exist"},
		{"instance id malformed", describe(ec2.DescribeInstancesInput{InstanceIds: []string{"web"}}),
			"InvalidInstanceID.Malformed", `Invalid id: "web" (expecting "i-...")`},
		{"instance filter unknown", describe(ec2.DescribeInstancesInput{Filters: []types.Filter{ec2test.Filter("color",
			"blue")}}), "InvalidParameterValue", "The filter 'color' is invalid"},
		{"page of named instances", describe(ec2.DescribeInstancesInput{InstanceIds: []string{id},
			MaxResults: aws.Int32(5)}), "InvalidParameterCombination", "instancesSet"},
		{"page too small", describe(ec2.DescribeInstancesInput{MaxResults: aws.Int32(1)}), "InvalidParameterValue",
			"maxResults"},
		{"terminate none", func() error {
			_, err := w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{}})
			return err
		}, "MissingParameter", "InstanceId"},
		{"terminate an unknown one and another", func() error {
			_, err := w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id, "i-" + gone}})
			return err
		}, "InvalidInstanceID.NotFound", gone},
		{"terminate a protected one and another", func() error {
			_, err := w.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id, guarded}})
			return err
		}, "OperationNotPermitted", "The instance '" + guarded +
			"' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."},
		{"stop a protected one", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{guarded}})
			return err
		}, "OperationNotPermitted", "'disableApiStop'"},
		{"stop a spot instance", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{*spot.InstanceId}})
			return err
		}, "UnsupportedOperation", "You can't stop the Spot Instance '" + *spot.InstanceId + "'"},
		{"hibernate", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id},
				Hibernate: aws.Bool(true)})
			return err
		}, "UnsupportedHibernationConfiguration", ""},
		{"stop a terminated one", func() error {
			_, err := w.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{ended}})
			return err
		}, "IncorrectInstanceState", "The instance '" + ended + "' is not in a state from which it can be stopped."},
		{"start a terminated one", func() error {
			_, err := w.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{ended}})
			return err
		}, "IncorrectInstanceState", "The instance '" + ended + "' is not in a state from which it can be started."},
		{"reboot a terminated one", func() error {
			_, err := w.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{ended}})
			return err
		}, "IncorrectInstanceState", ended},
		{"modify a terminated one", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &ended,
			DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(true)}}), "IncorrectInstanceState",
			ended},
		{"console of an unknown one", func() error {
			_, err := w.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: s("i-" + gone)})
			return err
		}, "InvalidInstanceID.NotFound", gone},

		{"no attribute", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id}), "MissingParameter", "attribute"},
		{"two attributes", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id, Groups: []string{group},
			EbsOptimized: &types.AttributeBooleanValue{Value: aws.Bool(true)}}), "InvalidParameterCombination", ""},
		{"type of a running instance", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
			InstanceType: &types.AttributeValue{Value: s("m5.xlarge")}}), "IncorrectInstanceState", "The instance '" +
			id + "' is not in the 'stopped' state."},
		{"user data of a running instance",
			modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
				UserData: &types.SecureBlobAttributeValue{Value: []byte("x")}}), "IncorrectInstanceState", ""},
		{"attribute by an unknown name", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id, Attribute: "color",
			Value: s("blue")}), "InvalidParameterValue", "color"},
		{"groups of another VPC", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
			Groups: []string{foreignGroup}}), "InvalidParameter", "different networks"},
		{"device unknown", modify(ec2.ModifyInstanceAttributeInput{InstanceId: &id,
			BlockDeviceMappings: []types.InstanceBlockDeviceMappingSpecification{{DeviceName: s("/dev/xvdz")}}}),
			"InvalidInstanceAttributeValue", "No device is currently mapped at /dev/xvdz"},
		{"attribute shown that is none", func() error {
			_, err := w.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: &id,
				Attribute: "color"})
			return err
		}, "InvalidParameterValue", "color"},
		{"hops", func() error {
			_, err := w.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{InstanceId: &id,
				HttpPutResponseHopLimit: aws.Int32(0)})
			return err
		}, "InvalidParameterValue", "HttpPutResponseHopLimit"},
		{"hostname of a running instance", func() error {
			_, err := w.ModifyPrivateDnsNameOptions(ctx, &ec2.ModifyPrivateDnsNameOptionsInput{InstanceId: &id,
				PrivateDnsHostnameType: types.HostnameTypeResourceName})
			return err
		}, "IncorrectInstanceState", ""},
		{"profile of an instance that has one", func() error {
			_, err := w.AssociateIamInstanceProfile(ctx,
				&ec2.AssociateIamInstanceProfileInput{InstanceId: placed.InstanceId,
					IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: s("nodes")}})
			return err
		}, "IncorrectState", "There is an existing association for instance " + *placed.InstanceId},
		{"profile association unknown", func() error {
			_, err := w.DisassociateIamInstanceProfile(ctx,
				&ec2.DisassociateIamInstanceProfileInput{AssociationId: s("iip-assoc-" + gone)})
			return err
		}, "InvalidAssociationID.NotFound", gone},
		{"profile replaced by none", func() error {
			_, err := w.ReplaceIamInstanceProfileAssociation(ctx,
				&ec2.ReplaceIamInstanceProfileAssociationInput{AssociationId: association,
					IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: s("none")}})
			return err
		}, "InvalidParameterValue", "Invalid IAM Instance Profile name"},
		{"credits of an instance without", func() error {
			_, err := w.DescribeInstanceCreditSpecifications(ctx,
				&ec2.DescribeInstanceCreditSpecificationsInput{InstanceIds: []string{id}})
			return err
		}, "InvalidParameterCombination", "credit"},

		{"attach to an unknown instance", attach("i-"+gone, *loose.NetworkInterfaceId, 1), "InvalidInstanceID.NotFound",
			gone},
		{"attach to a terminated instance", attach(ended, *loose.NetworkInterfaceId, 1), "IncorrectInstanceState",
			ended},
		{"attach what is attached", attach(id, *primary.NetworkInterfaceId, 1), "InvalidNetworkInterface.InUse", ""},
		{"attach in another zone", attach(id, *far.NetworkInterfaceId, 1), "InvalidParameterCombination",
			"You may not attach a network interface to an instance if they are not in the same availability zone"},
		{"attach where something is", attach(id, *loose.NetworkInterfaceId, 0), "InvalidParameterValue", "Instance '" +
			id + "' already has an interface attached at device index '0'."},
		{"attach with too many addresses", attach(id, full, 1), "PrivateIpAddressLimitExceeded",
			"Number of private addresses will exceed limit."},
		{"more addresses than the type has, later", func() error {
			_, err := w.AssignPrivateIpAddresses(ctx,
				&ec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: primary.NetworkInterfaceId,
					SecondaryPrivateIpAddressCount: aws.Int32(10)})
			return err
		}, "PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit."},
		{"detach the primary interface", func() error {
			_, err := w.DetachNetworkInterface(ctx,
				&ec2.DetachNetworkInterfaceInput{AttachmentId: primary.Attachment.AttachmentId})
			return err
		}, "OperationNotPermitted",
			"The network interface at device index 0 and networkCard index 0 cannot be detached."},
		{"delete an interface in use", func() error {
			_, err := w.DeleteNetworkInterface(ctx,
				&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: primary.NetworkInterfaceId})
			return err
		}, "InvalidParameterValue", "is currently in use."},
		{"volume unknown", func() error {
			_, err := w.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{"vol-" + gone}})
			return err
		}, "InvalidVolume.NotFound", "The volume 'vol-0123456789abcdef0' does not exist."},
		{"delete a volume in use", func() error {
			_,
				err := w.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &volume})
			return err
		}, "VolumeInUse", "is currently attached to " + id},
	}
}
