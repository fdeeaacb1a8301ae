package nodegroup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	worldAccount = "111122223333"
	worldRegion  = "eu-west-1"
	worldRoot    = "arn:aws:iam::" + worldAccount + ":root"
	worldAS      = "arn:aws:iam::" + worldAccount +
		":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
)

// world is a cluster with a real API server, and EC2, Auto Scaling and IAM behind the real wire, with their
// controllers. Only machines and kubelets are make-believe: an instance that runs is a Ready node a moment later.
type world struct {
	t *testing.T
	*site
}

// in is the same world for another test.
func (w *world) in(t *testing.T) *world { return &world{t, w.site} }

// site is what tests share.
type site struct {
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

func newWorld(t *testing.T, options nodegroup.Options) *world {
	t.Helper()
	server := apiservertest.Start(t, apiservertest.Options{Scheduler: true, Controllers: []string{
		"deployment", "replicaset", "disruption", "endpointslice", "serviceaccount", "pod-garbage-collector-controller",
	}})
	w := &world{t, &site{server: server, kubelet: server.Kubelets(), kube: server.Admin(), etcd: storetest.Client(t),
		prefix: storetest.Prefix(t), most: map[string]int{}, sizes: map[string]int32{}}}
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
			Account: worldAccount,
			ARN:     "arn:aws:sts::" + worldAccount + ":assumed-role/" + nodegroup.ServiceLinkedRole + "/EKS",
			UserID:  "AROAE:EKS", SessionName: "EKS", PrincipalARN: "arn:aws:iam::" + worldAccount + ":" + role,
		},
		"ASIAROLE": {
			Account: worldAccount, ARN: "arn:aws:sts::" + worldAccount +
				":assumed-role/AWSServiceRoleForAutoScaling/AutoScaling", PrincipalARN: worldAS,
			UserID: "AROAX:AutoScaling", SessionName: "AutoScaling",
		},
	}
	w.mux = wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, Region: worldRegion})
	front := ec2service.New(ec2service.Options{Store: w.store})
	front.Register(w.mux)
	autoscalingservice.New(autoscalingservice.Options{Store: w.store, EC2: front,
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
	run(instance.New(instance.Options{Store: w.store, EC2: front.InstanceLifecycle()}).Controllers()...)
	run(autoscalinggroup.New(autoscalinggroup.Options{
		Store: w.store, Front: autoscalingservice.NewUpkeep(autoscalingservice.Options{Store: w.store}), Log: quiet,
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
			AvailabilityZone: aws.String(worldRegion + zone),
		}))(t).Subnet.SubnetId)
	}
	security := must(w.ec2.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{VpcId: vpc,
		GroupName: aws.String("eks-cluster-sg-demo"), Description: aws.String("cluster")}))(t).GroupId
	must(iam.NewFromConfig(w.aws("AKIAROOT")).CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: aws.String("node"),
		AssumeRolePolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))(t)
	w.cluster = record.Cluster{
		Account: worldAccount, Region: worldRegion, Name: "demo", ID: strings.Repeat("0", 32), VPCID: *vpc,
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
	options.AutoScaling = func(string, string) nodegroup.AutoScaling { return w.scaling }
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

func (w *world) aws(key string) aws.Config {
	return aws.Config{
		Region: worldRegion, BaseEndpoint: aws.String("http://coracle.internal"), RetryMaxAttempts: 1,
		HTTPClient:  &http.Client{Transport: w.mux.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider(key, "secret", ""),
	}
}

// start starts the controller of node groups, as a daemon does that starts; w.stop ends it.
func (w *world) start() {
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

// hardware runs instances, and their kubelets.
func (w *world) hardware(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(w.store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	i := row.Value
	now, _ := record.Machines(w.store).Get(ctx, key)
	if now.Value.State == ec2types.InstanceStateNameTerminated {
		return reconcile.Result{}, nil
	}
	switch i.Wanted {
	case ec2types.InstanceStateNameRunning:
		group := w.groupOf(ctx, key)
		w.mu.Lock()
		dumb := w.dumb != nil && w.dumb(group, i.ImageID)
		w.mu.Unlock()
		if !dumb && now.Value.Boot == 0 {
			_, err := w.kubelet.Join(ctx, i.ID, "aws:///"+i.AvailabilityZone+"/"+i.ID, map[string]string{
				"eks.amazonaws.com/nodegroup": group, "eks.amazonaws.com/nodegroup-image": i.ImageID,
				"topology.kubernetes.io/zone": i.AvailabilityZone,
			})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return reconcile.Result{}, err
			}
		}
	case ec2types.InstanceStateNameTerminated:
		if err := w.kube.CoreV1().Nodes().Delete(ctx, i.ID, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
	}
	if now.Value.State == i.Wanted && now.Value.Boot == i.Boot {
		return reconcile.Result{}, nil
	}
	_, err = record.Machines(w.store).Put(ctx, key, record.Machine{
		InstanceID: i.ID, State: i.Wanted, Boot: i.Boot, SystemStatus: ec2types.SummaryStatusOk,
		InstanceStatus: ec2types.SummaryStatusOk,
	})
	return reconcile.Result{}, err
}

// groupOf is the node group that an instance is launched for.
func (w *world) groupOf(ctx context.Context, key string) string {
	tags, err := w.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []ec2types.Filter{
		{Name: aws.String("resource-id"), Values: []string{store.Parts(key)[2]}},
		{Name: aws.String("key"), Values: []string{"eks:nodegroup-name"}},
	}})
	if err != nil || len(tags.Tags) == 0 {
		return ""
	}
	return *tags.Tags[0].Value
}

// census counts the nodes of a group that are being drained.
func (w *world) census(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.NodegroupStates(w.store).Get(ctx, key)
	if err != nil {
		return reconcile.Result{}, nil // it is gone
	}
	n := 0
	for _, l := range row.Value.Leaving {
		if l.Why == "update" && l.Terminated.IsZero() {
			n++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := store.Parts(key)[3]
	w.most[name] = max(w.most[name], n)
	return reconcile.Result{}, nil
}

// largest notes how many instances are desired.
func (w *world) largest(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.AutoScalingGroups(w.store).Get(ctx, key)
	if err != nil {
		return reconcile.Result{}, nil // it is gone
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := row.Value.Name[len("eks-") : len(row.Value.Name)-len("-")-36]
	w.sizes[name] = max(w.sizes[name], row.Value.Desired)
	return reconcile.Result{}, nil
}

// seen is how many nodes of a group were drained at once, and how many were desired, at most.
func (w *world) seen(name string) (drained int, desired int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most[name], w.sizes[name]
}

// allow gives eks:node-manager what EKS's own objects give it.
func (w *world) allow() {
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

func create[T any](t *testing.T, document string, with func(context.Context, *T, metav1.CreateOptions) (*T,
	error)) error {
	var o T
	if err := yaml.Unmarshal([]byte(document), &o); err != nil {
		return err
	}
	_, err := with(t.Context(), &o, metav1.CreateOptions{})
	return err
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

// template is what nodes of a version are made from.
func template(t testing.TB, version string) record.NodegroupTemplate {
	t.Helper()
	i, ok := ami.ByParameter(worldRegion, "/aws/service/eks/optimized-ami/"+version+
		"/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		t.Fatalf("no image for %s", version)
	}
	return record.NodegroupTemplate{Version: version, ReleaseVersion: i.Release}
}

// imageID is the image of nodes of a version.
func imageID(t testing.TB, version string) string {
	t.Helper()
	i, _ := ami.ByParameter(worldRegion, "/aws/service/eks/optimized-ami/"+version+
		"/amazon-linux-2023/x86_64/standard/recommended/image_id")
	return i.ID
}

// create writes a node group of n nodes of 1.35, as the front does, and waits until they serve.
func (w *world) create(name string, n int32, change ...func(*record.Nodegroup)) {
	w.t.Helper()
	now := time.Now().UTC()
	row := record.Nodegroup{
		Account: worldAccount, Region: worldRegion, Cluster: w.cluster.Name, ClusterID: w.cluster.ID, Name: name,
		ID: uuid.NewString(), CreatedAt: now, ModifiedAt: now,
		NodeRoleARN: "arn:aws:iam::" + worldAccount + ":role/node", SubnetIDs: w.subnets,
		AMIType:      ekstypes.AMITypesAl2023X8664Standard,
		CapacityType: ekstypes.CapacityTypesOnDemand, InstanceTypes: []string{"t3.medium"}, DiskSize: 20,
		Scaling: ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(n + 1),
			DesiredSize: &n},
		ScalingChange: 1,
		UpdateConfig:  ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1)}, Template: template(w.t, "1.35"),
	}
	for _, c := range change {
		c(&row)
	}
	must(record.Nodegroups(w.store).Create(w.t.Context(), row.Key(), row))(w.t)
	w.serve(name, int(n))
}

// serve waits until a group has exactly n instances in service, with Ready nodes.
func (w *world) serve(name string, n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d nodes of %s serve", n, name), func() error {
		if !w.state(name).Created {
			return fmt.Errorf("the group is not active: %+v", w.state(name))
		}
		g := w.asg(name)
		for _, i := range g.Instances {
			if i.LifecycleState != astypes.LifecycleStateInService {
				return fmt.Errorf("%s is %s", *i.InstanceId, i.LifecycleState)
			}
		}
		if len(g.Instances) != n {
			return fmt.Errorf("it has %d instances", len(g.Instances))
		}
		return nil
	})
}

func (w *world) key(name string) string {
	return record.NodegroupKey(worldAccount, worldRegion, w.cluster.Name, name)
}

func (w *world) row(name string) record.Nodegroup {
	w.t.Helper()
	return must(record.Nodegroups(w.store).Get(w.t.Context(), w.key(name)))(w.t).Value
}

func (w *world) state(name string) record.NodegroupState {
	row, err := record.NodegroupStates(w.store).Get(context.Background(), w.key(name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Error(err)
	}
	return row.Value
}

func (w *world) asg(name string) astypes.AutoScalingGroup {
	w.t.Helper()
	out := must(w.scaling.DescribeAutoScalingGroups(context.Background(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"eks-" + name + "-" +
			w.row(name).ID}}))(w.t)
	if len(out.AutoScalingGroups) != 1 {
		return astypes.AutoScalingGroup{}
	}
	return out.AutoScalingGroups[0]
}

// update starts a version update, as the front does.
func (w *world) update(name, version string, force bool) string {
	w.t.Helper()
	ctx, tables := w.t.Context(), record.Updates(w.store)
	before := w.row(name)
	wanted := before.Template
	if before.LastUpdateID != "" {
		last := must(tables.Get(ctx,
			record.UpdateKey(worldAccount, worldRegion, w.cluster.Name, before.LastUpdateID)))(w.t).Value
		wanted = before.Wanted(last)
	}
	u := record.Update{
		ID: uuid.NewString(), Cluster: w.cluster.Name, ClusterID: w.cluster.ID, NodegroupName: name,
		Type:   ekstypes.UpdateTypeVersionUpdate,
		Status: ekstypes.UpdateStatusInProgress, CreatedAt: time.Now().UTC(), PreviousTemplate: &wanted, Force: force,
	}
	must(tables.Create(ctx, record.UpdateKey(worldAccount, worldRegion, w.cluster.Name, u.ID), u))(w.t)
	must(record.Nodegroups(w.store).Modify(ctx, w.key(name), func(n *record.Nodegroup) error {
		n.Template, n.LastUpdateID = template(w.t, version), u.ID
		return nil
	}))(w.t)
	return u.ID
}

// ended waits until an update has ended, and gives it back.
func (w *world) ended(id string) record.Update {
	w.t.Helper()
	var u record.Update
	w.until("the update ends", func() error {
		u = must(record.Updates(w.store).Get(w.t.Context(), record.UpdateKey(worldAccount, worldRegion, w.cluster.Name,
			id)))(w.t).Value
		if u.Status == ekstypes.UpdateStatusInProgress {
			return errors.New("it is in progress")
		}
		return nil
	})
	return u
}

// images are the images of a group's nodes, by version; all must be Ready and take pods.
func (w *world) nodes(name string) (versions map[string]int, cordoned []string) {
	w.t.Helper()
	list := must(w.kube.CoreV1().Nodes().List(w.t.Context(),
		metav1.ListOptions{LabelSelector: "eks.amazonaws.com/nodegroup=" + name}))(w.t)
	versions = map[string]int{}
	for _, n := range list.Items {
		i, _ := ami.Get(worldRegion, n.Labels["eks.amazonaws.com/nodegroup-image"])
		versions[i.KubernetesVersion]++
		if _, excluded := n.Labels[corev1.LabelNodeExcludeBalancers]; excluded || n.Spec.Unschedulable {
			cordoned = append(cordoned, n.Name)
		}
	}
	return versions, cordoned
}

// web runs n pods behind a Service on the nodes of a group, with a budget that keeps all but spare of them.
func (w *world) web(name, nodes string, n, spare int32) {
	w.t.Helper()
	ctx, labels := w.t.Context(), map[string]string{"app": name}
	w.until("the default service account", func() error {
		_, err := w.kube.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	must(w.kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: labels,
			Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(w.t)
	must(w.kube.AppsV1().Deployments("default").Create(ctx,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector:                  map[string]string{"eks.amazonaws.com/nodegroup": nodes},
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers:                    []corev1.Container{{Name: "app", Image: "app"}},
			}},
		}}, metav1.CreateOptions{}))(w.t)
	must(w.kube.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(spare)),
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{}))(w.t)
	w.available(name, n)
	w.until("the budget is counted", func() error {
		b, err := w.kube.PolicyV1().PodDisruptionBudgets("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && b.Status.CurrentHealthy != n {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return err
	})
}

