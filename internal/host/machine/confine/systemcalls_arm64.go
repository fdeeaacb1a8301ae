//go:build linux

package confine

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_AARCH64
	firstForeign = all
	lowWord      = 0
)

var ofArchitecture []refusal
