package ecr

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestReadingManifestsHoldsMemory asks for images while the account has no memory left: whatever reads manifests is
// refused, and other operations are not.
func TestReadingManifestsHoldsMemory(t *testing.T) {
	t.Parallel()
	images, err := image.Open(image.Options{Dir: t.TempDir(), Region: awstest.Region})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { images.Close() }) //nolint:errcheck // the test is over
	s := New(Options{Store: storetest.New(t), Images: images})
	judge := awstest.NewJudge()
	m := wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, MaxAnswers: 6 * manifestMemory,
		Logger: slog.New(slog.DiscardHandler)})
	held, proceed := make(chan struct{}), make(chan struct{})
	name := aws.String("app")
	operations := map[string]func(context.Context) error{
		"ListImages": func(ctx context.Context) error {
			_, err := s.ListImages(ctx, &ecr.ListImagesInput{RepositoryName: name})
			return err
		},
		"DescribeImages": func(ctx context.Context) error {
			_, err := s.DescribeImages(ctx, &ecr.DescribeImagesInput{RepositoryName: name})
			return err
		},
		"BatchGetImage": func(ctx context.Context) error {
			_, err := s.BatchGetImage(ctx, &ecr.BatchGetImageInput{RepositoryName: name,
				ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("v1")}}})
			return err
		},
		"BatchDeleteImage": func(ctx context.Context) error {
			_, err := s.BatchDeleteImage(ctx, &ecr.BatchDeleteImageInput{RepositoryName: name,
				ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("v1")}}})
			return err
		},
		"PutImage": func(ctx context.Context) error {
			_, err := s.PutImage(ctx, &ecr.PutImageInput{RepositoryName: name, ImageManifest: aws.String("{}")})
			return err
		},
		"DeleteRepository": func(ctx context.Context) error {
			_, err := s.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{RepositoryName: name})
			return err
		},
	}
	m.Register(wire.ECR,
		wire.Handle(s.CreateRepository, wire.OnAll),
		wire.Handle(s.DescribeRepositories, wire.OnAll),
		wire.Handle(func(ctx context.Context, _ *ecr.GetAuthorizationTokenInput) (*ecr.GetAuthorizationTokenOutput, error) {
			err := wire.HoldAnswer(ctx, manifestMemory)
			held <- struct{}{}
			<-proceed
			return &ecr.GetAuthorizationTokenOutput{}, err
		}, wire.OnAll),
		wire.Handle(func(ctx context.Context, _ *ecr.DescribeRegistryInput) (*ecr.DescribeRegistryOutput, error) {
			for operation, do := range operations {
				short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				if err := do(short); err == nil || !strings.Contains(err.Error(), "too many large answers") {
					t.Errorf("%s without memory: %v", operation, err)
				}
				cancel()
			}
			return &ecr.DescribeRegistryOutput{}, nil
		}, wire.OnAll))
	client := ecr.New(ecr.Options{Region: awstest.Region, RetryMaxAttempts: 1,
		BaseEndpoint: aws.String("http://coracle.internal"), HTTPClient: &http.Client{Transport: m.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", "")})
	if _, err := client.CreateRepository(t.Context(), &ecr.CreateRepositoryInput{RepositoryName: name}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := client.GetAuthorizationToken(t.Context(), nil)
		ended <- err
	}()
	<-held
	if _, err := client.DescribeRepositories(t.Context(), nil); err != nil {
		t.Errorf("what reads no manifest: %v", err)
	}
	if _, err := client.DescribeRegistry(t.Context(), nil); err != nil {
		t.Error(err)
	}
	close(proceed)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
