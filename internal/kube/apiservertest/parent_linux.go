package apiservertest

import "syscall"

// EndWithParent returns attributes of a program that ends when the thread ends that has started it.
func EndWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
