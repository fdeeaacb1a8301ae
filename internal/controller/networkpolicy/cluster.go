package networkpolicy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubewatch "k8s.io/apimachinery/pkg/watch"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// clusterFinalizer keeps a ClusterNetworkPolicy until its ClusterPolicyEndpoints are deleted.
const clusterFinalizer = "networking.k8s.aws/cnp-resources"

// clusterPolicy is a policy of the whole cluster with its selectors parsed.
type clusterPolicy struct {
	*networkpolicy.ClusterNetworkPolicy
	subject         peer
	ingress, egress [][]peer // by rule
	size            int
}

// resolvedCluster is what such a policy comes to.
type resolvedCluster struct {
	ingress, egress []networkpolicy.ClusterEndpointInfo
	pods            []networkpolicy.PodEndpoint
}

func parseSubject(s networkpolicy.ClusterSubject) (p peer, err error) {
	p.pods = labels.Everything()
	switch {
	case s.Namespaces != nil:
		p.namespaces, err = metav1.LabelSelectorAsSelector(s.Namespaces)
	case s.Pods != nil:
		if p.namespaces, err = metav1.LabelSelectorAsSelector(&s.Pods.NamespaceSelector); err == nil {
			p.pods, err = metav1.LabelSelectorAsSelector(&s.Pods.PodSelector)
		}
	default: // of a version of the resource that is not known here
		p.namespaces, p.pods = labels.Nothing(), labels.Nothing()
	}
	return p, err
}

func parseClusterPolicy(o *unstructured.Unstructured) (*clusterPolicy, error) {
	o.SetManagedFields(nil)
	o.SetAnnotations(nil)
	p := new(networkpolicy.ClusterNetworkPolicy)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p); err != nil {
		return nil, err
	}
	out := &clusterPolicy{ClusterNetworkPolicy: p}
	content, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	out.size = 4 * len(content)
	if out.subject, err = parseSubject(p.Spec.Subject); err != nil {
		return nil, err
	}
	for _, rule := range p.Spec.Ingress {
		var peers []peer
		for _, from := range rule.From {
			x, err := parseSubject(from)
			if err != nil {
				return nil, err
			}
			peers = append(peers, x)
		}
		out.ingress = append(out.ingress, peers)
	}
	for _, rule := range p.Spec.Egress {
		var peers []peer
		for _, to := range rule.To {
			for _, block := range to.Networks {
				peers = append(peers, peer{block: &networkingv1.IPBlock{CIDR: block}})
			}
			if len(to.Networks)+len(to.DomainNames) > 0 {
				continue
			}
			x, err := parseSubject(to.ClusterSubject)
			if err != nil {
				return nil, err
			}
			peers = append(peers, x)
		}
		out.egress = append(out.egress, peers)
	}
	return out, nil
}

// toPolicyPorts returns the ports as those of a NetworkPolicy.
func toPolicyPorts(ports []networkpolicy.ClusterPort) (all []networkingv1.NetworkPolicyPort) {
	for _, p := range ports {
		switch {
		case p.PortNumber != nil:
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: &p.PortNumber.Protocol,
				Port: new(intstr.FromInt32(p.PortNumber.Port))})
		case p.PortRange != nil:
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: &p.PortRange.Protocol,
				Port: new(intstr.FromInt32(p.PortRange.Start)), EndPort: &p.PortRange.End})
		case p.NamedPort != nil:
			all = append(all, networkingv1.NetworkPolicyPort{Port: new(intstr.FromString(*p.NamedPort))})
		}
	}
	return all
}

// resolveCluster returns what a policy comes to, and the ClusterPolicyEndpoints that there are for it.
func (v *view) resolveCluster(name string) (out resolvedCluster, existing []*networkpolicy.ClusterPolicyEndpoint) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p := v.clusterPolicies[name]
	if p == nil {
		return out, nil
	}
	selected := v.podsOf("", p.subject)
	for i, rule := range p.Spec.Ingress {
		if len(p.ingress[i]) > 0 {
			out.ingress = append(out.ingress, withAction(rule.Action,
				v.resolveIngress("", toPolicyPorts(rule.Ports), p.ingress[i], selected))...)
		}
	}
	for i, rule := range p.Spec.Egress {
		if len(p.egress[i]) > 0 {
			out.egress = append(out.egress, withAction(rule.Action,
				v.resolveEgress("", toPolicyPorts(rule.Ports), p.egress[i]))...)
		}
	}
	out.ingress, out.egress, out.pods = uniqueEntries(out.ingress), uniqueEntries(out.egress), toEndpoints(selected)
	return out, v.sortedClusterEndpoints(name)
}

