package image

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
)

// Handler serves the protocol of registries (OCI distribution) below /v2/. The registry that is meant is the one
//
//   - that ?ns= names, as containerd asks a mirror (https://github.com/containerd/containerd/blob/main/docs/hosts.md);
//   - of the Host header, if that is one of ECR's or public.ecr.aws;
//   - whose name the path begins with: /v2/111122223333.dkr.ecr.eu-west-1.amazonaws.com/app/manifests/latest.
//     So it is reached from the host, where those names do not lead to the daemon.
//
// In ECR's registries clients need a token of GetAuthorizationToken and the permissions of ECR's API. Others can
// be read by everybody and are written by [Registry.Load] alone.
func (r *Registry) Handler(access Access) http.Handler {
	h := &handler{r, access}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := h.dispatch(w, request); err != nil {
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				r.options.Log.Error("the registry could not answer", "method", request.Method, "path", request.URL.Path,
					"error", err)
				refusal = &Refusal{http.StatusInternalServerError, "UNKNOWN",
					"The registry could not answer because of an internal error. Its log says more."}
			}
			refusal.writeResponse(w, request)
		}
	})
}

// handler is the registry as clients see it.
type handler struct {
	*Registry
	access Access
}

// route matches a path below /v2/. Its parts become parts of file names, so it accepts valid names and references only.
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md#endpoints
var route = regexp.MustCompile(`^/v2/(.+)/(manifests/(?:` + reference.TagRegexp.String() + `|` +
	reference.DigestRegexp.String() +
	`)|blobs/[a-z0-9]+:[a-f0-9]+|blobs/uploads/?|blobs/uploads/[A-Za-z0-9_-]+|tags/list)$`)

// maxManifest is ECR's limit, in bytes, of which distribution takes as many.
const maxManifest = 4 << 20

// target is the part of the registry that a request is about.
type target struct {
	host, repository string // of the registry that a client names, and in it
	what             string // of the repository: "manifests/REFERENCE", "blobs/DIGEST", "blobs/uploads/ID", "tags/list"
	named            string // host and a slash where the path of the request has them, else empty
}

func (t target) isManifest() bool { return strings.HasPrefix(t.what, "manifests/") }

// parseTarget validates the path and the names of a request below /v2/.
func (r *handler) parseTarget(request *http.Request) (t target, err error) {
	match := route.FindStringSubmatch(request.URL.Path)
	if match == nil {
		return t, &Refusal{http.StatusNotFound, "UNSUPPORTED", "there is no " + request.URL.Path + " in this registry"}
	}
	t.repository, t.what = match[1], match[2]
	// The repository that is authorized here is the one that the library resolves: no path leads out of it.
	if slices.ContainsFunc(strings.Split(strings.TrimSuffix(request.URL.Path[1:], "/"), "/"), isNoName) {
		return t, &Refusal{http.StatusBadRequest, "NAME_INVALID", "invalid repository name: " + t.repository}
	}
	t.host = request.URL.Query().Get("ns")
	if t.host == "" {
		t.host = registryOf(request.Host)
	}
	if t.host == "" {
		var ok bool
		if t.host, t.repository, ok = strings.Cut(t.repository, "/"); !ok || !strings.ContainsAny(t.host, ".:") &&
			t.host != "localhost" {
			return t, &Refusal{http.StatusNotFound, "NAME_UNKNOWN", "name the registry: " + request.Host +
				"/111122223333.dkr.ecr.REGION.amazonaws.com/" + match[1]}
		}
		t.named = t.host + "/"
	}
	return t, r.checkNames(t)
}

