package simulated

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
)

// fixture is a cluster with an API server, and as much of AWS as simulated machines see.
type fixture struct {
	testing.TB
	store   *store.Store
	server  *apiservertest.Server
	cluster record.Cluster
	dir     string
	options Options

	mu       sync.Mutex
	next     int
	unmapped map[string]bool // instances whose role has no access
	calls    map[string]int  // of EC2
	full     error           // what EC2 answers to who wants addresses
}

func newFixture(t testing.TB, o apiservertest.Options) *fixture {
	t.Helper()
	w := &fixture{TB: t, store: storetest.New(t), unmapped: map[string]bool{}, calls: map[string]int{}}
	var err error
	if w.dir, err = os.MkdirTemp("", "sim"); err != nil { // a short path, for sockets
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(w.dir) })
	w.cluster = record.Cluster{Account: account, Region: region, Name: "demo", ID: "0123456789ABCDEF0123456789ABCDEF",
		Version: "1.35", VPCID: "vpc-1", IPFamily: ekstypes.IpFamilyIpv4}

	webhook := httptest.NewServer(http.HandlerFunc(w.authenticate))
	t.Cleanup(webhook.Close)
	hook := filepath.Join(w.dir, "webhook")
	if err := os.WriteFile(hook, fmt.Appendf(nil,
		"apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: %q}}]\nusers: [{name: x}]\ncontexts: "+
			"[{name: x, context: {cluster: x, user: x}}]\ncurrent-context: x\n", webhook.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	egress := filepath.Join(w.dir, "egress")
	w.options = Options{
		Store: w.store, Dir: w.dir,
		Credentials: func(_ context.Context, i record.Instance) (aws.Credentials, error) {
			if i.InstanceProfileARN == "" {
				return aws.Credentials{}, errors.New("the instance has no profile")
			}
			return aws.Credentials{AccessKeyID: "ASIA" + i.ID, SecretAccessKey: "secret", SessionToken: "token"}, nil
		},
		EC2: func(string, aws.CredentialsProvider) EC2 { return w },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	socket := Socket(w.dir, w.cluster.ID)
	if err := os.WriteFile(egress, fmt.Appendf(nil,
		"apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: "+
			"cluster\n  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %q}}}\n", socket),
		0o600); err != nil {
		t.Fatal(err)
	}
	o.Flags = append(o.Flags, "--authentication-token-webhook-config-file="+hook,
		"--authentication-token-webhook-version=v1", "--egress-selector-config-file="+egress)
	w.server = apiservertest.Start(t, o)
	w.options.Config = w.server.ConfigFor
	// What EKS lets nodes do beyond the Node authorizer.
	meta := metav1.ObjectMeta{Name: "eks:node-bootstrapper"}
	admin := w.server.Admin().RbacV1()
	_, err = admin.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "system:node-bootstrapper"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, record.Clusters(w.store), w.cluster.Key(), w.cluster)
	create(t, record.ControlPlanes(w.store), w.cluster.Key(), record.ControlPlane{ClusterID: w.cluster.ID,
		Endpoint: w.server.Host, CertificateAuthority: w.server.CA, Ready: true, Version: "1.35"})
	return w
}

// authenticate stands in for the authenticator: a token is good if it was made by an instance's credentials, for this
// cluster.
func (w *fixture) authenticate(out http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	encoded, _ := strings.CutPrefix(review.Spec.Token, "k8s-aws-v1.")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	u, err2 := url.Parse(string(text))
	review.Status = authenticationv1.TokenReviewStatus{Error: "access denied"}
	if err == nil && err2 == nil && u.Host == "sts."+region+".amazonaws.com" &&
		strings.Contains(u.Query().Get("X-Amz-SignedHeaders"), "x-k8s-aws-id") {
		id, _, _ := strings.Cut(strings.TrimPrefix(u.Query().Get("X-Amz-Credential"), "ASIA"), "/")
		row, err := record.Instances(w.store).Get(r.Context(), record.EC2Key(account, region, id))
		w.mu.Lock()
		known := err == nil && !w.unmapped[id]
		w.mu.Unlock()
		if known {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: "system:node:" + w.nodeName(row.Value), Groups: []string{"system:bootstrappers",
					"system:nodes"},
			}}
		}
	}
	_ = json.NewEncoder(out).Encode(review)
}

