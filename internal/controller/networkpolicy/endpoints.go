package networkpolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/dynamic"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

const (
	// chunkSize is the maximum number of entries of each list of a PolicyEndpoint.
	chunkSize = 200
	// maxChunk is the largest size of such a list, and of the selector beside the lists, as JSON in bytes: etcd takes
	// 1.5 MiB of one object. maxPolicy is that of all that a policy comes to.
	maxChunk, maxPolicy = 128 << 10, 16 << 20
)

// triggerTime is the annotation with the time at which the controller last wrote an object. Agents measure by it.
const triggerTime = "networking.k8s.aws/last-change-trigger-time"

// changes are the requests that make PolicyEndpoints what they are to be.
type changes struct {
	create []*networkpolicy.PolicyEndpoint
	update []update
	remove []*networkpolicy.PolicyEndpoint
}

type update struct{ from, to *networkpolicy.PolicyEndpoint }

// namespace returns that of what the changes write, which is one.
func (c changes) namespace() string {
	for _, e := range c.create {
		return e.Namespace
	}
	for _, u := range c.update {
		return u.to.Namespace
	}
	return ""
}

// plan returns what has to change. Entries stay in the object that has them: a pod that comes or goes changes one. What
// is too large is left out, and the error says so.
func plan(p *networkingv1.NetworkPolicy, wanted resolved, existing []*networkpolicy.PolicyEndpoint) (changes, error) {
	var out changes
	existing, out.remove = withinBounds(existing, sizeOfEndpoint)
	selector := &p.Spec.PodSelector
	d := distribution{beside: len(identify(selector)), leavesOut: true}
	if d.beside > maxSelector { // agents go by the list of pods
		selector, d.beside = nil, 0
	}
	type endpoint = networkpolicy.PolicyEndpoint
	pods := distribute(&d, wanted.pods, existing, func(e *endpoint) []networkpolicy.PodEndpoint {
		return e.Spec.PodSelectorEndpoints
	})
	ingress := distribute(&d, wanted.ingress, existing, func(e *endpoint) []networkpolicy.EndpointInfo {
		return e.Spec.Ingress
	})
	egress := distribute(&d, wanted.egress, existing, func(e *endpoint) []networkpolicy.EndpointInfo {
		return e.Spec.Egress
	})
	count := max(1, len(ingress), len(egress), len(pods), len(existing))
	kept := 0
	for i := range count {
		spec := networkpolicy.PolicyEndpointSpec{
			PodSelector: selector, PodIsolation: p.Spec.PolicyTypes,
			PolicyRef:            networkpolicy.PolicyReference{Name: p.Name, Namespace: p.Namespace},
			PodSelectorEndpoints: chunkAt(pods, i), Ingress: chunkAt(ingress, i), Egress: chunkAt(egress, i),
		}
		isEmpty := len(spec.PodSelectorEndpoints)+len(spec.Ingress)+len(spec.Egress) == 0
		switch {
		case isEmpty && (kept > 0 || i < count-1):
			if i < len(existing) {
				out.remove = append(out.remove, existing[i])
			}
			continue
		case i >= len(existing):
			out.create = append(out.create, newEndpoint(p, spec))
		case !equality.Semantic.DeepEqual(existing[i].Spec, spec):
			to := *existing[i]
			to.Spec = spec
			out.update = append(out.update, update{existing[i], &to})
		}
		kept++
	}
	return out, d.err
}

// withinBounds returns the first of the objects of a policy, and those that are more than a policy may come to, twice:
// they are somebody else's.
func withinBounds[O any](all []O, sizeOf func(O) int) (within, beyond []O) {
	size := 0
	for i, o := range all {
		if size += sizeOf(o); size > 2*maxPolicy {
			return all[:i:i], all[i:]
		}
	}
	return all, nil
}

// distribution checks the sizes of what a policy comes to, as JSON.
type distribution struct {
	beside int // the size of what each object has beside its lists
	size   int // of the lists
	err    error
	// leavesOut is set where entries that are too large are left out alone.
	leavesOut bool
}

// add adds an entry of a size, and reports whether it is distributed.
func (d *distribution) add(size int) bool {
	switch {
	case size > maxChunk:
		d.err = tooLarge("one of the entries that it comes to is larger than %d KiB", maxChunk>>10)
		return false
	case d.size+size > maxPolicy:
		d.err = tooLarge("what it comes to is larger than %d MiB", maxPolicy>>20)
		return false
	}
	d.size += size
	return true
}

// check returns an error where what is distributed to a number of objects is too large.
func (d *distribution) check(objects int) error {
	switch {
	case d.err != nil:
	case d.beside > maxChunk:
		d.err = tooLarge("its selector is larger than %d KiB", maxChunk>>10)
	case d.size+objects*d.beside > maxPolicy:
		d.err = tooLarge("what it comes to is larger than %d MiB", maxPolicy>>20)
	}
	return d.err
}

