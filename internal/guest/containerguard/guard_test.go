//go:build linux

package containerguard

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/podvolume"
	"github.com/coracle-eks/coracle/internal/guest/runcspec"
)

const (
	uid     = "0a1b2c3d-1111-2222-3333-444455556666"
	pod     = podvolume.PodsDir + uid
	other   = podvolume.PodsDir + "0a1b2c3d-1111-2222-3333-777788889999"
	sandbox = "1f0b8d4c9e0a"
)

// mountinfo is that of a machine whose disk is a directory of the host, with volumes of the pod: a Secret in memory,
// one in EFS, which is a directory of the host, one of NFS, and an emptyDir in memory; paths (subPath) of them and of a
// ConfigMap, of the machine's root, of the kubelet's files, of another pod and of /run; and of volumes of type hostPath
// that name the pod's own directories of the kubelet.
const mountinfo = `10 1 0:40 / / rw,relatime - overlay overlay rw
11 10 0:41 / /proc rw - proc proc rw
12 10 0:42 / /run rw - tmpfs tmpfs rw
13 10 8:1 /coracle/machines/i-1/kubelet /var/lib/kubelet rw - ext4 /dev/sda1 rw
14 10 8:1 /coracle/machines/i-1/containerd /var/lib/containerd rw - ext4 /dev/sda1 rw
15 10 0:43 / ` + pod + `/volumes/kubernetes.io~secret/s rw - tmpfs tmpfs rw
16 10 8:1 /coracle/efs/fs-1 ` + pod + `/volumes/kubernetes.io~csi/pv/mount rw - ext4 /dev/sda1 rw
17 10 0:44 / ` + pod + `/volumes/kubernetes.io~nfs/n\040f rw - nfs4 h:/ rw
18 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + `/volumes/kubernetes.io~empty-dir/e/a ` + pod + `/volume-subpaths/e/web/0 rw - ext4 x rw
19 10 0:43 /key ` + pod + `/volume-subpaths/s/web/1 rw - tmpfs tmpfs rw
20 10 0:40 /etc ` + pod + `/volume-subpaths/host/web/2 rw - overlay overlay rw
21 10 8:1 /coracle/machines/i-1/kubelet/pki ` + pod + `/volumes/kubernetes.io~local-volume/pki rw - ext4 x rw
22 10 8:1 /coracle/machines/i-1/kubelet/pods/0a1b2c3d-1111-2222-3333-777788889999/volumes/x ` + pod + `/volume-subpaths/o/web/3 rw - ext4 x rw
23 10 0:42 /host ` + pod + `/volumes/kubernetes.io~local-volume/run rw - tmpfs tmpfs rw
24 10 0:45 / ` + pod + `/volumes/kubernetes.io~empty-dir/m rw - x x rw
25 10 0:45 /a ` + pod + `/volume-subpaths/m/web/4 rw - x x rw
26 10 8:1 /coracle/efs/fs-1/a ` + pod + `/volume-subpaths/pv/web/5 rw - x x rw
27 10 0:44 /a ` + pod + `/volume-subpaths/n\040f/web/6 rw - x x rw
28 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + `/volumes/kubernetes.io~configmap/c/..2026_11_30/key ` + pod + `/volume-subpaths/c/web/7 rw - x x rw
29 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + `/volumes/kubernetes.io~configmap/c/..data ` + pod + `/volume-subpaths/v/web/8 rw - x x rw
30 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + `/volumes/kubernetes.io~configmap ` + pod + `/volume-subpaths/v/web/9 rw - x x rw
31 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + `/volumes/kubernetes.io~csi ` + pod + `/volume-subpaths/v/web/10 rw - x x rw
32 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + `/volumes/kubernetes.io~csi/pv ` + pod + `/volume-subpaths/v/web/11 rw - x x rw
33 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + `/volumes ` + pod + `/volume-subpaths/v/web/12 rw - x x rw
34 10 8:1 /coracle/machines/i-1/kubelet/pods/` + uid + ` ` + pod + `/volume-subpaths/v/web/13 rw - x x rw
35 10 0:46 / ` + pod + `/volume-subpaths/v/web/15 rw - x x rw
`

// container returns the configuration that containerd makes of the machine's base for a container of the pod.
func container(t *testing.T) map[string]any {
	t.Helper()
	spec, err := node.RuntimeSpec()
	if err != nil {
		t.Fatal(err)
	}
	spec["annotations"] = map[string]any{podUID: uid, containerType: "container",
		"io.kubernetes.cri.sandbox-id": sandbox}
	linux := spec["linux"].(map[string]any)
	linux["namespaces"] = []any{namespace("pid", ""), namespace("ipc", "/proc/77/ns/ipc"),
		namespace("uts", "/proc/77/ns/uts"), namespace("mount", ""), namespace("network", "/proc/77/ns/net"),
		namespace("cgroup", "")}
	const state = "/containerd/io.containerd.grpc.v1.cri/sandboxes/" + sandbox
	spec["mounts"] = append(spec["mounts"].([]any),
		map[string]any{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
			"options": []any{"nosuid", "noexec", "nodev", "relatime", "ro"}},
		bind(pod+"/etc-hosts", "/etc/hosts"), bind(pod+"/containers/web/0badcafe", "/dev/termination-log"),
		bind("/var/lib"+state+"/hostname", "/etc/hostname"), bind("/var/lib"+state+"/resolv.conf", "/etc/resolv.conf"),
		bind("/run"+state+"/shm", "/dev/shm"), bind(pod+"/volumes/kubernetes.io~projected/kube-api-access-x", "/token", "ro"))
	return spec
}

func namespace(kind, path string) map[string]any {
	n := map[string]any{"type": kind}
	if path != "" {
		n["path"] = path
	}
	return n
}

func bind(source, destination string, options ...string) map[string]any {
	all := []any{"rbind", "rprivate"}
	if !slices.Contains(options, "ro") && !slices.Contains(options, "rro") {
		all = append(all, "rw")
	}
	for _, o := range options {
		all = append(all, o)
	}
	return map[string]any{"destination": destination, "type": "bind", "source": source, "options": all}
}

// TestJudge judges the containers of pods that were bound to the node, of ephemeral containers, and of volumes that
// were changed behind the scheduler.
func TestJudge(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	linux := func(c object) object { return c["linux"].(object) }
	mounts := func(all ...object) func(object) {
		return func(c object) {
			for _, m := range all {
				c["mounts"] = append(c["mounts"].([]any), m)
			}
		}
	}
	namespaces := func(change func([]any) []any) func(object) {
		return func(c object) { linux(c)["namespaces"] = change(linux(c)["namespaces"].([]any)) }
	}
	replaced := func(kind, path string) func(object) {
		return namespaces(func(all []any) []any {
			for i, n := range all {
				if n.(object)["type"] == kind {
					all[i] = namespace(kind, path)
				}
			}
			return all
		})
	}
	without := func(kind string) func(object) {
		return namespaces(func(all []any) []any {
			return slices.DeleteFunc(all, func(n any) bool { return n.(object)["type"] == kind })
		})
	}
	capabilities := func(set string, names ...any) func(object) {
		return func(c object) { c["process"].(object)["capabilities"].(object)[set] = names }
	}
	sandboxOf := func(c object) {
		c["annotations"].(object)[containerType] = "sandbox"
		linux(c)["namespaces"] = []any{namespace("pid", ""), namespace("ipc", ""), namespace("uts", ""),
			namespace("mount", ""), namespace("network", "/var/run/netns/cni-1")}
	}
	for name, test := range map[string]struct {
		change func(object)
		fails  string
	}{
		"a container":                {func(object) {}, ""},
		"a sandbox":                  {sandboxOf, ""},
		"processes shared in a pod":  {replaced("pid", "/proc/77/ns/pid"), ""},
		"no capabilities":            {func(c object) { delete(c["process"].(object), "capabilities") }, ""},
		"a Secret":                   {mounts(bind(pod+"/volumes/kubernetes.io~secret/s", "/s", "ro")), ""},
		"a ConfigMap":                {mounts(bind(pod+"/volumes/kubernetes.io~configmap/c", "/c", "ro")), ""},
		"all of it read-only":        {mounts(bind(pod+"/volumes/kubernetes.io~configmap/c", "/c", "rro")), ""},
		"fields of the pod":          {mounts(bind(pod+"/volumes/kubernetes.io~downward-api/d", "/d", "ro")), ""},
		"an emptyDir":                {mounts(bind(pod+"/volumes/kubernetes.io~empty-dir/e", "/e")), ""},
		"an emptyDir in memory":      {mounts(bind(pod+"/volumes/kubernetes.io~empty-dir/m", "/m")), ""},
		"a volume in EFS":            {mounts(bind(pod+"/volumes/kubernetes.io~csi/pv/mount", "/e")), ""},
		"a volume of NFS":            {mounts(bind(pod+"/volumes/kubernetes.io~nfs/n f", "/n")), ""},
		"a directory of an emptyDir": {mounts(bind(pod+"/volume-subpaths/e/web/0", "/a")), ""},
		"a directory in memory":      {mounts(bind(pod+"/volume-subpaths/m/web/4", "/a")), ""},
		"a directory in EFS":         {mounts(bind(pod+"/volume-subpaths/pv/web/5", "/a")), ""},
		"a directory of NFS":         {mounts(bind(pod+"/volume-subpaths/n f/web/6", "/a")), ""},
		"a file of a Secret":         {mounts(bind(pod+"/volume-subpaths/s/web/1", "/k", "ro")), ""},
		"a file of a ConfigMap":      {mounts(bind(pod+"/volume-subpaths/c/web/7", "/k", "ro")), ""},
		"a volume of the image": {mounts(bind("/var/lib/containerd/io.containerd.grpc.v1.cri/containers/x/volumes/y",
			"/v")), ""},
		"a usual device": {func(c object) {
			linux(c)["devices"] = []any{object{"path": "/dev/null", "type": "c", "major": 1, "minor": 3}}
		}, ""},

		"another pod":                    {func(c object) { c["annotations"].(object)[podUID] = "x" }, `with UID "x"`},
		"another's sandbox":              {func(c object) { sandboxOf(c); c["annotations"].(object)[podUID] = "x" }, `with UID "x"`},
		"no pod":                         {func(c object) { delete(c, "annotations") }, `with UID ""`},
		"no process":                     {func(c object) { delete(c, "process") }, "lacks process"},
		"hooks":                          {func(c object) { c["hooks"] = object{"prestart": []any{object{"path": "/x"}}} }, "hooks"},
		"SYS_ADMIN":                      {capabilities("bounding", "CAP_CHOWN", "CAP_SYS_ADMIN"), "CAP_SYS_ADMIN"},
		"NET_ADMIN, ambient":             {capabilities("ambient", "CAP_NET_ADMIN"), "CAP_NET_ADMIN"},
		"a name of its own":              {capabilities("effective", "SYS_PTRACE"), "SYS_PTRACE"},
		"no masked paths":                {func(c object) { linux(c)["maskedPaths"] = []any{} }, "masked"},
		"a path not masked":              {func(c object) { linux(c)["maskedPaths"] = linux(c)["maskedPaths"].([]any)[1:] }, "masked"},
		"no read-only paths":             {func(c object) { delete(linux(c), "readonlyPaths") }, "read-only"},
		"the node's processes":           {without("pid"), "pid namespace of the node"},
		"the node's host name":           {without("uts"), "uts namespace of the node"},
		"the node's memory":              {without("ipc"), "ipc namespace of the node"},
		"the node's mounts":              {without("mount"), "mount namespace of their own"},
		"the node's cgroups":             {without("cgroup"), "cgroup namespace of their own"},
		"mounts of another":              {replaced("mount", "/proc/77/ns/mnt"), "mount namespace of their own"},
		"processes of the first process": {replaced("pid", "/proc/1/ns/pid"), "pid namespace of the node"},
		"a link to its processes":        {replaced("pid", "/proc/self/ns/pid"), "cannot have the pid namespace"},
		"a detour to its processes":      {replaced("pid", "/proc/77/../1/ns/pid"), "cannot have the pid namespace"},
		"two namespaces": {namespaces(func(all []any) []any {
			return append(all, namespace("pid", "/proc/1/ns/pid"))
		}), "two namespaces"},
		"a disk": {func(c object) {
			linux(c)["devices"] = []any{object{"path": "/dev/sda", "type": "b", "major": 8, "minor": 0}}
		}, "/dev/sda"},
		"kmsg": {func(c object) {
			linux(c)["devices"] = []any{object{"path": "/dev/kmsg", "type": "c", "major": 1, "minor": 11}}
		}, "/dev/kmsg"},
		"all devices": {func(c object) {
			linux(c)["resources"] = object{"devices": []any{object{"allow": true, "access": "rwm"}}}
		}, "devices of the machine"},
		"cgroups to write to": {mounts(object{"destination": "/c", "type": "cgroup", "options": []any{"rw"}}), "read-only"},
		"a file system":       {mounts(object{"destination": "/c", "type": "ext4", "source": "/dev/sda"}), `type "ext4"`},
		"mounts for the machine": {mounts(bind(pod+"/volumes/kubernetes.io~empty-dir/e", "/e", "rshared")),
			"mount propagation to the node"},
		"all mounts for the machine": {func(c object) { linux(c)["rootfsPropagation"] = "rshared" }, "mount propagation to the node"},

		"the machine":             {mounts(bind("/", "/host")), "files of the node"},
		"its token":               {mounts(bind("/run/host/fargate-token", "/t")), "files of the node"},
		"a detour to it":          {mounts(bind(pod+"/volumes/../../../../../../run/host", "/t")), "files of the node"},
		"containerd's socket":     {mounts(bind("/run/containerd/containerd.sock", "/s")), "files of the node"},
		"containerd's directory":  {mounts(bind("/var/lib/containerd", "/s")), "files of the node"},
		"the kubelet's directory": {mounts(bind("/var/lib/kubelet", "/s")), "files of the node"},
		"the pods":                {mounts(bind(podvolume.PodsDir, "/s")), "files of the node"},
		"the pod's directory":     {mounts(bind(pod, "/s")), "files of the node"},
		"the pod's volumes":       {mounts(bind(pod+"/volumes", "/s")), "files of the node"},
		"a link in /proc to the pod": {mounts(bind("/proc/9/root"+pod+"/volumes/kubernetes.io~empty-dir/e", "/s")),
			"files of the node"},
		"below an emptyDir":           {mounts(bind(pod+"/volumes/kubernetes.io~empty-dir/e/a", "/s")), "files of the node"},
		"with others below":           {mounts(bind(pod+"/volumes", "/s")), "files of the node"},
		"another pod's volume":        {mounts(bind(other+"/volumes/kubernetes.io~secret/s", "/s")), "files of the node"},
		"a pod with a longer UID":     {mounts(bind(pod+"0/volumes/kubernetes.io~secret/s", "/s")), "files of the node"},
		"the memory of the node":      {mounts(bind("/dev/shm", "/dev/shm")), "files of the node"},
		"a path of the machine":       {mounts(bind(pod+"/volume-subpaths/host/web/2", "/s")), "files of the node"},
		"a local volume":              {mounts(bind(pod+"/volumes/kubernetes.io~local-volume/pki", "/s")), "files of the node"},
		"a local volume below /run":   {mounts(bind(pod+"/volumes/kubernetes.io~local-volume/run", "/s")), "files of the node"},
		"a path of another pod":       {mounts(bind(pod+"/volume-subpaths/o/web/3", "/s")), "files of the node"},
		"a volume that leads outside": {mounts(bind(pod+"/volumes/kubernetes.io~empty-dir/link", "/s")), "files of the node"},
		"a ConfigMap to write to":     {mounts(bind(pod+"/volumes/kubernetes.io~configmap/c", "/c")), "cannot write to"},
		"a Secret to write to":        {mounts(bind(pod+"/volumes/kubernetes.io~secret/s", "/s")), "cannot write to"},
		"a token to write to": {mounts(bind(pod+"/volumes/kubernetes.io~projected/kube-api-access-x", "/t")),
			"cannot write to"},
		"fields of the pod to write to": {mounts(bind(pod+"/volumes/kubernetes.io~downward-api/d", "/d")), "cannot write to"},
		"read-only, and not": {mounts(object{"destination": "/c", "type": "bind", "options": []any{"rbind", "ro", "rw"},
			"source": pod + "/volumes/kubernetes.io~configmap/c"}), "cannot write to"},
		"a file of a Secret to write to":    {mounts(bind(pod+"/volume-subpaths/s/web/1", "/k")), "cannot write to"},
		"a file of a ConfigMap to write to": {mounts(bind(pod+"/volume-subpaths/c/web/7", "/k")), "cannot write to"},
		"a ConfigMap as a path":             {mounts(bind(pod+"/volume-subpaths/v/web/8", "/k")), "cannot write to"},
		"all ConfigMaps":                    {mounts(bind(pod+"/volume-subpaths/v/web/9", "/k")), "files of the node"},
		"all ConfigMaps, read-only":         {mounts(bind(pod+"/volume-subpaths/v/web/9", "/k", "ro")), "files of the node"},
		"what the kubelet knows of drivers": {mounts(bind(pod+"/volume-subpaths/v/web/10", "/k")), "files of the node"},
		"a volume of a driver with it":      {mounts(bind(pod+"/volume-subpaths/v/web/11", "/k")), "files of the node"},
		"all volumes as a path":             {mounts(bind(pod+"/volume-subpaths/v/web/12", "/k")), "files of the node"},
		"the pod's directory as a path":     {mounts(bind(pod+"/volume-subpaths/v/web/13", "/k")), "files of the node"},
		"what is not mounted":               {mounts(bind(pod+"/volume-subpaths/v/web/14", "/k")), "files of the node"},
		"of no volume":                      {mounts(bind(pod+"/volume-subpaths/v/web/15", "/k")), "files of the node"},
		"a bind of another type": {mounts(object{"destination": "/s", "type": "none", "source": "/etc",
			"options": []any{"bind"}}), "files of the node"},
		"a file that is not there": {mounts(bind("/gone", "/s")), os.ErrNotExist.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := container(t)
			test.change(c)
			g := guard{uid: uid, unified: true, mounts: parseMounts(mountinfo),
				isNodeNamespace: func(path, _ string) (bool, error) { return strings.HasPrefix(path, "/proc/1/"), nil },
				resolved: func(path string) (string, error) {
					switch path {
					case "/gone":
						return "", os.ErrNotExist
					case pod + "/volumes/kubernetes.io~empty-dir/link":
						return "/etc", nil
					}
					return filepath.Clean(path), nil
				}}
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var config runcspec.Object
			if err := json.Unmarshal(data, &config); err != nil {
				t.Fatal(err)
			}
			err = g.validate(config)
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Fatalf("the error is %v, want %q", err, test.fails)
			}
			if err != nil {
				return
			}
			// Only NET_RAW is gone.
			if sets, ok := c["process"].(object)["capabilities"].(object); ok {
				for set, names := range sets {
					sets[set] = slices.DeleteFunc(names.([]any), func(n any) bool { return n == "CAP_NET_RAW" })
				}
			}
			want, got := map[string]any{}, map[string]any{}
			for from, to := range map[*any]*map[string]any{ptr(c): &want, ptr(config): &got} {
				data, err := json.Marshal(*from)
				if err == nil {
					err = json.Unmarshal(data, to)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the configuration (-want +got):\n%s", d)
			}
		})
	}
	if (guard{}).validate(runcspec.Object{}) == nil {
		t.Error("a machine that is for no pod runs containers")
	}
}

func ptr(value any) *any { return &value }

// TestProcessesInContainers checks what "kubectl exec" and probes run: containerd has for them the capabilities that
// the pod has asked for.
func TestProcessesInContainers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		process string
		want    string
		fails   string
	}{
		"as in the container": {process: `{"args":["sh"],"capabilities":{"bounding":["CAP_CHOWN"]}}`,
			want: `{"args":["sh"],"capabilities":{"bounding":["CAP_CHOWN"]}}`},
		"NET_RAW": {process: `{"capabilities":{"bounding":["CAP_NET_RAW","CAP_CHOWN"],"effective":["CAP_NET_RAW"]}}`,
			want: `{"capabilities":{"bounding":["CAP_CHOWN"],"effective":[]}}`},
		"none":      {process: `{"args":["sh"]}`, want: `{"args":["sh"]}`},
		"SYS_ADMIN": {process: `{"capabilities":{"bounding":["CAP_SYS_ADMIN"]}}`, fails: "CAP_SYS_ADMIN"},
		"no JSON":   {process: `[]`, fails: "cannot unmarshal"},
	} {
		file := filepath.Join(t.TempDir(), "process.json")
		if err := os.WriteFile(file, []byte(test.process), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Enforce([]string{"--root", "/run/runc", "--log", "/l", "exec", "--process", file, "--detach", "id"})
		if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: the error is %v, want %q", name, err, test.fails)
		}
		if got, _ := os.ReadFile(file); err == nil && string(got) != test.want {
			t.Errorf("%s: the process is %s, want %s", name, got, test.want)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--root", "/r", "state", "id"}, {"delete", "id"}, {"start", "id"}, {}} {
		if err := Enforce(args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := Enforce([]string{"restore", "--bundle", "/b", "id"}); err == nil {
		t.Error("a container is restored")
	}
	if err := Enforce([]string{"create", "--bundle", t.TempDir(), "id"}); err == nil { // there is no fargate.json here
		t.Error("a container is created")
	}
}

// TestIsOwn compares namespaces of this process.
func TestIsOwn(t *testing.T) {
	t.Parallel()
	if own, err := isOwn("/proc/self/ns/pid", "pid"); err != nil || !own {
		t.Errorf("its own is %v, %v", own, err)
	}
	if own, err := isOwn("/proc/self/ns/uts", "pid"); err != nil || own {
		t.Errorf("another is %v, %v", own, err)
	}
	if _, err := isOwn("/proc/0/ns/pid", "pid"); err == nil {
		t.Error("none has no error")
	}
}

func TestMounts(t *testing.T) {
	t.Parallel()
	g := guard{mounts: parseMounts("1 0 0:1 / / rw - a a rw\n\n2 1 0:2 /x\\040y /a\\134b rw - a a rw\n" +
		"3 1 0:3 / /a\\134b rw shared:1 - a a rw\nbroken\n")}
	got := map[string]mountPoint{}
	for _, file := range []string{`/a\b/c`, "/ab", "/"} {
		got[file] = g.resolveMount(file)
	}
	want := map[string]mountPoint{`/a\b/c`: {"0:3", "/c", `/a\b/c`}, "/ab": {"0:1", "/ab", "/ab"}, "/": {"0:1", "/", "/"}}
	if !maps.Equal(want, got) || g.mounts[1] != (mountPoint{"0:2", "/x y", `/a\b`}) {
		t.Errorf("got %+v of %+v", got, g.mounts)
	}
}
