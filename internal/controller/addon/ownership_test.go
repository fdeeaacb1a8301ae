package addon

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/coracle-eks/coracle/internal/kube/managedfields"
)

// TestLeave takes out of a configuration what is left to others: what yields and differs, and what was kept.
func TestLeave(t *testing.T) {
	t.Parallel()
	const (
		image = `.spec.containers[name="c"].image`
		value = `.spec.containers[name="c"].env[name="A"].value`
		port  = `.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].name`
		item  = `.metadata.finalizers[="f"]`
		cpu   = `.spec.limits`
	)
	config := `{"metadata":{"finalizers":["f"]},"spec":{"limits":{"cpu":"1","memory":"2"},"containers":[{"name":"c","image":"i:1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":80,"name":"http"}]}]}}`
	env := func(a string) string {
		return `{"spec":{"containers":[{"name":"c","image":"i:2","env":[{"name":"A","value":"` + a +
			`"}],"ports":[{"containerPort":80,"protocol":"TCP","name":"web"}]}],"limits":{"cpu":"3"}},"metadata":{"finalizers":["f"]}}`
	}
	at := func(fields string) string { return `{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":` + fields + `}}}` }
	envOf := func(fields string) string { return at(`{"f:env":{"k:{\"name\":\"A\"}":` + fields + `}}`) }
	for name, c := range map[string]struct {
		live, theirs string
		yields, kept []string
		want         string
		still        []string
	}{
		"nobody else owns it": {env("9"), ``, []string{value}, nil, config, nil},
		"another value of a field that yields": {env("9"), envOf(`{"f:value":{}}`), []string{value}, nil,
			`{"metadata":{"finalizers":["f"]},"spec":{"limits":{"cpu":"1","memory":"2"},"containers":[{"name":"c","image":"i:1","env":[{"name":"A"},{"name":"B","value":"2"}],"ports":[{"containerPort":80,"name":"http"}]}]}}`, nil},
		"another value that is EKS's": {env("9"), envOf(`{"f:value":{}}`), []string{value}, nil, config, nil},
		"the same value":              {env("1"), envOf(`{"f:value":{}}`), []string{value}, nil, config, nil},
		"a value from elsewhere": {env(""), envOf(`{"f:valueFrom":{}}`), []string{value}, nil,
			`{"metadata":{"finalizers":["f"]},"spec":{"limits":{"cpu":"1","memory":"2"},"containers":[{"name":"c","image":"i:1","env":[{"name":"A"},{"name":"B","value":"2"}],"ports":[{"containerPort":80,"name":"http"}]}]}}`, nil},
		"a field that does not yield": {env("9"), at(`{"f:image":{}}`), []string{value}, nil, config, nil},
		"one that was kept": {env("9"), at(`{"f:image":{}}`), nil, []string{image},
			`{"metadata":{"finalizers":["f"]},"spec":{"limits":{"cpu":"1","memory":"2"},"containers":[{"name":"c","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":80,"name":"http"}]}]}}`, []string{image}},
		"one that was kept and given up": {env("9"), ``, nil, []string{image}, config, nil},
		"a part of what yields": {env("9"), `{"f:spec":{"f:limits":{"f:cpu":{}}}}`, []string{cpu}, nil,
			`{"metadata":{"finalizers":["f"]},"spec":{"limits":{"memory":"2"},"containers":[{"name":"c","image":"i:1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":80,"name":"http"}]}]}}`, nil},
		"a key of two fields, one by default": {env("9"),
			at(`{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{"f:name":{}}}}`), []string{port}, nil,
			`{"metadata":{"finalizers":["f"]},"spec":{"limits":{"cpu":"1","memory":"2"},"containers":[{"name":"c","image":"i:1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":80}]}]}}`, nil},
		"an item of a set": {env("9"), `{"f:metadata":{"f:finalizers":{"v:\"f\"":{}}}}`, nil,
			[]string{item},
			`{"spec":{"limits":{"cpu":"1","memory":"2"},"containers":[{"name":"c","image":"i:1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"ports":[{"containerPort":80,"name":"http"}]}]}}`, []string{item}},
	} {
		mine, live := parsed(t, config), &unstructured.Unstructured{Object: parsed(t, c.live)}
		eks := `{"f:image":{}}`
		if name == "another value that is EKS's" {
			eks = `{"f:env":{"k:{\"name\":\"A\"}":{"f:value":{}}}}`
		}
		managers := []metav1.ManagedFieldsEntry{{Manager: "eks", Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(at(eks))}}}
		if c.theirs != "" {
			managers = append(managers, metav1.ManagedFieldsEntry{Manager: "kubectl",
				Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: &metav1.FieldsV1{Raw: []byte(c.theirs)}})
		}
		live.SetManagedFields(managers)
		still, err := yieldFields(mine, live, c.yields, c.kept)
		if err != nil || !reflect.DeepEqual(still, c.still) {
			t.Errorf("%s: kept are %v, want %v: %v", name, still, c.still, err)
		}
		if want := parsed(t, c.want); !reflect.DeepEqual(mine, want) {
			got, _ := json.Marshal(mine)
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestFingerprints checks that fingerprints stay the same until a manager's fields change.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	entry := func(manager, subresource, fields string,
		operation metav1.ManagedFieldsOperationType) metav1.ManagedFieldsEntry {
		now := metav1.Now()
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Operation: operation, Time: &now,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	object := func(entries ...metav1.ManagedFieldsEntry) metav1.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}}
	}
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	eks, others := fingerprints(object(entry("eks", "", `{"f:a":{}}`, apply), entry("kubectl", "", `{"f:b":{}}`,
		update)))
	for name, c := range map[string]struct {
		object      metav1.Object
		eks, others bool
	}{
		"the same": {object(entry("eks", "", `{"f:a":{}}`, apply), entry("kubectl", "", `{"f:b":{}}`,
			update)), true, true},
		"with a status": {object(entry("eks", "", `{"f:a":{}}`, apply), entry("kubectl", "", `{"f:b":{}}`,
			update), entry("kubelet", "status", `{}`, update)), true, true},
		"eks lost a field": {object(entry("eks", "", `{}`, apply), entry("kubectl", "", `{"f:b":{}}`, update)),
			false, true},
		"another has one more": {object(entry("eks", "", `{"f:a":{}}`, apply),
			entry("kubectl", "", `{"f:b":{},"f:c":{}}`, update)), true, false},
		"eks by another means": {object(entry("eks", "", `{"f:a":{}}`, update), entry("kubectl", "", `{"f:b":{}}`,
			update)), false, false},
		"eks has nothing, nobody": {object(), false, false},
	} {
		e, o := fingerprints(c.object)
		if (e == eks) != c.eks || (o == others) != c.others {
			t.Errorf("%s: eks the same: %v, others the same: %v", name, e == eks, o == others)
		}
	}
	if e, _ := fingerprints(object(entry("kubectl", "", `{}`, update))); e != "" {
		t.Errorf("eks owns nothing, and its fingerprint is %q", e)
	}
}

