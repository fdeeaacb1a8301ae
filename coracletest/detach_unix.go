//go:build unix

package coracletest

import (
	"os/exec"
	"syscall"
)

// detach gives a command a session of its own: what ends this process from a terminal does not end it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
