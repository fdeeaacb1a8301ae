package client

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// KubectlFieldManager is the field manager of "kubectl apply" without --server-side.
const KubectlFieldManager = "kubectl-client-side-apply"

// LastApplied is the annotation in which kubectl keeps what it applied.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// WithLastApplied returns a copy of an object with the annotation in which kubectl keeps what it applied.
func WithLastApplied(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	applied := o.DeepCopy()
	annotations := applied.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
		// kubectl notes an object without annotations as one with none.
		if err := unstructured.SetNestedMap(applied.Object, map[string]any{}, "metadata", "annotations"); err != nil {
			return nil, err
		}
	}
	text, err := applied.MarshalJSON() // ends with a line feed, as kubectl's does
	if err != nil {
		return nil, err
	}
	annotations[LastApplied] = string(text)
	applied.SetAnnotations(annotations)
	return applied, nil
}

// BuiltIn returns the client of the resource to which an object of a kind of Kubernetes' own belongs. Their names
// follow from their kinds, so that nothing has to be discovered.
func BuiltIn(objects dynamic.Interface, o *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if namespace := o.GetNamespace(); namespace != metav1.NamespaceNone {
		return objects.Resource(plural).Namespace(namespace)
	}
	return objects.Resource(plural)
}

// Apply does what "kubectl apply" does: it creates an object with a note of what was applied, or changes the one that
// exists.
func Apply(ctx context.Context, objects dynamic.Interface, o *unstructured.Unstructured) error {
	applied, err := WithLastApplied(o)
	if err != nil {
		return err
	}
	resource := BuiltIn(objects, o)
	_, err = resource.Create(ctx, applied, metav1.CreateOptions{FieldManager: KubectlFieldManager})
	switch {
	case err == nil:
		return nil
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	patch, err := applied.MarshalJSON()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: KubectlFieldManager}
	if _, err = resource.Patch(ctx, applied.GetName(), types.MergePatchType, patch, options); err != nil {
		return fmt.Errorf("change %s %s: %w", applied.GetKind(), applied.GetName(), err)
	}
	return nil
}
