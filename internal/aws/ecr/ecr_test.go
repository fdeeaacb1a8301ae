package ecr_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	ggcrtypes "github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/test/awsclient"
)

func TestRepositories(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	c, ctx := w.ecr(w.Root), t.Context()
	out, err := c.CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: aws.String("team/app"),
		Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
	if err != nil {
		t.Fatal(err)
	}
	r := out.Repository
	if *r.RepositoryUri != host+"/team/app" ||
		*r.RepositoryArn != "arn:aws:ecr:us-east-1:111122223333:repository/team/app" || *r.RegistryId != account ||
		r.ImageTagMutability != types.ImageTagMutabilityMutable ||
		r.EncryptionConfiguration.EncryptionType != types.EncryptionTypeAes256 || r.CreatedAt == nil {
		t.Errorf("the repository is %+v", r)
	}
	w.create(t, "other")
	for name, test := range map[string]struct {
		in   ecr.CreateRepositoryInput
		want string
	}{
		"twice": {ecr.CreateRepositoryInput{RepositoryName: aws.String("other")},
			"RepositoryAlreadyExistsException"},
		"upper case": {ecr.CreateRepositoryInput{RepositoryName: aws.String("Other")}, "InvalidParameterException"},
		"scanning": {ecr.CreateRepositoryInput{RepositoryName: aws.String("scan"),
			ImageScanningConfiguration: &types.ImageScanningConfiguration{ScanOnPush: true}}, "ValidationException"},
		"KMS": {ecr.CreateRepositoryInput{RepositoryName: aws.String("kms"),
			EncryptionConfiguration: &types.EncryptionConfiguration{EncryptionType: types.EncryptionTypeKms}},
			"KmsException"},
		"aws: tag": {ecr.CreateRepositoryInput{RepositoryName: aws.String("tag"),
			Tags: []types.Tag{{Key: aws.String("aws:x"), Value: aws.String("")}}}, "InvalidTagParameterException"},
	} {
		if _, err := c.CreateRepository(ctx, &test.in); awstest.Code(err) != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	all, err := c.DescribeRepositories(ctx, &ecr.DescribeRepositoriesInput{MaxResults: aws.Int32(1)})
	if err != nil || len(all.Repositories) != 1 || *all.Repositories[0].RepositoryName != "other" ||
		all.NextToken == nil {
		t.Fatalf("the first page is %+v, %v", all, err)
	}
	if all, err = c.DescribeRepositories(ctx, &ecr.DescribeRepositoriesInput{MaxResults: aws.Int32(1),
		NextToken: all.NextToken}); err != nil || *all.Repositories[0].RepositoryName != "team/app" {
		t.Errorf("the second page is %+v, %v", all, err)
	}
	if _, err := c.DescribeRepositories(ctx,
		&ecr.DescribeRepositoriesInput{RepositoryNames: []string{"missing"}}); awstest.Code(err) !=
		"RepositoryNotFoundException" ||
		!strings.Contains(err.Error(),
			"The repository with name 'missing' does not exist in the registry with id '111122223333'") {
		t.Errorf("one that is not there: %v", err)
	}

	tags, err := c.ListTagsForResource(ctx, &ecr.ListTagsForResourceInput{ResourceArn: r.RepositoryArn})
	if err != nil || len(tags.Tags) != 1 || *tags.Tags[0].Value != "b" {
		t.Errorf("its tags are %+v, %v", tags, err)
	}
	elsewhere := ecr.New(ecr.Options{Region: "eu-west-1", BaseEndpoint: aws.String(w.URL),
		HTTPClient:  awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: w.Root}})
	if _, err := elsewhere.TagResource(ctx, &ecr.TagResourceInput{ResourceArn: r.RepositoryArn,
		Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("c")}}}); awstest.Code(err) !=
		"InvalidParameterException" {
		t.Errorf("tagged from another region: %v", err)
	}
	if _, err := c.UntagResource(ctx, &ecr.UntagResourceInput{ResourceArn: r.RepositoryArn,
		TagKeys: []string{"a"}}); err != nil {
		t.Error(err)
	}
	if _, err := c.PutLifecyclePolicy(ctx, &ecr.PutLifecyclePolicyInput{RepositoryName: aws.String("other"),
		LifecyclePolicyText: aws.String(
			`{"rules":[{"rulePriority":1,"selection":{"tagStatus":"any","countType":"imageCountMoreThan","countNumber":3},"action":{"type":"expire"}}]}`)}); awstest.Code(err) !=
		"ValidationException" {
		t.Errorf("a lifecycle policy, which would never act: %v", err)
	}
	if _, err := c.GetLifecyclePolicy(ctx,
		&ecr.GetLifecyclePolicyInput{RepositoryName: aws.String("other")}); awstest.Code(err) !=
		"LifecyclePolicyNotFoundException" {
		t.Errorf("no lifecycle policy: %v", err)
	}
	if _, err := c.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{RepositoryName: aws.String("other")}); err != nil {
		t.Error(err)
	}
	if _, err := c.DeleteRepository(ctx,
		&ecr.DeleteRepositoryInput{RepositoryName: aws.String("other")}); awstest.Code(err) != "RepositoryNotFoundException" {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestPushAndPull(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	c, ctx := w.ecr(w.Root), t.Context()
	auth := w.login(t, w.Root)
	if _, err := w.push(t, host+"/app:v1", auth); err == nil || !strings.Contains(err.Error(), "NAME_UNKNOWN") ||
		!strings.Contains(err.Error(),
			"The repository with name 'app' does not exist in the registry with id '111122223333'") {
		t.Errorf("a push to no repository: %v", err)
	}
	w.create(t, "app")
	img, err := w.push(t, host+"/app:v1", auth)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.pull(t, host+"/app:v1", auth); err != nil || got != digest(t, img) {
		t.Errorf("pulled %s, %v; want %s", got, err, digest(t, img))
	}
	if _, err := w.pull(t, host+"/app:v9", auth); err == nil || !strings.Contains(err.Error(), "MANIFEST_UNKNOWN") {
		t.Errorf("a tag that is not there: %v", err)
	}
	if _, err := w.pull(t, host+"/app:v1", authn.Anonymous); err == nil || !strings.Contains(err.Error(),
		"UNAUTHORIZED: Not Authorized") {
		t.Errorf("without a token: %v", err)
	}
	if _, err := w.pull(t, host+"/app:v1", &authn.Basic{Username: "AWS", Password: "wrong"}); err == nil ||
		!strings.Contains(err.Error(), "Your Authorization Token is invalid.") {
		t.Errorf("with a wrong token: %v", err)
	}
	index, err := random.Index(100, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(w.reference(t, host+"/app:multi"), index, remote.WithAuth(auth)); err != nil {
		t.Fatal(err)
	}

	// By the registry's own name, as machines reach it, and as a mirror, as containerd asks.
	for name, request := range map[string]struct{ host, path string }{
		"by its host":      {host, "/v2/app/manifests/v1"},
		"with port":        {host + ":443", "/v2/app/manifests/v1"},
		"dual-stack":       {account + ".dkr-ecr." + region + ".on.aws", "/v2/app/manifests/v1"},
		"as a mirror":      {"api.ecr.us-east-1.amazonaws.com", "/v2/app/manifests/v1?ns=" + host},
		"a name in a path": {"127.0.0.1:4566", "/v2/" + host + "/app/manifests/v1"},
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+request.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = request.host
		basic, err := auth.Authorization()
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(basic.Username, basic.Password)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header.Get("Docker-Content-Digest"); got != digest(t, img) {
			t.Errorf("%s: %s, %s", name, response.Status, got)
		}
	}

	list, err := c.ListImages(ctx, &ecr.ListImagesInput{RepositoryName: aws.String("app")})
	if err != nil || len(list.ImageIds) != 4 {
		t.Errorf("the images are %+v, %v; want v1, multi and its two", list, err)
	}
	if list, err = c.ListImages(ctx, &ecr.ListImagesInput{RepositoryName: aws.String("app"),
		Filter: &types.ListImagesFilter{TagStatus: types.TagStatusUntagged}}); err != nil || len(list.ImageIds) != 2 {
		t.Errorf("untagged are %+v, %v", list, err)
	}
	details, err := c.DescribeImages(ctx, &ecr.DescribeImagesInput{RepositoryName: aws.String("app"),
		ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("v1")}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := details.ImageDetails[0]; *d.ImageDigest != digest(t, img) || d.ImageTags[0] != "v1" ||
		*d.ImageSizeInBytes < 2000 || time.Since(*d.ImagePushedAt) > time.Hour || *d.ImageManifestMediaType == "" {
		t.Errorf("the image is %+v", d)
	}
	if _, err := c.DescribeImages(ctx, &ecr.DescribeImagesInput{RepositoryName: aws.String("app"),
		ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("v9")}}}); awstest.Code(err) != "ImageNotFoundException" {
		t.Errorf("a tag that is not there: %v", err)
	}
	got, err := c.BatchGetImage(ctx, &ecr.BatchGetImageInput{RepositoryName: aws.String("app"),
		ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("v1")}, {ImageTag: aws.String("v9")}, {}}})
	if err != nil || len(got.Images) != 1 || len(got.Failures) != 2 ||
		got.Failures[0].FailureCode != types.ImageFailureCodeImageNotFound {
		t.Fatalf("got %+v, %v", got, err)
	}
	// To retag is to put the manifest again.
	if _, err := c.PutImage(ctx, &ecr.PutImageInput{RepositoryName: aws.String("app"),
		ImageManifest: got.Images[0].ImageManifest, ImageTag: aws.String("v2")}); err != nil {
		t.Error(err)
	}
	if _, err := c.PutImage(ctx, &ecr.PutImageInput{RepositoryName: aws.String("app"),
		ImageManifest: got.Images[0].ImageManifest, ImageTag: aws.String("v2")}); awstest.Code(err) !=
		"ImageAlreadyExistsException" {
		t.Errorf("the same again: %v", err)
	}

	if _, err := c.DeleteRepository(ctx,
		&ecr.DeleteRepositoryInput{RepositoryName: aws.String("app")}); awstest.Code(err) != "RepositoryNotEmptyException" {
		t.Errorf("delete one with images: %v", err)
	}
	deleted, err := c.BatchDeleteImage(ctx, &ecr.BatchDeleteImageInput{RepositoryName: aws.String("app"),
		ImageIds: []types.ImageIdentifier{
			{ImageTag: aws.String("v1")}, {ImageTag: aws.String("v9")}, {ImageDigest: list.ImageIds[0].ImageDigest}}})
	if err != nil || len(deleted.ImageIds) != 1 || len(deleted.Failures) != 2 ||
		deleted.Failures[1].FailureCode != types.ImageFailureCodeImageReferencedByManifestList {
		t.Errorf("deleted %+v, %v", deleted, err)
	}
	if _, err := w.pull(t, host+"/app:v2", auth); err != nil {
		t.Errorf("the other tag went as well: %v", err)
	}
	if _, err := c.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{RepositoryName: aws.String("app"),
		Force: true}); err != nil {
		t.Error(err)
	}
	w.create(t, "app")
	if _, err := w.pull(t, host+"/app:v2", auth); err == nil {
		t.Error("a new repository has the images of the old one")
	}
}