func (w *fixture) nodeName(i record.Instance) string {
	if i.Fargate != nil {
		return i.Fargate.NodeName
	}
	ni, err := record.NetworkInterfaces(w.store).Get(context.Background(), record.EC2Key(account, region,
		"eni-"+strings.TrimPrefix(i.ID, "i-")))
	if err != nil {
		return "unknown"
	}
	return privateDNSName(i, netip.MustParseAddr(ni.Value.PrivateIPs[0]))
}

// launch records an instance as EC2 does.
func (w *fixture) launch(n int, userData string, change func(*record.Instance)) record.Instance {
	w.Helper()
	id := fmt.Sprintf("%017x", n)
	i := record.Instance{
		EC2Resource:      record.EC2Resource{Account: account, Region: region, ID: "i-" + id, CreatedAt: time.Now()},
		InstanceType:     "m5.large",
		AvailabilityZone: region + "a", VPCID: "vpc-1", SubnetID: "subnet-1", UserData: []byte(userData),
		InstanceProfileARN: "arn", Wanted: ec2types.InstanceStateNameRunning, Boot: 1, WantedSince: time.Now(),
	}
	if change != nil {
		change(&i)
	}
	w.attach(record.NetworkInterface{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: "eni-" + id},
		PrivateIPs: w.addresses(1)}, i.ID, 0)
	create(w, record.Instances(w.store), i.Key(), i)
	return i
}

func (w *fixture) attach(n record.NetworkInterface, instance string, device int32) {
	w.Helper()
	n.SubnetID, n.SecurityGroupIDs = "subnet-1", []string{"sg-1"}
	n.Attachment = &record.NetworkInterfaceAttachment{ID: "eni-attach-1", InstanceID: instance, DeviceIndex: device}
	if _, err := record.NetworkInterfaces(w.store).Put(w.Context(), n.Key(), n); err != nil {
		w.Error(err)
	}
}

// addresses returns the next n addresses of the subnet.
func (w *fixture) addresses(n int) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		w.next++
		out = append(out, fmt.Sprintf("10.%d.%d.%d", w.next>>16, w.next>>8&255, w.next&255))
	}
	return out
}

func (w *fixture) called(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[name]++
	return w.full
}

func (w *fixture) AssignPrivateIpAddresses(ctx context.Context, in *ec2.AssignPrivateIpAddressesInput,
	_ ...func(*ec2.Options)) (*ec2.AssignPrivateIpAddressesOutput, error) {
	if err := w.called("AssignPrivateIpAddresses"); err != nil {
		return nil, err
	}
	out := &ec2.AssignPrivateIpAddressesOutput{}
	got := w.addresses(int(*in.SecondaryPrivateIpAddressCount))
	for _, a := range got {
		out.AssignedPrivateIpAddresses = append(out.AssignedPrivateIpAddresses,
			ec2types.AssignedPrivateIpAddress{PrivateIpAddress: &a})
	}
	_, err := record.NetworkInterfaces(w.store).Modify(ctx, record.EC2Key(account, region, *in.NetworkInterfaceId),
		func(n *record.NetworkInterface) error {
			n.PrivateIPs = append(slices.Clone(n.PrivateIPs), got...)
			return nil
		})
	return out, err
}

func (w *fixture) AssignIpv6Addresses(ctx context.Context, in *ec2.AssignIpv6AddressesInput, _ ...func(*ec2.Options)) (
	*ec2.AssignIpv6AddressesOutput, error) {
	if err := w.called("AssignIpv6Addresses"); err != nil {
		return nil, err
	}
	prefixes := []string{"2600:1f18:0:1::/80"}
	_, err := record.NetworkInterfaces(w.store).Modify(ctx, record.EC2Key(account, region, *in.NetworkInterfaceId),
		func(n *record.NetworkInterface) error {
			n.IPv6Prefixes = prefixes
			return nil
		})
	return &ec2.AssignIpv6AddressesOutput{AssignedIpv6Prefixes: prefixes}, err
}

