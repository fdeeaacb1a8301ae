package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Owner returns the mark of everything that belongs to the daemon in the kernel and in /run. It follows from the path
// of the data directory without symbolic links.
func (d *Daemon) Owner() string {
	dir := d.Dir
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}

// remains returns what still exists of the daemon in files and in the kernel: nothing after `coracle reset`. Processes
// are found by [Daemon.Processes].
func (d *Daemon) remains() []string {
	owner := d.Owner()
	var found []string
	// The names of the namespaces are in the directory below /run, and the namespaces live as long as they are mounted
	// there.
	for _, path := range append([]string{d.Dir, "/run/coracle/" + owner}, cgroups(owner)...) {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, d.Dir+"/") || strings.Contains(line, owner) {
				found = append(found, "mount "+strings.TrimSpace(line))
			}
		}
	}
	if links, err := net.Interfaces(); err == nil {
		for _, l := range links {
			if l.Name == "cor-"+owner[:10] {
				found = append(found, "link "+l.Name)
			}
		}
	}
	if names, err := os.ReadFile("/etc/hosts"); err == nil && strings.Contains(string(names), owner) {
		found = append(found, "lines of /etc/hosts")
	}
	// Without root, nobody could make a table nor see it.
	if tables, err := exec.Command("nft", "list", "tables").Output(); err == nil &&
		strings.Contains(string(tables), owner) {
		found = append(found, "nftables table coracle-"+owner)
	}
	return found
}

// cgroups returns the paths of the owner's groups, whether they exist or not: in each hierarchy of cgroup v1, and of
// cgroup v2.
func cgroups(owner string) []string {
	of := filepath.Join("coracle", owner)
	paths := []string{filepath.Join("/sys/fs/cgroup", of)}
	hierarchies, _ := filepath.Glob("/sys/fs/cgroup/*") // the pattern is right
	for _, h := range hierarchies {
		paths = append(paths, filepath.Join(h, of))
	}
	return paths
}
