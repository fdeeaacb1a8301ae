package stack_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	asgservice "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	asgresource "github.com/coracle-eks/coracle/internal/controller/stack/resource/autoscaling"
	ec2resource "github.com/coracle-eks/coracle/internal/controller/stack/resource/ec2"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// groups is a fixture with EC2 and Auto Scaling, their controllers, and the handlers of their types. Only the machines
// are make-believe.
type groups struct {
	*fixture
	scaling  *autoscaling.Client
	image    string
	signaled map[string]bool // instances
}

func newGroups(t *testing.T) groups {
	t.Helper()
	w := newFixture(t)
	machines := ec2service.New(ec2service.Options{Store: w.Store})
	machines.Register(w.Mux)
	asgservice.New(asgservice.Options{Store: w.Store, EC2: machines,
		ServiceLinkedRoles: iamservice.NewServiceLinkedRoles(w.Store, nil)}).Register(w.Mux)
	maps.Copy(w.types, ec2resource.Types)
	maps.Copy(w.types, asgresource.Types)
	config := configure(w.Mux, w.Identity)(iamtest.Region, record.ForwardedSession{}, "", "")
	controllers := append(instance.New(instance.Options{Store: w.Store, EC2: machines.InstanceLifecycle()}).Controllers(),
		reconcile.Controller{Name: "hardware", Reconcile: w.observe,
			Sources: []reconcile.Source{reconcile.Table(record.Instances(w.Store), "")}})
	controllers = append(controllers, autoscalinggroup.New(autoscalinggroup.Options{Store: w.Store,
		API: asgservice.NewUpkeep(asgservice.Options{Store: w.Store}), Log: slog.New(slog.DiscardHandler),
		EC2: func(account, _, role string) autoscalinggroup.EC2 {
			its := config
			its.Credentials = w.Identity.ServiceRoleCredentials(account, path.Base(role), "AutoScaling")
			return ec2sdk.NewFromConfig(its)
		},
	}).Controllers()...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	image, ok := ami.ByParameter(iamtest.Region,
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		t.Fatal("no image")
	}
	client := autoscaling.New(autoscaling.Options{Region: iamtest.Region, BaseEndpoint: aws.String(w.URL),
		HTTPClient: w.http, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return w.Root, nil
		})})
	return groups{w, client, image.ID, map[string]bool{}}
}

// observe says of each instance what is wanted of it.
func (f *fixture) observe(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(f.Store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now, _ := record.Machines(f.Store).Get(ctx, key)
	if now.Value.State == row.Value.Wanted && now.Value.Boot == row.Value.Boot ||
		now.Value.State == ec2types.InstanceStateNameTerminated {
		return reconcile.Result{}, nil
	}
	_, err = record.Machines(f.Store).Put(ctx, key, record.Machine{InstanceID: row.Value.ID, State: row.Value.Wanted,
		Boot: row.Value.Boot, SystemStatus: ec2types.SummaryStatusOk, InstanceStatus: ec2types.SummaryStatusOk})
	return reconcile.Result{}, err
}

// body is the template of a stack with a group of instances of a type.
func (g groups) body(instanceType string, desired int, policies string) string {
	return fmt.Sprintf(`{"Resources":{
		"Vpc":{"Type":"AWS::EC2::VPC","Properties":{"CidrBlock":"10.0.0.0/16"}},
		"Subnet":{"Type":"AWS::EC2::Subnet","Properties":{"VpcId":{"Ref":"Vpc"},"CidrBlock":"10.0.0.0/24"}},
		"Template":{"Type":"AWS::EC2::LaunchTemplate","Properties":{"LaunchTemplateData":{"ImageId":%q,
			"InstanceType":%q}}},
		"Group":{"Type":"AWS::AutoScaling::AutoScalingGroup",%s"Properties":{"MinSize":"0","MaxSize":"6",
			"DesiredCapacity":"%d","VPCZoneIdentifier":[{"Ref":"Subnet"}],"LaunchTemplate":{
				"LaunchTemplateId":{"Ref":"Template"},"Version":{"Fn::GetAtt":["Template","LatestVersionNumber"]}}}}}}`,
		g.image, instanceType, policies, desired)
}

// group is an Auto Scaling group as tests look at it.
type group struct {
	desired   int
	types     map[string]string // of the instances that are in service, by their ID
	suspended []string
}

// kinds returns the types of the instances: "m5.large:2".
func (g group) kinds() string {
	counts := map[string]int{}
	for _, kind := range g.types {
		counts[kind]++
	}
	var texts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s:%d", kind, counts[kind]))
	}
	return strings.Join(texts, " ")
}

