//go:build linux

package loadbalancers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

const backends = `apiVersion: apps/v1
kind: Deployment
metadata: {name: blue}
spec:
  replicas: 2
  selector: {matchLabels: {app: blue}}
  template:
    metadata: {labels: {app: blue}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: ` + harness.Agnhost + `
        args: [netexec, --http-port=8080, --udp-port=-1]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: green}
spec:
  replicas: 1
  selector: {matchLabels: {app: green}}
  template:
    metadata: {labels: {app: green}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: ` + harness.Agnhost + `
        args: [netexec, --http-port=8080, --udp-port=-1]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: ` + harness.Agnhost + `, command: [sleep, infinity]}]
`

// ingress makes the calls that the AWS Load Balancer Controller makes for an Ingress, in their order.
type ingress struct {
	*rig
	elb  *v2.Client
	ec2  *ec2.Client
	logs *cloudwatchlogs.Client
	vpc  string
	// What it has made.
	group    string
	groups   map[string]string // ARNs of target groups by the name of the Deployment
	balancer types.LoadBalancer
	listener string
	rules    []string
}

func (i *ingress) tags(resource string) []types.Tag {
	return []types.Tag{{Key: aws.String("elbv2.k8s.aws/cluster"), Value: aws.String("balance")},
		{Key: aws.String("ingress.k8s.aws/stack"), Value: aws.String("default/web")},
		{Key: aws.String("ingress.k8s.aws/resource"), Value: &resource}}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(out T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// deploy makes the Ingress's load balancer, in front of two Deployments, with the default answer 404.
func (i *ingress) deploy() {
	i.t.Helper()
	ctx, t := i.t.Context(), i.t
	subnets := must[*ec2.DescribeSubnetsOutput](t)(i.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		SubnetIds: i.SubnetIDs})).Subnets
	i.vpc = *subnets[0].VpcId
	group := must[*ec2.CreateSecurityGroupOutput](t)(i.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("k8s-default-web-0123456789"), Description: aws.String("[k8s] Managed SecurityGroup"),
		VpcId: &i.vpc}))
	i.group = *group.GroupId
	must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(i.ec2.AuthorizeSecurityGroupIngress(ctx,
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: &i.group, IpPermissions: []ec2types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(80),
			IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}}))
	must[*v2.DescribeTargetGroupsOutput](t)(i.elb.DescribeTargetGroups(ctx, &v2.DescribeTargetGroupsInput{}))
	for _, name := range []string{"blue", "green"} {
		g := must[*v2.CreateTargetGroupOutput](t)(i.elb.CreateTargetGroup(ctx, &v2.CreateTargetGroupInput{
			Name: aws.String("k8s-default-" + name + "-0123456789"), Protocol: types.ProtocolEnumHttp,
			ProtocolVersion: aws.String("HTTP1"), Port: aws.Int32(8080), VpcId: &i.vpc, TargetType: types.TargetTypeEnumIp,
			IpAddressType:       types.TargetGroupIpAddressTypeEnumIpv4,
			HealthCheckProtocol: types.ProtocolEnumHttp, HealthCheckPort: aws.String("traffic-port"),
			HealthCheckPath: aws.String("/"), HealthCheckIntervalSeconds: aws.Int32(15),
			HealthCheckTimeoutSeconds: aws.Int32(5), HealthyThresholdCount: aws.Int32(2),
			UnhealthyThresholdCount: aws.Int32(2), Matcher: &types.Matcher{HttpCode: aws.String("200")},
			Tags: i.tags("default/web-" + name + ":80")})).TargetGroups[0]
		i.groups[name] = *g.TargetGroupArn
		must[*v2.DescribeTargetGroupAttributesOutput](t)(i.elb.DescribeTargetGroupAttributes(ctx,
			&v2.DescribeTargetGroupAttributesInput{TargetGroupArn: g.TargetGroupArn}))
	}
	must[*v2.DescribeLoadBalancersOutput](t)(i.elb.DescribeLoadBalancers(ctx, &v2.DescribeLoadBalancersInput{}))
	i.balancer = must[*v2.CreateLoadBalancerOutput](t)(i.elb.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
		Name: aws.String("k8s-default-web-0123456789"), Type: types.LoadBalancerTypeEnumApplication,
		Scheme: types.LoadBalancerSchemeEnumInternetFacing, IpAddressType: types.IpAddressTypeIpv4,
		SubnetMappings: []types.SubnetMapping{{SubnetId: &i.SubnetIDs[0]}, {SubnetId: &i.SubnetIDs[1]}},
		SecurityGroups: []string{i.group}, Tags: i.tags("LoadBalancer")})).LoadBalancers[0]
	must[*v2.DescribeLoadBalancerAttributesOutput](t)(i.elb.DescribeLoadBalancerAttributes(ctx,
		&v2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: i.balancer.LoadBalancerArn}))
	must[*v2.DescribeListenersOutput](t)(i.elb.DescribeListeners(ctx, &v2.DescribeListenersInput{
		LoadBalancerArn: i.balancer.LoadBalancerArn}))
	i.listener = *must[*v2.CreateListenerOutput](t)(i.elb.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: i.balancer.LoadBalancerArn, Protocol: types.ProtocolEnumHttp, Port: aws.Int32(80),
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumFixedResponse, Order: aws.Int32(1),
			FixedResponseConfig: &types.FixedResponseActionConfig{StatusCode: aws.String("404"),
				ContentType: aws.String("text/plain")}}}, Tags: i.tags("80")})).Listeners[0].ListenerArn
	must[*v2.DescribeListenerAttributesOutput](t)(i.elb.DescribeListenerAttributes(ctx,
		&v2.DescribeListenerAttributesInput{ListenerArn: &i.listener}))
	must[*v2.DescribeRulesOutput](t)(i.elb.DescribeRules(ctx, &v2.DescribeRulesInput{ListenerArn: &i.listener}))
	i.rule(1, i.forward("blue", 1, "green", 0), "host-header", "app.example.com", "path-pattern", "/hostname")
	i.rule(2, types.Action{Type: types.ActionTypeEnumRedirect, RedirectConfig: &types.RedirectActionConfig{
		Protocol: aws.String("HTTPS"), Port: aws.String("443"),
		StatusCode: types.RedirectActionStatusCodeEnumHttp301}}, "path-pattern", "/secure/*")
	i.rule(3, types.Action{Type: types.ActionTypeEnumFixedResponse, FixedResponseConfig: &types.FixedResponseActionConfig{
		StatusCode: aws.String("503"), ContentType: aws.String("text/plain"), MessageBody: aws.String("closed")}},
		"path-pattern", "/closed")
	i.rule(4, i.forward("green", 1), "path-pattern", "/*")
	// What the TargetGroupBindings do.
	must[*ec2.AuthorizeSecurityGroupIngressOutput](t)(i.ec2.AuthorizeSecurityGroupIngress(ctx,
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: aws.String(i.Group), IpPermissions: []ec2types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(8080), ToPort: aws.Int32(8080),
			UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &i.group,
				Description: aws.String("elbv2.k8s.aws/targetGroupBinding=shared")}}}}}))
	for name, arn := range i.groups {
		var targets []types.TargetDescription
		for _, ip := range i.addresses(name) {
			targets = append(targets, types.TargetDescription{Id: &ip, Port: aws.Int32(8080)})
		}
		must[*v2.RegisterTargetsOutput](t)(i.elb.RegisterTargets(ctx, &v2.RegisterTargetsInput{TargetGroupArn: &arn,
			Targets: targets}))
	}
}