// checkNames refuses names that are not a host, a name within it, and a valid digest, so that the library resolves the
// name that was authorized.
func (r *handler) checkNames(t target) error {
	name := t.host + "/" + t.repository
	if full, err := reference.WithName(name); err != nil {
		return &Refusal{http.StatusBadRequest, "NAME_INVALID", fmt.Sprintf("%s: %v", name, err)}
	} else if reference.Domain(full) != t.host || reference.Path(full) != t.repository {
		return &Refusal{http.StatusBadRequest, "NAME_INVALID", t.host + " is not the name of a registry"}
	}
	if _, err := reference.WithName(r.storedName(name)); err != nil { // such as an address of IPv6
		return &Refusal{http.StatusBadRequest, "NAME_INVALID", fmt.Sprintf("%s: %v", name, err)}
	}
	if _, identifier, _ := strings.Cut(t.what, "/"); strings.Contains(identifier, ":") {
		if err := digest.Digest(identifier).Validate(); err != nil {
			return &Refusal{http.StatusBadRequest, "DIGEST_INVALID", fmt.Sprintf("%s: %v", identifier, err)}
		}
	}
	return nil
}

// dispatch serves one request: it authorizes the request, fetches what a cache or a mirror lacks, and leaves the rest
// to the library.
func (r *handler) dispatch(w http.ResponseWriter, request *http.Request) error {
	if strings.TrimSuffix(request.URL.Path, "/") == "/v2" {
		return r.serveBase(w, request)
	}
	t, err := r.parseTarget(request)
	if err != nil {
		return err
	}
	if t.isManifest() && request.Method == http.MethodPut {
		end, err := acquireTurn(request.Context(), r.serving, sourceOf(request))
		if err != nil {
			return err
		}
		defer end()
	}
	full := r.canonical(t.host) + "/" + t.repository
	unlock := func() {}
	defer func() { unlock() }()
	lock := func(tag string) {
		release := r.HoldRepository(full)
		free := r.LockTag(full, tag)
		unlock = func() { free(); release() }
	}
	if err := r.prepare(request, t, full, lock); err != nil {
		return err
	}
	if request.Method == http.MethodPost {
		if err := r.checkUploads(full); err != nil {
			return refuseUpload(err)
		}
	} else if request.Method == http.MethodPatch || request.Method == http.MethodPut {
		body, err := r.space.reserveBody(r.options.Dir, request)
		if err != nil {
			return refuseUpload(err)
		}
		defer body.releaseSpace()
	}
	return r.serveStored(w, request, t)
}

// prepare authorizes a request and fetches what it asks for, if the registry is a cache or a mirror of it. full is the
// repository's canonical name. It calls lock for a push, with the tag or the digest, before it authorizes the push.
func (r *handler) prepare(request *http.Request, t target, full string, lock func(tag string)) error {
	if account, region, ok := ECR(r.canonical(t.host)); ok {
		want := Request{Account: account, Region: region, RequestedRegion: requestedRegion(t.host),
			Repository: t.repository}
		if err := r.authorizeAction(request, want, t.what, lock); err != nil {
			return err
		}
		return r.fillCache(request, want, t.what)
	}
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		return Denied("images of " + t.host +
			" cannot be pushed here: put them in with \"coracle images load FILE\", or push to a repository of " +
			"Amazon ECR")
	}
	if reference, ok := strings.CutPrefix(t.what, "manifests/"); ok {
		return r.ensurePulled(request.Context(), sourceOf(request), full, full, reference)
	}
	return nil
}

// serveStored lets the library serve a request, on the repository's name in the storage.
func (r *handler) serveStored(w http.ResponseWriter, request *http.Request, t target) error {
	stored := r.storedName(t.host + "/" + t.repository)
	query := request.URL.Query()
	query.Del("ns")
	query.Del("mount") // as ECR, which takes every layer by upload
	query.Del("from")
	query.Del(layerParameter)
	inner := request.Clone(request.Context())
	inner.URL = &url.URL{Path: "/v2/" + stored + "/" + t.what, RawQuery: query.Encode()}
	inner.RequestURI = inner.URL.RequestURI()
	// Not while an image is fetched. A list of tags has all of a repository in memory, until its client has read it.
	if t.isManifest() && request.Method != http.MethodPut || t.what == "tags/list" {
		end, err := acquireTurn(request.Context(), r.serving, sourceOf(request))
		if err != nil {
			return err
		}
		defer end()
	}
	out := &relocated{ResponseWriter: w, from: "/v2/" + stored + "/", to: "/v2/" + t.named + t.repository + "/"}
	if !t.isManifest() {
		r.serveStorage(out, inner)
		return nil
	}
	// The library reads the manifest into memory and decodes it. That is over before the client has read the answer.
	if err := r.decoding.Acquire(request.Context(), 1); err != nil {
		return err
	}
	answer := &manifestAnswer{header: make(http.Header)}
	func() {
		defer r.decoding.Release(1)
		r.serveStorage(answer, inner)
	}()
	return answer.sendTo(out)
}

