package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/coracle-eks/coracle/kubernetes"
)

// fewVersions are the add-ons which upstream publishes in fewer than three versions for a Kubernetes version, with the
// number.
var fewVersions = map[string]int{}

// closed are the images which nobody publishes where everybody can have them: "coracle images load" brings them.
var closed = []string{"eks/eks-node-monitoring-agent"}

func open(t testing.TB) *Catalog {
	t.Helper()
	c, err := Open(Options{Data: func(b Build, name string) ([]byte, error) {
		return fmt.Appendf(nil,
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n",
			strings.ReplaceAll(name, "/", ".")), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEntries(t *testing.T) {
	t.Parallel()
	for _, a := range open(t).Addons() {
		if a.Publisher != "eks" || a.Type == "" || a.Private || a.Marketplace != nil || a.DefaultNamespace == "" {
			t.Errorf("%s: %+v", a.Name, a)
		}
		for _, k := range kubernetes.Versions() {
			var serving []string
			for _, v := range a.Versions {
				if v.Serves(k.Minor) {
					serving = append(serving, v.Version)
				}
			}
			want := 3
			if few, known := fewVersions[a.Name]; known {
				want = few
			}
			if len(serving) < want {
				t.Errorf("%s: Kubernetes %s has only %v", a.Name, k.Minor, serving)
			}
			if _, found := a.Default(k.Minor); !found {
				t.Errorf("%s: Kubernetes %s has no default version", a.Name, k.Minor)
			}
		}
		for _, v := range a.Versions {
			for _, c := range v.Compatibilities {
				t.Run(a.Name+"/"+v.Version+"/"+c.Minor, func(t *testing.T) {
					t.Parallel()
					checkObjects(t, v, c.Minor)
				})
			}
		}
	}
}

// clusterScoped are the kinds that add-ons use which are in no namespace.
var clusterScoped = []string{
	"APIService", "CSIDriver", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "ENIConfig",
	"MutatingWebhookConfiguration", "Namespace",
	"PriorityClass", "StorageClass", "ValidatingWebhookConfiguration", "VolumeSnapshotClass",
}

func checkObjects(t *testing.T, v Version, minor string) {
	options := exampleOptions(minor)
	six := exampleOptions(minor)
	six.Cluster.IPFamily, six.Cluster.ServiceIPv6CIDR = ekstypes.IpFamilyIpv6, "fd30:1c53:5f8a::/108"
	for _, s := range []RenderOptions{options, six} {
		objects, err := v.Render(s)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		references := map[string]bool{}
		last := 0
		for _, o := range objects {
			if id := identity(o.Unstructured); seen[id] {
				t.Errorf("%s is there twice", id)
			} else {
				seen[id] = true
			}
			if slices.Contains(clusterScoped, o.GetKind()) != (o.GetNamespace() == "") {
				t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
			}
			known(t, o.Unstructured)
			podImages(o.Object, references)
			if r := installOrder(o.Unstructured, definedKinds(unwrap(objects))); r < last {
				t.Errorf("%s %s comes too late", o.GetKind(), o.GetName())
			} else {
				last = r
			}
		}
		var listed []string
		for _, i := range v.Images(s.Cluster.Region, minor) {
			listed = append(listed, i.Reference)
			isClosed := slices.ContainsFunc(closed, func(repository string) bool {
				return strings.Contains(i.Reference,
					"/"+repository+":")
			})
			// What nodes run anyway is the default of some Kubernetes version.
			onNodes := i.Recipe.Like != "" && slices.ContainsFunc(v.Compatibilities,
				func(c Compatibility) bool { return c.Default })
			if !isClosed && !i.MadeHere() && i.Public == "" && !onNodes {
				t.Errorf("%s is neither built nor public", i.Reference)
			}
		}
		for reference := range references {
			if !slices.Contains(listed, reference) {
				t.Errorf("pods run %s, which is not among the images %v", reference, listed)
			}
		}
		for _, i := range v.Identities {
			found := slices.ContainsFunc(objects, func(o Object) bool {
				return o.GetKind() == "ServiceAccount" &&
					o.GetName() == i.ServiceAccount
			})
			if !found {
				t.Errorf("there is no service account %s", i.ServiceAccount)
			}
			for _, arn := range i.ManagedPolicies {
				if !strings.HasPrefix(arn, "arn:aws:iam::aws:policy/") {
					t.Errorf("policy %s", arn)
				}
			}
		}
	}
}

// known checks that every field of an object is known to its Go type.
func known(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	typed, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil {
		return // not a kind of Kubernetes'
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// podImages collects the images of containers anywhere in a value.
func podImages(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if image, isText := value.(string); isText && key == "image" {
				into[image] = true
			}
			podImages(value, into)
		}
	case []any:
		for _, item := range v {
			podImages(item, into)
		}
	}
}

func unwrap(objects []Object) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.Unstructured)
	}
	return out
}

// byControllers are properties, by add-on, that controllers go by: internal/controller/corednsautoscaler.
var byControllers = map[string][]string{
	"coredns": {"autoScaling.enabled", "autoScaling.maxReplicas", "autoScaling.minReplicas"},
}

// Every property that a schema allows has its effect on the objects, or a controller goes by it: each is set alone
// (with those that it cannot do without), to values that differ.
func TestEveryPropertyHasAnEffect(t *testing.T) {
	t.Parallel()
	for _, a := range open(t).Addons() {
		newest := a.Versions[0]
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			var schema map[string]any
			if err := json.Unmarshal(newest.Schema, &schema); err != nil {
				t.Fatal(err)
			}
			minor := newest.Compatibilities[0].Minor
			plain := rendered(t, newest, minor, "")
			for _, p := range properties(schema, schema, nil) {
				effect := false
				var tried []string
				beside := plain
				for _, config := range p.configurations() {
					if effect || newest.Check(t.Context(), config) != nil {
						continue
					}
					outcome := rendered(t, newest, minor, config)
					if p.needs && len(tried) == 0 {
						beside = outcome // what it needs has an effect of its own
					}
					effect = outcome != beside
					tried = append(tried, config)
				}
				if effect == slices.Contains(byControllers[a.Name], strings.Join(p.path, ".")) {
					t.Errorf("%s has no effect, or one of a controller alone; tried %q", strings.Join(p.path, "."), tried)
				}
			}
		})
	}
}

