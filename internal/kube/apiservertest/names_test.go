package apiservertest_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
)

// TestNobodyGetsTheNamesOfTheAPIServer has a user who may do everything request certificates for servers.
func TestNobodyGetsTheNamesOfTheAPIServer(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{Flags: []string{
		"--enable-admission-plugins=CoracleOwnNames"}})
	requests := server.Admin().CertificatesV1().CertificateSigningRequests()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		names   []string
		ips     []net.IP
		refused bool
		signer  string
	}{
		"of-a-node":           {[]string{"ip-10-0-0-1.ec2.internal"}, []net.IP{net.IPv4(10, 0, 0, 1)}, false, ""},
		"of-the-api-server":   {[]string{"localhost"}, nil, true, ""},
		"in-another-case":     {[]string{"ip-10-0-0-1.ec2.internal", "LocalHost"}, nil, true, ""},
		"of-its-address":      {[]string{"ip-10-0-0-1.ec2.internal"}, []net.IP{net.IPv4(127, 0, 0, 1)}, true, ""},
		"of-its-ipv6-address": {nil, []net.IP{net.ParseIP("::ffff:127.0.0.1")}, true, ""},
		"for-clients":         {[]string{"localhost"}, nil, true, certificatesv1.KubeAPIServerClientSignerName},
		"of-another-signer":   {[]string{"localhost"}, nil, false, "issuers.cert-manager.io/default.own"},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: "system:node:x", Organization: []string{"system:nodes"}},
			DNSNames: c.names, IPAddresses: c.ips}, key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: cmp.Or(c.signer, certificatesv1.KubeletServingSignerName),
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
					certificatesv1.UsageServerAuth}},
		}, metav1.CreateOptions{})
		refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "is a name of the API server")
		if refused != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
