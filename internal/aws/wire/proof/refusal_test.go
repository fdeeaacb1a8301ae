package proof

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

type nobody struct{}

func (nobody) Authorize(_ context.Context, _ wire.Caller, targets []wire.Target) error {
	return &wire.Denied{Action: targets[0].Action, Resource: targets[0].Resource,
		Reason: "with an explicit deny in an identity-based policy"}
}

// A denied request has the code and message of its protocol, and the handler does not run: there is none.
func TestDenied(t *testing.T) {
	mux := wire.NewMux(wire.Options{Credentials: anyone{}, Authorizer: nobody{}, Logger: slog.New(slog.DiscardHandler)})
	serve(mux, wire.EKS, (*eks.Client).ListClusters)
	serve(mux, wire.IAM, (*iam.Client).ListUsers)
	serve(mux, wire.EC2, (*ec2.Client).DescribeVpcs)
	serve(mux, wire.KMS, (*kms.Client).ListKeys)
	serve(mux, wire.ECR, (*ecr.Client).DescribeRepositories)
	serve(mux, wire.SQS, (*sqs.Client).ListQueues)
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: aws.String("http://coracle.test"),
		HTTPClient: transport{mux.Transport()},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "secret"}, nil
		}),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
	text := func(action string) string {
		return "User: arn:aws:iam::111122223333:root is not authorized to perform: " + action +
			" on resource: * with an explicit deny in an identity-based policy"
	}
	for _, tt := range []struct {
		call          func() error
		code, message string
		status        int
	}{
		{func() error { _, err := eks.NewFromConfig(cfg).ListClusters(t.Context(), nil); return err },
			"AccessDeniedException", text("eks:ListClusters"), 403},
		{func() error { _, err := iam.NewFromConfig(cfg).ListUsers(t.Context(), nil); return err }, "AccessDenied",
			text("iam:ListUsers"), 403},
		{func() error { _, err := ec2.NewFromConfig(cfg).DescribeVpcs(t.Context(), nil); return err },
			"UnauthorizedOperation", "You are not authorized to perform this operation. " + text("ec2:DescribeVpcs"),
			403},
		{func() error { _, err := kms.NewFromConfig(cfg).ListKeys(t.Context(), nil); return err },
			"AccessDeniedException", text("kms:ListKeys"), 400},
		{func() error { _, err := ecr.NewFromConfig(cfg).DescribeRepositories(t.Context(), nil); return err },
			"AccessDeniedException", text("ecr:DescribeRepositories"), 400},
		{func() error { _, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), nil); return err },
			"AccessDeniedException", text("sqs:ListQueues"), 400},
	} {
		err := tt.call()
		var api smithy.APIError
		var status interface{ HTTPStatusCode() int }
		if !errors.As(err, &api) || !errors.As(err, &status) || api.ErrorCode() != tt.code ||
			api.ErrorMessage() != tt.message || status.HTTPStatusCode() != tt.status {
			t.Errorf("got %v\nwant %d %s: %s", err, tt.status, tt.code, tt.message)
		}
	}
}

// serve registers an operation whose handler must not be reached. The client's method gives its types.
func serve[Client, In, Out, Options any](mux *wire.Mux, service *wire.Service, _ func(Client, context.Context, *In,
	...func(*Options)) (*Out, error)) {
	mux.Register(service, wire.Handle(func(context.Context, *In) (*Out, error) {
		panic("the handler of a denied request runs")
	}, wire.OnAll))
}

// ECR writes its sentences differently.
func TestECRConstraint(t *testing.T) {
	r := theRig()
	_, err := r.call(t.Context(), r.ops["ecr.CreateRepository"],
		&ecr.CreateRepositoryInput{RepositoryName: aws.String("Upper")})
	want := "Invalid parameter at 'repositoryName' failed to satisfy constraint: 'must satisfy regular expression " +
		"'(?:[a-z0-9]+(?:[._-][a-z0-9]+)*/)*[a-z0-9]+(?:[._-][a-z0-9]+)*''"
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "InvalidParameterException" || api.ErrorMessage() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
