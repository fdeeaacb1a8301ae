package simulated

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/kubernetes"
)

// kubelet is a simulated node.
type kubelet struct {
	key      string // of the instance
	instance record.Instance
	boot     *node
	name     string // of the Node
	ip       netip.Addr
	kind     instancetype.Type
	image    ami.Image
	maxPods  int
	pool     pool
	fleet    *fleet

	mu         sync.Mutex
	token      string
	tokenUntil time.Time

	serving sync.Mutex       // held while a certificate is asked for
	served  *tls.Certificate // nil before somebody wanted to see one

	// Of the fleet's queue, which works on a node once at a time.
	uid      types.UID // empty before it is registered
	lease    string    // its resource version; empty before there is one
	statusAt time.Time // when the status was last reported
	gone     bool      // somebody has deleted the Node: a kubelet does not register twice
	refusal  string    // why it could not be registered, as the console says
}

// statusEvery is the interval at which a kubelet reports a status that has not changed (nodeStatusReportFrequency).
const statusEvery = 5 * time.Minute

func (c *Controller) newKubelet(key string, instance record.Instance, primary record.NetworkInterface,
	boot *node) (*kubelet, error) {
	kind, ok := instancetype.Get(string(instance.InstanceType))
	if !ok {
		return nil, fmt.Errorf("the capacity of instance type %s is unknown", instance.InstanceType)
	}
	address := ""
	if len(primary.PrivateIPs) > 0 {
		address = primary.PrivateIPs[0]
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("the primary address of network interface %s: %w", primary.ID, err)
	}
	image, _ := ami.Get(instance.Region, instance.ImageID) // a user's own image is unknown, and like EKS's
	k := &kubelet{
		key: key, instance: instance, boot: boot, ip: ip, kind: kind, image: image,
		name:    privateDNSName(instance, ip),
		maxPods: cmp.Or(boot.maxPods, kind.MaxPods()),
	}
	k.pool.init(c, k)
	return k, nil
}

// privateDNSName returns the private DNS name of the machine, which is the name of its node.
// https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html#vpc-dns-hostnames
func privateDNSName(i record.Instance, ip netip.Addr) string {
	host := "ip-" + strings.ReplaceAll(ip.String(), ".", "-")
	if i.HostnameType == "resource-name" {
		host = i.ID
	}
	if i.Region == "us-east-1" && i.HostnameType != "resource-name" {
		return host + ".ec2.internal"
	}
	return host + "." + i.Region + ".compute.internal"
}

// credentials returns a provider of the credentials of the node's instance role.
func (k *kubelet) credentials(c *Controller) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		return c.o.Credentials(ctx, k.instance)
	})
}

// bearerToken returns a token for the cluster as `aws eks get-token` makes it from the instance role's credentials.
// Kubelets use a token until shortly before it expires.
// https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
func (k *kubelet) bearerToken(ctx context.Context) (string, error) {
	const life, early = 15 * time.Minute, time.Minute
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.token != "" && now.Before(k.tokenUntil) {
		return k.token, nil
	}
	credentials, err := k.fleet.c.o.Credentials(ctx, k.instance)
	if err != nil {
		return "", fmt.Errorf("no credentials of the instance role: %w", err)
	}
	region := k.instance.Region
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://sts."+region+
		".amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("x-k8s-aws-id", k.fleet.cluster.Name)
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // the hash of no body
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, credentials, r, empty, "sts", region, now)
	if err != nil {
		return "", err
	}
	k.token = "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(signed))
	k.tokenUntil = now.Add(life - early)
	if credentials.CanExpire && credentials.Expires.Before(k.tokenUntil) {
		k.tokenUntil = credentials.Expires
	}
	return k.token, nil
}

// forgetToken drops the token, so that the next request is made with a new one.
func (k *kubelet) forgetToken() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.token = ""
}

// statusError is an answer of an API server that is no success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("%d %s", e.code, e.text) }

func isStatus(err error, code int) bool {
	var s *statusError
	return errors.As(err, &s) && s.code == code
}

