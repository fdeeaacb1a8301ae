package image

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sourcegraph/conc/pool"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// recipe describes an image: its layers, shared with other images of the same content, and its configuration.
type recipe struct {
	reference string
	layers    [][]entry
	config    v1.Config
}

// storedOne comes after each image of several; what was assembled is recorded after the last.
var storedOne = crash.At("image/assembled-one")

// pathEnv is the PATH of EKS's minimal base images.
const pathEnv = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Assemble makes the images that EKS's add-ons and nodes of a Kubernetes version ("1.35") use, under the names
// that [References] gives, and [Agnhost]. It does nothing when they have been made of the same programs before, which
// is looked at once in a daemon's life; otherwise it takes some seconds, and needs the programs to be built.
func (r *Registry) Assemble(ctx context.Context, minor string) error {
	if err := r.assemble(ctx, minor); err != nil {
		return fmt.Errorf("assemble the images of Kubernetes %s: %w", minor, err)
	}
	return nil
}

func (r *Registry) assemble(ctx context.Context, minor string) error {
	r.assembling.Lock()
	defer r.assembling.Unlock()
	if r.assembled[minor] {
		return nil
	}
	recipes, err := r.recipes(ctx, minor)
	if err != nil {
		return err
	}
	made, err := fingerprint(recipes)
	if err != nil {
		return err
	}
	marker := filepath.Join(r.options.Dir, "assembled", minor)
	if before, err := os.ReadFile(marker); err == nil && string(before) == made {
		r.assembled[minor] = true
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	work, err := r.scratch("layers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	layers, err := writeLayers(ctx, work, recipes...)
	if err != nil {
		return err
	}
	for _, recipe := range recipes {
		image, err := recipe.assembleImage(layers)
		if err != nil {
			return err
		}
		if err := r.storeImage(ctx, recipe.reference, image); err != nil {
			return fmt.Errorf("store %s: %w", recipe.reference, err)
		}
		storedOne.Here()
		repository, _, err := splitReference(recipe.reference)
		if err != nil {
			return err
		}
		if err := r.dropUntagged(ctx, repository); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(marker), 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(marker, []byte(made), 0o600); err != nil {
		return err
	}
	r.assembled[minor] = true
	return nil
}

// writeLayers writes the layers of recipes, each once, on all processors: the first machine of a host waits for them.
// They are found by their fingerprints.
func writeLayers(ctx context.Context, work string, recipes ...recipe) (map[string]*layer, error) {
	different := make(map[string][]entry)
	sizes := make(map[string]int64)
	for _, recipe := range recipes {
		for _, entries := range recipe.layers {
			key, err := fingerprint(entries)
			if err != nil {
				return nil, err
			}
			different[key] = entries
			if sizes[key], err = sizeOf(entries); err != nil {
				return nil, err
			}
		}
	}
	largestFirst := slices.SortedFunc(maps.Keys(different),
		func(a, b string) int { return cmp.Compare(sizes[b], sizes[a]) })
	var mu sync.Mutex
	layers := make(map[string]*layer)
	writing := pool.New().WithContext(ctx).WithCancelOnError().WithMaxGoroutines(runtime.GOMAXPROCS(0))
	for _, key := range largestFirst {
		writing.Go(func(ctx context.Context) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			written, err := writeLayer(work, different[key])
			mu.Lock()
			defer mu.Unlock()
			layers[key] = written
			return err
		})
	}
	return layers, writing.Wait()
}

// sizeOf returns the bytes of the host's files among entries.
func sizeOf(entries []entry) (bytes int64, err error) {
	for _, e := range entries {
		if e.Source == "" {
			continue
		}
		info, err := os.Stat(e.Source)
		if err != nil {
			return 0, err
		}
		bytes += info.Size()
	}
	return bytes, nil
}

// assembleImage makes an image of layers that writeLayers has written.
func (r recipe) assembleImage(layers map[string]*layer) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", Created: v1.Time{Time: epoch}, Config: r.config,
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	for _, entries := range r.layers {
		key, err := fingerprint(entries)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layers[key], MediaType: types.OCILayerZStd,
			History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "coracle"}})
		if err != nil {
			return nil, err
		}
	}
	return image, nil
}

