//go:build linux

package launch

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
)

// shareRig is a machine with a mount target at 127.0.0.1, whose script /etc/rc mounts its file system.
type shareRig struct {
	*rig
	root string // the files, on the host
}

const fileSystem = "fs-0123456789abcdef0"

// shareGrants are what the mount target grants, by access point.
var shareGrants = map[string]mountgrant.Grant{
	"": {},
	"fsap-00000000000000001": {AccessPoint: &mountgrant.AccessPoint{Path: "/points/one",
		User: &mountgrant.User{UID: 1234, GID: 2345, Groups: []uint32{3456}}, Creation: &mountgrant.Creation{UID: 1234,
			GID: 2345, Mode: 0o2750}}},
	"fsap-00000000000000002": {SquashRoot: true},
	"fsap-00000000000000003": {ReadOnly: true},
	"fsap-00000000000000004": {AccessPoint: &mountgrant.AccessPoint{Path: "/missing"}},
	"fsap-00000000000000005": {AccessPoint: &mountgrant.AccessPoint{Path: "/link"}},
	"fsap-00000000000000006": {Refused: &mountgrant.Refusal{Errno: uint32(unix.EACCES), Message: "not this one"}},
	"fsap-00000000000000008": {AccessPoint: &mountgrant.AccessPoint{Path: "/", User: &mountgrant.User{}}},
	"fsap-00000000000000009": {AccessPoint: &mountgrant.AccessPoint{Path: "/", User: &mountgrant.User{UID: 1<<32 - 1,
		GID: 1<<32 - 1}}},
	"fsap-00000000000000007": {AccessPoint: &mountgrant.AccessPoint{Path: "/points"}},
}

