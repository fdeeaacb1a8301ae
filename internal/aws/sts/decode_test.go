package sts_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// TestEncodedMessages checks that the message of an error of EC2 is decoded for who may, in the same account, and
// nobody else.
func TestEncodedMessages(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	a.Mux.Register(wire.EC2, wire.Handle(func(context.Context, *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
		return &ec2.DescribeVpcsOutput{}, nil
	}, wire.OnAll))
	ctx := t.Context()
	alice := a.NewUser(t, "alice", `{"Version":"2012-10-17","Statement":{"Sid":"NoVPCs","Effect":"Deny",
		"Action":"ec2:*","Resource":"*"}}`)
	_, err := ec2.New(ec2.Options{Region: iamtest.Region, BaseEndpoint: &a.URL, HTTPClient: awsclient.HTTP(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return alice, nil }),
	}).DescribeVpcs(ctx, nil)
	awstest.WantCode(t, err, "UnauthorizedOperation")
	_, encoded, ok := strings.Cut(err.Error(), "Encoded authorization failure message: ")
	if !ok {
		t.Fatal(err)
	}
	out := awstest.Must[*sts.DecodeAuthorizationMessageOutput](t)(a.STS(a.Root).DecodeAuthorizationMessage(ctx,
		&sts.DecodeAuthorizationMessageInput{EncodedMessage: &encoded}))
	var m struct {
		Allowed, ExplicitDeny bool
		MatchedStatements     struct {
			Items []struct{ StatementID, SourcePolicyID string }
		}
		Context struct {
			Principal        struct{ ID, ARN string }
			Action, Resource string
			Conditions       struct {
				Items []struct {
					Key    string
					Values struct{ Items []struct{ Value string } }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(*out.DecodedMessage), &m); err != nil {
		t.Fatal(err)
	}
	if m.Allowed || !m.ExplicitDeny || len(m.MatchedStatements.Items) != 1 ||
		m.MatchedStatements.Items[0].StatementID != "NoVPCs" || m.Context.Action != "ec2:DescribeVpcs" ||
		m.Context.Resource != "*" || m.Context.Principal.ARN != "arn:aws:iam::111122223333:user/alice" ||
		!strings.Contains(*out.DecodedMessage, `{"key":"aws:RequestedRegion","values":{"items":[{"value":"us-east-1"}]}}`) {
		t.Errorf("decoded %s", *out.DecodedMessage)
	}
	other := a.NewAccount(t, iamtest.Other)
	token := awstest.Must[*sts.GetSessionTokenOutput](t)(a.STS(alice).GetSessionToken(ctx, nil))
	for name, test := range map[string]struct {
		with          aws.Credentials
		message, code string
	}{
		"another account": {other, encoded, "InvalidAuthorizationMessageException"},
		"altered":         {a.Root, encoded[:len(encoded)-8] + "AAAAAAA=", "InvalidAuthorizationMessageException"},
		"something else":  {a.Root, *token.Credentials.SessionToken, "InvalidAuthorizationMessageException"},
		"no permission":   {alice, encoded, "AccessDenied"},
	} {
		_, err := a.STS(test.with).DecodeAuthorizationMessage(ctx,
			&sts.DecodeAuthorizationMessageInput{EncodedMessage: &test.message})
		if awstest.Code(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
