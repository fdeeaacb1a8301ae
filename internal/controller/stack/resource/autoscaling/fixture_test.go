package autoscaling_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	autoscalingsdk "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	classicsdk "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	v2sdk "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/ami"
	asgservice "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	elbservice "github.com/coracle-eks/coracle/internal/aws/elb"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/autoscaling"
	"github.com/coracle-eks/coracle/internal/controller/volume"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/simulated"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	stackID = "arn:aws:cloudformation:eu-west-1:111122223333:stack/lake/1f3d"
	roleARN = "arn:aws:iam::" + awstest.Account +
		":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
)

// fixture is Auto Scaling and EC2 with their controllers; only the machines are make-believe.
type fixture struct {
	t      *testing.T
	config aws.Config
	client *autoscalingsdk.Client
	etcd   *clientv3.Client
	prefix string
	store  *store.Store
	names  map[string]string // what $name in properties stands for
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, etcd: storetest.Client(t), prefix: storetest.Prefix(t), names: map[string]string{}}
	w.store = storetest.NewAt(t, w.prefix)
	judge := awstest.NewJudge()
	judge.Sessions = map[string]wire.Caller{
		"ASIAROLE": {Account: awstest.Account, PrincipalARN: roleARN, UserID: "AROAX:AutoScaling",
			SessionName: "AutoScaling",
			ARN:         "arn:aws:sts::" + awstest.Account + ":assumed-role/AWSServiceRoleForAutoScaling/AutoScaling"},
		"ASIASTACK": stackCaller(),
	}
	mux := wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, Region: awstest.Region})
	machines := ec2service.New(ec2service.Options{Store: w.store})
	machines.Register(mux)
	asgservice.New(asgservice.Options{Store: w.store, EC2: machines,
		ServiceLinkedRoles: iamservice.NewServiceLinkedRoles(w.store, nil)}).Register(mux)
	elbservice.Register(mux, elbservice.Options{Store: w.store, EC2: machines.NetworkInterfaces.Records})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	connections := awsclient.HTTP()
	t.Cleanup(connections.CloseIdleConnections)
	config := func(key string) aws.Config {
		return aws.Config{Region: awstest.Region, BaseEndpoint: aws.String(server.URL), HTTPClient: connections,
			Credentials: credentials.NewStaticCredentialsProvider(key, "secret", ""),
			Retryer:     func() aws.Retryer { return aws.NopRetryer{} }}
	}
	w.config, w.client = config("ASIASTACK"), autoscalingsdk.NewFromConfig(config("AKIAROOT"))
	controllers := append(instance.New(instance.Options{Store: w.store, EC2: machines.InstanceLifecycle()}).Controllers(),
		reconcile.Controller{Name: "hardware", Reconcile: w.observe,
			Sources: []reconcile.Source{reconcile.Table(record.Instances(w.store), "")}})
	// Instances are gone when their root volumes are.
	controllers = append(controllers, simulated.NewVolumes(w.store).Controllers()...)
	controllers = append(controllers, volume.New(volume.Options{Store: w.store,
		EC2: machines.VolumeLifecycle()}).Controllers()...)
	controllers = append(controllers, autoscalinggroup.New(autoscalinggroup.Options{Store: w.store,
		API: asgservice.NewUpkeep(asgservice.Options{Store: w.store}), Log: slog.New(slog.DiscardHandler),
		EC2: func(_, _, _ string) autoscalinggroup.EC2 { return ec2sdk.NewFromConfig(config("ASIAROLE")) },
		Classic: func(_, _, _ string) autoscalinggroup.Classic {
			return classicsdk.NewFromConfig(config("ASIAROLE"))
		},
		TargetGroups: func(_, _, _ string) autoscalinggroup.TargetGroups {
			return v2sdk.NewFromConfig(config("ASIAROLE"))
		},
	}).Controllers()...)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := reconcile.Run(ctx, slog.New(slog.DiscardHandler), controllers...); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	w.makeNetwork(ec2sdk.NewFromConfig(config("AKIAROOT")))
	w.makeBalancers(config("AKIAROOT"))
	return w
}

// stackCaller is CloudFormation on behalf of the root user.
func stackCaller() wire.Caller {
	return wire.Caller{Account: awstest.Account, ARN: awstest.RootARN, PrincipalARN: awstest.RootARN,
		UserID: awstest.Account, Service: wire.CloudFormationPrincipal}
}

// observe says of each instance what is wanted of it.
func (w *fixture) observe(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(w.store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now, _ := record.Machines(w.store).Get(ctx, key)
	if now.Value.State == row.Value.Wanted && now.Value.Boot == row.Value.Boot ||
		now.Value.State == ec2types.InstanceStateNameTerminated {
		return reconcile.Result{}, nil
	}
	_, err = record.Machines(w.store).Put(ctx, key, record.Machine{InstanceID: row.Value.ID, State: row.Value.Wanted,
		Boot: row.Value.Boot, SystemStatus: ec2types.SummaryStatusOk, InstanceStatus: ec2types.SummaryStatusOk})
	return reconcile.Result{}, err
}

// makeNetwork makes a VPC with two subnets, and two versions of a launch template.
func (w *fixture) makeNetwork(c *ec2sdk.Client) {
	w.t.Helper()
	ctx := w.t.Context()
	vpc := *awstest.Must[*ec2sdk.CreateVpcOutput](w.t)(c.CreateVpc(ctx,
		&ec2sdk.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})).Vpc.VpcId
	w.names["vpc"] = vpc
	for name, zone := range map[string]string{"subnet": "a", "other": "b"} {
		cidr := map[string]string{"a": "10.0.0.0/24", "b": "10.0.1.0/24"}[zone]
		w.names[name] = *awstest.Must[*ec2sdk.CreateSubnetOutput](w.t)(c.CreateSubnet(ctx, &ec2sdk.CreateSubnetInput{
			VpcId: &vpc, CidrBlock: &cidr, AvailabilityZone: aws.String(awstest.Region + zone)})).Subnet.SubnetId
	}
	image, ok := ami.ByParameter(awstest.Region,
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		w.t.Fatal("no image")
	}
	data := &ec2types.RequestLaunchTemplateData{ImageId: &image.ID, InstanceType: "m5.large"}
	w.names["template"] = *awstest.Must[*ec2sdk.CreateLaunchTemplateOutput](w.t)(c.CreateLaunchTemplate(ctx,
		&ec2sdk.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("nodes"),
			LaunchTemplateData: data})).LaunchTemplate.LaunchTemplateId
	awstest.Must[*ec2sdk.CreateLaunchTemplateVersionOutput](w.t)(c.CreateLaunchTemplateVersion(ctx,
		&ec2sdk.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String(w.names["template"]),
			LaunchTemplateData: data}))
}

