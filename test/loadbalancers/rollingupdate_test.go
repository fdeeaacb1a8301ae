//go:build linux

package loadbalancers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// nodePort is that of the Service behind the load balancer of the stack.
const nodePort = "30080"

// replicas are two pods behind a Classic and a Network Load Balancer. They wait before they end until nobody is sent to
// them any more, as the guides say.
const replicas = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 20
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: web}}
      containers:
      - name: web
        image: ` + harness.Agnhost + `
        args: [netexec, --http-port=8080, --udp-port=-1]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 5}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Service
metadata: {name: classic}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080, nodePort: ` + nodePort + `}]
---
apiVersion: v1
kind: Service
metadata: {name: net, annotations: {service.beta.kubernetes.io/aws-load-balancer-type: nlb}}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

// front is a stack with a load balancer that leads to nodes, which an Auto Scaling group registers.
const front = `{"Parameters": {"Vpc": {"Type": "String"}, "Subnets": {"Type": "CommaDelimitedList"}}, "Resources": {
"Targets": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": {"Protocol": "TCP",
	"Port": ` + nodePort + `, "VpcId": {"Ref": "Vpc"}, "TargetGroupAttributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "3"}]}},
"Balancer": {"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer", "Properties": {"Type": "network",
	"Subnets": {"Ref": "Subnets"}}},
"Listener": {"Type": "AWS::ElasticLoadBalancingV2::Listener", "Properties": {"LoadBalancerArn": {"Ref": "Balancer"},
	"Protocol": "TCP", "Port": 80, "DefaultActions": [{"Type": "forward", "TargetGroupArn": {"Ref": "Targets"}}]}}},
"Outputs": {"Targets": {"Value": {"Ref": "Targets"}}, "Name": {"Value": {"Fn::GetAtt": ["Balancer", "DNSName"]}}}}`

// asker makes requests until it is told to stop, and counts those that fail.
type asker struct {
	stop     context.CancelFunc
	running  sync.WaitGroup
	mu       sync.Mutex
	answered int
	failed   []string
}

// ask makes requests to a load balancer, each with a connection of its own.
func ask(t *testing.T, host string) *asker {
	ctx, stop := context.WithCancel(t.Context())
	a := &asker{stop: stop}
	a.running.Go(func() {
		for pace := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
			}
			err := get(t.Context(), host)
			a.mu.Lock()
			if a.answered++; err != nil {
				a.failed = append(a.failed, fmt.Sprintf("%s: %v", time.Now().UTC().Format("15:04:05.000"), err))
			}
			a.mu.Unlock()
		}
	})
	t.Cleanup(func() { stop(); a.running.Wait() })
	return a
}

// end stops, and returns how many requests there were and which have failed.
func (a *asker) end() (answered int, failed []string) {
	a.stop()
	a.running.Wait()
	return a.answered, a.failed
}