// An answer has as many manifests as the daemon has memory for.
func TestManifestsOfAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	w.create(t, "app")
	img, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	img = mutate.Annotations(mutate.MediaType(img, ggcrtypes.OCIManifestSchema1),
		map[string]string{"long": strings.Repeat("a", 3<<20)}).(v1.Image)
	if err := remote.Write(w.reference(t, host+"/app:v1"), img, remote.WithAuth(w.login(t, w.Root))); err != nil {
		t.Fatal(err)
	}
	for _, times := range []int{10, 11} {
		var ids []types.ImageIdentifier
		for range times {
			ids = append(ids, types.ImageIdentifier{ImageTag: aws.String("v1")})
		}
		out, err := w.ecr(w.Root).BatchGetImage(t.Context(), &ecr.BatchGetImageInput{RepositoryName: aws.String("app"),
			ImageIds: ids})
		if times == 10 && (err != nil || len(out.Images) != times) {
			t.Errorf("%d manifests: %v", times, err)
		}
		if times == 11 && awstest.Code(err) != "InvalidParameterException" {
			t.Errorf("%d manifests: %v", times, err)
		}
	}
}

// Of two images that are put under an immutable tag at once one gets it, through the API, the registry, or both.
func TestAnImmutableTagIsPutOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	c, ctx := w.ecr(w.Root), t.Context()
	if _, err := c.CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: aws.String("app"),
		ImageTagMutability: types.ImageTagMutabilityImmutable}); err != nil {
		t.Fatal(err)
	}
	auth := w.login(t, w.Root)
	var images [2]v1.Image
	for i := range images {
		var err error
		if images[i], err = w.push(t, fmt.Sprintf("%s/app:image%d", host, i), auth); err != nil {
			t.Fatal(err)
		}
	}
	put := func(img v1.Image, tag string, api bool) error {
		if !api {
			return remote.Put(w.reference(t, host+"/app:"+tag), img, remote.WithAuth(auth), remote.WithContext(ctx))
		}
		manifest, err := img.RawManifest()
		if err != nil {
			return err
		}
		_, err = c.PutImage(ctx, &ecr.PutImageInput{RepositoryName: aws.String("app"), ImageTag: &tag,
			ImageManifest: aws.String(string(manifest))})
		return err
	}
	for round := range 30 {
		tag := fmt.Sprintf("v%d", round)
		var errs [2]error
		var both sync.WaitGroup
		for i, img := range images {
			both.Go(func() { errs[i] = put(img, tag, round%3 > i) })
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v and %v", round, errs[0], errs[1])
		}
	}
}

