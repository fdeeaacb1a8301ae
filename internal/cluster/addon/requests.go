package addon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// User is who EKS is to a cluster when it keeps add-ons; agent is what it calls itself in the audit log, which is what Go's HTTP client does by itself.
	User  = "eks:addon-manager"
	agent = "Go-http-client/1.1"

	// requestTimeout is how long the API server may take for a request, in its own words; patience on this side is a bit longer.
	requestTimeout = "10s"
	answerTimeout  = 15 * time.Second
	atOnce         = 16 // requests, and connections that are kept for them
)

// requester speaks to one API server as EKS does about add-ons: over HTTP/1.1.
type requester struct {
	host string
	http *http.Client

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]resource
}

// resource is how a kind is found.
type resource struct {
	schema.GroupVersionResource
	Namespaced bool
}

func newRequester(config *rest.Config) (*requester, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	// A TLS configuration of one's own keeps Go at HTTP/1.1.
	transport := &http.Transport{TLSClientConfig: tls, DialContext: config.Dial, MaxIdleConnsPerHost: atOnce, IdleConnTimeout: 30 * time.Second}
	return &requester{
		host: strings.TrimSuffix(config.Host, "/"), http: &http.Client{Transport: transport, CheckRedirect: outbound.NoRedirects}, kinds: map[schema.GroupVersionKind]resource{},
	}, nil
}

func (r *requester) close() { r.http.CloseIdleConnections() }

// errNoKind says that the API server does not know a kind.
var errNoKind = errors.New("the server doesn't have a resource type")

// learn remembers the kinds that CRDs among objects define: they may be used as soon as the CRDs are established.
func (r *requester) learn(objects []*unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range objects {
		group, plural, kind, namespaced, versions := defined(o)
		for _, v := range versions {
			r.kinds[schema.GroupVersionKind{Group: group, Version: v, Kind: kind}] = resource{schema.GroupVersionResource{Group: group, Version: v, Resource: plural}, namespaced}
		}
	}
}

// defined is what a CRD defines; no versions when the object is none.
func defined(o *unstructured.Unstructured) (group, plural, kind string, namespaced bool, versions []string) {
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
	return text("spec", "group"), text("spec", "names", "plural"), text("spec", "names", "kind"), text("spec", "scope") == "Namespaced", versions
}

