package sts_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// podClaims are the claims of the token in the table, beside those that all tokens have.
var podClaims = map[string]any{
	"email": "web@example.com", "groups": []string{"dev", "ops"}, "level": 7, "verified": true, "SUB": "admin",
	"kubernetes.io": map[string]any{"namespace": "ns"}, "amr": []string{"authenticated", "pod"},
}

// podConditions are conditions of trust policies, and whether AWS documents that they hold for a token of the service
// account ns/sa with podClaims. "ISS:" stands for the URL of the issuer with a colon.
//
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html
var podConditions = map[string]bool{
	`"StringEquals":{"ISS:sub":"system:serviceaccount:ns:sa"}`:                                             true,
	`"StringEquals":{"ISS:sub":"system:serviceaccount:ns:SA"}`:                                             false,
	`"StringEquals":{"ISS:sub":"system:serviceaccount:ns:*"}`:                                              false,
	`"StringEquals":{"ISS:sub":"system:serviceaccount:other:sa"}`:                                          false,
	`"StringEquals":{"ISS:sub":"system:serviceaccount:ns:sa2"}`:                                            false,
	`"StringEquals":{"ISS:sub":""}`:                                                                        false,
	`"StringEquals":{"ISS:sub":["system:serviceaccount:ns:x","system:serviceaccount:ns:sa"]}`:              true,
	`"StringEquals":{"ISS:sub":["system:serviceaccount:ns:x","system:serviceaccount:ns:y"]}`:               false,
	`"StringEquals":{"ISS:SUB":"system:serviceaccount:ns:sa"}`:                                             true,
	`"StringEquals":{"ISS:sub":"admin"}`:                                                                   false,
	`"StringEquals":{"ISS:aud":"sts.amazonaws.com"}`:                                                       true,
	`"StringEquals":{"ISS:aud":"vault"}`:                                                                   false,
	`"StringEquals":{"ISS:aud":"sts.amazonaws.com","ISS:sub":"system:serviceaccount:ns:sa"}`:               true,
	`"StringEquals":{"ISS:aud":"sts.amazonaws.com","ISS:sub":"system:serviceaccount:ns:x"}`:                false,
	`"StringEquals":{"ISS:aud":"sts.amazonaws.com"},"StringLike":{"ISS:sub":"system:serviceaccount:ns:*"}`: true,
	`"StringEquals":{"ISS:aud":"sts.amazonaws.com"},"StringLike":{"ISS:sub":"system:serviceaccount:x:*"}`:  false,
	`"StringEquals":{"other.example.com/id/X:sub":"system:serviceaccount:ns:sa"}`:                          false,
	`"StringLike":{"ISS:sub":"system:serviceaccount:ns:*"}`:                                                true,
	`"StringLike":{"ISS:sub":"system:serviceaccount:*:sa"}`:                                                true,
	`"StringLike":{"ISS:sub":"system:serviceaccount:ns:s?"}`:                                               true,
	`"StringLike":{"ISS:sub":"system:serviceaccount:ns:?"}`:                                                false,
	`"StringLike":{"ISS:sub":"system:serviceaccount:n*:sa"}`:                                               true,
	`"StringLike":{"ISS:sub":"*"}`:                                                                         true,
	`"StringLike":{"ISS:sub":"system:serviceaccount:other-*:*"}`:                                           false,
	`"StringLike":{"ISS:sub":"SYSTEM:*"}`:                                                                  false,
	`"StringNotEquals":{"ISS:sub":"system:serviceaccount:ns:sa"}`:                                          false,
	`"StringNotEquals":{"ISS:sub":"system:serviceaccount:kube-system:sa"}`:                                 true,
	`"StringNotEquals":{"ISS:missing":"x"}`:                                                                true,
	`"StringNotLike":{"ISS:sub":"system:serviceaccount:kube-*"}`:                                           true,
	`"StringNotLike":{"ISS:sub":"system:serviceaccount:n*"}`:                                               false,
	`"StringEqualsIgnoreCase":{"ISS:sub":"SYSTEM:ServiceAccount:NS:SA"}`:                                   true,
	`"StringEqualsIgnoreCase":{"ISS:sub":"system:serviceaccount:ns:other"}`:                                false,
	`"StringNotEqualsIgnoreCase":{"ISS:sub":"SYSTEM:ServiceAccount:NS:SA"}`:                                false,
	`"StringEqualsIfExists":{"ISS:missing":"x"}`:                                                           true,
	`"StringEqualsIfExists":{"ISS:sub":"x"}`:                                                               false,
	`"StringLikeIfExists":{"ISS:email":"*@example.com"}`:                                                   true,
	`"StringEquals":{"ISS:missing":"x"}`:                                                                   false,
	`"Null":{"ISS:sub":"false"}`:                                                                           true,
	`"Null":{"ISS:sub":"true"}`:                                                                            false,
	`"Null":{"ISS:missing":"true"}`:                                                                        true,
	`"Null":{"ISS:missing":"false"}`:                                                                       false,
	`"Null":{"ISS:kubernetes.io":"true"}`:                                                                  true,
	`"Null":{"ISS:iss":"true"}`:                                                                            true,
	`"StringEquals":{"ISS:email":"web@example.com"}`:                                                       true,
	`"StringLike":{"ISS:email":"*@example.org"}`:                                                           false,
	`"StringEquals":{"ISS:verified":"true"}`:                                                               true,
	`"Bool":{"ISS:verified":"true"}`:                                                                       true,
	`"Bool":{"ISS:verified":"false"}`:                                                                      false,
	`"Bool":{"ISS:missing":"false"}`:                                                                       false,
	`"BoolIfExists":{"ISS:missing":"false"}`:                                                               true,
	`"NumericEquals":{"ISS:level":"7"}`:                                                                    true,
	`"NumericEquals":{"ISS:level":"7.0"}`:                                                                  true,
	`"NumericGreaterThan":{"ISS:level":"6"}`:                                                               true,
	`"NumericGreaterThan":{"ISS:level":"7"}`:                                                               false,
	`"NumericGreaterThanEquals":{"ISS:level":"7"}`:                                                         true,
	`"NumericLessThan":{"ISS:level":"10"}`:                                                                 true,
	`"NumericLessThanEquals":{"ISS:level":"6"}`:                                                            false,
	`"NumericNotEquals":{"ISS:level":"7"}`:                                                                 false,
	`"NumericLessThan":{"ISS:email":"10"}`:                                                                 false,
	`"ForAnyValue:StringEquals":{"ISS:groups":"ops"}`:                                                      true,
	`"ForAnyValue:StringEquals":{"ISS:groups":["qa","dev"]}`:                                               true,
	`"ForAnyValue:StringEquals":{"ISS:groups":"qa"}`:                                                       false,
	`"ForAnyValue:StringEquals":{"ISS:missing":"qa"}`:                                                      false,
	`"ForAnyValue:StringLike":{"ISS:groups":"d*"}`:                                                         true,
	`"ForAllValues:StringEquals":{"ISS:groups":["dev","ops","qa"]}`:                                        true,
	`"ForAllValues:StringEquals":{"ISS:groups":["dev"]}`:                                                   false,
	`"ForAllValues:StringEquals":{"ISS:missing":["dev"]}`:                                                  true,
	`"ForAllValues:StringLike":{"ISS:groups":["d*","o*"]}`:                                                 true,
	`"ForAnyValue:StringNotEquals":{"ISS:groups":"dev"}`:                                                   true,
	`"ForAllValues:StringNotEquals":{"ISS:groups":"dev"}`:                                                  false,
	`"ForAnyValue:StringEquals":{"ISS:amr":"authenticated"}`:                                               true,
	`"ForAnyValue:StringEquals":{"ISS:amr":"unauthenticated"}`:                                             false,
	`"ForAnyValue:StringEquals":{"ISS:oaud":"sts.amazonaws.com"}`:                                          true,
	`"StringEquals":{"sts:RoleSessionName":"pod"}`:                                                         true,
	`"StringLike":{"sts:RoleSessionName":"other-*"}`:                                                       false,
	`"StringEquals":{"aws:FederatedProvider":"arn:aws:iam::111122223333:oidc-provider/ISS"}`:               true,
	`"StringEquals":{"aws:RequestedRegion":"us-east-1"}`:                                                   true,
	`"StringEquals":{"aws:RequestedRegion":"eu-west-1"}`:                                                   false,
	`"IpAddress":{"aws:SourceIp":"127.0.0.0/8"}`:                                                           true,
	`"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}`:                                                            false,
	`"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}`:                                                         true,
	`"DateGreaterThan":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}`:                                         true,
	`"DateLessThan":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}`:                                            false,
	`"Bool":{"aws:SecureTransport":"false"}`:                                                               true,
	`"Bool":{"aws:SecureTransport":"true"}`:                                                                false,
	`"Bool":{"aws:PrincipalIsAWSService":"false"}`:                                                         true,
	`"StringEquals":{"aws:PrincipalAccount":"111122223333"}`:                                               false,
}

