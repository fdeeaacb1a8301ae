//go:build linux

package fargate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// TestAnIPv6Cluster runs a pod in a cluster of the IP family ipv6, where it and its node have IPv6 addresses.
func TestAnIPv6Cluster(t *testing.T) {
	t.Parallel()
	testenv.NeedsAll(t, "TestPodsWithoutNodes has pods in a cluster of the other family")
	const name = "six"
	d := harness.Start(t)
	public := d.Subnets()
	vpc := strings.TrimSpace(d.Run("", "aws", "ec2", "describe-subnets", "--subnet-ids", public[0], "--query",
		"Subnets[0].VpcId", "--output", "text"))
	d.AWS(nil, "ec2", "associate-vpc-cidr-block", "--vpc-id", vpc, "--amazon-provided-ipv6-cidr-block")
	block := strings.TrimSpace(d.Run("", "aws", "ec2", "describe-vpcs", "--vpc-ids", vpc, "--query",
		"Vpcs[0].Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock", "--output", "text"))
	private := d.PrivateSubnets(public, true)
	for i, subnet := range slices.Concat(public, private) {
		d.AWS(nil, "ec2", "associate-subnet-cidr-block", "--subnet-id", subnet, "--ipv6-cidr-block",
			strings.Replace(block, "00::/56", fmt.Sprintf("%02x::/64", i), 1))
	}
	acl := strings.TrimSpace(d.Run("", "aws", "ec2", "describe-network-acls", "--filters", "Name=vpc-id,Values="+vpc,
		"--query", "NetworkAcls[?IsDefault].NetworkAclId", "--output", "text"))
	// What AWS would add by itself to the default network ACL, and below to the cluster security group.
	for _, direction := range []string{"--ingress", "--egress"} {
		d.AWS(nil, "ec2", "create-network-acl-entry", "--network-acl-id", acl, "--rule-number", "101", "--protocol", "-1",
			"--rule-action", "allow", "--ipv6-cidr-block", "::/0", direction)
	}
	d.AWS(nil, "eks", "create-cluster", "--name", name, "--kubernetes-version", "1.35", "--role-arn", d.ClusterRole(),
		"--resources-vpc-config", "subnetIds="+strings.Join(slices.Concat(public, private), ","),
		"--kubernetes-network-config", "ipFamily=ipv6")
	w := &fixture{Fixture: clustertest.Of(t, d, name), t: t}
	d.AWS(nil, "ec2", "authorize-security-group-egress", "--group-id", w.Group, "--ip-permissions",
		"IpProtocol=-1,Ipv6Ranges=[{CidrIpv6=::/0}]")
	d.FargateProfile(name, "demo", d.PodExecutionRole(name), private, "namespace=fargate")
	d.Run(w.Config, "kubectl", "create", "namespace", "fargate")
	d.Run(w.Config, "kubectl", "-n", "fargate", "create", "deployment", "web", "--image", harness.Agnhost, "--",
		"/agnhost", "netexec", "--http-port=8080")
	w.rollout("fargate", "deployment/web")
	p := w.pods("fargate", "app=web")[0]
	inBlock := func(address string) bool {
		ip, err := netip.ParseAddr(address)
		return err == nil && netip.MustParsePrefix(block).Contains(ip)
	}
	if !inBlock(p.Status.PodIP) || p.Status.HostIP != p.Status.PodIP ||
		!strings.HasPrefix(p.Spec.NodeName, "fargate-ip-172-31-") {
		t.Errorf("the pod is %+v, and the VPC has %s", p, block)
	}
	var endpoints struct {
		Endpoints []struct{ Addresses []string }
	}
	w.JSON(&endpoints, "get", "endpointslice", "kubernetes")
	if len(endpoints.Endpoints) == 0 || !inBlock(endpoints.Endpoints[0].Addresses[0]) {
		t.Errorf("the Service kubernetes leads to %+v", endpoints)
	}
	in := func(command ...string) (string, string, error) {
		return w.Try(w.Config, "kubectl", append([]string{"-n", "fargate", "exec", "deployment/web", "--"}, command...)...)
	}
	if out, said, err := in("ip", "-6", "address", "show", "dev", "eth0"); err != nil ||
		!strings.Contains(out, p.Status.PodIP) {
		t.Errorf("the pod has %s: %v: %s", out, err, said)
	}
	if out, said, err := in("sh", "-c", `cd /var/run/secrets/kubernetes.io/serviceaccount; SSL_CERT_FILE=$PWD/ca.crt `+
		`fetch -H "Authorization: Bearer $(cat token)" "https://[$KUBERNETES_SERVICE_HOST]/version"`); err != nil ||
		!strings.Contains(out, "gitVersion") {
		t.Errorf("the Service kubernetes answers %s: %v: %s", out, err, said)
	}
	if got := w.Run(w.Config, "kubectl", "-n", "fargate", "logs", "deployment/web"); !strings.Contains(got, "8080") {
		t.Errorf("the log of the pod is %q", got)
	}
	d.DeleteFargateProfile(name, "demo")
	w.awaitNothing()
}
