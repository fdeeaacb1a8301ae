package autoscaling_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/ami"
	coracle "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/aws/elb"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	rootARN = "arn:aws:iam::" + account + ":root"
	roleARN = "arn:aws:iam::" + account +
		":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
)

// fixture is Auto Scaling and EC2 behind the real wire, with the controllers of both; only the machines are
// make-believe.
type fixture struct {
	t testing.TB
	*autoscaling.Client
	ec2     *ec2.Client // of the user
	url     string
	etcd    *clientv3.Client
	prefix  string
	store   *store.Store
	service *coracle.Service
	mux     *wire.Mux
	clock   *clocktesting.FakeClock

	*awstest.Judge

	vpc      string
	subnets  []string // in zones a, b and c
	template string   // ID

	mu      sync.Mutex
	broken  string // why no machine boots
	slow    bool   // machines stay pending
	runs    []ec2.RunInstancesInput
	wrap    func(autoscalinggroup.EC2) autoscalinggroup.EC2
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{t: t, etcd: storetest.Client(t), prefix: storetest.Prefix(t), Judge: awstest.NewJudge(),
		clock: clocktesting.NewFakeClock(time.Now().UTC().Truncate(time.Millisecond))}
	w.Sessions = map[string]wire.Caller{"ASIAROLE": {
		Account: account, ARN: "arn:aws:sts::" + account + ":assumed-role/AWSServiceRoleForAutoScaling/AutoScaling",
		PrincipalARN: roleARN, UserID: "AROAX:AutoScaling", SessionName: "AutoScaling",
	}}
	var err error
	if w.store, err = store.Open(t.Context(), w.etcd, store.Options{Prefix: w.prefix,
		Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	w.mux = wire.NewMux(wire.Options{Credentials: w, Authorizer: w, Region: region})
	machines := ec2service.New(ec2service.Options{Store: w.store})
	w.service = coracle.New(coracle.Options{Store: w.store, EC2: machines,
		ServiceLinkedRoles: iamservice.NewServiceLinkedRoles(w.store, nil), Now: w.clock.Now})
	machines.Register(w.mux)
	w.service.Register(w.mux)
	elb.Register(w.mux, elb.Options{Store: w.store, EC2: machines.NetworkInterfaces.Records, Now: w.clock.Now})
	server := httptest.NewServer(w.mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.Client = autoscaling.New(autoscaling.Options{
		Region: region, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
		HTTPClient:  &http.Client{Transport: w.mux.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
	})
	w.ec2 = w.client("AKIAROOT")
	ctx, cancel := context.WithCancel(context.Background())
	w.background(ctx, append(instance.New(instance.Options{Store: w.store,
		EC2: machines.InstanceLifecycle()}).Controllers(), reconcile.Controller{
		Name: "hardware", Reconcile: w.hardware, Sources: []reconcile.Source{reconcile.Table(record.Instances(w.store),
			"")},
	})...)
	w.startController()
	t.Cleanup(func() { w.stopController(); cancel(); w.running.Wait() })

	w.vpc = *awstest.Must[*ec2.CreateVpcOutput](t)(w.ec2.CreateVpc(t.Context(),
		&ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})).Vpc.VpcId
	for i, zone := range []string{"a", "b", "c"} {
		cidr := []string{"10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"}[i]
		w.subnets = append(w.subnets, w.subnet(cidr, zone))
	}
	w.template = w.launchTemplate("nodes", ec2types.RequestLaunchTemplateData{ImageId: aws.String(image(t)),
		InstanceType: "m5.large"})
	return w
}

func (w *fixture) background(ctx context.Context, controllers ...reconcile.Controller) {
	w.running.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...); err != nil {
			w.t.Error(err)
		}
	})
}

