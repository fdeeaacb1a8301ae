package datadir

import (
	"os"
	"strings"
)

// VolumesDir returns the directory with the content of EBS volumes and snapshots.
func (d Dir) VolumesDir() string { return d.Join("volumes") }

// Volumes returns the IDs of the EBS volumes and snapshots whose content is in the directory.
func (d Dir) Volumes() (ids []string) {
	entries, _ := os.ReadDir(d.VolumesDir()) // without it there are none
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "vol-") || strings.HasPrefix(e.Name(), "snap-") {
			ids = append(ids, e.Name())
		}
	}
	return ids
}