func newShareRig(t *testing.T) *shareRig {
	r := &shareRig{rig: newRig(t), root: filepath.Join(t.TempDir(), "root")}
	r.spec.Network, r.spec.UserID = machinetest.UserNetwork(t, t.TempDir(), "netns")
	if err := os.MkdirAll(r.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := mountgrant.EnsureKey(r.spec.Dir); err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	if err := machinetest.In(r.spec.Network, func() (err error) {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err == nil {
			l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:2049")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.answer(c)
		}
	}()
	return r
}

func (r *shareRig) answer(c net.Conn) {
	defer c.Close()
	asked, err := mountgrant.Receive(c, func(string) ([]byte, error) { return mountgrant.ReadKey(r.spec.Dir) })
	if err != nil {
		return
	}
	grant, ok := shareGrants[asked.Request.AccessPointID]
	if !ok {
		grant.Refused = &mountgrant.Refusal{Errno: uint32(unix.EIO), Message: "there is no such access point"}
	}
	grant.FileSystemID, grant.Root = fileSystem, r.root
	if grant.AccessPoint != nil {
		point := *grant.AccessPoint
		point.ID, grant.AccessPoint = asked.Request.AccessPointID, &point
	}
	_ = asked.Answer(c, grant)
}

// helpers are functions of scripts: mount by access point, and report what works.
const shareHelpers = `
exec 2>&1
point() { mkdir -p $2; mount -i -t efs -o addr=127.0.0.1,accesspoint=fsap-0000000000000000$1 ` + fileSystem +
	`.efs.eu-west-1.amazonaws.com:${3:-/} $2; }
works() { what=$1; shift; if out=$(sh -c "$*" 2>&1); then echo "works: $what"; else echo "FAILED: $what: $out"; fi; }
refused() { what=$1; shift; if out=$(sh -c "$*" 2>&1); then echo "FAILED: $what: $out"
	else echo "refused: $what: $out"; fi; }
mkdir -p /mnt
`

// check looks for lines of the console.
func (r *shareRig) check(wanted ...string) {
	r.t.Helper()
	r.untilConsole("\nup\n")
	console := r.console()
	if strings.Contains(console, "FAILED") {
		r.t.Error("the console shows failures")
	}
	for _, want := range wanted {
		if !strings.Contains(console, want) {
			r.t.Errorf("the console does not show %q", want)
		}
	}
}

func (r *shareRig) owner(name string) string {
	r.t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(r.root, name), &st); err != nil {
		r.t.Error(err)
	}
	return itoa(int(st.Uid)) + ":" + itoa(int(st.Gid))
}

func TestAMachineMountsAFileSystem(t *testing.T) {
	t.Parallel()
	r := newShareRig(t)
	if err := os.MkdirAll(filepath.Join(r.root, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.root, "a/b/file"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"etc": "/etc", "out": "../../../../..", "in": "/a"} {
		if err := os.Symlink(target, filepath.Join(r.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.script(shareHelpers + `
works "mount -t nfs4" "mount -t nfs4 -o nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport \
	127.0.0.1:/ /mnt"
grep ' /mnt ' /proc/mounts
works "mount -t nfs" "mkdir /nfs; mount -t nfs 127.0.0.1:/a /nfs && cat /nfs/b/file && umount /nfs"
works "own" "echo x > /mnt/new && chown 1000:1000 /mnt/new && test \$(stat -c %u:%g /mnt/new) = 1000:1000"
works "root owns" "test \$(stat -c %u:%g /mnt/a) = 0:0 && touch /mnt/a/more"
works "as another" "mkdir -m 777 /mnt/open; setpriv --reuid 1000 --regid 1000 --clear-groups touch /mnt/open/file"
refused "files of others" "setpriv --reuid 1000 --regid 1000 --clear-groups touch /mnt/a/not"
refused "device files" "mknod /mnt/null c 1 3"
refused "attributes of the host: x" "` + machinetest.Init + " " + setAttribute + ` trusted.x /mnt/new"
works "links" "ln /mnt/new /mnt/linked && mv /mnt/linked /mnt/a/moved && ln -s x /mnt/symbolic"
refused "links across" "ln /etc/machine-id /mnt/machine-id"
works "a directory" "mkdir /b; mount -t nfs4 127.0.0.1:/a/b /b && cat /b/file && test ! -e /b/../new"
works "a symbolic link is within" "mkdir /in; mount -t nfs4 127.0.0.1:/in/b /in && cat /in/file"
refused "a symbolic link leads out" "mkdir /etc2; mount -t nfs4 -o retry=0 127.0.0.1:/etc/ssl /etc2"
works "dots lead to the root" "mkdir /out; mount -t nfs4 127.0.0.1:/out /out && test -e /out/a/b && test ! -e /out/proc"
refused "what is not there" "mkdir /none; mount -t nfs4 -o retry=0 127.0.0.1:/none /none"
refused "a file" "mount -t nfs4 -o retry=0 127.0.0.1:/a/b/file /none"
works "flags" "mkdir /ro; mount -t nfs4 -o ro,noexec,nosuid,noatime 127.0.0.1:/ /ro && grep ' /ro ' /proc/mounts |
	grep ro,nosuid,nodev,noexec,noatime"
refused "read-only" "touch /ro/x"
refused "NFS 3" "mount -i -t nfs -o vers=3,addr=127.0.0.1 127.0.0.1:/ /none"
refused "an unknown option" "mount -i -t nfs4 -o addr=127.0.0.1,fast 127.0.0.1:/ /none"
refused "nobody listens" "mount -i -t nfs4 -o addr=127.0.0.1,port=2050 127.0.0.1:/ /none"
works "unmount" "umount /mnt && test ! -e /mnt/new && mount -t nfs4 127.0.0.1:/ /mnt && test -e /mnt/new"
works "many at once" 'for i in $(seq 100); do mkdir /m$i; (mount -i -t nfs4 -o addr=127.0.0.1 127.0.0.1:/a /m$i) & done; wait
	test $(grep -c " /m[0-9]* " /proc/mounts) = 100'
works "pods, with a mount namespace of their own" "unshare -m sh -c 'mount -t nfs4 127.0.0.1:/a /none && test -e /none/b'"
refused "other users" "setpriv --reuid 1000 --regid 1000 --clear-groups mount -i -t nfs4 -o addr=127.0.0.1 127.0.0.1:/ /none"
(exec 8>/mnt/locked; flock -n 8 || exit; touch /run/holds; until test -e /run/asked; do sleep 0.1; done) &
until test -e /run/holds; do sleep 0.1; done
refused "a lock that another mount holds" "mkdir /second; mount -t nfs4 127.0.0.1:/ /second; flock -n /second/locked true"
touch /run/asked
works "a lock that is free again" "flock -w 10 /second/locked true"
`)
	r.on()
	r.check("Protocol not supported", `"fast" is no option`, "Connection refused", "x: operation not permitted")
	for name, want := range map[string]string{"new": "1000:1000", "a/more": "0:0", "open/file": "1000:1000"} {
		if got := r.owner(name); got != want {
			t.Errorf("%s belongs to %s on the host, want %s", name, got, want)
		}
	}
}

func TestAccessPoints(t *testing.T) {
	t.Parallel()
	r := newShareRig(t)
	if err := os.WriteFile(filepath.Join(r.root, "secret"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(r.root, "link")); err != nil {
		t.Fatal(err)
	}
	r.script(shareHelpers + `
mount -t nfs4 127.0.0.1:/ /mnt
point 1 /one; grep ' /one ' /proc/mounts
works "its directory is made" "test \$(stat -c %u:%g:%a /mnt/points/one) = 1234:2345:2750"
works "everybody is its user" "echo one > /one/root && setpriv --reuid 77 --regid 77 --clear-groups touch /one/other &&
	test \$(stat -c %u:%g /one/root /mnt/points/one/other | sort -u) = 1234:2345"
works "content" "echo more >> /one/root && test \$(cat /mnt/points/one/root | wc -l) = 2 && dd if=/dev/zero of=/one/big \
	bs=1M count=20 && test \$(stat -c %s /mnt/points/one/big) = 20971520 && cmp /one/big /mnt/points/one/big"
works "entries" "mkdir /one/d && ln /one/root /one/d/hard && ln -s hard /one/d/soft && cat /one/d/soft && mv /one/d /one/e &&
	test \$(ls /one/e | wc -l) = 2 && rm -r /one/e && test ! -e /mnt/points/one/e && mkfifo /one/fifo"
works "many entries" 'mkdir /one/many && (cd /one/many && seq 3000 | xargs touch) && test $(ls /one/many | wc -l) = 3000'
works "attributes" "chmod 604 /one/root && touch -d @1000000000 /one/root && truncate -s 2 /one/root && test \
	\$(stat -c %a:%s /mnt/points/one/root) = 604:2 && touch -d @1000000000 /one/root && test \
	\$(stat -c %Y /mnt/points/one/root) = 1000000000"
refused "another owner" "chown 0:0 /one/root"
works "a group of its user" "chgrp 3456 /one/root"
refused "device files" "mknod /one/null c 1 3"
refused "attributes that NFS has not" "` + machinetest.Init + " " + setAttribute + ` user.x /one/root"
works "close to open" 'for i in $(seq 50); do echo $i > /mnt/points/one/seen; chmod 644 /mnt/points/one/seen
	test $(cat /one/seen) = $i || exit 1; done'
works "append" "echo a >> /one/log; chmod 666 /one/log; echo b >> /mnt/points/one/log; echo c >> /one/log
	test \$(cat /one/log | tr -d '\n') = abc"
works "memory" "python3 -c 'import mmap; f = open(\"/one/big\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[5] = 7; m.flush()' ||
	which python3 | grep -c . | grep 0"
refused "out of the directory" "ls /one/../mnt/../one/../../one/.. | grep secret"
(exec 8>/one/locked; flock -n 8 || exit; touch /run/holds; until test -e /run/asked; do sleep 0.1; done) &
until test -e /run/holds; do sleep 0.1; done
refused "a lock" "flock -n /one/locked true"
refused "a lock, from another mount" "flock -n /mnt/points/one/locked true"
touch /run/asked
works "a lock that is free again" "flock -w 10 /mnt/points/one/locked true && flock -w 10 /one/locked true"
works "a directory of it" "point() { :; }; mkdir /one/sub && touch /one/sub/x"
point 1 /sub /sub; works "is mounted" "test -e /sub/x && umount /sub"
mkdir -m 700 /mnt/points/one/closed && mkdir -m 777 /mnt/points/one/closed/open
refused "a directory that its user does not reach" "mkdir /closed; mount -i -t efs -o \
	addr=127.0.0.1,accesspoint=fsap-00000000000000001 x:/closed/open /closed"

point 2 /squashed
works "root is nobody" "mkdir -m 777 /mnt/open && touch /squashed/open/file && test \$(stat -c %u:%g /mnt/open/file) = 65534:65534"
refused "root reads no secrets" "cat /squashed/secret"
refused "root gives nothing away" "chown 1000 /squashed/open/file"
works "others are themselves" "setpriv --reuid 77 --regid 78 --groups 79 touch /squashed/open/77 &&
	test \$(stat -c %u:%g /mnt/open/77) = 77:78"
works "with their groups" "mkdir -m 770 /mnt/grouped && chgrp 79 /mnt/grouped &&
	setpriv --reuid 77 --regid 78 --groups 79 touch /squashed/grouped/file"
refused "without" "setpriv --reuid 77 --regid 78 --clear-groups touch /squashed/grouped/not"
works "what may be done" "test -w /squashed/open/file && ! test -w /squashed/secret"

point 3 /readonly
works "reads" "cat /readonly/secret"
for change in "touch /readonly/x" "rm /readonly/secret" "mkdir /readonly/d" "chmod 777 /readonly/secret" \
	"echo x > /readonly/secret" "ln -s x /readonly/l" "mv /readonly/secret /readonly/s" "truncate -s 0 /readonly/secret" \
	"ln /readonly/secret /readonly/h" "mkfifo /readonly/f" "mount -o remount,rw /readonly"; do
	refused "$change" "$change"
done
refused "after a change of the mount" "mount -o remount,bind,rw /readonly; touch /readonly/x"

refused "a root directory that is not there" "mkdir /none; mount -i -t efs -o addr=127.0.0.1,accesspoint=fsap-00000000000000004 x:/ /none"
refused "a root directory that leads out" "mount -i -t efs -o addr=127.0.0.1,accesspoint=fsap-00000000000000005 x:/ /none"
refused "an access point that is refused" "mount -i -t efs -o addr=127.0.0.1,accesspoint=fsap-00000000000000006 x:/ /none"
refused "a user who is none" "mount -i -t efs -o addr=127.0.0.1,accesspoint=fsap-00000000000000009 x:/ /none"
point 7 /seven; works "a root directory alone" "test \$(stat -c %u /seven/one/root) = 1234 && touch /seven/own && test ! -e /seven/secret"
works "unmount" "umount /one && umount /squashed && umount /readonly"
touch /var/lib/kubelet/done
`)
	r.on()
	r.check(" /one fuse.efs rw,nodev", "Read-only file system", "not this one", "/missing")
	if got := r.owner("points/one/other"); got != "1234:2345" {
		t.Errorf("a file of the access point belongs to %s", got)
	}
	eventually.True(t, "those who served are gone", func() bool { return len(r.servers()) == 0 })
}

// A disk keeps for root what it reserves, also when the user of an access point is root.
func TestAccessPointsLeaveWhatIsReserved(t *testing.T) {
	t.Parallel()
	r := newShareRig(t)
	disk := filepath.Join(t.TempDir(), "disk")
	if err := exec.Command("truncate", "-s", "400M", disk).Run(); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "30", disk}, {"mount", "-o", "loop", disk, r.root}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", r.root).Run() })
	r.script(shareHelpers + `
point 8 /root8
works "root is root" "touch /root8/x && test \$(stat -c %u /root8/x) = 0"
refused "all that there is" "dd if=/dev/zero of=/root8/big bs=1M"
refused "another file" "touch /root8/more"
works "what takes nothing" "rm /root8/x && ls /root8"
`)
	r.on()
	r.check("No space left on device")
	var st unix.Statfs_t
	if err := unix.Statfs(r.root, &st); err != nil || st.Bfree*uint64(st.Bsize) < 100<<20 {
		t.Errorf("%d MiB are left, %v", st.Bfree*uint64(st.Bsize)>>20, err)
	}
}

// servers returns the processes that serve file systems for the machine.
func (r *shareRig) servers() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		args, _ := os.ReadFile(name)
		first := `"FirstID":` + itoa(int(r.spec.UserID)) + ","
		if strings.Contains(string(args), "launch\x00squash\x00") && strings.Contains(string(args), first) {
			pids = append(pids, atoi(filepath.Base(filepath.Dir(name))))
		}
	}
	return pids
}

// untilServed waits until the machine has mounted a file system that a process serves.
func (r *shareRig) untilServed() int {
	r.t.Helper()
	eventually.True(r.t, "the machine has mounted", func() bool {
		_, err := os.Stat(filepath.Join(r.spec.Dir, "kubelet/ready"))
		return err == nil
	})
	pids := r.servers()
	if len(pids) != 1 {
		r.t.Fatalf("%v serve the machine", pids)
	}
	return pids[0]
}

func TestTheEndOfWhoServesAnAccessPoint(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *shareRig, launcher, server int){
		"killed": func(r *shareRig, _, server int) {
			_ = syscall.Kill(server, syscall.SIGKILL)
			r.check("file: Transport endpoint is not connected", "works: unmount")
		},
		"launcher killed": func(r *shareRig, launcher, _ int) { _ = syscall.Kill(launcher, syscall.SIGKILL) },
		"power button": func(r *shareRig, launcher, _ int) {
			_ = os.WriteFile(filepath.Join(r.spec.Dir, "kubelet/skip"), nil, 0o644)
			r.untilConsole("\nup\n")
			_ = syscall.Kill(launcher, syscall.SIGTERM)
			r.untilStatus("it is off", func(s Status) bool { return s.State == PoweredOff })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newShareRig(t)
			r.script(shareHelpers + `
point 1 /one; (cd /one; sleep 1000) > /dev/null 2>&1 & echo x > /one/file; touch /var/lib/kubelet/ready
while cat /one/file > /dev/null && test ! -e /var/lib/kubelet/skip; do sleep 0.1; done
test -e /var/lib/kubelet/skip || refused "use" "cat /one/file"
test -e /var/lib/kubelet/skip || works "unmount" "umount -l /one && ! test -e /one/file"
`)
			launcher := r.on().PID
			end(r, launcher, r.untilServed())
			eventually.True(t, "who served is gone", func() bool { return len(r.servers()) == 0 })
		})
	}
}

// What the machine's root puts in the way of a mount harms nobody, and other calls are made meanwhile.
func TestMountTargetsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	r := newShareRig(t)
	var silent, foreign net.Listener
	if err := machinetest.In(r.spec.Network, func() (err error) {
		if silent, err = net.Listen("tcp", "127.0.0.1:3001"); err == nil {
			foreign, err = net.Listen("tcp", "127.0.0.1:3002")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer foreign.Close()
	go func() {
		for {
			c, err := foreign.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("\x80\x00\x00\x1cI am an NFS server, and I speak RPC\n"))
			time.AfterFunc(time.Minute, func() { c.Close() })
		}
	}()
	r.script(shareHelpers + `
try() { mount -i -t nfs4 -o addr=127.0.0.1,port=$1 127.0.0.1:/ /mnt; }
refused "another server" "mount -i -t nfs4 -o addr=127.0.0.1,port=3002 127.0.0.1:/ /mnt"
for i in $(seq 200); do (until test -e /run/go; do sleep 1; done; try 3001; touch /run/ended) > /run/silent 2>&1 & done
touch /run/go; sleep 2 # all begin at once: on a busy machine the first would end before the last has been started
works "another file system" "mount -i -t tmpfs tmpfs /mnt && umount /mnt && test ! -e /run/ended"
until test -e /run/ended; do sleep 0.1; done; cat /run/silent
`)
	r.on()
	r.check("timed out", "works: another file system")
}
