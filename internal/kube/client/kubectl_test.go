package client

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWithLastApplied(t *testing.T) {
	t.Parallel()
	for _, annotations := range []string{``, `"annotations":{"a":"b"},`} {
		o := &unstructured.Unstructured{}
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s"name":"x"}}`, annotations)
		if err := o.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		applied, err := WithLastApplied(o)
		if err != nil {
			t.Fatal(err)
		}
		got := applied.GetAnnotations()[LastApplied]
		if annotations == "" {
			annotations = `"annotations":{},`
		}
		want := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s"name":"x"}}`, annotations) + "\n"
		if got != want {
			t.Errorf("note %q, want %q", got, want)
		}
	}
}
