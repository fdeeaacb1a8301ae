package nodegroup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/ami"
	autoscalingservice "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account            = "111122223333"
	region             = "eu-west-1"
	rootARN            = "arn:aws:iam::" + account + ":root"
	autoScalingRoleARN = "arn:aws:iam::" + account +
		":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
)

// fixture is a cluster with a real API server, and EC2, Auto Scaling and IAM behind the real wire, with their
// controllers. Only machines and kubelets are make-believe: an instance that runs is a Ready node a moment later.
type fixture struct {
	t *testing.T
	*sharedFixture
}

// in returns the same fixture for another test.
func (w *fixture) in(t *testing.T) *fixture { return &fixture{t, w.sharedFixture} }

// sharedFixture is the part of a fixture that tests share.
type sharedFixture struct {
	store   *store.Store
	etcd    *clientv3.Client
	prefix  string
	mux     *wire.Mux
	server  *apiservertest.Server
	kubelet *apiservertest.Kubelets
	kube    *kubernetes.Clientset
	scaling *autoscaling.Client
	ec2     *ec2.Client
	cluster record.Cluster
	subnets []string
	options nodegroup.Options
	log     *slog.Logger

	mu    sync.Mutex
	dumb  func(group, image string) bool // such nodes never join
	shift time.Duration                  // what the time of the node-group controller is ahead
	stop  func()
	most  map[string]int   // by group: how many nodes were drained at once at most
	sizes map[string]int32 // and by Auto Scaling group, how many instances were desired at most

}

func newFixture(t *testing.T, options nodegroup.Options) *fixture {
	t.Helper()
	server := apiservertest.Start(t, apiservertest.Options{Scheduler: true, Controllers: []string{
		"deployment", "replicaset", "disruption", "endpointslice", "serviceaccount", "pod-garbage-collector-controller",
	}})
	w := &fixture{t, &sharedFixture{server: server, kubelet: server.Kubelets(), kube: server.Admin(),
		etcd: storetest.Client(t), prefix: storetest.Prefix(t), most: map[string]int{}, sizes: map[string]int32{}}}
	w.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.store, err = store.Open(t.Context(), w.etcd, store.Options{Prefix: w.prefix, Log: quiet}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	w.allow()

	role := "role/aws-service-role/eks-nodegroup.amazonaws.com/" + nodegroup.ServiceLinkedRole
	judge := awstest.NewJudge()
	judge.Sessions = map[string]wire.Caller{
		"ASIAEKS": {
			Account: account,
			ARN:     "arn:aws:sts::" + account + ":assumed-role/" + nodegroup.ServiceLinkedRole + "/EKS",
			UserID:  "AROAE:EKS", SessionName: "EKS", PrincipalARN: "arn:aws:iam::" + account + ":" + role,
		},
		"ASIAROLE": {
			Account: account, ARN: "arn:aws:sts::" + account +
				":assumed-role/AWSServiceRoleForAutoScaling/AutoScaling", PrincipalARN: autoScalingRoleARN,
			UserID: "AROAX:AutoScaling", SessionName: "AutoScaling",
		},
	}
	w.mux = wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, Region: region})
	machines := ec2service.New(ec2service.Options{Store: w.store})
	machines.Register(w.mux)
	autoscalingservice.New(autoscalingservice.Options{Store: w.store, EC2: machines,
		ServiceLinkedRoles: iamservice.NewServiceLinkedRoles(w.store, nil)}).Register(w.mux)
	iamservice.New(w.store, nil, nil).Register(w.mux)
	w.scaling, w.ec2 = autoscaling.NewFromConfig(w.aws("AKIAROOT")), ec2.NewFromConfig(w.aws("AKIAROOT"))

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	run := func(controllers ...reconcile.Controller) {
		running.Go(func() {
			if err := reconcile.Run(ctx, quiet, controllers...); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	run(instance.New(instance.Options{Store: w.store, EC2: machines.InstanceLifecycle()}).Controllers()...)
	run(autoscalinggroup.New(autoscalinggroup.Options{
		Store: w.store, API: autoscalingservice.NewUpkeep(autoscalingservice.Options{Store: w.store}), Log: quiet,
		EC2: func(string, string, string) autoscalinggroup.EC2 { return ec2.NewFromConfig(w.aws("ASIAROLE")) },
	}).Controllers()...)
	run(
		reconcile.Controller{Name: "hardware", Reconcile: w.hardware, Workers: 4,
			Sources: []reconcile.Source{reconcile.Table(record.Instances(w.store), "")}},
		reconcile.Controller{Name: "census", Reconcile: w.census,
			Sources: []reconcile.Source{reconcile.Table(record.NodegroupStates(w.store), "")}},
		reconcile.Controller{Name: "sizes", Reconcile: w.largest,
			Sources: []reconcile.Source{reconcile.Table(record.AutoScalingGroups(w.store), "")}},
	)

	vpc := must(w.ec2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")}))(t).Vpc.VpcId
	for i, zone := range []string{"a", "b"} {
		w.subnets = append(w.subnets, *must(w.ec2.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
			VpcId: vpc, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/24", i)),
			AvailabilityZone: aws.String(region + zone),
		}))(t).Subnet.SubnetId)
	}
	security := must(w.ec2.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{VpcId: vpc,
		GroupName: aws.String("eks-cluster-sg-demo"), Description: aws.String("cluster")}))(t).GroupId
	must(iam.NewFromConfig(w.aws("AKIAROOT")).CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: aws.String("node"),
		AssumeRolePolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))(t)
	w.cluster = record.Cluster{
		Account: account, Region: region, Name: "demo", ID: strings.Repeat("0", 32), VPCID: *vpc,
		SubnetIDs: w.subnets, Version: "1.36",
		AuthenticationMode: ekstypes.AuthenticationModeConfigMap, ServiceIPv4CIDR: "10.100.0.0/16",
		IPFamily: ekstypes.IpFamilyIpv4,
	}
	must(record.Clusters(w.store).Create(t.Context(), w.cluster.Key(), w.cluster))(t)
	must(record.ControlPlanes(w.store).Create(t.Context(), w.cluster.Key(), record.ControlPlane{
		ClusterID: w.cluster.ID, Endpoint: server.Host, CertificateAuthority: server.CA, Ready: true, Version: "1.36",
		ClusterSecurityGroupID: *security,
	}))(t)

	options.Store, options.Config, options.Log = w.store, server.ConfigFor, w.log
	options.EC2 = func(string, string) nodegroup.EC2 { return ec2.NewFromConfig(w.aws("ASIAEKS")) }
	options.AutoScaling = func(string, string) nodegroup.AutoScaling {
		return autoscaling.NewFromConfig(w.aws("ASIAEKS"))
	}
	options.IAM = func(string) nodegroup.IAM { return iam.NewFromConfig(w.aws("AKIAROOT")) }
	options.EKS = func(string, string) nodegroup.EKS { return nil }
	options.Now = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Now().Add(w.shift)
	}
	w.options = options
	w.start()
	t.Cleanup(func() { w.stop() })
	t.Cleanup(w.explain)
	return w
}

