//go:build linux

package initd

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shutdown stops all units, those that were started last first, ends what is left, and ends the machine as cmd says.
// All of it takes no longer than the grace; a second call changes nothing.
func (m *manager) shutdown(cmd int) {
	m.mu.Lock()
	if m.ending {
		m.mu.Unlock()
		return
	}
	m.ending = true
	var names []string
	for name, u := range m.units {
		if u.cancelRestart != nil {
			u.cancelRestart()
		}
		if u.active != "inactive" && u.active != "failed" {
			names = append(names, name)
		}
	}
	m.mu.Unlock()
	deadline := time.NewTimer(m.o.Grace)
	word := map[int]string{unix.LINUX_REBOOT_CMD_RESTART: "Rebooting", unix.LINUX_REBOOT_CMD_POWER_OFF: "Powering off",
		unix.LINUX_REBOOT_CMD_HALT: "Halting"}[cmd]
	m.logMessage("", "System is going down: "+word+".")
	jobs, _, err := m.stopUnits(names)
	if err != nil {
		fmt.Fprintln(m.o.Console, "init: stop units:", err)
	}
	for _, j := range jobs {
		select {
		case <-j.done:
			continue
		case <-deadline.C:
			m.printStatus("FAILED", fmt.Sprintf("Stopping units took longer than %s; killing what is left.", m.o.Grace))
		}
		break
	}
	m.printStatus("  OK  ", "Reached target "+map[bool]string{true: "reboot.target - System Reboot.",
		false: "poweroff.target - System Power Off."}[cmd == unix.LINUX_REBOOT_CMD_RESTART])
	// What KillMode=process has left: shims and containers.
	_ = syscall.Kill(-1, syscall.SIGTERM)
	for range 100 {
		if syscall.Kill(-1, 0) != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = syscall.Kill(-1, syscall.SIGKILL)
	fmt.Fprintf(m.o.Console, "reboot: %s\n", map[int]string{unix.LINUX_REBOOT_CMD_RESTART: "Restarting system",
		unix.LINUX_REBOOT_CMD_POWER_OFF: "Power down", unix.LINUX_REBOOT_CMD_HALT: "System halted"}[cmd])
	m.rebootNow(cmd)
}

// rebootNow ends the machine at once. The disk needs no sync: it is files of the host, whose cache outlives us.
func (m *manager) rebootNow(cmd int) {
	err := unix.Reboot(cmd)
	// Still here: this kernel does not let us. The host takes any end of process 1 for a crash.
	fmt.Fprintln(m.o.Console, "init: reboot:", err)
	syscall.Exit(1)
}
