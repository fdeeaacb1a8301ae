//go:build linux

package nodes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// workload are four servers behind a Service, as the articles deploy them.
const workload = `apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: demo, namespace: demo}
spec:
  replicas: 4
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {labels: {app: demo}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: demo
        image: registry.k8s.io/e2e-test-images/agnhost:2.53
        args: [netexec, --http-port=80]
        ports: [{containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: demo, namespace: demo}
spec:
  selector: {app: demo}
  ports: [{port: 80}]
`

// TestNodesJoinAndRunPods follows two self-managed nodes, one booted by bootstrap.sh and one by nodeadm, from
// RunInstances to pods that talk to each other, and away again.
func TestNodesJoinAndRunPods(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "ironman-2022", "1.35")
	al2 := s.RunInstances(1, s.AL2("1.35"), s.SubnetIDs[0],
		s.Bootstrap("--node-labels=alpha.eksctl.io/nodegroup-name=demo-self-ng,node-lifecycle=on-demand"))[0]
	al2023 := s.RunInstances(1, s.AL2023("1.35"), s.SubnetIDs[1], s.NodeConfig("--node-labels=pool=nodeadm"))[0]

	// A pod has an address as soon as its node has the CNI; before, its node is not Ready.
	ready := s.AwaitNodes(al2, al2023)
	for i, n := range ready {
		id := []string{al2, al2023}[i]
		var out struct {
			Reservations []struct {
				Instances []struct {
					PrivateIpAddress, PrivateDnsName string
					Placement                        struct{ AvailabilityZone string }
					State                            struct{ Name string }
				}
			}
		}
		s.AWS(&out, "ec2", "describe-instances", "--instance-ids", id)
		instance := out.Reservations[0].Instances[0]
		if instance.State.Name != "running" || n.Metadata.Name != instance.PrivateDnsName ||
			n.Address("InternalIP") != instance.PrivateIpAddress {
			t.Errorf("instance %+v is node %s at %s", instance, n.Metadata.Name, n.Address("InternalIP"))
		}
		if want := "aws:///" + instance.Placement.AvailabilityZone + "/" + id; n.Spec.ProviderID != want {
			t.Errorf("providerID is %s, want %s", n.Spec.ProviderID, want)
		}
		for label, want := range map[string]string{
			"node.kubernetes.io/instance-type": "m5.large",
			"topology.kubernetes.io/region":    harness.Region,
			"topology.kubernetes.io/zone":      instance.Placement.AvailabilityZone,
			"kubernetes.io/hostname":           instance.PrivateDnsName,
			"kubernetes.io/arch":               "amd64",
		} {
			if got := n.Metadata.Labels[label]; got != want {
				t.Errorf("label %s of %s is %q, want %q", label, n.Metadata.Name, got, want)
			}
		}
		if n.Status.Capacity["cpu"] != "2" || n.Status.Capacity["pods"] != "29" {
			t.Errorf("an m5.large has a capacity of %v", n.Status.Capacity)
		}
		if kib := kibibytes(t, n.Status.Capacity["memory"]); kib < 7<<20 || kib > 8<<20 {
			t.Errorf("an m5.large has %s of memory", n.Status.Capacity["memory"])
		}
	}
	if got := ready[0].Metadata.Labels["node-lifecycle"]; got != "on-demand" {
		t.Errorf("the user data's label is %q", got)
	}
	if got := ready[1].Metadata.Labels["pool"]; got != "nodeadm" {
		t.Errorf("the NodeConfig's label is %q", got)
	}

	// What is seen inside is what is seen inside an EKS node.
	if got := s.In(al2, "ls", "/opt/cni/bin"); !strings.Contains(got, "aws-cni") || !strings.Contains(got, "loopback") {
		t.Errorf("/opt/cni/bin has %s", got)
	}
	if got := s.In(al2, "cat", "/etc/cni/net.d/10-aws.conflist"); !strings.Contains(got, `"type": "aws-cni"`) {
		t.Errorf("10-aws.conflist is %s", got)
	}
	if got := s.In(al2, "cat", "/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf"); !strings.Contains(
		got, "--node-labels=alpha.eksctl.io/nodegroup-name=demo-self-ng") {
		t.Errorf("30-kubelet-extra-args.conf is %s", got)
	}
	if got := s.In(al2, "sh", "-c", "ps aux | grep /kubelet"); !strings.Contains(got,
		"--node-labels=alpha.eksctl.io/nodegroup-name=demo-self-ng") {
		t.Errorf("the kubelet runs as %s", got)
	}
	if got := s.In(al2, "ls", "/var/log/aws-routed-eni"); !strings.Contains(got, "ipamd.log") {
		t.Errorf("/var/log/aws-routed-eni has %s", got)
	}

	// Serving certificates come from requests that EKS approved.
	if got := s.Run(s.Config, "kubectl", "get", "csr", "-o",
		"jsonpath={range .items[*]}{.spec.signerName} {.status.conditions[*].type}{'\\n'}{end}"); strings.Count(got,
		"kubernetes.io/kubelet-serving Approved") < 2 {
		t.Errorf("certificate signing requests:\n%s", got)
	}

	// Pods run, with addresses of their node's subnet, and reach each other by name through a Service.
	s.Apply(workload)
	s.Await("jsonpath={.status.readyReplicas}=4", "deployment/demo", "-n", "demo") // Available is 3 of 4
	s.Await("condition=Available", "deployment/coredns", "-n", "kube-system")
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ NodeName string }
			Status   struct{ PodIP, HostIP string }
		}
	}
	s.JSON(&pods, "get", "pods", "-n", "demo")
	vpc := netip.MustParsePrefix("172.31.0.0/16")
	seen := map[string]bool{}
	for _, p := range pods.Items {
		ip, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil || !vpc.Contains(ip) || seen[p.Status.PodIP] {
			t.Errorf("pod %s has address %q", p.Metadata.Name, p.Status.PodIP)
		}
		seen[p.Status.PodIP] = true
		var eni struct {
			NetworkInterfaces []struct{ Attachment struct{ InstanceId string } }
		}
		s.AWS(&eni, "ec2", "describe-network-interfaces", "--filters", "Name=addresses.private-ip-address,Values="+
			p.Status.PodIP)
		if len(eni.NetworkInterfaces) != 1 {
			t.Errorf("address %s belongs to %v", p.Status.PodIP, eni)
		}
	}
	first := pods.Items[0].Metadata.Name
	for _, p := range pods.Items[1:] {
		if got := s.exec(first, "fetch http://"+p.Status.PodIP+"/hostname"); got != p.Metadata.Name {
			t.Errorf("pod %s answers %q", p.Metadata.Name, got)
		}
	}
	if got := s.exec(first, "fetch http://demo.demo.svc.cluster.local/hostname"); !strings.HasPrefix(got, "demo-") {
		t.Errorf("the service answers %q", got)
	}
	if got := s.Run(s.Config, "kubectl", "logs", "-n", "demo", first); got == "" {
		t.Error("kubectl logs shows nothing")
	}
	s.PortForward("demo", "deployment/demo", "80")
	s.discoversIssuer()

	// A terminated instance is a node no more, and its addresses are free.
	s.AWS(nil, "ec2", "terminate-instances", "--instance-ids", al2)
	s.Run("", "aws", "ec2", "wait", "instance-terminated", "--instance-ids", al2)
	err := eventually.Try(200*time.Millisecond, func() error {
		if all := s.Nodes(); slices.ContainsFunc(all,
			func(n clustertest.Node) bool { return strings.HasSuffix(n.Spec.ProviderID, al2) }) {
			return errStillThere
		}
		return nil
	})
	if err != nil {
		t.Errorf("the node of a terminated instance: %v", err)
	}
}

