package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func at(t *testing.T, path string) Dir {
	t.Helper()
	d, err := At(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOneDirectoryHasOneName(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	direct, linked := at(t, filepath.Join(base, "real", "not", "there")), at(t, filepath.Join(base, "link", "not", "..",
		"not", "there"))
	if direct != linked || direct.Owner() != linked.Owner() {
		t.Errorf("%s and %s are the same directory", direct, linked)
	}
	if other := at(t, filepath.Join(base, "other")); other.Owner() == direct.Owner() {
		t.Error("two directories have one owner mark")
	}
	for _, bad := range []string{"", "/usr", "/usr/share/coracle", "/var/../usr/lib"} {
		if d, err := At(bad); err == nil {
			t.Errorf("%q is the directory %s", bad, d)
		}
	}
}

func TestCreateKeepsOthersOut(t *testing.T) {
	t.Parallel()
	d := at(t, filepath.Join(t.TempDir(), "data"))
	if err := os.Mkdir(string(d), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Create(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(string(d)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
}

func TestOneHolder(t *testing.T) {
	t.Parallel()
	d := at(t, t.TempDir())
	if _, held, err := d.Holder(); err != nil || held {
		t.Errorf("held before anyone took it: %v, %v", held, err)
	}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	pid, held, err := d.Holder()
	if err != nil || !held || pid != os.Getpid() {
		t.Errorf("holder is %d, %v, %v; want this process, %d", pid, held, err, os.Getpid())
	}
	_, err = d.Lock()
	var who *Held
	if !errors.As(err, &who) || who.PID != os.Getpid() || !strings.Contains(err.Error(), "coracle down --data-dir "+
		string(d)) {
		t.Errorf("a second lock: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if lock, err = d.Lock(); err != nil {
		t.Errorf("a lock after the release: %v", err)
	} else {
		lock.Release()
	}
}

func TestSettingsAndCredentialsAreKept(t *testing.T) {
	t.Parallel()
	d := at(t, t.TempDir())
	if _, err := d.ReadSettings(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("settings before the first start: %v", err)
	}
	want := Settings{Listen: "127.0.0.1:1", Region: "eu-west-1", Account: "111122223333", Machines: "simulated",
		WebhookPort: 2}
	if err := d.WriteSettings(want); err != nil {
		t.Fatal(err)
	}
	if got, err := d.ReadSettings(); err != nil || got != want {
		t.Errorf("settings are %+v, %v; want %+v", got, err, want)
	}

	if got, err := d.ReadCredentials(); err != nil || len(got) != 0 {
		t.Errorf("credentials before the first start: %v, %v", got, err)
	}
	keys := map[string]Credentials{"111122223333": {"AKIA1", "a/b+c="}, "444455556666": {"AKIA2", "d"}}
	if err := d.WriteCredentials(keys); err != nil {
		t.Fatal(err)
	}
	if got, err := d.ReadCredentials(); err != nil || !cmp.Equal(got, keys) {
		t.Errorf("credentials are %v, %v; want %v", got, err, keys)
	}
	if info, err := os.Stat(d.CredentialsFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if err := os.WriteFile(d.CredentialsFile(), []byte("[1]\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadCredentials(); err == nil || !strings.Contains(err.Error(), "credentials:2:") {
		t.Errorf("broken credentials: %v", err)
	}
}