// deletingMeanwhile deletes a repository when an image may be put there.
type deletingMeanwhile struct {
	image.Access
	delete func()
}

func (a deletingMeanwhile) Allow(ctx context.Context, r image.Request) error {
	err := a.Access.Allow(ctx, r)
	if r.Digest != "" && err == nil {
		a.delete()
	}
	return err
}

func TestARepositoryIsNotDeletedWhileAnImageIsPut(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	c, ctx, name := w.ecr(w.Root), t.Context(), aws.String("app")
	deleted := make(chan error, 1)
	server := httptest.NewServer(w.images.Handler(deletingMeanwhile{w.access, func() {
		go func() {
			_, err := c.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{RepositoryName: name})
			deleted <- err
		}()
	}}))
	defer server.Close()
	w.server = server
	auth := w.login(t, w.Root)
	for range 20 {
		if _, err := c.CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: name}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.push(t, host+"/app:v1", auth); err != nil {
			t.Fatal(err)
		}
		if err := <-deleted; awstest.Code(err) != "RepositoryNotEmptyException" {
			t.Fatalf("it was deleted without the image that was being put: %v", err)
		}
		if _, err := c.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{RepositoryName: name, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// What a fetch or an upload stores after its repository was deleted is not of the next repository of that name.
func TestANewRepositoryIsEmpty(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	c, ctx := w.ecr(w.Root), t.Context()
	create := func(name string) {
		t.Helper()
		if _, err := c.CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: &name}); err != nil {
			t.Fatal(err)
		}
	}
	create("app/web")
	if _, err := w.push(t, host+"/app/web:v1", w.login(t, w.Root)); err != nil {
		t.Fatal(err)
	}
	index := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
	if _, err := w.images.PutManifest(ctx, host+"/app", "late", "application/vnd.oci.image.index.v1+json",
		index); err != nil {
		t.Fatal(err)
	}
	create("app")
	for name, want := range map[string]int{"app": 0, "app/web": 1} {
		out, err := c.ListImages(ctx, &ecr.ListImagesInput{RepositoryName: &name})
		if err != nil || len(out.ImageIds) != want {
			t.Errorf("%s has %v, want %d: %v", name, out, want, err)
		}
	}
}