// groups returns all groups by their names.
func (g groups) groups() map[string]group {
	g.t.Helper()
	out := awstest.Must[*autoscaling.DescribeAutoScalingGroupsOutput](g.t)(g.scaling.DescribeAutoScalingGroups(
		g.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{}))
	all := map[string]group{}
	for _, a := range out.AutoScalingGroups {
		found := group{desired: int(*a.DesiredCapacity), types: map[string]string{}}
		for _, i := range a.Instances {
			if i.LifecycleState == "InService" {
				found.types[*i.InstanceId] = aws.ToString(i.InstanceType)
			}
		}
		for _, p := range a.SuspendedProcesses {
			found.suspended = append(found.suspended, *p.ProcessName)
		}
		all[*a.AutoScalingGroupName] = found
	}
	return all
}

// only returns the one group that there is.
func (g groups) only() group {
	g.t.Helper()
	all := g.groups()
	if len(all) != 1 {
		g.t.Fatalf("there are %d groups", len(all))
	}
	for _, found := range all {
		return found
	}
	return group{}
}

// awaitKinds waits until the group has instances of those types.
func (g groups) awaitKinds(want string) {
	g.t.Helper()
	eventually.Nil(g.t, "the group has "+want, func() error {
		if got := g.only().kinds(); got != want {
			return fmt.Errorf("it has %s", got)
		}
		return nil
	})
}

// paused waits until the rolling update of the group pauses.
func (g groups) paused(stack string) {
	g.t.Helper()
	arn := strings.Split(*g.describe(stack).StackId, "/")
	key := record.StackResourceKey(iamtest.Account, iamtest.Region, arn[len(arn)-1], "Group")
	eventually.Nil(g.t, "the rolling update pauses", func() error {
		row, err := record.StackResources(g.Store).Get(g.t.Context(), key)
		if err == nil && (row.Value.Work == nil || row.Value.Work.Policy["paused"] == "") {
			err = fmt.Errorf("it does not\n%s", strings.Join(g.events(stack), "\n"))
		}
		return err
	})
}

// batches returns how many batches rolling updates of a stack have had.
func (g groups) batches(stack string) (n int) {
	for _, e := range g.events(stack) {
		if strings.Contains(e, "; replacing with ") {
			n++
		}
	}
	return n
}

// awaitSignaled waits for the status of a stack. Meanwhile, each instance that comes in service signals what signals
// says of its type, once.
func (g groups) awaitSignaled(stack string, want types.StackStatus, signals map[string]types.ResourceSignalStatus) {
	g.t.Helper()
	eventually.Nil(g.t, fmt.Sprintf("stack %s becomes %s", stack, want), func() error {
		for _, found := range g.groups() {
			for id, kind := range found.types {
				if signals[kind] == "" || g.signaled[id] {
					continue
				}
				_, err := g.SignalResource(g.t.Context(), &cloudformation.SignalResourceInput{StackName: &stack,
					LogicalResourceId: aws.String("Group"), UniqueId: &id, Status: signals[kind]})
				g.signaled[id] = err == nil // otherwise the resource is not created or updated yet
			}
		}
		s := g.describe(stack)
		if s.StackStatus == want {
			return nil
		}
		err := fmt.Errorf("it is %s\n%s", s.StackStatus, strings.Join(g.events(stack), "\n"))
		if !strings.HasSuffix(string(s.StackStatus), "_IN_PROGRESS") {
			return eventually.Never(err)
		}
		return err
	})
}

