package upstream

import (
	"context"
	"fmt"
	"strings"

	"github.com/coracle-eks/coracle/kubernetes"
)

// bundleProgram is the multi-call program of a bundle.
const bundleProgram = "kube"

// Bundles finds and builds the Kubernetes programs. The bundle of a minor version is one multi-call program, v1.NN/kube
// below a directory of bundles. Its methods may be called concurrently.
type Bundles struct{ cache *cache }

// OpenBundles returns the bundles in the directory of the options or EnvBundles, or in those called bundles beside the
// coracle program and in the data directory. It touches nothing.
func OpenBundles(o Options) *Bundles { return &Bundles{newCache(o, EnvBundles, "bundles")} }

// BundlesIn returns the bundles in one directory, of which only those count that this program would build itself.
func BundlesIn(dir string) *Bundles { return &Bundles{newCacheIn(dir, EnvBundles)} }

// Find returns the path of the bundle of a minor version ("1.35"), or an error that is ErrNotBuilt.
func (b *Bundles) Find(minor string) (string, error) {
	m, err := kubernetesModule(minor)
	if err != nil {
		return "", err
	}
	return b.cache.findFirst(m.artifact())
}

// Ensure returns the path of the bundle of a minor version, after building it if it is missing. It passes the steps of
// a build to report, which may be nil, one at a time. The error of a failed build is a [*BuildError].
func (b *Bundles) Ensure(ctx context.Context, minor string, report func(Progress)) (string, error) {
	m, err := kubernetesModule(minor)
	if err != nil {
		return "", err
	}
	return b.cache.ensureBuilt(ctx, m.artifact(), report)
}

// Prefetch downloads the modules that the bundle of a minor version is built from, and builds nothing: Ensure finds
// them in Go's module cache afterwards.
func (b *Bundles) Prefetch(ctx context.Context, minor string) error {
	m, err := kubernetesModule(minor)
	if err != nil {
		return err
	}
	return m.prefetch(ctx)
}

// kubernetesModule returns the module of a supported minor version.
func kubernetesModule(minor string) (module, error) {
	v, ok := kubernetes.Lookup(minor)
	if !ok {
		var supported []string
		for _, v := range kubernetes.Versions() {
			supported = append(supported, v.Minor)
		}
		return module{}, fmt.Errorf("kubernetes version %q is not supported: choose one of %s",
			minor, strings.Join(supported, ", "))
	}
	stamps := make(map[string]string)
	for variable, value := range v.Stamps() {
		stamps["k8s.io/component-base/version."+variable] = value
		stamps["k8s.io/client-go/pkg/version."+variable] = value
	}
	return module{
		title: "Kubernetes " + v.Minor + " bundle", label: "Kubernetes " + v.Minor, dir: "v" + v.Minor,
		version: v.GitVersion(), files: v.Source(), patches: kubernetes.HostPatches(), stamps: stamps,
		programs: map[string]string{bundleProgram: "."},
	}, nil
}
