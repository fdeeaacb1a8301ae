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

// clusterPolicy is a policy of the whole cluster with its selectors parsed, without what nobody reads here.
type clusterPolicy struct {
	*networkpolicy.ClusterNetworkPolicy
	subject         peer
	ingress, egress []rule
	size            int   // in bytes, about
	wrong           error // why its rules cannot be read
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
	if err != nil {
		return peer{}, err
	}
	p.cost = costOf(p.namespaces) + costOf(p.pods)
	return p, nil
}

// parseClusterPolicy returns a policy; one that cannot be read has no rules, and says why.
func parseClusterPolicy(o *unstructured.Unstructured) *clusterPolicy {
	p := new(networkpolicy.ClusterNetworkPolicy)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p)
	p.ObjectMeta = trimMeta(metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), Finalizers: o.GetFinalizers(),
		DeletionTimestamp: o.GetDeletionTimestamp()})
	out := &clusterPolicy{ClusterNetworkPolicy: p}
	if err == nil && kubeclient.IsPartial(o) {
		err = kubeclient.ErrTooLarge
	}
	if err == nil {
		err = out.parseRules()
	}
	p.Spec.Ingress, p.Spec.Egress = nil, nil
	if err != nil {
		out.setWrong(unreadable(err))
	}
	out.setSize()
	return out
}

// setWrong takes the rules from a policy: what it had stays in force.
func (c *clusterPolicy) setWrong(why error) {
	c.Spec = networkpolicy.ClusterNetworkPolicySpec{}
	c.subject = peer{namespaces: labels.Nothing(), pods: labels.Nothing()}
	c.ingress, c.egress = nil, nil
	c.wrong = why
	c.setSize()
}

func (c *clusterPolicy) setSize() {
	c.size = sizeOfMeta(c.ObjectMeta) + sizeOfSubject(c.Spec.Subject) + sizeOfSelector(c.subject.namespaces) +
		sizeOfSelector(c.subject.pods) + sizeOfRules(c.ingress) + sizeOfRules(c.egress)
}

// unreadable returns why a policy cannot be read, without the policy.
func unreadable(err error) error {
	return &impossible{text: "it cannot be read: " + kubeclient.Cut(err.Error())}
}

func (c *clusterPolicy) parseRules() (err error) {
	if c.subject, err = parseSubject(c.Spec.Subject); err != nil {
		return err
	}
	for _, r := range c.Spec.Ingress {
		var peers []peer
		for _, from := range r.From {
			x, err := parseSubject(from)
			if err != nil {
				return err
			}
			peers = append(peers, x)
		}
		c.ingress = append(c.ingress, toRule(r.Action, r.Ports, peers))
	}
	for _, r := range c.Spec.Egress {
		var peers []peer
		for _, to := range r.To {
			for _, block := range to.Networks {
				peers = append(peers, ofNetwork(block, nil))
			}
			if len(to.Networks)+len(to.DomainNames) > 0 {
				continue
			}
			x, err := parseSubject(to.ClusterSubject)
			if err != nil {
				return err
			}
			peers = append(peers, x)
		}
		c.egress = append(c.egress, toRule(r.Action, r.Ports, peers))
	}
	return nil
}

