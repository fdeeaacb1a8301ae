package ecr_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	service "github.com/coracle-eks/coracle/internal/aws/ecr"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/ecr"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// newStack returns a stack in whose resources IAM has a say: repository policies are held against their author.
func newStack(t *testing.T) *resourcetest.Stack {
	t.Helper()
	w := iamtest.New(t)
	images, err := image.Open(image.Options{Dir: t.TempDir(), Region: iamtest.Region})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := images.Close(); err != nil {
			t.Errorf("close the registry: %v", err)
		}
	})
	service.New(service.Options{Store: w.Store, Images: images, Identity: w.Identity, Now: w.Now}).Register(w.Mux)
	config := resourcetest.NewConfig(w.URL, iamtest.Region)
	config.HTTPClient = &http.Client{Transport: w.Mux.Transport()}
	caller := awstest.Root()
	caller.AccessKeyID = w.Root.AccessKeyID
	config.Credentials = w.Identity.ForwardedCredentials(w.Identity.Forward(caller), wire.CloudFormationPrincipal)
	return &resourcetest.Stack{T: t, Types: ecr.Types, Config: config, Keys: func() []string {
		return slices.Sorted(maps.Keys(storetest.Rows(t, w.Prefix)))
	}}
}

const (
	policy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "ecr:BatchGetImage"}]}`
	wider  = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "ecr:*"}]}`
)

func lives() map[string]resourcetest.Life {
	const host = iamtest.Account + ".dkr.ecr." + iamtest.Region + ".amazonaws.com/"
	return map[string]resourcetest.Life{
		"repository": {
			Type: "AWS::ECR::Repository", Taken: true, Ref: "lake-own-1a2b3c",
			Properties: `{"RepositoryPolicyText": ` + policy + `, "ImageTagMutability": "IMMUTABLE_WITH_EXCLUSION",
				"ImageTagMutabilityExclusionFilters": [{"ImageTagMutabilityExclusionFilterType": "WILDCARD",
				"ImageTagMutabilityExclusionFilterValue": "dev*"}], "EncryptionConfiguration": {"EncryptionType": "AES256"},
				"Tags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"RepositoryPolicyText": ` + wider + `, "ImageTagMutability": "IMMUTABLE",
				"ImageTagMutabilityExclusionFilters": null, "EmptyOnDelete": true}`,
				`{"RepositoryPolicyText": null, "ImageTagMutability": null, "Tags": null,
				"ImageScanningConfiguration": {"ScanOnPush": false}}`,
			},
			Hidden: []string{"EmptyOnDelete"},
			Attributes: map[string]string{
				"Arn":           "arn:aws:ecr:" + iamtest.Region + ":" + iamtest.Account + ":repository/lake-own-1a2b3c",
				"RepositoryUri": host + "lake-own-1a2b3c",
			},
		},
		"repository with a name of its own": {
			Type: "AWS::ECR::Repository", Taken: true, Ref: "teams/own", Properties: `{"RepositoryName": "teams/own"}`,
		},
		"pull-through cache rule": {
			Type: "AWS::ECR::PullThroughCacheRule", Taken: true, Ref: "ecr-public",
			Properties: `{"EcrRepositoryPrefix": "ecr-public", "UpstreamRegistryUrl": "public.ecr.aws",
				"UpstreamRegistry": "ecr-public", "UpstreamRepositoryPrefix": "docker"}`,
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, ecr.Types, slices.Collect(maps.Values(lives())), nil)
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newStack(t).Run(life)
		})
	}
}
