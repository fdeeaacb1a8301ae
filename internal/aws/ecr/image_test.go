package ecr_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/host/image"
)

// Tags become parts of file names. What is no tag is refused, and changes no tag of another repository: not those of
// EKS, which nodes of all accounts pull, nor those of another account, nor those of a repository on which a policy of
// the caller denies everything.
func TestTagsThatLeaveTheirRepository(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	if _, err := w.images.Load(t.Context(), dockerArchive(t, image.Host(region)+"/eks/pause:3.10"),
		w.access); err != nil {
		t.Fatal(err)
	}
	w.create(t, "app")
	w.create(t, "own")
	owner := w.NewAccount(t, iamtest.Other)
	theirs := strings.Replace(host, account, iamtest.Other, 1)
	if _, err := w.ecr(owner).CreateRepository(t.Context(), &ecr.CreateRepositoryInput{
		RepositoryName: aws.String("app"), ImageTagMutability: types.ImageTagMutabilityImmutable,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.push(t, theirs+"/app:v1", w.login(t, owner)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.push(t, host+"/app:v1", w.login(t, w.Root)); err != nil {
		t.Fatal(err)
	}
	attacker := w.NewUser(t, "attacker", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"ecr:GetAuthorizationToken","Resource":"*"},
		{"Effect":"Allow","Action":"ecr:*","Resource":"arn:aws:ecr:*:*:repository/own"}]}`)
	if _, err := w.push(t, host+"/own:v1", w.login(t, attacker)); err != nil {
		t.Fatal(err)
	}
	got, err := w.ecr(attacker).BatchGetImage(t.Context(), &ecr.BatchGetImageInput{
		RepositoryName: aws.String("own"), ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("v1")}},
	})
	if err != nil || len(got.Images) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}

	auth, err := w.login(t, owner).Authorization()
	if err != nil {
		t.Fatal(err)
	}
	rootAuth, err := w.login(t, w.Root).Authorization()
	if err != nil {
		t.Fatal(err)
	}
	victims := []struct{ repository, tag, password string }{
		{image.Host(region) + "/eks/pause", "3.10", auth.Password},
		{theirs + "/app", "v1", auth.Password},
		{host + "/app", "v1", rootAuth.Password},
	}
	manifest := func(repository, tag, password string) string {
		t.Helper()
		status, body := w.call(t, http.MethodGet, "/v2/"+repository+"/manifests/"+tag, password)
		if status != http.StatusOK {
			t.Errorf("%s:%s cannot be pulled: %d %s", repository, tag, status, body)
		}
		return body
	}
	tags := []string{"", ".", "..", "../x", "a/b", "/", "-x", ".x", "a b", "a:b", "a\x00b", strings.Repeat("a", 129)}
	before := map[string]string{}
	for _, v := range victims {
		before[v.repository] = manifest(v.repository, v.tag, v.password)
		tags = append(tags, "../../../../"+v.repository+"/_manifests/tags/"+v.tag)
	}
	for _, tag := range tags {
		_, err := w.ecr(attacker).PutImage(t.Context(), &ecr.PutImageInput{
			RepositoryName: aws.String("own"), ImageTag: &tag, ImageManifest: got.Images[0].ImageManifest,
			ImageManifestMediaType: got.Images[0].ImageManifestMediaType,
		})
		if awstest.Code(err) != "InvalidParameterException" {
			t.Errorf("an image under the tag %q: %v", tag, err)
		}
	}
	for _, v := range victims {
		if after := manifest(v.repository, v.tag, v.password); after != before[v.repository] {
			t.Errorf("%s:%s is another image now", v.repository, v.tag)
		}
	}
}
