package acm_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// TestPermissions shows what each operation asks for: the action, the certificate, its tags, and what is requested.
func TestPermissions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	arn := w.issued("web.example.com")
	awstest.Must[*acm.AddTagsToCertificateOutput](t)(w.AddTagsToCertificate(ctx, &acm.AddTagsToCertificateInput{
		CertificateArn: &arn, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))
	another := w.issued("other.example.com")
	allow := func(action, resource, condition string) string {
		if condition != "" {
			condition = `,"Condition":{` + condition + `}`
		}
		return `{"Effect":"Allow","Action":"acm:` + action + `","Resource":"` + resource + `"` + condition + `}`
	}
	own := "arn:aws:acm:" + region + ":" + account + ":certificate/*"
	g := selfSigned(t, nil)
	describe := func(arn string) func(*acm.Client) error {
		return func(c *acm.Client) error {
			return failed(c.DescribeCertificate(ctx, &acm.DescribeCertificateInput{CertificateArn: &arn}))
		}
	}
	request := func(edit func(*acm.RequestCertificateInput)) func(*acm.Client) error {
		return func(c *acm.Client) error {
			in := &acm.RequestCertificateInput{DomainName: aws.String("New.example.com"),
				ValidationMethod: types.ValidationMethodDns}
			edit(in)
			return failed(c.RequestCertificate(ctx, in))
		}
	}
	plain := request(func(*acm.RequestCertificateInput) {})
	tagged := request(func(in *acm.RequestCertificateInput) { in.Tags = tags(1) })
	bring := func(arn *string) func(*acm.Client) error {
		return func(c *acm.Client) error {
			return failed(c.ImportCertificate(ctx, &acm.ImportCertificateInput{Certificate: g.certificate,
				PrivateKey: g.key, CertificateArn: arn}))
		}
	}
	imported := w.imported(g)
	for name, test := range map[string]struct {
		statement string
		call      func(*acm.Client) error
		denied    bool
	}{
		"the action":              {allow("DescribeCertificate", "*", ""), describe(arn), false},
		"another action":          {allow("GetCertificate", "*", ""), describe(arn), true},
		"the certificate":         {allow("DescribeCertificate", arn, ""), describe(arn), false},
		"another certificate":     {allow("DescribeCertificate", arn, ""), describe(another), true},
		"one that does not exist": {allow("DescribeCertificate", arn, ""), describe(absent), true},
		"by a tag":                {allow("*", "*", `"StringEquals":{"aws:ResourceTag/team":"a"}`), describe(arn), false},
		"by a tag it has not": {allow("*", "*", `"StringEquals":{"aws:ResourceTag/team":"a"}`), describe(another),
			true},
		"a request":                  {allow("RequestCertificate", "*", ""), plain, false},
		"a request for certificates": {allow("RequestCertificate", own, ""), plain, false},
		"a request by name": {allow("RequestCertificate", "*",
			`"ForAllValues:StringLike":{"acm:DomainNames":"*.example.com"}`), plain, false},
		"a request for another name": {allow("RequestCertificate", "*",
			`"ForAllValues:StringLike":{"acm:DomainNames":"*.example.org"}`), plain, true},
		"a request for one name too many": {allow("RequestCertificate", "*",
			`"ForAllValues:StringEquals":{"acm:DomainNames":"new.example.com"}`),
			request(func(in *acm.RequestCertificateInput) { in.SubjectAlternativeNames = []string{"b.example.com"} }), true},
		"a request by method": {allow("RequestCertificate", "*", `"StringEquals":{"acm:ValidationMethod":"DNS"}`), plain,
			false},
		"a request by another method": {allow("RequestCertificate", "*",
			`"StringEquals":{"acm:ValidationMethod":"EMAIL"}`), plain, true},
		"a request by algorithm": {allow("RequestCertificate", "*", `"StringEquals":{"acm:KeyAlgorithm":"RSA_2048"}`),
			plain, false},
		"a request with tags, without permission to tag": {allow("RequestCertificate", "*", ""), tagged, true},
		"a request with tags": {allow("RequestCertificate", "*", "") + "," + allow("AddTagsToCertificate", "*",
			`"StringEquals":{"aws:RequestTag/k0":"v"}`), tagged, false},
		"an import":            {allow("ImportCertificate", own, ""), bring(nil), false},
		"an import of another": {allow("ImportCertificate", imported, ""), bring(nil), true},
		"an import again":      {allow("ImportCertificate", imported, ""), bring(&imported), false},
		"the list": {allow("ListCertificates", "*", ""), func(c *acm.Client) error {
			return failed(c.ListCertificates(ctx, &acm.ListCertificatesInput{}))
		}, false},
		"tags that may be added": {allow("AddTagsToCertificate", arn, `"ForAllValues:StringEquals":{"aws:TagKeys":"team"}`),
			func(c *acm.Client) error {
				return failed(c.AddTagsToCertificate(ctx, &acm.AddTagsToCertificateInput{CertificateArn: &arn,
					Tags: tags(1)}))
			}, true},
		"tags that may be removed": {allow("RemoveTagsFromCertificate", arn,
			`"ForAllValues:StringEquals":{"aws:TagKeys":"none"}`), func(c *acm.Client) error {
			return failed(c.RemoveTagsFromCertificate(ctx, &acm.RemoveTagsFromCertificateInput{CertificateArn: &arn,
				Tags: []types.Tag{{Key: aws.String("none")}}}))
		}, false},
		"deletion": {allow("DescribeCertificate", "*", ""), func(c *acm.Client) error {
			return failed(c.DeleteCertificate(ctx, &acm.DeleteCertificateInput{CertificateArn: &arn}))
		}, true},
	} {
		code := ""
		if err := test.call(w.user(strings.NewReplacer(" ", "-", ",", "").Replace(name), test.statement)); err != nil {
			code = awstest.Code(err)
		}
		if want := map[bool]string{true: "AccessDeniedException"}[test.denied]; code != want {
			t.Errorf("%s: %q, want %q", name, code, want)
		}
	}
	// Nobody of another account reaches a certificate, or learns whether it exists.
	for _, arn := range []string{arn, absent} {
		awstest.WantCode(t, describe(arn)(w.client(w.otherRoot)), "AccessDeniedException")
	}
	_, err := w.client(w.otherRoot).ImportCertificate(ctx, &acm.ImportCertificateInput{Certificate: g.certificate,
		PrivateKey: g.key, CertificateArn: &imported})
	awstest.WantCode(t, err, "AccessDeniedException")
}