func (w *fixture) CreateNetworkInterface(ctx context.Context, in *ec2.CreateNetworkInterfaceInput,
	_ ...func(*ec2.Options)) (*ec2.CreateNetworkInterfaceOutput, error) {
	if err := w.called("CreateNetworkInterface"); err != nil {
		return nil, err
	}
	id := "eni-" + *in.ClientToken
	got := w.addresses(1 + int(*in.SecondaryPrivateIpAddressCount))
	n := record.NetworkInterface{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: id},
		PrivateIPs: got}
	create(w, record.NetworkInterfaces(w.store), n.Key(), n)
	out := &ec2types.NetworkInterface{NetworkInterfaceId: &id}
	for i, a := range got {
		out.PrivateIpAddresses = append(out.PrivateIpAddresses,
			ec2types.NetworkInterfacePrivateIpAddress{Primary: aws.Bool(i == 0), PrivateIpAddress: &a})
	}
	return &ec2.CreateNetworkInterfaceOutput{NetworkInterface: out}, nil
}

func (w *fixture) AttachNetworkInterface(ctx context.Context, in *ec2.AttachNetworkInterfaceInput,
	_ ...func(*ec2.Options)) (*ec2.AttachNetworkInterfaceOutput, error) {
	if err := w.called("AttachNetworkInterface"); err != nil {
		return nil, err
	}
	row, err := record.NetworkInterfaces(w.store).Get(ctx, record.EC2Key(account, region, *in.NetworkInterfaceId))
	if err != nil {
		return nil, err
	}
	w.attach(row.Value, *in.InstanceId, *in.DeviceIndex)
	return &ec2.AttachNetworkInterfaceOutput{AttachmentId: aws.String("eni-attach-1")}, nil
}

func (w *fixture) ModifyNetworkInterfaceAttribute(context.Context, *ec2.ModifyNetworkInterfaceAttributeInput,
	...func(*ec2.Options)) (*ec2.ModifyNetworkInterfaceAttributeOutput, error) {
	return &ec2.ModifyNetworkInterfaceAttributeOutput{}, w.called("ModifyNetworkInterfaceAttribute")
}

// daemon runs a controller until the function that it gives back is called.
func (w *fixture) daemon() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.Run(ctx, w.options.Log, New(w.options).Controllers()...) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				w.Error(err)
			}
		})
	}
	w.Cleanup(stop)
	return stop
}

func (w *fixture) machine(i record.Instance) record.Machine {
	row, err := record.Machines(w.store).Get(w.Context(), i.Key())
	if err != nil {
		return record.Machine{}
	}
	return row.Value
}

func (w *fixture) console(i record.Instance) string {
	row, err := record.MachineConsoles(w.store).Get(w.Context(), i.Key())
	if err != nil {
		return ""
	}
	return string(row.Value.Output)
}

func (w *fixture) want(i record.Instance, change func(*record.Instance)) {
	w.Helper()
	if _, err := record.Instances(w.store).Modify(w.Context(), i.Key(),
		func(i *record.Instance) error { change(i); return nil }); err != nil {
		w.Fatal(err)
	}
}

func create[T any](t testing.TB, table store.Table[T], key string, v T) {
	t.Helper()
	if _, err := table.Create(t.Context(), key, v); err != nil {
		t.Error(err)
	}
}

const joins = "#!/bin/bash\n/etc/eks/bootstrap.sh demo --kubelet-extra-args '--node-labels=team=a " +
	"--register-with-taints=k=v:PreferNoSchedule'\n"

