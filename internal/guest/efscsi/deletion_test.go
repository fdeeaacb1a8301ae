//go:build linux

package efscsi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver/csidrivertest"
)

func TestDeletion(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		id      string // "": of the volume
		denied  []string
		guarded bool
		code    codes.Code
		left    int
	}{
		"a volume":                       {},
		"one that is gone":               {id: "efs:" + fileSystem + "::fsap-0000000000000000f", left: 1},
		"one that is gone with its tags": {id: fileSystem + "::fsap-0000000000000000f", guarded: true, left: 1},
		"a file system":                  {id: fileSystem, left: 1},
		"a path":                         {id: fileSystem + ":/data", left: 1},
		"what is none":                   {id: "vol-1", left: 1},
		"nothing":                        {id: "-", code: codes.InvalidArgument, left: 1},
		"what may not be":                {denied: []string{"DeleteAccessPoint"}, code: codes.Unauthenticated, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeEFS{}
			c := newController(t, f)
			out, err := c.CreateVolume(t.Context(), request("pvc-1", class(nil)))
			if err != nil {
				t.Fatal(err)
			}
			f.denied, f.guarded = x.denied, x.guarded
			id := out.GetVolume().GetVolumeId()
			if x.id != "" {
				id = strings.TrimPrefix(x.id, "-")
			}
			for range 2 {
				_, err = c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
				if status.Code(err) != x.code || len(f.points) != x.left {
					t.Errorf("%v, with %d access points; want %v with %d", err, len(f.points), x.code, x.left)
				}
			}
		})
	}
}

// linkMounter has a directory for the file system.
type linkMounter struct {
	csidrivertest.Mounter
	root string
}

func (m *linkMounter) Mount(source, target, kind string, options []string) error {
	if err := os.Remove(target); err != nil {
		return err
	}
	if err := os.Symlink(m.root, target); err != nil {
		return err
	}
	return m.Mounter.Mount(source, target, kind, options)
}

func TestDeletionOfWhatAVolumeHas(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		path   string // of the access point
		make   func(root string) error
		delete bool
		gone   []string
		there  []string
		code   codes.Code
	}{
		"it is kept": {path: "/a/pvc-1", there: []string{"a/pvc-1/file"}},
		"it goes": {path: "/a/pvc-1", delete: true, gone: []string{"a/pvc-1"},
			there: []string{"a", "other/file"}},
		"it was never used": {path: "/a/none", delete: true, there: []string{"a/pvc-1/file"}},
		"the root stays":    {path: "/", delete: true, there: []string{"a/pvc-1/file", "other/file"}},
		"a file":            {path: "/other/file", delete: true, code: codes.Internal, there: []string{"other/file"}},
		"a link": {path: "/link", delete: true, code: codes.Internal, there: []string{"link", "other/file"},
			make: func(root string) error { return os.Symlink("other", filepath.Join(root, "link")) }},
		"a link on the way": {path: "/link/sub", delete: true, code: codes.Internal, there: []string{"other/sub"},
			make: func(root string) error {
				return errors.Join(os.Symlink("other", filepath.Join(root, "link")),
					os.Mkdir(filepath.Join(root, "other/sub"), 0o700))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, file := range []string{"a/pvc-1/file", "other/file"} {
				path := filepath.Join(root, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if x.make != nil {
				if err := x.make(root); err != nil {
					t.Fatal(err)
				}
			}
			f := &fakeEFS{}
			c := newController(t, f)
			m := &linkMounter{root: root}
			c.mounter, c.options.deleteRoot = m, x.delete
			out, err := c.CreateVolume(t.Context(), request("pvc-1", class(nil)))
			if err != nil {
				t.Fatal(err)
			}
			f.points[0].RootDirectory.Path = aws.String(x.path)
			_, err = c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: out.GetVolume().GetVolumeId()})
			if status.Code(err) != x.code || (err == nil) != (len(f.points) == 0) {
				t.Errorf("%v, with %d access points; want %v", err, len(f.points), x.code)
			}
			for _, path := range x.there {
				if _, err := os.Lstat(filepath.Join(root, path)); err != nil {
					t.Error(err)
				}
			}
			for _, path := range x.gone {
				if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
					t.Errorf("%s is there", path)
				}
			}
			if m.Count() > 0 {
				t.Error("it is mounted")
			}
			for _, options := range m.Calls() {
				if options != "[tls iam]" {
					t.Errorf("mounted with %s", options)
				}
			}
		})
	}
}

// A file system that cannot be mounted keeps its access points.
func TestDeletionWithoutAMount(t *testing.T) {
	t.Parallel()
	f := &fakeEFS{}
	c := newController(t, f)
	c.options.deleteRoot, c.mounter = true, failingMounter{&csidrivertest.Mounter{}}
	out, err := c.CreateVolume(t.Context(), request("pvc-1", class(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: out.GetVolume().GetVolumeId()}); status.
		Code(err) != codes.Internal || len(f.points) != 1 {
		t.Errorf("%v, with %d access points", err, len(f.points))
	}
	if left, _ := os.ReadDir(c.options.mountDir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// Somebody may put a link in the place of a directory just when that is looked at.
func TestADirectoryThatIsReplacedIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	was, err := root.Lstat("a")
	if err != nil {
		t.Fatal(err)
	}
	same, err := openSame(root, "a", was)
	if err != nil {
		t.Fatal(err)
	}
	same.Close()
	if err := errors.Join(os.Remove(filepath.Join(dir, "a")), os.Symlink("b", filepath.Join(dir, "a"))); err != nil {
		t.Fatal(err)
	}
	if below, err := openSame(root, "a", was); err == nil {
		below.Close()
		t.Error("the link was followed")
	}
}