// TestTrustPolicies has two hundred trust policies: each condition in a statement that allows, and in one that denies
// beside one that allows; and statements for other principals and actions.
func TestTrustPolicies(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx := t.Context()
	const id = "EXAMPLED539D4633E53DE1B716D3041E"
	issuer := record.IssuerURL(iamtest.Region, id)
	cluster, url := newSigner(t, issuer), strings.TrimPrefix(issuer, "https://")
	if _, err := record.Issuers(a.Store).Create(ctx, store.Key(id), record.Issuer{Account: iamtest.Account,
		Region: iamtest.Region, Cluster: "ironman-2022", JWKS: cluster.keys(t)}); err != nil {
		t.Fatal(err)
	}
	awstest.Must[*iam.CreateOpenIDConnectProviderOutput](t)(a.IAM(a.Root).CreateOpenIDConnectProvider(ctx,
		&iam.CreateOpenIDConnectProviderInput{Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}}))
	role := a.NewRole(t, "app", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":
		"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	token := cluster.token(t, func(claims map[string]any) { maps.Copy(claims, podClaims) })
	tried := 0
	try := func(statements string, want bool) {
		t.Helper()
		tried++
		document := strings.ReplaceAll(`{"Version":"2012-10-17","Statement":[`+statements+`]}`, "ISS", url)
		awstest.Must[*iam.UpdateAssumeRolePolicyOutput](t)(a.IAM(a.Root).UpdateAssumeRolePolicy(ctx,
			&iam.UpdateAssumeRolePolicyInput{RoleName: aws.String("app"), PolicyDocument: &document}))
		_, err := a.STS(aws.Credentials{}).AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
			RoleArn: &role, RoleSessionName: aws.String("pod"), WebIdentityToken: token})
		if want && err != nil || !want && awstest.Code(err) != "AccessDenied" {
			t.Errorf("%s: %v, want %v", document, err, want)
		}
	}
	statement := func(effect, principal, action, condition string) string {
		s := fmt.Sprintf(`{"Effect":%q,"Principal":%s,"Action":%s`, effect, principal, action)
		if condition != "" {
			s += `,"Condition":{` + condition + `}`
		}
		return s + "}"
	}
	const ours, assume = `{"Federated":"arn:aws:iam::111122223333:oidc-provider/ISS"}`, `"sts:AssumeRoleWithWebIdentity"`
	for _, condition := range slices.Sorted(maps.Keys(podConditions)) {
		holds := podConditions[condition]
		try(statement("Allow", ours, assume, condition), holds)
		try(statement("Allow", ours, assume, "")+","+statement("Deny", ours, assume, condition), !holds)
	}
	for principal, allowed := range map[string]bool{
		ours: true,
		`{"Federated":["arn:aws:iam::111122223333:oidc-provider/example.com",
			"arn:aws:iam::111122223333:oidc-provider/ISS"]}`: true,
		`{"Federated":"arn:aws:iam::111122223333:oidc-provider/other.example.com"}`: false,
		`{"Federated":"arn:aws:iam::444455556666:oidc-provider/ISS"}`:               false,
		`{"Federated":"cognito-identity.amazonaws.com"}`:                            false,
		`{"AWS":"arn:aws:iam::111122223333:root"}`:                                  false,
		`{"Service":"eks.amazonaws.com"}`:                                           false,
		`"*"`:                                                                       false, // the provider must be named
	} {
		try(statement("Allow", principal, assume, ""), allowed)
		denied := allowed || principal == `"*"`
		try(statement("Allow", ours, assume, "")+","+statement("Deny", principal, assume, ""), !denied)
	}
	for action, allowed := range map[string]bool{
		assume: true, `"sts:*"`: true, `"sts:AssumeRole*"`: true, `["sts:TagSession","sts:assumerolewithwebidentity"]`: true,
		`"sts:AssumeRole"`: false, `"sts:AssumeRoleWithSAML"`: false, `"sts:TagSession"`: false,
	} {
		try(statement("Allow", ours, action, ""), allowed)
		try(statement("Allow", ours, assume, "")+","+statement("Deny", ours, action, ""), !allowed)
	}
	if tried < 200 {
		t.Errorf("%d trust policies", tried)
	}
}
