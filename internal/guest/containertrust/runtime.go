//go:build linux

// Package containertrust makes the containers of a node trust the certificates of the AWS APIs that the node finds, as
// containers on EC2 trust those of AWS, without a setting in the pod. It stands before runc: when a container is
// created, the authority of the APIs is added to what the image trusts.
//
// An image's file of authorities is covered by a copy with one authority more, in the bundle of the container; the
// image itself does not change. Programs that bring authorities of their own find the file by variables: the AWS SDKs
// by AWS_CA_BUNDLE, Node.js by NODE_EXTRA_CA_CERTS, unless the container has them already.
package containertrust

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/containerdevice"
	"github.com/coracle-eks/coracle/internal/guest/containerguard"
	"github.com/coracle-eks/coracle/internal/guest/containersysctl"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/guest/runcspec"
)

const (
	// Runc is the path of the real runc in a machine.
	Runc = "/usr/lib/coracle/runc"

	// authorities is the file with the authority of the AWS APIs; nodeTrust has all that the node trusts.
	authorities = "/etc/pki/ca-trust/source/anchors/coracle.pem"
	nodeTrust   = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"

	// maxBundle is the size in bytes of a file of authorities that is extended; usual are 200 KB.
	maxBundle = 1 << 20
)

// bundles are the files in which programs look for authorities: of Debian and Alpine, of Fedora and Amazon Linux, of
// openSUSE, and of BSD and Alpine.
// https://go.dev/src/crypto/x509/root_linux.go
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Main runs runc, and returns an exit status when that is not possible. A container that cannot be made to trust more
// is created as it is; one that would get other devices than it is to have (package containerdevice) is not, nor one
// that a Fargate machine is not for (package containerguard): name is the one by which the program is run, and says
// that the machine is that of a Fargate pod.
func Main(name string, args []string) int {
	isFargate := filepath.Base(name) == boot.FargateRunc || boot.IsFargate("/")
	if isFargate {
		if err := containerguard.Enforce(args); err != nil {
			fail(args, err)
			return 1
		}
	}
	if bundle, ok := createdBundle(args); ok {
		if err := containerdevice.Bind(bundle); err != nil {
			fail(args, err)
			return 1
		}
		if isFargate {
			if err := containersysctl.Apply(bundle); err != nil {
				fail(args, err)
				return 1
			}
		}
		if err := extend(bundle, authorities, nodeTrust); err != nil {
			fmt.Fprintln(os.Stderr, "runc: add the authority of the AWS APIs to the container:", err)
		}
	}
	err := unix.Exec(Runc, append([]string{"runc"}, args...), os.Environ())
	fmt.Fprintf(os.Stderr, "runc: run %s: %v\n", Runc, err)
	return 1
}