// A rolling update replaces instances in batches, with pauses, while some processes are suspended.
func TestARollingUpdate(t *testing.T) {
	t.Parallel()
	g := newGroups(t)
	const policy = `"UpdatePolicy":{"AutoScalingRollingUpdate":{"MaxBatchSize":2,"MinInstancesInService":1,
		"PauseTime":"PT5M","SuspendProcesses":["AlarmNotification"]}},`
	g.create("s", g.body("m5.large", 3, policy))
	g.await("s", types.StackStatusCreateComplete)
	g.awaitKinds("m5.large:3")

	g.update("s", g.body("m5.xlarge", 3, policy))
	g.paused("s")
	g.wantEvents("s", "Rolling update initiated. Terminating 3 obsolete instance(s) in batches of 2, while keeping at "+
		"least 1 instance(s) in service.", "; replacing with 2 new instance(s).")
	if got := g.only(); got.kinds() != "m5.large:1 m5.xlarge:2" || !slices.Equal(got.suspended,
		[]string{"AlarmNotification"}) || g.has("s", "; replacing with 1 new instance(s).") {
		t.Errorf("after the first batch the group is %+v\n%s", got, strings.Join(g.events("s"), "\n"))
	}
	g.advance(6 * time.Minute)
	g.awaitEvent("s", "; replacing with 1 new instance(s).")
	g.awaitKinds("m5.xlarge:3")
	g.paused("s")
	g.advance(6 * time.Minute)
	g.await("s", types.StackStatusUpdateComplete)
	if got := g.only(); got.kinds() != "m5.xlarge:3" || len(got.suspended) > 0 || got.desired != 3 {
		t.Errorf("after the update the group is %+v", got)
	}

	// A rolling update is canceled in a pause: what it has begun is taken back.
	g.update("s", g.body("m5.large", 3, policy))
	g.paused("s")
	if _, err := g.CancelUpdateStack(t.Context(), &cloudformation.CancelUpdateStackInput{
		StackName: aws.String("s")}); err != nil {
		t.Fatal(err)
	}
	g.awaitEvent("s", "Terminating 2 obsolete instance(s) in batches of 2")
	g.paused("s")
	g.advance(6 * time.Minute)
	g.await("s", types.StackStatusUpdateRollbackComplete)
	if got := g.only(); got.kinds() != "m5.xlarge:3" || len(got.suspended) > 0 || got.desired != 3 {
		t.Errorf("after the rollback the group is %+v", got)
	}
}

// A rolling update goes on with fewer instances than are desired if its policy says so, and waits for those it needs.
func TestARollingUpdateWithFewActiveInstances(t *testing.T) {
	t.Parallel()
	g := newGroups(t)
	const policy = `"UpdatePolicy":{"AutoScalingRollingUpdate":{"MaxBatchSize":1,"MinActiveInstancesPercent":75}},`
	g.create("s", g.body("m5.large", 4, policy))
	g.await("s", types.StackStatusCreateComplete)
	g.awaitKinds("m5.large:4")
	name := slices.Collect(maps.Keys(g.groups()))[0]
	launch := []string{"Launch"}
	awstest.Must[*autoscaling.SuspendProcessesOutput](t)(g.scaling.SuspendProcesses(t.Context(),
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: &name, ScalingProcesses: launch}))
	g.update("s", g.body("m5.xlarge", 4, policy))
	g.awaitKinds("m5.large:2") // 3 in service are enough for the second batch, and 2 are not for the third
	if n := g.batches("s"); n != 2 {
		t.Errorf("there are %d batches\n%s", n, strings.Join(g.events("s"), "\n"))
	}
	awstest.Must[*autoscaling.ResumeProcessesOutput](t)(g.scaling.ResumeProcesses(t.Context(),
		&autoscaling.ResumeProcessesInput{AutoScalingGroupName: &name, ScalingProcesses: launch}))
	g.await("s", types.StackStatusUpdateComplete)
	g.awaitKinds("m5.xlarge:4")
}

// What instances signal, by their type.
var (
	large     = map[string]types.ResourceSignalStatus{"m5.large": types.ResourceSignalStatusSuccess}
	xlarge    = map[string]types.ResourceSignalStatus{"m5.xlarge": types.ResourceSignalStatusSuccess}
	bigFails  = map[string]types.ResourceSignalStatus{"m5.2xlarge": types.ResourceSignalStatusFailure}
	bigFailed = map[string]types.ResourceSignalStatus{"m5.2xlarge": types.ResourceSignalStatusFailure,
		"m5.xlarge": types.ResourceSignalStatusSuccess}
)