func rendered(t *testing.T, v Version, minor, config string) string {
	t.Helper()
	decoded, err := decodeConfiguration(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := v.renderUnchecked(exampleOptions(minor), decoded)
	if err != nil {
		t.Fatalf("%s %s with %s: %v", v.Addon, v.Version, config, err)
	}
	b, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// property is one that a schema allows.
type property struct {
	path   []string
	values []any
	// set puts a value into a configuration that is as small as it may be.
	set   func(v any) any
	needs bool // it cannot be alone
}

func (p property) configurations() []string {
	var out []string
	for _, v := range p.values {
		b, err := json.Marshal(p.set(v))
		if err != nil {
			panic(err)
		}
		out = append(out, string(b))
	}
	return out
}

// properties returns the leaves of a schema: those that have no properties of their own.
func properties(root, schema map[string]any, path []string) []property {
	schema = resolve(root, schema)
	fields, _ := schema["properties"].(map[string]any)
	if len(fields) == 0 {
		if len(path) == 0 {
			return nil
		}
		return []property{{path: path, values: samples(root, schema), set: func(v any) any { return v }}}
	}
	required, _ := schema["required"].([]any)
	var all []property
	for name, field := range fields {
		for _, p := range properties(root, field.(map[string]any), append(slices.Clone(path), name)) {
			inner := p.set
			p.set = func(v any) any {
				out := map[string]any{}
				for _, other := range required {
					if s := samples(root, resolve(root, fields[other.(string)].(map[string]any))); len(s) > 0 {
						out[other.(string)] = s[0]
					}
				}
				out[name] = inner(v)
				return out
			}
			p.needs = p.needs || len(required) > 0
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b property) int { return slices.Compare(a.path, b.path) })
	return all
}

func resolve(root, schema map[string]any) map[string]any {
	for {
		ref, isRef := schema["$ref"].(string)
		if !isRef {
			return schema
		}
		at := any(root)
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[part]
		}
		schema = at.(map[string]any)
	}
}

// samples returns values for a schema, to be checked against it: it may still refuse some, such as by their pattern.
func samples(root, schema map[string]any) []any {
	schema = resolve(root, schema)
	if enum, found := schema["enum"].([]any); found {
		return enum
	}
	for _, of := range []string{"anyOf", "oneOf"} {
		if alternatives, found := schema[of].([]any); found {
			var all []any
			for _, a := range alternatives {
				all = append(all, samples(root, a.(map[string]any))...)
			}
			return all
		}
	}
	kind := schema["type"]
	if kinds, several := kind.([]any); several {
		kind = kinds[0]
	}
	switch kind {
	case "boolean":
		return []any{true, false}
	case "integer", "number":
		return []any{3, 7, 1, 50, 8080}
	case "string":
		return []any{"sample", "other", "true", "false", "17", "17%", "5Mi", "30s", "/a/path",
			"arn:aws:iam::111122223333:role/x", "debug", "info", "eu-west-1"}
	case "array":
		items, _ := schema["items"].(map[string]any)
		if items == nil {
			items = map[string]any{"type": "object"}
		}
		var all []any
		for _, s := range samples(root, items) {
			all = append(all, []any{s})
		}
		return all
	}
	if fields, found := schema["properties"].(map[string]any); found {
		one, other := map[string]any{}, map[string]any{}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if s := samples(root, fields[name.(string)].(map[string]any)); len(s) > 0 {
				one[name.(string)], other[name.(string)] = s[0], s[len(s)-1]
			}
		}
		return []any{one, other}
	}
	if values, found := schema["additionalProperties"].(map[string]any); found {
		var all []any
		for _, s := range samples(root, values) {
			all = append(all, map[string]any{"a-key": s})
		}
		return all
	}
	return []any{map[string]any{"key": "sample", "operator": "Exists"}}
}

// A side-car that the configuration leaves out needs no image.
func TestImagesIn(t *testing.T) {
	t.Parallel()
	a, _ := open(t).Addon("aws-ebs-csi-driver")
	for config, want := range map[string]int{"": 7, `{"sidecars":{"snapshotter":{"forceEnable":false}}}`: 6} {
		s := exampleOptions("1.35")
		s.Config.Configuration = config
		objects, err := a.Versions[0].Render(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Versions[0].ImagesIn(objects, "eu-west-1", "1.35"); len(got) != want {
			t.Errorf("with %q there are %d images, not %d", config, len(got), want)
		}
	}
}

// Rendering twice gives the same, and leaves the defaults as they are.
func TestRenderIsPure(t *testing.T) {
	t.Parallel()
	for _, a := range open(t).Addons() {
		v := a.Versions[0]
		s := exampleOptions(v.Compatibilities[0].Minor)
		first, err := v.Render(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range first {
			o.SetLabels(map[string]string{"changed": "by its reader"})
		}
		second, _ := v.Render(s)
		third, _ := v.Render(s)
		if !reflect.DeepEqual(second, third) || strings.Contains(fmt.Sprint(second), "by its reader") {
			t.Errorf("%s: the second rendering differs", a.Name)
		}
	}
}
