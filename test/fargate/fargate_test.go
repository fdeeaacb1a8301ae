//go:build linux

// Package fargate tests pods without nodes, as their users see them with the unmodified aws and kubectl. The tests need
// root.
package fargate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// fixture is a cluster without nodes, with private subnets.
type fixture struct {
	*clustertest.Fixture
	t       testing.TB
	private []string         // subnets, in two zones
	role    string           // the ARN of the pod execution role
	filler  networkInterface // what fills the subnet of the profile small
}

// bareRole is the name of the pod execution role of the profile bare: one without permissions.
const bareRole = "bare"

// in returns the fixture for a test in it.
func (w *fixture) in(t testing.TB) *fixture {
	other := *w
	other.t = t
	return &other
}

func newFixture(t testing.TB, name string) *fixture {
	t.Helper()
	w := &fixture{Fixture: clustertest.Empty(t, name, "1.35"), t: t}
	w.AWS(nil, "eks", "update-cluster-config", "--name", name, "--logging",
		`{"clusterLogging":[{"types":["audit"],"enabled":true}]}`)
	w.AwaitStatus(name, "ACTIVE")
	w.private = w.PrivateSubnets(w.SubnetIDs, true)
	w.role = w.PodExecutionRole(name)
	return w
}

// moreProfiles makes profiles for the namespaces of their names: one to patch, one in a subnet without a free address,
// and one whose role may do nothing.
func (w *fixture) moreProfiles() {
	w.t.Helper()
	small := w.SubnetBeside(w.private[0], "172.31.255.0/28")
	var filler struct{ NetworkInterface networkInterface }
	w.AWS(&filler, "ec2", "create-network-interface", "--subnet-id", small, "--secondary-private-ip-address-count",
		"10") // 16 addresses less the 5 that AWS keeps
	w.filler = filler.NetworkInterface
	bare := w.BarePodExecutionRole(w.Cluster, bareRole)
	for name, with := range map[string]struct {
		role    string
		subnets []string
	}{"patched": {w.role, w.private}, "small": {w.role, []string{small}}, "bare": {bare, w.private}} {
		w.Run(w.Config, "kubectl", "create", "namespace", name)
		w.FargateProfile(w.Cluster, name, with.role, with.subnets, "namespace="+name)
	}
}

// networkInterface is a network interface, as far as the tests look.
type networkInterface struct {
	NetworkInterfaceId, SubnetId string
	RequesterManaged             bool
	Groups                       []struct{ GroupId string }
	Attachment                   struct{ InstanceId, Status string }
	PrivateIpAddresses           []struct{ PrivateIpAddress string }
}

// networkInterface returns that of a pod.
func (w *fixture) networkInterface(p pod) networkInterface {
	w.t.Helper()
	var out struct{ NetworkInterfaces []networkInterface }
	w.AWS(&out, "ec2", "describe-network-interfaces", "--filters", "Name=addresses.private-ip-address,Values="+
		p.Status.PodIP)
	if len(out.NetworkInterfaces) != 1 {
		w.t.Fatalf("the pod %s has the network interfaces %+v", p.Metadata.Name, out)
	}
	return out.NetworkInterfaces[0]
}

// pod is a Pod, as far as the tests look.
type pod struct {
	Metadata struct {
		Name, UID, DeletionTimestamp string
		Labels, Annotations          map[string]string
	}
	Spec struct {
		NodeName, SchedulerName, PriorityClassName string
		Priority                                   int
	}
	Status struct {
		Phase, Reason, PodIP, HostIP, NominatedNodeName string
		Conditions                                      []condition
	}
}

type condition struct{ Type, Status, Reason string }

func (w *fixture) pods(namespace, selector string) []pod {
	w.t.Helper()
	var list struct{ Items []pod }
	w.JSON(&list, "get", "pods", "-n", namespace, "-l", selector)
	return list.Items
}

