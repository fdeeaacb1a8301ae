//go:build linux

package nodes

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestPluginOptions sets the options of the VPC CNI plugin, as its documentation has them, and looks at what they do to
// network interfaces, to the addresses of pods and to their packets. Its two nodes have different options: aws-node is
// only replaced where its pod is deleted. On the way it asks who gets an answer of the instance's metadata and of the
// AWS APIs.
// https://github.com/aws/amazon-vpc-cni-k8s#cni-configuration-variables
func TestPluginOptions(t *testing.T) {
	t.Parallel()
	testenv.NeedsAll(t, "test/addon has the plugin with its defaults")
	s := newCluster(t, "plugin", "1.35")
	s.Run(s.Config, "kubectl", "patch", "daemonset", "aws-node", "-n", "kube-system", "-p",
		`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)

	// Targets: four addresses at least, and two more than there are pods.
	s.setPlugin("WARM_IP_TARGET=2", "MINIMUM_IP_TARGET=4")
	a := s.RunInstances(1, s.AL2023("1.35"), s.SubnetIDs[0], s.NodeConfig(), "--metadata-options",
		"HttpTokens=required,HttpPutResponseHopLimit=1")[0]
	nodeA := s.AwaitNodes(a)[0]
	s.Await("condition=Available", "deployment/coredns", "-n", "kube-system") // both replicas are on the only node
	s.secondaryAddresses(a, 4)

	// Custom networking in a range of its own, by prefixes. This node boots while the pods of the other are looked at.
	s.customNetworking(s.SubnetIDs[1])
	s.setPlugin("WARM_IP_TARGET-", "MINIMUM_IP_TARGET-", "ENABLE_PREFIX_DELEGATION=true",
		"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG=true", "ENI_CONFIG_LABEL_DEF=topology.kubernetes.io/zone")
	b := s.RunInstances(1, s.AL2023("1.35"), s.SubnetIDs[1], s.NodeConfig())[0]

	s.configMap("aws-ca", filepath.Join(s.Dir, "pki", "ca.crt"))
	host := s.pod("host-a", nodeA.Metadata.Name, "hostNetwork: true")
	client := s.pod("client", nodeA.Metadata.Name, s.apiClient("AWS_CA_BUNDLE", "/etc/aws-ca/ca.crt"))
	other := s.pod("other", nodeA.Metadata.Name, s.apiClient("AWS_ENDPOINT_URL", "http://"+s.apiAddress(a)+":4566"))
	third := s.pod("third", nodeA.Metadata.Name, "")
	s.await(host, client, other, third)
	s.secondaryAddresses(a, 7)

	s.metadataByHops(host, client)
	s.callsFromMachinesAndPods(a, client, other)

	nodeB := s.AwaitNodes(b)[0]
	distant, hostB := s.pod("distant", nodeB.Metadata.Name, ""), s.pod("host-b", nodeB.Metadata.Name,
		"hostNetwork: true")
	s.await(distant, hostB)
	s.isOutOfPrefix(b, s.podIP(distant))
	if got := s.fetch(distant, "http://"+s.podIP(third)+"/hostname"); got != third {
		t.Errorf("from a pod of the other range, %s answers %q", third, got)
	}
	if got := s.fetch(third, "http://"+s.podIP(distant)+"/hostname"); got != distant {
		t.Errorf("the pod of the other range answers %q", got)
	}
	// The plugin of the first node translates addresses for the new range until it has learned that it is the VPC's.
	s.eventually("a pod is seen by its own address inside the VPC", func() error {
		got, errs, err := s.Try(s.Config, "kubectl", "exec", third, "--", "fetch",
			"http://"+s.podIP(distant)+"/clientip")
		if err != nil || !strings.HasPrefix(got, s.podIP(third)+":") {
			return fmt.Errorf("the pod at %s is seen as %q, %v %s", s.podIP(third), got, err, errs)
		}
		return nil
	})
	if got := s.inPod(distant,
		`cd /var/run/secrets/kubernetes.io/serviceaccount; SSL_CERT_FILE=$PWD/ca.crt fetch -H "Authorization: Bearer $(cat token)" https://kubernetes.default.svc/version`); !strings.Contains(got, "gitVersion") {
		t.Errorf("from a pod of the other range, the API server answers %q", got)
	}

	// Outside the VPC (here, an address that a route leads to a machine), a pod is seen as its node, unless somebody
	// else translates.
	outside := s.outside(b)
	if got := s.fetch(third, outside); !strings.HasPrefix(got, nodeA.Address("InternalIP")+":") {
		t.Errorf("outside, a pod of the node %s is seen as %s", nodeA.Address("InternalIP"), got)
	}
	s.setPlugin("ENABLE_PREFIX_DELEGATION=false", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG=false", "ENI_CONFIG_LABEL_DEF-",
		"AWS_VPC_K8S_CNI_EXTERNALSNAT=true")
	s.Run(s.Config, "kubectl", "delete", "pod", "-n", "kube-system", "-l", "k8s-app=aws-node", "--field-selector",
		"spec.nodeName="+nodeA.Metadata.Name)
	s.eventually("a pod is seen by its own address outside", func() error {
		got, errs, err := s.Try(s.Config, "kubectl", "exec", third, "--", "fetch", outside)
		if err != nil || !strings.HasPrefix(got, s.podIP(third)+":") {
			return fmt.Errorf("the pod at %s is seen as %q, %v %s", s.podIP(third), got, err, errs)
		}
		return nil
	})
}