func TestImmutableTags(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	c, ctx, auth := w.ecr(w.Root), t.Context(), w.login(t, w.Root)
	_, err := c.CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: aws.String("app"),
		ImageTagMutability: types.ImageTagMutabilityImmutableWithExclusion,
		ImageTagMutabilityExclusionFilters: []types.ImageTagMutabilityExclusionFilter{{Filter: aws.String("dev-*"),
			FilterType: types.ImageTagMutabilityExclusionFilterTypeWildcard}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"v1", "dev-1", "dev-1"} {
		if _, err := w.push(t, host+"/app:"+tag, auth); err != nil {
			t.Errorf("push %s: %v", tag, err)
		}
	}
	if _, err := w.push(t, host+"/app:v1", auth); err == nil || !strings.Contains(err.Error(), "the tag is immutable") {
		t.Errorf("push another v1: %v", err)
	}
	if _, err := c.PutImageTagMutability(ctx, &ecr.PutImageTagMutabilityInput{RepositoryName: aws.String("app"),
		ImageTagMutability: types.ImageTagMutabilityMutable}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.push(t, host+"/app:v1", auth); err != nil {
		t.Errorf("push another v1 when it may move: %v", err)
	}
}

func TestWhoMayPushAndPull(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	c, ctx := w.ecr(w.Root), t.Context()
	w.create(t, "app")
	if _, err := w.push(t, host+"/app:v1", w.login(t, w.Root)); err != nil {
		t.Fatal(err)
	}
	nobody := w.NewUser(t, "nobody", "")
	if _, err := w.ecr(nobody).GetAuthorizationToken(ctx,
		&ecr.GetAuthorizationTokenInput{}); awstest.Code(err) != "AccessDeniedException" {
		t.Errorf("a token for nobody: %v", err)
	}
	readerCredentials := w.NewUser(
		t,
		"reader",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["ecr:GetAuthorizationToken","ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"],"Resource":"*"}}`,
	)
	reader := w.login(t, readerCredentials)
	if _, err := w.pull(t, host+"/app:v1", reader); err != nil {
		t.Errorf("a reader pulls: %v", err)
	}
	if _, err := w.push(t, host+"/app:v2", reader); err == nil || !strings.Contains(err.Error(), "DENIED") ||
		!strings.Contains(err.Error(),
			"User: arn:aws:iam::111122223333:user/reader is not authorized to perform: ecr:") {
		t.Errorf("a reader pushes: %v", err)
	}

	// The repository's own policy takes away,
	set := func(policy string) {
		t.Helper()
		if _, err := c.SetRepositoryPolicy(ctx, &ecr.SetRepositoryPolicyInput{RepositoryName: aws.String("app"),
			PolicyText: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	set(
		`{"Version":"2012-10-17","Statement":[{"Sid":"x","Effect":"Deny","Principal":{"AWS":"arn:aws:iam::111122223333:user/reader"},"Action":"ecr:BatchGetImage"}]}`,
	)
	if _, err := w.pull(t, host+"/app:v1", reader); err == nil || !strings.Contains(err.Error(),
		"explicit deny in a resource-based policy") {
		t.Errorf("a reader who is denied: %v", err)
	}
	if _, err := w.ecr(readerCredentials).BatchGetImage(ctx, &ecr.BatchGetImageInput{RepositoryName: aws.String("app"),
		ImageIds: []types.ImageIdentifier{{ImageTag: aws.String("v1")}}}); awstest.Code(err) != "AccessDeniedException" {
		t.Errorf("by the API: %v", err)
	}
	// gives to users without permissions,
	set(
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:user/nobody"},"Action":["ecr:DescribeImages"]}}`,
	)
	if _, err := w.ecr(nobody).DescribeImages(ctx,
		&ecr.DescribeImagesInput{RepositoryName: aws.String("app")}); err != nil {
		t.Errorf("a user whom the repository lets: %v", err)
	}
	// and to other accounts, which have nothing otherwise.
	other := w.NewAccount(t, iamtest.Other)
	foreign := w.login(t, other)
	if _, err := w.pull(t, host+"/app:v1", foreign); err == nil || !strings.Contains(err.Error(), "DENIED") {
		t.Errorf("another account: %v", err)
	}
	set(
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::444455556666:root"},"Action":["ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"]}}`,
	)
	if _, err := w.pull(t, host+"/app:v1", foreign); err != nil {
		t.Errorf("another account that is let: %v", err)
	}
	for name, policy := range map[string]string{
		"no JSON":    `{`,
		"a resource": `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"ecr:*","Resource":"*"}}`,
		"locked out": `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"ecr:*"}}`,
	} {
		if _, err := c.SetRepositoryPolicy(ctx, &ecr.SetRepositoryPolicyInput{RepositoryName: aws.String("app"),
			PolicyText: &policy}); awstest.Code(err) != "InvalidParameterException" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := c.GetRepositoryPolicy(ctx,
		&ecr.GetRepositoryPolicyInput{RepositoryName: aws.String("app")}); err != nil ||
		!strings.Contains(*got.PolicyText, "444455556666") {
		t.Errorf("the policy is %+v, %v", got, err)
	}
	if _, err := c.DeleteRepositoryPolicy(ctx,
		&ecr.DeleteRepositoryPolicyInput{RepositoryName: aws.String("app")}); err != nil {
		t.Error(err)
	}
	if _, err := c.GetRepositoryPolicy(ctx,
		&ecr.GetRepositoryPolicyInput{RepositoryName: aws.String("app")}); awstest.Code(err) !=
		"RepositoryPolicyNotFoundException" {
		t.Errorf("without a policy: %v", err)
	}

	// A token ends after twelve hours.
	w.SetNow(time.Now().Add(12*time.Hour + time.Minute))
	if _, err := w.pull(t, host+"/app:v1", reader); err == nil || !strings.Contains(err.Error(),
		"Your authorization token has expired. Reauthenticate and try again.") {
		t.Errorf("after twelve hours: %v", err)
	}
}

