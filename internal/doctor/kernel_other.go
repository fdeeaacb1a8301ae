//go:build !linux

package doctor

import (
	"context"
	"runtime"
)

// kernelChecks are those of what the host's kernel offers.
var kernelChecks = []check{{"kernel", checkKernel}}

func checkKernel(context.Context, Host) []Finding {
	return warnFinding("run coracle on Linux, or in a Linux virtual machine, or: coracle up --machines simulated",
		"this is %s: control planes run, and machines have to be simulated; machines and VPCs with packets need Linux",
		runtime.GOOS)
}