// makeBalancers makes what groups may be attached to.
func (w *fixture) makeBalancers(config aws.Config) {
	w.t.Helper()
	for _, name := range []string{"targetgroup", "secondgroup"} {
		w.names[name] = *awstest.Must[*v2sdk.CreateTargetGroupOutput](w.t)(v2sdk.NewFromConfig(config).CreateTargetGroup(
			w.t.Context(), &v2sdk.CreateTargetGroupInput{Name: &name, Protocol: "TCP", Port: aws.Int32(80),
				VpcId: aws.String(w.names["vpc"])})).TargetGroups[0].TargetGroupArn
	}
	awstest.Must[*classicsdk.CreateLoadBalancerOutput](w.t)(classicsdk.NewFromConfig(config).CreateLoadBalancer(
		w.t.Context(), &classicsdk.CreateLoadBalancerInput{LoadBalancerName: aws.String("classic"),
			Scheme: aws.String("internal"), Subnets: []string{w.names["subnet"]},
			Listeners: []classictypes.Listener{{Protocol: aws.String("TCP"), LoadBalancerPort: 80,
				InstancePort: aws.Int32(80)}}}))
}

// expand returns properties, written as JSON, with the names replaced.
func (w *fixture) expand(text string) map[string]any {
	w.t.Helper()
	for name, value := range w.names {
		text = strings.ReplaceAll(text, "$"+name, value)
	}
	var properties map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&properties); err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	return properties
}

func (w *fixture) request(logicalID, properties string) *resource.Request {
	w.t.Helper()
	return &resource.Request{
		Config: w.config, Account: awstest.Account, Region: awstest.Region, Partition: "aws",
		StackID: stackID, StackName: "lake", LogicalID: logicalID, Name: "lake-" + logicalID + "-1A2B3C",
		Token: logicalID + "-create", Properties: w.expand(properties), Now: time.Now,
		Tags: map[string]string{resource.TagStackID: stackID, resource.TagStackName: "lake",
			resource.TagLogicalID: logicalID, "team": "old"},
	}
}

// drive calls a method of a handler until the resource is stable.
func (w *fixture) drive(what string, r *resource.Request, method func(context.Context, *resource.Request) (
	resource.Result, error)) resource.Result {
	w.t.Helper()
	var result resource.Result
	eventually.Nil(w.t, what+" "+r.LogicalID, func() (err error) {
		if result, err = method(w.t.Context(), r); err != nil {
			return eventually.Never(err)
		}
		r.PhysicalID, r.Progress = result.PhysicalID, result.Progress
		if result.Pending > 0 {
			return errors.New("it is not stable")
		}
		return nil
	})
	r.Progress = nil
	return result
}

// keys returns the keys of what the store holds, without what tells of the past, and the service-linked role.
func (w *fixture) keys() []string {
	all := awstest.Must[*clientv3.GetResponse](w.t)(w.etcd.Get(w.t.Context(), w.prefix, clientv3.WithPrefix(),
		clientv3.WithKeysOnly()))
	var keys []string
	for _, kv := range all.Kvs {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), w.prefix))
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return strings.Contains(key, "/i-0") || strings.Contains(strings.ToLower(key), "activity") || strings.Contains(strings.ToLower(key), "activities") ||
			slices.ContainsFunc([]string{"/ec2clienttokens/", "/roles/", "/spotrequests/", "/autoscalinggroupstatuses/"},
				func(table string) bool { return strings.Contains(key, table) })
	})
}

// wantProperties fails the test unless the resource has what its properties say.
func (w *fixture) wantProperties(kind string, r *resource.Request) {
	w.t.Helper()
	got, _, err := autoscaling.Types[kind].Read(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	compare(w.t, "", r.Properties, got)
}

func compare(t *testing.T, path string, want, got map[string]any) {
	t.Helper()
	for name, value := range want {
		if inner, ok := value.(map[string]any); ok {
			live, _ := got[name].(map[string]any)
			compare(t, path+name+".", inner, live)
			continue
		}
		if name == "Tags" { // those of the stack are there as well
			continue
		}
		if w, g := resource.Text(value), resource.Text(got[name]); w != g &&
			!cmp.Equal(texts(value), texts(got[name])) {
			t.Errorf("%s%s is %s, want %s", path, name, g, w)
		}
	}
}

func texts(value any) any {
	list, ok := value.([]any)
	if !ok {
		return resource.Text(value)
	}
	all := make([]any, len(list))
	for i, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			all[i] = texts(element)
			continue
		}
		plain := map[string]any{}
		for name, inner := range object {
			plain[name] = texts(inner)
		}
		all[i] = plain
	}
	return all
}
