package acm_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// served returns what a listener serves a certificate with.
func (w *fixture) served(arn string) tls.Certificate {
	w.t.Helper()
	parts := strings.Split(arn, "/")
	row, err := record.CertificateMaterials(w.Store).Get(w.t.Context(), record.CertificateKey(account, region, parts[1]))
	if err != nil {
		w.t.Fatal(err)
	}
	m := row.Value
	return awstest.Must[tls.Certificate](w.t)(tls.X509KeyPair(slices.Concat(m.Certificate, m.Chain), m.PrivateKey))
}

// TestARequestedCertificate is issued, and believed by whoever trusts the authority.
func TestARequestedCertificate(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	arn := *awstest.Must[*acm.RequestCertificateOutput](t)(w.RequestCertificate(ctx, &acm.RequestCertificateInput{
		DomainName: aws.String("Shop.example.com"), SubjectAlternativeNames: []string{"*.shop.example.com",
			"shop.example.com", "shop.test"}, ValidationMethod: types.ValidationMethodDns,
		Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	})).CertificateArn
	before := w.describe(arn)
	if before.Status != types.CertificateStatusPendingValidation || before.NotAfter != nil || before.IssuedAt != nil {
		t.Errorf("before it is issued: %+v", before)
	}
	get := func() (*acm.GetCertificateOutput, error) {
		return w.GetCertificate(ctx, &acm.GetCertificateInput{CertificateArn: &arn})
	}
	_, err := get()
	awstest.WantCode(t, err, "RequestInProgressException")

	w.reconcile()
	after := w.describe(arn)
	want := []string{"shop.example.com", "*.shop.example.com", "shop.test"}
	if after.Status != types.CertificateStatusIssued || *after.DomainName != want[0] ||
		!slices.Equal(after.SubjectAlternativeNames, want) || after.Type != types.CertificateTypeAmazonIssued ||
		after.KeyAlgorithm != types.KeyAlgorithmRsa2048 || *after.Subject != "CN=shop.example.com" ||
		*after.Issuer != "Test authority" || *after.SignatureAlgorithm != "SHA256WITHECDSA" || len(after.InUseBy) != 0 ||
		after.RenewalEligibility != types.RenewalEligibilityIneligible || len(after.KeyUsages) != 2 ||
		len(after.ExtendedKeyUsages) != 1 || after.IssuedAt == nil || after.ImportedAt != nil {
		t.Errorf("issued: %+v", after)
	}
	if days := after.NotAfter.Sub(*after.IssuedAt).Hours() / 24; days < 197 || days > 198 {
		t.Errorf("it is valid for %v days", days)
	}
	for _, v := range after.DomainValidationOptions {
		if v.ValidationStatus != types.DomainStatusSuccess || v.ResourceRecord == nil ||
			v.ResourceRecord.Type != types.RecordTypeCname ||
			!strings.HasSuffix(*v.ResourceRecord.Value, ".acm-validations.aws.") ||
			!strings.HasSuffix(*v.ResourceRecord.Name, strings.TrimPrefix(*v.DomainName, "*.")+".") {
			t.Errorf("validation: %+v %+v", v, v.ResourceRecord)
		}
	}
	// A wildcard is validated by the record of its parent.
	options := after.DomainValidationOptions
	if len(options) != 3 || *options[0].ResourceRecord.Name != *options[1].ResourceRecord.Name ||
		*options[0].ResourceRecord.Name == *options[2].ResourceRecord.Name {
		t.Errorf("validations: %+v", options)
	}

	out := awstest.Must[*acm.GetCertificateOutput](t)(get())
	roots := x509.NewCertPool()
	roots.AddCert(w.authority.Certificate)
	served := w.served(arn)
	for name, good := range map[string]bool{"shop.example.com": true, "a.shop.example.com": true, "shop.test": true,
		"a.shop.test": false} {
		if _, err := served.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.HasPrefix(*out.Certificate, "-----BEGIN CERTIFICATE-----") ||
		*out.CertificateChain != string(w.authority.PEM) {
		t.Errorf("the certificate: %s %s", *out.Certificate, *out.CertificateChain)
	}
	_, err = w.ExportCertificate(ctx, &acm.ExportCertificateInput{CertificateArn: &arn, Passphrase: []byte("secret")})
	awstest.WantCode(t, err, "ValidationException")

	awstest.Must[*acm.DeleteCertificateOutput](t)(w.DeleteCertificate(ctx,
		&acm.DeleteCertificateInput{CertificateArn: &arn}))
	_, err = get()
	awstest.WantCode(t, err, "ResourceNotFoundException")
	if n := record.CertificateMaterials(w.Store).Count(store.Prefix(account)); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// TestRenewal shows that a certificate that is in use is issued again for another key, and others expire.
func TestRenewal(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	arn, idle := w.issued("web.example.com"), w.issued("idle.example.com")
	user := w.use("web", arn)
	first := w.describe(arn)
	if first.RenewalEligibility != types.RenewalEligibilityEligible || !slices.Equal(first.InUseBy, []string{user}) ||
		first.RenewalSummary != nil {
		t.Fatalf("in use: %+v", first)
	}
	key := func() any { return w.served(arn).Leaf.PublicKey }
	firstKey := key()

	w.SetNow(first.NotAfter.Add(-46 * 24 * time.Hour))
	w.reconcile()
	if d := w.describe(arn); *d.Serial != *first.Serial {
		t.Error("it is renewed 46 days before it expires")
	}
	w.SetNow(first.NotAfter.Add(-44 * 24 * time.Hour))
	w.reconcile()
	second := w.describe(arn)
	if *second.Serial == *first.Serial || !second.NotAfter.After(first.NotAfter.Add(150*24*time.Hour)) ||
		second.RenewalSummary == nil || second.RenewalSummary.RenewalStatus != types.RenewalStatusSuccess ||
		!second.IssuedAt.Equal(*first.IssuedAt) || second.Status != types.CertificateStatusIssued {
		t.Errorf("renewed: %+v, was %+v", second, first)
	}
	if firstKey.(*ecdsa.PublicKey).Equal(key()) {
		t.Error("the key is the same")
	}

	awstest.Must[*acm.RenewCertificateOutput](t)(w.RenewCertificate(ctx,
		&acm.RenewCertificateInput{CertificateArn: &arn}))
	if d := w.describe(arn); d.RenewalSummary.RenewalStatus != types.RenewalStatusPendingAutoRenewal {
		t.Errorf("to be renewed: %+v", d.RenewalSummary)
	}
	w.reconcile()
	if third := w.describe(arn); *third.Serial == *second.Serial ||
		third.RenewalSummary.RenewalStatus != types.RenewalStatusSuccess {
		t.Errorf("renewed on request: %+v", third)
	}

	w.SetNow(first.NotAfter.Add(time.Minute))
	w.reconcile()
	if d := w.describe(idle); d.Status != types.CertificateStatusExpired {
		t.Errorf("what nobody uses is %s", d.Status)
	}
	if d := w.describe(arn); d.Status != types.CertificateStatusIssued {
		t.Errorf("what is in use is %s", d.Status)
	}
}

// TestImport shows that what was imported is served as it was, and can be replaced.
func TestImport(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	g := chained(t)
	arn := w.imported(g)
	d := w.describe(arn)
	if d.Type != types.CertificateTypeImported || d.Status != types.CertificateStatusIssued ||
		*d.DomainName != "web.example.com" || *d.Issuer != "middle" || *d.Serial != "0a:0b:0c" ||
		d.KeyAlgorithm != types.KeyAlgorithmEcPrime256v1 || d.ImportedAt == nil || d.IssuedAt != nil ||
		d.CertificateKeyPairOrigin != types.CertificateKeyPairOriginCustomerProvided ||
		!slices.Equal(d.SubjectAlternativeNames, []string{"web.example.com", "*.web.example.com"}) ||
		d.RenewalEligibility != types.RenewalEligibilityIneligible || len(d.DomainValidationOptions) != 0 {
		t.Errorf("imported: %+v", d)
	}
	out := awstest.Must[*acm.GetCertificateOutput](t)(w.GetCertificate(ctx,
		&acm.GetCertificateInput{CertificateArn: &arn}))
	if *out.Certificate != string(g.certificate) || *out.CertificateChain != string(g.chain) {
		t.Error("the certificate is another")
	}
	if served := w.served(arn); len(served.Certificate) != 3 {
		t.Errorf("%d certificates are served", len(served.Certificate))
	}

	w.use("web", arn)
	next := selfSigned(t, func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "shop.example.com") })
	again := awstest.Must[*acm.ImportCertificateOutput](t)(w.ImportCertificate(ctx, &acm.ImportCertificateInput{
		Certificate: next.certificate, PrivateKey: next.key, CertificateArn: &arn}))
	if *again.CertificateArn != arn || len(w.describe(arn).SubjectAlternativeNames) != 3 ||
		len(w.describe(arn).InUseBy) != 1 || len(w.served(arn).Certificate) != 1 {
		t.Errorf("imported again: %+v", w.describe(arn))
	}
	awstest.Must[*acm.ListTagsForCertificateOutput](t)(w.ListTagsForCertificate(ctx,
		&acm.ListTagsForCertificateInput{CertificateArn: &arn}))

	for name, g := range map[string]given{
		"RSA": ofRSA(t, 3072), "without a chain": {certificate: g.certificate, key: g.key},
		"for an address": selfSigned(t, func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames, c.IPAddresses = "", nil, []net.IP{net.IPv4(192, 0, 2, 1)}
		}),
		"with parameters and a blank": withParameters(selfSigned(t, nil)),
	} {
		if arn := w.imported(g); w.describe(arn).Status != types.CertificateStatusIssued {
			t.Errorf("%s: %+v", name, w.describe(arn))
		}
	}
}

