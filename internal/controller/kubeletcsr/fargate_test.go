package kubeletcsr

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestFargateNodesAreKnownByTheirPods decides about requests of the nodes of Fargate pods, which EC2 does not show.
func TestFargateNodesAreKnownByTheirPods(t *testing.T) {
	t.Parallel()
	const dns = "ip-10-0-0-7.eu-west-1.compute.internal"
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "0123", VPCID: "vpc-1"}
	s := storetest.New(t)
	pod := func(uid, address string, edit func(*record.FargatePod)) {
		t.Helper()
		p := record.FargatePod{Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name,
			ClusterID: cluster.ID, UID: uid, Address: address, InstanceID: "i-" + uid,
			NodeName: "fargate-ip-" + strings.ReplaceAll(address, ".", "-") + ".eu-west-1.compute.internal"}
		if edit != nil {
			edit(&p)
		}
		if _, err := record.FargatePods(s).Create(t.Context(), p.Key(), p); err != nil {
			t.Fatal(err)
		}
	}
	pod("1", "10.0.0.7", nil)
	pod("2", "10.0.0.8", func(p *record.FargatePod) { p.Ending = true })
	pod("3", "10.0.0.9", func(p *record.FargatePod) { p.Cluster, p.ClusterID = "other", "4567" })
	pod("4", "10.0.0.10", func(p *record.FargatePod) { p.ClusterID = "earlier" })
	pod("5", "10.0.0.11", func(p *record.FargatePod) { p.Retired = true })
	pod("6", "10.0.0.12", func(p *record.FargatePod) { p.InstanceID = "" })
	controller := New(Options{Store: s, EC2: func(string, string) EC2 { return &fakeEC2{} }})
	for name, c := range map[string]struct {
		node, session string
		names         []string
		address       string
		refused       string
	}{
		"as a kubelet asks": {"fargate-" + dns, "fargate-" + dns, []string{"fargate-" + dns}, "10.0.0.7", ""},
		"its DNS name":      {"fargate-" + dns, "fargate-" + dns, []string{"fargate-" + dns, dns}, "10.0.0.7", ""},
		"another address": {"fargate-" + dns, "fargate-" + dns, []string{dns}, "10.0.0.8",
			"10.0.0.8 is not an address of instance i-1"},
		"another name": {"fargate-" + dns, "fargate-" + dns, []string{"kubernetes.default.svc"}, "10.0.0.7",
			`"kubernetes.default.svc" is not a name of instance i-1`},
		"another session": {"fargate-" + dns, "fargate-ip-10-0-0-8.eu-west-1.compute.internal", []string{dns}, "10.0.0.7",
			"EC2 knows no running instance"},
		"no session": {"fargate-" + dns, "", []string{dns}, "10.0.0.7", "EC2 knows no running instance"},
		"a pod that is over": {"fargate-ip-10-0-0-8.eu-west-1.compute.internal",
			"fargate-ip-10-0-0-8.eu-west-1.compute.internal", nil, "10.0.0.8", "no Fargate pod of the cluster"},
		"a pod of another cluster": {"fargate-ip-10-0-0-9.eu-west-1.compute.internal",
			"fargate-ip-10-0-0-9.eu-west-1.compute.internal", nil, "10.0.0.9", "no Fargate pod of the cluster"},
		"a pod of an earlier cluster": {"fargate-ip-10-0-0-10.eu-west-1.compute.internal",
			"fargate-ip-10-0-0-10.eu-west-1.compute.internal", nil, "10.0.0.10", "no Fargate pod of the cluster"},
		"a machine that is given up": {"fargate-ip-10-0-0-11.eu-west-1.compute.internal",
			"fargate-ip-10-0-0-11.eu-west-1.compute.internal", nil, "10.0.0.11", "no Fargate pod of the cluster"},
		"a pod without a machine": {"fargate-ip-10-0-0-12.eu-west-1.compute.internal",
			"fargate-ip-10-0-0-12.eu-west-1.compute.internal", nil, "10.0.0.12", "no Fargate pod of the cluster"},
	} {
		request := asked(t, func(r *x509.CertificateRequest) {
			r.Subject = pkix.Name{CommonName: nodePrefix + c.node, Organization: []string{nodesGroup}}
			r.DNSNames, r.IPAddresses = c.names, []net.IP{net.ParseIP(c.address)}
		}, func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.Username = nodePrefix + c.node
			s.Extra = map[string]certificatesv1.ExtraValue{"sessionName": {c.session}}
		})
		claim, refused := parseRequest(request)
		if refused == "" {
			found, err := controller.instances(t.Context(), cluster, claim)
			if err != nil {
				t.Fatal(err)
			}
			refused = claim.verifyAny(found)
		}
		if c.refused == "" && refused != "" || !strings.Contains(refused, c.refused) {
			t.Errorf("%s: refused with %q, want %q", name, refused, c.refused)
		}
	}
}