// TestNobodyGetsACertificateForNamesOfOthers shows the names that no certificate is issued for: those of AWS, where the
// endpoints of the daemon and of everybody's clusters are, those of the host, addresses, and what is nobody's.
func TestNobodyGetsACertificateForNamesOfOthers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, name := range []string{
		"sts.us-east-1.amazonaws.com", "*.amazonaws.com", "STS.AmazonAWS.com",
		"0123456789abcdef.gr7.us-east-1.eks.amazonaws.com", "*.us-east-1.elb.amazonaws.com", "s3.amazonaws.com.cn",
		"eks-auth.us-east-1.api.aws", "*.on.aws", "a.localhost", "*.a.localhost", "web.default.svc.cluster.local",
		"kubernetes.default.svc", "kubernetes.default", "ip-10-0-0-1.ec2.internal", "1.0.0.127.in-addr.arpa", "10.0.0.10",
		"coracle.example.org", "*.example.org", "a.coracle.example.org", "*.coracle.example.org",
	} {
		for _, in := range []*acm.RequestCertificateInput{
			{DomainName: &name},
			{DomainName: aws.String("web.example.com"), SubjectAlternativeNames: []string{name}},
		} {
			_, err := w.RequestCertificate(t.Context(), in)
			if code := awstest.Code(err); code != "InvalidParameterException" {
				t.Errorf("%s: %s", name, code)
			}
		}
	}
	for _, name := range []string{"notamazonaws.com", "amazonaws.com.example.org", "a.b.example.org",
		"local.example.com"} {
		if err := failed(w.RequestCertificate(t.Context(), &acm.RequestCertificateInput{DomainName: &name})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
