package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingclient "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// Where the add-on vpc-cni says whether policies are enforced.
const (
	configNamespace = "kube-system"
	configName      = "amazon-vpc-cni"
	configKey       = "enable-network-policy-controller"
)

// client reaches one cluster's API server, and has what it said.
type client struct {
	cluster  record.Cluster
	core     corev1client.CoreV1Interface
	policies networkingclient.NetworkPoliciesGetter
	objects  dynamic.Interface
	// enabled is set for a cluster that enforces policies. Without, policies are let go only.
	enabled bool
	view    *view
	untold  *untold
}

func newClient(k *apiserver.Connection) (*client, error) {
	core, err := corev1client.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	policies, err := networkingclient.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return nil, err
	}
	return &client{cluster: k.Cluster, core: core, policies: policies, objects: objects, view: newView(),
		untold: newUntold()}, nil
}

// watch sends the keys of the policies of all clusters until ctx ends: the existing ones, then those that a change
// concerns.
func (c *Controller) watch(ctx context.Context, changed func(ctx context.Context, key string) error) {
	c.servers.Follow(ctx, func(ctx context.Context, connection *apiserver.Connection, open func(*client)) error {
		k, err := newClient(connection)
		if err != nil {
			return err
		}
		return k.follow(ctx, func(ctx context.Context, at types.NamespacedName) error {
			return changed(ctx, store.Key(append(store.Parts(connection.Key), at.Namespace, at.Name)...))
		}, func() { open(k) })
	})
}

// errSwitched ends a connection, after which another begins in the other way.
var errSwitched = fmt.Errorf("%s of ConfigMap %s/%s has changed", configKey, configNamespace, configName)

// follow mirrors what policies are about until the API server goes away, or enforcement is switched on or off. It calls
// known once it has everything, and told with all policies, and then with each that a change concerns. The mirror never
// waits for it, as all policies of the cluster depend on the mirror.
func (k *client) follow(ctx context.Context, told func(context.Context, types.NamespacedName) error,
	known func()) error {
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", configName).String()}
	configs := k.core.ConfigMaps(configNamespace)
	from, err := kubeclient.EachPage(ctx, only, configs.List, func(page *corev1.ConfigMapList) {
		for i := range page.Items {
			k.enabled = page.Items[i].Data[configKey] == "true"
		}
	})
	if err != nil {
		return err
	}
	group := recovery.Group(kubeclient.WithPartial(ctx)) // one object must not end the mirror
	group.Go(func(ctx context.Context) error {
		return kubeclient.Watch(ctx, "ConfigMap "+configName, from, configs.Watch, only,
			func(what kubewatch.EventType, m *corev1.ConfigMap) error {
				if what != kubewatch.Deleted && kubeclient.IsPartial(m) {
					return nil // what it said stays
				}
				if enabled := what != kubewatch.Deleted && m.Data[configKey] == "true"; enabled != k.enabled {
					return errSwitched
				}
				return nil
			})
	})
	lists := []func(ctx context.Context, listed func()) error{k.followPolicies, k.followClusterPolicies}
	if k.enabled {
		lists = append(lists, k.followNamespaces, k.followPods, k.followServices, k.followEndpoints,
			k.followClusterEndpoints)
	}
	var remaining atomic.Int32
	remaining.Store(int32(len(lists)))
	complete := make(chan struct{})
	listed := func() {
		if remaining.Add(-1) == 0 {
			close(complete)
		}
	}
	for _, follow := range lists {
		group.Go(func(ctx context.Context) error { return follow(ctx, listed) })
	}
	group.Go(func(ctx context.Context) error {
		select {
		case <-complete:
		case <-ctx.Done():
			return ctx.Err()
		}
		known() // before anything is told: whoever reconciles needs the connection
		k.untold.add(k.view.allPolicies()...)
		return k.untold.tell(ctx, told)
	})
	return group.Wait()
}

func (k *client) followPolicies(ctx context.Context, listed func()) error {
	policies := k.policies.NetworkPolicies(metav1.NamespaceAll)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, policies.List,
		func(page *networkingv1.NetworkPolicyList) {
			for i := range page.Items {
				failed = errors.Join(failed, k.view.setPolicy(page.Items[i].DeepCopy()))
			}
		})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listed()
	return kubeclient.Watch(ctx, "network policies", from, policies.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, p *networkingv1.NetworkPolicy) error {
			at := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			if what == kubewatch.Deleted {
				k.view.removePolicy(at)
				k.untold.remove(at)
				return nil
			}
			if err := k.view.setPolicy(p); err != nil {
				return err
			}
			k.untold.add(at)
			return nil
		})
}