// workload are two servers behind a Service, and a client.
const workload = `apiVersion: v1
kind: Namespace
metadata: {name: fargate}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: fargate}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
      containers:
      - name: web
        image: registry.k8s.io/e2e-test-images/agnhost:2.53
        args: [netexec, --http-port=8080]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: fargate}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

// TestPodsWithoutNodes follows a Deployment in a namespace with a Fargate profile from the profile to its end.
func TestPodsWithoutNodes(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ironman-2022")
	w.FargateProfile(w.Cluster, "demo", w.role, w.private, "namespace=fargate")
	if got := w.Run(w.Config, "kubectl", "get", "mutatingwebhookconfigurations", "-o", "name"); !strings.Contains(got,
		"/0500-amazon-eks-fargate-mutation.amazonaws.com\n") {
		t.Errorf("the webhooks are %s", got)
	}
	w.Apply(workload)
	// CoreDNS runs on Fargate, too: there are no nodes.
	w.FargateProfile(w.Cluster, "system", w.role, w.private, "namespace=kube-system,labels={k8s-app=kube-dns}")
	w.Run(w.Config, "kubectl", "-n", "kube-system", "patch", "deployment", "coredns", "--type=merge", "-p", coreDNSPatch)
	w.moreProfiles()
	w.rollout("fargate", "deployment/web")
	pods := w.pods("fargate", "app=web")
	if len(pods) != 2 {
		t.Fatalf("there are %d pods", len(pods))
	}
	zones := map[string]bool{}
	for _, p := range pods {
		zones[w.checkPod(p)] = true
	}
	if len(zones) != 2 {
		t.Errorf("the pods are in the zones %v", zones)
	}
	w.checkMachines(pods)

	// What a pod reaches: the other one behind its Service, and no metadata.
	w.rollout("kube-system", "deployment/coredns")
	first := pods[0].Metadata.Name
	if got := w.Run(w.Config, "kubectl", "-n", "fargate", "exec", first, "--", "/agnhost", "connect", "--timeout=5s",
		"web:80"); got != "" {
		t.Errorf("the Service answers %s", got)
	}
	if got := w.Run(w.Config, "kubectl", "-n", "fargate", "logs", first); !strings.Contains(got, "8080") {
		t.Errorf("the log of the pod is %q", got)
	}
	w.checkAudit(pods[0])

	// What else happens to pods on Fargate.
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*fixture){
			"logs": (*fixture).followLogs, "files": (*fixture).shareFiles, "role": (*fixture).assumeRole,
			"security groups": (*fixture).followPolicy, "patches": (*fixture).patch, "machine dies": (*fixture).killMachine,
			"full subnet": (*fixture).fillSubnet, "role that may not pull": (*fixture).refuseImage,
			"foreign pod": (*fixture).bindForeignPod, "disk": (*fixture).fillDisk, "memory": (*fixture).fillMemory,
			"CoreDNS": (*fixture).adoptCoreDNS, "port forward": func(w *fixture) {
				w.PortForward("fargate", "pod/"+first, "8080")
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(w.in(t))
			})
		}
	})

	// The daemon may die: pods stay, and what it had begun goes on.
	w.Run(w.Config, "kubectl", "-n", "fargate", "scale", "deployment", "web", "--replicas=3")
	eventually.Nil(t, "there is a third pod", func() error { // which the webhook has seen
		if n := len(w.pods("fargate", "eks.amazonaws.com/fargate-profile=demo,app=web")); n != 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	administrator := w.administrator()
	w.Kill()
	w.missWebhook(administrator)
	w.Restart()
	w.rollout("fargate", "deployment/web")
	for _, p := range pods {
		var now pod
		if w.JSON(&now, "get", "pod", "-n", "fargate", p.Metadata.Name); now.Metadata.UID != p.Metadata.UID ||
			now.Status.Phase != "Running" {
			t.Errorf("%s is another one, or no longer running, after the daemon died: %+v", p.Metadata.Name, now)
		}
	}

	// Without pods there are no nodes and no network interfaces.
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "deployment", "web")
	for _, name := range []string{"demo", "system", "patched", "small", "bare"} { // the pods of which are deleted with it
		w.DeleteFargateProfile(w.Cluster, name)
	}
	w.awaitNothing()
}

// shareFiles has two pods share a file system of EFS by a static volume, as Fargate has no others.
// https://docs.aws.amazon.com/eks/latest/userguide/efs-csi.html
func (w *fixture) shareFiles() {
	var files struct{ FileSystemId string }
	w.AWS(&files, "efs", "create-file-system")
	eventually.Nil(w.t, "the file system is available", func() error {
		if got := strings.TrimSpace(w.Run("", "aws", "efs", "describe-file-systems", "--file-system-id", files.FileSystemId,
			"--query", "FileSystems[0].LifeCycleState", "--output", "text")); got != "available" {
			return errors.New(got)
		}
		return nil
	})
	for _, subnet := range w.private {
		w.AWS(nil, "efs", "create-mount-target", "--file-system-id", files.FileSystemId, "--subnet-id", subnet,
			"--security-groups", w.Group)
	}
	eventually.Nil(w.t, "the mount targets are available", func() error {
		got := w.Run("", "aws", "efs", "describe-mount-targets", "--file-system-id", files.FileSystemId, "--query",
			"MountTargets[].LifeCycleState", "--output", "text")
		if strings.TrimSpace(got) != "available\tavailable" {
			return errors.New(got)
		}
		return nil
	})
	w.Apply(fmt.Sprintf(shared, files.FileSystemId))
	w.rollout("fargate", "statefulset/files")
	w.Run(w.Config, "kubectl", "-n", "fargate", "exec", "files-0", "--", "/agnhost", "mounttest",
		"--new_file_0644=/shared/file")
	if got := w.Run(w.Config, "kubectl", "-n", "fargate", "exec", "files-1", "--", "/agnhost", "mounttest",
		"--file_perm=/shared/file"); !strings.Contains(got, "-rw-r--r--") {
		w.t.Errorf("the other pod sees %q", got)
	}
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "statefulset", "files")
}

// shared is a static volume of a file system to name, and two pods that have it, and a ConfigMap, by subPath, too.
const shared = `apiVersion: v1
kind: PersistentVolume
metadata: {name: files}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteMany]
  storageClassName: efs
  mountOptions: [iam]
  csi: {driver: efs.csi.aws.com, volumeHandle: %s, volumeAttributes: {encryptInTransit: "true"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: files, namespace: fargate}
data: {key: value}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: files, namespace: fargate}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: efs
  resources: {requests: {storage: 5Gi}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: files, namespace: fargate}
