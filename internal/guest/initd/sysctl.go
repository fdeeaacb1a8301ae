//go:build linux

package initd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// applySysctls sets the kernel parameters of /etc/sysctl.d as far as they are this machine's own: those of its network
// namespace. The rest are the host's and of every machine on it; the host shows us those that the kubelet wants.
func (m *manager) applySysctls() {
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
				m.logMessage("", fmt.Sprintf("Couldn't write '%s' to '%s': %v", value, name, err))
			}
		}
	}
}