// startController starts the controller of groups, as a daemon does that starts.
func (w *fixture) startController() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	controller := autoscalinggroup.New(autoscalinggroup.Options{
		Store: w.store, Clock: w.clock, API: w.upkeep(), Log: slog.New(slog.DiscardHandler),
		Classic: func(_, _, _ string) autoscalinggroup.Classic { return w.classic("ASIAROLE") },
		TargetGroups: func(_, _, _ string) autoscalinggroup.TargetGroups {
			return w.balancing("ASIAROLE")
		},
		EC2: func(_, _, role string) autoscalinggroup.EC2 {
			if role != roleARN {
				w.t.Errorf("the role is %s", role)
			}
			var client autoscalinggroup.EC2 = recorder{w.client("ASIAROLE"), w}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.wrap != nil {
				client = w.wrap(client)
			}
			return client
		},
	})
	done.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), controller.Controllers()...); err != nil {
			w.t.Error(err)
		}
	})
	w.stop = func() { cancel(); done.Wait() }
}

func (w *fixture) stopController() { w.stop() }

// recorder remembers what was launched.
type recorder struct {
	*ec2.Client
	w *fixture
}

func (r recorder) RunInstances(ctx context.Context, in *ec2.RunInstancesInput, o ...func(*ec2.Options)) (
	*ec2.RunInstancesOutput, error) {
	r.w.mu.Lock()
	r.w.runs = append(r.w.runs, *in)
	r.w.mu.Unlock()
	return r.Client.RunInstances(ctx, in, o...)
}

// client returns a client of EC2 inside the process.
func (w *fixture) client(accessKey string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: region, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
		HTTPClient:  &http.Client{Transport: w.mux.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, "secret", ""),
	})
}

// hardware observes of each instance what is wanted of it.
func (w *fixture) hardware(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(w.store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now, _ := record.Machines(w.store).Get(ctx, key)
	want := record.Machine{
		InstanceID: row.Value.ID, State: row.Value.Wanted, Boot: row.Value.Boot, SystemStatus: ec2types.SummaryStatusOk,
		InstanceStatus: ec2types.SummaryStatusOk,
	}
	w.mu.Lock()
	if w.slow && now.Value.InstanceID == "" && want.State == ec2types.InstanceStateNameRunning {
		w.mu.Unlock()
		return reconcile.Result{After: 5 * time.Millisecond}, nil
	}
	if w.broken != "" && now.Value.InstanceID == "" {
		want.State, want.FailureCode, want.Failure = ec2types.InstanceStateNameTerminated, "Server.InternalError",
			w.broken
	}
	w.mu.Unlock()
	if now.Value.State == want.State && now.Value.Boot == want.Boot ||
		now.Value.State == ec2types.InstanceStateNameTerminated {
		return reconcile.Result{}, nil
	}
	_, err = record.Machines(w.store).Put(ctx, key, want)
	return reconcile.Result{}, err
}

// set changes what the fixture is like.
func (w *fixture) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// machine changes what is observed of an instance.
func (w *fixture) machine(id string, change func(*record.Machine)) {
	w.t.Helper()
	if _, err := record.Machines(w.store).Modify(w.t.Context(), record.EC2Key(account, region, id),
		func(m *record.Machine) error { change(m); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) subnet(cidr, zone string) string {
	w.t.Helper()
	return *awstest.Must[*ec2.CreateSubnetOutput](w.t)(w.ec2.CreateSubnet(w.t.Context(), &ec2.CreateSubnetInput{
		VpcId:     &w.vpc,
		CidrBlock: &cidr, AvailabilityZone: aws.String(region + zone)})).Subnet.SubnetId
}

func (w *fixture) launchTemplate(name string, data ec2types.RequestLaunchTemplateData) string {
	w.t.Helper()
	return *awstest.Must[*ec2.CreateLaunchTemplateOutput](w.t)(w.ec2.CreateLaunchTemplate(w.t.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
			LaunchTemplateData: &data})).LaunchTemplate.LaunchTemplateId
}

func image(t testing.TB) string {
	t.Helper()
	i, ok := ami.ByParameter(region,
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		t.Fatal("no image")
	}
	return i.ID
}

// create makes a group of the template in all three zones, unless the request says otherwise.
func (w *fixture) create(name string, min, max, desired int32,
	change ...func(*autoscaling.CreateAutoScalingGroupInput),
) {
	w.t.Helper()
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &name, MinSize: &min, MaxSize: &max, DesiredCapacity: &desired,
		VPCZoneIdentifier: aws.String(strings.Join(w.subnets, ",")),
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &w.template,
			Version: aws.String("$Latest")},
	}
	for _, c := range change {
		c(in)
	}
	awstest.Must[*autoscaling.CreateAutoScalingGroupOutput](w.t)(w.CreateAutoScalingGroup(w.t.Context(), in))
}