// metadataByHops requests a token from a pod and from a pod in the node's network, with a hop limit that lets the
// response cross no router.
func (s *cluster) metadataByHops(host, pod string) {
	s.t.Helper()
	ask := []string{"fetch", "-t", "3", "-X", "PUT", "-H", "X-aws-ec2-metadata-token-ttl-seconds: 60",
		"http://169.254.169.254/latest/api/token"}
	if got := s.Run(s.Config, "kubectl", append([]string{"exec", host, "--"}, ask...)...); len(got) < 40 {
		s.t.Errorf("in the node's network, the token is %q", got)
	}
	if out, errs, err := s.Try(s.Config, "kubectl", append([]string{"exec", pod, "--"}, ask...)...); err == nil ||
		out != "" || !strings.Contains(errs, "exceeded") {
		s.t.Errorf("beyond the hop limit, a pod gets %q, %v: %s", out, err, errs)
	}
	if _, errs, err := s.Try(s.Config, "kubectl", "exec", host, "--", "fetch",
		"http://169.254.169.254/latest/meta-data/"); err == nil || !strings.Contains(errs, "401") {
		s.t.Errorf("without a token the metadata say %v: %s", err, errs)
	}
}

// request is the kubelet's request to its credential provider, which then calls ECR through the SDK for Go.
const request = `echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"111122223333.dkr.ecr.` + harness.Region + `.amazonaws.com/app:v1"}' | `

const provider = "/etc/eks/image-credential-provider/ecr-credential-provider"

// callsFromMachinesAndPods calls AWS APIs with a program of AWS's SDK from everywhere inside a VPC.
func (s *cluster) callsFromMachinesAndPods(instance string, pods ...string) {
	s.t.Helper()
	if got := s.In(instance, "sh", "-c", request+provider+" get-credentials"); !strings.Contains(got,
		`"username":"AWS"`) {
		s.t.Errorf("in a machine, by the role of the instance and ECR's default name: %s", got)
	}
	for _, pod := range pods {
		if got := s.inPod(pod, request+provider+" get-credentials"); !strings.Contains(got, `"username":"AWS"`) {
			s.t.Errorf("in pod %s: %s", pod, got)
		}
	}
	token := s.In(instance, "aws-iam-authenticator", "token", "-i", s.Cluster)
	if !strings.Contains(token, "k8s-aws-v1.") {
		s.t.Errorf("aws-iam-authenticator says %s", token)
	}
}