func parsed(t *testing.T, text string) (o map[string]any) {
	t.Helper()
	if err := utiljson.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// A user may write managed fields whose elements are no keys: they are compared, and compare with nothing else.
func TestElementsThatAreNoKeys(t *testing.T) {
	t.Parallel()
	of := func(name string) any { return map[string]any{"name": name} }
	if !equalKeys(of("c"), of("c")) || equalKeys(of("c"), of("d")) || equalKeys(of("c"), []any{"c"}) {
		t.Error("maps are not compared by what they hold")
	}
}

func TestPathsBelowOthersAreFound(t *testing.T) {
	t.Parallel()
	set := newPathSet([]string{".a", ".a-b", `.spec.containers[name="c"]`})
	for path, want := range map[string]bool{".a": true, ".a.b": true, ".a[0]": true, ".ab": false, ".a-b.c": true,
		".a-c": false, `.spec.containers[name="c"].image`: true, `.spec.containers[name="d"]`: false, ".spec": false} {
		if got := set.contains(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if set.containsAbove(".a") || !set.containsAbove(".a.a") {
		t.Error("a path is not below itself")
	}
}

// Users choose how many fields an object has that somebody owns, and how many items its lists have.
func TestFewItemsAreComparedForTheFieldsOfAnObject(t *testing.T) {
	t.Parallel()
	const items = 3000 // the square of which is more than maxCompared
	list, owned := make([]any, items), make([]string, items)
	for i := range items {
		list[i] = map[string]any{"name": fmt.Sprint(i), "value": "theirs"}
		owned[i] = fmt.Sprintf(`"k:{\"name\":\"%d\"}":{"f:value":{}}`, i)
	}
	live := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"env": list}}}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate,
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:env":{` + strings.Join(owned, ",") + `}}}`)}}})
	config := map[string]any{"spec": map[string]any{"env": []any{}}}
	if _, err := yieldFields(config, live, []string{".spec.env"}, nil); !errors.Is(err, managedfields.ErrTooLarge) {
		t.Errorf("fields of %d items: %v", items, err)
	}
	live.Object["spec"].(map[string]any)["env"] = list[:items/10]
	if _, err := yieldFields(config, live, []string{".spec.env"}, nil); err != nil {
		t.Errorf("fields of %d items: %v", items/10, err)
	}
}
