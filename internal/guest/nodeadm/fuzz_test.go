package nodeadm

import (
	"encoding/json"
	"testing"
)

// FuzzParse shows that what nodeadm reads, it can cache and merge.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		nodeConfigOf(""), nodeConfigOf("  containerd:\n    config: \"[x]\\na = 1\"\n    baseRuntimeSpec: {process: {rlimits: []}}\n"), nodeConfigOf("  kubelet: {config: {maxPods: 3, a: {b: [1]}}, flags: [--v=2]}\n"),
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: application/node.eks.aws\n\n" + nodeConfigOf("") + "\n--x\nContent-Type: application/node.eks.aws\n\n" +
			nodeConfigOf("  instance: {localStorage: {strategy: RAID0}, environment: {default: {A: b}}}\n") + "\n--x--\n",
		"a: &a 1\nb: *a\n", "{}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err != nil {
			return
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%q cannot be cached: %v", data, err)
		}
		var again NodeConfig
		if err := json.Unmarshal(text, &again); err != nil || !equalSpecs(c.Spec, again.Spec) {
			t.Fatalf("%q is %s in the cache, and then something else: %v", data, text, err)
		}
		_ = c.validate()
		if _, err := mergeConfigs([]*NodeConfig{c, &again}); err != nil && c.Spec.Containerd.Config == "" {
			t.Fatalf("%q cannot be merged with itself: %v", data, err)
		}
	})
}