// resource finds out how a kind is found.
func (r *requester) resource(ctx context.Context, kind schema.GroupVersionKind) (resource, error) {
	r.mu.Lock()
	known, ok := r.kinds[kind]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	body, _, err := r.send(ctx, http.MethodGet, groupPath(kind.GroupVersion()), nil, "", nil)
	if apierrors.IsNotFound(err) {
		return resource{}, fmt.Errorf("%w %q in version %q", errNoKind, kind.Kind, kind.GroupVersion())
	}
	if err != nil {
		return resource{}, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return resource{}, fmt.Errorf("the resources of %s: %w", kind.GroupVersion(), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range list.APIResources {
		if !strings.Contains(one.Name, "/") {
			r.kinds[kind.GroupVersion().WithKind(one.Kind)] = resource{kind.GroupVersion().WithResource(one.Name), one.Namespaced}
		}
	}
	if known, ok = r.kinds[kind]; !ok {
		return resource{}, fmt.Errorf("%w %q in version %q", errNoKind, kind.Kind, kind.GroupVersion())
	}
	return known, nil
}

func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// path is where an object is found.
func (r *requester) path(ctx context.Context, o record.AddonObject) (string, error) {
	res, err := r.resource(ctx, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	if err != nil {
		return "", err
	}
	path := groupPath(res.GroupVersion())
	if res.Namespaced {
		path += "/namespaces/" + url.PathEscape(o.Namespace)
	}
	return path + "/" + res.Resource + "/" + url.PathEscape(o.Name), nil
}

// get is an object as it is now; the error is NotFound when it isn't.
func (r *requester) get(ctx context.Context, o record.AddonObject) (*unstructured.Unstructured, error) {
	path, err := r.path(ctx, o)
	if err != nil {
		return nil, err
	}
	body, _, err := r.send(ctx, http.MethodGet, path, nil, "", nil)
	if err != nil {
		return nil, err
	}
	return decoded(body)
}

// apply applies a configuration as EKS's and gives back what the API server made of it.
func (r *requester) apply(ctx context.Context, o record.AddonObject, config map[string]any, dry, force bool) (result *unstructured.Unstructured, created bool, err error) {
	path, err := r.path(ctx, o)
	if err != nil {
		return nil, false, err
	}
	body, err := json.Marshal(config)
	if err != nil {
		return nil, false, err
	}
	query := url.Values{"fieldManager": {fieldManager}, "force": {strconv.FormatBool(force)}, "timeout": {requestTimeout}}
	if dry {
		query.Set("dryRun", metav1.DryRunAll)
	}
	answer, status, err := r.send(ctx, http.MethodPatch, path, query, "application/apply-patch+yaml", body)
	if err != nil {
		return nil, false, err
	}
	result, err = decoded(answer)
	return result, status == http.StatusCreated, err
}

// replaceManagers changes nothing of an object but who manages its fields.
func (r *requester) replaceManagers(ctx context.Context, o record.AddonObject, live *unstructured.Unstructured, managers []metav1.ManagedFieldsEntry) error {
	path, err := r.path(ctx, o)
	if err != nil {
		return err
	}
	if len(managers) == 0 {
		managers = []metav1.ManagedFieldsEntry{{}} // the API server's word for none
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": managers},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()}, // a conflict when it has changed since
	})
	if err != nil {
		return err
	}
	_, _, err = r.send(ctx, http.MethodPatch, path, url.Values{"fieldManager": {fieldManager}, "timeout": {requestTimeout}}, "application/json-patch+json", patch)
	return err
}

// delete deletes the very object that live is, and what depends on it before it.
func (r *requester) delete(ctx context.Context, o record.AddonObject, live *unstructured.Unstructured) error {
	path, err := r.path(ctx, o)
	if err != nil {
		return err
	}
	foreground, uid := metav1.DeletePropagationForeground, live.GetUID()
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil {
		return err
	}
	_, _, err = r.send(ctx, http.MethodDelete, path, url.Values{"timeout": {requestTimeout}}, "application/json", body)
	return err
}

// maxAnswer is far more than etcd takes of one object, in bytes. For a kind of an aggregated API, a pod of the cluster's users answers.
const maxAnswer = 32 << 20

// send sends a request. What the API server refuses is an *apierrors.StatusError with its own text.
func (r *requester) send(ctx context.Context, method, path string, query url.Values, contentType string, body []byte) (answer []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	address := r.host + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, 0, &unreachable{err}
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, 0, &unreachable{err}
	}
	if len(answer) > maxAnswer {
		return nil, 0, fmt.Errorf("%s %s: the answer is larger than %d MiB", method, path, maxAnswer>>20)
	}
	if response.StatusCode < 300 {
		return answer, response.StatusCode, nil
	}
	var refusal metav1.Status
	if json.Unmarshal(answer, &refusal) != nil || refusal.Kind != "Status" {
		refusal = metav1.Status{Code: int32(response.StatusCode), Message: firstLine(answer), Reason: reasonOf(response.StatusCode)}
	}
	return nil, response.StatusCode, &apierrors.StatusError{ErrStatus: refusal}
}

// reasonOf is the reason of an answer that gives none.
func reasonOf(status int) metav1.StatusReason {
	switch status {
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	}
	return metav1.StatusReasonUnknown
}

// unreachable is the error of a request that the API server has not answered.
type unreachable struct{ err error }

func (u *unreachable) Error() string { return u.err.Error() }
func (u *unreachable) Unwrap() error { return u.err }

func decoded(body []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(body); err != nil {
		return nil, fmt.Errorf("answer of the API server: %w", err)
	}
	return o, nil
}
