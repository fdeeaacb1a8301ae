package ecr_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/host/image"
)

// Layers go up through the API as well, as some build tools send them.
func TestLayersThroughTheAPI(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	w.create(t, "app")
	c, ctx, name := w.ecr(w.Root), t.Context(), aws.String("app")
	img, err := random.Image(3000, 1)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := io.ReadAll(compressed)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	media, err := img.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		_, err := c.PutImage(ctx, &ecr.PutImageInput{RepositoryName: name, ImageTag: aws.String("v1"),
			ImageManifest: aws.String(string(manifest)), ImageManifestMediaType: aws.String(string(media))})
		return err
	}
	if err := put(); awstest.Code(err) != "LayersNotFoundException" {
		t.Errorf("before its layers are there: %v", err)
	}
	for _, content := range [][]byte{blob, config} {
		h, _, err := v1.SHA256(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		upload, err := c.InitiateLayerUpload(ctx, &ecr.InitiateLayerUploadInput{RepositoryName: name})
		if err != nil {
			t.Fatal(err)
		}
		send := func(first, last int) error {
			_, err := c.UploadLayerPart(ctx, &ecr.UploadLayerPartInput{RepositoryName: name, UploadId: upload.UploadId,
				PartFirstByte: aws.Int64(int64(first)), PartLastByte: aws.Int64(int64(last) - 1),
				LayerPartBlob: content[first:last]})
			return err
		}
		half := len(content) / 2
		if err := send(0, half); err != nil {
			t.Fatal(err)
		}
		if err := send(0, half); awstest.Code(err) != "InvalidLayerPartException" {
			t.Errorf("the same part again: %v", err)
		}
		if err := send(half, len(content)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CompleteLayerUpload(ctx, &ecr.CompleteLayerUploadInput{RepositoryName: name,
			UploadId: upload.UploadId, LayerDigests: []string{h.String()}}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CompleteLayerUpload(ctx, &ecr.CompleteLayerUploadInput{RepositoryName: name,
			UploadId: upload.UploadId, LayerDigests: []string{h.String()}}); awstest.Code(err) != "LayerAlreadyExistsException" {
			t.Errorf("completed twice: %v", err)
		}
		there, err := c.BatchCheckLayerAvailability(ctx, &ecr.BatchCheckLayerAvailabilityInput{RepositoryName: name,
			LayerDigests: []string{h.String(), "sha256:" + strings.Repeat("0", 64)}})
		if err != nil || there.Layers[0].LayerAvailability != types.LayerAvailabilityAvailable ||
			there.Layers[1].LayerAvailability != types.LayerAvailabilityUnavailable {
			t.Errorf("the layers are %+v, %v", there, err)
		}
		for _, digest := range []string{"x", "sha256:", "sha256:abc", "sha256:" + strings.Repeat("z", 64),
			"sha256:../../x"} {
			there, err := c.BatchCheckLayerAvailability(ctx, &ecr.BatchCheckLayerAvailabilityInput{RepositoryName: name,
				LayerDigests: []string{digest}})
			if err != nil || len(there.Failures) != 1 ||
				there.Failures[0].FailureCode != types.LayerFailureCodeInvalidLayerDigest {
				t.Errorf("the layer %q is %+v, %v; want a failure entry", digest, there, err)
			}
			_, err = c.GetDownloadUrlForLayer(ctx, &ecr.GetDownloadUrlForLayerInput{RepositoryName: name,
				LayerDigest: aws.String(digest)})
			if awstest.Code(err) != "InvalidParameterException" {
				t.Errorf("the URL of the layer %q: %v", digest, err)
			}
			_, err = c.CompleteLayerUpload(ctx, &ecr.CompleteLayerUploadInput{RepositoryName: name,
				UploadId: upload.UploadId, LayerDigests: []string{digest}})
			if awstest.Code(err) != "InvalidParameterException" {
				t.Errorf("an upload completed as %q: %v", digest, err)
			}
		}
		url, err := c.GetDownloadUrlForLayer(ctx, &ecr.GetDownloadUrlForLayerInput{RepositoryName: name,
			LayerDigest: aws.String(h.String())})
		if err != nil {
			t.Fatal(err)
		}
		here := strings.Replace(*url.DownloadUrl, "https://"+host+"/v2/", w.server.URL+"/v2/"+host+"/", 1)
		response, err := http.Get(here) //nolint:noctx // a short test
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("downloaded %d bytes, %s, %v; want %d", len(got), response.Status, err, len(content))
		}
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	if got, err := w.pull(t, host+"/app:v1", w.login(t, w.Root)); err != nil || got != digest(t, img) {
		t.Errorf("pulled %s, %v", got, err)
	}
	if _, err := c.UploadLayerPart(ctx, &ecr.UploadLayerPartInput{RepositoryName: name,
		UploadId: aws.String("01234567-0123-0123-0123-012345678901"), PartFirstByte: aws.Int64(0),
		PartLastByte: aws.Int64(0), LayerPartBlob: []byte("x")}); awstest.Code(err) != "UploadNotFoundException" {
		t.Errorf("an upload that is not there: %v", err)
	}
}
