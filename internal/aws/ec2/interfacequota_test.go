package ec2_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestNetworkInterfacesAreBounded fills a region with network interfaces, however they come to be.
func TestNetworkInterfacesAreBounded(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	vpc := w.VPC("10.0.0.0/16")
	subnet := w.Subnet(vpc, "10.0.0.0/24", "a")
	last := w.NetworkInterface(subnet)
	enis := record.NetworkInterfaces(w.Store)
	ops := make([]store.Op, 0, 100)
	for i := 1; i < resource.MaxNetworkInterfaces; i++ {
		row := record.NetworkInterface{EC2Resource: record.EC2Resource{Account: ec2test.Account, Region: ec2test.Region,
			ID: fmt.Sprintf("eni-%d", i)}}
		if ops = append(ops, enis.PutOp(row.Key(), row)); len(ops) == cap(ops) || i == resource.MaxNetworkInterfaces-1 {
			if err := w.Store.Txn(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
			ops = ops[:0]
		}
	}
	create := func() error {
		_, err := w.CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: &subnet})
		return err
	}
	for name, call := range map[string]func() error{
		"CreateNetworkInterface": create,
		"CreateNatGateway": func() error {
			_, err := w.CreateNatGateway(t.Context(), &ec2.CreateNatGatewayInput{SubnetId: &subnet,
				ConnectivityType: types.ConnectivityTypePrivate})
			return err
		},
		"CreateVpcEndpoint": func() error {
			_, err := w.CreateVpcEndpoint(t.Context(), &ec2.CreateVpcEndpointInput{VpcId: &vpc,
				VpcEndpointType: types.VpcEndpointTypeInterface, SubnetIds: []string{subnet},
				PrivateDnsEnabled: aws.Bool(false), ServiceName: aws.String("com.amazonaws." + ec2test.Region + ".ec2")})
			return err
		},
		"RunInstances": func() error {
			_, err := w.RunInstances(t.Context(), &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
				ImageId: aws.String(image(t, "x86_64")), InstanceType: types.InstanceTypeM5Large, SubnetId: &subnet})
			return err
		},
	} {
		if err := call(); awstest.Code(err) != "NetworkInterfaceLimitExceeded" ||
			!strings.Contains(err.Error(), "delete some") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.DeleteNetworkInterface(t.Context(), &ec2.DeleteNetworkInterfaceInput{
		NetworkInterfaceId: last.NetworkInterfaceId}); err != nil {
		t.Fatal(err)
	}
	if err := create(); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}

// TestNATGatewaysAreBounded fills a region with NAT gateways, each of which is a network namespace of the host.
func TestNATGatewaysAreBounded(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	create := func() (*ec2.CreateNatGatewayOutput, error) {
		return w.CreateNatGateway(t.Context(), &ec2.CreateNatGatewayInput{SubnetId: &subnet,
			ConnectivityType: types.ConnectivityTypePrivate})
	}
	last := awstest.Must[*ec2.CreateNatGatewayOutput](t)(create()).NatGateway.NatGatewayId
	for i := 1; i < resource.MaxNATGateways; i++ {
		row := record.NATGateway{EC2Resource: record.EC2Resource{Account: ec2test.Account, Region: ec2test.Region,
			ID: fmt.Sprintf("nat-%d", i)}}
		if _, err := record.NATGateways(w.Store).Create(t.Context(), row.Key(), row); err != nil {
			t.Fatal(err)
		}
	}
	_, err := create()
	awstest.WantCode(t, err, "NatGatewayLimitExceeded")
	awstest.Must[*ec2.DeleteNatGatewayOutput](t)(w.DeleteNatGateway(t.Context(),
		&ec2.DeleteNatGatewayInput{NatGatewayId: last}))
	awstest.Must[*ec2.CreateNatGatewayOutput](t)(create())
}
