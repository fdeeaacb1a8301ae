//go:build linux

package initd_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/guest/systemctl"
)

// control runs systemctl, journalctl and the like on a machine.
func (m *machine) control(args ...string) (output string, code int) {
	m.t.Helper()
	var out bytes.Buffer
	c := systemctl.Command{Stdout: &out, Stderr: &out, Run: m.dir + "/run", UnitPath: []string{m.dir + "/etc",
		m.dir + "/lib"}, Journal: m.dir + "/journal"}
	switch args[0] {
	case "journalctl":
		code = c.Journalctl(args[1:])
	case "shutdown":
		code = c.Shutdown(args[1:])
	default:
		code = c.Systemctl(args)
	}
	return strings.ReplaceAll(out.String(), m.dir, "DIR"), code
}

func TestSystemctl(t *testing.T) {
	t.Parallel()
	m := bootMachine(t, map[string]string{
		"app.service": "[Unit]\nDescription=An application\n[Service]\nExecStart=/bin/sh -c 'echo hello; " +
			"echo oops >&2; exec sleep 1000'\nExecReload=/bin/sh -c 'echo reloaded " +
			"$MAINPID'\n[Install]\nWantedBy=default.target\n",
		"app.service.d/10.conf": "[Service]\nEnvironment=A=b\n",
		"failing.service":       "[Service]\nExecStart=/bin/sh -c 'echo why >&2; exit 4'\nType=oneshot\n",
		"static.service":        "[Service]\nExecStart=/bin/true\nType=oneshot\n",
		"default.target":        "[Unit]\nDescription=Everything\n",
	})
	m.untilState("default.target", "active", "")
	for _, step := range []struct {
		args string
		code int
		want []string
	}{
		{"is-active app", 3, []string{"inactive\n"}},
		{"is-active nothing", 4, []string{"inactive\n"}},
		{"is-enabled app", 1, []string{"disabled\n"}},
		{"is-enabled static", 0, []string{"static\n"}},
		{"is-enabled nothing", 1, []string{
			"Failed to get unit file state for nothing.service: No such file or directory"}},
		{"enable --now app", 0, []string{
			"Created symlink DIR/etc/default.target.wants/app.service → DIR/etc/app.service."}},
		{"is-enabled app.service", 0, []string{"enabled\n"}},
		{"is-active --quiet app", 0, nil},
		{"status app --no-pager", 0, []string{"● app.service - An application",
			"Loaded: loaded (DIR/etc/app.service; enabled)", "Drop-In: DIR/etc/app.service.d\n             └─10.conf",
			"Active: active (running) since", "Main PID: "}},
		{"show app -p Environment -p ActiveState,SubState", 0, []string{"Environment=A=b\n", "ActiveState=active\n",
			"SubState=running\n"}},
		{"show app -P MainPID", 0, nil},
		{"cat app", 0, []string{"# DIR/etc/app.service\n[Unit]", "# DIR/etc/app.service.d/10.conf\n[Service]"}},
		{"reload app", 0, nil},
		// What it says it has said before it is stopped.
		{"journalctl -u app --no-pager", 0, []string{"]: hello\n", "]: oops\n", "]: reloaded "}},
		{"list-units --type=service", 0, []string{"UNIT", "app.service", "loaded active   running", "An application"}},
		{"list-unit-files app.service", 0, []string{"app.service", "enabled", "1 unit files listed."}},
		{"list-dependencies", 0, []string{"default.target", "├─app.service"}},
		{"start failing", 1,
			[]string{
				"Job for failing.service failed because the control process exited with error code.\nSee \"systemctl " +
					"status failing.service\" and \"journalctl -xeu failing.service\" for details."}},
		{"status failing", 3, []string{"× failing.service", "Active: failed (Result: exit-code)",
			"status=4/NOPERMISSION", "]: why"}},
		{"is-failed failing", 0, []string{"failed\n"}},
		{"list-units --failed", 0, []string{"● failing.service", "1 loaded units listed."}},
		{"is-system-running", 1, nil},
		{"reset-failed", 0, nil},
		{"is-failed failing", 1, []string{"inactive\n"}},
		{"status nothing", 4, []string{"Unit nothing.service could not be found."}},
		{"start nothing", 5, []string{"Failed to start nothing.service: Unit nothing.service not found."}},
		{"restart nothing", 5, []string{"Unit nothing.service not found."}},
		{"disable app", 0, []string{"Removed DIR/etc/default.target.wants/app.service."}},
		{"mask static", 1, []string{"Failed to mask unit: File DIR/etc/static.service already exists."}},
		{"stop app", 0, nil},
		{"try-restart app", 0, nil},
		{"is-active app", 3, []string{"inactive\n"}},
		{"start", 1, []string{"Too few arguments."}},
		{"nonsense", 1, []string{"Unknown command verb 'nonsense'."}},
		{"start --nonsense app", 1, []string{"unrecognized option '--nonsense'"}},
		{"journalctl -u app --no-pager", 0, []string{"systemd[1]: Started app.service - An application.", "sh[",
			"]: hello\n", "]: oops\n", "]: reloaded "}},
		{"journalctl -u app -o cat -g hello", 0, []string{"hello\n"}},
		{"journalctl -xeu failing --no-pager", 0,
			[]string{"failing.service: Main process exited, code=exited, status=4/NOPERMISSION"}},
		{"journalctl -u nothing", 0, []string{"-- No entries --"}},
		{"journalctl -u app --since -1h --until now -n 1 -o json", 0, []string{`"_SYSTEMD_UNIT":"app.service"`}},
		{"journalctl --since tomorrowish", 1, []string{"Failed to parse timestamp"}},
		{"shutdown +nonsense", 1, []string{"Failed to parse time specification"}},
		{"shutdown -h +10", 0, []string{"Shutdown scheduled for"}},
		{"shutdown -c", 0, nil},
	} {
		eventually.Nil(t, step.args, func() error {
			out, code := m.control(strings.Fields(step.args)...)
			var wrong []error
			if code != step.code {
				wrong = append(wrong, fmt.Errorf("exit status %d, want %d\n%s", code, step.code, out))
			}
			for _, w := range step.want {
				if !strings.Contains(out, w) {
					wrong = append(wrong, fmt.Errorf("no %q in\n%s", w, out))
				}
			}
			err := errors.Join(wrong...)
			if err != nil && !strings.HasPrefix(step.args, "status ") && !strings.HasPrefix(step.args, "journalctl ") {
				return eventually.Never(err)
			}
			return err // what a process writes comes through a pipe
		})
	}
	if out, _ := m.control("journalctl", "-n", "1", "-u", "app"); strings.Count(out, "\n") != 1 {
		t.Errorf("journalctl -n 1: %q", out)
	}
	if _, err := os.Lstat(filepath.Join(m.dir, "etc/default.target.wants/app.service")); err == nil {
		t.Error("app.service is still enabled")
	}
}

func TestUpWaitsForWhatComesUpLater(t *testing.T) {
	t.Parallel()
	m := bootMachine(t, map[string]string{
		"later.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\nRestart=on-failure\nRestartSec=10ms\nExecStart=/bin/sh -c 'echo >> DIR/tries; test $(wc -l < DIR/tries) -ge 3'\n",
		"never.service": "[Service]\nType=oneshot\nExecStart=/bin/false\n",
	})
	var out bytes.Buffer
	c := systemctl.Command{Stdout: &out, Stderr: &out, Run: m.dir + "/run", UnitPath: []string{m.dir + "/etc"},
		Journal: m.dir + "/journal"}
	if err := c.Up("restart", "later", eventually.Limit); err != nil || m.unit("later.service").Active != "active" {
		t.Errorf("later: %v\n%s", err, &out)
	}
	if err := c.Up("start", "never", eventually.Limit); err == nil || !strings.Contains(err.Error(),
		"start never.service: it does not run") {
		t.Errorf("never: %v", err)
	}
}
