package reset

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine"
	"github.com/coracle-eks/coracle/internal/host/network"
)

// removeMachines removes cgroups, namespaces, links and loop devices, and returns how many there were.
func removeMachines(owner string) (int, error) {
	machines, err := machine.Remove(owner)
	networks, err2 := network.Remove(owner)
	disks, err3 := loopdevice.RemoveAll(owner)
	return len(machines) + len(networks) + len(disks), errors.Join(err, err2, err3)
}

// unmount unmounts every mount below dir, the innermost first.
func unmount(dir string) (int, error) {
	points, err := listMounts(dir)
	if err != nil {
		return 0, err
	}
	for _, point := range points {
		err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return 0, fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return len(points), nil
}

// listMounts returns the mount points below dir, the innermost and latest first. dir itself may be one, which was there
// before us and stays.
func listMounts(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		// Spaces and the like are written as octal escapes.
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points, lines.Err()
}
