// Package acm serves AWS Certificate Manager: certificates that their owners import, and certificates that they request
// for domain names, which the daemon's authority for certificates issues and renews.
//
// A certificate is a row ([record.Certificate]), what it is served with another ([record.CertificateMaterial]), which
// this package and the listeners of load balancers read. Which load balancers use a certificate follows from their
// listeners (inuse.go).
//
// The [Lifecycle] issues requested certificates, and renews them before they expire. Nobody validates domains: no DNS
// record or email is waited for. Names that others must be able to trust are refused instead (names.go), and the
// authority is not believed about them ([Authority]).
//
// https://docs.aws.amazon.com/acm/latest/APIReference/Welcome.html
package acm

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/moby/locker"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Quotas of an account in a region.
// https://docs.aws.amazon.com/acm/latest/userguide/acm-limits.html
const (
	maxIssued   = 2500
	maxImported = 2500
	maxNames    = 10
	maxTags     = 50
)

// Options configures a Service.
type Options struct {
	Store *store.Store
	// HostNames are names of this host: no certificate is issued for them.
	HostNames []string
	Now       func() time.Time // time.Now unless set
}

// Service serves the ACM API. It is safe for concurrent use.
type Service struct {
	store          *store.Store
	hostNames      []string
	now            func() time.Time
	certificates   store.Table[record.Certificate]
	materials      store.Table[record.CertificateMaterial]
	configurations store.Table[record.CertificateConfiguration]
	balancers      store.Table[record.LoadBalancer]
	uses           store.Table[record.CertificateUse]
	requested      store.Index[record.Certificate] // by requestIndex
	places         *locker.Locker                  // each is held from counting to the creation of what is counted
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{store: o.Store, hostNames: o.HostNames, now: o.Now, certificates: record.Certificates(o.Store),
		materials: record.CertificateMaterials(o.Store), configurations: record.CertificateConfigurations(o.Store),
		balancers: record.LoadBalancers(o.Store), uses: record.CertificateUses(o.Store), places: locker.New()}
	s.requested = store.NewIndex(s.certificates, "token", func(c record.Certificate) string {
		if c.Request == nil || c.Request.Token == "" {
			return ""
		}
		return requestIndex(place{c.Account, c.Region}, c.Request.Token)
	})
	return s
}

// requestIndex returns what certificates that were requested with a token are found by.
func requestIndex(at place, token string) string { return store.Key(at.account, at.region, token) }

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awscertificatemanager.html
func (s *Service) Register(mux *wire.Mux) {
	mux.Register(wire.ACM,
		wire.Handle(s.ImportCertificate, s.importTargets),
		wire.Handle(s.RequestCertificate, requestTargets),
		wire.Handle(s.DescribeCertificate, onCertificate(s, func(in *acm.DescribeCertificateInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.ListCertificates, wire.OnAll),
		wire.Handle(s.GetCertificate, onCertificate(s, func(in *acm.GetCertificateInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.ExportCertificate, onCertificate(s, func(in *acm.ExportCertificateInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.DeleteCertificate, onCertificate(s, func(in *acm.DeleteCertificateInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.RenewCertificate, onCertificate(s, func(in *acm.RenewCertificateInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.ResendValidationEmail, onCertificate(s, func(in *acm.ResendValidationEmailInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.UpdateCertificateOptions, onCertificate(s, func(in *acm.UpdateCertificateOptionsInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.AddTagsToCertificate, s.addTagsTargets),
		wire.Handle(s.RemoveTagsFromCertificate, s.removeTagsTargets),
		wire.Handle(s.ListTagsForCertificate, onCertificate(s, func(in *acm.ListTagsForCertificateInput) *string {
			return in.CertificateArn
		})),
		wire.Handle(s.GetAccountConfiguration, wire.OnAll),
		wire.Handle(s.PutAccountConfiguration, wire.OnAll),
	)
}

// place is the account and region of a request.
type place struct{ account, region string }

func placeOf(ctx context.Context) place {
	return place{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

// timestamp returns the time of now as the API has it.
func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// hold holds the place until release is called: what is counted in it is not more when it is created.
func (s *Service) hold(at place) (release func()) {
	key := at.account + "/" + at.region
	s.places.Lock(key)
	return func() { _ = s.places.Unlock(key) } // it is held
}
