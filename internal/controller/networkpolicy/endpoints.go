package networkpolicy

import (
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/dynamic"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// chunkSize is the maximum number of entries of each list of a PolicyEndpoint.
const chunkSize = 200

// triggerTime is the annotation with the time at which the controller last wrote an object. Agents measure by it.
const triggerTime = "networking.k8s.aws/last-change-trigger-time"

// changes are the requests that make PolicyEndpoints what they are to be.
type changes struct {
	create []*networkpolicy.PolicyEndpoint
	update []update
	remove []*networkpolicy.PolicyEndpoint
}

type update struct{ from, to *networkpolicy.PolicyEndpoint }

// plan returns what has to change. Entries stay in the object that has them: a pod that comes or goes changes one.
func plan(p *networkingv1.NetworkPolicy, wanted resolved, existing []*networkpolicy.PolicyEndpoint) (out changes) {
	specs := make([]networkpolicy.PolicyEndpointSpec, len(existing))
	ingress := distribute(wanted.ingress, existing, func(e *networkpolicy.PolicyEndpoint) []networkpolicy.EndpointInfo {
		return e.Spec.Ingress
	})
	egress := distribute(wanted.egress, existing, func(e *networkpolicy.PolicyEndpoint) []networkpolicy.EndpointInfo {
		return e.Spec.Egress
	})
	pods := distribute(wanted.pods, existing, func(e *networkpolicy.PolicyEndpoint) []networkpolicy.PodEndpoint {
		return e.Spec.PodSelectorEndpoints
	})
	for len(specs) < max(1, len(ingress), len(egress), len(pods)) {
		specs = append(specs, networkpolicy.PolicyEndpointSpec{})
	}
	kept := 0
	for i := range specs {
		specs[i] = networkpolicy.PolicyEndpointSpec{
			PodSelector: p.Spec.PodSelector.DeepCopy(), PodIsolation: slices.Clone(p.Spec.PolicyTypes),
			PolicyRef:            networkpolicy.PolicyReference{Name: p.Name, Namespace: p.Namespace},
			PodSelectorEndpoints: chunkAt(pods, i), Ingress: chunkAt(ingress, i), Egress: chunkAt(egress, i),
		}
		isEmpty := len(specs[i].PodSelectorEndpoints)+len(specs[i].Ingress)+len(specs[i].Egress) == 0
		switch {
		case isEmpty && (kept > 0 || i < len(specs)-1):
			if i < len(existing) {
				out.remove = append(out.remove, existing[i])
			}
			continue
		case i >= len(existing):
			out.create = append(out.create, newEndpoint(p, specs[i]))
		case !equality.Semantic.DeepEqual(existing[i].Spec, specs[i]):
			to := *existing[i]
			to.Spec = specs[i]
			out.update = append(out.update, update{existing[i], &to})
		}
		kept++
	}
	return out
}

// distribute returns the entries by the object that they go into: first those that are there already, then others where
// there is room, then new objects.
func distribute[E, O any](wanted []E, existing []O, of func(O) []E) (chunks [][]E) {
	missing := make(map[string]bool, len(wanted))
	for _, e := range wanted {
		missing[identify(e)] = true
	}
	chunks = make([][]E, len(existing))
	for i, object := range existing {
		for _, e := range of(object) {
			if key := identify(e); missing[key] && len(chunks[i]) < chunkSize {
				delete(missing, key)
				chunks[i] = append(chunks[i], e)
			}
		}
	}
	i := 0
	for _, e := range wanted {
		if !missing[identify(e)] {
			continue
		}
		for i < len(chunks) && len(chunks[i]) >= chunkSize {
			i++
		}
		if i == len(chunks) {
			chunks = append(chunks, nil)
		}
		chunks[i] = append(chunks[i], e)
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
	var wrong []error
	for _, e := range all.create {
		wrong = append(wrong, k.createEndpoint(ctx, e))
	}
	for _, u := range all.update {
		wrong = append(wrong, k.updateEndpoint(ctx, u))
	}
	for _, e := range all.remove {
		err := k.objects.Resource(networkpolicy.PolicyEndpoints).Namespace(e.Namespace).Delete(ctx, e.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			wrong = append(wrong, fmt.Errorf("delete policy endpoint %s: %w", e.Name, err))
			continue
		}
		k.view.removeEndpoint(e)
	}
	return errors.Join(wrong...)
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
	e, err := decodeEndpoint(o)
	if err != nil {
		return err
	}
	return k.view.setEndpoint(e)
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