func (i *ingress) addresses(deployment string) []string {
	i.t.Helper()
	return strings.Fields(i.kubectl("get", "pods", "-l", "app="+deployment, "-o", "jsonpath={.items[*].status.podIP}"))
}

// forward returns an action with the target groups of Deployments and their weights.
func (i *ingress) forward(pairs ...any) types.Action {
	a := types.Action{Type: types.ActionTypeEnumForward, Order: aws.Int32(1), ForwardConfig: &types.ForwardActionConfig{}}
	for n := 0; n < len(pairs); n += 2 {
		a.ForwardConfig.TargetGroups = append(a.ForwardConfig.TargetGroups, types.TargetGroupTuple{
			TargetGroupArn: aws.String(i.groups[pairs[n].(string)]), Weight: aws.Int32(int32(pairs[n+1].(int)))})
	}
	return a
}

func (i *ingress) rule(priority int32, action types.Action, conditions ...string) {
	i.t.Helper()
	in := &v2.CreateRuleInput{ListenerArn: &i.listener, Priority: &priority, Actions: []types.Action{action},
		Tags: i.tags(fmt.Sprintf("80:%d", priority))}
	in.Actions[0].Order = aws.Int32(1)
	for n := 0; n < len(conditions); n += 2 {
		c := types.RuleCondition{Field: &conditions[n]}
		if conditions[n] == "host-header" {
			c.HostHeaderConfig = &types.HostHeaderConditionConfig{Values: []string{conditions[n+1]}}
		} else {
			c.PathPatternConfig = &types.PathPatternConditionConfig{Values: []string{conditions[n+1]}}
		}
		in.Conditions = append(in.Conditions, c)
	}
	r := must[*v2.CreateRuleOutput](i.t)(i.elb.CreateRule(i.t.Context(), in)).Rules[0]
	i.rules = append(i.rules, *r.RuleArn)
}

