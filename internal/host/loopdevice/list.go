//go:build linux

package loopdevice

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tag returns the number by which the devices of a volume are found in /sys, where nothing waits for a device: the
// kernel keeps it as a limit of the size, above that of any file. Its upper half is that of all devices of the owner.
func tag(owner, volume string) uint64 {
	return 1<<62 | uint64(hash(owner)>>2)<<32 | uint64(hash(volume))
}

func hash(text string) uint32 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint32(sum[:])
}

// tagAttribute is the file in /sys with the tag of a device, which is there as long as the device has a file.
const tagAttribute = "loop/sizelimit"

// known has the names of devices that have said them, by the number and the kernel's count of disks (diskseq), which a
// device changes with its file.
var known sync.Map

type identity struct {
	number int
	disk   string
}

// identify returns the identity of a device; false where the kernel does not count disks (Linux before 5.15).
func identify(number int) (identity, bool) {
	disk := attribute(number, "diskseq")
	return identity{number, disk}, disk != ""
}

// attribute returns what /sys/block says about a device; empty when there is no such file.
func attribute(number int, name string) string {
	b, _ := os.ReadFile(filepath.Join(sysDir(number), name))
	return strings.TrimSpace(string(b))
}

// sysDir returns the directory of a device in /sys.
func sysDir(number int) string { return filepath.Join("/sys/block", "loop"+strconv.Itoa(number)) }

// numbers returns the numbers of all devices of the host that have a file, or with free, of all that there are.
func numbers(free bool) (all []int, err error) {
	pattern := "/sys/block/loop*/loop"
	if free {
		pattern = "/sys/block/loop*"
	}
	found, err := filepath.Glob(pattern)
	for _, path := range found {
		path = strings.TrimPrefix(strings.TrimSuffix(path, "/loop"), "/sys/block/loop")
		if number, err := strconv.Atoi(path); err == nil {
			all = append(all, number)
		}
	}
	return all, err
}

// Free returns how many numbers no device of the host has.
func Free() (int, error) {
	all, err := numbers(true)
	return max(0, Last+1-len(all)), err
}

// untagged are the paths of files of devices without a tag.
var untagged = []string{"/disk", "/disk (deleted)"}

// listPatience bounds how long List waits for the devices whose names are not known yet.
const listPatience = 2 * time.Second

// List returns the devices of an owner, but for those that have never said their name and do not answer: who asks
// whether a volume has devices calls ListVolume. It opens no device of others.
func List(owner string) ([]Device, error) {
	devices, _, err := list(owner, "")
	return devices, err
}

// ListVolume returns the devices of a volume. The error is ErrSilent as long as it may have one that has never said its
// name and does not answer. It opens no device of other volumes.
func ListVolume(owner, volume string) ([]Device, error) {
	devices, silent, err := list(owner, volume)
	if err == nil && silent > 0 {
		err = fmt.Errorf("%d loop devices of %s: %w", silent, volume, ErrSilent)
	}
	if err != nil {
		return nil, err
	}
	return devices, nil
}

// list returns the devices of an owner, or of one volume of the owner, and how many with their tag do not answer.
func list(owner, volume string) (devices []Device, silent int, err error) {
	removeHeld()
	all, err := numbers(false)
	if err != nil {
		return nil, 0, err
	}
	isWanted := func(n Name) bool { return n.Owner == owner && (volume == "" || n.Volume == volume) }
	type found struct {
		device Device
		err    error
		counts bool
	}
	answers, asked := make(chan found), 0
	for _, number := range all {
		mark, err := strconv.ParseUint(attribute(number, tagAttribute), 10, 64)
		if err != nil {
			continue // it has lost its file
		}
		tagged := volume == "" && mark>>32 == tag(owner, "")>>32 || volume != "" && mark == tag(owner, volume)
		// Versions before had no tag, and files by a path that tells nothing.
		if !tagged && (mark != 0 || !slices.Contains(untagged, attribute(number, "loop/backing_file"))) {
			continue
		}
		if id, ok := identify(number); ok {
			if name, ok := known.Load(id); ok {
				if isWanted(name.(Name)) {
					devices = append(devices, Device{number, name.(Name), attribute(number, "loop/offset") != "0"})
				}
				continue
			}
		}
		counts := tagged || volume == "" // one without a tag may be of any volume: it holds up none
		if isSilent(number, listPatience) {
			if counts {
				silent++
			}
			continue
		}
		asked++
		go func() {
			d, err := callDevice(number, listPatience, func() (Device, error) { return inspect(number) })
			answers <- found{d, err, counts}
		}()
	}
	for range asked {
		f := <-answers
		switch {
		case isNone(f.err):
		case errors.Is(f.err, ErrSilent):
			if f.counts {
				silent++
			}
		case f.err != nil:
			err = f.err
		case isWanted(f.device.Name):
			devices = append(devices, f.device)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(devices, func(a, b Device) int { return cmp.Compare(a.Number, b.Number) })
	return devices, silent, nil
}