func (w *fixture) aws(key string) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
		HTTPClient:  &http.Client{Transport: w.mux.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider(key, "secret", ""),
	}
}

// start starts the controller of node groups, as a daemon does that starts; w.stop ends it.
func (w *fixture) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	controllers := nodegroup.New(w.options).Controllers()
	go func() { ended <- reconcile.Run(ctx, w.log, controllers...) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

// allow gives eks:node-manager what EKS's own objects give it.
func (w *fixture) allow() {
	w.t.Helper()
	text := must(os.ReadFile("../controlplane/rbac.yaml"))(w.t)
	admin := w.kube.RbacV1()
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.PartialObjectMetadata
		err := yaml.Unmarshal([]byte(document), &kind)
		if err == nil && kind.Name == "eks:node-manager" {
			switch kind.Kind {
			case "ClusterRole":
				err = create(w.t, document, admin.ClusterRoles().Create)
			case "ClusterRoleBinding":
				err = create(w.t, document, admin.ClusterRoleBindings().Create)
			case "Role":
				err = create(w.t, document, admin.Roles(kind.Namespace).Create)
			case "RoleBinding":
				err = create(w.t, document, admin.RoleBindings(kind.Namespace).Create)
			}
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// template returns the template of nodes of a version.
func template(t testing.TB, version string) record.NodegroupTemplate {
	t.Helper()
	i, ok := ami.ByParameter(region, "/aws/service/eks/optimized-ami/"+version+
		"/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		t.Fatalf("no image for %s", version)
	}
	return record.NodegroupTemplate{Version: version, ReleaseVersion: i.Release}
}

// imageID returns the image of nodes of a version.
func imageID(t testing.TB, version string) string {
	t.Helper()
	i, _ := ami.ByParameter(region, "/aws/service/eks/optimized-ami/"+version+
		"/amazon-linux-2023/x86_64/standard/recommended/image_id")
	return i.ID
}

func (w *fixture) key(name string) string {
	return record.NodegroupKey(account, region, w.cluster.Name, name)
}

func (w *fixture) row(name string) record.Nodegroup {
	w.t.Helper()
	return must(record.Nodegroups(w.store).Get(w.t.Context(), w.key(name)))(w.t).Value
}

func (w *fixture) state(name string) record.NodegroupState {
	row, err := record.NodegroupStates(w.store).Get(context.Background(), w.key(name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Error(err)
	}
	return row.Value
}

func (w *fixture) asg(name string) astypes.AutoScalingGroup {
	w.t.Helper()
	out := must(w.scaling.DescribeAutoScalingGroups(context.Background(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"eks-" + name + "-" +
			w.row(name).ID}}))(w.t)
	if len(out.AutoScalingGroups) != 1 {
		return astypes.AutoScalingGroup{}
	}
	return out.AutoScalingGroups[0]
}

func (w *fixture) until(what string, look func() error) {
	w.t.Helper()
	eventually.Nil(w.t, what, look)
}

// explain logs the state of the fixture when a test has failed.
func (w *fixture) explain() {
	if !w.t.Failed() {
		return
	}
	rows, _ := record.NodegroupStates(w.store).List(context.Background(), "")
	for _, row := range rows {
		w.t.Logf("%s: %+v roll %+v", row.Key, row.Value, row.Value.RollingUpdate)
	}
	instances, _ := record.AutoScalingInstances(w.store).List(context.Background(), "")
	for _, i := range instances {
		w.t.Logf("%s: %s in %s", i.Value.ID, i.Value.State, i.Value.Zone)
	}
	pods, err := w.kube.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{})
	if err == nil {
		for _, p := range pods.Items {
			w.t.Logf("pod %s on %s: %s, deleted %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp)
		}
	}
}

// halt ends the controller of node groups until w.start.
func (w *fixture) halt() {
	w.stop()
	w.stop = func() {}
}

// sshKey makes a key pair for remote access.
func (w *fixture) sshKey() {
	w.t.Helper()
	must(w.ec2.CreateKeyPair(w.t.Context(), &ec2.CreateKeyPairInput{KeyName: aws.String("key")}))(w.t)
}
