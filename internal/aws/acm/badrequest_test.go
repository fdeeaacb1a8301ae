package acm_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
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

func failed[T any](_ T, err error) error { return err }

// TestBadRequests shows that each gets AWS's error, and changes nothing.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	issued, used := w.issued("web.example.com"), w.issued("used.example.com")
	w.use("web", used)
	good, other := chained(t), selfSigned(t, nil)
	imported := w.imported(good)
	tagged := w.imported(other)
	awstest.Must[*acm.AddTagsToCertificateOutput](t)(w.AddTagsToCertificate(ctx, &acm.AddTagsToCertificateInput{
		CertificateArn: &tagged, Tags: tags(50)}))
	pending := w.request("pending.example.com")
	mail := *awstest.Must[*acm.RequestCertificateOutput](t)(w.RequestCertificate(ctx, &acm.RequestCertificateInput{
		DomainName: aws.String("mail.example.com")})).CertificateArn

	request := func(edit func(*acm.RequestCertificateInput)) func() error {
		return func() error {
			in := &acm.RequestCertificateInput{DomainName: aws.String("new.example.com")}
			edit(in)
			return failed(w.RequestCertificate(ctx, in))
		}
	}
	name := func(name string) func() error {
		return request(func(in *acm.RequestCertificateInput) { in.DomainName = &name })
	}
	bring := func(g given, edits ...func(*acm.ImportCertificateInput)) func() error {
		return func() error {
			in := &acm.ImportCertificateInput{Certificate: g.certificate, PrivateKey: g.key, CertificateChain: g.chain}
			for _, edit := range edits {
				edit(in)
			}
			return failed(w.ImportCertificate(ctx, in))
		}
	}
	over := func(arn string) func(*acm.ImportCertificateInput) {
		return func(in *acm.ImportCertificateInput) { in.CertificateArn = &arn }
	}
	edited := func(edit func(*given)) func() error {
		g := good
		edit(&g)
		return bring(g)
	}
	describe := func(arn string) func() error {
		return func() error {
			return failed(w.DescribeCertificate(ctx, &acm.DescribeCertificateInput{CertificateArn: &arn}))
		}
	}
	remove := func(arn string) func() error {
		return func() error {
			return failed(w.DeleteCertificate(ctx, &acm.DeleteCertificateInput{CertificateArn: &arn}))
		}
	}
	renew := func(arn string) func() error {
		return func() error {
			return failed(w.RenewCertificate(ctx, &acm.RenewCertificateInput{CertificateArn: &arn}))
		}
	}
	export := func(arn string) func() error {
		return func() error {
			return failed(w.ExportCertificate(ctx, &acm.ExportCertificateInput{CertificateArn: &arn,
				Passphrase: []byte("secret")}))
		}
	}
	resend := func(arn, name, domain string) func() error {
		return func() error {
			return failed(w.ResendValidationEmail(ctx, &acm.ResendValidationEmailInput{CertificateArn: &arn, Domain: &name,
				ValidationDomain: &domain}))
		}
	}
	options := func(arn string, o types.CertificateOptions) func() error {
		return func() error {
			return failed(w.UpdateCertificateOptions(ctx, &acm.UpdateCertificateOptionsInput{CertificateArn: &arn,
				Options: &o}))
		}
	}
	tag := func(arn string, all ...types.Tag) func() error {
		return func() error {
			return failed(w.AddTagsToCertificate(ctx, &acm.AddTagsToCertificateInput{CertificateArn: &arn, Tags: all}))
		}
	}
	list := func(in acm.ListCertificatesInput) func() error {
		return func() error { return failed(w.ListCertificates(ctx, &in)) }
	}
	signedBy := func(edit func(*x509.Certificate)) given {
		by, text := newSigner(t, "authority", nil)
		key, c := newKey(t), template()
		edit(c)
		certificate, _ := sign(t, c, key, by)
		return given{certificate, encodeKey(t, key), text}
	}
	reversed := func(text []byte) []byte {
		first, rest := pem.Decode(text)
		return slices.Concat(rest, pem.EncodeToMemory(first))
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	oddRSA := awstest.Must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 1536))
	oddText, _ := sign(t, template(), oddRSA, nil)

	for _, r := range []struct {
		name string
		call func() error
		code string
		says string // in the message
	}{
		{"Request: one label", name("web"), "ValidationException", "domainName"},
		{"Request: a wildcard within", name("a.*.example.com"), "ValidationException", "pattern"},
		{"Request: a wildcard of a top-level domain", name("*.com"), "ValidationException", "pattern"},
		{"Request: a space", name("a b.example.com"), "ValidationException", "pattern"},
		{"Request: an underscore", name("_a.example.com"), "ValidationException", "pattern"},
		{"Request: a hyphen first", name("-a.example.com"), "ValidationException", "pattern"},
		{"Request: an empty label", name("a..example.com"), "ValidationException", "pattern"},
		{"Request: a dot last", name("a.example.com."), "ValidationException", "pattern"},
		{"Request: a long label", name(strings.Repeat("a", 64) + ".ex"), "InvalidParameterException", "64"},
		{"Request: a long first name", name(strings.Repeat("a.", 30) + "example.com"), "InvalidParameterException", "64"},
		{"Request: a bad name more", request(func(in *acm.RequestCertificateInput) {
			in.SubjectAlternativeNames = []string{"ok.example.com", "not ok"}
		}), "ValidationException", "subjectAlternativeNames"},
		{"Request: many names", request(func(in *acm.RequestCertificateInput) {
			in.SubjectAlternativeNames = names("web", 10)
		}), "LimitExceededException", "11 domain names"},
		{"Request: an address", name("10.0.0.10"), "InvalidParameterException", "IP address"},
		{"Request: private authority", request(func(in *acm.RequestCertificateInput) {
			in.CertificateAuthorityArn = aws.String("arn:aws:acm-pca:" + region + ":" + account + ":certificate-authority/x")
		}), "InvalidParameterException", "certificate-authority/x"},
		{"Request: CloudFront", request(func(in *acm.RequestCertificateInput) {
			in.ManagedBy = types.CertificateManagedByCloudfront
		}), "ValidationException", "CLOUDFRONT"},
		{"Request: HTTP", request(func(in *acm.RequestCertificateInput) {
			in.ValidationMethod = types.ValidationMethodHttp
		}), "ValidationException", "use DNS"},
		{"Request: no such method", request(func(in *acm.RequestCertificateInput) { in.ValidationMethod = "MAIL" }),
			"ValidationException", "validationMethod"},
		{"Request: key algorithm", request(func(in *acm.RequestCertificateInput) {
			in.KeyAlgorithm = types.KeyAlgorithmRsa4096
		}), "ValidationException", "RSA_4096"},
		{"Request: export", request(func(in *acm.RequestCertificateInput) {
			in.Options = &types.CertificateOptions{Export: types.CertificateExportEnabled}
		}), "ValidationException", "Export"},
		{"Request: validation of another name", request(func(in *acm.RequestCertificateInput) {
			in.DomainValidationOptions = []types.DomainValidationOption{{DomainName: aws.String("x.example.com"),
				ValidationDomain: aws.String("example.com")}}
		}), "InvalidDomainValidationOptionsException", "x.example.com"},
		{"Request: validation by another domain", request(func(in *acm.RequestCertificateInput) {
			in.DomainValidationOptions = []types.DomainValidationOption{{DomainName: aws.String("new.example.com"),
				ValidationDomain: aws.String("example.org")}}
		}), "InvalidDomainValidationOptionsException", "example.org"},
		{"Request: validation twice", request(func(in *acm.RequestCertificateInput) {
			o := types.DomainValidationOption{DomainName: aws.String("new.example.com"),
				ValidationDomain: aws.String("example.com")}
			in.DomainValidationOptions = []types.DomainValidationOption{o, o}
		}), "InvalidDomainValidationOptionsException", "more than once"},
		{"Request: token", request(func(in *acm.RequestCertificateInput) { in.IdempotencyToken = aws.String("a b") }),
			"ValidationException", "idempotencyToken"},
		{"Request: reserved tag", request(func(in *acm.RequestCertificateInput) {
			in.Tags = []types.Tag{{Key: aws.String("aws:x")}}
		}), "InvalidTagException", "aws:x"},
		{"Request: tag twice", request(func(in *acm.RequestCertificateInput) {
			in.Tags = append(tags(1), tags(1)...)
		}), "InvalidTagException", "more than once"},

		{"Import: nothing", edited(func(g *given) { g.certificate = []byte(" ") }), "ValidationException", "is empty"},
		{"Import: no PEM", edited(func(g *given) { g.certificate = []byte("0\x82") }), "ValidationException", "PEM"},
		{"Import: DER", edited(func(g *given) {
			block, _ := pem.Decode(g.certificate)
			g.certificate = block.Bytes
		}), "ValidationException", "PEM"},
		{"Import: no certificate in PEM", edited(func(g *given) {
			g.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
		}), "ValidationException", "Unable to parse"},
		{"Import: a key for a certificate", edited(func(g *given) { g.certificate = g.key }), "ValidationException",
			"PRIVATE KEY"},
		{"Import: the chain with the certificate", edited(func(g *given) {
			g.certificate = slices.Concat(g.certificate, g.chain)
		}), "ValidationException", "more than one certificate"},
		{"Import: no key", edited(func(g *given) { g.key = []byte("x") }), "ValidationException", "private key"},
		{"Import: a certificate for a key", edited(func(g *given) { g.key = g.certificate }), "ValidationException",
			"CERTIFICATE"},
		{"Import: an encrypted key", edited(func(g *given) {
			g.key = pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
		}), "ValidationException", "passphrase"},
		{"Import: an encrypted key, as it was", edited(func(g *given) {
			g.key = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte("x"),
				Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}})
		}), "ValidationException", "passphrase"},
		{"Import: a broken key", edited(func(g *given) {
			g.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
		}), "ValidationException", "not supported"},
		{"Import: the key of another", edited(func(g *given) { g.key = other.key }), "ValidationException",
			"does not match"},
		{"Import: a key of Ed25519", edited(func(g *given) { g.key = encodeKey(t, edwards) }), "ValidationException",
			"RSA or ECDSA"},
		{"Import: a certificate of Ed25519", bring(given{certificate: func() []byte {
			text, _ := sign(t, template(), edwards, nil)
			return text
		}(), key: good.key}), "ValidationException", "key algorithm"},
		{"Import: an odd length", bring(given{certificate: oddText, key: encodeKey(t, oddRSA)}), "ValidationException",
			"1536"},
		{"Import: expired", bring(selfSigned(t, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Minute)
		})), "ValidationException", "has expired"},
		{"Import: of the future", bring(selfSigned(t, func(c *x509.Certificate) {
			c.NotBefore = time.Now().Add(time.Hour)
		})), "ValidationException", "not valid before"},
		{"Import: no name", bring(selfSigned(t, func(c *x509.Certificate) {
			c.Subject, c.DNSNames = pkix.Name{}, nil
		})), "ValidationException", "common name"},
		{"Import: the chain in another order", edited(func(g *given) { g.chain = reversed(g.chain) }),
			"ValidationException", "with the certificate chain"},
		{"Import: the chain of another", bring(given{other.certificate, other.key, good.chain}), "ValidationException",
			"with the certificate chain"},
		{"Import: the certificate in the chain", edited(func(g *given) {
			g.chain = slices.Concat(g.certificate, g.chain)
		}), "ValidationException", "Leave it out"},
		{"Import: a long chain", edited(func(g *given) { g.chain = bytes.Repeat(g.chain, 6) }), "ValidationException",
			"12 certificates"},
		{"Import: a large chain", edited(func(g *given) { g.chain = bytes.Repeat(g.chain, 200) }), "ValidationException",
			"65536"},
		{"Import: many names", bring(selfSigned(t, func(c *x509.Certificate) { c.DNSNames = names("w", 250) })),
			"ValidationException", "251 names"},
		{"Import: long names", bring(selfSigned(t, func(c *x509.Certificate) {
			c.DNSNames = names(strings.Repeat("w", 60), 240)
		})), "ValidationException", "24576"},
		{"Import: a key in the chain", edited(func(g *given) { g.chain = slices.Concat(g.chain, g.key) }),
			"ValidationException", "PRIVATE KEY"},
		{"Import: signed with SHA-1", bring(signedBy(func(c *x509.Certificate) {
			c.SignatureAlgorithm = x509.ECDSAWithSHA1
		})), "ValidationException", "SHA1"},
		{"Import: reserved tag", bring(good, func(in *acm.ImportCertificateInput) {
			in.Tags = []types.Tag{{Key: aws.String("AWS:x")}}
		}), "InvalidTagException", "AWS:x"},
		{"Import again: absent", bring(good, over(absent)), "ResourceNotFoundException", absent},
		{"Import again: an issued one", bring(good, over(issued)), "ValidationException", "was issued by ACM"},
		{"Import again: another kind of key", bring(ofRSA(t, 2048), over(imported)), "ValidationException", "RSA_2048"},
		{"Import again: fewer usages", bring(selfSigned(t, func(c *x509.Certificate) { c.ExtKeyUsage = nil }),
			over(imported)), "ValidationException", "TLS_WEB_SERVER_AUTHENTICATION"},
		{"Import again: tags", bring(good, over(imported), func(in *acm.ImportCertificateInput) { in.Tags = tags(1) }),
			"InvalidParameterException", "re-import"},

		{"Describe: no ARN", describe("web.example.com-and-more"), "ValidationException", "certificateArn"},
		{"Describe: another resource", describe("arn:aws:acm:" + region + ":" + account + ":key/x"),
			"InvalidArnException", "key/x"},
		{"Describe: no ID", describe("arn:aws:acm:" + region + ":" + account + ":certificate/x"), "InvalidArnException",
			"certificate/x"},
		{"Describe: absent", describe(absent), "ResourceNotFoundException", "Could not find certificate " + absent},
		{"Describe: another region", describe(strings.Replace(issued, region, "eu-west-1", 1)),
			"ResourceNotFoundException", "eu-west-1"},
		{"Describe: another account", describe(strings.Replace(issued, account, "444455556666", 1)),
			"AccessDeniedException", "acm:DescribeCertificate"},
		{"Get: absent", func() error {
			return failed(w.GetCertificate(ctx, &acm.GetCertificateInput{CertificateArn: aws.String(absent)}))
		}, "ResourceNotFoundException", absent},
		{"Get: pending", func() error {
			return failed(w.GetCertificate(ctx, &acm.GetCertificateInput{CertificateArn: &pending}))
		}, "RequestInProgressException", "pending validation"},
		{"Delete: in use", remove(used), "ResourceInUseException", "loadbalancer/net/web/"},
		{"Delete: absent", remove(absent), "ResourceNotFoundException", absent},
		{"Renew: imported", renew(imported), "ValidationException", "not eligible for renewal"},
		{"Renew: pending", renew(pending), "RequestInProgressException", "pending validation"},
		{"Export: issued", export(issued), "ValidationException", "not a private certificate"},
		{"Export: imported", export(imported), "ValidationException", "not a private certificate"},
		{"Export: short passphrase", func() error {
			return failed(w.ExportCertificate(ctx, &acm.ExportCertificateInput{CertificateArn: &issued,
				Passphrase: []byte("x")}))
		}, "ValidationException", "passphrase"},
		{"Resend: by DNS", resend(issued, "web.example.com", "example.com"), "InvalidStateException", "by email"},
		{"Resend: another name", resend(mail, "x.example.com", "example.com"),
			"InvalidDomainValidationOptionsException", "x.example.com"},
		{"Resend: another domain", resend(mail, "mail.example.com", "example.org"),
			"InvalidDomainValidationOptionsException", "example.org"},
		{"Resend: nothing waits", resend(mail, "mail.example.com", "example.com"), "InvalidStateException", "no email"},
		{"Options: imported", options(imported, types.CertificateOptions{Export: types.CertificateExportDisabled}),
			"InvalidStateException", "imported"},
		{"Options: export", options(issued, types.CertificateOptions{Export: types.CertificateExportEnabled}),
			"ValidationException", "Export"},
		{"Options: back to email", options(issued, types.CertificateOptions{
			ValidationMethod: types.ValidationMethodEmail}), "ValidationException", "EMAIL to DNS"},
		{"Options: none", options(issued, types.CertificateOptions{}), "ValidationException", "empty"},
		{"Tag: reserved", tag(issued, types.Tag{Key: aws.String("aws:x")}), "InvalidTagException", "aws:x"},
		{"Tag: too many", tag(tagged, types.Tag{Key: aws.String("more")}), "TooManyTagsException", "50"},
		{"Tag: a character", tag(issued, types.Tag{Key: aws.String("a;b")}), "ValidationException", "key"},
		{"Tag: absent", tag(absent, tags(1)...), "ResourceNotFoundException", absent},
		{"Untag: reserved", func() error {
			return failed(w.RemoveTagsFromCertificate(ctx, &acm.RemoveTagsFromCertificateInput{CertificateArn: &issued,
				Tags: []types.Tag{{Key: aws.String("aws:x")}}}))
		}, "InvalidTagException", "aws:x"},
		{"List: an order without what", list(acm.ListCertificatesInput{SortOrder: types.SortOrderAscending}),
			"ValidationException", "together"},
		{"List: many", list(acm.ListCertificatesInput{MaxItems: aws.Int32(1001)}), "ValidationException", "maxItems"},
		{"List: token", list(acm.ListCertificatesInput{NextToken: aws.String("x")}), "InvalidArgsException", "token"},
		{"Configuration: days", func() error {
			return failed(w.PutAccountConfiguration(ctx, &acm.PutAccountConfigurationInput{
				IdempotencyToken: aws.String("x"),
				ExpiryEvents:     &types.ExpiryEventsConfiguration{DaysBeforeExpiry: aws.Int32(0)}}))
		}, "ValidationException", "daysBeforeExpiry"},
		{"CreateAcmeEndpoint is not served", func() error {
			return failed(w.CreateAcmeEndpoint(ctx, &acm.CreateAcmeEndpointInput{
				AuthorizationBehavior: types.AcmeAuthorizationBehaviorPreApproved,
				CertificateAuthority:  &types.CertificateAuthorityMemberPublicCertificateAuthority{},
			}))
		}, "NotImplemented", "not implemented by coracle"},
	} {
		before := w.rows()
		code, message, _ := awstest.Failure(r.call())
		if code != r.code || !strings.Contains(message, r.says) {
			t.Errorf("%s: %s: %s, want %s with %q", r.name, code, message, r.code, r.says)
		}
		if after := w.rows(); !slices.Equal(before, after) {
			t.Errorf("%s changed something: %v, and now %v", r.name, before, after)
		}
	}
}

func tags(n int) (all []types.Tag) {
	for i := range n {
		all = append(all, types.Tag{Key: aws.String(fmt.Sprint("k", i)), Value: aws.String("v")})
	}
	return all
}

// rows lists the keys of all records of ACM with their revisions.
func (w *fixture) rows() []string {
	w.t.Helper()
	return slices.Concat(rowsOf(w, record.Certificates(w.Store)), rowsOf(w, record.CertificateMaterials(w.Store)),
		rowsOf(w, record.CertificateConfigurations(w.Store)))
}

func rowsOf[T any](w *fixture, table store.Table[T]) (all []string) {
	w.t.Helper()
	rows, err := table.List(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		all = append(all, fmt.Sprint(r.Key, "@", r.Revision))
	}
	return all
}
