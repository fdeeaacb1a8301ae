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
	return &client{cluster: k.Cluster, core: core, policies: policies, objects: objects, view: newView()}, nil
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

// notify sends the key of a policy.
type notify func(ctx context.Context, at types.NamespacedName) error

// errSwitched ends a connection, after which another begins in the other way.
var errSwitched = fmt.Errorf("%s of ConfigMap %s/%s has changed", configKey, configNamespace, configName)

// follow mirrors what policies are about until the API server goes away, or enforcement is switched on or off. It calls
// known once it has everything, and tell with each policy that a change concerns after that.
func (k *client) follow(ctx context.Context, tell notify, known func()) error {
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
	group := recovery.Group(ctx)
	group.Go(func(ctx context.Context) error {
		return kubeclient.Watch(ctx, "ConfigMap "+configName, from, configs.Watch, only,
			func(what kubewatch.EventType, m *corev1.ConfigMap) error {
				if enabled := what != kubewatch.Deleted && m.Data[configKey] == "true"; enabled != k.enabled {
					return errSwitched
				}
				return nil
			})
	})
	lists := []func(ctx context.Context, listed func() error, tell notify) error{k.followPolicies, k.followClusterPolicies}
	if k.enabled {
		lists = append(lists, k.followNamespaces, k.followPods, k.followServices, k.followEndpoints,
			k.followClusterEndpoints)
	}
	var remaining atomic.Int32
	remaining.Store(int32(len(lists)))
	listed := func(ctx context.Context) func() error {
		return func() error {
			if remaining.Add(-1) > 0 {
				return nil
			}
			known() // before anything is told: whoever reconciles needs the connection
			for _, at := range k.view.allPolicies() {
				if err := tell(ctx, at); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, follow := range lists {
		group.Go(func(ctx context.Context) error { return follow(ctx, listed(ctx), tell) })
	}
	return group.Wait()
}

// tellAll sends the keys of policies.
func (t notify) tellAll(ctx context.Context, all []types.NamespacedName) error {
	for _, at := range all {
		if err := t(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

func (k *client) followPolicies(ctx context.Context, listed func() error, tell notify) error {
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
	if err := listed(); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "network policies", from, policies.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, p *networkingv1.NetworkPolicy) error {
			at := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			if what == kubewatch.Deleted {
				k.view.removePolicy(at)
				return nil
			}
			if err := k.view.setPolicy(p); err != nil {
				return err
			}
			return tell(ctx, at)
		})
}

func (k *client) followNamespaces(ctx context.Context, listed func() error, tell notify) error {
	namespaces := k.core.Namespaces()
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, namespaces.List, func(page *corev1.NamespaceList) {
		for i := range page.Items {
			_, err := k.view.setNamespace(page.Items[i].Name, page.Items[i].Labels)
			failed = errors.Join(failed, err)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if err := listed(); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "namespaces", from, namespaces.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, n *corev1.Namespace) error {
			if what == kubewatch.Deleted {
				return tell.tellAll(ctx, k.view.removeNamespace(n.Name))
			}
			concerned, err := k.view.setNamespace(n.Name, n.Labels)
			if err != nil {
				return err
			}
			return tell.tellAll(ctx, concerned)
		})
}

func (k *client) followPods(ctx context.Context, listed func() error, tell notify) error {
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
	if err := listed(); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "pods", from, pods.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, p *corev1.Pod) error {
			if what == kubewatch.Deleted {
				return tell.tellAll(ctx, k.view.removePod(p.Namespace, p.Name))
			}
			concerned, err := k.view.setPod(trimPod(p))
			if err != nil {
				return err
			}
			return tell.tellAll(ctx, concerned)
		})
}

func (k *client) followServices(ctx context.Context, listed func() error, tell notify) error {
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
	if err := listed(); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "services", from, services.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, s *corev1.Service) error {
			if what == kubewatch.Deleted {
				return tell.tellAll(ctx, k.view.removeService(s.Namespace, s.Name))
			}
			concerned, err := k.view.setService(trimService(s))
			if err != nil {
				return err
			}
			return tell.tellAll(ctx, concerned)
		})
}

// followEndpoints mirrors PolicyEndpoints: what somebody else changes or deletes is written again.
func (k *client) followEndpoints(ctx context.Context, listed func() error, tell notify) error {
	endpoints := k.objects.Resource(networkpolicy.PolicyEndpoints)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, endpoints.List,
		func(page *unstructured.UnstructuredList) {
			for i := range page.Items {
				e, err := decodeEndpoint(&page.Items[i])
				if err == nil {
					err = k.view.setEndpoint(e)
				}
				failed = errors.Join(failed, err)
			}
		})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if err := listed(); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "policy endpoints", from, endpoints.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, o *unstructured.Unstructured) error {
			e, err := decodeEndpoint(o)
			if err != nil {
				return err
			}
			if what == kubewatch.Deleted {
				k.view.removeEndpoint(e)
			} else if err := k.view.setEndpoint(e); err != nil {
				return err
			}
			return tell(ctx, policyOf(e))
		})
}

func decodeEndpoint(o *unstructured.Unstructured) (*networkpolicy.PolicyEndpoint, error) {
	o.SetManagedFields(nil)
	e := new(networkpolicy.PolicyEndpoint)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, e); err != nil {
		return nil, fmt.Errorf("policy endpoint %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return e, nil
}

// policyOf returns the policy that an object belongs to.
func policyOf(e *networkpolicy.PolicyEndpoint) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.PolicyRef.Name}
}
