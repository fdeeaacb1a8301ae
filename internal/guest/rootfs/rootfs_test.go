package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/rootfstest"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

func options(t *testing.T, family, version string) Options {
	t.Helper()
	plugin := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(plugin, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Options{
		Family: family, KubernetesVersion: version, Release: "1.35.4-20261105", Architecture: "x86_64",
		Region: "eu-west-1", CABundle: []byte("-----BEGIN CERTIFICATE-----\nthe daemon's\n"),
		Base: rootfstest.Base(t), SandboxImage: "pause:3.10", Kubernetes: plugin,
		Program: func(string) (string, error) { return plugin, nil },
	}
}

func TestTheNodeImageIsBelow(t *testing.T) {
	t.Parallel()
	o := options(t, AL2023, "1.35")
	dir := filepath.Join(t.TempDir(), "ami")
	if err := Write(dir, o); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"usr/bin/sh": "a shell", "usr/bin/bash": "a shell",
		"etc/ssl/certs/ca-certificates.crt": rootfstest.Roots + string(o.CABundle)} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "etc/os-release")); err != nil ||
		!strings.Contains(string(got), "Amazon Linux") {
		t.Errorf("/etc/os-release has %q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "usr/bin/sudo")); err != nil || info.Mode()&fs.ModeSetuid == 0 {
		t.Errorf("sudo: %v, %v", info, err)
	}
	// What the base image writes of its own is not written into the node image.
	if got, err := os.ReadFile(filepath.Join(o.Base, "etc/os-release")); err != nil || string(got) != "ID=debian\n" {
		t.Errorf("the node image's /etc/os-release has %q, %v", got, err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, family, version string
		has                   []string
		hasNot                []string
		parts                 map[string]string
	}{
		{
			"Amazon Linux 2", AL2, "1.35",
			[]string{"etc/eks/bootstrap.sh", "etc/eks/max-pods-calculator.sh",
				"etc/kubernetes/kubelet/kubelet-config.json", "etc/containerd/certs.d/_default/hosts.toml",
				"opt/cni/bin/loopback", "usr/bin/private-dns-name", "usr/lib/systemd/system/network.service",
				"etc/systemd/system/containerd.service.d/00-runtime-slice.conf"},
			[]string{"opt/cni/bin/aws-cni", "etc/cni/net.d/10-aws.conflist", "usr/bin/nodeadm",
				"etc/systemd/system/multi-user.target.wants/nodeadm-run.service"},
			map[string]string{"etc/os-release": `PRETTY_NAME="Amazon Linux 2"`,
				"etc/eks/eni-max-pods.txt":                   "\nm5.large 29\n",
				"etc/eks/containerd/containerd-config.toml":  "SANDBOX_IMAGE",
				"etc/containerd/certs.d/_default/hosts.toml": "https://api.ecr.eu-west-1.amazonaws.com"},
		},
		{
			"Amazon Linux 2023", AL2023, "1.35",
			[]string{"usr/bin/nodeadm", "etc/systemd/system/multi-user.target.wants/nodeadm-run.service",
				"etc/eks/nodeadm.d", "opt/cni/bin/portmap", "etc/cni/net.d"},
			[]string{"etc/kubernetes/kubelet/kubelet-config.json", "usr/bin/private-dns-name"},
			map[string]string{"etc/os-release": `PRETTY_NAME="Amazon Linux 2023.13.20261105"`,
				"etc/eks/bootstrap.sh":                    "has been removed from AL2023",
				"etc/sysctl.d/67-eks-reserved-ports.conf": "61679"},
		},
		{
			"Bottlerocket", Bottlerocket, "1.35",
			[]string{"etc/systemd/system/multi-user.target.wants/apply-settings.service"},
			[]string{"usr/bin/yum", "usr/lib/systemd/system/cloud-init.target.wants"},
			map[string]string{"etc/os-release": "VARIANT_ID=aws-k8s-1.35"},
		},
		{
			"Amazon Linux 2023 without Kubernetes", AL2023, "", []string{"usr/bin/cloud-init",
				"usr/lib/systemd/system/cloud-init.target.wants/cloud-final.service"},
			[]string{"etc/eks", "usr/bin/kubelet", "opt/cni", "etc/systemd/system/kubelet.service", "usr/bin/nodeadm"},
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, test.family, test.version)
			dir := filepath.Join(t.TempDir(), "ami")
			if err := Write(dir, o); err != nil {
				t.Fatal(err)
			}
			for _, name := range append(test.has, "usr/sbin/init", "usr/bin/systemctl", "etc/passwd",
				"etc/ssl/certs/ca-certificates.crt", "bin", "usr/local/bin") {
				if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			for _, name := range test.hasNot {
				if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("there is %s", name)
				}
			}
			for name, part := range test.parts {
				if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil ||
					!strings.Contains(string(data), part) {
					t.Errorf("%s has no %q: %v\n%s", name, part, err, data)
				}
			}
			for _, name := range []string{"etc/ssl/certs/ca-bundle.crt", "etc/ssl/certs/ca-certificates.crt",
				"etc/pki/tls/certs/ca-bundle.crt", "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
				"etc/ssl/cert.pem"} {
				if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil ||
					!strings.HasSuffix(string(data), string(o.CABundle)) {
					t.Errorf("%s does not end with the daemon's certificate: %v", name, err)
				}
			}
			mounts, err := Mounts(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range mounts {
				if _, err := os.Stat(filepath.Join(dir, m.Target)); err != nil {
					t.Errorf("mount on %s: %v", m.Target, err)
				}
				if _, err := os.Stat(m.Source); err != nil {
					t.Errorf("mount %s: %v", m.Source, err)
				}
			}
			// Every unit file can be read, and what is enabled exists.
			path := []string{filepath.Join(dir, "etc/systemd/system"), filepath.Join(dir, "usr/lib/systemd/system")}
			for _, name := range unit.All(path) {
				u, err := unit.Load(path, name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				for _, wanted := range append(u.WantsLinks, u.Names("Unit", "Requires")...) {
					if wanted == "sandbox-image.service" {
						continue // bootstrap.sh brings it
					}
					if _, err := unit.Load(path, wanted); err != nil {
						t.Errorf("%s wants %s: %v", name, wanted, err)
					}
				}
				for _, setting := range []string{"ExecStart", "ExecStartPre", "ExecCondition"} {
					if _, err := u.Commands(setting); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func TestNothingOfTheHostIsInIt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ami")
	if err := Write(dir, options(t, AL2023, "1.35")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/shadow", "etc/passwd"} {
		host, err := os.ReadFile("/" + name)
		if err != nil {
			continue
		}
		ours, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(host)), "\n") {
			if user, rest, _ := strings.Cut(line, ":"); len(rest) > 20 && strings.Contains(string(ours), line) &&
				user != "nobody" && name == "etc/shadow" {
				t.Errorf("%s has the host's line of %s", name, user)
			}
		}
	}
	for _, name := range []string{"etc/ssh", "etc/hostname", "etc/machine-id", "root/.ssh", "etc/ssl/private"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "etc/shadow")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("etc/shadow: %v, %v", info, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	o := options(t, "al3", "1.35")
	if err := Write(filepath.Join(t.TempDir(), "ami"), o); err == nil || !strings.Contains(err.Error(),
		`"al3" is no image family`) {
		t.Errorf("a family that is none: %v", err)
	}
	o = options(t, AL2, "1.35")
	o.Program = func(name string) (string, error) { return "", errors.New("not built") }
	dir := filepath.Join(t.TempDir(), "ami")
	if err := Write(dir, o); err == nil || !strings.Contains(err.Error(), "find the CNI plugin bandwidth: not built") {
		t.Errorf("a plugin that is missing: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("there is half a base image")
	}
	if _, err := Mounts(o); err == nil || !strings.Contains(err.Error(), "not built") {
		t.Errorf("a program that is missing: %v", err)
	}
}
