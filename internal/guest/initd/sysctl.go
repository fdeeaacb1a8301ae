package initd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/node"
)

// sysctl sets the kernel parameters of /etc/sysctl.d as far as they are this machine's own: those of its network namespace.
// What the kubelet wants of the rest, which are the host's and of every machine on it, is shown by files mounted over them.
func (m *manager) sysctl() {
	dir := filepath.Join(m.o.Run, "sysctl")
	for name, value := range node.KernelDefaults {
		shown := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(shown), 0o755)
		if err == nil {
			err = os.WriteFile(shown, []byte(value+"\n"), 0o644)
		}
		if err == nil {
			err = unix.Mount(shown, "/proc/sys/"+name, "", unix.MS_BIND, "")
		}
		if err != nil {
			m.log("", fmt.Sprintf("show %s=%s: %v", strings.ReplaceAll(name, "/", "."), value, err))
		}
	}
	files, _ := filepath.Glob("/etc/sysctl.d/*.conf")
	files = append(files, "/etc/sysctl.conf")
	slices.Sort(files)
	for _, file := range files {
		for _, line := range strings.Split(readFile(file), "\n") {
			name, value, ok := strings.Cut(line, "=")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if !ok || !strings.HasPrefix(name, "net.") || strings.HasPrefix(name, "net.bridge.") {
				continue // net.bridge is a module's, and the host's
			}
			if err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0); err != nil {
				m.log("", fmt.Sprintf("Couldn't write '%s' to '%s': %v", value, name, err))
			}
		}
	}
}
