package networkpolicyagent

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// connectCluster returns the objects of the cluster, as the service account of the pod.
func connectCluster() (dynamic.Interface, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = "aws-network-policy-agent"
	connections, err := kubeclient.HTTP(config, "of the node")
	if err != nil {
		return nil, err
	}
	return dynamic.NewForConfigAndClient(config, connections)
}

// resource is one that the agent mirrors.
type resource[T any] struct {
	objects dynamic.NamespaceableResourceInterface
	what    string
	// of returns where the state has the objects.
	of func(*state) *map[podRef]*T
}

func policyEndpoints(objects dynamic.Interface) resource[networkpolicy.PolicyEndpoint] {
	return resource[networkpolicy.PolicyEndpoint]{objects.Resource(networkpolicy.PolicyEndpoints), "PolicyEndpoint",
		func(s *state) *map[podRef]*networkpolicy.PolicyEndpoint { return &s.endpoints }}
}

func clusterPolicyEndpoints(objects dynamic.Interface) resource[networkpolicy.ClusterPolicyEndpoint] {
	return resource[networkpolicy.ClusterPolicyEndpoint]{objects.Resource(networkpolicy.ClusterPolicyEndpoints),
		"ClusterPolicyEndpoint",
		func(s *state) *map[podRef]*networkpolicy.ClusterPolicyEndpoint { return &s.cluster }}
}

// lookAgain is the interval at which a cluster is asked whether it has the resource by now.
const lookAgain = time.Minute

// follow mirrors the objects until ctx ends.
func (r resource[T]) follow(ctx context.Context, s *state) {
	backoff := kubeclient.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}
	for ctx.Err() == nil {
		began := s.clock.Now()
		err := r.followOnce(ctx, s)
		if ctx.Err() != nil {
			return
		}
		wait := backoff.After(s.clock.Since(began))
		if apierrors.IsNotFound(err) {
			r.missing(s)
			wait = lookAgain
		}
		s.log.Errorf("The watch of %s objects has ended, starting again in %s: %v", r.what, wait, err)
		_ = kubeclient.Sleep(ctx, wait) // the loop asks ctx
	}
}

// missing says that the cluster does not have the resource. What is known stays: objects that go with their resource
// are deleted one by one, and it may be about to be made anew.
func (r resource[T]) missing(s *state) {
	s.change(func() {
		if *r.of(s) == nil {
			*r.of(s) = map[podRef]*T{}
		}
	})
}

func (r resource[T]) followOnce(ctx context.Context, s *state) error {
	ctx = kubeclient.WithPartial(ctx)
	all := map[podRef]*T{}
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, r.objects.List,
		func(page *unstructured.UnstructuredList) {
			for i := range page.Items {
				at := refOf(&page.Items[i])
				if kubeclient.IsPartial(&page.Items[i]) {
					all[at] = nil
				} else if e := decode[T](s, &page.Items[i]); e != nil {
					all[at] = e
				}
			}
		})
	if err != nil {
		return err
	}
	s.change(func() {
		was := *r.of(s)
		for at, e := range all { // of what is too large to be read, what is known stays
			if e != nil {
				continue
			}
			if all[at] = was[at]; all[at] == nil {
				delete(all, at)
			}
		}
		*r.of(s) = all
	})
	return kubeclient.Watch(ctx, r.what+" objects", from, r.objects.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, o *unstructured.Unstructured) error {
			at := refOf(o)
			if what == kubewatch.Deleted {
				s.log.Infof("Clean Up %s resources for name: %s Namespace %s", r.what, at.Name, at.Namespace)
				s.change(func() { delete(*r.of(s), at) })
				return nil
			}
			if kubeclient.IsPartial(o) {
				s.log.Errorf("Skipping %s %s/%s: it is too large to be read", r.what, at.Namespace, at.Name)
				return nil // what the pods have stays
			}
			e := decode[T](s, o)
			if e == nil {
				return nil
			}
			s.log.Infof("Processing %s Name: %s Namespace %s", r.what, at.Name, at.Namespace)
			s.change(func() { (*r.of(s))[at] = e })
			return nil
		})
}

func refOf(o *unstructured.Unstructured) podRef {
	return podRef{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// decode returns an object; nil for one that is none, which a later version of the resource may have.
func decode[T any](s *state, o *unstructured.Unstructured) *T {
	o.SetManagedFields(nil)
	e := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, e); err != nil {
		s.log.Errorf("Skipping %s %s/%s: %v", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		return nil
	}
	return e
}
