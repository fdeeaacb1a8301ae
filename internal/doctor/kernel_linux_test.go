package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettingsThatMachinesHaveInCommon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, value string
		fix         string // empty: none is needed
	}{
		"few files":             {"fs/file-max", "400000", "sysctl -w fs.file-max=1048576"},
		"any number of files":   {"fs/file-max", "9223372036854775807", ""},
		"little for filters":    {"net/core/bpf_jit_limit", "33554432", "sysctl -w net.core.bpf_jit_limit=134217728"},
		"enough for filters":    {"net/core/bpf_jit_limit", "264241152", ""},
		"an end for who waits":  {"kernel/hung_task_panic", "1", "sysctl -w kernel.hung_task_panic=0"},
		"waits":                 {"kernel/hung_task_panic", "0", ""},
		"an end by warnings":    {"kernel/panic_on_warn", "1", "sysctl -w kernel.panic_on_warn=0"},
		"an end for all memory": {"vm/panic_on_oom", "1", ""}, // of the host, not of a machine
		"an end for any memory": {"vm/panic_on_oom", "2", "sysctl -w vm.panic_on_oom=0"},
		"what is no number":     {"fs/file-max", "many", ""},
		"another":               {"fs/nr_open", "1", ""},
	} {
		settings := t.TempDir()
		file := filepath.Join(settings, c.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var fixes []string
		for _, f := range checkShared(settings) {
			fixes = append(fixes, f.Fix)
		}
		if got := strings.Join(fixes, "; "); got != c.fix {
			t.Errorf("%s: to do is %q, want %q", name, got, c.fix)
		}
	}
}

func TestConnectionsOfControlPlanes(t *testing.T) {
	t.Parallel()
	if f := describeConfinement(nil); len(f) != 1 || f[0].Fix != "" {
		t.Errorf("where they are confined: %+v", f)
	}
	f := describeConfinement(errors.New("no Landlock"))
	if len(f) != 1 || !strings.Contains(f[0].Fix, "Linux 6.7") || !strings.Contains(f[0].Text, "(no Landlock)") {
		t.Errorf("where they are not: %+v", f)
	}
}
