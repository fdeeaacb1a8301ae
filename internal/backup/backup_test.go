package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/datadir"
)

// written is a backup of a data directory with some files and that snapshot.
func written(t testing.TB, snapshot string) []byte {
	t.Helper()
	dir, err := datadir.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"settings.json": "{}", "pki/ca.key": "key", "pki/webhooks/A.crt": "cert", "etcd/pki/ca.crt": "ca",
		"etcd/settings.json":   `{"port":1}`,
		"etcd/data/member/wal": "not in it", "logs/events/deep/part": "not this one", "logs/results/q": "not in it",
		"clusters/A/log": "not in it", "serve.log": "not in it",
	} {
		if err := os.MkdirAll(filepath.Dir(dir.Join(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir.Join(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	m := Manifest{Version: "v1", Taken: time.Unix(1000, 0).UTC(), DataDir: "/data", Account: "111122223333",
		Region: "us-east-1"}
	_, err = Write(t.Context(), &b, dir, m, Sources{
		Etcd: func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, snapshot)
			return err
		},
		Events: func(_ context.Context, dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "deep", "part"), []byte("copy"), 0o600)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(dir.Join(".backup-*")); err != nil || len(left) > 0 {
		t.Errorf("the backup left %v, %v", left, err)
	}
	return b.Bytes()
}

// edit returns a backup with its members changed.
func edit(t *testing.T, whole []byte, change func(name string, content []byte) (string, []byte)) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	out := gzip.NewWriter(&b)
	to := tar.NewWriter(out)
	for from := tar.NewReader(z); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name, content = change(h.Name, content); h.Name == "" {
			continue
		}
		h.Size = int64(len(content))
		if err := errors.Join(to.WriteHeader(h),
			func() error { _, err := to.Write(content); return err }()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(to.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestABackupHoldsWhatEtcdDoesNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := extract(bytes.NewReader(written(t, "snapshot")), dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Account != "111122223333" || m.Format != format || !m.Taken.Equal(time.Unix(1000, 0)) {
		t.Errorf("the manifest is %+v", m)
	}
	got := map[string]string{}
	err = filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		got[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"settings.json": "{}", "pki/ca.key": "key", "pki/webhooks/A.crt": "cert", "etcd/pki/ca.crt": "ca",
		"etcd/settings.json": `{"port":1}`,
		"etcd.snapshot":      "snapshot", "logs/events/deep/part": "copy",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoWholeBackupIsRefused(t *testing.T) {
	t.Parallel()
	whole := written(t, strings.Repeat("snapshot", 1000))
	edited := func(change func(name string, content []byte) (string, []byte)) []byte { return edit(t, whole, change) }
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0x40
	for name, archive := range map[string][]byte{
		"nothing":       nil,
		"text":          []byte("hello"),
		"cut short":     whole[:len(whole)*2/3],
		"a bit flipped": flipped,
		"a member changed": edited(func(name string, content []byte) (string, []byte) {
			if name == "files/pki/ca.key" {
				content = []byte("another")
			}
			return name, content
		}),
		"a member gone": edited(func(name string, content []byte) (string, []byte) {
			if name == "files/pki/ca.key" {
				name = ""
			}
			return name, content
		}),
		"no checksums": edited(func(name string, content []byte) (string, []byte) {
			if name == sumsName {
				name = ""
			}
			return name, content
		}),
		"a way out of the directory": edited(func(name string, content []byte) (string, []byte) {
			return strings.Replace(name, "files/pki/ca.key", "files/../../etc/passwd", 1), content
		}),
	} {
		dir, err := datadir.At(filepath.Join(t.TempDir(), "data"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(bytes.NewReader(archive), dir); err == nil || !strings.Contains(err.Error(),
			"not a whole backup") {
			t.Errorf("%s: %v", name, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(string(dir))); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v is left, %v", name, entries, err)
		}
	}
	future := edited(func(name string, content []byte) (string, []byte) {
		return name, bytes.Replace(content, []byte(`"format": 1`), []byte(`"format": 3`), 1)
	})
	if _, err := Restore(bytes.NewReader(future), datadir.Dir(filepath.Join(t.TempDir(), "data"))); err == nil ||
		!strings.Contains(err.Error(), "has format 3") {
		t.Errorf("a backup of a later format: %v", err)
	}
}

// A backup has as many checksums as files, of log events for example, and can be restored however many there are.
func TestChecksumsAreReadLineByLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ more, want string }{
		"many": {strings.Repeat("\n", 65<<20), ""},
		"long": {strings.Repeat("a", maxSum+1), "token too long"},
	} {
		archive := edit(t, written(t, "snapshot"), func(name string, content []byte) (string, []byte) {
			if name == sumsName {
				content = append(content, test.more...)
			}
			return name, content
		})
		_, err := extract(bytes.NewReader(archive), t.TempDir())
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASnapshotThatFailsIsNoBackup(t *testing.T) {
	t.Parallel()
	dir := datadir.Dir(t.TempDir())
	good := Sources{
		Etcd:   func(context.Context, io.Writer) error { return nil },
		Events: func(context.Context, string) error { return nil },
	}
	noEtcd, noEvents := good, good
	noEtcd.Etcd = func(context.Context, io.Writer) error { return errors.New("etcd is gone") }
	noEvents.Events = func(context.Context, string) error { return errors.New("the disk is full") }
	for want, from := range map[string]Sources{"etcd is gone": noEtcd,
		"copy the log events: the disk is full": noEvents} {
		if _, err := Write(t.Context(), io.Discard, dir, Manifest{}, from); err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
	if _, err := Write(t.Context(), io.Discard, dir, Manifest{}, good); err != nil {
		t.Errorf("without logs and files: %v", err)
	}
}

func TestADirectoryInUseIsNotOverwritten(t *testing.T) {
	t.Parallel()
	dir := datadir.Dir(t.TempDir())
	if err := os.WriteFile(dir.Join("thing"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(bytes.NewReader(written(t, "s")), dir); !errors.Is(err, ErrOccupied) {
		t.Errorf("%v", err)
	}
}

// contents are volumes with extents, by their offsets.
type contents map[string]map[int64]string

func (c contents) IDs() []string { return slices.Sorted(maps.Keys(c)) }
func (contents) Hold() error     { return nil }
func (contents) Release()        {}

const volumeSize = 1 << 30

func (c contents) Open(_ context.Context, id string, scratch *os.File) (*os.File, error) {
	if c[id] == nil {
		return nil, errors.New("it cannot be copied")
	}
	for offset, text := range c[id] {
		if _, err := scratch.WriteAt([]byte(text), offset); err != nil {
			return nil, err
		}
	}
	if err := scratch.Truncate(volumeSize); err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", scratch.Fd()))
}

// writtenWith is a backup with the content of volumes, of which it returns those that are missing.
func writtenWith(t *testing.T, c contents) (archive []byte, missing map[string]string, err error) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("volumes need Linux")
	}
	dir := t.TempDir()
	var b bytes.Buffer
	missing, err = Write(t.Context(), &b, datadir.Dir(dir), Manifest{Version: "v1"}, Sources{
		Etcd:     func(context.Context, io.Writer) error { return nil },
		Events:   func(context.Context, string) error { return nil },
		Contents: c,
	})
	if left, globErr := filepath.Glob(filepath.Join(dir, leftoverPattern)); globErr != nil || len(left) > 0 {
		t.Errorf("the backup left %v, %v", left, globErr)
	}
	return b.Bytes(), missing, err
}

func TestVolumesAreSparse(t *testing.T) {
	t.Parallel()
	c := contents{
		"vol-0123456789abcdef0":  {0: "begin", 1 << 29: strings.Repeat("m", 100), volumeSize - 3: "end"},
		"snap-0123456789abcdef0": {},
		"vol-0123456789abcdef1":  {1 << 20: strings.Repeat("x", extentAtMost+1)},
	}
	whole, missing, err := writtenWith(t, c)
	if err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	if len(whole) > 1<<20 {
		t.Errorf("the backup has %d bytes", len(whole))
	}
	dir := t.TempDir()
	m, err := extract(bytes.NewReader(whole), dir)
	if err != nil || m.Format != formatVolumes || !slices.Equal(m.Volumes, c.IDs()) {
		t.Fatalf("the manifest is %+v, %v", m, err)
	}
	for id, parts := range c {
		f, err := os.Open(filepath.Join(dir, "volumes", id, "disk"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Size() != volumeSize || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", id, info, err)
		}
		for offset, want := range parts {
			got := make([]byte, len(want))
			if _, err := f.ReadAt(got, offset); err != nil || string(got) != want {
				t.Errorf("%s has other content at %d: %v", id, offset, err)
			}
		}
		var used int64
		if err := eachExtent(f, volumeSize, func(_, size int64) error {
			used += size
			return nil
		}); err != nil || used > extentAtMost+1<<20 {
			t.Errorf("%s takes %d bytes, %v", id, used, err)
		}
	}
}

// A machine that writes to its volume all the time keeps nobody from a backup of all others.
func TestAVolumeThatCannotBeCopiedIsLeftOut(t *testing.T) {
	t.Parallel()
	const good, bad, last = "vol-0123456789abcdef0", "vol-0123456789abcdef1", "vol-0123456789abcdef2"
	whole, missing, err := writtenWith(t, contents{good: {0: "good"}, bad: nil, last: {}})
	want := map[string]string{bad: "it cannot be copied"}
	if err != nil || !maps.Equal(missing, want) {
		t.Fatalf("missing are %v, %v", missing, err)
	}
	dir := t.TempDir()
	m, err := extract(bytes.NewReader(whole), dir)
	if err != nil || !maps.Equal(m.Missing, want) || !slices.Equal(m.Volumes, []string{good, last}) {
		t.Errorf("the manifest is %+v, %v", m, err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "volumes")); err != nil || len(entries) != 2 {
		t.Errorf("there are %v, %v", entries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, io.Discard, datadir.Dir(t.TempDir()), Manifest{}, Sources{
		Etcd:     func(context.Context, io.Writer) error { return nil },
		Events:   func(context.Context, string) error { return nil },
		Contents: contents{bad: nil},
	}); err == nil {
		t.Error("a backup that nobody waits for is complete")
	}
}

func TestVolumesThatAreNotWholeAreRefused(t *testing.T) {
	t.Parallel()
	const id = "vol-0123456789abcdef0"
	whole, _, err := writtenWith(t, contents{id: {0: strings.Repeat("a", 4096), 1 << 20: strings.Repeat("b", 4096)}})
	if err != nil {
		t.Fatal(err)
	}
	const first, second, size, missing = "volumes/" + id + "/0000000000000000", "volumes/" + id + "/0000000000100000",
		"volumes/" + id + "/size", "volumes/" + id + "/missing"
	for what, test := range map[string]struct {
		from, to string // names of members; what becomes empty is left out
		content  string
		want     string
	}{
		"no size":         {from: size, want: "size is damaged"},
		"a smaller size":  {from: size, to: size, content: "4096\n", want: "has the size"},
		"a vast size":     {from: size, to: size, content: "999999999999999999\n", want: "has the size"},
		"no number":       {from: size, to: size, content: "x", want: "has the size"},
		"backwards":       {from: second, to: first, want: "has a part of 4096 bytes at 0000000000000000"},
		"far away":        {from: second, to: "volumes/" + id + "/f000000000000000", want: "has a part"},
		"another ID":      {from: first, to: "volumes/../../x/0000000000000000", want: "it contains"},
		"another name":    {from: first, to: "volumes/" + id + "/disk", want: "it contains"},
		"another volume":  {from: first, to: "volumes/vol-0123456789abcdef1/0000000000000000", want: "0000 is damaged"},
		"after its size":  {from: snapshotName, to: "volumes/" + id + "/size", content: "0\n", want: "goes on after"},
		"missing":         {from: size, to: missing, content: "x", want: "has content, and none"},
		"missing first":   {from: snapshotName, to: missing, content: "x", want: "goes on after its size"},
		"an older format": {from: manifestName, to: manifestName, content: `{"format": 1}`, want: "it contains"},
	} {
		archive := edit(t, whole, func(name string, content []byte) (string, []byte) {
			if name != test.from {
				return name, content
			}
			if test.content != "" {
				content = []byte(test.content)
			}
			return test.to, content
		})
		_, err := extract(bytes.NewReader(archive), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "not a whole backup") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", what, err, test.want)
		}
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".backup-1/events/x", ".backup-2/y", "other/z"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveLeftovers(dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "other" {
		t.Errorf("there are %v, %v", entries, err)
	}
}