func (k *client) followNamespaces(ctx context.Context, listed func()) error {
	namespaces := k.core.Namespaces()
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, namespaces.List, func(page *corev1.NamespaceList) {
		for i := range page.Items {
			_, err := k.view.putNamespace(page.Items[i].Name, trimNamespace(&page.Items[i]))
			failed = errors.Join(failed, err)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listed()
	return kubeclient.Watch(ctx, "namespaces", from, namespaces.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, n *corev1.Namespace) error {
			if what == kubewatch.Deleted {
				k.untold.add(k.view.removeNamespace(n.Name)...)
				return nil
			}
			concerned, err := k.view.putNamespace(n.Name, trimNamespace(n))
			if err != nil {
				return err
			}
			k.untold.add(concerned...)
			return nil
		})
}

func (k *client) followPods(ctx context.Context, listed func()) error {
	pods := k.core.Pods(metav1.NamespaceAll)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, pods.List, func(page *corev1.PodList) {
		for i := range page.Items {
			_, err := k.view.setPod(trimPod(&page.Items[i]))
			failed = errors.Join(failed, err)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listed()
	return kubeclient.Watch(ctx, "pods", from, pods.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, p *corev1.Pod) error {
			if what == kubewatch.Deleted {
				k.untold.add(k.view.removePod(p.Namespace, p.Name)...)
				return nil
			}
			concerned, err := k.view.setPod(trimPod(p))
			if err != nil {
				return err
			}
			k.untold.add(concerned...)
			return nil
		})
}

func (k *client) followServices(ctx context.Context, listed func()) error {
	services := k.core.Services(metav1.NamespaceAll)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, services.List, func(page *corev1.ServiceList) {
		for i := range page.Items {
			_, err := k.view.setService(trimService(&page.Items[i]))
			failed = errors.Join(failed, err)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listed()
	return kubeclient.Watch(ctx, "services", from, services.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, s *corev1.Service) error {
			if what == kubewatch.Deleted {
				k.untold.add(k.view.removeService(s.Namespace, s.Name)...)
				return nil
			}
			concerned, err := k.view.setService(trimService(s))
			if err != nil {
				return err
			}
			k.untold.add(concerned...)
			return nil
		})
}

// followEndpoints mirrors PolicyEndpoints: what somebody else changes or deletes is written again.
func (k *client) followEndpoints(ctx context.Context, listed func()) error {
	endpoints := k.objects.Resource(networkpolicy.PolicyEndpoints)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, endpoints.List,
		func(page *unstructured.UnstructuredList) {
			for i := range page.Items {
				if e := decodeEndpoint(&page.Items[i]); e != nil {
					failed = errors.Join(failed, k.view.setEndpoint(e))
				}
			}
		})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listed()
	return kubeclient.Watch(ctx, "policy endpoints", from, endpoints.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, o *unstructured.Unstructured) error {
			e, id := decodeEndpoint(o), types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
			if what == kubewatch.Deleted || e == nil {
				return k.endpointChanged(id, nil)
			}
			return k.endpointChanged(id, func() error { return k.view.setEndpoint(e) })
		})
}

// endpointChanged calls set for an endpoint that has changed, or removes it when that is nil. It has the policies told
// whose endpoint it was, and is, as far as there are any.
func (k *client) endpointChanged(id types.NamespacedName, set func() error) error {
	was, had := k.view.ownerOf(id)
	if set == nil {
		k.view.removeEndpoint(id)
	} else if err := set(); err != nil {
		return err
	}
	if is, has := k.view.ownerOf(id); has && k.view.has(is) {
		k.untold.addSoon(is)
	}
	if had && k.view.has(was) {
		k.untold.addSoon(was)
	}
	return nil
}

// decodeEndpoint returns an object; nil when it is none of a policy.
func decodeEndpoint(o *unstructured.Unstructured) *networkpolicy.PolicyEndpoint {
	e := new(networkpolicy.PolicyEndpoint)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, e) != nil || !isName(e.Spec.PolicyRef.Name) {
		return nil
	}
	e.ObjectMeta = trimEndpoint(e.ObjectMeta)
	return e
}

// isName reports whether a policy may have that name.
func isName(name string) bool { return kubeclient.IsPossible(&metav1.ObjectMeta{Name: name}) }

// trimEndpoint returns what is kept of the metadata of an object: what is needed to change it, and what the controller
// itself has noted.
func trimEndpoint(m metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	if at, ok := m.Annotations[triggerTime]; ok {
		out.Annotations = map[string]string{triggerTime: at}
	}
	return out
}

// policyOf returns the policy that an object belongs to.
func policyOf(e *networkpolicy.PolicyEndpoint) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.PolicyRef.Name}
}
