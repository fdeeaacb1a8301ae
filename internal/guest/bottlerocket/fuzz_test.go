package bottlerocket

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParse shows that settings that can be read can be written as the kubelet's configuration.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"[settings.kubernetes]\ncluster-name = \"demo\"\nmax-pods = 20\n[settings.kubernetes.node-taints]\ndedicated = [\"gpu:NoSchedule\", \"x:NoExecute\"]\nother = \"y:PreferNoSchedule\"\n",
		"settings.motd = \"hello\"\n[settings.host-containers.admin]\nenabled = true\n", "[settings]\nkubernetes = 1\n", "[[settings]]\n", "#!/bin/sh\n", "settings.kubernetes.a = [1.5, inf, nan, 1979-05-27, {b = ''}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSettings(data)
		if err != nil {
			return
		}
		all, err := parseTaints(s.Kubernetes["node-taints"])
		for _, taint := range all {
			if err == nil && !strings.Contains(taint, ":") {
				t.Fatalf("%q has the taint %q", data, taint)
			}
		}
		// Infinity and NaN, which TOML has, are not in JSON: the kubelet's configuration is refused with that.
		if _, err := json.Marshal(s.Kubernetes); err != nil && !strings.Contains(err.Error(), "unsupported value") {
			t.Fatalf("%q: %v", data, err)
		}
	})
}
