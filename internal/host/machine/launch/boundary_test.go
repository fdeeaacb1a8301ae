//go:build linux

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fingerprint returns the properties of a file of the host that must not change, whatever is done in a machine.
func fingerprint(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	beginning := string(content[:min(len(content), 40)])
	return fmt.Sprintln(path, len(content), beginning, info.Mode(), st.Ino, st.Uid, st.Gid, st.Nlink, info.ModTime())
}

// attack is a script of what root in a machine may try with a file that is mounted from the host, after it has removed
// what can be removed of its mounts.
const attack = `
attack() {
	echo evil >> $1 && echo "written: $1"
	echo evil 1<> $1 && echo "overwritten: $1"
	chmod 4777 $1 && echo "mode changed: $1"
	chown 1:1 $1 && echo "owner changed: $1"
	touch -d @0 $1 && echo "time changed: $1"
	ln $1 $1.link && echo "linked: $1"
	mv $1 $1.moved && echo "moved: $1"
	rm $1 && echo "removed: $1"
}
cut -d' ' -f5 /proc/self/mountinfo | grep -v '^/proc\|^/sys\|^/dev' | while read -r at; do
	mount -o remount,rw $at
	mount -o remount,bind,rw,suid,dev,exec $at
done
`

func TestRootCannotWriteToWhatIsReadOnly(t *testing.T) {
	eachIsolation(t, testRootCannotWriteToWhatIsReadOnly)
}

func testRootCannotWriteToWhatIsReadOnly(t *testing.T, r *rig) {
	dir := t.TempDir()
	tools := filepath.Join(dir, "tools,of:the\\host") // a name that has to be escaped
	if err := os.MkdirAll(filepath.Join(tools, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	files := []string{program, filepath.Join(tools, "one"), filepath.Join(tools, "sub", "two")}
	for _, name := range files {
		if err := os.WriteFile(name, []byte("#!/bin/sh\necho of the host\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(r.spec.BaseImage, "etc/shared")
	if err := os.WriteFile(shared, []byte("of all machines\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	files = append(files, self, "/usr/bin/env", shared)
	r.spec.Mounts = append(r.spec.Mounts,
		Mount{Source: link, Target: "/usr/bin/program", ReadOnly: true},
		Mount{Source: tools, Target: "/opt/tools", ReadOnly: true},
		Mount{Source: program, Target: "/opt/program", ReadOnly: true},
	)
	r.script(attack + `
/usr/bin/program; /opt/program; /opt/tools/one; /opt/tools/sub/two
for file in /usr/bin/program /opt/program /opt/tools/one /opt/tools/sub/two ` + r.spec.Init[0] + `; do
	attack $file
done
echo evil > /opt/tools/new && echo "written: new"
grep ' /opt/tools ' /proc/self/mountinfo
for file in /usr/bin/env /etc/shared; do attack $file >/dev/null; done
echo "disk written: $(ls /usr/bin/env.link)"
umount /opt/program /usr/bin/program /opt/tools
ls -A /opt/tools
echo mine > /usr/bin/program && echo "uncovered"
`)
	var before []string
	for _, file := range files {
		before = append(before, fingerprint(t, file))
	}
	r.on()
	r.untilConsole("\nup\n")
	said := strings.Repeat("of the host\n", 4)
	wanted := []string{said, "disk written: /usr/bin/env.link\n"}
	if r.spec.UserID == 0 {
		wanted = append(wanted, "uncovered\n") // it may take its own mounts away
	}
	for _, want := range wanted {
		if !strings.Contains(r.console(), want) {
			t.Errorf("the console does not show %q", want)
		}
	}
	for _, unwanted := range []string{"written: /", "written: new", "changed: ", "linked: ", "moved: ", "removed: "} {
		if strings.Contains(strings.ReplaceAll(r.console(), "disk written: ", ""), unwanted) {
			t.Errorf("the console shows %q", unwanted)
		}
	}
	for i, file := range files {
		if after := fingerprint(t, file); after != before[i] {
			t.Errorf("a file of the host was\n%s and is\n%s", before[i], after)
		}
	}
}

func TestWhatIsReadOnlyStaysWhenTheHostReplacesIt(t *testing.T) {
	eachIsolation(t, testWhatIsReadOnlyStaysWhenTheHostReplacesIt)
}

// Programs that are replaced on the host stay what they were in the machines that run them, until these boot again.
func testWhatIsReadOnlyStaysWhenTheHostReplacesIt(t *testing.T, r *rig) {
	program := filepath.Join(t.TempDir(), "bin", "program")
	write := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
			t.Fatal(err)
		}
		next := program + ".next"
		if err := os.WriteFile(next, []byte("#!/bin/sh\necho "+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, program); err != nil {
			t.Fatal(err)
		}
	}
	write("of old")
	r.spec.Mounts = append(r.spec.Mounts, Mount{Source: program, Target: "/usr/bin/program", ReadOnly: true})
	r.script(`program
sh -c '
	while ! test -e /var/lib/kubelet/replaced; do sleep 0.01; done
	program | sed s/^/still:/
' >/dev/console 2>&1 &
`)
	r.on()
	r.untilConsole("\nup\n")
	write("of new")
	if err := os.RemoveAll(filepath.Dir(program)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.spec.Dir, "kubelet/replaced"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.untilConsole("still:of old")
	write("of new")
	if err := syscall.Kill(r.pid1(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r.untilConsole("of new")
}

func TestLinksOnTheDiskDoNotLeadToTheHost(t *testing.T) {
	eachIsolation(t, testLinksOnTheDiskDoNotLeadToTheHost)
}

// What a machine leaves on its disk leads the next boot to places in the machine, and nowhere on the host.
func testLinksOnTheDiskDoNotLeadToTheHost(t *testing.T, r *rig) {
	outside, err := os.MkdirTemp("/var/tmp", "coracle-outside-") // a path that exists on the machine's disk as well
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outside) })
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho found\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.spec.Mounts = append(r.spec.Mounts, Mount{Source: program, Target: "/opt/bin/program", ReadOnly: true})
	r.script(`
test -e /root/again && { /opt/bin/program; ls -l /opt/bin; cat /run/host/dhcp.json; }
mkdir -p ` + outside + `/run
mv /opt /opt.old; mkdir /opt; ln -s ` + outside + ` /opt/bin
umount -l /run && rmdir /run && ln -s ` + outside + `/run /run
touch /root/again
`)
	if err := os.MkdirAll(r.spec.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.spec.Dir, LeaseFile), []byte(`{"nameservers":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.on()
	r.untilConsole("\nup\n")
	if err := syscall.Kill(r.pid1(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r.untilStatus("rebooted", func(s Status) bool { return s.State == Running && s.Starts == 2 })
	r.untilConsole("found")
	r.untilConsole(`{"nameservers":[]}`)
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("on the host there are %v, %v", entries, err)
	}
}