// A rolling update waits for a signal of each new instance. One that fails is rolled back, and leaves nothing.
func TestARollingUpdateWithSignals(t *testing.T) {
	t.Parallel()
	g := newGroups(t)
	const policy = `"CreationPolicy":{"ResourceSignal":{"Count":2,"Timeout":"PT10M"}},
		"UpdatePolicy":{"AutoScalingRollingUpdate":{"MaxBatchSize":1,"MinInstancesInService":2,"PauseTime":"PT10M",
		"WaitOnResourceSignals":true,"SuspendProcesses":["AlarmNotification"]}},`
	g.create("s", g.body("m5.large", 2, policy))
	g.awaitSignaled("s", types.StackStatusCreateComplete, large)
	g.update("s", g.body("m5.xlarge", 2, policy))
	g.awaitSignaled("s", types.StackStatusUpdateComplete, xlarge)
	g.awaitKinds("m5.xlarge:2") // the group was larger for the time of the update
	if got := g.only(); got.desired != 2 || len(got.suspended) > 0 {
		t.Errorf("after the update the group is %+v", got)
	}

	g.update("s", g.body("m5.2xlarge", 2, policy))
	g.awaitSignaled("s", types.StackStatusUpdateRollbackComplete, bigFailed)
	g.wantEvents("s", "FAILURE signal(s) out of 2. Unable to satisfy 100% MinSuccessfulInstancesPercent requirement",
		"UPDATE_ROLLBACK_IN_PROGRESS The following resource(s) failed to update: [Group].")
	g.awaitKinds("m5.xlarge:2")
	if got := g.only(); got.desired != 2 || len(got.suspended) > 0 {
		t.Errorf("after the rollback the group is %+v", got)
	}

	// Of two instances, one may never signal.
	lenient := strings.Replace(policy, "true", `true,"MinSuccessfulInstancesPercent":50`, 1)
	before := g.batches("s")
	g.update("s", g.body("m5.4xlarge", 2, lenient))
	for i := range 2 {
		eventually.True(t, "the next batch begins", func() bool { return g.batches("s") == before+i+1 })
		g.paused("s")
		g.advance(11 * time.Minute)
	}
	g.awaitEvent("s", "Failed to receive 1 resource signal(s) within the specified duration")
	g.awaitSignaled("s", types.StackStatusUpdateRollbackComplete, xlarge)
	g.awaitKinds("m5.xlarge:2")
}

// A replacing update makes another group, which waits for signals, and then deletes the first.
func TestAReplacingUpdate(t *testing.T) {
	t.Parallel()
	g := newGroups(t)
	const policy = `"CreationPolicy":{"ResourceSignal":{"Count":2,"Timeout":"PT10M"},
		"AutoScalingCreationPolicy":{"MinSuccessfulInstancesPercent":50}},
		"UpdatePolicy":{"AutoScalingReplacingUpdate":{"WillReplace":true}},`
	id := g.create("s", g.body("m5.large", 2, policy))
	g.awaitSignaled("s", types.StackStatusCreateComplete, large)
	first := g.physical("s", "Group")
	g.update("s", g.body("m5.xlarge", 2, policy))
	g.awaitSignaled("s", types.StackStatusUpdateComplete, xlarge)
	second := g.physical("s", "Group")
	if second == first {
		t.Errorf("the group is still %s", first)
	}
	g.awaitKinds("m5.xlarge:2")

	g.update("s", g.body("m5.2xlarge", 2, policy))
	g.awaitSignaled("s", types.StackStatusUpdateRollbackComplete, bigFails)
	if got := g.physical("s", "Group"); got != second {
		t.Errorf("after the rollback the group is %s, want %s", got, second)
	}
	g.awaitKinds("m5.xlarge:2")
	g.delete("s")
	g.await(id, types.StackStatusDeleteComplete)
	if all := g.groups(); len(all) > 0 {
		t.Errorf("left behind: %v", all)
	}
}