// sendRequest does a request as the node, and decodes the answer into out unless that is nil.
func (k *kubelet) sendRequest(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	token, err := k.bearerToken(ctx)
	if err != nil {
		return err
	}
	connections, host := k.fleet.connection()
	if connections == nil {
		return errNotConnected
	}
	r, err := http.NewRequestWithContext(ctx, method, host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", k.userAgent())
	response, err := connections.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		// an answer without a body says enough by its status
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if response.StatusCode == http.StatusUnauthorized {
			k.forgetToken()
		}
		var status metav1.Status
		if json.Unmarshal(text, &status) == nil && status.Message != "" {
			text = []byte(status.Message)
		}
		return &statusError{response.StatusCode, strings.TrimSpace(string(text))}
	}
	if out != nil {
		return json.NewDecoder(response.Body).Decode(out)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func (k *kubelet) userAgent() string {
	return "kubelet/" + k.version() + " (linux/" + k.architecture() + ") kubernetes/" + k.gitCommit()
}

// version returns the version that the kubelet reports: that of its image, or the cluster's.
func (k *kubelet) version() string {
	if v, ok := k.release(); ok {
		return v.GitVersion()
	}
	return "v" + k.fleet.cluster.Version + ".0"
}

func (k *kubelet) gitCommit() string {
	if v, ok := k.release(); ok {
		return v.GitCommit()[:7]
	}
	return "unknown"
}

func (k *kubelet) release() (kubernetes.Version, bool) {
	return kubernetes.Lookup(cmp.Or(k.image.KubernetesVersion, k.fleet.cluster.Version))
}

func (k *kubelet) architecture() string {
	if k.kind.Architecture == instancetype.ARM64 {
		return "arm64"
	}
	return "amd64"
}

// reconcileNode takes the steps that are due for the node, and returns the time until the next pass.
func (k *kubelet) reconcileNode(ctx context.Context) (again time.Duration, err error) {
	if k.gone {
		return 0, nil
	}
	if k.uid == "" {
		if err := k.register(ctx); err != nil {
			return 0, err
		}
	} else if time.Since(k.statusAt) >= statusEvery {
		switch err := k.reportStatus(ctx); {
		case isStatus(err, http.StatusNotFound):
			k.gone = true
			return 0, nil
		case err != nil:
			return 0, err
		}
	}
	if err := k.renewLease(ctx); err != nil {
		return 0, err
	}
	// Kubelets spread their renewals by a twenty-fifth.
	every := k.fleet.c.o.Heartbeat
	return every + rand.N(every/25+1), nil
}

const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
	patchType = "application/strategic-merge-patch+json"
)

// register creates the Node, or takes over the one that is there.
func (k *kubelet) register(ctx context.Context) error {
	n := k.buildNode()
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	var have corev1.Node
	err = k.sendRequest(ctx, http.MethodPost, "/api/v1/nodes", jsonType, body, &have)
	if isStatus(err, http.StatusConflict) {
		if err = k.sendRequest(ctx, http.MethodGet, "/api/v1/nodes/"+k.name, jsonType, nil, &have); err == nil &&
			have.Spec.ProviderID != "" && have.Spec.ProviderID != n.Spec.ProviderID {
			err = fmt.Errorf("node %s is %s still", k.name, client.Cut(have.Spec.ProviderID))
		}
		if err == nil {
			err = k.reportStatus(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("register node %s: %w", k.name, err)
	}
	if have.UID == "" || !client.IsPossible(&have) {
		return fmt.Errorf("register node %s: the answer has no name and UID that a node can have", k.name)
	}
	k.uid, k.statusAt = have.UID, time.Now()
	return nil
}

// renewLease renews the lease, which says that the node lives.
func (k *kubelet) renewLease(ctx context.Context) error {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	lease := coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Name: k.name, Namespace: "kube-node-lease", ResourceVersion: k.lease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.name, UID: k.uid}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &k.name, LeaseDurationSeconds: new(int32(40)),
			RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	body, err := json.Marshal(lease)
	if err != nil {
		return err
	}
	var have metav1.PartialObjectMetadata
	if k.lease != "" {
		err = k.sendRequest(ctx, http.MethodPut, leases+"/"+k.name, jsonType, body, &have)
		if isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusConflict) {
			k.lease = ""
		}
	} else {
		err = k.sendRequest(ctx, http.MethodPost, leases, jsonType, body, &have)
		if isStatus(err, http.StatusConflict) {
			err = k.sendRequest(ctx, http.MethodGet, leases+"/"+k.name, jsonType, nil, &have)
		}
	}
	if err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", k.name, err)
	}
	if !client.IsPossible(&have) {
		return fmt.Errorf("renew the lease of node %s: the answer has no name and version that a lease can have", k.name)
	}
	k.lease = have.ResourceVersion
	return nil
}

// reportStatus reports an unchanged status of the node.
func (k *kubelet) reportStatus(ctx context.Context) error {
	status := k.nodeStatus()
	body, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": status.Conditions, "nodeInfo": status.NodeInfo, "capacity": status.Capacity,
		"allocatable":     status.Allocatable,
		"daemonEndpoints": status.DaemonEndpoints,
	}})
	if err != nil {
		return err
	}
	err = k.sendRequest(ctx, http.MethodPatch, "/api/v1/nodes/"+k.name+"/status", patchType, body, nil)
	if err == nil {
		k.statusAt = time.Now()
	}
	return err
}