// manifestAnswer keeps an answer about a manifest, of maxManifest bytes at most.
type manifestAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *manifestAnswer) Header() http.Header         { return a.header }
func (a *manifestAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *manifestAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *manifestAnswer) sendTo(w http.ResponseWriter) error {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(cmp.Or(a.status, http.StatusOK))
	_, err := a.body.WriteTo(w)
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away
	}
	return nil
}

// refuseUpload returns the refusal of an upload that is not possible now.
func refuseUpload(err error) error {
	switch {
	case errors.Is(err, ErrFull):
		return &Refusal{http.StatusInsufficientStorage, "DENIED", err.Error()}
	case errors.Is(err, ErrTooManyUploads):
		return &Refusal{http.StatusTooManyRequests, "TOOMANYREQUESTS", err.Error()}
	}
	return err
}

// isNoName reports whether a part of a path means a place in the path, or nothing.
func isNoName(part string) bool { return part == "" || part == "." || part == ".." }

// fillCache fetches what a repository that is a cache does not have yet, or not as its registry has it now. That is an
// import into the account's registry, which takes a permission of its own. Who lacks it gets what is there.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html
func (r *handler) fillCache(request *http.Request, want Request, what string) error {
	ctx := request.Context()
	reference, ok := strings.CutPrefix(what, "manifests/")
	if !ok || request.Method != http.MethodGet && request.Method != http.MethodHead {
		return nil
	}
	upstream, err := r.access.Upstream(ctx, want.Account, want.Region, want.Repository)
	if err != nil || upstream == "" {
		return err
	}
	to := ECRHost(want.Account, want.Region) + "/" + want.Repository
	there, stale, err := r.findStored(ctx, to, reference)
	if err != nil || there && !stale {
		return err
	}
	want.Actions = []string{"ecr:BatchImportUpstreamImage"}
	if err := r.authorize(request, want); err != nil {
		if there && errors.As(err, new(*Refusal)) {
			return nil
		}
		return err
	}
	return r.ensurePulled(ctx, sourceOf(request), upstream, to, reference)
}

// sourceOf returns the source of a request, which its limits count for. Networks of VPCs may have the same addresses;
// the local addresses of the daemon differ between them. Where they do not, the machines share a few turns.
func sourceOf(request *http.Request) string {
	source, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		source = request.RemoteAddr
	}
	if local, ok := request.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		source += " " + local.String()
	}
	return source
}

// serveBase answers whether the registry is there, and whether the client's token is good.
func (r *handler) serveBase(w http.ResponseWriter, request *http.Request) error {
	host := request.URL.Query().Get("ns")
	if host == "" {
		host = registryOf(request.Host)
	}
	account, region, ok := ECR(r.canonical(host))
	if ok || host == "" { // clients that name the registry in the path need a token if it is ECR's
		if err := r.authorize(request, Request{Account: account, Region: region,
			RequestedRegion: requestedRegion(host)}); err != nil {
			return err
		}
	}
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(w, "{}")
	return err
}

// registryOf returns the registry that a Host header names; empty when it names none.
func registryOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.ToLower(host)
	if _, _, ok := ECR(host); ok || host == "public.ecr.aws" {
		return host
	}
	return ""
}

// requestedRegion returns the region in the name of an ECR registry. For EKS's own images it is not the registry's
// region.
func requestedRegion(host string) string {
	_, region, _ := ECR(strings.ToLower(host))
	return region
}

func (r *handler) authorize(request *http.Request, want Request) error {
	want.HTTP, want.Password = request, password(request)
	if want.Layer != "" {
		want.LayerToken = request.URL.Query().Get(layerParameter)
	}
	if want.Password == "" && want.LayerToken == "" {
		return Unauthenticated
	}
	return r.access.Allow(request.Context(), want)
}

