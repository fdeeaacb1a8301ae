// Package cgroup2 runs a cluster with a node on a host with cgroup v2 alone, whatever those of this host are: a virtual
// machine with Debian 12, under qemu. Without KVM that takes a quarter of an hour, so it is part of "make test-all".
package cgroup2

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
)

// root is the repository, seen from here.
const root = "../.."

// wanted is the expected output of the virtual machine. The instance is a t3.medium: two CPUs and 4 GiB, of which Linux
// has 3.76.
var wanted = map[string]string{
	"cgroup2": "true", "doctor": "ok cgroups version 2", "cluster": "ACTIVE", "nodegroup": "ACTIVE", "pod": "Ready",
	"cpus": "2", "inside": "cgroup2fs",
	"part-cpu.max": "25000 100000", "part-memory.max": "536870912",
	"machine-cpu.max": "200000 100000", "machine-memory.max": "4042469376", "pod-memory.max": "67108864", "left": "0",
}

func TestNodesOnControlGroupsOfVersion2(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.NeedsAll(t, "a virtual machine is slow")
	for _, name := range []string{"qemu-system-x86_64", "debootstrap", "kubectl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v: apt-get install -y qemu-system-x86 debootstrap, and make setup", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 75*time.Minute)
	defer cancel()
	disk, kernel, initrd := image(ctx, t)
	facts, console := boot(ctx, t, disk, kernel, initrd)
	for name, want := range wanted {
		if got := facts[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if t.Failed() {
		t.Log(console)
	}
}

func run(ctx context.Context, t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out[max(0, len(out)-4000):])
	}
}

// image makes the disk: Debian, kept in bin/vm for the next time, with the programs that were built here.
func image(ctx context.Context, t *testing.T) (disk, kernel, initrd string) {
	t.Helper()
	debian := filepath.Join(root, "bin/vm/bookworm")
	if _, err := os.Stat(debian); err != nil {
		next := debian + ".next"
		run(ctx, t, "rm", "-rf", next)
		run(ctx, t, "debootstrap", "--variant=minbase",
			"--include=systemd-sysv,udev,iptables,runc,conntrack,iproute2,procps,kmod,ca-certificates", "bookworm",
			next, "http://deb.debian.org/debian")
		run(ctx, t, "cp", "/etc/resolv.conf", filepath.Join(next, "etc/resolv.conf"))
		run(ctx, t, "chroot", next, "sh", "-c",
			"apt-get update && apt-get install -y --no-install-recommends linux-image-cloud-amd64 && apt-get clean")
		if err := os.Rename(next, debian); err != nil {
			t.Fatal(err)
		}
	}
	tree := filepath.Join(t.TempDir(), "root")
	run(ctx, t, "cp", "-a", "--reflink=auto", debian, tree)
	programs := filepath.Join(tree, "opt/coracle")
	run(ctx, t, "mkdir", "-p", filepath.Join(programs, "bundles"))
	run(ctx, t, "cp", filepath.Join(root, "bin/coracle"), programs)
	run(ctx, t, "cp", "-r", from("CORACLE_NODE", "node"), filepath.Join(programs, "node"))
	run(ctx, t, "cp", "-r", filepath.Join(from("CORACLE_BUNDLES", "bundles"), "v"+kubernetes.Default),
		filepath.Join(programs, "bundles"))
	run(ctx, t, "go", "build", "-o", filepath.Join(programs, "inside"), "./inside")
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	run(ctx, t, "cp", "-L", kubectl, programs)
	for name, text := range map[string]string{
		"etc/hosts": "127.0.0.1 localhost\n", "etc/hostname": "two\n",
		"opt/coracle/run": "#!/bin/sh\nexec > /dev/ttyS0 2>&1\nmkdir -p -m 700 " +
			"/data\n/opt/coracle/inside\npoweroff -f\n",
		"etc/systemd/system/inside.service": "[Unit]\nAfter=multi-user.target\n[Service]\nType=exec\nDelegate=yes\nExecStart=/opt/coracle/run\nEnvironment=HOME=/root PATH=/opt/coracle:/opt/coracle/node:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CORACLE_NODEGROUP_JOIN_TIMEOUT=40m\n",
	} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../inside.service",
		filepath.Join(tree, "etc/systemd/system/multi-user.target.wants/inside.service")); err != nil {
		t.Fatal(err)
	}
	disk = filepath.Join(t.TempDir(), "disk.img")
	run(ctx, t, "truncate", "-s", "10G", disk)
	run(ctx, t, "mkfs.ext4", "-q", "-F", "-d", tree, disk)
	return disk, found(t, debian, "boot/vmlinuz-*"), found(t, debian, "boot/initrd.img-*")
}

// from returns the directory of built programs: the one in a variable, or below bin.
func from(variable, dir string) string {
	if set := os.Getenv(variable); set != "" {
		return set
	}
	return filepath.Join(root, "bin", dir)
}

func found(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s in %s: %v, %v", pattern, dir, names, err)
	}
	return names[0]
}

// boot runs the virtual machine to its end, and gives back the facts that it told. CORACLE_VM_ACCEL=kvm uses KVM.
func boot(ctx context.Context, t *testing.T, disk, kernel, initrd string) (facts map[string]string, console string) {
	t.Helper()
	accel := "tcg,thread=multi,tb-size=2048"
	if set := os.Getenv("CORACLE_VM_ACCEL"); set != "" {
		accel = set
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", accel, "-cpu", "max", "-smp", "2", "-m", "7168",
		"-nographic", "-no-reboot", "-kernel", kernel, "-initrd", initrd,
		"-append",
		"root=/dev/vda rw console=ttyS0 systemd.unified_cgroup_hierarchy=1 systemd.mask=serial-getty@ttyS0.service "+
			"mitigations=off",
		"-drive", "file="+disk+",format=raw,if=virtio,cache=unsafe", "-nic", "user,model=virtio-net-pci", "-device",
		"virtio-rng-pci")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	facts = map[string]string{}
	var said strings.Builder
	live, err := os.Create(filepath.Join(root, "bin/vm/console")) // for who waits
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	lines := bufio.NewReader(io.TeeReader(out, live))
	for {
		line, err := lines.ReadString('\n')
		said.WriteString(line)
		if text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "fact "); ok {
			name, value, _ := strings.Cut(text, " ")
			t.Logf("%s: %s", name, value)
			facts[name] = value
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the virtual machine: %v", err)
	}
	text := said.String()
	return facts, text[max(0, len(text)-20000):]
}
