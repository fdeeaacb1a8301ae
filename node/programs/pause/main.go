// Command pause is what holds the namespaces of a pod: it waits, reaps the orphans of pods that share their
// process namespace, and ends on SIGINT or SIGTERM, as registry.k8s.io/pause does.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-v" {
		fmt.Println("pause 3.10")
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "Warning: pause should be the first process")
	}
	debug.SetGCPercent(-1) // nothing is allocated from here on

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	reapChildren() // what ended before
	for s := range signals {
		if s != syscall.SIGCHLD {
			fmt.Fprintln(os.Stderr, "Shutting down, got signal:", s)
			return
		}
		reapChildren()
	}
}

func reapChildren() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
	}
}
