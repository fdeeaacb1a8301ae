package preflight

import (
	"strings"
	"testing"
	"testing/fstest"
)

const (
	allCapabilities    = "Name:\tcoracle\nCapEff:\t000001ffffffffff\n"
	dockerCapabilities = "Name:\tcoracle\nCapEff:\t00000000a80425fb\n"
	ownUsers           = "         0          0 4294967295\n"

	diskRoot    = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
	overlayRoot = "612 593 0:98 / / rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b\n"
	unified     = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	memoryV1    = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	unifiedV1   = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"

	enforcing = "1"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		want  string // the description
		lacks string // a part of what is lacking; empty when nothing is
		fix   string // a part of the fix
	}{
		{
			name: "a host with systemd and cgroup v2",
			files: map[string]string{"proc/1/comm": "systemd\n", "proc/self/mountinfo": diskRoot + unified,
				"proc/self/attr/current": "unconfined\n"},
			want: "a host of its own, systemd, cgroup v2",
		},
		{
			name: "a host with cgroup v1 and SELinux",
			files: map[string]string{"proc/1/comm": "systemd\n", "proc/self/mountinfo": diskRoot + memoryV1,
				"sys/fs/selinux/enforce": enforcing,
				"proc/self/attr/current": "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023\x00"},
			want: "a host of its own, systemd, cgroup v1, SELinux enforcing, " +
				"label unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023",
		},
		{
			name: "a virtual machine that boots the image of a container",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "init\n",
				"proc/self/mountinfo": diskRoot + memoryV1 + unifiedV1},
			want: "a host of its own, process 1 is init, cgroup hybrid",
		},
		{
			name: "docker run",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "sh\n", "proc/self/status": dockerCapabilities,
				"proc/self/mountinfo":    overlayRoot + unified,
				"proc/self/attr/current": "docker-default (enforce)\n"},
			want:  "a Docker container (unprivileged), process 1 is sh, cgroup v2, label docker-default (enforce)",
			lacks: "not privileged: clusters work, machines are simulated",
			fix:   "docker run --privileged",
		},
		{
			name: "docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "sh\n",
				"proc/self/mountinfo":    overlayRoot + unified,
				"proc/self/attr/current": "docker-default (enforce)\n"},
			want:  "a Docker container (privileged), process 1 is sh, cgroup v2, label docker-default (enforce)",
			lacks: "AppArmor",
			fix:   "docker run --privileged",
		},
		{
			name: "docker run --privileged in Docker Desktop",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "sh\n",
				"proc/sys/kernel/osrelease": "6.10.14-linuxkit\n", "proc/self/mountinfo": overlayRoot + unified},
			want: "a Docker container (privileged) in Docker Desktop, process 1 is sh, cgroup v2",
		},
		{
			name: "docker with user namespaces",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "sh\n",
				"proc/self/uid_map": "0 100000 65536\n", "proc/self/mountinfo": overlayRoot + unified},
			want:  "a Docker container (rootless), process 1 is sh, cgroup v2",
			lacks: "unprivileged user of the host",
			fix:   "a Docker daemon of root",
		},
		{
			name: "docker on an SELinux host",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "sh\n", "sys/fs/selinux/enforce": enforcing,
				"proc/self/attr/current": "system_u:system_r:container_t:s0:c1,c2\x00",
				"proc/self/mountinfo":    overlayRoot + unified},
			want: "a Docker container (privileged), process 1 is sh, cgroup v2, SELinux enforcing, " +
				"label system_u:system_r:container_t:s0:c1,c2",
			lacks: "SELinux confines",
			fix:   "--security-opt label=disable",
		},
		{
			name: "rootless Podman",
			files: map[string]string{"run/.containerenv": "", "proc/1/comm": "sh\n",
				"proc/1/environ":    "PATH=/bin\x00container=podman\x00",
				"proc/self/uid_map": "0 1000 1\n1 100000 65536\n", "proc/self/mountinfo": overlayRoot + unified},
			want:  "a Podman container (rootless), process 1 is sh, cgroup v2",
			lacks: "unprivileged user of the host",
			fix:   "podman machine set --rootful",
		},
		{
			name: "podman machine ssh",
			files: map[string]string{"etc/containers/podman-machine": "applehv\n", "proc/1/comm": "systemd\n",
				"proc/self/mountinfo": diskRoot + unified},
			want: "Podman machine, systemd, cgroup v2",
		},
		{
			name: "a machine of Podman 6",
			files: map[string]string{"etc/podman-machine": "applehv\n", "proc/1/comm": "systemd\n",
				"proc/self/mountinfo": diskRoot + unified},
			want: "Podman machine, systemd, cgroup v2",
		},
		{
			name: "colima ssh",
			files: map[string]string{"run/lima-boot-done": "", "proc/sys/kernel/hostname": "colima\n",
				"proc/1/comm": "systemd\n", "proc/self/mountinfo": diskRoot + unified},
			want: "Colima, systemd, cgroup v2",
		},
		{
			name: "limactl shell",
			files: map[string]string{"run/lima-boot-done": "", "proc/sys/kernel/hostname": "lima-default\n",
				"proc/1/comm": "systemd\n", "proc/self/mountinfo": diskRoot + unified},
			want: "Lima, systemd, cgroup v2",
		},
		{
			name: "WSL 2 without systemd",
			files: map[string]string{"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n",
				"proc/1/comm": "init(Ubuntu)\n", "proc/self/mountinfo": diskRoot + memoryV1 + unifiedV1},
			want: "WSL 2, process 1 is init(Ubuntu), cgroup hybrid",
		},
		{
			name:  "WSL 1",
			files: map[string]string{"proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft\n", "proc/1/comm": "init\n"},
			want:  "WSL 1, process 1 is init",
			lacks: "neither clusters nor machines",
			fix:   "wsl --set-version DISTRIBUTION 2",
		},
		{
			name:  "a GitHub-hosted runner",
			files: map[string]string{"proc/1/comm": "systemd\n", "proc/self/mountinfo": diskRoot + unified},
			env:   map[string]string{"GITHUB_ACTIONS": "true"},
			want:  "GitHub Actions, systemd, cgroup v2",
		},
		{
			name: "a job of GitHub Actions in a container",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "tail\n", "proc/self/status": dockerCapabilities,
				"proc/self/mountinfo": overlayRoot + unified},
			env:   map[string]string{"GITHUB_ACTIONS": "true"},
			want:  "GitHub Actions in a Docker container (unprivileged), process 1 is tail, cgroup v2",
			lacks: "not privileged",
			fix:   "options: --privileged",
		},
		{
			name: "a GitLab runner with Docker",
			files: map[string]string{".dockerenv": "", "proc/1/comm": "sh\n", "proc/self/status": dockerCapabilities,
				"proc/self/mountinfo": overlayRoot + unified},
			env:   map[string]string{"GITLAB_CI": "true"},
			want:  "GitLab CI in a Docker container (unprivileged), process 1 is sh, cgroup v2",
			lacks: "not privileged",
			fix:   "[runners.docker] privileged = true",
		},
		{
			name: "a GitLab runner in Kubernetes",
			files: map[string]string{"proc/1/comm": "sh\n", "proc/self/status": dockerCapabilities,
				"proc/self/mountinfo": overlayRoot + unified},
			env:   map[string]string{"GITLAB_CI": "true", "KUBERNETES_SERVICE_HOST": "10.0.0.1"},
			want:  "GitLab CI in a Kubernetes container (unprivileged), process 1 is sh, cgroup v2",
			lacks: "not privileged",
			fix:   "[runners.kubernetes] privileged = true",
		},
		{
			name: "a pod",
			files: map[string]string{"proc/1/comm": "sh\n", "proc/self/status": dockerCapabilities,
				"proc/self/mountinfo": overlayRoot + memoryV1,
				"proc/self/cgroup":    "4:memory:/kubepods/besteffort/pod1/2\n"},
			want:  "a Kubernetes container (unprivileged), process 1 is sh, cgroup v1",
			lacks: "not privileged",
			fix:   "securityContext: {privileged: true}",
		},
		{
			name: "an LXC container",
			files: map[string]string{"proc/1/comm": "systemd\n", "proc/self/status": dockerCapabilities,
				"proc/1/environ": "container=lxc\x00", "proc/self/mountinfo": diskRoot + unified},
			want:  "a LXC container (unprivileged), systemd, cgroup v2",
			lacks: "not privileged",
			fix:   "security.nesting=true",
		},
		{name: "a sandbox that tells nothing", want: "a host of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{"proc/self/status": {Data: []byte(allCapabilities)},
				"proc/self/uid_map": {Data: []byte(ownUsers)}}
			for name, content := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(content)}
			}
			e := Detect(root, func(name string) string { return c.env[name] })
			if got := e.String(); got != c.want {
				t.Errorf("it is\n%s, want\n%s", got, c.want)
			}
			lacks, fix := e.Lacks()
			if (lacks == "") != (c.lacks == "") || !strings.Contains(lacks, c.lacks) || !strings.Contains(fix, c.fix) {
				t.Errorf("it lacks %q with the fix %q, want %q with %q", lacks, fix, c.lacks, c.fix)
			}
		})
	}
}

func TestCheckKernel(t *testing.T) {
	t.Parallel()
	for release, fine := range map[string]bool{
		"4.18.0-553.el8.x86_64": false, "5.4.0-generic": false, "5.9.16": false, "2.6.78": false,
		"5.10.0-8-amd64": true, "6.18.44": true, "7.0": true, "unknown": true,
	} {
		if err := CheckKernel(release); (err == nil) != fine {
			t.Errorf("Linux %s: %v", release, err)
		}
	}
}
