package elb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	v2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/aws/elb"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = iamtest.Account
	region  = iamtest.Region
)

// fixture is Elastic Load Balancing with EC2 and IAM behind the real wire, and clients of the root user.
type fixture struct {
	*iamtest.AWS
	t       testing.TB
	classic *classic.Client
	v2      *v2.Client
	ec2     *ec2.Client
	vpc     string
	subnets map[string]string // of the default VPC, by the letter of the zone
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{AWS: iamtest.New(t), t: t, subnets: map[string]string{}}
	machines := ec2service.New(ec2service.Options{Store: f.Store})
	machines.Register(f.Mux)
	elb.Register(f.Mux, elb.Options{Store: f.Store, EC2: machines.NetworkInterfaces.Records, Now: f.Now})
	f.classic, f.v2 = f.clients(f.Root)
	f.ec2 = ec2.New(ec2.Options{Region: region, BaseEndpoint: aws.String(f.URL), HTTPClient: awsclient.HTTP(),
		RetryMaxAttempts: 1, Credentials: credentials.StaticCredentialsProvider{Value: f.Root}})
	out := awstest.Must[*ec2.DescribeSubnetsOutput](t)(f.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))
	for _, s := range out.Subnets {
		f.subnets[strings.TrimPrefix(*s.AvailabilityZone, region)] = *s.SubnetId
		f.vpc = *s.VpcId
	}
	return f
}

func (f *fixture) clients(with aws.Credentials) (*classic.Client, *v2.Client) {
	who := credentials.StaticCredentialsProvider{Value: with}
	return classic.New(classic.Options{Region: region, BaseEndpoint: aws.String(f.URL), HTTPClient: awsclient.HTTP(),
			RetryMaxAttempts: 1, Credentials: who}),
		v2.New(v2.Options{Region: region, BaseEndpoint: aws.String(f.URL), HTTPClient: awsclient.HTTP(),
			RetryMaxAttempts: 1, Credentials: who})
}

// instance records an instance in a VPC, with an address.
func (f *fixture) instance(id, vpc string) string {
	f.t.Helper()
	base := record.EC2Resource{Account: account, Region: region, ID: id, CreatedAt: time.Now()}
	if _, err := record.Instances(f.Store).Create(f.t.Context(), base.Key(), record.Instance{EC2Resource: base,
		VPCID: vpc, SubnetID: f.subnets["a"], AvailabilityZone: region + "a"}); err != nil {
		f.t.Fatal(err)
	}
	return id
}

func listener(port, instancePort int32) classictypes.Listener {
	return classictypes.Listener{Protocol: aws.String("TCP"), LoadBalancerPort: port, InstanceProtocol: aws.String("TCP"),
		InstancePort: &instancePort}
}

// newClassic makes a Classic Load Balancer in two zones.
func (f *fixture) newClassic(name string) {
	f.t.Helper()
	awstest.Must[*classic.CreateLoadBalancerOutput](f.t)(f.classic.CreateLoadBalancer(f.t.Context(),
		&classic.CreateLoadBalancerInput{LoadBalancerName: &name, Subnets: []string{f.subnets["a"], f.subnets["b"]},
			Listeners: []classictypes.Listener{listener(80, 30080)}}))
}

func (f *fixture) newNetwork(name string) v2types.LoadBalancer {
	f.t.Helper()
	return awstest.Must[*v2.CreateLoadBalancerOutput](f.t)(f.v2.CreateLoadBalancer(f.t.Context(),
		&v2.CreateLoadBalancerInput{Name: &name, Type: v2types.LoadBalancerTypeEnumNetwork,
			Subnets: []string{f.subnets["a"], f.subnets["b"]}})).LoadBalancers[0]
}

func (f *fixture) newGroup(name string) string {
	f.t.Helper()
	return *awstest.Must[*v2.CreateTargetGroupOutput](f.t)(f.v2.CreateTargetGroup(f.t.Context(),
		&v2.CreateTargetGroupInput{Name: &name, Protocol: v2types.ProtocolEnumTcp, Port: aws.Int32(30080),
			VpcId: &f.vpc})).TargetGroups[0].TargetGroupArn
}

func forward(group string) []v2types.Action {
	return []v2types.Action{{Type: v2types.ActionTypeEnumForward, TargetGroupArn: &group}}
}

func (f *fixture) newListener(balancer, group string, port int32) string {
	f.t.Helper()
	return *awstest.Must[*v2.CreateListenerOutput](f.t)(f.v2.CreateListener(f.t.Context(), &v2.CreateListenerInput{
		LoadBalancerArn: &balancer, Protocol: v2types.ProtocolEnumTcp, Port: &port,
		DefaultActions: forward(group)})).Listeners[0].ListenerArn
}

// interfaces returns how many network interfaces load balancers have.
func (f *fixture) interfaces() (n int) {
	f.t.Helper()
	out := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](f.t)(f.ec2.DescribeNetworkInterfaces(f.t.Context(),
		&ec2.DescribeNetworkInterfacesInput{}))
	for _, ni := range out.NetworkInterfaces {
		if aws.ToString(ni.RequesterId) == "amazon-elb" {
			n++
		}
	}
	return n
}

// rows returns what the store has, but the uses of access keys.
func (f *fixture) rows() map[string]any {
	f.t.Helper()
	all := map[string]any{}
	for key, value := range storetest.Rows(f.t, f.Prefix) {
		if !strings.Contains(key, "uses/") {
			all[key] = value
		}
	}
	return all
}

func failed[T any](_ T, err error) error { return err }