// toRule returns a rule; one without peers matches nothing.
func toRule(action networkpolicy.Action, ports []networkpolicy.ClusterPort, peers []peer) rule {
	known := uniquePorts(toPolicyPorts(ports))
	if len(known) == 0 && len(ports) > 0 { // of a version of the resource that is not known here
		peers = nil
	}
	return rule{action: action, ports: known, peers: uniquePeers(peers)}
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

// resolveCluster returns what a policy comes to, and the ClusterPolicyEndpoints that there are for it. It ends with
// ctx.
func (v *view) resolveCluster(ctx context.Context, name string) (
	out resolvedCluster, existing []*networkpolicy.ClusterPolicyEndpoint, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	p := v.clusterPolicies[name]
	switch {
	case p == nil:
		return out, nil, nil
	case p.wrong != nil:
		return out, nil, p.wrong
	}
	r := newResolver(v, "", ctx.Err)
	selected := r.podsOf(p.subject, true)
	if r.err != nil {
		return out, nil, r.err
	}
	out.pods, existing = r.toEndpoints(selected), v.sortedClusterEndpoints(name)
	for _, rule := range p.ingress {
		if all := r.gather(); len(rule.peers) > 0 {
			r.resolveIngress(all, rule, selected)
			out.ingress = append(out.ingress, withAction(rule.action, all.sorted())...)
		}
	}
	for _, rule := range p.egress {
		if all := r.gather(); len(rule.peers) > 0 {
			r.resolveEgress(all, rule)
			out.egress = append(out.egress, withAction(rule.action, all.sorted())...)
		}
	}
	if r.err != nil {
		return out.withEntriesOf(existing), existing, r.err
	}
	out.ingress, out.egress = uniqueEntries(out.ingress), uniqueEntries(out.egress)
	return out, existing, r.leftOut
}

// withEntriesOf returns what a policy comes to with the entries that it had, as some may deny.
func (w resolvedCluster) withEntriesOf(existing []*networkpolicy.ClusterPolicyEndpoint) resolvedCluster {
	w.ingress, w.egress = nil, nil
	for _, e := range existing {
		w.ingress, w.egress = append(w.ingress, e.Spec.Ingress...), append(w.egress, e.Spec.Egress...)
	}
	return w
}

func withAction(action networkpolicy.Action, all []networkpolicy.EndpointInfo) (
	out []networkpolicy.ClusterEndpointInfo) {
	for _, e := range all {
		out = append(out, networkpolicy.ClusterEndpointInfo{CIDR: e.CIDR, Ports: e.Ports, Action: action})
	}
	return out
}

// uniqueEntries returns each entry once, in order.
func uniqueEntries(all []networkpolicy.ClusterEndpointInfo) (out []networkpolicy.ClusterEndpointInfo) {
	byKey := make(map[string]networkpolicy.ClusterEndpointInfo, len(all))
	for _, e := range all {
		byKey[identify(e)] = e
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, byKey[key])
	}
	return out
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
		n, there := v.namespaces[s.namespace]
		return x.block == nil && there && n.matches(x.namespaces, true) && s.isSelected(x.pods)
	}
	return has(p.subject) || hasPeer(p.ingress, has) || hasPeer(p.egress, has)
}

func (v *view) setClusterPolicy(p *clusterPolicy) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	objects, had := 1, 0
	if was := v.clusterPolicies[p.Name]; was != nil {
		objects, had = 0, was.size
	}
	if !v.hasRoom("", p.size-had) {
		p.setWrong(tooLarge("there is no room for it beside what else the cluster has"))
	}
	size := p.size - had
	v.clusterPolicies[p.Name] = p
	return v.count("", objects, size)
}

func (v *view) removeClusterPolicy(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if was := v.clusterPolicies[name]; was != nil {
		_ = v.count("", -1, -was.size)
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
	v.drop(ofCluster(e.Name))
	if v.clusterEndpoints[of] == nil {
		v.clusterEndpoints[of] = map[string]*networkpolicy.ClusterPolicyEndpoint{}
	}
	v.clusterEndpoints[of][e.Name], v.owners[ofCluster(e.Name)] = e, ofCluster(of)
	return v.count("", 1, sizeOfClusterEndpoint(e))
}

// decodeClusterEndpoint returns an object; nil when it is none of a policy.
func decodeClusterEndpoint(o *unstructured.Unstructured) *networkpolicy.ClusterPolicyEndpoint {
	e := new(networkpolicy.ClusterPolicyEndpoint)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, e) != nil || !isName(e.Spec.PolicyRef.Name) {
		return nil
	}
	e.ObjectMeta = trimEndpoint(e.ObjectMeta)
	return e
}

// lookAgain is the interval at which a cluster is asked whether it has the resource by now: older versions of the
// add-on bring none.
const lookAgain = time.Minute

// errServed ends a connection, after which another one follows what is served now.
var errServed = errors.New("the resource clusternetworkpolicies is served now")

// followClusterPolicies mirrors the policies of the whole cluster.
func (k *client) followClusterPolicies(ctx context.Context, listed func()) error {
	policies := k.objects.Resource(networkpolicy.ClusterNetworkPolicies)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, policies.List, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			failed = errors.Join(failed, k.view.setClusterPolicy(parseClusterPolicy(&page.Items[i])))
		}
	})
	if apierrors.IsNotFound(err) {
		listed()
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
	listed()
	return kubeclient.Watch(ctx, "cluster network policies", from, policies.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, o *unstructured.Unstructured) error {
			if what == kubewatch.Deleted {
				k.view.removeClusterPolicy(o.GetName())
				k.untold.remove(ofCluster(o.GetName()))
				return nil
			}
			if err := k.view.setClusterPolicy(parseClusterPolicy(o)); err != nil {
				return err
			}
			k.untold.add(ofCluster(o.GetName()))
			return nil
		})
}