// authorizeAction checks a request to a repository of ECR against the permissions that ECR's API has for the same.
// It calls lock for the tag that the request puts, or the digest of an image without one, before it asks whether that
// may be. The client has sent everything then.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html
func (r *handler) authorizeAction(request *http.Request, want Request, what string, lock func(reference string)) error {
	kind, reference, _ := strings.Cut(what, "/")
	switch read := request.Method == http.MethodGet || request.Method == http.MethodHead; {
	case kind == "tags":
		want.Actions = []string{"ecr:ListImages"}
	case kind == "manifests" && read:
		want.Actions = []string{"ecr:BatchGetImage"}
	case kind == "manifests" && request.Method == http.MethodPut:
		want.Actions = []string{"ecr:PutImage"}
		// Whoever may not put an image here need not send the manifest.
		if err := r.authorize(request, want); err != nil {
			return err
		}
		body, err := io.ReadAll(io.LimitReader(request.Body, maxManifest+1))
		if err != nil {
			return err
		}
		if err := checkManifest(body); err != nil {
			return &Refusal{http.StatusBadRequest, "MANIFEST_INVALID", err.Error()}
		}
		hash, _, err := v1.SHA256(bytes.NewReader(body))
		if err != nil {
			return err
		}
		want.Digest = hash.String()
		if !strings.Contains(reference, ":") {
			want.Tag = reference
		}
		lock(cmp.Or(want.Tag, want.Digest))
		request.Body = io.NopCloser(bytes.NewReader(body))
	case kind == "manifests": // ECR has BatchDeleteImage for that
		return &Refusal{http.StatusMethodNotAllowed, "UNSUPPORTED", "The operation is unsupported."}
	case reference == "uploads" || strings.HasPrefix(reference, "uploads/"):
		want.Actions = []string{map[string]string{
			http.MethodPost: "ecr:InitiateLayerUpload", http.MethodPatch: "ecr:UploadLayerPart",
			http.MethodPut: "ecr:CompleteLayerUpload",
			http.MethodGet: "ecr:UploadLayerPart", http.MethodDelete: "ecr:InitiateLayerUpload",
		}[request.Method]}
	case request.Method == http.MethodHead:
		// Clients that push look this way whether a layer is there, clients that pull how long it is.
		want.Actions = []string{"ecr:BatchCheckLayerAvailability"}
		if err := r.authorize(request, want); err == nil || !errors.As(err, new(*Refusal)) {
			return err
		}
		want.Actions, want.Layer = []string{"ecr:GetDownloadUrlForLayer"}, reference
	case request.Method == http.MethodGet:
		want.Actions, want.Layer = []string{"ecr:GetDownloadUrlForLayer"}, reference
	default:
		return &Refusal{http.StatusMethodNotAllowed, "UNSUPPORTED", "The operation is unsupported."}
	}
	if slices.Contains(want.Actions, "") {
		return &Refusal{http.StatusMethodNotAllowed, "UNSUPPORTED", "The operation is unsupported."}
	}
	return r.authorize(request, want)
}

// relocated gives clients the paths that they know.
type relocated struct {
	http.ResponseWriter
	from, to string
	done     bool
}

func (w *relocated) WriteHeader(status int) {
	w.relocate()
	w.ResponseWriter.WriteHeader(status)
}

func (w *relocated) Write(p []byte) (int, error) {
	w.relocate()
	return w.ResponseWriter.Write(p)
}

func (w *relocated) relocate() {
	if w.done {
		return
	}
	w.done = true
	for _, header := range []string{"Location", "Link"} {
		if value := w.Header().Get(header); value != "" {
			w.Header().Set(header, strings.Replace(value, w.from, w.to, 1))
		}
	}
}

// ReadFrom lets blobs go from file to socket without a copy.
func (w *relocated) ReadFrom(source io.Reader) (int64, error) {
	w.relocate()
	return io.Copy(w.ResponseWriter, source)
}

func (w *relocated) Unwrap() http.ResponseWriter { return w.ResponseWriter }
