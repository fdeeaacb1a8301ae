//go:build linux

package containersysctl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config string
		want   map[string]string // content of files of parameters
		rest   string            // linux.sysctl that runc gets
		fails  string
	}{
		"none":           {config: `{"linux":{}}`},
		"no Linux":       {config: `{}`},
		"of another one": {config: `{"linux":{"sysctl":{"kernel.sem":"1"}}}`, rest: `{"kernel.sem":"1"}`},
		"of the network": {
			config: `{"ociVersion":"1.1.0","linux":{"sysctl":{"net.ipv4.tcp_syncookies":"1","kernel.sem":"2"},"x":[1]}}`,
			want:   map[string]string{"ipv4/tcp_syncookies": "1"}, rest: `{"kernel.sem":"2"}`,
		},
		"with slashes": {config: `{"linux":{"sysctl":{"net/ipv4/tcp_syncookies":"0"}}}`,
			want: map[string]string{"ipv4/tcp_syncookies": "0"}, rest: `{}`},
		"of a link with a dot": {config: `{"linux":{"sysctl":{"net.ipv4.conf.eth0/100.rp_filter":"2"}}}`,
			want: map[string]string{"ipv4/conf/eth0.100/rp_filter": "2"}, rest: `{}`},
		"outside": {config: `{"linux":{"sysctl":{"net.//.kernel":"x"}}}`, fails: "escapes"},
		"unknown": {config: `{"linux":{"sysctl":{"net.ipv4.unknown":"x"}}}`, fails: "net.ipv4.unknown"},
		"no JSON": {config: `{"linux":{"sysctl":[]}}`, fails: "config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle, dir := t.TempDir(), filepath.Join(t.TempDir(), "net")
			outside := filepath.Join(filepath.Dir(dir), "kernel")
			for _, file := range []string{outside, dir + "/ipv4/tcp_syncookies", dir + "/ipv4/conf/eth0.100/rp_filter"} {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(bundle, "config.json")
			if err := os.WriteFile(file, []byte(test.config), 0o600); err != nil {
				t.Fatal(err)
			}
			err := apply(bundle, dir)
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Fatalf("the error is %v, want %q", err, test.fails)
			}
			if content, err := os.ReadFile(outside); err != nil || len(content) > 0 {
				t.Errorf("outside there is %q, %v", content, err)
			}
			for name, want := range test.want {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v; want %q", name, got, err, want)
				}
			}
			if test.fails != "" {
				return
			}
			var before, after map[string]any
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(content, &after); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.config), &before); err != nil {
				t.Fatal(err)
			}
			if linux, _ := before["linux"].(map[string]any); test.rest != "" {
				var rest any
				if err := json.Unmarshal([]byte(test.rest), &rest); err != nil {
					t.Fatal(err)
				}
				linux["sysctl"] = rest
			}
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("the configuration changed (-want +got):\n%s", d)
			}
		})
	}
}
