//go:build linux

package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/record"
)

// Root in a machine makes whatever it likes of the directory that it has in common with its host. The host is not led
// to other files, does not wait, and goes on with the machine.
func TestTheHostIsNotLedByWhatAMachineWrites(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.plug(one)
	h.launch(one, "m5.large")
	h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
	victim := filepath.Join(h.dir, "victim")
	if err := os.WriteFile(victim, []byte("the host's"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.run(one, `cd /run/coracle && rm -rf * .[a-z]*
		for name in .dhcp.json .boot.json other; do ln -s `+victim+` $name; done
		mkfifo dhcp.json boot.json`)
	domain := func(name string) {
		t.Helper()
		key := record.EC2Key(account, region, "dopt-1")
		_, err := record.DHCPOptionsTable(h.store).Modify(t.Context(), key, func(o *record.DHCPOptions) error {
			o.Options = map[string][]string{"domain-name": {name}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		lease := filepath.Join(h.dir, "machines", one, "dhcp.json")
		eventually.Nil(t, "the lease has the domain "+name, func() error {
			if data, err := os.ReadFile(lease); err != nil || string(data) != `{"domainName":"`+name+`"}` {
				return fmt.Errorf("it is %s, %v", data, err)
			}
			return nil
		})
	}
	domain("first.example")

	for _, report := range []string{
		"ln -sf " + victim + " boot.json",
		"rm -f boot.json; mkdir -p boot.json/not/empty",
		"rm -rf boot.json; mknod boot.json c 1 5",              // /dev/zero
		"rm -f boot.json; truncate -s 1T boot.json",            // an endless report
		`echo '{"network":true,"userData":"odd"}' > boot.json`, // a state that there is not
		`printf '{"network":true,"userData":"failed","failure":"` + // a text that paints on the user's terminal
			`\\u001b[2Jfake\\u0007"}' > .b; mv .b boot.json`,
	} {
		h.run(one, "cd /run/coracle && "+report)
	}
	h.until(one, "reachable", func(m record.Machine) bool { return m.UserData == boot.Failed+":  [2Jfake " })

	// What is left of it does not keep the machine from another boot, which has the lease of now.
	h.run(one, "cd /run/coracle && rm -f boot.json && mkdir -p boot.json/not/empty && ln -sfn "+h.dir+" away")
	domain("second.example")
	h.change(one, func(i *record.Instance) { i.Boot = 2 })
	h.until(one, "rebooted", func(m record.Machine) bool {
		return m.Boot == 2 && m.State == ec2types.InstanceStateNameRunning
	})
	got := h.run(one, "ls -A /run/coracle; cat "+boot.HostDir+"/"+boot.DHCPFile)
	if got != `{"domainName":"second.example"}` {
		t.Errorf("after a reboot: %s", got)
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "the host's" {
		t.Errorf("a file of the host is %q, %v", data, err)
	}
}

// The files of images are on the disk once for all machines. Root in one of them gets its own view of them, and changes
// neither the files nor what another machine sees, nor the programs of the host that are mounted beside them.
func TestRootCannotWriteToTheLayersOfAllMachines(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	golden := filepath.Join(h.dir, "golden")
	program := filepath.Join(golden, snapshotsDir, "1/fs/bin/program")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho of all machines\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	image := h.image
	h.image = func(ctx context.Context, i record.Instance) (Image, error) {
		made, err := image(ctx, i)
		made.Containerd = func(context.Context) (string, error) { return golden, nil }
		return made, err
	}
	const two = "i-00000000000000002"
	for _, id := range []string{one, two} {
		h.plug(id)
		h.launch(id, "m5.large")
		h.until(id, "running", inState(ec2types.InstanceStateNameRunning))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := func(path string) string {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintln(path, st.Ino, st.Mode, st.Uid, st.Nlink, st.Size, st.Mtim, st.Ctim)
	}
	before := fingerprint(program) + fingerprint(self)

	const seen = "/var/lib/containerd/" + snapshotsDir + "/1/fs/bin/program"
	if got := h.run(one, seen); got != "of all machines" {
		t.Errorf("it runs %q", got)
	}
	out := h.run(one, `for at in `+rootfs.Layers+` `+rootfs.Init+` /var/lib/containerd /var /; do
			mount -o remount,rw $at; mount -o remount,bind,rw $at
		done
		for file in `+seen+` `+rootfs.Layers+`/1/bin/program `+rootfs.Init+`; do
			echo evil >> $file && echo WRITTEN
			echo evil 1<> $file && echo WRITTEN
			chmod 4777 $file && echo CHANGED
			chown 1 $file && echo CHANGED
			ln $file /var/lib/containerd/link && echo LINKED
			setfattr -n trusted.overlay.opaque -v y $file && echo CHANGED
			truncate -s 0 $file && echo WRITTEN
		done
		dir=`+filepath.Dir(filepath.Dir(seen))+`
		rm $dir; mkdir -p $dir/bin; echo own > $dir/bin/program; cat $dir/bin/program`)
	if !strings.HasSuffix(out, "\nown") || regexp.MustCompile("WRITTEN|CHANGED|LINKED").MatchString(out) {
		t.Errorf("root in a machine sees %s", out)
	}
	if after := fingerprint(program) + fingerprint(self); after != before {
		t.Errorf("files of the host were\n%sand are\n%s", before, after)
	}
	if got := h.run(two, seen); got != "of all machines" {
		t.Errorf("the other machine runs %q", got)
	}
}

// A command in a machine is no more than what the machine could start itself, and has no file of the host.
func TestACommandIsConfinedAsItsMachine(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"host's users": false, "own users": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.ownUsers = own
			h.plug(one)
			h.launch(one, "m5.large")
			h.until(one, "running", inState(ec2types.InstanceStateNameRunning))
			h.run(one, "while ! test -e /run/up; do sleep 0.01; done")
			const sets = "grep -E '^(CapPrm|CapEff|CapBnd|Seccomp|NoNewPrivs)' "
			init, command := h.run(one, sets+"/proc/1/status"), h.run(one, sets+"/proc/self/status")
			if init != command || !strings.Contains(command, "Seccomp:\t2") {
				t.Errorf("init has\n%s\na command has\n%s", init, command)
			}

			files := map[string]string{"in": "input", "out": "", "err": ""}
			opened := map[string]*os.File{}
			for name, content := range files {
				path := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(path, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				opened[name] = f
			}
			exit, err := Exec(t.Context(), machinetest.Identity(h.owner), one, Command{
				Args: []string{"sh", "-c", `cat; echo; ls -l /proc/self/fd | sed 's/.* -> //'; echo failure >&2
					echo evil > /proc/self/fd/0; sleep 1000 & exit 3`},
				Stdin: opened["in"], Stdout: opened["out"], Stderr: opened["err"],
			})
			if err != nil || exit != 3 {
				t.Fatalf("exit status %d, %v", exit, err)
			}
			out, err := os.ReadFile(opened["out"].Name())
			if err != nil || !strings.HasPrefix(string(out), "input\n") || strings.Contains(string(out), h.dir) {
				t.Errorf("output is %q, %v", out, err)
			}
			if n := strings.Count(string(out), "pipe:["); n < 2 {
				t.Errorf("of its standard files %d are pipes:\n%s", n, out)
			}
			if strings.Contains(string(out), t.Name()) || strings.Contains(string(out), "/001/") {
				t.Errorf("a command has files of the host:\n%s", out)
			}
			said, err := os.ReadFile(opened["err"].Name())
			if err != nil || !strings.HasPrefix(string(said), "failure\n") {
				t.Errorf("errors are %q, %v", said, err)
			}
			if in, err := os.ReadFile(opened["in"].Name()); err != nil || string(in) != "input" {
				t.Errorf("its input was changed to %q, %v", in, err)
			}
		})
	}
}

// A machine decides what its /etc/environment and /dev/pts/ptmx are: "coracle exec" waits for none of it, and opens
// only what is what it has to be.
func TestACommandOpensNoDevicesOfTheMachine(t *testing.T) {
	t.Parallel()
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		unix.Mkfifo(in("fifo"), 0o600), os.Symlink("fifo", in("link")), os.WriteFile(in("file"), []byte("A=1\n"),
			0o600), os.Symlink("/file", in("absolute")),
		os.Mkdir(in("dir"), 0o700), os.WriteFile(in("long"), bytes.Repeat([]byte("x"), 1<<20), 0o600),
		os.Symlink("/proc/self/status", in("kernel")),
	); err != nil {
		t.Fatal(err)
	}
	opened, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(opened)
	if _, err := unix.InotifyAddWatch(opened, in("fifo"), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, want := range map[string]string{"fifo": "", "link": "", "file": "A=1\n", "absolute": "A=1\n", "none": "",
		"dir": "", "kernel": "", "long": strings.Repeat("x", 64<<10)} {
		if got := string(readSettings(proc, dir, name)); got != want {
			t.Errorf("%s is %.20q, want %.20q", name, got, want)
		}
	}
	if got := readSettings(proc, "/", "proc/self/status"); got != nil {
		t.Errorf("a file of the kernel is %q", got)
	}
	if master, slave, err := openTerminal(proc, in("fifo")); err == nil {
		master.Close()
		slave.Close()
		t.Error("a FIFO is a terminal")
	}
	if n, err := unix.Read(opened, make([]byte, 1024)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a FIFO of the machine was opened: %d bytes, %v", n, err)
	}
}
