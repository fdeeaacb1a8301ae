package addon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// server is a cluster's API server to eks:addon-manager, with what it says of the objects of the cluster's add-ons.
//
// What add-ons own is watched by kind and namespace, over one connection for all of them: of most objects only the
// metadata, which say whether the owner of a field has changed; of those that run pods the status, too. Nothing is
// asked for again while nothing changes.
type server struct {
	*requester
	meta    metadata.Interface
	full    dynamic.Interface
	changed func(key string) // wakes an add-on
	lost    chan error       // why the connection is of no more use

	mu          sync.Mutex
	ctx         context.Context // of the connection; no watch begins once it has ended
	running     conc.WaitGroup
	wants       map[string][]want // by the keys of add-ons
	collections map[collection]*watched
}

// serving reports whether the connection can be used.
func (s *server) serving() bool { return s.ctx.Err() == nil }

// collection is a collection of watched objects: a kind, in a namespace if it has them.
type collection struct {
	schema.GroupVersionResource
	namespace string
}

// want is an object that an add-on has.
type want struct {
	collection
	name string
}

// watched is the state of the watch of a collection.
type watched struct {
	stop context.CancelFunc
	// known reports that all its objects are; err is why they are not.
	known   bool
	err     error
	objects map[string]seen
}

// seen is the last known state of an object.
type seen struct {
	uid         types.UID
	eks, others string // fingerprints of who owns its fields
	deleting    bool
	workload    *workload // nil for what runs no pods
}

