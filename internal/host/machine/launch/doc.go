// Package launch is the host's side of one machine: the program "coracle-node launch", which stands for the hardware.
//
// Its life: [Main] reads a [Spec]; makes the machine's cgroup anew, as large as the instance type; writes what the
// machine is to see of its hardware (/proc/meminfo, /sys/devices/system/cpu, ...: see [Hardware]); and starts itself
// once more in new mount, PID, UTS and IPC namespaces, in the network namespace of the instance. That second stage
// ([inside]) enters the cgroup and its namespace, resets the network interfaces, as a boot does, mounts the root file
// system and everything on it, makes it the root, and becomes init.
//
// Where the user namespace of a machine owns its network namespace (package usernamespace), the second stage belongs to
// it, and so do its other namespaces. The first stage then mounts what only the host's root may mount, the disk,
// programs and devices ([assemble]); the mounts that a mount namespace inherits from one of more privileged users are
// locked, so that root in the machine can neither unmount nor change them.
//
// What the machine's kernel offers is less than the host's: see package confine, package cgroup for devices, and the
// tables masked and readOnly.
//
// The first stage stays, outside of all of that. It tells the controller how the machine is by a [Status] file, and is
// the switches on the case: SIGTERM is the power button, SIGKILL the power cord, which takes the whole PID namespace
// with it. When init ends by reboot(2), as the kernel reports by the signal that ended it, the machine has been powered
// off or is to boot once more; when it ends in any other way it crashed, and so does launch: its supervisor starts it
// again.
package launch