func TestARepositoryPolicyMeansItsPrincipalsNotTheirNames(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	w.create(t, "app")
	c, admin, ctx, p := w.ecr(w.Root), w.IAM(w.Root), t.Context(), aws.String
	set := func(name string) error {
		_, err := c.SetRepositoryPolicy(ctx, &ecr.SetRepositoryPolicyInput{RepositoryName: p("app"), PolicyText: p(
			`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account +
				`:user/` + name + `"},"Action":"ecr:DescribeImages"}}`)})
		return err
	}
	if err := set("ci"); awstest.Code(err) != "InvalidParameterException" ||
		!strings.Contains(err.Error(), "Principal not found") {
		t.Errorf("a policy for nobody: %v", err)
	}
	in := &ecr.DescribeImagesInput{RepositoryName: p("app")}
	first := w.NewUser(t, "ci", "")
	if err := set("ci"); err != nil {
		t.Fatal(err)
	}
	awstest.Must[*ecr.DescribeImagesOutput](t)(w.ecr(first).DescribeImages(ctx, in))
	awstest.Must[*iam.DeleteAccessKeyOutput](t)(admin.DeleteAccessKey(ctx,
		&iam.DeleteAccessKeyInput{UserName: p("ci"), AccessKeyId: &first.AccessKeyID}))
	awstest.Must[*iam.DeleteUserOutput](t)(admin.DeleteUser(ctx, &iam.DeleteUserInput{UserName: p("ci")}))
	second := w.NewUser(t, "ci", "")
	_, err := w.ecr(second).DescribeImages(ctx, in)
	awstest.WantCode(t, err, "AccessDeniedException")
	if err := set("ci"); err != nil {
		t.Fatal(err)
	}
	awstest.Must[*ecr.DescribeImagesOutput](t)(w.ecr(second).DescribeImages(ctx, in))
}

// EKS's own images can be pulled by every account, and changed by none.
func TestImagesOfEKS(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	archive := dockerArchive(t, image.Host(region)+"/eks/pause:3.10")
	if _, err := w.images.Load(t.Context(), archive, w.access); err != nil {
		t.Fatal(err)
	}
	auth := w.login(t, w.Root)
	for _, from := range []string{image.Host(region), image.Host("eu-west-1"), image.Host("af-south-1")} {
		if _, err := w.pull(t, from+"/eks/pause:3.10", auth); err != nil {
			t.Errorf("pull from %s: %v", from, err)
		}
	}
	if _, err := w.pull(t, image.Host(region)+"/eks/pause:3.10", authn.Anonymous); err == nil {
		t.Error("pulled without a token")
	}
	if _, err := w.push(t, image.Host(region)+"/eks/pause:3.10", auth); err == nil || !strings.Contains(err.Error(),
		"DENIED") {
		t.Errorf("pushed: %v", err)
	}
	images, err := w.ecr(w.Root).DescribeImages(t.Context(),
		&ecr.DescribeImagesInput{RegistryId: aws.String(image.EKSAccount), RepositoryName: aws.String("eks/pause")})
	if err != nil || len(images.ImageDetails) != 1 {
		t.Errorf("described: %+v, %v", images, err)
	}
}

// A repository that has the name now says nothing of the one that is created: not its tags allow it.
func TestCreationIsAuthorizedByTheRequestAlone(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	ctx, p := t.Context(), aws.String
	tags := []types.Tag{{Key: p("team"), Value: p("crew")}}
	in := &ecr.CreateRepositoryInput{RepositoryName: p("app"), Tags: tags}
	if _, err := w.ecr(w.Root).CreateRepository(ctx, in); err != nil {
		t.Fatal(err)
	}
	crew := w.ecr(w.NewUser(t, "crew", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"ecr:*",
		"Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"crew"}}}}`))
	_, err := crew.CreateRepository(ctx, &ecr.CreateRepositoryInput{RepositoryName: p("app")})
	if err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("the repository that exists authorized the creation: %v", err)
	}
}
