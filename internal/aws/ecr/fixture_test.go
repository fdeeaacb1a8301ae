package ecr_test

import (
	"bytes"
	"encoding/base64"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	coracle "github.com/coracle-eks/coracle/internal/aws/ecr"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = iamtest.Account
	region  = iamtest.Region
	host    = account + ".dkr.ecr." + region + ".amazonaws.com"
)

// fixture is ECR and its registry, behind real clients.
type fixture struct {
	*iamtest.AWS
	images  *image.Registry
	service *coracle.Service
	access  coracle.Access
	server  *httptest.Server // the registry
}

func newFixture(t testing.TB, o image.Options) *fixture {
	t.Helper()
	w := &fixture{AWS: iamtest.New(t)}
	o.Dir, o.Region = t.TempDir(), region
	var err error
	if w.images, err = image.Open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.images.Close(); err != nil {
			t.Errorf("close the registry: %v", err)
		}
	})
	w.service = coracle.New(coracle.Options{Store: w.Store, Images: w.images, Identity: w.Identity, Now: w.Now})
	w.service.Register(w.Mux)
	w.access = coracle.NewAccess(w.service)
	w.server = httptest.NewServer(w.images.Handler(w.access))
	t.Cleanup(w.server.Close)
	return w
}

// ecr returns a client of the API.
func (w *fixture) ecr(with aws.Credentials) *ecr.Client {
	return ecr.New(ecr.Options{Region: region, BaseEndpoint: aws.String(w.URL), HTTPClient: awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: with}, RetryMaxAttempts: 1})
}

// login does what "docker login" does.
func (w *fixture) login(t *testing.T, with aws.Credentials) authn.Authenticator {
	t.Helper()
	out, err := w.ecr(with).GetAuthorizationToken(t.Context(), &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		t.Fatal(err)
	}
	if endpoint := *out.AuthorizationData[0].ProxyEndpoint; endpoint != "https://"+with.AccountID+".dkr.ecr."+region+
		".amazonaws.com" && with.AccountID != "" {
		t.Errorf("the token is for %s", endpoint)
	}
	return &authn.Basic{Username: "AWS", Password: passwordOf(t, *out.AuthorizationData[0].AuthorizationToken)}
}

// reference returns the name of "app:v1" of ECR for clients on the host: with the daemon's address as the registry.
func (w *fixture) reference(t *testing.T, full string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(strings.TrimPrefix(w.server.URL, "http://") + "/" + full)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (w *fixture) push(t *testing.T, full string, auth authn.Authenticator) (v1.Image, error) {
	t.Helper()
	img, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	return img, remote.Write(w.reference(t, full), img, remote.WithAuth(auth), remote.WithContext(t.Context()))
}

// pull fetches an image with all that belongs to it, and returns its digest.
func (w *fixture) pull(t *testing.T, full string, auth authn.Authenticator) (string, error) {
	t.Helper()
	img, err := remote.Image(w.reference(t, full), remote.WithAuth(auth), remote.WithContext(t.Context()))
	if err != nil {
		return "", err
	}
	layers, err := img.Layers()
	if err != nil {
		return "", err
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return "", err
		}
		if err := content.Close(); err != nil {
			return "", err
		}
	}
	digest, err := img.Digest()
	return digest.String(), err
}

func digest(t *testing.T, img v1.Image) string {
	t.Helper()
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

func (w *fixture) create(t *testing.T, repository string) {
	t.Helper()
	if _, err := w.ecr(w.Root).CreateRepository(t.Context(),
		&ecr.CreateRepositoryInput{RepositoryName: &repository}); err != nil {
		t.Fatal(err)
	}
}

func passwordOf(t *testing.T, token string) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	_, password, _ := strings.Cut(string(text), ":")
	return password
}

// dockerArchive returns what "docker save" writes for a random image with those names.
func dockerArchive(t *testing.T, names ...string) *bytes.Buffer {
	t.Helper()
	img, err := random.Image(500, 2)
	if err != nil {
		t.Fatal(err)
	}
	images := make(map[name.Tag]v1.Image)
	for _, full := range names {
		tag, err := name.NewTag(full)
		if err != nil {
			t.Fatal(err)
		}
		images[tag] = img
	}
	archive := new(bytes.Buffer)
	if err := tarball.MultiWrite(images, archive); err != nil {
		t.Fatal(err)
	}
	return archive
}
