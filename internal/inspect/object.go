package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	discovered "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// objects reads objects of a cluster by the words that kubectl takes.
type objects struct {
	cluster string // its name, for messages
	http    *http.Client
	mapper  meta.ResettableRESTMapper
	expand  meta.RESTMapper
	client  dynamic.Interface
	// metadata reads of objects what all have.
	metadata metadata.Interface
}

// openObjects opens connections of its own, which close ends: client-go would keep them, and their certificate,
// forever.
func openObjects(cluster string, config *rest.Config) (*objects, error) {
	connections, err := client.HTTP(config, cluster)
	if err != nil {
		return nil, err
	}
	o := &objects{cluster: cluster, http: connections}
	d, err := client.NewDiscovery(config, o.http)
	if err != nil {
		return nil, err
	}
	cached := discovered.NewMemCacheClient(d)
	o.mapper = restmapper.NewDeferredDiscoveryRESTMapper(cached)
	o.expand = restmapper.NewShortcutExpander(o.mapper, cached, func(string) {})
	if o.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(config), o.http); err != nil {
		return nil, err
	}
	o.client, err = dynamic.NewForConfigAndClient(config, o.http)
	return o, err
}

func (o *objects) close() { utilnet.CloseIdleConnectionsFor(o.http.Transport) }

// kind is a type of object of a cluster.
type kind struct {
	*meta.RESTMapping
	singular string // "daemonset"
}

func (k kind) namespaced() bool { return k.Scope.Name() == meta.RESTScopeNameNamespace }

// resolveKind returns the type that a word means: a plural, a singular or a short name, with its version and group if
// need be.
func (o *objects) resolveKind(word string) (kind, error) {
	word = strings.ToLower(word)
	full, group := schema.ParseResourceArg(word)
	var resource schema.GroupVersionResource
	err := error(&meta.NoResourceMatchError{})
	if full != nil {
		resource, err = o.expand.ResourceFor(*full)
	}
	if meta.IsNoMatchError(err) {
		resource, err = o.expand.ResourceFor(group.WithVersion(""))
	}
	if meta.IsNoMatchError(err) {
		return kind{}, &admin.Refused{
			Reason: fmt.Sprintf(
				"cluster %s has no type %q: name it as for kubectl, such as daemonset, deploy or boats.harbour.example "+
					"(kubectl api-resources lists them)",
				o.cluster,
				word,
			),
		}
	}
	if err != nil {
		return kind{}, fmt.Errorf("what type %q is to cluster %s: %w", word, o.cluster, err)
	}
	return o.mapping(resource)
}

// kindForObject returns the type of an object.
func (o *objects) kindForObject(apiVersion, name string) (kind, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return kind{}, err
	}
	m, err := o.expand.RESTMapping(gv.WithKind(name).GroupKind(), gv.Version)
	if err != nil {
		return kind{}, err
	}
	return o.kindFromMapping(m), nil
}

func (o *objects) mapping(resource schema.GroupVersionResource) (kind, error) {
	gvk, err := o.expand.KindFor(resource)
	if err != nil {
		return kind{}, err
	}
	m, err := o.expand.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return kind{}, err
	}
	return o.kindFromMapping(m), nil
}

func (o *objects) kindFromMapping(m *meta.RESTMapping) kind {
	return kind{m, strings.ToLower(m.GroupVersionKind.Kind)}
}

// getObject returns an object with its managed fields; nil when there is none.
func (o *objects) getObject(ctx context.Context, k kind, namespace, name string) (map[string]any, error) {
	got, err := o.resource(k, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s of cluster %s: %w", k.singular, name, o.cluster, err)
	}
	return got.Object, nil
}

func (o *objects) resource(k kind, namespace string) dynamic.ResourceInterface {
	if k.namespaced() {
		return o.client.Resource(k.Resource).Namespace(namespace)
	}
	return o.client.Resource(k.Resource)
}

// missing returns an error that says in which namespaces there is an object of that name.
func (o *objects) missing(ctx context.Context, k kind, namespace, name string) error {
	if !k.namespaced() {
		return &admin.Refused{Reason: fmt.Sprintf("there is no %s %s in cluster %s", k.singular, name, o.cluster)}
	}
	reason := fmt.Sprintf("there is no %s %s in namespace %s of cluster %s", k.singular, name, namespace, o.cluster)
	var others []string
	named := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	_, err := client.EachPage(ctx, named, o.metadata.Resource(k.Resource).List,
		func(page *metav1.PartialObjectMetadataList) {
			for _, other := range page.Items {
				others = append(others, "-n "+other.Namespace)
			}
		})
	if err != nil {
		return errors.Join(&admin.Refused{Reason: reason}, err)
	}
	if slices.Sort(others); len(others) > 0 {
		reason += "; there is one with " + strings.Join(others, ", ")
	}
	return &admin.Refused{Reason: reason}
}