func withAction(action networkpolicy.Action, all []networkpolicy.EndpointInfo) (
	out []networkpolicy.ClusterEndpointInfo) {
	for _, e := range combine(all) {
		out = append(out, networkpolicy.ClusterEndpointInfo{CIDR: e.CIDR, Ports: e.Ports, Action: action})
	}
	return out
}

func uniqueEntries(all []networkpolicy.ClusterEndpointInfo) []networkpolicy.ClusterEndpointInfo {
	slices.SortFunc(all, func(a, b networkpolicy.ClusterEndpointInfo) int {
		return cmp.Compare(identify(a), identify(b))
	})
	return slices.CompactFunc(all, func(a, b networkpolicy.ClusterEndpointInfo) bool { return identify(a) == identify(b) })
}

func (v *view) sortedClusterEndpoints(name string) []*networkpolicy.ClusterPolicyEndpoint {
	return slices.SortedFunc(maps.Values(v.clusterEndpoints[name]), func(a, b *networkpolicy.ClusterPolicyEndpoint) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

// ofCluster is the key of a policy of the whole cluster.
func ofCluster(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// concernedCluster returns the policies of the whole cluster of which a condition is true.
func (v *view) concernedCluster(by func(p *clusterPolicy) bool) (all []types.NamespacedName) {
	for name, p := range v.clusterPolicies {
		if by(p) {
			all = append(all, ofCluster(name))
		}
	}
	return all
}

// selects reports whether the subject or a peer of a policy has a pod.
func (v *view) selects(p *clusterPolicy, s *pod) bool {
	has := func(x peer) bool {
		set, there := v.namespaces[s.namespace]
		return x.block == nil && there && x.namespaces.Matches(set) && x.pods.Matches(s.labels)
	}
	return has(p.subject) || slices.ContainsFunc(slices.Concat(p.ingress, p.egress),
		func(rule []peer) bool { return slices.ContainsFunc(rule, has) })
}

func (v *view) setClusterPolicy(p *clusterPolicy) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	objects, size := 1, p.size
	if was := v.clusterPolicies[p.Name]; was != nil {
		objects, size = 0, size-was.size
	}
	v.clusterPolicies[p.Name] = p
	return v.count(objects, size)
}

func (v *view) removeClusterPolicy(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if was := v.clusterPolicies[name]; was != nil {
		_ = v.count(-1, -was.size)
		delete(v.clusterPolicies, name)
	}
}

func (v *view) clusterPolicy(name string) *clusterPolicy {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.clusterPolicies[name]
}

func (v *view) setClusterEndpoint(e *networkpolicy.ClusterPolicyEndpoint) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := e.Spec.PolicyRef.Name
	if v.clusterEndpoints[of] == nil {
		v.clusterEndpoints[of] = map[string]*networkpolicy.ClusterPolicyEndpoint{}
	}
	objects, size := 1, sizeOfClusterEndpoint(e)
	if was := v.clusterEndpoints[of][e.Name]; was != nil {
		objects, size = 0, size-sizeOfClusterEndpoint(was)
	}
	v.clusterEndpoints[of][e.Name] = e
	return v.count(objects, size)
}

func (v *view) removeClusterEndpoint(e *networkpolicy.ClusterPolicyEndpoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := e.Spec.PolicyRef.Name
	if was := v.clusterEndpoints[of][e.Name]; was != nil {
		_ = v.count(-1, -sizeOfClusterEndpoint(was))
		delete(v.clusterEndpoints[of], e.Name)
	}
}

func sizeOfClusterEndpoint(e *networkpolicy.ClusterPolicyEndpoint) int {
	n := 1024
	for _, info := range slices.Concat(e.Spec.Ingress, e.Spec.Egress) {
		n += 128 + 32*len(info.Ports)
	}
	return n + 192*len(e.Spec.PodSelectorEndpoints)
}

func decodeClusterEndpoint(o *unstructured.Unstructured) (*networkpolicy.ClusterPolicyEndpoint, error) {
	o.SetManagedFields(nil)
	e := new(networkpolicy.ClusterPolicyEndpoint)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, e); err != nil {
		return nil, fmt.Errorf("cluster policy endpoint %s: %w", o.GetName(), err)
	}
	return e, nil
}