// followClusterEndpoints mirrors ClusterPolicyEndpoints.
func (k *client) followClusterEndpoints(ctx context.Context, listed func()) error {
	endpoints := k.objects.Resource(networkpolicy.ClusterPolicyEndpoints)
	var failed error
	from, err := kubeclient.EachPage(ctx, metav1.ListOptions{}, endpoints.List, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			if e := decodeClusterEndpoint(&page.Items[i]); e != nil {
				failed = errors.Join(failed, k.view.setClusterEndpoint(e))
			}
		}
	})
	if apierrors.IsNotFound(err) { // followClusterPolicies looks again
		listed()
		<-ctx.Done()
		return ctx.Err()
	}
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listed()
	return kubeclient.Watch(ctx, "cluster policy endpoints", from, endpoints.Watch, metav1.ListOptions{},
		func(what kubewatch.EventType, o *unstructured.Unstructured) error {
			e := decodeClusterEndpoint(o)
			if what == kubewatch.Deleted || e == nil {
				return k.endpointChanged(ofCluster(o.GetName()), nil)
			}
			return k.endpointChanged(ofCluster(o.GetName()), func() error { return k.view.setClusterEndpoint(e) })
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
	wanted, existing, err := k.view.resolveCluster(ctx, name)
	if outcomeOf(err) > unresolvable || err != nil && len(wanted.pods) == 0 {
		return err
	}
	all, wrong := planCluster(p.ClusterNetworkPolicy, wanted, existing)
	if wrong != nil {
		if all, err = planCluster(p.ClusterNetworkPolicy, wanted.withEntriesOf(existing), existing); err != nil {
			return err
		}
	}
	return together(err, wrong, k.applyCluster(ctx, all))
}

// patchClusterFinalizers does what patchFinalizers does.
func (k *client) patchClusterFinalizers(ctx context.Context, p *clusterPolicy, all []string) error {
	if len(p.Finalizers) >= kubeclient.MaxFinalizers {
		return nil
	}
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
	existing []*networkpolicy.ClusterPolicyEndpoint) (clusterChanges, error) {
	type endpoint = networkpolicy.ClusterPolicyEndpoint
	var out clusterChanges
	d := distribution{beside: len(identify(p.Spec.Subject))}
	ingress := distribute(&d, wanted.ingress, existing, func(e *endpoint) []networkpolicy.ClusterEndpointInfo {
		return e.Spec.Ingress
	})
	egress := distribute(&d, wanted.egress, existing, func(e *endpoint) []networkpolicy.ClusterEndpointInfo {
		return e.Spec.Egress
	})
	pods := distribute(&d, wanted.pods, existing, func(e *endpoint) []networkpolicy.PodEndpoint {
		return e.Spec.PodSelectorEndpoints
	})
	kept, count := 0, max(1, len(ingress), len(egress), len(pods), len(existing))
	if err := d.check(0); err != nil {
		return clusterChanges{}, err
	}
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
	return out, d.check(kept)
}

func (k *client) applyCluster(ctx context.Context, all clusterChanges) error {
	resource := k.objects.Resource(networkpolicy.ClusterPolicyEndpoints)
	growth := 0
	for _, e := range all.create {
		growth += sizeOfClusterEndpoint(e)
	}
	for _, u := range all.update {
		growth += sizeOfClusterEndpoint(u.to) - sizeOfClusterEndpoint(u.from)
	}
	if err := k.checkRoom("", growth); err != nil {
		return err
	}
	remember := func(o *unstructured.Unstructured) error {
		if e := decodeClusterEndpoint(o); e != nil {
			return k.view.setClusterEndpoint(e)
		}
		return nil
	}
	var wrong failures
	try := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	for _, e := range all.create {
		try(create(ctx, resource, e, remember))
	}
	for _, u := range all.update {
		try(patch(ctx, resource, u.from, u.to, remember))
	}
	for _, e := range all.remove {
		err := resource.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			try(fmt.Errorf("delete cluster policy endpoint %s: %w", e.Name, err))
			continue
		}
		k.view.removeEndpoint(ofCluster(e.Name))
	}
	return wrong.asError()
}