// serveCluster watches until ctx ends or the API server goes away, and calls open once it serves.
func (e *engine) serveCluster(ctx context.Context, k *apiserver.Connection, open func(*server),
	changed func(string)) error {
	r, err := newRequester(k.Config, k.Cluster.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := r.ServerVersion(ctx); err != nil {
		return err
	}
	s := &server{requester: r, changed: changed, lost: make(chan error, 1), wants: map[string][]want{},
		collections: map[collection]*watched{}}
	if s.meta, err = metadata.NewForConfigAndClient(metadata.ConfigFor(k.Config), k.HTTP); err != nil {
		return err
	}
	if s.full, err = dynamic.NewForConfigAndClient(dynamic.ConfigFor(k.Config), k.HTTP); err != nil {
		return err
	}
	all := func() {
		for _, key := range e.addonsOfCluster(k.Key) {
			changed(key)
		}
	}
	within, stop := context.WithCancel(ctx)
	defer func() {
		s.mu.Lock()
		stop()
		s.mu.Unlock()
		s.running.Wait()
		all() // they are cut off
	}()
	s.ctx = within
	// Namespaces come and go under add-ons; and that the API server goes away is noticed here if nothing else is
	// watched.
	s.mu.Lock()
	s.startWatch(collection{GroupVersionResource: namespaces})
	s.mu.Unlock()
	open(s)
	all()
	select {
	case err := <-s.lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// watchObjects sets the objects of an add-on to watch. A change of one wakes the add-on. There are none when the add-on
// is gone.
func (s *server) watchObjects(key string, objects []record.AddonObject) error {
	var all []want
	for _, o := range objects {
		m, err := s.mapping(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
		if errors.Is(err, errNoKind) {
			continue // whoever applies it says so
		}
		if err != nil {
			return problemOf(o, err)
		}
		w := want{collection{GroupVersionResource: m.Resource}, o.Name}
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			w.namespace = o.Namespace
		}
		all = append(all, w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(s.wants[key], all) {
		return nil
	}
	if len(all) == 0 {
		delete(s.wants, key)
	} else {
		s.wants[key] = all
	}
	needed := map[collection]bool{{GroupVersionResource: namespaces}: true}
	for _, wants := range s.wants {
		for _, w := range wants {
			needed[w.collection] = true
			s.startWatch(w.collection)
		}
	}
	for at, w := range s.collections {
		if !needed[at] {
			w.stop()
			delete(s.collections, at)
		}
	}
	return nil
}

// findObject returns the observed state of an object. known is false until its collection is watched; err tells why
// when there is a reason.
func (s *server) findObject(o record.AddonObject) (is seen, there, known bool, err error) {
	m, err := s.mapping(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	if err != nil {
		return seen{}, false, false, err
	}
	at := collection{GroupVersionResource: m.Resource}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		at.namespace = o.Namespace
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.collections[at]
	if !ok || !w.known {
		if ok {
			err = w.err
		}
		return seen{}, false, false, err
	}
	is, there = w.objects[o.Name]
	return is, there, true, nil
}

// startWatch starts the watch of a collection, unless there is one. It is called with mu held.
func (s *server) startWatch(at collection) {
	if s.collections[at] != nil || s.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(s.ctx)
	w := &watched{stop: stop, objects: map[string]seen{}}
	s.collections[at] = w
	s.running.Go(func() {
		defer stop()
		err := recovery.Try(func() error { return s.watchCollection(ctx, at, w) })
		if ctx.Err() == nil {
			select {
			case s.lost <- err:
			default: // it is known already
			}
		}
	})
}

// watchCollection watches a collection until ctx ends or the API server goes away, and returns why.
func (s *server) watchCollection(ctx context.Context, at collection, w *watched) error {
	// Before what cannot be watched is tried again, because its kind is not defined or the user may not.
	backoff := kubeclient.Backoff{First: time.Second, Most: 15 * time.Second}
	for {
		began := time.Now()
		err := s.listAndWatch(ctx, at, w)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError {
			return err
		}
		// What is known of the objects holds until they are listed again if all that is wrong is that time has passed.
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			s.mu.Lock()
			w.known, w.err = false, err
			s.mu.Unlock()
			s.wakeAddons(at, "")
		}
		if err := kubeclient.Sleep(ctx, backoff.After(time.Since(began))); err != nil {
			return err
		}
	}
}

// listAndWatch lists and watches a collection until its watch ends for good.
func (s *server) listAndWatch(ctx context.Context, at collection, w *watched) error {
	found := map[string]seen{}
	var from string
	var err error
	var next func() error
	if at.Group == "apps" { // their status tells
		client := s.full.Resource(at.GroupVersionResource).Namespace(at.namespace)
		from, err = kubeclient.EachPage(ctx, metav1.ListOptions{}, client.List,
			func(page *unstructured.UnstructuredList) {
				for i := range page.Items {
					found[page.Items[i].GetName()] = summarize(&page.Items[i], workloadOf(&page.Items[i]))
				}
			})
		if err != nil {
			return err
		}
		next = func() error {
			return kubeclient.Watch(ctx, at.Resource, from, client.Watch, metav1.ListOptions{},
				func(what kubewatch.EventType, o *unstructured.Unstructured) error {
					return s.handleEvent(at, w, what, o.GetName(), summarize(o, workloadOf(o)))
				})
		}
	} else {
		client := s.meta.Resource(at.GroupVersionResource).Namespace(at.namespace)
		from, err = kubeclient.EachPage(ctx, metav1.ListOptions{}, client.List,
			func(page *metav1.PartialObjectMetadataList) {
				for i := range page.Items {
					found[page.Items[i].Name] = summarize(&page.Items[i], nil)
				}
			})
		if err != nil {
			return err
		}
		next = func() error {
			return kubeclient.Watch(ctx, at.Resource, from, client.Watch, metav1.ListOptions{},
				func(what kubewatch.EventType, o *metav1.PartialObjectMetadata) error {
					return s.handleEvent(at, w, what, o.Name, summarize(o, nil))
				})
		}
	}
	s.mu.Lock()
	w.objects, w.known, w.err = found, true, nil
	s.mu.Unlock()
	s.wakeAddons(at, "")
	return next()
}

func summarize(o metav1.Object, w *workload) seen {
	is := seen{uid: o.GetUID(), deleting: o.GetDeletionTimestamp() != nil, workload: w}
	is.eks, is.others = fingerprints(o)
	if w != nil {
		w.selector = nil     // only who asks for the pods needs it, and asks for the object then
		if w.Failure != "" { // likewise
			sum := sha256.Sum256([]byte(w.Failure))
			w.Failure = hex.EncodeToString(sum[:12])
		}
	}
	return is
}

// handleEvent records a watch event of an object, and wakes the add-ons that have the object when the change concerns
// them.
func (s *server) handleEvent(at collection, w *watched, what kubewatch.EventType, name string, is seen) error {
	s.mu.Lock()
	was, there := w.objects[name]
	if !there && len(w.objects) >= kubeclient.MaxObjects {
		s.mu.Unlock()
		return fmt.Errorf("there are more than %d %s, %w", kubeclient.MaxObjects, at.Resource, kubeclient.ErrTooLarge)
	}
	changed := !there || what == kubewatch.Deleted || differs(was, is)
	if what == kubewatch.Deleted {
		delete(w.objects, name)
	} else {
		w.objects[name] = is
	}
	s.mu.Unlock()
	if changed {
		s.wakeAddons(at, name)
	}
	return nil
}

func differs(a, b seen) bool {
	if (a.workload == nil) != (b.workload == nil) || a.workload != nil && *a.workload != *b.workload {
		return true
	}
	return a.uid != b.uid || a.eks != b.eks || a.others != b.others || a.deleting != b.deleting
}

// wakeAddons wakes the add-ons that have an object of that name in a collection, or any object when it is empty. What
// happens to a namespace concerns all in it.
func (s *server) wakeAddons(at collection, name string) {
	s.mu.Lock()
	var keys []string
	for key, wants := range s.wants {
		if slices.ContainsFunc(wants, func(w want) bool {
			return w.collection == at && (name == "" || w.name == name) || at.GroupVersionResource == namespaces &&
				w.namespace == name && name != ""
		}) {
			keys = append(keys, key)
		}
	}
	s.mu.Unlock()
	for _, key := range keys {
		s.changed(key)
	}
}