// fail says why there is no container: to the caller, and in the log of runc, from which containerd has it.
func fail(args []string, reason error) {
	fmt.Fprintln(os.Stderr, "runc:", reason)
	log, err := os.OpenFile(runcspec.Option(args, "--log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer log.Close()
	_ = json.NewEncoder(log).Encode(map[string]string{"level": "error", "msg": reason.Error(),
		"time": time.Now().UTC().Format(time.RFC3339)})
}

// createdBundle returns the directory of the OCI bundle of the container that a command of runc creates; ok is false
// for other commands.
func createdBundle(args []string) (bundle string, ok bool) {
	at := slices.IndexFunc(args, func(arg string) bool { return arg == "create" || arg == "run" })
	if at < 0 {
		return "", false
	}
	return cmp.Or(runcspec.Option(args[at:], "--bundle", "-b"), "."), true
}

// spec is the part of an OCI runtime configuration that is read; what it lacks stays as it is.
type spec struct {
	Annotations map[string]string `json:"annotations"`
	Root        struct {
		Path string `json:"path"`
	} `json:"root"`
	Mounts  []mount `json:"mounts"`
	Process struct {
		Env []string `json:"env"`
	} `json:"process"`
}

type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// extend makes the container of a bundle trust the authority in a file. An image that trusts nobody gets what the node
// trusts.
func extend(bundle, authority, trusted string) error {
	added, err := os.ReadFile(authority)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	file := filepath.Join(bundle, "config.json")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var s spec
	if err := json.Unmarshal(content, &s); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if s.Annotations["io.kubernetes.cri.container-type"] == "sandbox" {
		return nil
	}
	root := s.Root.Path
	if !filepath.IsAbs(root) {
		root = filepath.Join(bundle, root)
	}
	mounts, err := coverBundles(root, bundle, s.Mounts, added)
	if err != nil {
		return err
	}
	if len(mounts) == 0 && !isCovered(s.Mounts, bundles[0]) {
		mounts = []mount{bindMount(trusted, bundles[0])}
	}
	if len(mounts) == 0 {
		return nil
	}
	env := s.Process.Env
	for _, name := range []string{"AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"} {
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			env = append(env, name+"="+mounts[0].Destination)
		}
	}
	return rewrite(file, content, mounts, env)
}

// coverBundles writes an extended copy of each file of authorities of a root file system, and returns the mounts that
// put the copies over them.
func coverBundles(root, bundle string, there []mount, added []byte) (mounts []mount, err error) {
	var seen []string
	for _, name := range bundles {
		// The image is not to be trusted: a link in it must not lead to a file of the node, nor a pipe block.
		resolved, err := securejoin.SecureJoin(root, name)
		if err != nil {
			return nil, err
		}
		inside := strings.TrimPrefix(resolved, filepath.Clean(root))
		if slices.Contains(seen, inside) || isCovered(there, inside) || isCovered(there, name) {
			continue
		}
		content, err := readInside(root, inside)
		if err != nil || !bytes.Contains(content, []byte("-----BEGIN CERTIFICATE-----")) {
			continue // there is none, or it is something else
		}
		seen = append(seen, inside)
		copied := filepath.Join(bundle, fmt.Sprintf("coracle-trust-%d.pem", len(seen)))
		content = append(append(bytes.TrimRight(content, "\n"), '\n'), added...)
		if err := os.WriteFile(copied, content, 0o644); err != nil {
			return nil, err
		}
		mounts = append(mounts, bindMount(copied, inside))
	}
	return mounts, nil
}

// readInside reads a regular file of a root file system without leaving it.
func readInside(root, name string) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(strings.TrimPrefix(name, "/"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBundle {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, maxBundle)
	}
	return io.ReadAll(io.LimitReader(f, maxBundle))
}

// isCovered reports whether a mount of the container covers a path.
func isCovered(mounts []mount, name string) bool {
	return slices.ContainsFunc(mounts, func(m mount) bool {
		at := path.Clean("/" + m.Destination)
		return at != "/" && (name == at || strings.HasPrefix(name, at+"/"))
	})
}

func bindMount(from, to string) mount {
	return mount{Destination: to, Type: "bind", Source: from, Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"}}
}

// rewrite adds mounts to a configuration and sets its environment; all else stays as it is.
func rewrite(file string, content []byte, mounts []mount, env []string) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(content, &all); err != nil {
		return err
	}
	var before []json.RawMessage
	if raw, ok := all["mounts"]; ok {
		if err := json.Unmarshal(raw, &before); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		raw, err := json.Marshal(m)
		if err != nil {
			return err
		}
		before = append(before, raw)
	}
	var process map[string]json.RawMessage
	if err := json.Unmarshal(all["process"], &process); err != nil {
		return err
	}
	var err error
	if process["env"], err = json.Marshal(env); err != nil {
		return err
	}
	if all["process"], err = json.Marshal(process); err != nil {
		return err
	}
	if all["mounts"], err = json.Marshal(before); err != nil {
		return err
	}
	if content, err = json.Marshal(all); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}
