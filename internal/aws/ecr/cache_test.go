package ecr_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/host/image"
)

// hub is a network with one public registry.
type hub struct{ handler http.Handler }

func newHub() hub { return hub{ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))} }

func (h hub) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

func (h hub) push(t *testing.T, reference string) {
	t.Helper()
	img, err := random.Image(500, 2)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithTransport(h)); err != nil {
		t.Fatal(err)
	}
}

// An image that a pull-through cache does not have yet takes the permission to import it, also where its repository is
// there.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html
func TestImportsTakeAPermission(t *testing.T) {
	t.Parallel()
	h := newHub()
	w := newFixture(t, image.Options{Transport: h})
	_, err := w.ecr(w.Root).CreatePullThroughCacheRule(t.Context(), &ecr.CreatePullThroughCacheRuleInput{
		EcrRepositoryPrefix: aws.String("hub"), UpstreamRegistryUrl: aws.String("registry.k8s.io"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"1", "2", "3"} {
		h.push(t, "registry.k8s.io/pause:"+tag)
	}
	const pull = `"ecr:GetAuthorizationToken","ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"`
	policy := func(actions string) string {
		return `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":[` + actions + `],"Resource":"*"}}`
	}
	puller := w.login(t, w.NewUser(t, "puller", policy(pull)))
	creator := w.login(t, w.NewUser(t, "creator", policy(pull+`,"ecr:CreateRepository"`)))
	importer := w.login(t, w.NewUser(t, "importer", policy(pull+`,"ecr:BatchImportUpstreamImage"`)))
	root := w.login(t, w.Root)

	for _, refused := range []struct {
		auth   authn.Authenticator
		action string
	}{{puller, "ecr:CreateRepository"}, {creator, "ecr:BatchImportUpstreamImage"}, {importer, "ecr:CreateRepository"}} {
		if _, err := w.pull(t, host+"/hub/pause:1", refused.auth); err == nil ||
			!strings.Contains(err.Error(), "is not authorized to perform: "+refused.action) {
			t.Errorf("pulled into a repository that is not there: %v, want %s refused", err, refused.action)
		}
	}
	if _, err := w.pull(t, host+"/hub/pause:1", root); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pull(t, host+"/hub/pause:1", puller); err != nil {
		t.Errorf("pull what is in the cache: %v", err)
	}
	if _, err := w.pull(t, host+"/hub/pause:2", puller); err == nil ||
		!strings.Contains(
			err.Error(),
			"is not authorized to perform: ecr:BatchImportUpstreamImage on resource: arn:aws:ecr:"+region+":"+account+
				":repository/hub/pause",
		) {
		t.Errorf("import without the permission: %v", err)
	}
	if _, err := w.pull(t, host+"/hub/pause:2", importer); err != nil {
		t.Errorf("import with the permission: %v", err)
	}
	if _, err := w.pull(t, host+"/hub/pause:2", puller); err != nil {
		t.Errorf("pull what another user imported: %v", err)
	}
	// The repository's policy may give it, too.
	_, err = w.ecr(w.Root).
		SetRepositoryPolicy(t.Context(), &ecr.SetRepositoryPolicyInput{RepositoryName: aws.String("hub/pause"),
			PolicyText: aws.String(
				`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account +
					`:user/puller"},"Action":"ecr:BatchImportUpstreamImage"}}`),
		})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.pull(t, host+"/hub/pause:3", puller); err != nil {
		t.Errorf("import with the permission of the repository: %v", err)
	}
}

// Whatever an account allows its users on all resources, the repositories of another account are not among them.
func TestRepositoriesOfAnotherAccount(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	owner := w.NewAccount(t, iamtest.Other)
	theirs := strings.Replace(host, account, iamtest.Other, 1)
	if _, err := w.ecr(owner).CreateRepository(t.Context(),
		&ecr.CreateRepositoryInput{RepositoryName: aws.String("app")}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.push(t, theirs+"/app:v1", w.login(t, owner)); err != nil {
		t.Fatal(err)
	}
	administrator := w.NewUser(
		t,
		"administrator",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`,
	)
	id := []types.ImageIdentifier{{ImageTag: aws.String("v1")}}
	reads := map[string]func() error{
		"pull": func() error {
			_, err := w.pull(t, theirs+"/app:v1", w.login(t, administrator))
			return err
		},
		"BatchGetImage": func() error {
			_, err := w.ecr(administrator).
				BatchGetImage(t.Context(), &ecr.BatchGetImageInput{RegistryId: aws.String(iamtest.Other),
					RepositoryName: aws.String("app"), ImageIds: id})
			return err
		},
		"DescribeImages": func() error {
			_, err := w.ecr(administrator).
				DescribeImages(t.Context(), &ecr.DescribeImagesInput{RegistryId: aws.String(iamtest.Other),
					RepositoryName: aws.String("app")})
			return err
		},
		"DescribeRepositories": func() error {
			_, err := w.ecr(administrator).
				DescribeRepositories(t.Context(), &ecr.DescribeRepositoriesInput{RegistryId: aws.String(iamtest.Other),
					RepositoryNames: []string{"app"}})
			return err
		},
	}
	for name, read := range reads {
		if err := read(); err == nil ||
			awstest.Code(err) != "AccessDeniedException" && !strings.Contains(err.Error(), "DENIED") {
			t.Errorf("%s without a repository policy: %v", name, err)
		}
	}
	if _, err := w.push(t, theirs+"/app:v2", w.login(t, administrator)); err == nil ||
		!strings.Contains(err.Error(), "403 Forbidden") && !strings.Contains(err.Error(), "DENIED") {
		t.Errorf("push without a repository policy: %v", err)
	}
	_, err := w.ecr(owner).
		SetRepositoryPolicy(t.Context(), &ecr.SetRepositoryPolicyInput{RepositoryName: aws.String("app"),
			PolicyText: aws.String(
				`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"` + account +
					`"},"Action":["ecr:BatchGetImage","ecr:GetDownloadUrlForLayer","ecr:DescribeImages","ecr:DescribeRepositories"]}}`),
		})
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range reads {
		if err := read(); err != nil {
			t.Errorf("%s with a repository policy: %v", name, err)
		}
	}
	if _, err := w.push(t, theirs+"/app:v2", w.login(t, administrator)); err == nil ||
		!strings.Contains(err.Error(), "403 Forbidden") && !strings.Contains(err.Error(), "DENIED") {
		t.Errorf("push, which the repository policy does not give: %v", err)
	}
}
