package unit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []Option
		err        string
	}{
		{"sections and comments", "# c\n; d\n[Unit]\nDescription = a b \n\n[Service]\nExecStart=/bin/x",
			[]Option{{"Unit", "Description", "a b"}, {"Service", "ExecStart", "/bin/x"}}, ""},
		{"continued lines, with a comment between",
			"[Service]\nExecStart=/bin/x \\\n  # not this\n  --a \\\n\t--b\nType=simple\n",
			[]Option{{"Service", "ExecStart", "/bin/x  --a  --b"}, {"Service", "Type", "simple"}}, ""},
		{"a value with =", "[Service]\nEnvironment='A=b=c'", []Option{{"Service", "Environment", "'A=b=c'"}}, ""},
		{"carriage returns", "[Service]\r\nType=oneshot\r\n", []Option{{"Service", "Type", "oneshot"}}, ""},
		{"a line as long as the labels of a node", "[Service]\nEnvironment=" + strings.Repeat("x", 9000),
			[]Option{{"Service", "Environment", strings.Repeat("x", 9000)}}, ""},
		{"no section", "Type=simple", nil, "line 1: assignment outside of section"},
		{"no assignment", "[Unit]\nnonsense", nil, `line 2: missing '=' in "nonsense"`},
		{"a broken section", "[Unit\n", nil, "line 1: invalid section header"},
	} {
		got, err := Parse(strings.NewReader(test.text))
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// write makes a search path of files by their names, "etc/a.service"; "-> x" is a link.
func write(t *testing.T, files map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{filepath.Join(dir, "etc"), filepath.Join(dir, "lib")}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	path := write(t, map[string]string{
		"lib/a.service":                         "[Unit]\nDescription=lib\nAfter=x.service\n[Service]\nExecStart=/bin/lib\nEnvironment=A=1\n",
		"etc/a.service.d/20.conf":               "[Service]\nEnvironment=B=20\n",
		"lib/a.service.d/10.conf":               "[Unit]\nAfter=y.service\n[Service]\nExecStart=\nExecStart=/bin/dropin %n\n",
		"lib/a.service.d/20.conf":               "[Service]\nEnvironment=B=not this\n",
		"lib/a.service.d/30.conf":               "[Service]\nEnvironment=C=not this either\n",
		"etc/a.service.d/30.conf":               "-> /dev/null",
		"lib/b.service":                         "[Service]\nExecStart=/bin/lib\n",
		"etc/b.service":                         "[Service]\nExecStart=/bin/etc\n",
		"etc/masked.service":                    "-> /dev/null",
		"lib/default.target":                    "-> multi-user.target",
		"lib/multi-user.target":                 "[Unit]\nWants=a.service\n",
		"etc/multi-user.target.wants/b.service": "-> ../b.service",
		"lib/t@.service":                        "[Service]\nExecStart=/bin/echo %i %p %I %f\n",
		"etc/t@.service.d/10.conf":              "[Service]\nUser=u\n",
		"etc/broken.service":                    "nonsense\n",
	})
	load := func(name string) *Unit {
		t.Helper()
		u, err := Load(path, name)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	a := load("a.service")
	if got := a.Names("Unit", "After"); !reflect.DeepEqual(got, []string{"x.service", "y.service"}) {
		t.Errorf("After is %q", got)
	}
	commands, err := a.Commands("ExecStart")
	if err != nil || len(commands) != 1 || commands[0].String() != "/bin/dropin a.service" {
		t.Errorf("ExecStart is %v, %v", commands, err)
	}
	env, err := a.Environment(map[string]string{"A": "0", "PATH": "p"})
	if err != nil || !reflect.DeepEqual(env, map[string]string{"A": "1", "B": "20", "PATH": "p"}) {
		t.Errorf("the environment is %v, %v", env, err)
	}
	if len(a.DropIns) != 2 {
		t.Errorf("the drop-ins are %q", a.DropIns)
	}
	if b := load("b.service"); b.Last("Service", "ExecStart") != "/bin/etc" {
		t.Errorf("b.service is %+v", b)
	}
	if m := load("masked.service"); !m.Masked {
		t.Error("masked.service is not masked")
	}
	if d := load("default.target"); d.Name != "multi-user.target" || fmt.Sprint(d.WantsLinks) != "[b.service]" {
		t.Errorf("default.target is %+v", d)
	}
	i := load("t@dev-disk.service")
	commands, err = i.Commands("ExecStart")
	if err != nil || i.Name != "t@dev-disk.service" ||
		commands[0].String() != "/bin/echo dev-disk t dev/disk /dev/disk" || i.Last("Service", "User") != "u" {
		t.Errorf("t@dev-disk.service: %+v, %v, %v", i, commands, err)
	}
	if _, err := Load(path, "runtime.slice"); err != nil {
		t.Errorf("a slice without a file: %v", err)
	}
	var missing NotFoundError
	if _, err := Load(path, "nothing.service"); !errors.As(err, &missing) {
		t.Errorf("nothing.service: %v", err)
	}
	for name, want := range map[string]string{"broken.service": "line 1: missing '='",
		"a/b.service": "Invalid unit name", "a": "Invalid unit name"} {
		if _, err := Load(path, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	env := map[string]string{"A": "one", "B": "two  three 'four five'", "EMPTY": "",
		"ARGS": "--node-labels=a=b,c=d --v=2"}
	for _, test := range []struct {
		line string
		want []string // each command with its arguments, "|" between
		err  string
	}{
		{`/bin/x a "b c" 'd "e"' f\x20g`, []string{`/bin/x|a|b c|d "e"|f g`}, ""},
		{`-/bin/x $A ${A} $B ${B} x$A y${A}z $EMPTY ${EMPTY} $$A`,
			[]string{"-/bin/x|one|one|two|three|four five|two  three 'four five'|x$A|yonez||$A"}, ""},
		{`/usr/bin/kubelet --config=c $ARGS $MORE`, []string{"/usr/bin/kubelet|--config=c|--node-labels=a=b,c=d|--v=2"},
			""},
		{`@/bin/x name arg`, []string{"name|arg"}, ""},
		{`:/bin/x $A ${B}`, []string{"/bin/x|$A|${B}"}, ""},
		{`/bin/a 1 ; /bin/b "2" ';' \;`, []string{"/bin/a|1", "/bin/b|2|;|;"}, ""},
		{`/bin/sh -c 'echo "$0"; exit 1' 100%%`, []string{`/bin/sh|-c|echo "$0"; exit 1|100%`}, ""},
		{`/bin/x "unbalanced`, nil, "unbalanced quotes"},
		{`-`, nil, "no program"},
	} {
		u := &Unit{Name: "x.service", Options: []Option{{"Service", "ExecStart", test.line}}}
		commands, err := u.Commands("ExecStart")
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.line, err, test.err)
			}
			continue
		}
		var got []string
		for _, c := range commands {
			text := strings.Join(c.Argv(env), "|")
			if c.IgnoreFailure {
				text = "-" + text
			}
			got = append(got, text)
		}
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s:\n got %q, %v\nwant %q", test.line, got, err, test.want)
		}
	}
}

func TestEnvironmentFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "environment")
	if err := os.WriteFile(file, []byte(
		"# c\nNODEADM_KUBELET_ARGS=--node-ip=10.0.0.4 --node-labels=a=b,c=\"d\"\nB='quoted value'\n\nC=\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	u := &Unit{Name: "x.service", Options: []Option{{"Service", "EnvironmentFile", file}, {"Service", "EnvironmentFile",
		"-/nonexistent"}, {"Service", "Environment", `"D=50%% of it" E='x'`}}}
	env, err := u.Environment(nil)
	want := map[string]string{"NODEADM_KUBELET_ARGS": `--node-ip=10.0.0.4 --node-labels=a=b,c="d"`, "B": "quoted value",
		"C": "", "D": "50% of it", "E": "x"}
	if err != nil || !reflect.DeepEqual(env, want) {
		t.Errorf("%q, %v, want %q", env, err, want)
	}
	u.Options = append(u.Options, Option{"Service", "EnvironmentFile", "/nonexistent"})
	if _, err := u.Environment(nil); err == nil || !strings.Contains(err.Error(), "Failed to load environment files") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "2min 30s": 150 * time.Second,
		"100ms": 100 * time.Millisecond, "1h30min": 90 * time.Minute, "infinity": 0, "0.5s": 500 * time.Millisecond,
		"5 minutes": 5 * time.Minute} {
		if got, ok := Duration(text); !ok || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "soon", "5 parsecs", "-"} {
		if got, ok := Duration(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}
