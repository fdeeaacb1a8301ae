package acm_test

import (
	"context"
	"crypto"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	service "github.com/coracle-eks/coracle/internal/aws/acm"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/certificate"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/acm"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/store"
)

// authority signs as the daemon does.
type authority struct{ *pki.Authority }

func (a authority) Sign(key crypto.PublicKey, names []string, now time.Time) (text, chain []byte, err error) {
	text, err = a.SignAt(key, pki.Leaf{CommonName: names[0], DNSNames: names, Server: true}, now)
	return text, a.PEM, err
}

func newStack(t *testing.T) *resourcetest.Stack {
	t.Helper()
	ca, err := pki.CertificateManager.OpenAuthority(t.TempDir(), "acm", "test")
	if err != nil {
		t.Fatal(err)
	}
	return resourcetest.New(t, acm.Types, func(mux *wire.Mux, s *store.Store) {
		service.New(service.Options{Store: s}).Register(mux)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), certificate.New(certificate.Options{Store: s,
				ACM: service.NewLifecycle(service.Options{Store: s}, authority{ca})}).Controllers()...)
		}()
		t.Cleanup(func() {
			stop()
			<-ended
		})
	})
}

func lives() map[string]resourcetest.Life {
	arn := map[string]string{
		"CertificateArn": "arn:aws:acm:" + awstest.Region + ":" + awstest.Account + ":certificate/*",
	}
	return map[string]resourcetest.Life{
		"by DNS": {
			Type: "AWS::CertificateManager::Certificate", Attributes: arn,
			Properties: `{"DomainName": "web.example.com", "SubjectAlternativeNames": ["*.web.example.com"],
				"ValidationMethod": "DNS", "KeyAlgorithm": "EC_prime256v1", "CertificateExport": "DISABLED",
				"Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"CertificateTransparencyLoggingPreference": "DISABLED", "Tags": [{"Key": "c", "Value": ""}]}`,
				`{"CertificateTransparencyLoggingPreference": null, "Tags": null}`,
			},
		},
		"by email": {
			Type: "AWS::CertificateManager::Certificate", Attributes: arn,
			Properties: `{"DomainName": "a.b.example.com", "KeyAlgorithm": "EC_secp384r1",
				"DomainValidationOptions": [{"DomainName": "a.b.example.com", "ValidationDomain": "example.com"}]}`,
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, acm.Types, slices.Collect(maps.Values(lives())), map[string][]string{
		"AWS::CertificateManager::Certificate": {"CertificateAuthorityArn"}, // which ACM refuses here
	})
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newStack(t).Run(life)
		})
	}
}

// TestRefusals shows that what ACM refuses is an invalid request, which is not tried again.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newStack(t)
	for name, properties := range map[string]string{
		"a reserved name":   `{"DomainName": "sts.amazonaws.com"}`,
		"an exportable one": `{"DomainName": "web.example.com", "CertificateExport": "ENABLED"}`,
		"a private authority": `{"DomainName": "web.example.com",
			"CertificateAuthorityArn": "arn:aws:acm-pca:eu-west-1:111122223333:certificate-authority/a"}`,
		"another's domain": `{"DomainName": "web.example.com",
			"DomainValidationOptions": [{"DomainName": "web.example.com", "ValidationDomain": "example.org"}]}`,
	} {
		_, err := acm.Types["AWS::CertificateManager::Certificate"].Create(t.Context(), w.Request("Own", properties))
		if resource.Classify(err) != resource.InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
