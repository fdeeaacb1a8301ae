package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
)

// Write makes dir the skeleton that o asks for. Everything below dir is replaced; dir is complete when Write returns nil,
// and is made aside and renamed, so that it is never seen in part.
func Write(dir string, o Options) error {
	switch o.Family {
	case AL2, AL2023, Bottlerocket:
	default:
		return fmt.Errorf("write a root file system: %q is no image family (it is one of %s, %s, %s)", o.Family, AL2, AL2023, Bottlerocket)
	}
	next := dir + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := write(next, o); err != nil {
		return fmt.Errorf("write a root file system of %s for Kubernetes %s: %w", o.Family, o.KubernetesVersion, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(next, dir)
}

func write(dir string, o Options) error {
	for _, d := range directories {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// directories are there on every Linux machine; launch mounts over some of them.
var directories = []string{
	"boot", "dev", "etc", "home", "media", "mnt", "opt/cni/bin", "proc", "root", "run", "srv", "sys", "tmp", "var/log", "var/lib", "var/tmp", "usr/lib/coracle", "usr/local",
}

// links are those of a merged /usr.
var links = map[string]string{"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "../run"}
