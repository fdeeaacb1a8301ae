package controlplane

import (
	"bytes"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// The keys of a cluster follow the certificate authorities that it is to have, and only certificates that it trusts are
// in the bundle.
func TestRotateAuthorities(t *testing.T) {
	t.Parallel()
	c := New(Options{Store: storetest.New(t), Dir: t.TempDir()})
	cluster := newCluster("c", "1.35")
	pass := func() keys {
		t.Helper()
		k, err := c.ensureKeys(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := pass()
	if !bytes.Equal(first.trusted.bundle(), first.ca.PEM) || first.trusted.signing != "" {
		t.Fatal("a new cluster trusts another certificate authority than the one that signs")
	}
	initial := cluster.InitialAuthorityID()
	cluster.CertificateAuthorities = []record.CertificateAuthority{
		{ID: initial, CreatedBy: ekstypes.CertificateAuthorityCreatedByEks}, {ID: "successor"}}
	cluster.SigningAuthorityID = initial
	both := pass()
	if !bytes.Equal(both.ca.PEM, first.ca.PEM) || !bytes.HasPrefix(both.trusted.bundle(), first.ca.PEM) ||
		len(both.trusted.all) != 2 {
		t.Fatal("the successor is not trusted behind the one that signs")
	}
	if again := pass(); !bytes.Equal(again.trusted.bundle(), both.trusted.bundle()) {
		t.Fatal("another pass makes another successor")
	}
	dir := t.TempDir()
	leaf := pki.Leaf{CommonName: "kube-apiserver", Server: true}
	if _, _, err := both.ca.EnsureAt(dir, "kube-apiserver", leaf, c.clock.Now()); err != nil {
		t.Fatal(err)
	}

	cluster.SigningAuthorityID = "successor"
	activated := pass()
	if bytes.Equal(activated.ca.PEM, first.ca.PEM) || activated.trusted.signing != "successor" ||
		!bytes.Equal(activated.trusted.bundle(), both.trusted.bundle()) {
		t.Fatal("the successor does not sign, or others are trusted")
	}
	certificate, _, err := activated.ca.EnsureAt(dir, "kube-apiserver", leaf, c.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	issued, err := pki.ReadPair(certificate, dir+"/kube-apiserver.key")
	if err != nil || issued.CheckSignatureFrom(activated.ca.Certificate) != nil {
		t.Fatalf("the certificate is not issued again: %v", err)
	}

	cluster.CertificateAuthorities = cluster.CertificateAuthorities[1:]
	last := pass()
	if !bytes.Equal(last.trusted.bundle(), activated.ca.PEM) || !bytes.Equal(last.ca.PEM, activated.ca.PEM) {
		t.Fatal("the outgoing certificate authority is trusted")
	}
	row, err := c.secrets.Get(t.Context(), cluster.Key())
	if err != nil || len(row.Value.OtherAuthorities) > 0 {
		t.Fatalf("its key is kept: %v", err)
	}
}
