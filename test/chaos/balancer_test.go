//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// balancers are load balancers of a daemon that dies again and again: "back" answers by itself, and is the target of
// "front", an Application, and "stream", a Network Load Balancer.
type balancers struct {
	*fleet
	elb     *v2.Client
	logs    *cloudwatchlogs.Client
	subnets []string
	group   string // the security group
	vpc     string
	arns    map[string]string // of load balancers
	names   map[string]string // of DNS
	targets map[string]string // ARNs of target groups
}

// call makes a call that may be made again: codes are those of an error that means that it was carried out.
func (b *balancers) call(what string, call func(context.Context) error, codes ...string) {
	b.t.Helper()
	b.do(what, call, func(err error) bool {
		var api smithy.APIError
		for _, code := range codes {
			if errors.As(err, &api) && api.ErrorCode() == code {
				return true
			}
		}
		return false
	})
}

// create creates a load balancer with a listener.
func (b *balancers) create(name string, kind types.LoadBalancerTypeEnum, action types.Action) {
	b.t.Helper()
	in := &v2.CreateLoadBalancerInput{Name: &name, Type: kind, Subnets: b.subnets,
		Scheme: types.LoadBalancerSchemeEnumInternetFacing}
	protocol := types.ProtocolEnumTcp
	if kind == types.LoadBalancerTypeEnumApplication {
		in.SecurityGroups, protocol = []string{b.group}, types.ProtocolEnumHttp
	}
	b.call("create "+name, func(ctx context.Context) error {
		_, err := b.elb.CreateLoadBalancer(ctx, in)
		return err
	}, "DuplicateLoadBalancerName")
	b.call("describe "+name, func(ctx context.Context) error {
		out, err := b.elb.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{Names: []string{name}})
		if err == nil {
			b.arns[name], b.names[name] = *out.LoadBalancers[0].LoadBalancerArn, *out.LoadBalancers[0].DNSName
		}
		return err
	})
	b.call("create a listener of "+name, func(ctx context.Context) error {
		_, err := b.elb.CreateListener(ctx, &v2.CreateListenerInput{LoadBalancerArn: aws.String(b.arns[name]),
			Protocol: protocol, Port: aws.Int32(80), DefaultActions: []types.Action{action}})
		return err
	}, "DuplicateListener")
}

// answers waits until a load balancer answers.
func (b *balancers) answers(name string) {
	b.t.Helper()
	b.eventually(name+" answers", func() error { return ask(b.names[name]) })
}

// ask makes a request with a connection of its own.
func ask(host string) error {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}}
	answer, err := client.Get("http://" + host + "/")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && string(text) != "back" {
		err = fmt.Errorf("%s: %q", answer.Status, text)
	}
	return err
}

// targetGroup creates a target group of addresses.
func (b *balancers) targetGroup(name string, protocol types.ProtocolEnum) {
	b.t.Helper()
	b.call("create the target group "+name, func(ctx context.Context) error {
		out, err := b.elb.CreateTargetGroup(ctx, &v2.CreateTargetGroupInput{Name: &name, Protocol: protocol,
			Port: aws.Int32(80), VpcId: &b.vpc, TargetType: types.TargetTypeEnumIp, HealthyThresholdCount: aws.Int32(2),
			HealthCheckIntervalSeconds: aws.Int32(5), HealthCheckTimeoutSeconds: aws.Int32(2)})
		if err == nil {
			b.targets[name] = *out.TargetGroups[0].TargetGroupArn
		}
		return err
	})
	b.call("let deregistered targets go", func(ctx context.Context) error {
		_, err := b.elb.ModifyTargetGroupAttributes(ctx, &v2.ModifyTargetGroupAttributesInput{
			TargetGroupArn: aws.String(b.targets[name]), Attributes: []types.TargetGroupAttribute{{
				Key: aws.String("deregistration_delay.timeout_seconds"), Value: aws.String("0")}}})
		return err
	})
}

// healthy waits for as many healthy targets of a target group.
func (b *balancers) healthy(group string, want int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%s has %d healthy targets", group, want), func() error {
		out, err := b.elb.DescribeTargetHealth(b.t.Context(), &v2.DescribeTargetHealthInput{
			TargetGroupArn: aws.String(b.targets[group])})
		if err != nil {
			return err
		}
		n := 0
		for _, d := range out.TargetHealthDescriptions {
			if d.TargetHealth.State == types.TargetHealthStateEnumHealthy {
				n++
			}
		}
		if n != want || want == 0 && len(out.TargetHealthDescriptions) > 0 {
			return fmt.Errorf("%d of %d are", n, len(out.TargetHealthDescriptions))
		}
		return nil
	})
}

