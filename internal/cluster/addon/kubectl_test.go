package addon

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnnotated(t *testing.T) {
	t.Parallel()
	for _, annotations := range []string{``, `"annotations":{"a":"b"},`} {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s"name":"x"}}`, annotations))); err != nil {
			t.Fatal(err)
		}
		b, err := annotated(o)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Metadata struct{ Annotations map[string]string }
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if annotations == "" {
			annotations = `"annotations":{},`
		}
		want := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s"name":"x"}}`, annotations) + "\n"
		if got.Metadata.Annotations[lastApplied] != want {
			t.Errorf("note %q, want %q", got.Metadata.Annotations[lastApplied], want)
		}
	}
}
