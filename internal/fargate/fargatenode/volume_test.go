package fargatenode

import "testing"

func TestVolumeDigest(t *testing.T) {
	t.Parallel()
	digest := func(handle string, attributes map[string]string, options ...string) string {
		d, err := VolumeDigest(handle, attributes, options)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if digest("fs-1", nil) != digest("fs-1", map[string]string{}, []string{}...) {
		t.Error("no attributes and empty ones differ")
	}
	if digest("fs-1", map[string]string{"a": "1", "b": "2"}) != digest("fs-1", map[string]string{"b": "2", "a": "1"}) {
		t.Error("the order of attributes matters")
	}
	seen := map[string]bool{}
	for _, d := range []string{digest("fs-1", nil), digest("fs-2", nil), digest("fs-1", map[string]string{"a": "1"}),
		digest("fs-1", map[string]string{"a": "2"}), digest("fs-1", nil, "a"), digest("fs-1", nil, "a", "b"),
		digest("fs-1", nil, "b", "a"), digest("fs-1", nil, "a,b")} {
		if seen[d] {
			t.Errorf("two volumes have the digest %s", d)
		}
		seen[d] = true
	}
}
