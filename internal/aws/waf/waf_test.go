package waf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/wafregional"
	"github.com/aws/aws-sdk-go-v2/service/wafv2"
	"github.com/aws/aws-sdk-go-v2/service/wafv2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/waf"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// clients returns clients of both APIs.
func clients(w *iamtest.AWS, who aws.Credentials) (*wafv2.Client, *wafregional.Client) {
	provider := credentials.StaticCredentialsProvider{Value: who}
	return wafv2.New(wafv2.Options{Region: iamtest.Region, BaseEndpoint: &w.URL, Credentials: provider,
			RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP()}),
		wafregional.New(wafregional.Options{Region: iamtest.Region, BaseEndpoint: &w.URL, Credentials: provider,
			RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP()})
}

// TestNothingIsAssociated shows the answers that the AWS Load Balancer Controller gets.
func TestNothingIsAssociated(t *testing.T) {
	t.Parallel()
	w := iamtest.New(t)
	waf.Register(w.Mux, waf.Options{Store: w.Store})
	ctx := t.Context()
	b := record.LoadBalancer{Account: iamtest.Account, Region: iamtest.Region, Kind: record.NetworkLoadBalancer,
		Name: "web", ID: "0123456789abcdef"}
	if _, err := record.LoadBalancers(w.Store).Create(ctx, b.Key(), b); err != nil {
		t.Fatal(err)
	}
	arn := b.ARN()
	absent := strings.Replace(arn, "/web/", "/absent/", 1)
	acl := "arn:aws:wafv2:" + iamtest.Region + ":" + iamtest.Account + ":regional/webacl/a/b"
	v2, regional := clients(w, w.Root)
	may, _ := clients(w, w.NewUser(t, "may", fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
		"Action":"wafv2:GetWebACLForResource","Resource":%q}]}`, arn)))
	if out := awstest.Must[*wafv2.GetWebACLForResourceOutput](t)(v2.GetWebACLForResource(ctx,
		&wafv2.GetWebACLForResourceInput{ResourceArn: &arn})); out.WebACL != nil {
		t.Errorf("a web ACL: %+v", out.WebACL)
	}
	if out := awstest.Must[*wafv2.ListWebACLsOutput](t)(v2.ListWebACLs(ctx,
		&wafv2.ListWebACLsInput{Scope: types.ScopeRegional})); len(out.WebACLs) != 0 {
		t.Errorf("web ACLs: %+v", out.WebACLs)
	}
	if out := awstest.Must[*wafregional.GetWebACLForResourceOutput](t)(regional.GetWebACLForResource(ctx,
		&wafregional.GetWebACLForResourceInput{ResourceArn: &arn})); out.WebACLSummary != nil {
		t.Errorf("a web ACL: %+v", out.WebACLSummary)
	}
	if out := awstest.Must[*wafregional.ListWebACLsOutput](t)(regional.ListWebACLs(ctx,
		&wafregional.ListWebACLsInput{})); len(out.WebACLs) != 0 {
		t.Errorf("web ACLs: %+v", out.WebACLs)
	}
	id := "01234567-89ab-cdef-0123-456789abcdef"
	const none, denied = "WAFNonexistentItemException", "AccessDeniedException"
	for _, test := range []struct {
		name string
		err  error
		code string
	}{
		{"disassociate", failed(v2.DisassociateWebACL(ctx, &wafv2.DisassociateWebACLInput{ResourceArn: &arn})), ""},
		{"disassociate from nothing", failed(v2.DisassociateWebACL(ctx, &wafv2.DisassociateWebACLInput{
			ResourceArn: &absent})), none},
		{"associate", failed(v2.AssociateWebACL(ctx, &wafv2.AssociateWebACLInput{ResourceArn: &arn,
			WebACLArn: &acl})), none},
		{"of nothing", failed(v2.GetWebACLForResource(ctx, &wafv2.GetWebACLForResourceInput{
			ResourceArn: &absent})), none},
		{"get", failed(v2.GetWebACL(ctx, &wafv2.GetWebACLInput{ARN: &acl})), none},
		{"get by name", failed(v2.GetWebACL(ctx, &wafv2.GetWebACLInput{Name: aws.String("a"), Id: &id,
			Scope: types.ScopeRegional})), none},
		{"resources", failed(v2.ListResourcesForWebACL(ctx, &wafv2.ListResourcesForWebACLInput{WebACLArn: &acl})), none},
		{"no resource", failed(v2.GetWebACLForResource(ctx, &wafv2.GetWebACLForResourceInput{
			ResourceArn: aws.String("x")})), "ValidationException"},
		{"another account's", failed(v2.GetWebACLForResource(ctx, &wafv2.GetWebACLForResourceInput{
			ResourceArn: aws.String(strings.Replace(arn, iamtest.Account, iamtest.Other, 1))})), denied},
		{"creation", failed(v2.CreateIPSet(ctx, &wafv2.CreateIPSetInput{Name: aws.String("a"),
			Scope: types.ScopeRegional, IPAddressVersion: types.IPAddressVersionIpv4, Addresses: []string{}})),
			"NotImplemented"},
		{"with permission", failed(may.GetWebACLForResource(ctx, &wafv2.GetWebACLForResourceInput{
			ResourceArn: &arn})), ""},
		{"without permission", failed(may.AssociateWebACL(ctx, &wafv2.AssociateWebACLInput{ResourceArn: &arn,
			WebACLArn: &acl})), denied},
		{"classic: disassociate", failed(regional.DisassociateWebACL(ctx, &wafregional.DisassociateWebACLInput{
			ResourceArn: &arn})), ""},
		{"classic: associate", failed(regional.AssociateWebACL(ctx, &wafregional.AssociateWebACLInput{
			ResourceArn: &arn, WebACLId: aws.String("a")})), none},
		{"classic: of nothing", failed(regional.GetWebACLForResource(ctx, &wafregional.GetWebACLForResourceInput{
			ResourceArn: &absent})), none},
		{"classic: get", failed(regional.GetWebACL(ctx, &wafregional.GetWebACLInput{WebACLId: aws.String("a")})), none},
		{"classic: creation", failed(regional.GetChangeToken(ctx, &wafregional.GetChangeTokenInput{})),
			"NotImplemented"},
	} {
		code := ""
		if test.err != nil {
			code = awstest.Code(test.err)
		}
		if code != test.code {
			t.Errorf("%s: %v, want %q", test.name, test.err, test.code)
		}
	}
}

func failed[T any](_ T, err error) error { return err }
