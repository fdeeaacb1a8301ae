//go:build linux

package disks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// heldPrefix begins the name of a file in a machine's directory that is there while writes of a volume are held; the
// number of the loop device follows. It has the ID of the volume.
const heldPrefix = "held-"

func (s *Server) heldFile(loop int) string {
	return filepath.Join(s.o.Dir, heldPrefix+strconv.Itoa(loop))
}

// ThawLeft lets writes go on that a launcher of the machine in dir held which was killed with its holder: programs that
// wait for such writes cannot be killed.
func ThawLeft(dir, owner, instanceID string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var left []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), heldPrefix) {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	thawed := make(chan error)
	for _, file := range left {
		go func() { thawed <- thawLeft(file, owner, instanceID) }()
	}
	for range left {
		err = errors.Join(err, <-thawed)
	}
	return err
}

func thawLeft(file, owner, instanceID string) error {
	loop, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(file), heldPrefix))
	if err != nil {
		return fmt.Errorf("%s is not of a disk: %w", file, err)
	}
	volume, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := loopdevice.Name{Owner: owner, Volume: string(volume), InstanceID: instanceID}
	if err := loopdevice.Thaw(loop, name); err != nil {
		return err
	}
	return os.Remove(file)
}