// lookAgain is the interval at which a cluster is asked whether it has the resource by now: older versions of the
// add-on bring none.
const lookAgain = time.Minute

// errServed ends a connection, after which another one follows what is served now.
var errServed = errors.New("the resource clusternetworkpolicies is served now")

// followClusterPolicies mirrors the policies of the whole cluster.
func (k *client) followClusterPolicies(ctx context.Context, listed func() error, tell notify) error {
	policies := k.objects.Resource(networkpolicy.ClusterNetworkPolicies)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, policies.List, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			p, err := parseClusterPolicy(&page.Items[i])
			if err == nil {
				err = k.view.setClusterPolicy(p)
			}
			failed = errors.Join(failed, err)
		}
	})
	if apierrors.IsNotFound(err) {
		if err := listed(); err != nil {
			return err
		}
		for {
			if err := kubeclient.Sleep(ctx, lookAgain); err != nil {
				return err
			}
			if _, err := policies.List(ctx, metav1.ListOptions{Limit: 1}); !apierrors.IsNotFound(err) {
				return errors.Join(errServed, err)
			}
		}
	}
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if err := listed(); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "cluster network policies", from, policies.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, o *unstructured.Unstructured) error {
			if what == kubewatch.Deleted {
				k.view.removeClusterPolicy(o.GetName())
				return nil
			}
			p, err := parseClusterPolicy(o)
			if err == nil {
				err = k.view.setClusterPolicy(p)
			}
			if err != nil {
				return err
			}
			return tell(ctx, ofCluster(p.Name))
		})
}

// followClusterEndpoints mirrors ClusterPolicyEndpoints.
func (k *client) followClusterEndpoints(ctx context.Context, listed func() error, tell notify) error {
	endpoints := k.objects.Resource(networkpolicy.ClusterPolicyEndpoints)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, endpoints.List, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			e, err := decodeClusterEndpoint(&page.Items[i])
			if err == nil {
				err = k.view.setClusterEndpoint(e)
			}
			failed = errors.Join(failed, err)
		}
	})
	if apierrors.IsNotFound(err) { // followClusterPolicies looks again
		if err := listed(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if err := listed(); err != nil {
		return err
	}
	return kubeclient.Watch(ctx, "cluster policy endpoints", from, endpoints.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, o *unstructured.Unstructured) error {
			e, err := decodeClusterEndpoint(o)
			if err != nil {
				return err
			}
			if what == kubewatch.Deleted {
				k.view.removeClusterEndpoint(e)
			} else if err := k.view.setClusterEndpoint(e); err != nil {
				return err
			}
			return tell(ctx, ofCluster(e.Spec.PolicyRef.Name))
		})
}

// reconcileCluster makes the ClusterPolicyEndpoints of a policy what the policy resolves to.
func (k *client) reconcileCluster(ctx context.Context, name string) error {
	p := k.view.clusterPolicy(name)
	if p == nil {
		return nil
	}
	has := slices.Contains(p.Finalizers, clusterFinalizer)
	switch {
	case p.DeletionTimestamp != nil && has:
		k.view.mu.RLock()
		existing := k.view.sortedClusterEndpoints(name)
		k.view.mu.RUnlock()
		if err := k.applyCluster(ctx, clusterChanges{remove: existing}); err != nil {
			return err
		}
		return k.patchClusterFinalizers(ctx, p, slices.DeleteFunc(slices.Clone(p.Finalizers),
			func(f string) bool { return f == clusterFinalizer }))
	case p.DeletionTimestamp != nil || !k.enabled:
		return nil
	case !has:
		if err := k.patchClusterFinalizers(ctx, p, append(slices.Clone(p.Finalizers), clusterFinalizer)); err != nil {
			return err
		}
	}
	wanted, existing := k.view.resolveCluster(name)
	return k.applyCluster(ctx, planCluster(p.ClusterNetworkPolicy, wanted, existing))
}

