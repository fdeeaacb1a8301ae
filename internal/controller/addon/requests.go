package addon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cached "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// User is the user name of EKS in a cluster when it manages add-ons; agent is its user agent in the audit log, that
	// of Go's HTTP client over HTTP/1.1.
	User  = "eks:addon-manager"
	agent = "Go-http-client/1.1"

	// requestTimeout is the time that the API server may take for a write, in the API's format; this side waits a bit
	// longer.
	requestTimeout = "10s"
	answerTimeout  = 15 * time.Second
	atOnce         = 16 // requests
)

// requester speaks to one API server as EKS does about add-ons: over HTTP/1.1.
type requester struct {
	*client.Client
	discovered *restmapper.DeferredDiscoveryRESTMapper

	mu      sync.Mutex
	defined *meta.DefaultRESTMapper // kinds of the CRDs of add-ons
}

func newRequester(config *rest.Config, cluster string) (*requester, error) {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &writeTimeout{next} })
	clients, err := client.New(config, cluster, agent)
	if err != nil {
		return nil, err
	}
	return &requester{
		Client: clients, defined: meta.NewDefaultRESTMapper(nil),
		discovered: restmapper.NewDeferredDiscoveryRESTMapper(cached.NewMemCacheClient(clients.Discovery)),
	}, nil
}

// writeTimeout adds the timeout that EKS gives the API server for its writes. client-go adds its own to reads, too, and
// does not wait longer itself.
type writeTimeout struct{ next http.RoundTripper }

// WrappedRoundTripper lets the connections be closed.
func (t *writeTimeout) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *writeTimeout) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		request = request.Clone(request.Context())
		query := request.URL.Query()
		query.Set("timeout", requestTimeout)
		request.URL.RawQuery = query.Encode()
	}
	return t.next.RoundTrip(request)
}

// errNoKind reports that the API server does not know a kind.
var errNoKind = errors.New("the server doesn't have a resource type")

// learnKinds remembers the kinds that CRDs among objects define: they may be used as soon as the CRDs are established.
func (r *requester) learnKinds(objects []*unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range objects {
		group, plural, kind, namespaced, versions := definedKind(o)
		scope := meta.RESTScopeRoot
		if namespaced {
			scope = meta.RESTScopeNamespace
		}
		for _, v := range versions {
			version := schema.GroupVersion{Group: group, Version: v}
			resource := version.WithResource(plural)
			r.defined.AddSpecific(version.WithKind(kind), resource, resource, scope)
		}
	}
}

// definedKind returns the kind that a CRD defines; no versions when the object is no CRD.
func definedKind(o *unstructured.Unstructured) (group, plural, kind string, namespaced bool, versions []string) {
	if o.GetKind() != "CustomResourceDefinition" {
		return
	}
	text := func(fields ...string) string { s, _, _ := unstructured.NestedString(o.Object, fields...); return s }
	all, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range all {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			versions = append(versions, fmt.Sprint(m["name"]))
		}
	}
	group, plural, kind = text("spec", "group"), text("spec", "names", "plural"), text("spec", "names", "kind")
	return group, plural, kind, text("spec", "scope") == "Namespaced", versions
}

// mapping returns the resource of a kind.
func (r *requester) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	r.mu.Lock()
	m, err := r.defined.RESTMapping(kind.GroupKind(), kind.Version)
	r.mu.Unlock()
	if err == nil {
		return m, nil
	}
	m, err = r.discovered.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // it may be new
		r.discovered.Reset()
		m, err = r.discovered.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%w %q in version %q", errNoKind, kind.Kind, kind.GroupVersion())
	}
	return m, err
}

// resource returns a client of the resource to which an object belongs.
func (r *requester) resource(o record.AddonObject) (dynamic.ResourceInterface, error) {
	m, err := r.mapping(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return r.Objects.Resource(m.Resource).Namespace(o.Namespace), nil
	}
	return r.Objects.Resource(m.Resource), nil
}

// getObject returns an object as it is now; the error is NotFound when it isn't.
func (r *requester) getObject(ctx context.Context, o record.AddonObject) (*unstructured.Unstructured, error) {
	resource, err := r.resource(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return resource.Get(ctx, o.Name, metav1.GetOptions{})
}

// serverSideApply applies a configuration as EKS's and returns what the API server made of it.
func (r *requester) serverSideApply(
	ctx context.Context, o record.AddonObject, config map[string]any, dry, force bool,
) (*unstructured.Unstructured, error) {
	resource, err := r.resource(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: force}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return resource.Apply(ctx, o.Name, &unstructured.Unstructured{Object: config}, options)
}

// replaceManagers changes nothing of an object but who manages its fields.
func (r *requester) replaceManagers(
	ctx context.Context, o record.AddonObject, live *unstructured.Unstructured, managers []metav1.ManagedFieldsEntry,
) error {
	resource, err := r.resource(o)
	if err != nil {
		return err
	}
	if len(managers) == 0 {
		managers = []metav1.ManagedFieldsEntry{{}} // the API server's word for none
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": managers},
		// A conflict when it has changed since.
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err = resource.Patch(ctx, o.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// deleteObject deletes the very object that live is, and what depends on it before it.
func (r *requester) deleteObject(ctx context.Context, o record.AddonObject, live *unstructured.Unstructured) error {
	resource, err := r.resource(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	foreground, uid := metav1.DeletePropagationForeground, live.GetUID()
	return resource.Delete(ctx, o.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid},
	})
}
