package controlplane

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/pki"
)

func issued(t *testing.T, c *Controller, p plane, name string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(c.clusterDir(p.cluster.ID, "pki", name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate(b)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	c := New(Options{Dir: t.TempDir(), Etcd: &etcd.Connection{}, Clock: clock})
	cluster := newCluster("certified", "1.35")
	secrets, err := makeSecrets(cluster.ID, clock.Now(), new(Controller).rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	k, err := parseSecrets(secrets)
	if err != nil {
		t.Fatal(err)
	}
	address := "172.31.9.9"
	p := plane{cluster: cluster, minor: "1.35", port: 23456, keys: k,
		network: network{interfaces: []ec2types.NetworkInterface{{PrivateIpAddress: &address}}}}
	if err := c.issueCertificates(p); err != nil {
		t.Fatal(err)
	}
	serving := issued(t, c, p, "kube-apiserver")

	t.Run("the API server is known by every name that it is called by", func(t *testing.T) {
		roots := x509.NewCertPool()
		roots.AddCert(k.ca.Certificate)
		for _, name := range []string{
			"kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
			cluster.ID + ".gr7.us-east-1.eks.amazonaws.com", "127.0.0.1", "10.100.0.1", address,
		} {
			if _, err := serving.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("the authority is as EKS's", func(t *testing.T) {
		ca := k.ca.Certificate
		key, isRSA := ca.PublicKey.(*rsa.PublicKey)
		if !isRSA || key.N.BitLen() != 2048 || ca.SignatureAlgorithm != x509.SHA256WithRSA {
			t.Errorf("its key is a %T, and its signature %v", ca.PublicKey, ca.SignatureAlgorithm)
		}
		if ca.SerialNumber.BitLen() > 63 || ca.Subject.String() != "CN=kubernetes" ||
			!slices.Equal(ca.DNSNames, []string{"kubernetes"}) {
			t.Errorf("it is number %x of %s, with the names %q", ca.SerialNumber, ca.Subject, ca.DNSNames)
		}
		if life := ca.NotAfter.Sub(clock.Now()).Round(time.Hour); life != 10*365*24*time.Hour {
			t.Errorf("it ends after %v", life)
		}
	})

	t.Run("users and groups", func(t *testing.T) {
		for name, want := range map[string]string{
			"kube-apiserver-kubelet-client": "kube-apiserver-kubelet-client",
			"front-proxy-client":            "front-proxy-client",
			"kube-controller-manager":       "system:kube-controller-manager",
			"kube-scheduler":                "system:kube-scheduler",
			"cloud-controller-manager":      "eks:cloud-controller-manager",
		} {
			cert := issued(t, c, p, name)
			if cert.Subject.CommonName != want {
				t.Errorf("%s is of %s", name, cert.Subject.CommonName)
			}
			masters := slices.Contains(cert.Subject.Organization, "system:masters")
			if masters != (name == "kube-apiserver-kubelet-client") {
				t.Errorf("%s: in system:masters is %v", name, masters)
			}
		}
	})

	t.Run("files are private", func(t *testing.T) {
		files, err := filepath.Glob(c.clusterDir(cluster.ID, "pki", "*"))
		if err != nil || len(files) < 14 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v (%v)", f, info.Mode(), err)
			}
		}
	})

	t.Run("nothing is issued again before its time", func(t *testing.T) {
		due, err := c.renewalDue(cluster.ID)
		if err != nil {
			t.Fatal(err)
		}
		if life := due.Sub(clock.Now()); life < 240*24*time.Hour || life > 244*24*time.Hour {
			t.Errorf("renewal is due in %v, want two thirds of a year", life)
		}
		clock.Step(due.Sub(clock.Now()) - time.Minute)
		if err := c.issueCertificates(p); err != nil {
			t.Fatal(err)
		}
		if now := issued(t, c, p, "kube-apiserver"); now.SerialNumber.Cmp(serving.SerialNumber) != 0 {
			t.Error("a certificate was issued too early")
		}
	})

	t.Run("after two thirds of its life everything is issued again by the same authority", func(t *testing.T) {
		clock.Step(2 * time.Minute)
		if err := c.issueCertificates(p); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "front-proxy-client", "health"} {
			cert := issued(t, c, p, name)
			if cert.NotBefore.Before(clock.Now().Add(-time.Hour)) {
				t.Errorf("%s is of %v", name, cert.NotBefore)
			}
		}
		if err := issued(t, c, p, "kube-apiserver").CheckSignatureFrom(k.ca.Certificate); err != nil {
			t.Error(err)
		}
	})

	t.Run("another address is another certificate, a damaged file is replaced", func(t *testing.T) {
		moved := "172.31.9.10"
		p.network.interfaces[0].PrivateIpAddress = &moved
		if err := os.WriteFile(c.clusterDir(cluster.ID, "pki", "kube-scheduler.key"), []byte("garbage"),
			0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.issueCertificates(p); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(issued(t, c, p, "kube-apiserver").IPAddresses,
			func(ip net.IP) bool { return ip.String() == moved }) {
			t.Error("the new address is missing")
		}
		if b, _ := os.ReadFile(c.clusterDir(cluster.ID, "pki", "kube-scheduler.key")); string(b) == "garbage" {
			t.Error("the damaged key is still there")
		}
	})

	t.Run("tokens of the service-account key verify against the published key set", func(t *testing.T) {
		jwks, err := jsonWebKeySet(k.serviceAccount.published)
		if err != nil {
			t.Fatal(err)
		}
		var set jose.JSONWebKeySet
		if err := json.Unmarshal(jwks, &set); err != nil || len(set.Keys) != 1 || set.Keys[0].Use != "sig" ||
			!set.Keys[0].IsPublic() {
			t.Fatalf("%s: %v", jwks, err)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: k.serviceAccount.signing}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: cluster.Issuer()}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
		if err != nil {
			t.Fatal(err)
		}
		var claims jwt.Claims
		if err := parsed.Claims(set.Keys[0].Key, &claims); err != nil || claims.Issuer != cluster.Issuer() {
			t.Errorf("%v %v", claims, err)
		}
	})
}