// group returns a group as the API shows it; its name is empty when there is none.
func (w *fixture) group(name string) types.AutoScalingGroup {
	w.t.Helper()
	out := awstest.Must[*autoscaling.DescribeAutoScalingGroupsOutput](w.t)(w.DescribeAutoScalingGroups(w.t.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}}))
	if len(out.AutoScalingGroups) == 0 {
		return types.AutoScalingGroup{}
	}
	return out.AutoScalingGroups[0]
}

// in returns the IDs of the instances of a group in a state, sorted.
func (w *fixture) in(name string, state types.LifecycleState) []string {
	var ids []string
	for _, i := range w.group(name).Instances {
		if i.LifecycleState == state {
			ids = append(ids, *i.InstanceId)
		}
	}
	slices.Sort(ids)
	return ids
}

// serves waits until a group has exactly n instances, all of them in service.
func (w *fixture) serves(name string, n int) []string {
	w.t.Helper()
	w.eventually("all instances of "+name+" are in service", func() bool {
		return len(w.in(name, types.LifecycleStateInService)) == n && len(w.group(name).Instances) == n
	})
	return w.in(name, types.LifecycleStateInService)
}

// eventually waits like True of package eventually, and reports what the controller has done when it fails.
func (w *fixture) eventually(what string, ok func() bool) {
	w.t.Helper()
	err := eventually.Try(10*time.Millisecond, func() error {
		if !ok() {
			return errors.New("it is not so")
		}
		return nil
	})
	if err != nil {
		for _, a := range w.activities("") {
			w.t.Logf("%s %s: %s (%s)", a.StatusCode, *a.Description, *a.Cause, aws.ToString(a.StatusMessage))
		}
		w.t.Fatalf("%s: %v", what, err)
	}
}

// activities returns the scaling activities of a group, or all, newest first.
func (w *fixture) activities(name string) []types.Activity {
	in := &autoscaling.DescribeScalingActivitiesInput{}
	if name != "" {
		in.AutoScalingGroupName = &name
	}
	out, err := w.DescribeScalingActivities(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Activities
}

// tags returns the tags of an instance.
func (w *fixture) tags(id string) map[string]string {
	w.t.Helper()
	out := awstest.Must[*ec2.DescribeInstancesOutput](w.t)(w.ec2.DescribeInstances(w.t.Context(),
		&ec2.DescribeInstancesInput{InstanceIds: []string{id}}))
	tags := make(map[string]string)
	for _, t := range out.Reservations[0].Instances[0].Tags {
		tags[*t.Key] = *t.Value
	}
	return tags
}

// alive returns the instances that EC2 has running or pending.
func (w *fixture) alive() []ec2types.Instance {
	w.t.Helper()
	out := awstest.Must[*ec2.DescribeInstancesOutput](w.t)(
		w.ec2.DescribeInstances(w.t.Context(), &ec2.DescribeInstancesInput{
			Filters: []ec2types.Filter{{Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}}},
		}),
	)
	var all []ec2types.Instance
	for _, r := range out.Reservations {
		all = append(all, r.Instances...)
	}
	return all
}