// TestNoRequestIsLostInARollingUpdate replaces the nodes of a managed node group behind load balancers of Services, and
// behind one of a stack with which the Auto Scaling group registers them, while clients ask without end.
func TestNoRequestIsLostInARollingUpdate(t *testing.T) {
	t.Parallel()
	testenv.NeedsAll(t, "each drained node waits a minute for load balancers")
	testenv.NeedsRoot(t)
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	r := &rig{clustertest.Empty(t, "roll", "1.35"), t}
	old, latest := clustertest.Release(t, "1.35", 1), clustertest.Release(t, "1.35", 0)
	r.AWS(nil, append([]string{"eks", "create-nodegroup", "--cluster-name", r.Cluster, "--nodegroup-name", "workers",
		"--node-role", clustertest.RoleARN(clustertest.NodeRole), "--release-version", old,
		"--scaling-config", "minSize=1,maxSize=4,desiredSize=2", "--subnets"}, r.SubnetIDs...)...)
	r.AWS(nil, "eks", "wait", "nodegroup-active", "--cluster-name", r.Cluster, "--nodegroup-name", "workers")
	r.Apply(replicas)
	r.Await("condition=Available", "deployment/web")
	hosts := []string{r.hostname("classic"), r.hostname("net")}
	config := r.Daemon.Config()
	elb, asg := v2.NewFromConfig(config), autoscaling.NewFromConfig(config)
	for _, g := range must[*v2.DescribeTargetGroupsOutput](t)(elb.DescribeTargetGroups(t.Context(),
		&v2.DescribeTargetGroupsInput{})).TargetGroups {
		must[*v2.ModifyTargetGroupAttributesOutput](t)(elb.ModifyTargetGroupAttributes(t.Context(),
			&v2.ModifyTargetGroupAttributesInput{TargetGroupArn: g.TargetGroupArn, Attributes: []types.TargetGroupAttribute{{
				Key: aws.String("deregistration_delay.timeout_seconds"), Value: aws.String("3")}}}))
	}
	name, targets, scalingGroup := r.deployFront()
	hosts = append(hosts, name)
	must[*autoscaling.AttachLoadBalancerTargetGroupsOutput](t)(asg.AttachLoadBalancerTargetGroups(t.Context(),
		&autoscaling.AttachLoadBalancerTargetGroupsInput{AutoScalingGroupName: &scalingGroup,
			TargetGroupARNs: []string{targets}}))
	for _, host := range hosts {
		r.until(host+" answers", func() error { return get(t.Context(), host) })
	}
	before := r.instances(targets)
	if len(before) != 2 {
		t.Errorf("registered are %v", before)
	}
	var askers []*asker
	for _, host := range hosts {
		askers = append(askers, ask(t, host))
	}

	clusters := eks.NewFromConfig(config)
	update := must[*eks.UpdateNodegroupVersionOutput](t)(clusters.UpdateNodegroupVersion(t.Context(),
		&eks.UpdateNodegroupVersionInput{ClusterName: &r.Cluster, NodegroupName: aws.String("workers"),
			ReleaseVersion: &latest})).Update
	r.until("the update ends", func() error {
		now := must[*eks.DescribeUpdateOutput](t)(clusters.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{
			Name: &r.Cluster, NodegroupName: aws.String("workers"), UpdateId: update.Id})).Update
		if now.Status == ekstypes.UpdateStatusInProgress {
			return errors.New("it is in progress")
		}
		if now.Status != ekstypes.UpdateStatusSuccessful {
			t.Fatalf("the update is %s", harness.Text(now))
		}
		return nil
	})
	for i, a := range askers {
		answered, failed := a.end()
		t.Logf("%s: %d requests, %d failed", hosts[i], answered, len(failed))
		if answered == 0 {
			t.Errorf("%s was not asked", hosts[i])
		}
		for _, f := range failed[:min(len(failed), 5)] {
			t.Errorf("%s: %s", hosts[i], f)
		}
	}
	after := r.instances(targets)
	if len(after) != 2 || slices.ContainsFunc(after, func(id string) bool { return slices.Contains(before, id) }) {
		t.Errorf("registered were %v, and are %v", before, after)
	}
	must[*autoscaling.DetachLoadBalancerTargetGroupsOutput](t)(asg.DetachLoadBalancerTargetGroups(t.Context(),
		&autoscaling.DetachLoadBalancerTargetGroupsInput{AutoScalingGroupName: &scalingGroup,
			TargetGroupARNs: []string{targets}}))
	r.until("the target group is removed", func() error {
		left := must[*autoscaling.DescribeTrafficSourcesOutput](t)(asg.DescribeTrafficSources(t.Context(),
			&autoscaling.DescribeTrafficSourcesInput{AutoScalingGroupName: &scalingGroup})).TrafficSources
		if len(left) > 0 {
			return fmt.Errorf("it is %s", *left[0].State)
		}
		return nil
	})
	r.AWS(nil, "cloudformation", "delete-stack", "--stack-name", "front")
	r.AWS(nil, "cloudformation", "wait", "stack-delete-complete", "--stack-name", "front")
	if left := must[*v2.DescribeLoadBalancersOutput](t)(elb.DescribeLoadBalancers(t.Context(),
		&v2.DescribeLoadBalancersInput{})).LoadBalancers; len(left) != 1 {
		t.Errorf("left are %+v", left)
	}
}

// deployFront makes the stack, and lets its traffic to the nodes. It returns the name of the load balancer, the ARN of
// the target group, and the Auto Scaling group of the nodes.
func (r *rig) deployFront() (name, targets, scalingGroup string) {
	r.t.Helper()
	var subnets struct{ Subnets []struct{ VpcId string } }
	r.AWS(&subnets, "ec2", "describe-subnets", "--subnet-ids", r.SubnetIDs[0])
	r.AWS(nil, "ec2", "authorize-security-group-ingress", "--group-id", r.Group, "--protocol", "tcp", "--port", nodePort,
		"--cidr", "0.0.0.0/0")
	r.AWS(nil, "cloudformation", "create-stack", "--stack-name", "front", "--template-body", front, "--parameters",
		fmt.Sprintf(`[{"ParameterKey": "Vpc", "ParameterValue": %q}, {"ParameterKey": "Subnets", "ParameterValue": %q}]`,
			subnets.Subnets[0].VpcId, strings.Join(r.SubnetIDs[:2], ",")))
	r.AWS(nil, "cloudformation", "wait", "stack-create-complete", "--stack-name", "front")
	var stacks struct {
		Stacks []struct {
			Outputs []struct{ OutputKey, OutputValue string }
		}
	}
	r.AWS(&stacks, "cloudformation", "describe-stacks", "--stack-name", "front")
	for _, o := range stacks.Stacks[0].Outputs {
		switch o.OutputKey {
		case "Name":
			name = o.OutputValue
		case "Targets":
			targets = o.OutputValue
		}
	}
	var group struct {
		Nodegroup struct {
			Resources struct{ AutoScalingGroups []struct{ Name string } }
		}
	}
	r.AWS(&group, "eks", "describe-nodegroup", "--cluster-name", r.Cluster, "--nodegroup-name", "workers")
	return name, targets, group.Nodegroup.Resources.AutoScalingGroups[0].Name
}

// instances returns the instances that are registered with a target group and do not leave it.
func (r *rig) instances(targets string) (ids []string) {
	r.t.Helper()
	for _, d := range must[*v2.DescribeTargetHealthOutput](r.t)(v2.NewFromConfig(r.Daemon.Config()).DescribeTargetHealth(
		r.t.Context(), &v2.DescribeTargetHealthInput{TargetGroupArn: &targets})).TargetHealthDescriptions {
		if d.TargetHealth.State != types.TargetHealthStateEnumDraining {
			ids = append(ids, *d.Target.Id)
		}
	}
	return ids
}
