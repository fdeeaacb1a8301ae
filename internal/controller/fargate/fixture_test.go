package fargate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/controller/fargate"
	"github.com/coracle-eks/coracle/internal/eventually"
	rules "github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	webhook "github.com/coracle-eks/coracle/internal/kube/fargate"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	role    = "arn:aws:iam::" + account + ":role/pods"
)

// fixture is a cluster with a real API server. EC2's records of machines and network interfaces are written by a
// smaller EC2 (amazon), and a machine that runs is a Ready node a moment later.
type fixture struct {
	t       *testing.T
	store   *store.Store
	etcd    *clientv3.Client
	prefix  string
	server  *apiservertest.Server
	kubelet *apiservertest.Kubelets
	kube    *kubernetes.Clientset
	cluster record.Cluster
	options fargate.Options
	log     *slog.Logger

	controller *fargate.Controller
	stop       func()

	mu    sync.Mutex
	fault func(record.FargateMachine) record.Machine // what becomes of a machine; one that is zero is well
}

func newFixture(t *testing.T, edits ...func(*fargate.Options)) *fixture {
	t.Helper()
	server := apiservertest.Start(t, apiservertest.Options{Controllers: []string{
		"deployment", "replicaset", "disruption", "serviceaccount", "pod-garbage-collector-controller",
	}})
	w := &fixture{t: t, server: server, kubelet: server.Kubelets(), kube: server.Admin(), etcd: storetest.Client(t),
		prefix: storetest.Prefix(t), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.store, err = store.Open(t.Context(), w.etcd, store.Options{Prefix: w.prefix, Log: quiet}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	w.allow()

	w.cluster = record.Cluster{Account: account, Region: region, Name: "demo", ID: strings.Repeat("0", 32),
		VPCID: "vpc-1", Version: "1.35", AuthenticationMode: ekstypes.AuthenticationModeConfigMap,
		ServiceIPv4CIDR: "10.100.0.0/16", IPFamily: ekstypes.IpFamilyIpv4}
	must(record.Clusters(w.store).Create(t.Context(), w.cluster.Key(), w.cluster))(t)
	must(record.ControlPlanes(w.store).Create(t.Context(), w.cluster.Key(), record.ControlPlane{
		ClusterID: w.cluster.ID, Endpoint: server.Host, CertificateAuthority: server.CA, Ready: true, Version: "1.35",
		ClusterSecurityGroupID: "sg-cluster",
	}))(t)
	must(record.Roles(w.store).Create(t.Context(), record.RoleKey(account, "pods"),
		record.Role{Account: account, Name: "pods", Path: "/"}))(t)
	w.subnet("subnet-a", "a", "10.0.0.0/24")
	w.subnet("subnet-b", "b", "10.0.1.0/24")

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	hardware := reconcile.Controller{Name: "hardware", Reconcile: w.hardware, Workers: 8,
		Sources: []reconcile.Source{reconcile.Table(record.Instances(w.store), "")}}
	go func() { ended <- reconcile.Run(ctx, quiet, hardware) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.options = fargate.Options{
		Store: w.store, Config: server.ConfigFor, Log: w.log, RetryFirst: 100 * time.Millisecond,
		EC2:      func(string, string) fargate.EC2 { return amazon{w.store} },
		EKS:      func(string, string) fargate.EKS { return amazon{w.store} },
		Machines: amazon{w.store}, Trusts: amazon{w.store}.Trusts,
		Webhook: configuration,
	}
	for _, edit := range edits {
		edit(&w.options)
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	t.Cleanup(w.explain)
	return w
}

// configuration is that of a webhook where nobody listens: pods are made as it would have changed them.
func configuration(record.Cluster) *unstructured.Unstructured {
	return webhook.Configuration("https://127.0.0.1:1/mutate", nil)
}

// start starts the controller, as a daemon does that starts; w.stop ends it.
func (w *fixture) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	w.controller = fargate.New(w.options)
	controllers := w.controller.Controllers()
	go func() { ended <- reconcile.Run(ctx, w.log, controllers...) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
}

// allow gives the users of Fargate what EKS's own objects give them.
func (w *fixture) allow() {
	w.t.Helper()
	text := must(os.ReadFile("../controlplane/rbac.yaml"))(w.t)
	admin := w.kube.RbacV1()
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.PartialObjectMetadata
		err := yaml.Unmarshal([]byte(document), &kind)
		if err == nil && strings.HasPrefix(kind.Name, "eks:fargate-") {
			switch kind.Kind {
			case "ClusterRole":
				err = create[rbacv1.ClusterRole](w.t, document, admin.ClusterRoles().Create)
			case "ClusterRoleBinding":
				err = create[rbacv1.ClusterRoleBinding](w.t, document, admin.ClusterRoleBindings().Create)
			case "Role":
				err = create[rbacv1.Role](w.t, document, admin.Roles(kind.Namespace).Create)
			case "RoleBinding":
				err = create[rbacv1.RoleBinding](w.t, document, admin.RoleBindings(kind.Namespace).Create)
			}
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func create[T any](t *testing.T, document string,
	put func(context.Context, *T, metav1.CreateOptions) (*T, error)) error {
	var o T
	err := yaml.Unmarshal([]byte(document), &o)
	if err == nil {
		_, err = put(t.Context(), &o, metav1.CreateOptions{})
	}
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

// amazon is EC2 and EKS as far as Fargate asks them, over the records that they write.
type amazon struct{ store *store.Store }

// free returns the free addresses of a subnet.
func (a amazon) free(ctx context.Context, id string) ([]string, error) {
	row, err := record.Subnets(a.store).Get(ctx, record.EC2Key(account, region, id))
	if err != nil {
		return nil, err
	}
	rows, err := record.NetworkInterfaces(a.store).List(ctx, "")
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, row := range rows {
		taken[row.Value.PrivateIPs[0]] = true
	}
	prefix := netip.MustParsePrefix(row.Value.CIDR)
	var free []string
	address, last := prefix.Addr(), 1<<(32-prefix.Bits())-1
	for n := 0; n < last; n++ {
		if n >= 4 && !taken[address.String()] { // EC2 keeps the first four, and the last one
			free = append(free, address.String())
		}
		address = address.Next()
	}
	return free, nil
}

func (a amazon) DescribeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options)) (
	*ec2.DescribeSubnetsOutput, error) {
	out := &ec2.DescribeSubnetsOutput{}
	for _, id := range in.Filters[0].Values {
		row, err := record.Subnets(a.store).Get(ctx, record.EC2Key(account, region, id))
		if err != nil {
			continue
		}
		free, err := a.free(ctx, id)
		if err != nil {
			return nil, err
		}
		out.Subnets = append(out.Subnets, ec2types.Subnet{SubnetId: &id, AvailabilityZone: &row.Value.AvailabilityZone,
			AvailableIpAddressCount: aws.Int32(int32(len(free)))}) //nolint:gosec // a /24
	}
	return out, nil
}

// launching makes launches wait for each other, as the transactions of EC2 do.
var launching sync.Mutex

func (a amazon) Launch(ctx context.Context, l fargate.Launch) (record.Instance, record.NetworkInterface, error) {
	launching.Lock()
	defer launching.Unlock()
	none := record.NetworkInterface{}
	rows, err := record.Instances(a.store).List(ctx, "")
	if err != nil {
		return record.Instance{}, none, err
	}
	for _, row := range rows {
		if row.Value.Fargate.Capacity == l.Machine.Capacity {
			eni, err := record.NetworkInterfaces(a.store).Get(ctx, record.EC2Key(account, region, "eni-"+row.Value.ID))
			return row.Value, eni.Value, err
		}
	}
	for _, id := range l.SecurityGroupIDs {
		if strings.HasPrefix(id, "sg-unknown") {
			return record.Instance{}, none, &smithy.GenericAPIError{Code: "InvalidGroup.NotFound",
				Message: "The security group '" + id + "' does not exist"}
		}
	}
	free, err := a.free(ctx, l.SubnetID)
	if err != nil {
		return record.Instance{}, none, err
	}
	if len(free) == 0 {
		return record.Instance{}, none, &smithy.GenericAPIError{Code: "InsufficientFreeAddressesInSubnet",
			Message: "The specified subnet does not have enough free addresses to satisfy the request."}
	}
	subnet, err := record.Subnets(a.store).Get(ctx, record.EC2Key(account, region, l.SubnetID))
	if err != nil {
		return record.Instance{}, none, err
	}
	id := "i-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:17]
	machine := l.Machine
	machine.NodeName = "fargate-ip-" + strings.ReplaceAll(free[0], ".", "-") + "." + region + ".compute.internal"
	eni := record.NetworkInterface{SubnetID: l.SubnetID, PrivateIPs: []string{free[0]},
		SecurityGroupIDs: l.SecurityGroupIDs, Attachment: &record.NetworkInterfaceAttachment{InstanceID: id},
		EC2Resource: record.EC2Resource{Account: account, Region: region, ID: "eni-" + id}}
	address := free[0]
	if l.IPv6 {
		address = "2001:db8::" + strings.ReplaceAll(free[0], ".", ":")
		eni.IPv6IPs = []string{address}
	}
	if machine.NodeConfig, err = l.NodeConfig(address, machine.NodeName, subnet.Value.AvailabilityZone); err != nil {
		return record.Instance{}, none, err
	}
	instance := record.Instance{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: id},
		SubnetID: l.SubnetID, AvailabilityZone: subnet.Value.AvailabilityZone, Wanted: ec2types.InstanceStateNameRunning,
		Boot: 1, Fargate: &machine}
	if _, err := record.NetworkInterfaces(a.store).Create(ctx, record.EC2Key(account, region, eni.ID), eni); err != nil {
		return record.Instance{}, none, err
	}
	_, err = record.Instances(a.store).Create(ctx, record.EC2Key(account, region, id), instance)
	return instance, eni, err
}

func (a amazon) Terminate(ctx context.Context, _, _, id string) error {
	_, err := record.Instances(a.store).Modify(ctx, record.EC2Key(account, region, id), func(i *record.Instance) error {
		i.Wanted = ec2types.InstanceStateNameTerminated
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (a amazon) entryKey(cluster, principal *string) string {
	return record.AccessEntryKey(account, region, *cluster, *principal)
}

func (a amazon) CreateAccessEntry(ctx context.Context, in *eks.CreateAccessEntryInput, _ ...func(*eks.Options)) (
	*eks.CreateAccessEntryOutput, error) {
	id := uuid.NewString()
	_, err := record.AccessEntries(a.store).Create(ctx, a.entryKey(in.ClusterName, in.PrincipalArn), record.AccessEntry{
		ClusterID: strings.Repeat("0", 32), PrincipalARN: *in.PrincipalArn, Type: *in.Type, ID: id,
		ClientRequestToken: *in.ClientRequestToken,
	})
	return &eks.CreateAccessEntryOutput{AccessEntry: &ekstypes.AccessEntry{AccessEntryArn: aws.String(
		"arn:aws:eks:" + region + ":" + account + ":access-entry/demo/role/" + account + "/pods/" + id)}}, err
}

func (a amazon) DeleteAccessEntry(ctx context.Context, in *eks.DeleteAccessEntryInput, _ ...func(*eks.Options)) (
	*eks.DeleteAccessEntryOutput, error) {
	row, err := record.AccessEntries(a.store).Get(ctx, a.entryKey(in.ClusterName, in.PrincipalArn))
	if errors.Is(err, store.ErrNotFound) {
		return nil, &ekstypes.ResourceNotFoundException{
			Message: aws.String("The specified principalArn could not be found.")}
	}
	if err == nil {
		err = record.AccessEntries(a.store).Delete(ctx, row)
	}
	return &eks.DeleteAccessEntryOutput{}, err
}

// hardware runs machines, and their kubelets.
func (w *fixture) hardware(ctx context.Context, key string) (reconcile.Result, error) {
	row, err := record.Instances(w.store).Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{Gone: true}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	i := row.Value
	was, _ := record.Machines(w.store).Get(ctx, key)
	if was.Value.State == ec2types.InstanceStateNameTerminated {
		return reconcile.Result{}, nil
	}
	if i.Wanted == ec2types.InstanceStateNameTerminated {
		return reconcile.Result{}, w.endMachine(ctx, key, "")
	}
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	machine := record.Machine{InstanceID: i.ID, State: i.Wanted, Boot: 1}
	if fault != nil {
		if found := fault(*i.Fargate); found != (record.Machine{}) {
			if found.State == ec2types.InstanceStateNameTerminated {
				return reconcile.Result{}, w.endMachine(ctx, key, found.Failure)
			}
			machine.Failing = found.Failing
			_, err = record.Machines(w.store).Put(ctx, key, machine)
			return reconcile.Result{After: 50 * time.Millisecond}, err
		}
	}
	if was.Value.State == i.Wanted && was.Value.Failing == "" {
		return reconcile.Result{}, nil
	}
	_, err = w.kubelet.Join(ctx, i.Fargate.NodeName, "aws:///"+i.AvailabilityZone+"/x/"+i.Fargate.NodeName,
		map[string]string{rules.ComputeType: "fargate", "topology.kubernetes.io/zone": i.AvailabilityZone})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err
	}
	_, err = record.Machines(w.store).Put(ctx, key, machine)
	return reconcile.Result{}, err
}

// endMachine ends a machine, and EC2 takes its network interface away.
func (w *fixture) endMachine(ctx context.Context, key, failure string) error {
	id := store.Parts(key)[2]
	eni, err := record.NetworkInterfaces(w.store).Get(ctx, record.EC2Key(account, region, "eni-"+id))
	if err == nil {
		err = record.NetworkInterfaces(w.store).Delete(ctx, eni)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, err = record.Machines(w.store).Put(ctx, key, record.Machine{InstanceID: id, Boot: 1, Failure: failure,
		State: ec2types.InstanceStateNameTerminated})
	return err
}

// faulty makes that of machines from now on.
func (w *fixture) faulty(fault func(record.FargateMachine) record.Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func (w *fixture) subnet(id, zone, cidr string) {
	w.t.Helper()
	must(record.Subnets(w.store).Create(w.t.Context(), record.EC2Key(account, region, id), record.Subnet{
		EC2Resource: record.EC2Resource{Account: account, Region: region, ID: id}, CIDR: cidr,
		AvailabilityZone: region + zone}))(w.t)
}

// profile creates a profile for the pods of a namespace, which it makes.
func (w *fixture) profile(name string, edits ...func(*record.FargateProfile)) record.FargateProfile {
	w.t.Helper()
	p := record.FargateProfile{Account: account, Region: region, Cluster: w.cluster.Name, ClusterID: w.cluster.ID,
		Name: name, ID: uuid.NewString(), CreatedAt: time.Now(), PodExecutionRoleARN: role,
		SubnetIDs: []string{"subnet-a", "subnet-b"}, Selectors: []record.FargateSelector{{Namespace: name}}}
	for _, edit := range edits {
		edit(&p)
	}
	must(record.FargateProfiles(w.store).Create(w.t.Context(), p.Key(), p))(w.t)
	_, err := w.kube.CoreV1().Namespaces().Create(w.t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	eventually.Nil(w.t, "namespace "+name+" takes pods", func() error {
		_, err := w.kube.CoreV1().ServiceAccounts(name).Get(w.t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return p
}

// active creates a profile and waits until it is ACTIVE.
func (w *fixture) active(name string, edits ...func(*record.FargateProfile)) record.FargateProfile {
	w.t.Helper()
	p := w.profile(name, edits...)
	w.becomes(p, ekstypes.FargateProfileStatusActive)
	return p
}

func (w *fixture) profileState(p record.FargateProfile) record.FargateProfileState {
	row, err := record.FargateProfileStates(w.store).Get(context.Background(), p.Key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Error(err)
	}
	return row.Value
}

func (w *fixture) becomes(p record.FargateProfile, want ekstypes.FargateProfileStatus) {
	w.t.Helper()
	w.until(fmt.Sprintf("profile %s is %s", p.Name, want), func() error {
		if s := w.profileState(p); record.FargateProfileStatus(p, s) != want {
			return fmt.Errorf("its state is %+v", s)
		}
		return nil
	})
}

// remove deletes a profile, as DeleteFargateProfile does.
func (w *fixture) remove(p record.FargateProfile) {
	w.t.Helper()
	must(record.FargateProfiles(w.store).Modify(w.t.Context(), p.Key(), func(p *record.FargateProfile) error {
		p.Deleting = true
		return nil
	}))(w.t)
}

// podOf returns a pod as the webhook makes one for a profile.
func podOf(profile, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: profile, Name: name,
			Labels: map[string]string{rules.ProfileLabel: profile, "app": name}},
		Spec: corev1.PodSpec{SchedulerName: rules.SchedulerName, TerminationGracePeriodSeconds: aws.Int64(1),
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
	}
}

func (w *fixture) pod(profile, name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	pod := podOf(profile, name)
	for _, edit := range edits {
		edit(pod)
	}
	return must(w.kube.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}))(w.t)
}

func (w *fixture) deletePod(pod *corev1.Pod) {
	w.t.Helper()
	err := w.kube.CoreV1().Pods(pod.Namespace).Delete(w.t.Context(), pod.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// runs waits until a pod runs on Fargate, and returns it with its row.
func (w *fixture) runs(pod *corev1.Pod) (*corev1.Pod, record.FargatePod) {
	w.t.Helper()
	var now *corev1.Pod
	var row record.FargatePod
	w.until("pod "+pod.Name+" runs", func() (err error) {
		if now, err = w.kube.CoreV1().Pods(pod.Namespace).Get(w.t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		row = w.row(pod)
		if now.Status.Phase != corev1.PodRunning || !row.Bound {
			return fmt.Errorf("it is %s on %q with %+v; its events: %v", now.Status.Phase, now.Spec.NodeName, row,
				w.events(pod))
		}
		return nil
	})
	return now, row
}

// row returns what a pod has; nothing when it is zero.
func (w *fixture) row(pod *corev1.Pod) record.FargatePod {
	row, err := record.FargatePods(w.store).Get(context.Background(), record.FargatePodKey(account, region,
		w.cluster.Name, string(pod.UID)))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Error(err)
	}
	return row.Value
}

// events returns the events of a pod, "reason: message".
func (w *fixture) events(pod *corev1.Pod) (all []string) {
	list, err := w.kube.CoreV1().Events(pod.Namespace).List(context.Background(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String()})
	if err != nil {
		w.t.Error(err)
		return nil
	}
	for _, e := range list.Items {
		if e.Source.Component == rules.SchedulerName {
			all = append(all, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(all)
	return all
}

// tells waits for an event of a pod.
func (w *fixture) tells(pod *corev1.Pod, want string) {
	w.t.Helper()
	w.until("an event of pod "+pod.Name, func() error {
		if all := w.events(pod); !slices.ContainsFunc(all, func(e string) bool { return strings.Contains(e, want) }) {
			return fmt.Errorf("there are %q, want %q", all, want)
		}
		return nil
	})
}

// empty waits until nothing is left of Fargate.
func (w *fixture) empty() {
	w.t.Helper()
	w.until("nothing is left", func() error {
		rows := must(record.FargatePods(w.store).List(w.t.Context(), ""))(w.t)
		enis := must(record.NetworkInterfaces(w.store).List(w.t.Context(), ""))(w.t)
		nodes := must(w.kube.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{}))(w.t)
		running := 0
		for _, i := range must(record.Instances(w.store).List(w.t.Context(), ""))(w.t) {
			m, _ := record.Machines(w.store).Get(w.t.Context(), i.Key)
			if m.Value.State != ec2types.InstanceStateNameTerminated {
				running++
			}
		}
		if len(rows)+len(enis)+len(nodes.Items)+running > 0 {
			return fmt.Errorf("there are %d pods, %d network interfaces, %d nodes, %d machines", len(rows), len(enis),
				len(nodes.Items), running)
		}
		return nil
	})
}

// awsAuth returns mapRoles of aws-auth.
func (w *fixture) awsAuth() string {
	m, err := w.kube.CoreV1().ConfigMaps("kube-system").Get(context.Background(), "aws-auth", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return m.Data["mapRoles"]
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
	rows, _ := record.FargatePods(w.store).List(context.Background(), "")
	for _, row := range rows {
		w.t.Logf("%s: %+v", row.Key, row.Value)
	}
}
