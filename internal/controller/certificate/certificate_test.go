package certificate_test

import (
	"context"
	"crypto"
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/aws/acm"
	"github.com/coracle-eks/coracle/internal/controller/certificate"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// authority signs as the daemon does.
type authority struct{ *pki.Authority }

func (a authority) Sign(key crypto.PublicKey, names []string, now time.Time) (text, chain []byte, err error) {
	text, err = a.SignAt(key, pki.Leaf{CommonName: names[0], DNSNames: names, Server: true}, now)
	return text, a.PEM, err
}

// TestCertificatesAreIssuedAndRenewedWhenDue shows what happens to certificates that were there before the controller
// started, as after the death of a daemon.
func TestCertificatesAreIssuedAndRenewedWhenDue(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	ctx := t.Context()
	ca, err := pki.CertificateManager.OpenAuthority(t.TempDir(), "acm", "test")
	if err != nil {
		t.Fatal(err)
	}
	certificates, materials := record.Certificates(s), record.CertificateMaterials(s)
	soon, later := time.Now().Add(44*24*time.Hour), time.Now().Add(46*24*time.Hour)
	issued := acmtypes.CertificateStatusIssued
	all := map[string]record.Certificate{
		"requested": {Status: acmtypes.CertificateStatusPendingValidation},
		"due":       {Status: issued, NotAfter: soon},
		"idle":      {Status: issued, NotAfter: soon},
		"early":     {Status: issued, NotAfter: later},
		"asked":     {Status: issued, NotAfter: later, Request: &record.CertificateRequest{RenewAt: time.Now()}},
		"expired":   {Status: issued, NotAfter: time.Now().Add(-time.Hour)},
		"imported":  {Status: issued, NotAfter: soon, Type: acmtypes.CertificateTypeImported},
	}
	var arns []string
	for id, c := range all {
		c.Account, c.Region, c.ID = "111122223333", "eu-west-1", id
		c.SubjectAlternativeNames = []string{id + ".example.com"}
		c.KeyAlgorithm = acmtypes.KeyAlgorithmEcSecp384r1
		if c.Type == "" {
			c.Type = acmtypes.CertificateTypeAmazonIssued
			if c.Request == nil {
				c.Request = &record.CertificateRequest{}
			}
		}
		if _, err := certificates.Create(ctx, c.Key(), c); err != nil {
			t.Fatal(err)
		}
		if id != "idle" {
			arns = append(arns, c.ARN())
		}
	}
	b := record.LoadBalancer{Account: "111122223333", Region: "eu-west-1", Name: "web", Kind: record.NetworkLoadBalancer,
		Listeners: []record.Listener{{Port: 443, Certificates: arns}}}
	if _, err := record.LoadBalancers(s).Create(ctx, b.Key(), b); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	controller := certificate.New(certificate.Options{Store: s,
		ACM: acm.NewLifecycle(acm.Options{Store: s}, authority{ca})})
	go func() {
		ended <- reconcile.Run(running, slog.New(slog.DiscardHandler), controller.Controllers()...)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})

	key := func(id string) string { return record.CertificateKey("111122223333", "eu-west-1", id) }
	eventually.True(t, "what is due is issued", func() bool {
		return materials.Count(store.Prefix("111122223333")) == 3
	})
	for _, id := range []string{"requested", "due", "asked"} {
		row, err := materials.Get(ctx, key(id))
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		pair, err := tls.X509KeyPair(row.Value.Certificate, row.Value.PrivateKey)
		if err != nil || pair.Leaf.VerifyHostname(id+".example.com") != nil {
			t.Errorf("%s: %v", id, err)
		}
		c, err := certificates.Get(ctx, key(id))
		if err != nil || c.Value.Status != issued || !c.Value.NotAfter.Equal(pair.Leaf.NotAfter) ||
			!c.Value.Request.RenewAt.IsZero() {
			t.Errorf("%s: %+v, %v", id, c.Value, err)
		}
	}
	for _, id := range []string{"idle", "early", "expired", "imported"} {
		if c, err := certificates.Get(ctx, key(id)); err != nil || !c.Value.NotAfter.Equal(all[id].NotAfter) {
			t.Errorf("%s: %+v, %v", id, c.Value, err)
		}
	}
}
