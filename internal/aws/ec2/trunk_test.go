package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

// TestTrunksOfInstances attaches trunks to instances of types with and without trunks, and has one branch too many.
func TestTrunksOfInstances(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	trunk := func() *string {
		return must(w, w.CreateNetworkInterface, &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet,
			InterfaceType: types.NetworkInterfaceCreationTypeTrunk}).NetworkInterface.NetworkInterfaceId
	}
	attach := func(instance, trunk *string, index int32) error {
		_, err := w.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{InstanceId: instance,
			NetworkInterfaceId: trunk, DeviceIndex: &index})
		return err
	}
	one := trunk()
	burstable := runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet, InstanceType: types.InstanceTypeT3Large})
	awstest.WantCode(t, attach(burstable.InstanceId, one, 1), "InvalidParameterCombination")
	instance := runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet, InstanceType: types.InstanceTypeM6gMedium,
		ImageId: aws.String(image(t, "arm64"))})
	if err := attach(instance.InstanceId, one, 1); err != nil {
		t.Fatal(err)
	}
	for vlan := range int32(5) {
		_, err := w.AssociateTrunkInterface(ctx, &ec2.AssociateTrunkInterfaceInput{TrunkInterfaceId: one,
			BranchInterfaceId: w.NetworkInterface(subnet).NetworkInterfaceId, VlanId: aws.Int32(vlan + 1)})
		if vlan < 4 && err != nil {
			t.Fatal(err)
		}
		if vlan == 4 {
			awstest.WantCode(t, err, "AttachmentLimitExceeded")
		}
	}
	branch := ec2test.DescribeInterface(w, must(w, w.DescribeTrunkInterfaceAssociations,
		&ec2.DescribeTrunkInterfaceAssociationsInput{}).InterfaceAssociations[0].BranchInterfaceId)
	awstest.WantCode(t, attach(instance.InstanceId, branch.NetworkInterfaceId, 1), "InvalidNetworkInterface.InUse")
}