// fingerprint returns a digest of what something is made of: equal fingerprints mean equal images. Files of the host
// count with their size and time of modification.
func fingerprint(what any) (string, error) {
	digest := sha256.New()
	add := func(v any) error { return json.NewEncoder(digest).Encode(v) }
	entries := func(all []entry) error {
		for _, e := range withParents(all) {
			if err := add(e); err != nil {
				return err
			}
			if e.Source != "" {
				info, err := os.Stat(e.Source)
				if err != nil {
					return err
				}
				if err := add([]int64{info.Size(), info.ModTime().UnixNano()}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	switch what := what.(type) {
	case []entry:
		if err := entries(what); err != nil {
			return "", err
		}
	case []recipe:
		for _, r := range what {
			if err := add(r.reference); err != nil {
				return "", err
			}
			if err := add(r.config); err != nil {
				return "", err
			}
			for _, l := range r.layers {
				if err := entries(l); err != nil {
					return "", err
				}
			}
		}
	default:
		panic(fmt.Sprintf("no fingerprint of a %T", what))
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// recipes of all images of a version.
func (r *Registry) recipes(ctx context.Context, minor string) ([]recipe, error) {
	if _, ok := kubernetes.Lookup(minor); !ok {
		return nil, fmt.Errorf("kubernetes version %q is not supported", minor)
	}
	kube, err := r.options.Bundles.Find(minor)
	if err != nil {
		return nil, err
	}
	if _, err := r.options.Programs.Path("containerd"); err != nil {
		return nil, err // once, and not for each of them
	}
	var missing error
	program := func(name, path string) entry {
		source, err := r.options.Programs.Path(name)
		missing = errors.Join(missing, err)
		return entry{Path: path, Source: source, Mode: 0o755}
	}
	root, err := r.options.Base(ctx)
	if err != nil {
		return nil, err
	}
	base, err := baseLayer(root, r.options.CA)
	if err != nil {
		return nil, err
	}
	iptables, err := iptablesLayer(root)
	if err != nil {
		return nil, err
	}
	names := References(r.options.Region, minor)
	inDir := func(dir string, names ...string) (entries []entry) {
		for _, name := range names {
			entries = append(entries, program(name, dir+"/"+name))
		}
		return entries
	}
	recipes := []recipe{
		{names[Pause], [][]entry{inDir("", "pause")}, v1.Config{
			Env: []string{pathEnv}, Entrypoint: []string{"/pause"}, User: "65535:65535",
		}},
		// What runs as kube-proxy is coracle-node, which gives the real one a size of the connection tracking table to
		// set (package kubeproxy in internal/guest).
		{names[KubeProxy], [][]entry{base, iptables,
			{{Path: "usr/libexec/kubernetes/kube-proxy", Source: kube, Mode: 0o755}},
			{program(upstream.MachineProgram, "usr/local/bin/kube-proxy")}}, v1.Config{
			Env: []string{pathEnv}, Entrypoint: []string{"kube-proxy"},
		}},
		{Agnhost, [][]entry{base, inDir("", "agnhost")}, v1.Config{
			Env: []string{pathEnv}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"},
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(shaped)) {
		recipe, err := buildRecipe(name, names[name], base, iptables, r.options.Programs.Path)
		missing = errors.Join(missing, err)
		recipes = append(recipes, recipe)
	}
	return recipes, missing
}

// baseLayer returns the files of EKS's minimal base image that programs without a C library read: users, CA
// certificates, a /tmp. The files of the node image are below root.
func baseLayer(root string, ca []byte) ([]entry, error) {
	roots, err := trustedRoots(root, ca)
	if err != nil {
		return nil, err
	}
	return []entry{
		{Path: "etc/passwd", Content: []byte(
			"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n")},
		{Path: "etc/group", Content: []byte("root:x:0:\nnonroot:x:65532:\nnobody:x:65534:\n")},
		{Path: "etc/nsswitch.conf", Content: []byte("hosts: files dns\n")},
		{Path: "etc/ssl/certs/ca-certificates.crt", Content: roots},
		{Path: "etc/ssl/cert.pem", Link: "certs/ca-certificates.crt"},
		{Path: "etc/pki/tls/certs/ca-bundle.crt", Link: "../../../ssl/certs/ca-certificates.crt"},
		{Path: "root", Dir: true, Mode: 0o700},
		{Path: "tmp", Dir: true, Mode: 0o1777},
		{Path: "var/log", Dir: true},
		{Path: "run", Dir: true},
		{Path: "var/run", Link: "../run"},
	}, nil
}

// trustedRoots returns the CA certificates of the node image, followed by ca.
func trustedRoots(root string, ca []byte) ([]byte, error) {
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	return slices.Concat(bytes.TrimRight(roots, "\n"), []byte("\n"), ca), err
}

// iptablesLayer returns iptables (the nftables variant, which everything on a host has to use) and nft of the node
// image whose files are below root.
func iptablesLayer(root string) ([]entry, error) {
	xtables, nft := filepath.Join(root, "usr/sbin/xtables-nft-multi"), filepath.Join(root, "usr/sbin/nft")
	entries := []entry{
		{Path: "usr/sbin/xtables-nft-multi", Source: xtables, Mode: 0o755},
		{Path: "usr/sbin/nft", Source: nft, Mode: 0o755},
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, variant := range []string{"", "-nft"} {
			for _, verb := range []string{"", "-save", "-restore"} {
				entries = append(entries, entry{Path: "usr/sbin/" + family + variant + verb, Link: "xtables-nft-multi"})
			}
		}
	}
	linked := []string{xtables, nft}
	extensions, err := filepath.Glob(filepath.Join(root, "usr/lib/*/xtables/lib*.so"))
	if err != nil {
		return nil, err
	}
	for _, file := range extensions {
		if strings.HasPrefix(filepath.Base(file), "libebt_") || strings.HasPrefix(filepath.Base(file), "libarpt_") {
			continue
		}
		info, err := os.Lstat(file)
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 { // libxt_NOTRACK.so is libxt_CT.so
			target, err := os.Readlink(file)
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry{Path: strings.TrimPrefix(file, root), Link: target})
			continue
		}
		entries = append(entries, entry{Path: strings.TrimPrefix(file, root), Source: file})
		linked = append(linked, file)
	}
	libs, err := libraries(root, linked...)
	if err != nil {
		return nil, err
	}
	return append(entries, libs...), nil
}