// exec runs a shell command in a pod of the workload.
func (s *cluster) exec(pod, command string) string {
	s.t.Helper()
	return strings.TrimSpace(s.Run(s.Config, "kubectl", "exec", "-n", "demo", pod, "--", "sh", "-c", command))
}

// verifier verifies its own token as Kubernetes' conformance test ServiceAccountIssuerDiscovery does: it discovers the
// keys of the issuer that the token names, trusting the cluster's authority first, and whom the image trusts then.
const verifier = `apiVersion: v1
kind: Pod
metadata: {name: verifier, namespace: demo}
spec:
  restartPolicy: Never
  containers:
  - name: verifier
    image: registry.k8s.io/e2e-test-images/agnhost:2.53
    command: [/agnhost, test-service-account-issuer-discovery, --token-path=/var/run/secrets/tokens/token, --audience=a]
    volumeMounts: [{name: token, mountPath: /var/run/secrets/tokens, readOnly: true}]
  volumes:
  - name: token
    projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 600, audience: a}}]}
`

// discoversIssuer runs the verifier to its end.
func (s *cluster) discoversIssuer() {
	s.t.Helper()
	s.Apply(verifier)
	s.eventually("a pod verifies its token by the issuer's documents", func() error {
		phase := s.Run(s.Config, "kubectl", "get", "pod", "verifier", "-n", "demo", "-o", "jsonpath={.status.phase}")
		switch phase {
		case "Succeeded":
			return nil
		case "Failed":
			return eventually.Never(fmt.Errorf("it says %s", s.Run(s.Config, "kubectl", "logs", "verifier", "-n", "demo")))
		}
		return fmt.Errorf("it is %s", phase)
	})
}