// remove deletes all, as the controller does when the Ingress is deleted.
func (i *ingress) remove() {
	i.t.Helper()
	ctx, t := i.t.Context(), i.t
	must[*v2.DeleteLoadBalancerOutput](t)(i.elb.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{
		LoadBalancerArn: i.balancer.LoadBalancerArn}))
	for _, arn := range i.groups {
		must[*v2.DeleteTargetGroupOutput](t)(i.elb.DeleteTargetGroup(ctx, &v2.DeleteTargetGroupInput{TargetGroupArn: &arn}))
	}
	must[*ec2.RevokeSecurityGroupIngressOutput](t)(i.ec2.RevokeSecurityGroupIngress(ctx,
		&ec2.RevokeSecurityGroupIngressInput{GroupId: aws.String(i.Group), IpPermissions: []ec2types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(8080), ToPort: aws.Int32(8080),
			UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &i.group}}}}}))
	must[*ec2.DeleteSecurityGroupOutput](t)(i.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{
		GroupId: &i.group}))
}

// request makes a request with a Host header, and returns the status, the Location and the body.
func request(ctx context.Context, address, host, path string) (status int, location, body string, err error) {
	client := http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, "", "", err
	}
	if host != "" {
		r.Host = host
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header.Get("Location"), string(text), err
}

