package iam_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

// eksctl registers the issuer with the port, and then asks for the provider without it.
func TestProviderOfAURLWithPort(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	created := awstest.Must[*iam.CreateOpenIDConnectProviderOutput](t)(c.CreateOpenIDConnectProvider(ctx,
		&iam.CreateOpenIDConnectProviderInput{Url: p("https://oidc.eks.us-east-1.amazonaws.com:443/id/AB12")}))
	want := "arn:aws:iam::" + iamtest.Account + ":oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/AB12"
	if *created.OpenIDConnectProviderArn != want {
		t.Errorf("created %s, want %s", *created.OpenIDConnectProviderArn, want)
	}
	got := awstest.Must[*iam.GetOpenIDConnectProviderOutput](t)(c.GetOpenIDConnectProvider(ctx,
		&iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: p(want)}))
	if *got.Url != "oidc.eks.us-east-1.amazonaws.com/id/AB12" {
		t.Errorf("the URL is %s", *got.Url)
	}
	for url, want := range map[string]string{"https://oidc.eks.us-east-1.amazonaws.com/id/AB12": "EntityAlreadyExists",
		"https://:443": "ValidationError"} {
		if _, err := c.CreateOpenIDConnectProvider(ctx,
			&iam.CreateOpenIDConnectProviderInput{Url: p(url)}); awstest.Code(err) != want {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// The daemon would connect to a provider, so its URL is nothing but the name of a public site.
func TestProviderURLs(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	const (
		invalid = "Invalid Open ID Connect Provider URL"
		refused = "InvalidInput"
	)
	for url, want := range map[string]struct{ code, message string }{
		"example.com":                           {"ValidationError", invalid},
		"https://":                              {"ValidationError", invalid},
		"https:///path":                         {"ValidationError", invalid},
		"http://example.com":                    {refused, invalid + ". The URL must begin with https://."},
		"ftp://example.com":                     {refused, invalid + ". The URL must begin with https://."},
		"https://me@example.com":                {refused, "must not have a query, a fragment or a user"},
		"https://me:secret@example.com":         {refused, "must not have a query, a fragment or a user"},
		"https://example.com?a=b":               {refused, "must not have a query, a fragment or a user"},
		"https://example.com/?":                 {refused, "must not have a query, a fragment or a user"},
		"https://example.com#a":                 {refused, "must not have a query, a fragment or a user"},
		"https://example.com/#":                 {refused, "must not have a query, a fragment or a user"},
		"https://example.com:8443":              {refused, "must not have a port number"},
		"https://example.com:":                  {refused, "must not have a port number"},
		"https://example.com:0443":              {refused, "must not have a port number"},
		"https://127.0.0.1":                     {refused, "must be a public DNS name"},
		"https://127.0.0.1:443/x":               {refused, "must be a public DNS name"},
		"https://127.1":                         {refused, "must be a public DNS name"},
		"https://0x7f.0.0.1":                    {refused, "must be a public DNS name"},
		"https://2130706433":                    {refused, "must be a public DNS name"},
		"https://169.254.169.254/latest":        {refused, "must be a public DNS name"},
		"https://52.1.2.3":                      {refused, "must be a public DNS name"},
		"https://[::1]":                         {refused, "must be a public DNS name"},
		"https://[::ffff:127.0.0.1]:443":        {refused, "must be a public DNS name"},
		"https://localhost":                     {refused, "must be a public DNS name"},
		"https://foo.localhost":                 {refused, "must be a public DNS name"},
		"https://oidc.eks.LocalHost:443/id/x":   {refused, "must be a public DNS name"},
		"https://router":                        {refused, "must be a public DNS name"},
		"https://exa_mple.com":                  {refused, "must be a public DNS name"},
		"https://example..com":                  {refused, "must be a public DNS name"},
		"https://example.com.":                  {refused, "must be a public DNS name"},
		"https://example%2ecom":                 {"ValidationError", invalid},
		"https://token.actions.example-1.com/x": {},
		"https://xn--bcher-kva.example/a/b%20c": {},
	} {
		_, err := c.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{Url: &url})
		if want.code == "" && err == nil {
			continue
		}
		if awstest.Code(err) != want.code || !strings.Contains(err.Error(), want.message) {
			t.Errorf("%s: %v, want %s %q", url, err, want.code, want.message)
		}
	}
}
