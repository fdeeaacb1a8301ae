//go:build linux

package containerdevice

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// TestBind checks which devices of a container become mounts, in a machine with the disks 7:1 and 7:2, and null.
func TestBind(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	root := t.TempDir()
	for name, device := range map[string]struct {
		kind, minor uint32
	}{"dev/nvme1n1": {unix.S_IFBLK, 1}, "dev/sub/nvme2n1": {unix.S_IFBLK, 2}, "dev/null": {unix.S_IFCHR, 3}} {
		path := filepath.Join(root, name)
		major := uint32(7)
		if device.kind == unix.S_IFCHR {
			major = 1
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(path, device.kind|0o600, int(unix.Mkdev(major, device.minor))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nvme1n1", filepath.Join(root, "dev/xvdaa")); err != nil {
		t.Fatal(err)
	}
	bound := func(source, destination string) string {
		return `{"destination":"` + destination + `","type":"bind","source":"` + filepath.Join(root, source) +
			`","options":["bind","nosuid","noexec"]}`
	}
	const first, second = `"type":"b","major":7,"minor":1`, `"type":"b","major":7,"minor":2`
	for name, test := range map[string]struct {
		devices      string // as a list; empty: there are none
		left, mounts string
		err          string
	}{
		"none":          {},
		"the same name": {devices: `{"path":"/dev/nvme1n1",` + first + `}`, left: `{"path":"/dev/nvme1n1",` + first + `}`},
		"a link":        {devices: `{"path":"/dev/xvdaa",` + first + `}`, left: `{"path":"/dev/xvdaa",` + first + `}`},
		"another name":  {devices: `{"path":"/dev/data",` + first + `}`, mounts: bound("dev/nvme1n1", "/dev/data")},
		"deep":          {devices: `{"path":"/dev/data",` + second + `}`, mounts: bound("dev/sub/nvme2n1", "/dev/data")},
		"another's name": {devices: `{"path":"/dev/nvme1n1",` + second + `}`,
			mounts: bound("dev/sub/nvme2n1", "/dev/nvme1n1")},
		"a character device": {devices: `{"path":"/x","type":"c","major":1,"minor":3}`,
			mounts: bound("dev/null", "/x")},
		"several": {devices: `{"path":"/dev/null","type":"c","major":1,"minor":3,"fileMode":438},{"path":"/a",` + first +
			`},{"path":"/b",` + second + `}`,
			left:   `{"path":"/dev/null","type":"c","major":1,"minor":3,"fileMode":438}`,
			mounts: bound("dev/nvme1n1", "/a") + "," + bound("dev/sub/nvme2n1", "/b")},
		"missing": {devices: `{"path":"/dev/nvme1n1","type":"b","major":7,"minor":3}`,
			err: "the machine has no device b 7:3, which the container is to have as /dev/nvme1n1"},
		"of another type": {devices: `{"path":"/dev/nvme1n1","type":"c","major":7,"minor":1}`,
			err: "the machine has no device c 7:1"},
		"no list": {devices: `1],"x":[`, err: "linux.devices"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle := t.TempDir()
			devices := ""
			if test.devices != "" {
				devices = `"devices":[` + test.devices + `],`
			}
			before := `{"big":12345678901234567890,"linux":{` + devices + `"resources":{"x":1}},"mounts":[{"destination":"/proc"}]}`
			file := filepath.Join(bundle, "config.json")
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			err := bind(bundle, root)
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("the error is %v, want %q", err, test.err)
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if test.err != "" || test.mounts == "" {
				if string(content) != before {
					t.Errorf("the configuration has changed: %s", content)
				}
				return
			}
			var got struct {
				Big    json.RawMessage
				Linux  struct{ Devices, Resources json.RawMessage }
				Mounts json.RawMessage
			}
			if err := json.Unmarshal(content, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"12345678901234567890", "[" + test.left + "]", `{"x":1}`,
				`[{"destination":"/proc"},` + test.mounts + "]"}, []string{string(got.Big), string(got.Linux.Devices),
				string(got.Linux.Resources), string(got.Mounts)}); diff != "" {
				t.Errorf("the configuration (-want +got):\n%s", diff)
			}
		})
	}
}
