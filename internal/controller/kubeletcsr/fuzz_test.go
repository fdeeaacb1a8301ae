package kubeletcsr

import (
	"bytes"
	"encoding/pem"
	"net/netip"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// FuzzParse shows that a request says what its maker signed, or is refused: it begins with a request that is good.
func FuzzParse(f *testing.F) {
	good := asked(f, nil, nil)
	block, _ := pem.Decode(good.Spec.Request)
	f.Add(block.Bytes, true)
	f.Add(bytes.Replace(block.Bytes, []byte(nodeName), bytes.Repeat([]byte("x"), len(nodeName)), 1), true)
	f.Add(good.Spec.Request, false)
	f.Add(append([]byte("-----BEGIN X-----\n-----END X-----\n"), good.Spec.Request...), false)
	f.Fuzz(func(t *testing.T, request []byte, der bool) {
		if der {
			request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
		}
		spec := good.Spec
		spec.Request = request
		c, refused := parseRequest(&certificatesv1.CertificateSigningRequest{Spec: spec})
		switch {
		case (c == nil) == (refused == ""):
			t.Fatalf("%x is %+v, and refused as %q", request, c, refused)
		case c != nil && (c.node != nodeName || c.session != instanceID || !slices.Equal(c.names, []string{nodeName}) ||
			!slices.Equal(c.addresses, []netip.Addr{netip.MustParseAddr("10.0.0.7")})):
			t.Fatalf("%x claims %+v", request, c)
		}
	})
}
