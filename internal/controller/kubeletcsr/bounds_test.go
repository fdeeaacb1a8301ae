package kubeletcsr

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// requestWithKey returns a request with an RSA key of that many bits, which nobody has signed.
func requestWithKey(t *testing.T, bits uint) []byte {
	t.Helper()
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	key, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	subject, err := asn1.Marshal(pkix.Name{CommonName: "system:node:n"}.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	type information struct {
		Version      int
		Subject, Key asn1.RawValue
		Attributes   []asn1.RawValue `asn1:"tag:0,set"`
	}
	der, err := asn1.Marshal(struct {
		Information information
		Algorithm   pkix.AlgorithmIdentifier
		Signature   asn1.BitString
	}{
		information{Subject: asn1.RawValue{FullBytes: subject}, Key: asn1.RawValue{FullBytes: key}},
		pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11},
			Parameters: asn1.NullRawValue},
		asn1.BitString{Bytes: make([]byte, (bits+7)/8), BitLength: int(bits)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestLargeRequestsAreRefused sends requests whose signature would take long to check.
func TestLargeRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request []byte
		want    string
	}{
		"a key of a usual size": {requestWithKey(t, 4096), "verification error"},
		"a large key":           {requestWithKey(t, maxRSABits+1), "the RSA key has 8193 bits, and may have 8192"},
		"a large request":       {make([]byte, maxRequest+1), "the request has 65537 bytes, and may have 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim, refused := parseRequest(&certificatesv1.CertificateSigningRequest{
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Username: nodePrefix + "n", Groups: []string{nodesGroup}, Request: test.request,
				}})
			if claim != nil || !strings.Contains(refused, test.want) {
				t.Errorf("refused: %q, want %q", refused, test.want)
			}
		})
	}
}
