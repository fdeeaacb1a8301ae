//go:build linux

package fargatemount

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/podvolume"
)

const (
	uid     = "0a1b2c3d-1111-2222-3333-444455556666"
	pod     = podvolume.PodsDir + uid
	volumes = pod + "/volumes/kubernetes.io~"
	kubelet = 77
)

// here returns a machine whose pod has a volume of NFS. Links of the machine are in links.
func here(links map[string]string) machine {
	return machine{uid: uid, nfs: []string{"10.0.1.5:/export", "-a:/listed"}, kubelet: kubelet,
		resolved: func(path string) (string, error) {
			if strings.HasSuffix(path, "/missing") {
				return "", errors.New("no such file")
			}
			if at, ok := links[path]; ok {
				return at, nil
			}
			return path, nil
		},
		readlink: func(path string) (string, error) { return links[path], nil }}
}

// TestMounts has the command lines of the kubelet and of the EFS CSI driver, and those by which a volume would make
// them mount something else. Words of volumes are between the options and the target.
func TestMounts(t *testing.T) {
	t.Parallel()
	const subPath = pod + "/volume-subpaths/v/web/0"
	links := map[string]string{"/proc/77/fd/9": volumes + "empty-dir/v/a", "/proc/77/fd/10": "/run/host",
		"/proc/77/fd/11": pod + "/volumes/kubernetes.io~csi", "/proc/77/fd/12": pod + "/volumes/kubernetes.io~configmap",
		"/proc/77/fd/13": pod + "/volumes", "/proc/77/fd/14": volumes + "csi/pv",
		"/proc/77/fd/15": volumes + "csi/pv/mount/a",
		"/proc/77/fd/16": volumes + "configmap/c/..2026_11_30/key", "/proc/77/fd/17": pod + "/etc-hosts",
		volumes + "nfs/link": "/run/host", volumes + "csi/pv/mount": volumes + "csi/pv/mount"}
	for name, test := range map[string]struct {
		args []string
		want string // of the mount(8) of the system; empty where it is not run
		says string
	}{
		"a volume in memory": {args: []string{"-t", "tmpfs", "-o", "size=134217728,noswap", "tmpfs", volumes + "secret/s"},
			want: "mount -t tmpfs -o size=134217728,noswap -- tmpfs " + volumes + "secret/s"},
		"the option noswap is tried": {args: []string{"-t", "tmpfs", "-o", "noswap", "tmpfs",
			"/var/lib/kubelet/plugins/kubernetes.io/empty-dir/tmpfs-noswap-test-123"},
			want: "mount -t tmpfs -o noswap -- tmpfs /var/lib/kubelet/plugins/kubernetes.io/empty-dir/tmpfs-noswap-test-123"},
		"NFS": {args: []string{"-t", "nfs", "10.0.1.5:/export", volumes + "nfs/n"},
			want: "mount -t nfs -- 10.0.1.5:/export " + volumes + "nfs/n"},
		"read-only NFS": {args: []string{"-t", "nfs", "-o", "ro", "10.0.1.5:/export", volumes + "nfs/n"},
			want: "mount -t nfs -o ro -- 10.0.1.5:/export " + volumes + "nfs/n"},
		"a path of a volume": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/9", subPath},
			want: "mount --no-canonicalize -o bind -- /proc/77/fd/9 " + subPath},
		"a path in EFS": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/15", subPath},
			want: "mount --no-canonicalize -o bind -- /proc/77/fd/15 " + subPath},
		"a file of a ConfigMap": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/16", subPath},
			want: "mount --no-canonicalize -o bind -- /proc/77/fd/16 " + subPath},
		"its flags": {args: []string{"--no-canonicalize", "-o", "bind,remount,ro,nosuid", "/proc/77/fd/9", subPath},
			want: "mount --no-canonicalize -o bind,remount,ro,nosuid -- /proc/77/fd/9 " + subPath},
		"EFS": {args: []string{"-t", "efs", "-o", "tls,X-mount.mkdir", "fs-0123456789abcdef0:/", volumes + "csi/pv/mount"}},

		"an option for a server": {args: []string{"-t", "nfs", "-aT/x:/fstab", volumes + "nfs/n"},
			says: "which is not a source of nfs"},
		"an option that is listed": {args: []string{"-t", "nfs", "-a:/listed", volumes + "nfs/n"},
			says: "which is not a source of nfs"},
		"another export": {args: []string{"-t", "nfs", "10.0.1.5:/other", volumes + "nfs/n"},
			says: "scheduled with other volumes"},
		"mount options of NFS": {args: []string{"-t", "nfs", "-o", "ro,X-mount.mkdir", "10.0.1.5:/export",
			volumes + "nfs/n"}, says: `"X-mount.mkdir" is not supported`},
		"bind as an option of NFS": {args: []string{"-t", "nfs", "-o", "bind", "10.0.1.5:/export", volumes + "nfs/n"},
			says: `"bind" is not supported`},
		"a helper": {args: []string{"-t", "tmpfs", "-o", "helper=x", "tmpfs", volumes + "secret/s"},
			says: `"helper=x" is not supported`},
		"all of fstab":  {args: []string{"-a"}, says: "a source and a target are required"},
		"a mount point": {args: []string{"/run/host"}, says: "a source and a target are required"},
		"a namespace": {args: []string{"-N", "1", "-t", "nfs", "10.0.1.5:/export", volumes + "nfs/n"},
			says: `"-N" is not`},
		"two types": {args: []string{"-t", "nfs", "-t", "tmpfs", "tmpfs", volumes + "secret/s"},
			says: `"-t" is not`},
		"no options": {args: []string{"-t", "nfs", "-o", "", "10.0.1.5:/export", volumes + "nfs/n"},
			says: `"-o" is not`},
		"another type": {args: []string{"-t", "hugetlbfs", "nodev", volumes + "empty-dir/v"},
			says: "are not supported"},
		"a type and bind": {args: []string{"-t", "tmpfs", "-o", "bind", "tmpfs", volumes + "secret/s"},
			says: "is not supported"},
		"a local volume": {args: []string{"-o", "bind", "/run/host", volumes + "local-volume/l"},
			says: "--no-canonicalize is"},
		"a file by a path": {args: []string{"--no-canonicalize", "-o", "bind", "/run/host", subPath},
			says: "is not an open file"},
		"a file of others": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/1/fd/9", subPath},
			says: "is not an open file"},
		"dots": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/../root", subPath},
			says: "is not an open"},
		"a file of the machine": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/10", subPath},
			says: `"/run/host" is not in a volume`},
		"all volumes of drivers": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/11", subPath},
			says: "is not in a volume"},
		"all ConfigMaps": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/12", subPath},
			says: "is not in a volume"},
		"all volumes": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/13", subPath},
			says: "is not in a volume"},
		"what the kubelet knows of a volume": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/14", subPath},
			says: "is not in a volume"},
		"a file beside the volumes": {args: []string{"--no-canonicalize", "-o", "bind", "/proc/77/fd/17", subPath},
			says: "is not in a volume"},
		"moved": {args: []string{"--no-canonicalize", "-o", "bind,move", "/proc/77/fd/9", subPath},
			says: `"move" is not`},
		"without bind": {args: []string{"--no-canonicalize", "/proc/77/fd/9", subPath},
			says: "has no type"},
		"over a file": {args: []string{"-t", "tmpfs", "tmpfs", "/run/host"},
			says: "is not where the kubelet"},
		"of another pod": {args: []string{"-t", "tmpfs", "tmpfs", podvolume.PodsDir + "x/volumes/kubernetes.io~secret/s"},
			says: "is not where"},
		"dots to a file": {args: []string{"-t", "tmpfs", "tmpfs", volumes + "secret/s/../../../../../../../../run/host"},
			says: "is not where"},
		"within a volume": {args: []string{"-t", "nfs", "10.0.1.5:/export", volumes + "empty-dir/v/n"},
			says: "is not where"},
		"below NFS": {args: []string{"-t", "nfs", "10.0.1.5:/export", volumes + "nfs/n/m"},
			says: "is not where"},
		"EFS elsewhere": {args: []string{"-t", "efs", "fs-0123456789abcdef0:/", volumes + "csi/pv"},
			says: "is not where"},
		"another driver": {args: []string{"-t", "efs", "-T/x:/fstab", volumes + "csi/pv/mount"},
			says: "which is not a source"},
		"a link": {args: []string{"-t", "nfs", "10.0.1.5:/export", volumes + "nfs/link"},
			says: "is not where"},
		"nothing": {args: []string{"-t", "nfs", "10.0.1.5:/export", volumes + "nfs/missing"},
			says: "no such file"},
	} {
		c, err := parse(test.args)
		if err == nil {
			err = here(links).validate(c)
		}
		switch {
		case test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %v, want %q", name, err, test.says)
		case test.want != "" && strings.Join(c.systemArguments(), " ") != test.want:
			t.Errorf("%s: %q, want %q", name, c.systemArguments(), test.want)
		}
	}
	c, err := parse([]string{"-t", "tmpfs", "tmpfs", volumes + "secret/s"})
	if err != nil {
		t.Fatal(err)
	}
	nobodys := here(links)
	nobodys.uid = ""
	if err := nobodys.validate(c); err == nil {
		t.Error("a machine that is for no pod mounts")
	}
	c = command{kind: typeEFS, options: []string{"tls", "iam"}, source: "fs-1:/", target: "/t"}
	if got := c.helperArguments(); !slices.Equal(got, []string{"fs-1:/", "/t", "-o", "tls,iam"}) {
		t.Errorf("mount.efs gets %q", got)
	}
}
