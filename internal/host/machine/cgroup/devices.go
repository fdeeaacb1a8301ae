//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Device is a character device, or all of a major number.
type Device struct {
	Major, Minor uint32
	AllMinors    bool
}

// Devices are those that processes of a machine may open, whatever device files root makes: none of the host's
// hardware, no disks, loop devices included, which are one set for the host and all machines, and no part of the
// kernel that knows no namespaces. They are what Kubernetes gives every container, with TUN and FUSE.
// https://www.kernel.org/doc/html/latest/admin-guide/devices.html
var Devices = []Device{
	{Major: 1, Minor: 3},          // null
	{Major: 1, Minor: 5},          // zero
	{Major: 1, Minor: 7},          // full
	{Major: 1, Minor: 8},          // random
	{Major: 1, Minor: 9},          // urandom
	{Major: 5, Minor: 0},          // tty
	{Major: 5, Minor: 2},          // ptmx
	{Major: 10, Minor: 200},       // net/tun
	{Major: 10, Minor: 229},       // fuse
	{Major: 136, AllMinors: true}, // pts/*
	{Major: 137, AllMinors: true},
	{Major: 138, AllMinors: true},
	{Major: 139, AllMinors: true},
	{Major: 140, AllMinors: true},
	{Major: 141, AllMinors: true},
	{Major: 142, AllMinors: true},
	{Major: 143, AllMinors: true},
}

// restrictDevices denies the machine all other devices. An eBPF program decides wherever there is a hierarchy of cgroup
// v2, even one without controllers; the programs of groups below, as runc attaches them, cannot allow more. With cgroup
// v1, rules of the group apply to all below as well.
func (g Group) restrictDevices() error {
	attached := false
	for _, h := range g.Host {
		if !h.V2 {
			continue
		}
		err := attachDeviceFilter(g.groupDir(h))
		if err != nil && g.Host.V2() {
			return err
		}
		attached = err == nil
	}
	for _, h := range g.Host {
		if !h.hasController("devices") {
			continue
		}
		for _, rule := range denials(!attached) {
			if err := writeFile(g.groupDir(h), "devices.deny", rule); err != nil {
				return fmt.Errorf("deny the device %s: %w", rule, err)
			}
		}
	}
	return nil
}

// attachDeviceFilter attaches a program to a group of cgroup v2.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#device-controller
func attachDeviceFilter(dir string) error {
	program, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Name: "coracle_devices", Type: ebpf.CGroupDevice, License: "Apache-2.0", Instructions: deviceFilter(),
	}, ebpf.ProgramOptions{LogDisabled: true})
	if err != nil {
		return fmt.Errorf("load the program that keeps the machine from devices: %w", err)
	}
	defer program.Close() // the group holds it
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(group.Fd()), Program: program, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI,
	})
	if err != nil {
		return fmt.Errorf("attach the program that keeps the machine from devices to %s: %w", dir, err)
	}
	return nil
}

// Fields and values of struct bpf_cgroup_dev_ctx.
const (
	accessAndType = 0 // offsets
	majorNumber   = 4
	minorNumber   = 8

	accessShift     = 16
	typeMask        = 1<<accessShift - 1
	characterDevice = 2
	makeDevice      = 1 // an access
)

// deviceFilter returns the device program: it ends with 1 to allow, with 0 to refuse. All kinds of device files may be
// created, as in every container: they can only be opened if they are among Devices.
func deviceFilter() asm.Instructions {
	const refuse, allow = "refuse", "allow"
	program := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, accessAndType, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, majorNumber, asm.Word),
		asm.LoadMem(asm.R4, asm.R1, minorNumber, asm.Word),
		asm.Mov.Reg(asm.R5, asm.R2),
		asm.RSh.Imm(asm.R5, accessShift),
		asm.JEq.Imm(asm.R5, makeDevice, allow),
		asm.And.Imm(asm.R2, typeMask),
		asm.JNE.Imm(asm.R2, characterDevice, refuse),
	}
	for i, d := range Devices {
		next := fmt.Sprint("device", i+1)
		if d.AllMinors {
			program = append(program, asm.JEq.Imm(asm.R3, int32(d.Major), allow))
			continue
		}
		program = append(program,
			asm.JNE.Imm(asm.R3, int32(d.Major), next),
			asm.JEq.Imm(asm.R4, int32(d.Minor), allow),
			asm.Mov.Reg(asm.R5, asm.R5).WithSymbol(next),
		)
	}
	return append(program,
		asm.Mov.Imm(asm.R0, 0).WithSymbol(refuse),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol(allow),
		asm.Return(),
	)
}

// Numbers that version 1 can list, of what it cannot deny altogether.
const (
	majors = 512 // all that the kernel gives to character devices
	minors = 512
)

// console is allowed by containerd to every container. Those would not start if version 1 denied it to the machine.
var console = Device{Major: 5, Minor: 1}

// denials returns rules of cgroup v1. A privileged container cannot be started below a group with a list of allowed
// devices: runc wants to allow it everything. So the rules list what is denied: disks and memory, and with all,
// everything that Devices lacks. Creating a device file is not denied: the rules of containers allow it, and may not
// allow what is denied above them.
func denials(all bool) []string {
	rules := []string{"b *:* rw"}
	if !all {
		return append(rules, "c 1:1 rw", "c 1:2 rw", "c 1:4 rw") // mem, kmem, port
	}
	allowed := append(slices.Clone(Devices), console)
	for major := range uint32(majors) {
		has := func(minor uint32) func(Device) bool {
			return func(d Device) bool { return d.Major == major && (d.AllMinors || d.Minor == minor) }
		}
		if !slices.ContainsFunc(allowed, func(d Device) bool { return d.Major == major }) {
			rules = append(rules, fmt.Sprintf("c %d:* rw", major))
			continue
		}
		for minor := range uint32(minors) {
			if !slices.ContainsFunc(allowed, has(minor)) {
				rules = append(rules, fmt.Sprintf("c %d:%d rw", major, minor))
			}
		}
	}
	return rules
}
