package catalog

import (
	"encoding/json"
	"errors"
	"testing"
)

// FuzzConfiguration shows that the configuration of an add-on is refused in the words of EKS, or is one that the
// add-on's templates can be given.
func FuzzConfiguration(f *testing.F) {
	for _, text := range []string{
		"", `{"replicaCount":3,"resources":{"limits":{"memory":"200Mi"}}}`,
		"replicaCount: 3\ntolerations:\n- &t {key: a, operator: Exists}\n- *t\n", "replicaCount: 1.5", "null", "[]",
		"a: b: c", "--- {}\n--- {}", `{"affinity":{"nodeAffinity":{}}}`,
		`{"tolerations":[{},"x"]}`, "replicaCount: 1e999", "replicaCount: 0x7fffffffffffffff\n", "<<: [{a: 1}]\n",
		"? {a: b}\n: c\n",
	} {
		f.Add(text)
	}
	c := open(f)
	addon, _ := c.Addon("coredns")
	version := addon.Versions[0]
	f.Fuzz(func(t *testing.T, text string) {
		var fault *ConfigurationError
		err := version.Check(t.Context(), text)
		if err != nil {
			if !errors.As(err, &fault) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		config, err := decodeConfiguration(text)
		if err != nil {
			t.Fatalf("%q is good, and cannot be read: %v", text, err)
		}
		if _, err := json.Marshal(mergeValues(map[string]any{"replicaCount": int64(2),
			"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}}, config)); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
