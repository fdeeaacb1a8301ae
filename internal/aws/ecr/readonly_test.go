package ecr_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/host/image"
)

// TestRepositoriesOfEKSAreNobodys has owners of accounts of EKS's numbers, from before nobody could have one: all of
// them stand for the one registry that every account pulls from.
func TestRepositoriesOfEKSAreNobodys(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	if _, err := w.images.Load(t.Context(), dockerArchive(t, image.Host(region)+"/eks/pause:3.10"), w.access); err != nil {
		t.Fatal(err)
	}
	name := aws.String("eks/pause")
	for _, owner := range []string{image.EKSAccount, "877085696533", "533267051163"} {
		ctx := wire.NewContext(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil),
			wire.Caller{Account: owner, ARN: "arn:aws:iam::" + owner + ":root"}, region, w.Identity, w.Now())
		_, err := w.service.CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: name})
		awstest.WantCode(t, err, "InvalidParameterException")
		_, err = w.service.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{RepositoryName: name, Force: true})
		awstest.WantCode(t, err, "InvalidParameterException")
		_, err = w.service.InitiateLayerUpload(ctx, &ecr.InitiateLayerUploadInput{RepositoryName: name})
		awstest.WantCode(t, err, "InvalidParameterException")
	}
	if _, err := w.pull(t, image.Host(region)+"/eks/pause:3.10", w.login(t, w.Root)); err != nil {
		t.Errorf("the image of EKS is gone: %v", err)
	}
}