// withParameters returns what OpenSSL writes before a key of an elliptic curve.
func withParameters(g given) given {
	g.key = slices.Concat([]byte("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"),
		g.key, []byte("\n\n"))
	g.certificate = slices.Concat([]byte("\n"), bytes.ReplaceAll(g.certificate, []byte("\n"), []byte("\r\n")))
	return g
}

// TestIdempotency shows that a token stands for one request within an hour.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	request := func(name string) (string, error) {
		out, err := w.RequestCertificate(ctx, &acm.RequestCertificateInput{DomainName: &name,
			IdempotencyToken: aws.String("once")})
		if err != nil {
			return "", err
		}
		return *out.CertificateArn, nil
	}
	// At once, too.
	arns := make(chan string)
	for range 4 {
		go func() {
			arn, err := request("a.example.com")
			if err != nil {
				arn = err.Error()
			}
			arns <- arn
		}()
	}
	first := <-arns
	for range 3 {
		if arn := <-arns; arn != first {
			t.Errorf("another attempt: %s, want %s", arn, first)
		}
	}
	_, err := request("b.example.com")
	awstest.WantCode(t, err, "ValidationException")
	w.SetNow(time.Now().Add(61 * time.Minute))
	if arn, err := request("a.example.com"); err != nil || arn == first {
		t.Errorf("after an hour: %s, %v", arn, err)
	}
}

