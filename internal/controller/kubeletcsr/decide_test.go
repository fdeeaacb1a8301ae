package kubeletcsr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	nodeName   = "ip-10-0-0-7.eu-west-1.compute.internal"
	instanceID = "i-0123456789abcdef0"
)

// node returns the EC2 instance of the node.
func node() ec2types.Instance {
	return ec2types.Instance{
		InstanceId: aws.String(instanceID), PrivateDnsName: aws.String(nodeName),
		PrivateIpAddress: aws.String("10.0.0.7"),
		PublicIpAddress:  aws.String("198.18.1.7"),
		PublicDnsName:    aws.String("ec2-198-18-1-7.eu-west-1.compute.amazonaws.com"),
		State:            &ec2types.InstanceState{Name: ec2types.InstanceStateNameRunning},
		NetworkInterfaces: []ec2types.InstanceNetworkInterface{{
			PrivateIpAddresses: []ec2types.InstancePrivateIpAddress{{PrivateIpAddress: aws.String("10.0.0.7")},
				{PrivateIpAddress: aws.String("10.0.0.8")}},
			Ipv6Addresses: []ec2types.InstanceIpv6Address{{Ipv6Address: aws.String("2600:1f18::7")}},
		}},
	}
}

// asked returns a request as a kubelet makes it, with the changes of change and spec.
func asked(t testing.TB, change func(*x509.CertificateRequest),
	spec func(*certificatesv1.CertificateSigningRequestSpec)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
		DNSNames: []string{nodeName}, IPAddresses: []net.IP{net.ParseIP("10.0.0.7")},
	}
	if change != nil {
		change(r)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, r, key)
	if err != nil {
		t.Fatal(err)
	}
	out := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeletServingSignerName,
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		Username:   "system:node:" + nodeName, Groups: []string{"system:bootstrappers", "system:nodes",
			"system:authenticated"},
		Extra: map[string]certificatesv1.ExtraValue{"sessionName": {instanceID}},
	}}
	out.GenerateName = "csr-"
	if spec != nil {
		spec(&out.Spec)
	}
	return out
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	type request = x509.CertificateRequest
	type spec = certificatesv1.CertificateSigningRequestSpec
	for name, c := range map[string]struct {
		request func(*request)
		spec    func(*spec)
		refused string // a part of the reason; "" is approved, "-" is nobody's business
	}{
		"as a kubelet asks": {},
		"all that the instance has": {request: func(r *request) {
			r.DNSNames = []string{strings.ToUpper(nodeName), "ec2-198-18-1-7.eu-west-1.compute.amazonaws.com"}
			r.IPAddresses = []net.IP{net.ParseIP("10.0.0.8"), net.ParseIP("198.18.1.7"), net.ParseIP("2600:1f18::7")}
		}},
		"RSA": {spec: func(s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageKeyEncipherment) }},
		"a node without a session of an instance": {spec: func(s *spec) { s.Extra = nil }},
		"a user": {spec: func(s *spec) { s.Username = "alice" }, refused: "-"},
		"a node that is in no group": {spec: func(s *spec) { s.Groups = []string{"system:authenticated"} },
			refused: "-"},
		"another node's name": {request: func(r *request) { r.Subject.CommonName = "system:node:other" },
			refused: "can only ask for its own"},
		"another organization": {request: func(r *request) {
			r.Subject.Organization = []string{
				"system:masters"}
		}, refused: `organization is ["system:masters"]`},
		"two organizations": {request: func(r *request) {
			r.Subject.Organization = append(
				r.Subject.Organization, "system:masters")
		}, refused: "organization"},
		"a name of another": {request: func(r *request) {
			r.DNSNames = append(r.DNSNames,
				"kubernetes.default.svc")
		}, refused: `"kubernetes.default.svc" is not a name of instance ` + instanceID},
		"an address of another": {request: func(r *request) {
			r.IPAddresses = append(r.IPAddresses,
				net.ParseIP("10.0.0.9"))
		}, refused: "10.0.0.9 is not an address of instance " + instanceID},
		"no names": {request: func(r *request) { r.DNSNames, r.IPAddresses = nil, nil },
			refused: "no subject alternative name"},
		"a mail address": {request: func(r *request) { r.EmailAddresses = []string{"a@b"} },
			refused: "only be DNS names and IP addresses"},
		"a URI": {request: func(r *request) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} },
			refused: "only be DNS names and IP addresses"},
		"a client's usage": {spec: func(s *spec) {
			s.Usages = append(s.Usages,
				certificatesv1.UsageClientAuth)
		}, refused: "usages"},
		"no request": {spec: func(s *spec) { s.Request = []byte("x") }, refused: "no PEM block"},
		"a broken request": {spec: func(s *spec) {
			s.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})
		}, refused: "cannot be read"},
		"a name that its instance does not have": {
			request: func(r *request) { r.Subject.CommonName = "system:node:ip-10-0-0-8.eu-west-1.compute.internal" },
			spec:    func(s *spec) { s.Username = "system:node:ip-10-0-0-8.eu-west-1.compute.internal" },
			refused: "authenticated as instance " + instanceID,
		},
	} {
		claim, refused := parseRequest(asked(t, c.request, c.spec))
		if claim == nil && refused == "" {
			refused = "-"
		}
		if refused == "" {
			refused = claim.verifyAny([]instance{instanceIdentity(node())})
		}
		if c.refused == "" && refused != "" || !strings.Contains(refused, c.refused) {
			t.Errorf("%s: refused with %q, want %q", name, refused, c.refused)
		}
	}
	claim, _ := parseRequest(asked(t, nil, nil))
	if refused := claim.verifyAny(nil); !strings.Contains(refused, "no running instance") {
		t.Errorf("without an instance: %q", refused)
	}
}