// register registers targets with both target groups.
func (b *balancers) register(targets []types.TargetDescription) {
	b.t.Helper()
	for _, group := range []string{"front", "stream"} {
		b.call("register targets", func(ctx context.Context) error {
			_, err := b.elb.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: aws.String(b.targets[group]),
				Targets: targets})
			return err
		})
		b.healthy(group, len(targets))
		b.answers(group)
	}
}

// deregister deregisters targets from both target groups, which have so many others.
func (b *balancers) deregister(targets []types.TargetDescription, others int) {
	b.t.Helper()
	for _, group := range []string{"front", "stream"} {
		b.call("deregister a target", func(ctx context.Context) error {
			_, err := b.elb.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{TargetGroupArn: aws.String(b.targets[group]),
				Targets: targets})
			return err
		})
		b.healthy(group, others)
		b.answers(group)
	}
}

// again undoes and does something while there are points at which the daemon has not died: of two that it comes to at
// once it dies at one, and may have nothing to do for the other then.
func (b *balancers) again(undo, do func()) {
	b.t.Helper()
	for tries := 0; len(b.points) > 0 && tries < 5; tries++ {
		undo()
		do()
	}
}

// addressesOf returns the private addresses of a load balancer.
func (b *balancers) addressesOf(name string) (all []types.TargetDescription) {
	b.t.Helper()
	_, path, _ := strings.Cut(b.arns[name], ":loadbalancer/")
	b.eventually(name+" has addresses", func() error {
		out, err := b.client.DescribeNetworkInterfaces(b.t.Context(), &ec2.DescribeNetworkInterfacesInput{
			Filters: []ec2types.Filter{{Name: aws.String("description"), Values: []string{"ELB " + path}}}})
		if err != nil {
			return err
		}
		all = nil
		for _, eni := range out.NetworkInterfaces {
			all = append(all, types.TargetDescription{Id: eni.PrivateIpAddress, Port: aws.Int32(80)})
		}
		if len(all) != len(b.subnets) {
			return fmt.Errorf("it has %d", len(all))
		}
		return nil
	})
	return all
}

// forwarding returns the process that forwards, whether the daemon runs or not.
func (b *balancers) forwarding() (pid int) {
	b.t.Helper()
	eventually.Nil(b.t, "the process balancer runs", func() error {
		for _, p := range b.Processes() {
			id, command, _ := strings.Cut(p, " ")
			if strings.HasSuffix(strings.TrimSpace(command), "/balancer") {
				pid, _ = strconv.Atoi(id)
				return nil
			}
		}
		return errors.New("it does not")
	})
	return pid
}

// deliver delivers the access logs of a load balancer to a log group, and demands that each request is there once.
func (b *balancers) deliver(name, group string) {
	b.t.Helper()
	done := "ResourceAlreadyExistsException"
	b.call("create a log group", func(ctx context.Context) error {
		_, err := b.logs.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &group})
		return err
	}, done)
	var to *string
	b.call("put a destination", func(ctx context.Context) error {
		groups, err := b.logs.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &group})
		if err != nil {
			return err
		}
		out, err := b.logs.PutDeliveryDestination(ctx, &cloudwatchlogs.PutDeliveryDestinationInput{Name: &group,
			DeliveryDestinationConfiguration: &logstypes.DeliveryDestinationConfiguration{
				DestinationResourceArn: groups.LogGroups[0].LogGroupArn}})
		if err == nil {
			to = out.DeliveryDestination.Arn
		}
		return err
	})
	b.call("put a source", func(ctx context.Context) error {
		_, err := b.logs.PutDeliverySource(ctx, &cloudwatchlogs.PutDeliverySourceInput{Name: &group,
			LogType: aws.String("ALB_ACCESS_LOGS"), ResourceArn: aws.String(b.arns[name])})
		return err
	})
	b.call("create a delivery", func(ctx context.Context) error {
		_, err := b.logs.CreateDelivery(ctx, &cloudwatchlogs.CreateDeliveryInput{DeliverySourceName: &group,
			DeliveryDestinationArn: to})
		return err
	}, "ConflictException")
	found := func(number int) (n int, err error) {
		out, err := b.logs.FilterLogEvents(b.t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group,
			FilterPattern: aws.String(fmt.Sprintf(`{ $.request_line = "*/?request-%d HTTP*" }`, number))})
		if err != nil {
			return 0, err
		}
		return len(out.Events), nil
	}
	request := func(number int) error {
		answer, err := http.Get(fmt.Sprintf("http://%s/?request-%d", b.names[name], number))
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	b.eventually("the load balancer logs", func() error {
		if err := request(0); err != nil {
			return err
		}
		n, err := found(0)
		if err == nil && n == 0 {
			err = errors.New("no request is there")
		}
		return err
	})
	const requests = 20
	for number := range requests {
		b.eventually("a request is answered", func() error { return request(number + 1) })
	}
	for number := 1; number <= requests; number++ {
		b.eventually(fmt.Sprintf("request %d is logged", number), func() error {
			n, err := found(number)
			if err == nil && n == 0 {
				err = errors.New("it is not there")
			}
			if n > 1 {
				return eventually.Never(fmt.Errorf("it is there %d times", n))
			}
			return err
		})
	}
}

