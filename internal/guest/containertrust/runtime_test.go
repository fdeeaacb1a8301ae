//go:build linux

package containertrust

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

const (
	authority = "-----BEGIN CERTIFICATE-----\nours\n"
	images    = "-----BEGIN CERTIFICATE-----\nthe image's\n"
)

// TestFargateByName creates a container by the name that containerd on a Fargate machine has for runc. What the machine
// is for cannot be read, as when a mount covers the file: nothing is created, and nothing becomes of other words.
func TestFargateByName(t *testing.T) {
	t.Parallel()
	bundle := t.TempDir()
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"create", "run", "restore"} {
		log := filepath.Join(bundle, "log")
		if status := Main("/usr/lib/coracle/fargate/"+boot.FargateRunc, []string{"--log=" + log, command, "--bundle", bundle,
			"id"}); status != 1 {
			t.Errorf("%s ends with %d", command, status)
		}
		reason, err := os.ReadFile(log)
		if err != nil || !strings.Contains(string(reason), map[string]string{"restore": "checkpoints"}[command]) ||
			command != "restore" && !strings.Contains(string(reason), boot.FargateFile) {
			t.Errorf("%s is refused because of %s, %v", command, reason, err)
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExtend checks what containers of different images trust, and that nothing of the node gets into one.
func TestExtend(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files  map[string]string // of the image; "->" begins the target of a link
		config string            // more of it
		want   map[string]string // content of the mounts, by destination
		env    []string
	}{
		"Debian": {
			files: map[string]string{"etc/ssl/certs/ca-certificates.crt": images},
			want:  map[string]string{"/etc/ssl/certs/ca-certificates.crt": images + authority},
			env:   []string{"A=1", "AWS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt", "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt"},
		},
		"Amazon Linux": {
			files: map[string]string{"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": images,
				"etc/pki/tls/certs/ca-bundle.crt": "->/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
			want: map[string]string{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": images + authority},
		},
		"two files": {
			files: map[string]string{"etc/ssl/certs/ca-certificates.crt": images, "etc/ssl/cert.pem": images},
			want: map[string]string{"/etc/ssl/certs/ca-certificates.crt": images + authority,
				"/etc/ssl/cert.pem": images + authority},
		},
		"no file": {want: map[string]string{"/etc/ssl/certs/ca-certificates.crt": "the node's\n"}},
		"variables of its own": {
			config: `,"process":{"env":["AWS_CA_BUNDLE=/own","NODE_EXTRA_CA_CERTS="],"args":["x"]}`,
			want:   map[string]string{"/etc/ssl/certs/ca-certificates.crt": "the node's\n"},
			env:    []string{"AWS_CA_BUNDLE=/own", "NODE_EXTRA_CA_CERTS="},
		},
		"a volume over it": {
			files:  map[string]string{"etc/ssl/certs/ca-certificates.crt": images},
			config: `,"mounts":[{"destination":"/etc/ssl/certs","source":"/v","type":"bind"}]`,
			env:    []string{"A=1"},
		},
		"a sandbox": {
			files:  map[string]string{"etc/ssl/certs/ca-certificates.crt": images},
			config: `,"annotations":{"io.kubernetes.cri.container-type":"sandbox"}`, env: []string{"A=1"},
		},
		"a link out of the image": {
			files: map[string]string{"etc/ssl/certs/ca-certificates.crt": "->/../../../../../../secret",
				"etc/ssl/cert.pem": "->../../../../../../../secret"},
			want: map[string]string{"/etc/ssl/certs/ca-certificates.crt": "the node's\n"},
		},
		"a directory that is a link": {
			files: map[string]string{"etc": "->/"},
			want:  map[string]string{"/etc/ssl/certs/ca-certificates.crt": "the node's\n"},
		},
		"something else": {
			files: map[string]string{"etc/ssl/certs/ca-certificates.crt": "a text"},
			want:  map[string]string{"/etc/ssl/certs/ca-certificates.crt": "the node's\n"},
		},
		"too large": {
			files: map[string]string{"etc/ssl/certs/ca-certificates.crt": images + strings.Repeat("x", maxBundle)},
			want:  map[string]string{"/etc/ssl/certs/ca-certificates.crt": "the node's\n"},
		},
		"a pipe": {
			files: map[string]string{"etc/ssl/certs/ca-certificates.crt": "|"},
			want:  map[string]string{"/etc/ssl/certs/ca-certificates.crt": "the node's\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name, content string) string {
				t.Helper()
				name = filepath.Join(dir, name)
				err := os.MkdirAll(filepath.Dir(name), 0o700)
				if target, ok := strings.CutPrefix(content, "->"); ok {
					err = os.Symlink(target, name)
				} else if content == "|" {
					err = unix.Mkfifo(name, 0o600)
				} else if err == nil {
					err = os.WriteFile(name, []byte(content), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				return name
			}
			write("bundle/rootfs/bin/sh", "")
			write("secret", images+"a secret of the node\n")
			for name, content := range test.files {
				write("bundle/rootfs/"+name, content)
			}
			if !strings.Contains(test.config, "process") {
				test.config += `,"process":{"env":["A=1"],"args":["x"]}`
			}
			config := write("bundle/config.json", `{"ociVersion":"1.2.0","root":{"path":"rootfs"},"other":{"big":12345678901234567890}`+
				test.config+"}")
			trusted := write("trusted", "the node's\n")
			if err := extend(filepath.Join(dir, "bundle"), write("authority", authority), trusted); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			var s spec
			if err := json.Unmarshal(content, &s); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, m := range s.Mounts {
				if m.Source == "/v" {
					continue
				}
				content, err := os.ReadFile(m.Source)
				if err != nil || !slices.Contains(m.Options, "ro") {
					t.Errorf("%+v: %v", m, err)
				}
				got[m.Destination] = string(content)
			}
			if len(test.want) == 0 {
				test.want = map[string]string{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if test.env != nil && !slices.Equal(test.env, s.Process.Env) {
				t.Errorf("environment %q, want %q", s.Process.Env, test.env)
			}
			if !strings.Contains(string(content), `"big":12345678901234567890`) || !strings.Contains(string(content), `"args":["x"]`) {
				t.Errorf("the rest of the configuration changed: %s", content)
			}
		})
	}
}

func TestCreatedBundle(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--root /run/runc --log l --log-format json create --bundle /b --pid-file p c": "/b",
		"run -b=/b c":         "/b",
		"create c":            ".",
		"--root /r start c":   "",
		"exec --process p c":  "",
		"--version":           "",
		"create --bundle":     ".",
		"delete --force c":    "",
		"state create-things": "",
	} {
		bundle, ok := createdBundle(strings.Fields(line))
		if bundle != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", line, bundle, ok)
		}
	}
}