func TestMachinesBecomeNodesAndRunPods(t *testing.T) {
	t.Parallel()
	w := newFixture(t, apiservertest.Options{Controllers: []string{"*"}, Scheduler: true})
	stop := w.daemon()
	admin := w.server.Admin()
	ctx := t.Context()

	good := w.launch(1, joins, nil)
	alone := w.launch(2, "#!/bin/bash\necho hello\n", nil)
	wrong := w.launch(3, "#!/bin/bash\n/etc/eks/bootstrap.sh nobody\n", nil)
	w.mu.Lock()
	w.unmapped["i-"+fmt.Sprintf("%017x", 4)] = true
	w.mu.Unlock()
	stranger := w.launch(4, joins, nil)
	bare := w.launch(5, joins, func(i *record.Instance) { i.InstanceProfileARN = "" })

	for _, i := range []record.Instance{good, alone, wrong, stranger, bare} {
		eventually.True(t, "machine "+i.ID+" runs", func() bool {
			m := w.machine(i)
			return m.State == ec2types.InstanceStateNameRunning && m.Boot == 1 &&
				m.InstanceStatus == ec2types.SummaryStatusOk && m.UserData != ""
		})
	}
	if got := w.machine(wrong).UserData; got != "failed: No cluster found for name: nobody." {
		t.Errorf("user data that name no cluster: %q", got)
	}
	for i, want := range map[*record.Instance]string{&stranger: "401 Unauthorized",
		&bare: "the instance has no profile", &alone: "join no cluster"} {
		eventually.True(t, "the console of "+i.ID+" says "+want,
			func() bool { return strings.Contains(w.console(*i), want) })
	}

	name := w.nodeName(good)
	var node *corev1.Node
	eventually.True(t, "the node is ready", func() bool {
		var err error
		node, err = admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	if node.Spec.ProviderID != "aws:///eu-west-1a/"+good.ID || node.Labels["team"] != "a" ||
		node.Labels["kubernetes.io/hostname"] != name {
		t.Errorf("node %s has labels %v", node.Spec.ProviderID, node.Labels)
	}
	if cpu, memory, pods := node.Status.Capacity.Cpu().String(), node.Status.Capacity.Memory().String(),
		node.Status.Capacity.Pods().String(); cpu != "2" || memory != "8Gi" || pods != "29" {
		t.Errorf("an m5.large has %s CPUs, %s, %s pods", cpu, memory, pods)
	}
	if got := node.Status.Allocatable.Cpu().String(); got != "1930m" {
		t.Errorf("%s of a core are left for pods", got)
	}
	if nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil || len(nodes.Items) != 1 {
		t.Errorf("%d nodes, %v", len(nodes.Items), err)
	}

	// What the cloud controller manager would take away.
	if _, err := admin.CoreV1().Nodes().Patch(ctx, name, "application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/spec/taints","value":[]}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	deploy(t, admin, "web", 12) // more than one network interface has addresses for
	eventually.True(t, "12 pods run", func() bool { return running(t, admin, "app=web") == 12 })
	pods, err := admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]bool{}
	for _, p := range pods.Items {
		addresses[p.Status.PodIP] = true
		if !strings.HasPrefix(p.Status.PodIP, "10.") || p.Status.HostIP == "" {
			t.Errorf("pod %s has address %q on host %q", p.Name, p.Status.PodIP, p.Status.HostIP)
		}
	}
	if len(addresses) != 12 {
		t.Errorf("12 pods have %d addresses", len(addresses))
	}
	w.mu.Lock()
	calls := w.calls["AssignPrivateIpAddresses"] + w.calls["CreateNetworkInterface"]
	w.mu.Unlock()
	if calls != 3 {
		t.Errorf("12 addresses took %d calls", calls)
	}

	// Another daemon goes on, and gives no address twice.
	stop()
	w.daemon()
	if err := admin.CoreV1().Pods("default").Delete(ctx, pods.Items[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the pod is replaced", func() bool {
		_, err := admin.CoreV1().Pods("default").Get(ctx, pods.Items[0].Name, metav1.GetOptions{})
		return err != nil && running(t, admin, "app=web") == 12
	})
	deploy(t, admin, "more", 4)
	eventually.True(t, "4 more pods run", func() bool { return running(t, admin, "app=more") == 4 })
	all, err := admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holder := map[string]string{}
	for _, p := range all.Items {
		if other := holder[p.Status.PodIP]; other != "" {
			t.Errorf("%s and %s have the address %s", other, p.Name, p.Status.PodIP)
		}
		holder[p.Status.PodIP] = p.Name
	}

	// What the node lifecycle controller does while a node cannot be heard of.
	lame := runningPods(t, admin, "app=more")[0].Name
	if _, err := admin.CoreV1().Pods("default").Patch(ctx, lame, types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the pod is ready again", func() bool {
		p, err := admin.CoreV1().Pods("default").Get(ctx, lame, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
	})

	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec: batchv1.JobSpec{Template: template("once", corev1.RestartPolicyNever)}}
	if _, err := admin.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the job completes", func() bool {
		j, err := admin.BatchV1().Jobs("default").Get(ctx, "once", metav1.GetOptions{})
		return err == nil && j.Status.Succeeded == 1
	})

	// No address: the pod says why.
	w.mu.Lock()
	w.full = errors.New(
		"api error InsufficientFreeAddressesInSubnet: The specified subnet does not have enough free addresses")
	w.mu.Unlock()
	deploy(t, admin, "crowd", 8)
	eventually.True(t, "an event tells of the lack", func() bool {
		events, err := admin.CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "reason=FailedCreatePodSandBox"})
		return err == nil && len(events.Items) > 0 && strings.Contains(events.Items[0].Message,
			"InsufficientFreeAddressesInSubnet")
	})
	w.mu.Lock()
	w.full = nil
	w.mu.Unlock()
	eventually.True(t, "the crowd runs after all", func() bool { return running(t, admin, "app=crowd") == 8 })

	// The kubelet answers, in its own words.
	pod := runningPods(t, admin, "app=more")[0]
	allowSigning(t, w)
	_, err = admin.CoreV1().Pods("default").GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(ctx)
	if err == nil || !strings.Contains(err.Error(), "machine "+good.ID+" is simulated") {
		t.Errorf("logs: %v", err)
	}

	// Power.
	lease := func() time.Time {
		l, err := admin.CoordinationV1().Leases("kube-node-lease").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l.Spec.RenewTime.Time
	}
	w.want(good, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameStopped })
	eventually.True(t, "it is stopped", func() bool {
		return w.machine(
			good).State == ec2types.InstanceStateNameStopped
	})
	before := lease()
	w.want(good, func(i *record.Instance) { i.Wanted, i.Boot = ec2types.InstanceStateNameRunning, 2 })
	eventually.True(t, "it runs again", func() bool {
		return w.machine(good).State == ec2types.InstanceStateNameRunning && w.machine(good).Boot == 2
	})
	eventually.True(t, "its lease is renewed", func() bool { return lease().After(before) })
	w.want(good, func(i *record.Instance) { i.Wanted = ec2types.InstanceStateNameTerminated })
	eventually.True(t, "it is terminated",
		func() bool { return w.machine(good).State == ec2types.InstanceStateNameTerminated })
	row, err := record.Instances(w.store).Get(ctx, good.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Instances(w.store).Delete(ctx, row); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "nothing is left of it", func() bool {
		return w.machine(good).InstanceID == "" &&
			w.console(good) == ""
	})
}

// allowSigning approves what nodes ask for: package certificates does it in a daemon.
func allowSigning(t *testing.T, w *fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	requests := w.server.Admin().CertificatesV1().CertificateSigningRequests()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list, err := requests.List(ctx, metav1.ListOptions{})
			if err == nil {
				for _, r := range list.Items {
					if len(r.Status.Conditions) == 0 {
						r.Status.Conditions = append(r.Status.Conditions, certificateApproved)
						// the next look tries again
						_, _ = requests.UpdateApproval(ctx, r.Name, &r, metav1.UpdateOptions{})
					}
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

func template(app string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{RestartPolicy: restart,
			Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
}

func deploy(t testing.TB, client kubernetes.Interface, name string, replicas int32) {
	t.Helper()
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, corev1.RestartPolicyAlways)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func runningPods(t testing.TB, client kubernetes.Interface, selector string) []corev1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: selector,
		FieldSelector: "status.phase=Running"})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func running(t testing.TB, client kubernetes.Interface, selector string) int {
	return len(runningPods(t, client, selector))
}

var certificateApproved = certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved,
	Status: corev1.ConditionTrue, Reason: "Test"}