// undeliver deletes what deliver made.
func (b *balancers) undeliver(group string) {
	b.t.Helper()
	gone := "ResourceNotFoundException"
	b.call("delete the delivery", func(ctx context.Context) error {
		out, err := b.logs.DescribeDeliveries(ctx, &cloudwatchlogs.DescribeDeliveriesInput{})
		if err != nil || len(out.Deliveries) == 0 {
			return err
		}
		_, err = b.logs.DeleteDelivery(ctx, &cloudwatchlogs.DeleteDeliveryInput{Id: out.Deliveries[0].Id})
		return err
	}, gone)
	b.call("delete the source", func(ctx context.Context) error {
		_, err := b.logs.DeleteDeliverySource(ctx, &cloudwatchlogs.DeleteDeliverySourceInput{Name: &group})
		return err
	}, gone)
	b.eventually("the files of the log go", func() error {
		left, err := filepath.Glob(filepath.Join(b.Dir, "balancer-logs", "*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left are %v", left)
		}
		return err
	})
}

// nothingLeft demands that nothing is left of the load balancers.
func (b *balancers) nothingLeft() {
	b.t.Helper()
	b.eventually("everything is given back", func() error {
		left, _ := filepath.Glob(filepath.Join("/run/coracle", b.Owner(), "netns", "elb-*")) // the pattern is right
		interfaces, err := b.client.DescribeNetworkInterfaces(b.t.Context(), &ec2.DescribeNetworkInterfacesInput{})
		if err != nil {
			return err
		}
		for _, eni := range interfaces.NetworkInterfaces {
			left = append(left, *eni.NetworkInterfaceId)
		}
		hosts, err := os.ReadFile("/etc/hosts")
		if err != nil {
			return err
		}
		for _, name := range b.names {
			if strings.Contains(string(hosts), strings.ToLower(name)) {
				left = append(left, name)
			}
		}
		config, err := os.ReadFile(filepath.Join("/run/coracle", b.Owner(), "balancer", "config.json"))
		if err != nil || strings.Contains(string(config), `"Balancers"`) {
			left = append(left, "what the process does")
		}
		if len(left) > 0 {
			return fmt.Errorf("there are still %v", left)
		}
		return nil
	})
}

