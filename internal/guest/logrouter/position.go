//go:build linux

package logrouter

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coracle-eks/coracle/internal/durable"
)

// fileID identifies a file while it is there, whatever its name.
type fileID struct{ Device, Inode uint64 }

func idOf(info os.FileInfo) fileID {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{uint64(stat.Dev), stat.Ino}
}

// position is where reading goes on in a file after a restart.
type position struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Path is the symbolic link that led to the file when it was opened.
	Path string `json:"path"`
	// Offset is the number of bytes whose records have been delivered.
	Offset int64 `json:"offset"`
}

const maxPositions = 1 << 20

// loadPositions reads the file of positions. One that is not there or cannot be read has none: files are then read from
// their beginnings.
func loadPositions(name string) (map[fileID]position, error) {
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPositions))
	if err != nil {
		return nil, err
	}
	var list []position
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	found := make(map[fileID]position, len(list))
	for _, p := range list {
		if p.Offset >= 0 {
			found[fileID{p.Device, p.Inode}] = p
		}
	}
	return found, nil
}

func savePositions(name string, list []position) error {
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return durable.WriteFile(name, data, 0o600)
}

// rotated returns the path of a file that the kubelet has renamed: it is beside the one that the link leads to now.
func rotated(p position) string {
	target, err := filepath.EvalSymlinks(p.Path)
	if err != nil {
		return ""
	}
	entries, err := os.ReadDir(filepath.Dir(target))
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && idOf(info) == (fileID{p.Device, p.Inode}) {
			return filepath.Join(filepath.Dir(target), entry.Name())
		}
	}
	return ""
}
