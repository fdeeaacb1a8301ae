//go:build !linux

package apiservertest

import "syscall"

// EndWithParent returns no attributes: this system ends no program with its parent. The cleanup of a test does.
func EndWithParent() *syscall.SysProcAttr { return nil }
