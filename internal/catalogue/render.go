package catalogue

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// roleAnnotation is where a service account says which IAM role its pods have.
// https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
const roleAnnotation = "eks.amazonaws.com/role-arn"

// Render gives the objects of the version for a cluster, in the order in which they are applied. An object that manifests put into no
// namespace although its kind has one is an error of the entry that only the API server can tell.
func (v Version) Render(s Site) ([]Object, error) {
	config, err := decodeConfiguration(s.Config.Configuration)
	if err != nil {
		return nil, err
	}
	objects, err := v.render(s, config)
	if err != nil {
		return nil, err
	}
	// What the configuration speaks of is what changes when it is not there, or says something else.
	var others []map[string]*unstructured.Unstructured
	if len(config) > 0 {
		plain, err := v.render(s, nil)
		if err != nil {
			return nil, err
		}
		others = append(others, byName(plain))
		if different, err := v.render(s, differently(config).(map[string]any)); err == nil {
			others = append(others, byName(different))
		}
	}
	out := make([]Object, 0, len(objects))
	for _, o := range objects {
		out = append(out, Object{Unstructured: o, Yields: v.source.yielding(o, others)})
	}
	return out, nil
}

// render renders with a configuration that need not follow the schema.
func (v Version) render(s Site, config map[string]any) ([]*unstructured.Unstructured, error) {
	values, err := v.values(s)
	if err != nil {
		return nil, err
	}
	f := functions(&rendering{version: &v, site: s})
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
	values.Config = merge(values.Config, config)
	var objects []*unstructured.Unstructured
	for _, manifest := range v.source.manifests {
		made, err := manifest.render(f, values)
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
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a, defined), rank(b, defined)) })
	return objects, nil
}

// manifest is a file of objects.
type manifest struct {
	template *template.Template
	// always are its objects when they are the same for every cluster, as those of CRDs are: read once, for that is most of the work of a rendering.
	always []*unstructured.Unstructured
}

func newManifest(t *template.Template) (*manifest, error) {
	m := &manifest{template: t}
	for _, node := range t.Root.Nodes {
		if node.Type() != parse.NodeText {
			return m, nil
		}
	}
	var err error
	m.always, err = m.read(nil, values{})
	return m, err
}

func (m *manifest) render(f template.FuncMap, v values) ([]*unstructured.Unstructured, error) {
	if m.always == nil {
		return m.read(f, v)
	}
	objects := make([]*unstructured.Unstructured, 0, len(m.always))
	for _, o := range m.always {
		objects = append(objects, o.DeepCopy())
	}
	return objects, nil
}

func (m *manifest) read(f template.FuncMap, v values) ([]*unstructured.Unstructured, error) {
	text, err := execute(m.template, f, v)
	if err != nil {
		return nil, err
	}
	objects, err := documents(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.template.Name(), err)
	}
	return objects, nil
}

func execute(t *template.Template, f template.FuncMap, values values) ([]byte, error) {
	mine, err := t.Clone()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := mine.Funcs(f).Execute(&text, values); err != nil {
		return nil, templateError(err)
	}
	return text.Bytes(), nil
}

var noField = regexp.MustCompile(`executing "[^"]*" at <([^>]*)>: can't evaluate field (\w+) in type catalogue\.\w+`)

// templateError is an error of the template package without its own names: "vpc-cni/aws-node.yaml:9:14: there is no .Replicas".
func templateError(err error) error {
	text := strings.TrimPrefix(err.Error(), "template: ")
	return &plainError{noField.ReplaceAllString(text, "there is no $1"), err}
}

// plainError is an error in other words.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// documents are the objects of a file of YAML documents. What is empty is left out, and so are fields that are null.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := sigsyaml.UnmarshalStrict(document, &o.Object); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("document %d: an object needs apiVersion, kind and metadata.name", n)
		}
		o.Object = whole(o.Object).(map[string]any)
		all = append(all, o)
	}
}

// whole is a value without fields that are null, and with numbers as the API machinery has them.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
			} else {
				v[key] = whole(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case int:
		return int64(v)
	}
	return v
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

// definedKinds are those that the objects themselves define, "group/Kind".
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

// rank is an object's place in the order of application: what others need comes first, what stands in the way of others last.
func rank(o *unstructured.Unstructured, defined map[string]bool) int {
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
	case "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return 6
	}
	return 3
}

// identity tells objects of one add-on apart.
func identity(o *unstructured.Unstructured) string {
	return strings.Join([]string{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
}

func byName(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[identity(o)] = o
	}
	return out
}