// scale changes how many pods a Deployment has, and waits until they are there and no others.
func (w *world) scale(name string, n int32) {
	w.t.Helper()
	must(w.kube.AppsV1().Deployments("default").Patch(w.t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{}))(w.t)
	w.available(name, n)
	w.until(name+" has no other pods", func() error {
		list, err := w.kube.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(list.Items) != int(n) {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
}

// available waits until all pods are.
func (w *world) available(name string, n int32) {
	w.t.Helper()
	w.until(name+" is available", func() error {
		d, err := w.kube.AppsV1().Deployments("default").Get(w.t.Context(), name, metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != n {
			return fmt.Errorf("%d of its pods are available", d.Status.AvailableReplicas)
		}
		return err
	})
}

// least follows how many pods of a Deployment are ready, until the function that it gives back is called: it tells the
// least.
func (w *world) least(name string) func() int {
	ctx, cancel := context.WithCancel(w.t.Context())
	least, ended := 1<<30, make(chan struct{})
	ready := map[string]bool{}
	list := must(w.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name}))(w.t)
	serves := func(p *corev1.Pod) bool {
		return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
	}
	count := func(p *corev1.Pod, there bool) {
		if ready[p.Name] = there && serves(p); !ready[p.Name] {
			delete(ready, p.Name)
		}
	}
	for i := range list.Items {
		count(&list.Items[i], true)
	}
	watch := must(w.kube.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + name,
		ResourceVersion: list.ResourceVersion}))(w.t)
	go func() {
		defer close(ended)
		for event := range watch.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok {
				count(p, event.Type != "DELETED")
				least = min(least, len(ready))
			}
		}
	}()
	return func() int { cancel(); <-ended; return least }
}

func (w *world) until(what string, look func() error) {
	w.t.Helper()
	eventually.Nil(w.t, what, look)
}

// explain tells what there was when a test failed.
func (w *world) explain() {
	if !w.t.Failed() {
		return
	}
	rows, _ := record.NodegroupStates(w.store).List(context.Background(), "")
	for _, row := range rows {
		w.t.Logf("%s: %+v roll %+v", row.Key, row.Value, row.Value.Roll)
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
