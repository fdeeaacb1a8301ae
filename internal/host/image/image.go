// Package image is the registry of a daemon: what ECR, the public registries' mirror and the nodes' cache of
// images are made of.
package image

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/coracle-eks/coracle/internal/cluster/bundle"
	"github.com/coracle-eks/coracle/internal/host/program"
)

// EKSAccount owns the repositories of the images that EKS itself uses.
const EKSAccount = "602401143452"

// Options are what a registry needs.
type Options struct {
	// Dir holds the blobs and tags, <data-dir>/images.
	Dir string
	// CA is the PEM certificate of the daemon's authority, which every assembled image trusts.
	CA       []byte
	Programs *program.Programs
	Bundles  *bundle.Bundles
	Region   string
	// Authorize says whether the bearer of an authorization token (the password that GetAuthorizationToken
	// gave for the user AWS) may take an action ("ecr:BatchGetImage") on a repository. Nil refuses everybody.
	Authorize func(ctx context.Context, password, account, region, repository string, actions []string) error
	Log       *slog.Logger
}

// Image is one manifest of a repository.
type Image struct {
	Repository string // "111122223333.dkr.ecr.eu-west-1.amazonaws.com/app"
	Digest     string // "sha256:..."
	Tags       []string
	MediaType  string
	Size       int64 // of the manifest, its configuration and layers, in bytes
	Pushed     time.Time
}

// Registry serves images. Its methods may be called concurrently.
type Registry struct{ options Options }

// Open makes or opens the registry below Options.Dir.
func Open(o Options) (*Registry, error) { return &Registry{options: o}, nil }

var errNotYet = errors.New("not yet")

// Handler serves the OCI distribution API: repositories by the request's Host
// (111122223333.dkr.ecr.eu-west-1.amazonaws.com), by ?ns= as containerd's mirrors have it, or, for any other
// host, by a path that begins with the registry's host name (/v2/111122223333.dkr.ecr.eu-west-1.amazonaws.com/app/...).
func (r *Registry) Handler() http.Handler { return http.NotFoundHandler() }

// Assemble makes the images that EKS's add-ons and nodes of a Kubernetes version ("1.35") use, under
// 602401143452.dkr.ecr.<region>.amazonaws.com, unless they are there.
func (r *Registry) Assemble(ctx context.Context, minor string) error { return errNotYet }

// Golden is the directory of a containerd root (/var/lib/containerd) in which the images are unpacked and
// pinned, as in EKS AMIs. It is made once per set of images; machines hard-link its files.
func (r *Registry) Golden(ctx context.Context, images []string) (dir string, err error) {
	return "", errNotYet
}

// Load puts the images of a docker or OCI archive into the registry and returns their references.
func (r *Registry) Load(ctx context.Context, archive io.Reader) ([]string, error) {
	return nil, errNotYet
}

// List lists all images.
func (r *Registry) List(ctx context.Context) ([]Image, error) { return nil, errNotYet }
