package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// webServers are two pods that serve, on two nodes, and one that asks.
const webServers = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: false
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule,
         labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [pod-template-hash]}
      containers:
      - name: web
        image: ` + harness.Agnhost + `
        command: [/program/bench, ` + serveWebArgument + `]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 5}}}
        volumeMounts: [{name: program, mountPath: /program}]
      volumes: [{name: program, hostPath: {path: /opt/program}}]
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
  - name: client
    image: ` + harness.Agnhost + `
    args: [pause]
    volumeMounts: [{name: program, mountPath: /program}]
  volumes: [{name: program, hostPath: {path: /opt/program}}]
`

// balancers is a cluster with two nodes, and what the benchmark of load balancers does there.
type balancers struct {
	*clustertest.Fixture
	b     *testing.B
	kube  *kubernetes.Clientset
	elb   *v2.Client
	ec2   *ec2.Client
	vpc   string
	group string // the security group of load balancers
}

// check returns what a call returns that must succeed.
func check[T any](b *testing.B) func(T, error) T {
	return func(out T, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
}

// BenchmarkLoadBalancers measures load balancers as users of Services and Ingresses have them.
func BenchmarkLoadBalancers(b *testing.B) {
	f := clustertest.New(b, "balance", version)
	kube, _ := kubernetesClient(b, f.Daemon, "balance")
	l := &balancers{Fixture: f, b: b, kube: kube, elb: v2.NewFromConfig(f.Daemon.Config()),
		ec2: ec2.NewFromConfig(f.Daemon.Config())}
	nodes := f.RunInstances(2, f.AL2023(version), f.SubnetIDs[0], f.NodeConfig())
	f.AwaitNodes(nodes...)
	l.install(nodes)
	f.Apply(webServers)
	l.awaitWeb()
	f.Await("condition=Ready", "pod/client")
	l.measureServices()
	alb := l.measureIngress()
	l.measureRequests(alb)
	l.measureMemory()
	l.measureRollingUpdate()
	l.measureStreams()
}

// install copies this program to the nodes, whose pods run it.
func (l *balancers) install(nodes []string) {
	l.b.Helper()
	self := check[[]byte](l.b)(os.ReadFile("/proc/self/exe"))
	for _, id := range nodes {
		ctx, cancel := context.WithTimeout(l.b.Context(), eventually.Limit)
		cmd := l.Command(ctx, "", "coracle", "exec", "--stdin", "--data-dir", l.Dir, id, "--", "/bin/sh", "-c",
			"mkdir -p /opt/program && cat > /opt/program/bench && chmod 755 /opt/program/bench")
		cmd.Stdin = bytes.NewReader(self)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			l.b.Fatalf("copy the program: %v: %s", err, out)
		}
	}
}

// awaitWeb waits until the pods serve.
func (l *balancers) awaitWeb() {
	l.b.Helper()
	if _, _, err := l.Try(l.Config, "kubectl", "wait", "--for=condition=Available", "--timeout=3m",
		"deployment/web"); err != nil {
		out, text, _ := l.Try(l.Config, "kubectl", "logs", "--selector=app=web", "--previous", "--tail=20")
		l.b.Fatalf("the pods do not serve: %v\n%s%s", err, out, text)
	}
}

// answers waits until a host answers, from this one, and returns where it does. Its address is asked for each time: Go
// itself would look at /etc/hosts every five seconds.
func (l *balancers) answers(host string) (at string) {
	l.b.Helper()
	name, port, found := strings.Cut(host, ":")
	if !found {
		port = "80"
	}
	if err := eventually.Try(20*time.Millisecond, func() error {
		out, err := exec.CommandContext(l.b.Context(), "getent", "ahostsv4", name).Output()
		if err != nil {
			return fmt.Errorf("resolve %s: %w", name, err)
		}
		at = net.JoinHostPort(strings.Fields(string(out))[0], port)
		return askOnce(l.b.Context(), at)
	}); err != nil {
		l.b.Fatalf("%s: %v", host, err)
	}
	return at
}

// askOnce makes a request with a connection of its own.
func askOnce(ctx context.Context, host string) error {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && string(text) != "hello" {
		err = fmt.Errorf("%s: %q", answer.Status, text)
	}
	return err
}

// service creates a Service of type LoadBalancer, and returns the name of its load balancer once there is one.
func (l *balancers) service(name string, annotations map[string]string) string {
	l.b.Helper()
	api := l.kube.CoreV1().Services("default")
	check[*corev1.Service](l.b)(api.Create(l.b.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{}))
	host := ""
	if err := eventually.Try(20*time.Millisecond, func() error {
		s, err := api.Get(l.b.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("the Service is pending")
		}
		host = s.Status.LoadBalancer.Ingress[0].Hostname
		return nil
	}); err != nil {
		l.b.Fatal(err)
	}
	return host
}

// measureServices measures from the creation of a Service to its first response.
func (l *balancers) measureServices() {
	const samples = 3
	for _, kind := range []struct {
		name        string
		annotations map[string]string
	}{{"Classic", nil}, {"Network", map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}}} {
		var took []time.Duration
		for i := range samples {
			name := fmt.Sprintf("%s-%d", strings.ToLower(kind.name), i)
			began := time.Now()
			l.answers(l.service(name, kind.annotations))
			took = append(took, time.Since(began))
			l.Run(l.Config, "kubectl", "delete", "service", name, "--timeout="+eventually.Limit.String())
		}
		median := quantile(took, 0.5)
		l.b.ReportMetric(median.Seconds(), "s/service-"+strings.ToLower(kind.name))
		report(row{fmt.Sprintf("Service created to the first response through its DNS name, %s Load Balancer (median of %d)",
			kind.name, samples), seconds(median), "3 s", "EKS: 2 to 3 min"})
	}
}

// pods returns the addresses of the pods that serve.
func (l *balancers) pods() []string {
	l.b.Helper()
	return strings.Fields(l.Run(l.Config, "kubectl", "get", "pods", "-l", "app=web", "-o",
		"jsonpath={.items[*].status.podIP}"))
}

// openPorts lets load balancers in to pods, and everybody to the load balancers.
func (l *balancers) openPorts() {
	l.b.Helper()
	ctx := l.b.Context()
	subnets := check[*ec2.DescribeSubnetsOutput](l.b)(l.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		SubnetIds: l.SubnetIDs})).Subnets
	l.vpc = *subnets[0].VpcId
	group := check[*ec2.CreateSecurityGroupOutput](l.b)(l.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("k8s-default-web-0123456789"), Description: aws.String("[k8s] Managed SecurityGroup"),
		VpcId: &l.vpc}))
	l.group = *group.GroupId
	check[*ec2.AuthorizeSecurityGroupIngressOutput](l.b)(l.ec2.AuthorizeSecurityGroupIngress(ctx,
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: &l.group, IpPermissions: []ec2types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(8081),
			IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}}}))
	check[*ec2.AuthorizeSecurityGroupIngressOutput](l.b)(l.ec2.AuthorizeSecurityGroupIngress(ctx,
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: aws.String(l.Group), IpPermissions: []ec2types.IpPermission{{
			IpProtocol: aws.String("tcp"), FromPort: aws.Int32(5201), ToPort: aws.Int32(8080),
			UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &l.group}}}}}))
}

// application makes an Application Load Balancer with a listener, which forwards to a target group if there is one.
func (l *balancers) application(name, target string) types.LoadBalancer {
	l.b.Helper()
	ctx := l.b.Context()
	action := types.Action{Type: types.ActionTypeEnumFixedResponse, Order: aws.Int32(1),
		FixedResponseConfig: &types.FixedResponseActionConfig{StatusCode: aws.String("404"),
			ContentType: aws.String("text/plain")}}
	made := check[*v2.CreateLoadBalancerOutput](l.b)(l.elb.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
		Name: &name, Type: types.LoadBalancerTypeEnumApplication, Scheme: types.LoadBalancerSchemeEnumInternetFacing,
		SubnetMappings: []types.SubnetMapping{{SubnetId: &l.SubnetIDs[0]}, {SubnetId: &l.SubnetIDs[1]}},
		SecurityGroups: []string{l.group}})).LoadBalancers[0]
	listener := check[*v2.CreateListenerOutput](l.b)(l.elb.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: made.LoadBalancerArn, Protocol: types.ProtocolEnumHttp, Port: aws.Int32(80),
		DefaultActions: []types.Action{action}})).Listeners[0]
	if target != "" {
		check[*v2.CreateRuleOutput](l.b)(l.elb.CreateRule(ctx, &v2.CreateRuleInput{ListenerArn: listener.ListenerArn,
			Priority: aws.Int32(1), Actions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: &target}},
			Conditions: []types.RuleCondition{{Field: aws.String("path-pattern"),
				PathPatternConfig: &types.PathPatternConditionConfig{Values: []string{"/*"}}}}}))
	}
	return made
}

// targets makes a target group of addresses.
func (l *balancers) targets(name string, protocol types.ProtocolEnum, port int32) string {
	l.b.Helper()
	return *check[*v2.CreateTargetGroupOutput](l.b)(l.elb.CreateTargetGroup(l.b.Context(), &v2.CreateTargetGroupInput{
		Name: &name, Protocol: protocol, Port: &port, VpcId: &l.vpc, TargetType: types.TargetTypeEnumIp,
		HealthCheckIntervalSeconds: aws.Int32(15), HealthyThresholdCount: aws.Int32(2)})).TargetGroups[0].TargetGroupArn
}

func (l *balancers) register(group string, port int32, addresses ...string) {
	l.b.Helper()
	in := &v2.RegisterTargetsInput{TargetGroupArn: &group}
	for _, ip := range addresses {
		in.Targets = append(in.Targets, types.TargetDescription{Id: &ip, Port: &port})
	}
	check[*v2.RegisterTargetsOutput](l.b)(l.elb.RegisterTargets(l.b.Context(), in))
}

// measureIngress measures from the first call that the AWS Load Balancer Controller makes for an Ingress to the first
// response. It returns the load balancer.
func (l *balancers) measureIngress() types.LoadBalancer {
	l.b.Helper()
	began := time.Now()
	l.openPorts()
	group := l.targets("k8s-default-web-0123456789", types.ProtocolEnumHttp, 8080)
	made := l.application("k8s-default-web-0123456789", group)
	l.register(group, 8080, l.pods()...)
	l.answers(*made.DNSName)
	took := time.Since(began)
	l.b.ReportMetric(took.Seconds(), "s/ingress")
	report(row{"Ingress (ALB, two targets by address) to the first response, by its controller's calls", seconds(took),
		"5 s", "EKS: 2 to 3 min"})
	return made
}

// namespace returns the path of the network namespace of a load balancer.
func (l *balancers) namespace(b types.LoadBalancer) string {
	return filepath.Join("/run/coracle", l.Owner(), "netns", "elb-"+filepath.Base(*b.LoadBalancerArn))
}

// place is an address of a load balancer, as it has it and as the internet does.
func (l *balancers) place(arn string) (private, public string) {
	l.b.Helper()
	_, path, _ := strings.Cut(arn, ":loadbalancer/")
	out := check[*ec2.DescribeNetworkInterfacesOutput](l.b)(l.ec2.DescribeNetworkInterfaces(l.b.Context(),
		&ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{{Name: aws.String("description"),
			Values: []string{"ELB " + path}}}}))
	if len(out.NetworkInterfaces) == 0 {
		l.b.Fatalf("%s has no network interface", arn)
	}
	eni := out.NetworkInterfaces[0]
	if eni.Association != nil {
		public = aws.ToString(eni.Association.PublicIp)
	}
	return *eni.PrivateIpAddress, public
}

// measureRequests compares the requests per second and their times through the load balancer with those through a bare
// proxy in its place, to the same targets, and with those to a pod from there. Each is measured in turn, three times,
// and the median counts.
func (l *balancers) measureRequests(alb types.LoadBalancer) {
	const connections, length = "64", "5"
	namespace, pods := l.namespace(alb), l.pods()
	private, public := l.place(*alb.LoadBalancerArn)
	self := check[string](l.b)(os.Readlink("/proc/self/exe"))
	inside := func(args ...string) *exec.Cmd {
		return exec.CommandContext(l.b.Context(), "nsenter", append([]string{"--net=" + namespace, self}, args...)...)
	}
	args := []string{serveProxyArgument, private + ":8081"}
	for _, pod := range pods {
		args = append(args, pod+":8080")
	}
	proxy := inside(args...)
	proxy.Env = []string{"PATH=" + os.Getenv("PATH")} // with Go's own settings
	// The kernel divides processors among sessions: the bare proxy has one of its own, as the load balancer has.
	proxy.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := proxy.Start(); err != nil {
		l.b.Fatal(err)
	}
	defer func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait()
	}()
	l.answers(public + ":8081")
	type way struct {
		rates, p99 []float64
		run        func() *exec.Cmd
	}
	here := func(address string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return exec.CommandContext(l.b.Context(), self, loadWebArgument, address, connections, length)
		}
	}
	ways := map[string]*way{"ALB": {run: here(public + ":80")}, "bare": {run: here(public + ":8081")},
		"pod": {run: func() *exec.Cmd { return inside(loadWebArgument, pods[0]+":8080", connections, length) }}}
	for range 3 {
		for _, name := range []string{"ALB", "bare", "pod"} {
			out, err := ways[name].run().CombinedOutput()
			var rate, p99 float64
			if _, scan := fmt.Sscan(string(out), &rate, &p99); err != nil || scan != nil {
				l.b.Fatalf("load %s: %v: %s", name, err, out)
			}
			ways[name].rates, ways[name].p99 = append(ways[name].rates, rate), append(ways[name].p99, p99)
		}
	}
	median := func(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
	rate := func(name string) float64 { return median(ways[name].rates) }
	beside := func(name string) string {
		return fmt.Sprintf("%.0f/s, p99 %.1f ms", rate(name), median(ways[name].p99))
	}
	l.b.ReportMetric(rate("ALB"), "requests/s")
	l.b.ReportMetric(100*rate("ALB")/rate("bare"), "%-of-bare-proxy")
	report(row{"requests/s through an ALB, 64 connections (median of 3)", beside("ALB"), "80 % of the bare proxy",
		fmt.Sprintf("bare proxy with one hop %s: %.0f %%; the pod directly %s", beside("bare"),
			100*rate("ALB")/rate("bare"), beside("pod"))})
}

// measureStreams compares what a connection through a Network Load Balancer carries with one from pod to pod, of
// another node: with the address of the client preserved, which the router does, and without, which the process does.
func (l *balancers) measureStreams() {
	const mebibytes = "1024"
	ctx := l.b.Context()
	client := check[*corev1.Pod](l.b)(l.kube.CoreV1().Pods("default").Get(ctx, "client", metav1.GetOptions{}))
	list := check[*corev1.PodList](l.b)(l.kube.CoreV1().Pods("default").List(ctx,
		metav1.ListOptions{LabelSelector: "app=web"}))
	far := ""
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Spec.NodeName != client.Spec.NodeName {
			far = p.Status.PodIP
		}
	}
	if far == "" {
		l.b.Fatal("no pod serves on another node")
	}
	addresses := map[string]string{"pod": far, "preserved": l.network("preserved", far, "true"),
		"proxied": l.network("proxied", far, "false")}
	measured := map[string][]float64{}
	measure := func(way, size string) (float64, error) {
		out, text, err := l.Try(l.Config, "kubectl", "exec", "client", "--", "/program/bench", streamArgument,
			addresses[way]+":5201", size)
		if err != nil {
			return 0, fmt.Errorf("stream, %s: %w: %s", way, err, text)
		}
		return strconv.ParseFloat(strings.TrimSpace(out), 64)
	}
	for _, way := range []string{"preserved", "proxied"} {
		eventually.Nil(l.b, "the load balancer carries a stream", func() error {
			_, err := measure(way, "1")
			return err
		})
	}
	for range 5 {
		for way := range addresses {
			measured[way] = append(measured[way], check[float64](l.b)(measure(way, mebibytes)))
		}
	}
	median := func(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
	direct := median(measured["pod"])
	for way, what := range map[string]string{"preserved": "that preserves the client's address",
		"proxied": "that does not (preserve_client_ip.enabled=false)"} {
		through := median(measured[way])
		l.b.ReportMetric(100*through/direct, "%-of-pod-to-pod-"+way)
		report(row{"throughput of a connection through an NLB " + what + " (median of 5)",
			fmt.Sprintf("%.0f MiB/s", through), "80 % of pod to pod",
			fmt.Sprintf("pod to pod across nodes %.0f MiB/s: %.0f %%", direct, 100*through/direct)})
	}
}

// network makes a Network Load Balancer in front of an address, and returns its own.
func (l *balancers) network(name, target, preserve string) string {
	l.b.Helper()
	ctx := l.b.Context()
	group := l.targets(name, types.ProtocolEnumTcp, 5201)
	check[*v2.ModifyTargetGroupAttributesOutput](l.b)(l.elb.ModifyTargetGroupAttributes(ctx,
		&v2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group, Attributes: []types.TargetGroupAttribute{{
			Key: aws.String("preserve_client_ip.enabled"), Value: &preserve}}}))
	nlb := check[*v2.CreateLoadBalancerOutput](l.b)(l.elb.CreateLoadBalancer(ctx, &v2.CreateLoadBalancerInput{
		Name: &name, Type: types.LoadBalancerTypeEnumNetwork, Scheme: types.LoadBalancerSchemeEnumInternal,
		SecurityGroups: []string{l.group}, Subnets: l.SubnetIDs[:1]})).LoadBalancers[0]
	check[*v2.CreateListenerOutput](l.b)(l.elb.CreateListener(ctx, &v2.CreateListenerInput{
		LoadBalancerArn: nlb.LoadBalancerArn, Protocol: types.ProtocolEnumTcp, Port: aws.Int32(5201),
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: &group}}}))
	l.register(group, 5201, target)
	private, _ := l.place(*nlb.LoadBalancerArn)
	return private
}

// resident returns what the process that forwards has of memory of its own, in bytes: without the program, whose pages
// all processes of it share.
func (l *balancers) resident() float64 {
	l.b.Helper()
	for _, p := range l.Processes() {
		id, command, _ := strings.Cut(p, " ")
		if !strings.HasSuffix(strings.TrimSpace(command), "/balancer") {
			continue
		}
		text := check[[]byte](l.b)(os.ReadFile(filepath.Join("/proc", id, "status")))
		_, after, _ := strings.Cut(string(text), "RssAnon:")
		kibibytes := check[float64](l.b)(strconv.ParseFloat(strings.Fields(after)[0], 64))
		return kibibytes * 1024
	}
	l.b.Fatal("the process balancer does not run")
	return 0
}

// measureMemory measures what ten more load balancers take that nobody asks.
func (l *balancers) measureMemory() {
	const more = 10
	before := l.resident()
	for i := range more {
		made := l.application(fmt.Sprintf("idle-%d", i), "")
		eventually.Nil(l.b, "it answers", func() error {
			r, err := http.Get("http://" + *made.DNSName + "/")
			if err != nil {
				return err
			}
			r.Body.Close()
			if r.StatusCode != http.StatusNotFound {
				return errors.New(r.Status)
			}
			return nil
		})
	}
	after := l.resident()
	each := max(after-before, 0) / more / (1 << 20)
	l.b.ReportMetric(each, "MiB/balancer")
	report(row{"memory of an idle load balancer (resident, of the process that forwards, of 10 more)",
		fmt.Sprintf("%.1f MiB", each), "12 MiB", fmt.Sprintf("the process has %.0f MiB of its own with %d, after load",
			after/(1<<20), more+1)})
}
