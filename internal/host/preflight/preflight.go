package preflight

import "fmt"

// Problem is a reason for which something does not work on this host.
type Problem struct {
	Text string
	Fix  string // what to do
}

func (p Problem) String() string { return p.Text }

// oldest is the oldest Linux on which clusters run: processes are followed by pidfds that do not block.
const oldestMajor, oldestMinor = 5, 10

// CheckKernel returns an error for the release of a kernel that is too old for clusters. It accepts what it does not
// understand.
func CheckKernel(release string) error {
	var major, minor int
	understood, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	if understood == 2 && (major < oldestMajor || major == oldestMajor && minor < oldestMinor) {
		return fmt.Errorf(
			"the kernel, Linux %s, is older than %d.%d, the first whose pidfds the daemon can wait for: "+
				"neither clusters nor machines work, simulated ones included",
			release, oldestMajor, oldestMinor)
	}
	return nil
}

// KernelFix tells the user how to replace a kernel that is too old.
const KernelFix = "upgrade to a distribution with Linux 5.10 or newer (Debian 11, Ubuntu 22.04, Amazon Linux 2023); " +
	"WSL: wsl --update"