func (k *client) patchClusterFinalizers(ctx context.Context, p *clusterPolicy, all []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": all, "resourceVersion": p.ResourceVersion,
	}})
	if err != nil {
		return err
	}
	_, err = k.objects.Resource(networkpolicy.ClusterNetworkPolicies).Patch(ctx, p.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// clusterChanges are the requests that make ClusterPolicyEndpoints what they are to be.
type clusterChanges struct {
	create []*networkpolicy.ClusterPolicyEndpoint
	update []clusterUpdate
	remove []*networkpolicy.ClusterPolicyEndpoint
}

type clusterUpdate struct {
	from, to *networkpolicy.ClusterPolicyEndpoint
}

// planCluster returns what has to change, as plan does.
func planCluster(p *networkpolicy.ClusterNetworkPolicy, wanted resolvedCluster,
	existing []*networkpolicy.ClusterPolicyEndpoint) (out clusterChanges) {
	type endpoint = networkpolicy.ClusterPolicyEndpoint
	ingress := distribute(wanted.ingress, existing, func(e *endpoint) []networkpolicy.ClusterEndpointInfo {
		return e.Spec.Ingress
	})
	egress := distribute(wanted.egress, existing, func(e *endpoint) []networkpolicy.ClusterEndpointInfo {
		return e.Spec.Egress
	})
	pods := distribute(wanted.pods, existing, func(e *endpoint) []networkpolicy.PodEndpoint {
		return e.Spec.PodSelectorEndpoints
	})
	kept, count := 0, max(1, len(ingress), len(egress), len(pods))
	for i := range count {
		spec := networkpolicy.ClusterPolicyEndpointSpec{
			PolicyRef: networkpolicy.ClusterPolicyReference{Name: p.Name}, Tier: p.Spec.Tier, Priority: p.Spec.Priority,
			Subject: p.Spec.Subject, PodSelectorEndpoints: chunkAt(pods, i), Ingress: chunkAt(ingress, i),
			Egress: chunkAt(egress, i),
		}
		isEmpty := len(spec.PodSelectorEndpoints)+len(spec.Ingress)+len(spec.Egress) == 0
		switch {
		case isEmpty && (kept > 0 || i < count-1):
			if i < len(existing) {
				out.remove = append(out.remove, existing[i])
			}
			continue
		case i >= len(existing):
			out.create = append(out.create, &endpoint{
				TypeMeta: metav1.TypeMeta{APIVersion: networkpolicy.GroupVersion.String(), Kind: "ClusterPolicyEndpoint"},
				ObjectMeta: metav1.ObjectMeta{GenerateName: p.Name + "-", OwnerReferences: []metav1.OwnerReference{{
					APIVersion: networkpolicy.GroupVersion.String(), Kind: "ClusterNetworkPolicy", Name: p.Name, UID: p.UID,
					Controller: new(true), BlockOwnerDeletion: new(true),
				}}},
				Spec: spec,
			})
		case !equality.Semantic.DeepEqual(existing[i].Spec, spec):
			to := *existing[i]
			to.Spec = spec
			out.update = append(out.update, clusterUpdate{existing[i], &to})
		}
		kept++
	}
	return out
}

func (k *client) applyCluster(ctx context.Context, all clusterChanges) error {
	resource := k.objects.Resource(networkpolicy.ClusterPolicyEndpoints)
	remember := func(o *unstructured.Unstructured) error {
		e, err := decodeClusterEndpoint(o)
		if err != nil {
			return err
		}
		return k.view.setClusterEndpoint(e)
	}
	var wrong []error
	for _, e := range all.create {
		wrong = append(wrong, create(ctx, resource, e, remember))
	}
	for _, u := range all.update {
		wrong = append(wrong, patch(ctx, resource, u.from, u.to, remember))
	}
	for _, e := range all.remove {
		err := resource.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			wrong = append(wrong, fmt.Errorf("delete cluster policy endpoint %s: %w", e.Name, err))
			continue
		}
		k.view.removeClusterEndpoint(e)
	}
	return errors.Join(wrong...)
}