// TestIngress takes an Application Load Balancer in front of real pods through its life, by the calls that the AWS Load
// Balancer Controller makes for an Ingress.
func TestIngress(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	r := &rig{clustertest.New(t, "balance", "1.35"), t}
	r.AwaitNodes(r.RunInstances(1, r.AL2023("1.35"), r.SubnetIDs[0], r.NodeConfig())...)
	r.Apply(backends)
	r.Await("condition=Available", "deployment/blue", "deployment/green")
	r.Await("condition=Ready", "pod/client")
	i := &ingress{rig: r, elb: v2.NewFromConfig(r.Daemon.Config()), ec2: ec2.NewFromConfig(r.Daemon.Config()),
		groups: map[string]string{}}
	begun := time.Now()
	i.deploy()
	name := *i.balancer.DNSName
	ctx := t.Context()
	serves := func(host, path, prefix string) {
		t.Helper()
		r.until(fmt.Sprintf("%s%s is answered by %s", host, path, prefix), func() error {
			status, _, body, err := request(ctx, name, host, path)
			if err == nil && (status != http.StatusOK || !strings.HasPrefix(body, prefix)) {
				err = fmt.Errorf("got %d, %q", status, body)
			}
			return err
		})
	}
	serves("app.example.com", "/hostname", "blue-")
	t.Logf("from the Ingress to the first response: %s", time.Since(begun).Round(time.Millisecond))
	serves("", "/hostname", "green-")
	if status, location, _, err := request(ctx, name, "", "/secure/a?b=c"); err != nil || status != 301 ||
		!strings.EqualFold(location, "https://"+name+":443/secure/a?b=c") {
		t.Errorf("redirected with %d to %q, %v", status, location, err)
	}
	if status, _, body, err := request(ctx, name, "", "/closed"); err != nil || status != 503 || body != "closed" {
		t.Errorf("the fixed response is %d %q, %v", status, body, err)
	}
	r.until("a pod gets an answer", func() error {
		out, _, err := r.Try(r.Config, "kubectl", "exec", "client", "--", "fetch", "http://"+name+"/hostname")
		if err == nil && !strings.HasPrefix(out, "green-") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	i.healthy("blue", 2)
	i.healthy("green", 1)
	i.checkFront()

	i.deliverLogs()
	serves("", "/hostname", "green-")
	i.checkLogs()

	// Rules, weights and targets change under load.
	underLoad(t, name, func() {
		must[*v2.ModifyRuleOutput](t)(i.elb.ModifyRule(ctx, &v2.ModifyRuleInput{RuleArn: &i.rules[0],
			Actions: []types.Action{i.forward("blue", 0, "green", 1)}}))
		serves("app.example.com", "/hostname", "green-")
		must[*v2.SetRulePrioritiesOutput](t)(i.elb.SetRulePriorities(ctx, &v2.SetRulePrioritiesInput{
			RulePriorities: []types.RulePriorityPair{{RuleArn: &i.rules[0], Priority: aws.Int32(10)},
				{RuleArn: &i.rules[3], Priority: aws.Int32(5)}}}))
		must[*v2.ModifyRuleOutput](t)(i.elb.ModifyRule(ctx, &v2.ModifyRuleInput{RuleArn: &i.rules[3],
			Actions: []types.Action{i.forward("blue", 1)}}))
		serves("app.example.com", "/hostname", "blue-")
		gone := i.addresses("blue")[0]
		must[*v2.DeregisterTargetsOutput](t)(i.elb.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{
			TargetGroupArn: aws.String(i.groups["blue"]), Targets: []types.TargetDescription{{Id: &gone,
				Port: aws.Int32(8080)}}}))
		serves("app.example.com", "/hostname", "blue-")
	})

	r.Kill()
	if status, _, _, err := request(ctx, name, "", "/closed?alone"); err != nil || status != 503 {
		t.Errorf("while there is no daemon: %d, %v", status, err)
	}
	r.Serve()
	serves("", "/hostname", "blue-")
	r.until("what was logged while there was no daemon is delivered", func() error {
		return i.finds(`{ $.request_line = "*/closed?alone*" }`, 1)
	})
	i.remove()
	r.until(name+" has gone", func() error {
		if hosts, err := os.ReadFile("/etc/hosts"); err != nil || strings.Contains(string(hosts), strings.ToLower(name)) {
			return errors.Join(err, errors.New("this host has its name"))
		}
		return nil
	})
	left := must[*ec2.DescribeNetworkInterfacesOutput](t)(i.ec2.DescribeNetworkInterfaces(ctx,
		&ec2.DescribeNetworkInterfacesInput{}))
	if slices.ContainsFunc(left.NetworkInterfaces, func(n ec2types.NetworkInterface) bool {
		return aws.ToString(n.RequesterId) == "amazon-elb"
	}) {
		t.Error("network interfaces of the load balancer are left")
	}
}

// checkFront has a Network Load Balancer in front of the Ingress's for a time, by the calls of the controller for the
// annotation alb.ingress.kubernetes.io/enable-frontend-nlb.
func (i *ingress) checkFront() {
	i.t.Helper()
	ctx, t := i.t.Context(), i.t
	group := must[*v2.CreateTargetGroupOutput](t)(i.elb.CreateTargetGroup(ctx, &v2.CreateTargetGroupInput{
		Name: aws.String("k8s-default-front-0123456789"), Protocol: types.ProtocolEnumTcp, Port: aws.Int32(80),
		VpcId: &i.vpc, TargetType: types.TargetTypeEnumAlb, HealthCheckProtocol: types.ProtocolEnumHttp,
		HealthCheckPort: aws.String("traffic-port"), HealthCheckPath: aws.String("/"),
		HealthCheckIntervalSeconds: aws.Int32(15), HealthCheckTimeoutSeconds: aws.Int32(5),
		HealthyThresholdCount: aws.Int32(3), UnhealthyThresholdCount: aws.Int32(3),
		Matcher: &types.Matcher{HttpCode: aws.String("200-399")}, Tags: i.tags("FrontendNlb:80")})).TargetGroups[0]
	network := must[*v2.CreateLoadBalancerOutput](t)(i.elb.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
		Name: aws.String("k8s-default-web-0123456789-nlb"), Type: types.LoadBalancerTypeEnumNetwork,
		Scheme: types.LoadBalancerSchemeEnumInternetFacing, SecurityGroups: []string{i.group}, Tags: i.tags("FrontendNlb"),
		SubnetMappings: []types.SubnetMapping{{SubnetId: &i.SubnetIDs[0]},
			{SubnetId: &i.SubnetIDs[1]}}})).LoadBalancers[0]
	must[*v2.CreateListenerOutput](t)(i.elb.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: network.LoadBalancerArn, Protocol: types.ProtocolEnumTcp, Port: aws.Int32(80),
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: group.TargetGroupArn}}}))
	target := []types.TargetDescription{{Id: i.balancer.LoadBalancerArn, Port: aws.Int32(80)}}
	must[*v2.RegisterTargetsOutput](t)(i.elb.RegisterTargets(ctx, &v2.RegisterTargetsInput{
		TargetGroupArn: group.TargetGroupArn, Targets: target}))
	i.groups["front"] = *group.TargetGroupArn
	i.healthy("front", 1)
	// What a target is told of the client is the same by either way.
	seen := func(name string) (client string) {
		i.until(name+" is answered", func() error {
			status, _, body, err := request(ctx, name, "", "/header?key=X-Forwarded-For")
			if err == nil && (status != http.StatusOK || net.ParseIP(body) == nil) {
				err = fmt.Errorf("got %d, %q", status, body)
			}
			client = body
			return err
		})
		return client
	}
	if direct, through := seen(*i.balancer.DNSName), seen(*network.DNSName); direct != through {
		t.Errorf("behind the Network Load Balancer, targets are told of the client %s, want %s", through, direct)
	}
	if _, err := i.elb.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{
		LoadBalancerArn: i.balancer.LoadBalancerArn}); err == nil {
		t.Error("a load balancer that is a target was deleted")
	}
	must[*v2.DeregisterTargetsOutput](t)(i.elb.DeregisterTargets(ctx, &v2.DeregisterTargetsInput{
		TargetGroupArn: group.TargetGroupArn, Targets: target}))
	must[*v2.DeleteLoadBalancerOutput](t)(i.elb.DeleteLoadBalancer(ctx, &v2.DeleteLoadBalancerInput{
		LoadBalancerArn: network.LoadBalancerArn}))
	must[*v2.DeleteTargetGroupOutput](t)(i.elb.DeleteTargetGroup(ctx, &v2.DeleteTargetGroupInput{
		TargetGroupArn: group.TargetGroupArn}))
	delete(i.groups, "front")
}