spec:
  serviceName: files
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: files}}
  template:
    metadata: {labels: {app: files}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: files
        image: registry.k8s.io/e2e-test-images/agnhost:2.53
        args: [pause]
        volumeMounts:
        - {name: files, mountPath: /shared}
        - {name: files, mountPath: /part, subPath: part}
        - {name: settings, mountPath: /settings}
        - {name: settings, mountPath: /key, subPath: key}
      volumes:
      - {name: files, persistentVolumeClaim: {claimName: files}}
      - {name: settings, configMap: {name: files}}
`

// file writes a file for a command.
func (w *fixture) file(text string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// rollout waits for a workload, and tells what pods and nodes are like if it does not come.
func (w *fixture) rollout(namespace, what string) {
	w.t.Helper()
	if _, _, err := w.Try(w.Config, "kubectl", "-n", namespace, "rollout", "status", what,
		"--timeout=2m"); err != nil {
		for _, args := range [][]string{{"describe", "pods", "-n", namespace}, {"describe", "nodes"},
			{"get", "csr", "-o", "wide"}} {
			out, _, _ := w.Try(w.Config, "kubectl", args...)
			w.t.Log(out)
		}
		out, _, _ := w.Try("", "coracle", "status", "--data-dir", w.Dir)
		w.t.Fatalf("%s: %v\n%s", what, err, out)
	}
}

// checkPod checks what Fargate makes of a pod, and returns the zone of its node.
func (w *fixture) checkPod(p pod) (zone string) {
	w.t.Helper()
	name := p.Metadata.Name
	for what, is := range map[string][2]string{
		"profile":        {p.Metadata.Labels["eks.amazonaws.com/fargate-profile"], "demo"},
		"capacity":       {p.Metadata.Annotations["CapacityProvisioned"], "0.25vCPU 0.5GB"},
		"logging":        {p.Metadata.Annotations["Logging"], "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND"},
		"scheduler":      {p.Spec.SchedulerName, "fargate-scheduler"},
		"priority class": {p.Spec.PriorityClassName, "system-node-critical"},
		"host address":   {p.Status.HostIP, p.Status.PodIP},
		"node": {p.Spec.NodeName, "fargate-ip-" + strings.ReplaceAll(p.Status.PodIP, ".", "-") + "." + harness.Region +
			".compute.internal"},
	} {
		if is[0] != is[1] {
			w.t.Errorf("the %s of %s is %q, want %q", what, name, is[0], is[1])
		}
	}
	if p.Spec.Priority != 2000001000 {
		w.t.Errorf("the priority of %s is %d", name, p.Spec.Priority)
	}
	events := w.Run(w.Config, "kubectl", "-n", "fargate", "get", "events", "--field-selector", "involvedObject.name="+name,
		"-o", `jsonpath={range .items[*]}{.reason}|{.source.component}{.reportingComponent}|{.message}{"\n"}{end}`)
	for _, want := range []string{
		`LoggingDisabled|fargate-scheduler`, `Disabled logging because aws-logging configmap was not found. configmap ` +
			`"aws-logging" not found`,
		`Scheduled|fargate-scheduler`, `Successfully assigned fargate/` + name + ` to ` + p.Spec.NodeName,
	} {
		if !strings.Contains(events, want) {
			w.t.Errorf("the events of %s lack %q:\n%s", name, want, events)
		}
	}
	return w.checkNode(p)
}

// checkMachines checks that the machines of pods are Amazon's: what the account sees of them are network interfaces.
func (w *fixture) checkMachines(pods []pod) {
	w.t.Helper()
	for what, operation := range map[string]string{"Reservations": "describe-instances", "Volumes": "describe-volumes"} {
		out := w.Run("", "aws", "ec2", operation, "--query", what, "--output", "json")
		if strings.TrimSpace(out) != "[]" {
			w.t.Errorf("%s shows %s", operation, out)
		}
	}
	for _, p := range pods {
		i := w.networkInterface(p)
		if !i.RequesterManaged || i.Attachment.InstanceId != "" || i.Attachment.Status != "attached" ||
			!slices.Contains(w.private, i.SubnetId) || len(i.Groups) != 1 || i.Groups[0].GroupId != w.Group {
			w.t.Errorf("the network interface of %s is %+v", p.Metadata.Name, i)
		}
		if _, refused, err := w.Try("", "aws", "ec2", "delete-network-interface", "--network-interface-id",
			i.NetworkInterfaceId); err == nil {
			w.t.Errorf("a user deletes the network interface of a pod: %s", refused)
		}
	}
}

var errStillThere = errors.New("it is still there")

// awaitNothing waits until no node and no network interface of Fargate is left.
func (w *fixture) awaitNothing() {
	w.t.Helper()
	eventually.Nil(w.t, "nodes and network interfaces go with their pods", func() error {
		nodes, err := w.TryNodes()
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if strings.HasPrefix(n.Metadata.Name, "fargate-") {
				return fmt.Errorf("node %s: %w", n.Metadata.Name, errStillThere)
			}
		}
		var out struct {
			NetworkInterfaces []json.RawMessage
		}
		w.AWS(&out, "ec2", "describe-network-interfaces", "--filters", "Name=requester-id,Values=amazon-eks-fargate")
		if n := len(out.NetworkInterfaces); n > 0 {
			return fmt.Errorf("%d network interfaces: %w", n, errStillThere)
		}
		return nil
	})
}
