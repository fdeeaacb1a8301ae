package acm_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	coracle "github.com/coracle-eks/coracle/internal/aws/acm"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = iamtest.Account
	other   = iamtest.Other
	region  = iamtest.Region
	absent  = "arn:aws:acm:" + region + ":" + account + ":certificate/01234567-89ab-cdef-0123-456789abcdef"
)

// fixture is ACM behind the real wire and the real IAM. Its client is the root user's. What was requested is issued by
// reconcile.
type fixture struct {
	*acm.Client
	*iamtest.AWS
	t         testing.TB
	otherRoot aws.Credentials
	authority *pki.Authority
	lifecycle *coracle.Lifecycle

	mu  sync.Mutex
	now time.Time // of ACM alone; zero: the time that it is
}

// Now returns the time of ACM's clock.
func (w *fixture) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.IsZero() {
		return time.Now()
	}
	return w.now
}

// SetNow stops the clock of ACM.
func (w *fixture) SetNow(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = t
}

// Sign signs as the daemon does.
func (w *fixture) Sign(key crypto.PublicKey, names []string, now time.Time) (certificate, chain []byte, err error) {
	certificate, err = w.authority.SignAt(key, pki.Leaf{CommonName: names[0], DNSNames: names, Server: true}, now)
	return certificate, w.authority.PEM, err
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{AWS: iamtest.New(t), t: t}
	o := coracle.Options{Store: w.Store, Now: w.Now, HostNames: []string{"localhost", "Coracle.Example.org"}}
	coracle.New(o).Register(w.Mux)
	var err error
	if w.authority, err = pki.CertificateManager.OpenAuthority(t.TempDir(), "acm", "Test authority"); err != nil {
		t.Fatal(err)
	}
	w.lifecycle = coracle.NewLifecycle(o, w)
	w.otherRoot = w.NewAccount(t, other)
	w.Client = w.client(w.Root)
	return w
}

func (w *fixture) clientIn(region string, who aws.Credentials) *acm.Client {
	return acm.New(acm.Options{
		Region: region, BaseEndpoint: aws.String(w.URL), RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: who},
	})
}

func (w *fixture) client(who aws.Credentials) *acm.Client { return w.clientIn(region, who) }

// user returns a client of a new user of the account with an inline policy of that statement.
func (w *fixture) user(name, statement string) *acm.Client {
	w.t.Helper()
	return w.client(w.NewUser(w.t, name, `{"Version":"2012-10-17","Statement":[`+statement+`]}`))
}

// reconcile does what is due for all certificates.
func (w *fixture) reconcile() {
	w.t.Helper()
	rows, err := record.Certificates(w.Store).List(context.Background(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		if _, _, err := w.lifecycle.Reconcile(context.Background(), row.Key); err != nil {
			w.t.Fatal(err)
		}
	}
}

// request returns the ARN of a new certificate for names, which is not issued yet. Its key is cheap.
func (w *fixture) request(names ...string) string {
	w.t.Helper()
	return *awstest.Must[*acm.RequestCertificateOutput](w.t)(w.RequestCertificate(context.Background(),
		&acm.RequestCertificateInput{DomainName: &names[0], SubjectAlternativeNames: names, // it counts once
			KeyAlgorithm: types.KeyAlgorithmEcPrime256v1, ValidationMethod: types.ValidationMethodDns})).CertificateArn
}

// issued returns the ARN of a new certificate for names.
func (w *fixture) issued(names ...string) string {
	w.t.Helper()
	arn := w.request(names...)
	w.reconcile()
	return arn
}

// imported returns the ARN of a certificate that was imported.
func (w *fixture) imported(g given) string {
	w.t.Helper()
	return *awstest.Must[*acm.ImportCertificateOutput](w.t)(w.ImportCertificate(context.Background(),
		&acm.ImportCertificateInput{Certificate: g.certificate, PrivateKey: g.key,
			CertificateChain: g.chain})).CertificateArn
}

// describe returns a certificate as it is described.
func (w *fixture) describe(arn string) *types.CertificateDetail {
	w.t.Helper()
	return awstest.Must[*acm.DescribeCertificateOutput](w.t)(w.DescribeCertificate(context.Background(),
		&acm.DescribeCertificateInput{CertificateArn: &arn})).Certificate
}

// use makes a load balancer with a listener that has certificates, and returns its ARN.
func (w *fixture) use(name string, arns ...string) string {
	w.t.Helper()
	b := record.LoadBalancer{Account: account, Region: region, Kind: record.NetworkLoadBalancer, Name: name,
		ID: "0123456789abcdef", Listeners: []record.Listener{{Port: 80}, {Port: 443, Certificates: arns}}}
	if _, err := record.LoadBalancers(w.Store).Put(context.Background(), b.Key(), b); err != nil {
		w.t.Fatal(err)
	}
	return b.ARN()
}

// given is what somebody imports, PEM.
type given struct{ certificate, key, chain []byte }

// template is a certificate for web.example.com that is valid now.
func template() *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(0x0a0b0c), Subject: pkix.Name{CommonName: "web.example.com"},
		DNSNames: []string{"web.example.com", "*.web.example.com"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(90 * 24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

// signer is an authority of somebody's.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	return awstest.Must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

// sign returns a certificate that signer has signed, itself when it is nil, and its key.
func sign(t testing.TB, c *x509.Certificate, key crypto.Signer, by *signer) (text []byte, made *x509.Certificate) {
	t.Helper()
	parent, with := c, key
	if by != nil {
		parent, with = by.certificate, by.key
	}
	der := awstest.Must[[]byte](t)(x509.CreateCertificate(rand.Reader, c, parent, key.Public(), with))
	made = awstest.Must[*x509.Certificate](t)(x509.ParseCertificate(der))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), made
}

func newSigner(t testing.TB, name string, by *signer) (*signer, []byte) {
	t.Helper()
	key := newKey(t)
	text, made := sign(t, &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key, by)
	return &signer{made, key}, text
}

func encodeKey(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der := awstest.Must[[]byte](t)(x509.MarshalPKCS8PrivateKey(key))
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// selfSigned returns a certificate that signs itself, after an edit.
func selfSigned(t testing.TB, edit func(*x509.Certificate)) given {
	t.Helper()
	c := template()
	if edit != nil {
		edit(c)
	}
	key := newKey(t)
	text, _ := sign(t, c, key, nil)
	return given{certificate: text, key: encodeKey(t, key)}
}

// chained returns a certificate with two issuers.
func chained(t testing.TB) given {
	t.Helper()
	root, rootText := newSigner(t, "root", nil)
	middle, middleText := newSigner(t, "middle", root)
	key := newKey(t)
	text, _ := sign(t, template(), key, middle)
	return given{text, encodeKey(t, key), bytes.Join([][]byte{middleText, rootText}, nil)}
}

// ofRSA returns a certificate of a key of RSA.
func ofRSA(t testing.TB, bits int) given {
	t.Helper()
	key := awstest.Must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, bits))
	text, _ := sign(t, template(), key, nil)
	return given{certificate: text, key: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key)})}
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d.example.com", prefix, i))
	}
	return all
}