// apiClient returns the rest of a pod's spec with a program of the SDK, keys and one more variable.
func (s *cluster) apiClient(variable, value string) string {
	return fmt.Sprintf(`volumes:
  - {name: ca, configMap: {name: aws-ca}}
  - {name: provider, hostPath: {path: %s, type: File}}
  containers:
  - name: agnhost
    volumeMounts:
    - {name: ca, mountPath: /etc/aws-ca}
    - {name: provider, mountPath: %[1]s}
    env:
    - {name: AWS_ACCESS_KEY_ID, value: %q}
    - {name: AWS_SECRET_ACCESS_KEY, value: %q}
    - {name: %s, value: %q}`, provider, s.Variable("AWS_ACCESS_KEY_ID"), s.Variable("AWS_SECRET_ACCESS_KEY"), variable,
		value)
}

// apiAddress returns the address at which the daemon takes calls inside VPCs.
func (s *cluster) apiAddress(instance string) string {
	s.t.Helper()
	fields := strings.Fields(s.In(instance, "getent", "ahostsv4", "sts."+harness.Region+".amazonaws.com"))
	if len(fields) == 0 {
		s.t.Fatal("a machine does not know the name of STS")
	}
	return fields[0]
}

func (s *cluster) configMap(name, file string) {
	s.t.Helper()
	s.Run(s.Config, "kubectl", "create", "configmap", name, "--from-file="+file)
}

// setPlugin changes the environment of aws-node, and waits until new pods have it.
func (s *cluster) setPlugin(variables ...string) {
	s.t.Helper()
	s.Run(s.Config, "kubectl", append([]string{"set", "env", "daemonset/aws-node", "-c", "aws-node", "-n",
		"kube-system"}, variables...)...)
	generation := s.Run(s.Config, "kubectl", "get", "daemonset/aws-node", "-n", "kube-system", "-o",
		"jsonpath={.metadata.generation}")
	s.Await("jsonpath={.status.observedGeneration}="+generation, "daemonset/aws-node", "-n", "kube-system")
}