// buildNode returns the Node as a kubelet of an EKS image registers it; the cloud controller manager adds what it knows
// of the instance, and removes the first taint.
func (k *kubelet) buildNode() *corev1.Node {
	labels := map[string]string{
		"beta.kubernetes.io/arch": k.architecture(), "beta.kubernetes.io/os": "linux",
		"kubernetes.io/arch": k.architecture(), "kubernetes.io/os": "linux", "kubernetes.io/hostname": k.name,
	}
	for label, value := range k.boot.labels {
		labels[label] = value
	}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: k.name, Labels: labels, Annotations: map[string]string{
			"alpha.kubernetes.io/provided-node-ip":                   k.ip.String(),
			"volumes.kubernetes.io/controller-managed-attach-detach": "true",
		}},
		Spec: corev1.NodeSpec{
			ProviderID: k.providerID(),
			Taints: append([]corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true",
				Effect: corev1.TaintEffectNoSchedule}}, k.boot.taints...),
		},
		Status: k.nodeStatus(),
	}
}

func (k *kubelet) nodeStatus() corev1.NodeStatus {
	capacity, allocatable := k.resources()
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason,
		message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: now,
			LastTransitionTime: metav1.Time{Time: k.instance.WantedSince}, Reason: reason, Message: message}
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: allocatable,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory",
				"kubelet has sufficient memory available"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure",
				"kubelet has no disk pressure"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID",
				"kubelet has sufficient PID available"),
			condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
		},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: k.ip.String()},
			{Type: corev1.NodeHostName, Address: k.name}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
		NodeInfo: corev1.NodeSystemInfo{
			Architecture: k.architecture(), OperatingSystem: "linux", OSImage: k.osImage(), KernelVersion: "simulated",
			ContainerRuntimeVersion: "simulated://kwok", KubeletVersion: k.version(), KubeProxyVersion: k.version(),
			MachineID: "ec2" + strings.TrimPrefix(k.instance.ID, "i-"), SystemUUID: "ec2" +
				strings.TrimPrefix(k.instance.ID, "i-"), BootID: fmt.Sprintf("%s-%d", k.instance.ID, k.instance.Boot),
		},
	}
}

func (k *kubelet) osImage() string {
	switch k.image.Family {
	case ami.AL2:
		return "Amazon Linux 2"
	case ami.Bottlerocket:
		return "Bottlerocket OS"
	}
	return "Amazon Linux 2023"
}

// resources returns the capacity of the machine, and what EKS's images leave of it to pods.
// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go
func (k *kubelet) resources() (capacity, allocatable corev1.ResourceList) {
	if f := k.instance.Fargate; f != nil {
		return fargateResources(*f)
	}
	quantity := func(n int64, format resource.Format) resource.Quantity { return *resource.NewQuantity(n, format) }
	const mebi = 1 << 20
	cpu := int64(k.kind.VCPU)
	memory := int64(k.kind.MemoryMiB) * mebi
	disk := int64(cmp.Or(k.image.RootVolumeGiB, 20)) << 30
	capacity = corev1.ResourceList{
		corev1.ResourceCPU: quantity(cpu, resource.DecimalSI), corev1.ResourceMemory: quantity(memory,
			resource.BinarySI),
		corev1.ResourceEphemeralStorage: quantity(disk, resource.BinarySI),
		corev1.ResourcePods:             quantity(int64(k.maxPods), resource.DecimalSI),
		"hugepages-1Gi":                 quantity(0, resource.DecimalSI),
		"hugepages-2Mi":                 quantity(0, resource.DecimalSI),
	}
	if k.kind.GPUs > 0 && k.kind.GPUManufacturer == "NVIDIA" {
		capacity["nvidia.com/gpu"] = quantity(int64(k.kind.GPUs), resource.DecimalSI)
	}
	allocatable = capacity.DeepCopy()
	// A thousandth of a core: 6 % of the first, 1 % of the second, half a per cent of the next two, a quarter of the
	// rest.
	reserved := int64(0)
	for core := range cpu {
		switch {
		case core == 0:
			reserved += 600
		case core == 1:
			reserved += 100
		case core < 4:
			reserved += 50
		default:
			reserved += 25
		}
	}
	allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu*1000-reserved/10, resource.DecimalSI)
	allocatable[corev1.ResourceMemory] = quantity(max(0, memory-int64(255+11*k.maxPods+100)*mebi), resource.BinarySI)
	allocatable[corev1.ResourceEphemeralStorage] = quantity(disk*9/10-1<<30, resource.DecimalSI)
	return capacity, allocatable
}

// complain writes what the kubelet would have to say into the instance's console, once.
func (k *kubelet) complain(ctx context.Context, err error) {
	line := shorten("kubelet: " + err.Error())
	if line == k.refusal {
		return
	}
	k.refusal = line
	k.reportFailure(ctx, line)
	if err := k.fleet.c.console(ctx, k.key, line); err != nil && ctx.Err() == nil {
		k.fleet.c.log.Error("write to an instance's console", "instance", k.instance.ID, "error", err)
	}
}
