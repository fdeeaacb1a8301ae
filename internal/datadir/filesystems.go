package datadir

import (
	"os"
	"path/filepath"
	"strings"
)

// FileSystemsDir returns the directory with the content of EFS file systems. Nobody but root may enter it: the files in
// there may be set-user-ID programs of whoever is root in a machine.
func (d Dir) FileSystemsDir() string { return d.Join("filesystems") }

// FileSystemRoot returns the root directory of the content of an EFS file system.
func (d Dir) FileSystemRoot(id string) string { return filepath.Join(d.FileSystemsDir(), id, "root") }

// FileSystems returns the IDs of the EFS file systems whose content is in the directory.
func (d Dir) FileSystems() (ids []string) {
	entries, _ := os.ReadDir(d.FileSystemsDir()) // without it there are none
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "fs-") {
			ids = append(ids, e.Name())
		}
	}
	return ids
}