// pod makes a pod on a node, which answers on port 80, or 8088 in the node's network; rest is the rest of its spec, of
// which the last may be a container.
func (s *cluster) pod(name, node, rest string) string {
	s.t.Helper()
	if rest == "" {
		rest = "restartPolicy: Always"
	}
	if !strings.Contains(rest, "containers:") {
		rest += "\n  containers:\n  - name: agnhost"
	}
	port := 80
	if strings.Contains(rest, "hostNetwork: true") {
		port = 8088
	}
	s.Apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 1
  %s
    image: %s
    args: [netexec, --http-port=%d, --udp-port=-1]
    readinessProbe: {httpGet: {path: /, port: %[5]d}, periodSeconds: 1}
`, name, node, rest, harness.Agnhost, port))
	return name
}

func (s *cluster) await(pods ...string) {
	s.t.Helper()
	for _, pod := range pods {
		s.Await("condition=Ready", "pod/"+pod)
	}
}

func (s *cluster) podIP(pod string) string {
	s.t.Helper()
	return s.Run(s.Config, "kubectl", "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
}

// inPod runs a shell command in a pod.
func (s *cluster) inPod(pod, command string) string {
	s.t.Helper()
	return strings.TrimSpace(s.Run(s.Config, "kubectl", "exec", pod, "--", "sh", "-c", command))
}

func (s *cluster) fetch(pod, url string) string {
	s.t.Helper()
	return s.inPod(pod, "fetch "+url)
}

// networkInterface is an ENI, as far as the tests look.
type networkInterface struct {
	NetworkInterfaceId, SubnetId string
	Attachment                   struct{ DeviceIndex int }
	PrivateIpAddresses           []struct {
		Primary          bool
		PrivateIpAddress string
	}
	Ipv4Prefixes []struct{ Ipv4Prefix string }
}

func (s *cluster) interfaces(instance string) []networkInterface {
	s.t.Helper()
	var out struct{ NetworkInterfaces []networkInterface }
	s.AWS(&out, "ec2", "describe-network-interfaces", "--filters", "Name=attachment.instance-id,Values="+instance)
	return out.NetworkInterfaces
}

// secondaryAddresses waits until the interfaces of an instance have that many of them.
func (s *cluster) secondaryAddresses(instance string, want int) {
	s.t.Helper()
	s.eventually("targets of addresses", func() error {
		got := 0
		for _, eni := range s.interfaces(instance) {
			for _, address := range eni.PrivateIpAddresses {
				if !address.Primary {
					got++
				}
			}
		}
		if got != want {
			return fmt.Errorf("%s has %d secondary addresses, not %d", instance, got, want)
		}
		return nil
	})
}

// customNetworking gives the pods of a subnet's zone a subnet in 100.64.0.0/16.
// https://docs.aws.amazon.com/eks/latest/userguide/cni-custom-network-tutorial.html
func (s *cluster) customNetworking(subnet string) {
	s.t.Helper()
	var of struct {
		Subnets []struct{ VpcId, AvailabilityZone string }
	}
	s.AWS(&of, "ec2", "describe-subnets", "--subnet-ids", subnet)
	vpc, zone := of.Subnets[0].VpcId, of.Subnets[0].AvailabilityZone
	s.AWS(nil, "ec2", "associate-vpc-cidr-block", "--vpc-id", vpc, "--cidr-block", "100.64.0.0/16")
	var made struct{ Subnet struct{ SubnetId string } }
	s.AWS(&made, "ec2", "create-subnet", "--vpc-id", vpc, "--availability-zone", zone, "--cidr-block", "100.64.8.0/24")
	s.Apply(fmt.Sprintf(`apiVersion: crd.k8s.amazonaws.com/v1alpha1
kind: ENIConfig
metadata: {name: %s}
spec: {subnet: %s, securityGroups: [%s]}
`, zone, made.Subnet.SubnetId, s.Group))
}

// isOutOfPrefix demands that an address is one of a /28 of an instance's interfaces, in the range of custom networking.
func (s *cluster) isOutOfPrefix(instance, address string) {
	s.t.Helper()
	ip, err := netip.ParseAddr(address)
	if err != nil || !netip.MustParsePrefix("100.64.8.0/24").Contains(ip) {
		s.t.Errorf("a pod has the address %q, %v", address, err)
	}
	found := s.interfaces(instance)
	if !slices.ContainsFunc(found, func(eni networkInterface) bool {
		return eni.Attachment.DeviceIndex > 0 && slices.ContainsFunc(eni.Ipv4Prefixes,
			func(p struct{ Ipv4Prefix string }) bool {
				prefix, err := netip.ParsePrefix(p.Ipv4Prefix)
				return err == nil && prefix.Bits() == 28 && prefix.Contains(ip)
			})
	}) {
		s.t.Errorf("the address %s is in no prefix of %s", address, harness.Text(found))
	}
}

// outside gives an instance with a pod in its network an address outside the VPC, leads a route there, and returns the
// URL that tells who calls.
func (s *cluster) outside(instance string) string {
	s.t.Helper()
	found := s.interfaces(instance)
	at := slices.IndexFunc(found, func(eni networkInterface) bool { return eni.Attachment.DeviceIndex == 0 })
	if at < 0 {
		s.t.Fatalf("%s has no primary interface among %s", instance, harness.Text(found))
	}
	eni := found[at].NetworkInterfaceId
	s.AWS(nil, "ec2", "modify-network-interface-attribute", "--network-interface-id", eni, "--no-source-dest-check")
	table := strings.TrimSpace(s.Run("", "aws", "ec2", "describe-route-tables", "--filters",
		"Name=association.main,Values=true", "--query", "RouteTables[0].RouteTableId", "--output", "text"))
	s.AWS(nil, "ec2", "create-route", "--route-table-id", table, "--destination-cidr-block", "203.0.113.0/24",
		"--network-interface-id", eni)
	s.In(instance, "ip", "address", "add", "203.0.113.10/32", "dev", "lo")
	const url = "http://203.0.113.10:8088/clientip"
	if err := eventually.Try(200*time.Millisecond, func() error {
		if _, errs, err := s.Try(s.Config, "kubectl", "exec", "host-a", "--", "fetch", url); err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	}); err != nil {
		s.t.Fatalf("a route to an instance: %v", err)
	}
	return url
}