// TestTheDaemonMayDieInTheLifeOfALoadBalancer lets the daemon die at every marked instruction when load balancers are
// created, their targets registered and deregistered, their logs delivered, and all is deleted; and kills the process
// that forwards under traffic. Each time everything converges, and in the end there is nothing left.
func TestTheDaemonMayDieInTheLifeOfALoadBalancer(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	testenv.NeedsRoot(t)
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	d := harness.Start(t)
	b := &balancers{fleet: &fleet{phoenix: &phoenix{Daemon: d, t: t}, client: ec2.NewFromConfig(d.Config())},
		elb: v2.NewFromConfig(d.Config()), logs: cloudwatchlogs.NewFromConfig(d.Config()), subnets: d.Subnets(),
		arns: map[string]string{}, names: map[string]string{}, targets: map[string]string{}}
	b.prepare()

	b.arm("network/router", "network/port", "network/rules", "endpoint/written", "balancer/configured",
		"balancer/observed")
	b.create("back", types.LoadBalancerTypeEnumApplication, types.Action{Type: types.ActionTypeEnumFixedResponse,
		FixedResponseConfig: &types.FixedResponseActionConfig{StatusCode: aws.String("200"),
			ContentType: aws.String("text/plain"), MessageBody: aws.String("back")}})
	b.answers("back")
	b.died(t)

	b.targetGroup("front", types.ProtocolEnumHttp)
	b.targetGroup("stream", types.ProtocolEnumTcp)
	forward := func(group string) types.Action {
		return types.Action{Type: types.ActionTypeEnumForward, TargetGroupArn: aws.String(b.targets[group])}
	}
	b.create("front", types.LoadBalancerTypeEnumApplication, forward("front"))
	b.create("stream", types.LoadBalancerTypeEnumNetwork, forward("stream"))
	addresses := b.addressesOf("back")
	b.arm("balancer/checked", "balancer/configured", "endpoint/written", "network/rules")
	register := func() { b.register(addresses) }
	deregister := func() { b.deregister(addresses[:1], len(addresses)-1) }
	register()
	b.again(deregister, register)
	b.died(t)

	b.arm("logdelivery/read", "logdelivery/appended", "logdelivery/trimmed")
	b.deliver("front", "access")
	b.died(t)
	b.undeliver("access")

	b.killUnderTraffic()

	b.arm("balancer/checked", "balancer/configured", "endpoint/written")
	deregister()
	b.again(register, deregister)
	b.died(t)

	b.arm("balancer/configured", "balancer/forgotten", "endpoint/written", "network/rules")
	for _, name := range []string{"front", "stream", "back"} {
		b.call("delete "+name, func(ctx context.Context) error {
			_, err := b.elb.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{
				LoadBalancerArn: aws.String(b.arns[name])})
			return err
		}, "LoadBalancerNotFound")
	}
	for _, group := range []string{"front", "stream"} {
		b.call("delete the target group "+group, func(ctx context.Context) error {
			_, err := b.elb.DeleteTargetGroup(ctx, &v2.DeleteTargetGroupInput{
				TargetGroupArn: aws.String(b.targets[group])})
			return err
		}, "TargetGroupNotFound")
	}
	b.nothingLeft()
	b.died(t)
	t.Logf("died at %d points", len(b.visited))
}

// prepare makes the security group of the load balancers, which lets everybody in.
func (b *balancers) prepare() {
	b.t.Helper()
	ctx := b.t.Context()
	subnets, err := b.client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: b.subnets})
	if err != nil {
		b.t.Fatal(err)
	}
	b.vpc = *subnets.Subnets[0].VpcId
	group, err := b.client.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: aws.String("balancers"),
		Description: aws.String("balancers"), VpcId: &b.vpc})
	if err != nil {
		b.t.Fatal(err)
	}
	b.group = *group.GroupId
	if _, err := b.client.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &b.group,
		IpPermissions: []ec2types.IpPermission{{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80),
			ToPort: aws.Int32(80), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}}); err != nil {
		b.t.Fatal(err)
	}
}

// killUnderTraffic kills the process that forwards, alone and together with the daemon, while it is asked.
func (b *balancers) killUnderTraffic() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var asking sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				if ask(b.names["front"]) == nil {
					answered.Add(1)
				}
			}
		})
	}
	defer asking.Wait()
	defer cancel()
	more := func(when string) {
		b.t.Helper()
		before := answered.Load()
		eventually.Nil(b.t, "requests are answered "+when, func() error {
			if answered.Load() < before+10 {
				return fmt.Errorf("%d are", answered.Load()-before)
			}
			return nil
		})
	}
	more("at first")
	kill := func(pid int) {
		b.t.Helper()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			b.t.Fatal(err)
		}
	}
	first := b.forwarding()
	kill(first)
	more("after the process that forwards was killed")
	if b.forwarding() == first {
		b.t.Error("the process that was killed runs")
	}
	b.Kill()
	more("while there is no daemon")
	kill(b.forwarding())
	b.Serve()
	more("after both were killed")
	for _, name := range []string{"back", "front", "stream"} {
		b.answers(name)
	}
}
