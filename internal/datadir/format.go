package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Format is the version of what this program writes to a data directory: files, records and log events. It grows with
// each change after which an earlier coracle would misread or lose something. Before it had a number, it was 1.
// With 2, the keys of service accounts change: format 1 would sign with the first and refuse the others. With 3,
// machines keep their files on root volumes: format 2 would give them the devices of these.
const Format = 3

// format is the content of a FormatFile.
type format struct {
	Format int `json:"format"`
	// Version is the version of coracle that wrote the directory last.
	Version string `json:"version"`
}

// FormatFile returns the path of the file that has the version of the directory's format.
func (d Dir) FormatFile() string { return d.Join("format.json") }

// CheckFormat returns an error for a directory that a newer coracle has written.
func (d Dir) CheckFormat() error {
	data, err := os.ReadFile(d.FormatFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the format of data directory %s: %w", d, err)
	}
	var f format
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("read the format of data directory %s: %s: %w", d, d.FormatFile(), err)
	}
	if f.Format > Format {
		return fmt.Errorf(
			"the data directory %s has format %d, written by coracle %s, and this coracle knows formats up to %d: "+
				"a downgrade would lose what it does not know; use coracle %[3]s or newer, or restore a backup "+
				"that an older coracle made into another --data-dir. What runs in the directory goes on",
			d, f.Format, f.Version, Format)
	}
	return nil
}

// WriteFormat records that this version of coracle writes the directory.
func (d Dir) WriteFormat(version string) error {
	data, err := json.Marshal(format{Format, version})
	if err != nil {
		return err
	}
	return d.Write(d.FormatFile(), append(data, '\n'), 0o600)
}
