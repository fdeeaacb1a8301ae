package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// roleAnnotation is the annotation of a service account that names the IAM role of its pods.
// https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
const roleAnnotation = "eks.amazonaws.com/role-arn"

// Render gives the objects of the version for a cluster, in the order in which they are applied. An object that
// manifests put into no namespace although its kind has one is an error of the entry that only the API server can tell.
func (v Version) Render(s RenderOptions) ([]Object, error) {
	config, err := decodeConfiguration(s.Config.Configuration)
	if err != nil {
		return nil, err
	}
	objects, err := v.renderUnchecked(s, config)
	if err != nil {
		return nil, err
	}
	// The fields that the configuration sets are those that change when it is left out, or when it has another value.
	var others []map[string]*unstructured.Unstructured
	if len(config) > 0 {
		plain, err := v.renderUnchecked(s, nil)
		if err != nil {
			return nil, err
		}
		others = append(others, indexByIdentity(plain))
		if different, err := v.renderUnchecked(s, differently(config).(map[string]any)); err == nil {
			others = append(others, indexByIdentity(different))
		}
	}
	out := make([]Object, 0, len(objects))
	for _, o := range objects {
		out = append(out, Object{Unstructured: o, Yields: v.source.yielding(o, others)})
	}
	return out, nil
}

// renderUnchecked renders with a configuration that need not follow the schema.
func (v Version) renderUnchecked(s RenderOptions, config map[string]any) ([]*unstructured.Unstructured, error) {
	values, err := v.templateValues(s)
	if err != nil {
		return nil, err
	}
	f := functions(&rendering{version: &v, options: s})
	values.Config = map[string]any{}
	if v.source.defaults != nil {
		text, err := execute(v.source.defaults, f, values)
		if err != nil {
			return nil, err
		}
		defaults, err := decodeConfiguration(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.source.defaults.Name(), err)
		}
		values.Config = defaults
	}
	values.Config = mergeValues(values.Config, config)
	var objects []*unstructured.Unstructured
	for _, manifest := range v.source.manifests {
		made, err := manifest.renderObjects(f, values)
		if err != nil {
			return nil, err
		}
		objects = append(objects, made...)
	}
	objects = withNamespace(objects, values.Namespace)
	if role := s.Config.ServiceAccountRoleARN; role != "" && len(v.Identities) > 0 {
		annotate(objects, v.Identities[0].ServiceAccount, role)
	}
	defined := definedKinds(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(installOrder(a,
			defined), installOrder(b, defined))
	})
	return objects, nil
}

// kubernetesNamespaces are there in every cluster.
var kubernetesNamespaces = []string{"default", "kube-system", "kube-public", "kube-node-lease"}

// withNamespace adds the add-on's namespace when it is neither Kubernetes' nor in the manifests.
func withNamespace(objects []*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	if slices.Contains(kubernetesNamespaces, namespace) {
		return objects
	}
	for _, o := range objects {
		if o.GetKind() == "Namespace" && o.GetAPIVersion() == "v1" && o.GetName() == namespace {
			return objects
		}
	}
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Namespace")
	o.SetName(namespace)
	return append(objects, o)
}

// annotate gives a service account its role.
func annotate(objects []*unstructured.Unstructured, serviceAccount, role string) {
	for _, o := range objects {
		if o.GetKind() != "ServiceAccount" || o.GetName() != serviceAccount {
			continue
		}
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[roleAnnotation] = role
		o.SetAnnotations(annotations)
	}
}

// definedKinds returns the kinds that the objects themselves define, as "group/Kind".
func definedKinds(objects []*unstructured.Unstructured) map[string]bool {
	defined := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			defined[group+"/"+kind] = true
		}
	}
	return defined
}

// installOrder returns an object's position in the order of application: first what others depend on, last what blocks
// others.
func installOrder(o *unstructured.Unstructured, defined map[string]bool) int {
	kind := o.GroupVersionKind()
	if defined[kind.Group+"/"+kind.Kind] {
		return 5
	}
	switch kind.Kind {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
		return 2
	case "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Pod", "Job", "CronJob":
		return 4
	case "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return 6
	}
	return 3
}

// identity returns a key that distinguishes the objects of one add-on.
func identity(o *unstructured.Unstructured) string {
	return strings.Join([]string{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
}

func indexByIdentity(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[identity(o)] = o
	}
	return out
}