// healthy waits for as many healthy targets of a Deployment's target group.
func (i *ingress) healthy(deployment string, want int) {
	i.t.Helper()
	i.until(deployment+" is healthy", func() error {
		out, err := i.elb.DescribeTargetHealth(i.t.Context(), &v2.DescribeTargetHealthInput{
			TargetGroupArn: aws.String(i.groups[deployment])})
		if err != nil {
			return err
		}
		n := 0
		for _, d := range out.TargetHealthDescriptions {
			if d.TargetHealth.State == types.TargetHealthStateEnumHealthy {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d of %d targets", n, want)
		}
		return nil
	})
}

// underLoad makes requests, one after the other, while something changes. None may fail.
func underLoad(t *testing.T, name string, change func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var made, bad atomic.Int64
	var first atomic.Pointer[string]
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			status, _, body, err := request(ctx, name, "app.example.com", "/hostname")
			if ctx.Err() != nil {
				return
			}
			if made.Add(1); err != nil || status != http.StatusOK {
				text := fmt.Sprintf("%d %q, %v", status, body, err)
				bad.Add(1)
				first.CompareAndSwap(nil, &text)
			}
		}
	}()
	begun := func() error {
		if made.Load() == 0 {
			return errors.New("no request was made")
		}
		return nil
	}
	if err := eventually.Try(10*time.Millisecond, begun); err != nil {
		t.Error(err)
	}
	change()
	cancel()
	<-done
	if text := first.Load(); text != nil {
		t.Errorf("%d of %d requests failed; the first: %s", bad.Load(), made.Load(), *text)
	}
	t.Logf("%d requests while rules and targets changed", made.Load())
}
