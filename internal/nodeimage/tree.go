package nodeimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"pault.ag/go/debian/deb"
)

// merged are the directories that are links into /usr.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// file is a file, a directory or a symbolic link; names that are hard links share one.
type file struct {
	kind    byte // tar.TypeReg, tar.TypeDir or tar.TypeSymlink
	mode    int64
	target  string // of a symbolic link
	content []byte
}

// tree is the content of an image, by name without a leading slash.
type tree struct{ files map[string]*file }

// cleanName returns the name that a path has in an image whose /usr is merged.
func cleanName(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if first, _, below := strings.Cut(name, "/"); below && slices.Contains(merged, first) {
		return "usr/" + name
	}
	return name
}

// addPackage adds the files of a Debian package that are included.
func (t *tree) addPackage(content []byte, includes func(name string) bool) error {
	archive, err := deb.Load(bytes.NewReader(content), "")
	if err != nil {
		return err
	}
	defer archive.Close()
	for {
		header, err := archive.Data.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := cleanName(header.Name)
		if name == "" || slices.Contains(merged, name) || !includes(name) {
			continue
		}
		f := &file{kind: header.Typeflag, mode: header.Mode & 0o7777, target: header.Linkname}
		switch header.Typeflag {
		case tar.TypeReg:
			if f.content, err = io.ReadAll(archive.Data); err != nil {
				return err
			}
		case tar.TypeLink:
			linked, ok := t.files[cleanName(header.Linkname)]
			if !ok {
				return fmt.Errorf("%s is a link to %s, which is not there", header.Name, header.Linkname)
			}
			f = linked
		case tar.TypeSymlink, tar.TypeDir:
		default:
			return fmt.Errorf("%s is neither a file nor a directory nor a link", header.Name)
		}
		if header.Gid != 0 { // the groups of a machine are Amazon Linux's
			f.mode &^= 0o2000
		}
		t.add(name, f)
	}
}

// add adds a file and the directories above it.
func (t *tree) add(name string, f *file) {
	if f.kind == tar.TypeDir && t.files[name] != nil {
		return
	}
	t.files[name] = f
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if t.files[dir] == nil {
			t.files[dir] = &file{kind: tar.TypeDir, mode: 0o755}
		}
	}
}

func (t *tree) symlink(name, target string) {
	t.add(name, &file{kind: tar.TypeSymlink, target: target, mode: 0o777})
}

// join makes a file of all files that the pattern matches, in the order of their names.
func (t *tree) join(name, pattern string) error {
	var content []byte
	for _, part := range slices.Sorted(maps.Keys(t.files)) {
		if ok, err := path.Match(pattern, part); err != nil {
			return err
		} else if ok {
			content = append(bytes.TrimRight(content, "\n"), '\n')
			content = append(content, t.files[part].content...)
		}
	}
	if len(content) == 0 {
		return fmt.Errorf("no package has %s, which %s is made of", pattern, name)
	}
	t.add(name, &file{kind: tar.TypeReg, mode: 0o644, content: bytes.TrimLeft(content, "\n")})
	return nil
}