// TestLists shows filters, the order and pages.
func TestLists(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	start := time.Now()
	var arns []string
	for i, name := range names("web", 3) {
		w.SetNow(start.Add(time.Duration(i) * time.Second))
		arns = append(arns, w.request(name))
	}
	w.reconcile()
	arns = append(arns, w.imported(ofRSA(t, 2048)), w.request("pending.example.com"))
	w.use("web", arns[0])
	elliptic := &types.Filters{KeyTypes: []types.KeyAlgorithm{types.KeyAlgorithmEcPrime256v1}}
	list := func(in *acm.ListCertificatesInput) (all []string) {
		t.Helper()
		pages := acm.NewListCertificatesPaginator(w.Client, in)
		for pages.HasMorePages() {
			page := awstest.Must[*acm.ListCertificatesOutput](t)(pages.NextPage(ctx))
			if in.MaxItems != nil && len(page.CertificateSummaryList) > int(*in.MaxItems) {
				t.Errorf("a page of %d", len(page.CertificateSummaryList))
			}
			for _, c := range page.CertificateSummaryList {
				all = append(all, *c.CertificateArn)
			}
		}
		return all
	}
	for name, test := range map[string]struct {
		in   acm.ListCertificatesInput
		want []string
	}{
		"only RSA by default": {acm.ListCertificatesInput{}, arns[3:4]},
		"by status": {acm.ListCertificatesInput{Includes: elliptic,
			CertificateStatuses: []types.CertificateStatus{types.CertificateStatusPendingValidation}}, arns[4:]},
		"the oldest first, in pages": {acm.ListCertificatesInput{Includes: elliptic, MaxItems: aws.Int32(1),
			SortBy: types.SortByCreatedAt, SortOrder: types.SortOrderAscending,
			CertificateStatuses: []types.CertificateStatus{types.CertificateStatusIssued}}, arns[:3]},
		"the newest first, in pages": {acm.ListCertificatesInput{Includes: elliptic, MaxItems: aws.Int32(2),
			SortBy: types.SortByCreatedAt, SortOrder: types.SortOrderDescending,
			CertificateStatuses: []types.CertificateStatus{types.CertificateStatusIssued}},
			[]string{arns[2], arns[1], arns[0]}},
		"by usage": {acm.ListCertificatesInput{Includes: &types.Filters{
			KeyUsage: []types.KeyUsageName{types.KeyUsageNameCrlSigning}}}, nil},
		"by extended usage": {acm.ListCertificatesInput{Includes: &types.Filters{
			ExtendedKeyUsage: []types.ExtendedKeyUsageName{types.ExtendedKeyUsageNameTlsWebServerAuthentication}}},
			arns[3:4]},
		"by origin": {acm.ListCertificatesInput{CertificateKeyPairOrigins: []types.CertificateKeyPairOrigin{
			types.CertificateKeyPairOriginAwsManaged}}, nil},
	} {
		if got := list(&test.in); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	for _, c := range awstest.Must[*acm.ListCertificatesOutput](t)(w.ListCertificates(ctx,
		&acm.ListCertificatesInput{Includes: elliptic})).CertificateSummaryList {
		if *c.InUse != (*c.CertificateArn == arns[0]) || *c.Exported || *c.HasAdditionalSubjectAlternativeNames {
			t.Errorf("summary: %+v", c)
		}
	}
}

// TestTagsAndOptions shows what of a certificate can be changed.
func TestTagsAndOptions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	arn := *awstest.Must[*acm.RequestCertificateOutput](t)(w.RequestCertificate(ctx, &acm.RequestCertificateInput{
		DomainName: aws.String("a.b.example.com"), ValidationMethod: types.ValidationMethodEmail,
		DomainValidationOptions: []types.DomainValidationOption{{DomainName: aws.String("a.b.example.com"),
			ValidationDomain: aws.String("example.com")}},
	})).CertificateArn
	tag := func(key string, value *string) types.Tag { return types.Tag{Key: &key, Value: value} }
	awstest.Must[*acm.AddTagsToCertificateOutput](t)(w.AddTagsToCertificate(ctx, &acm.AddTagsToCertificateInput{
		CertificateArn: &arn, Tags: []types.Tag{tag("a", aws.String("1")), tag("b", aws.String("2")), tag("c", nil)}}))
	awstest.Must[*acm.RemoveTagsFromCertificateOutput](t)(w.RemoveTagsFromCertificate(ctx,
		&acm.RemoveTagsFromCertificateInput{CertificateArn: &arn, Tags: []types.Tag{tag("a", nil),
			tag("b", aws.String("another"))}}))
	var tags []string
	for _, t := range awstest.Must[*acm.ListTagsForCertificateOutput](t)(w.ListTagsForCertificate(ctx,
		&acm.ListTagsForCertificateInput{CertificateArn: &arn})).Tags {
		tags = append(tags, *t.Key+"="+*t.Value)
	}
	if !slices.Equal(tags, []string{"b=2", "c="}) {
		t.Errorf("tags: %v", tags)
	}

	if v := w.describe(arn).DomainValidationOptions[0]; *v.ValidationDomain != "example.com" ||
		!slices.Contains(v.ValidationEmails, "admin@example.com") || len(v.ValidationEmails) != 5 ||
		v.ResourceRecord != nil {
		t.Errorf("validated by email: %+v", v)
	}
	awstest.Must[*acm.UpdateCertificateOptionsOutput](t)(w.UpdateCertificateOptions(ctx,
		&acm.UpdateCertificateOptionsInput{CertificateArn: &arn, Options: &types.CertificateOptions{
			ValidationMethod:                         types.ValidationMethodDns,
			CertificateTransparencyLoggingPreference: types.CertificateTransparencyLoggingPreferenceDisabled}}))
	d := w.describe(arn)
	if d.DomainValidationOptions[0].ResourceRecord == nil ||
		d.Options.CertificateTransparencyLoggingPreference != types.CertificateTransparencyLoggingPreferenceDisabled {
		t.Errorf("options: %+v, %+v", d.Options, d.DomainValidationOptions[0])
	}

	days := func() int32 {
		t.Helper()
		return *awstest.Must[*acm.GetAccountConfigurationOutput](t)(w.GetAccountConfiguration(ctx,
			&acm.GetAccountConfigurationInput{})).ExpiryEvents.DaysBeforeExpiry
	}
	if days() != 45 {
		t.Errorf("events begin %d days before", days())
	}
	awstest.Must[*acm.PutAccountConfigurationOutput](t)(w.PutAccountConfiguration(ctx,
		&acm.PutAccountConfigurationInput{IdempotencyToken: aws.String("x"),
			ExpiryEvents: &types.ExpiryEventsConfiguration{DaysBeforeExpiry: aws.Int32(10)}}))
	if days() != 10 {
		t.Errorf("events begin %d days before", days())
	}
}