// distribute returns the entries by the object that they go into: first those that are there already, then others where
// there is room, then new objects.
func distribute[E, O any](d *distribution, wanted []E, existing []O, of func(O) []E) (chunks [][]E) {
	missing, keys := make(map[string]bool, len(wanted)), make([]string, len(wanted))
	for i, e := range wanted {
		keys[i] = identify(e)
		switch {
		case d.add(len(keys[i])):
			missing[keys[i]] = true
		case !d.leavesOut:
			return nil
		}
	}
	chunks = make([][]E, len(existing))
	sizes := make([]int, len(existing))
	hasRoom := func(i, size int) bool { return len(chunks[i]) < chunkSize && sizes[i]+size <= maxChunk }
	put := func(i int, e E, key string) {
		delete(missing, key)
		chunks[i] = append(chunks[i], e)
		sizes[i] += len(key)
	}
	for i, object := range existing {
		for _, e := range of(object) {
			if key := identify(e); missing[key] && hasRoom(i, len(key)) {
				put(i, e, key)
			}
		}
	}
	i := 0
	for n, e := range wanted {
		if !missing[keys[n]] {
			continue
		}
		for i < len(chunks) && !hasRoom(i, len(keys[n])) {
			i++
		}
		if i == len(chunks) {
			chunks, sizes = append(chunks, nil), append(sizes, 0)
		}
		put(i, e, keys[n])
	}
	return chunks
}

func identify(entry any) string {
	text, err := json.Marshal(entry)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}

func chunkAt[E any](chunks [][]E, i int) []E {
	if i < len(chunks) {
		return chunks[i]
	}
	return nil
}

func newEndpoint(p *networkingv1.NetworkPolicy, spec networkpolicy.PolicyEndpointSpec) *networkpolicy.PolicyEndpoint {
	return &networkpolicy.PolicyEndpoint{
		TypeMeta: metav1.TypeMeta{APIVersion: networkpolicy.GroupVersion.String(), Kind: "PolicyEndpoint"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, GenerateName: p.Name + "-",
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy", Name: p.Name, UID: p.UID,
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: spec,
	}
}

// apply makes the changes. What is written is in the view at once: the next pass must not write it again.
func (k *client) apply(ctx context.Context, all changes) error {
	growth := 0
	for _, e := range all.create {
		growth += sizeOfEndpoint(e)
	}
	for _, u := range all.update {
		growth += sizeOfEndpoint(u.to) - sizeOfEndpoint(u.from)
	}
	if err := k.checkRoom(all.namespace(), growth); err != nil {
		return err
	}
	var wrong failures
	try := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	for _, e := range all.create {
		try(k.createEndpoint(ctx, e))
	}
	for _, u := range all.update {
		try(k.updateEndpoint(ctx, u))
	}
	for _, e := range all.remove {
		err := k.objects.Resource(networkpolicy.PolicyEndpoints).Namespace(e.Namespace).Delete(ctx, e.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			try(fmt.Errorf("delete policy endpoint %s: %w", e.Name, err))
			continue
		}
		k.view.removeEndpoint(types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
	}
	return wrong.asError()
}

// checkRoom returns an error where the view, which has the objects of all policies, has no room for more of them.
func (k *client) checkRoom(namespace string, growth int) error {
	k.view.mu.RLock()
	defer k.view.mu.RUnlock()
	if !k.view.hasRoom(namespace, growth) {
		return &impossible{isOnlyNow: true, text: "what the network policies of the cluster come to is too large together"}
	}
	return nil
}

// createEndpoint and updateEndpoint write a PolicyEndpoint.

func (k *client) createEndpoint(ctx context.Context, e *networkpolicy.PolicyEndpoint) error {
	return create(ctx, k.objects.Resource(networkpolicy.PolicyEndpoints).Namespace(e.Namespace), e, k.remember)
}

func (k *client) updateEndpoint(ctx context.Context, u update) error {
	return patch(ctx, k.objects.Resource(networkpolicy.PolicyEndpoints).Namespace(u.to.Namespace), u.from, u.to,
		k.remember)
}

func (k *client) remember(o *unstructured.Unstructured) error {
	if e := decodeEndpoint(o); e != nil {
		return k.view.setEndpoint(e)
	}
	return nil
}

func setTriggerTime(o metav1.Object) {
	annotations := map[string]string{}
	maps.Copy(annotations, o.GetAnnotations())
	annotations[triggerTime] = time.Now().UTC().Format(time.RFC3339Nano)
	o.SetAnnotations(annotations)
}

// create creates an object, and passes on what the API server has made of it.
func create(ctx context.Context, resource dynamic.ResourceInterface, o metav1.Object,
	made func(*unstructured.Unstructured) error) error {
	setTriggerTime(o)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	created, err := resource.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create policy endpoint %s: %w", o.GetGenerateName(), err)
	}
	return made(created)
}

// patch makes one object the other. What somebody else has written meanwhile is another object than the one that was
// compared, and refused.
func patch(ctx context.Context, resource dynamic.ResourceInterface, from, to metav1.Object,
	made func(*unstructured.Unstructured) error) error {
	setTriggerTime(to)
	before, err := json.Marshal(from)
	if err != nil {
		return err
	}
	after, err := json.Marshal(to)
	if err != nil {
		return err
	}
	difference, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
	if err != nil {
		return err
	}
	var content map[string]any
	if err := json.Unmarshal(difference, &content); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(content, from.GetResourceVersion(), "metadata", "resourceVersion"); err != nil {
		return err
	}
	if difference, err = json.Marshal(content); err != nil {
		return err
	}
	patched, err := resource.Patch(ctx, to.GetName(), types.MergePatchType, difference, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("update policy endpoint %s: %w", to.GetName(), err)
	}
	return made(patched)
}
