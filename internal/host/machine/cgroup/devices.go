//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/loopdevice"
)

// Device is a character device, or all of a major number.
type Device struct {
	Major, Minor uint32
	AllMinors    bool
}

// Devices are those that processes of a machine may open, whatever device files root makes: none of the host's
// hardware, no disks but its own (Group.AllowDisks), and no part of the kernel that knows no namespaces. They are what
// Kubernetes gives every container, with TUN and FUSE.
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

// ErrNoDisks is the error of AllowDisks on a host that cannot let a machine open some loop devices and no others: the
// rules of cgroup v1 deny them all, since they could only list those that it must not open, up to some number.
var ErrNoDisks = errors.New("the host has cgroup v1 alone, and can give machines no volumes (coracle doctor tells what " +
	"to do)")

// AllowDisks lets the machine open the loop devices with these minor numbers, and no others. After an error it may
// still open those that it could before, unless the error is ErrNoDisks: then it has never had any.
func (g Group) AllowDisks(minors []uint32) error {
	for _, h := range g.Host {
		if h.V2 {
			if err := replaceDeviceFilter(g.groupDir(h), minors); !errors.Is(err, errNoFilter) {
				return err
			}
		}
	}
	if len(minors) == 0 {
		return nil
	}
	return ErrNoDisks
}

// errNoFilter is the error of replaceDeviceFilter where restrictDevices has had to do without a program.
var errNoFilter = errors.New("no program decides about the devices of the group")

// replaceDeviceFilter makes a program that allows these disks the only one that decides about the devices of a group.
func replaceDeviceFilter(dir string, disks []uint32) error {
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	before, err := deviceFilters(group)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range before {
			p.Close()
		}
	}()
	if len(before) == 0 {
		return errNoFilter
	}
	// All that are attached have to allow a device: there is no moment at which too much is allowed.
	if err := attachDeviceFilter(dir, disks); err != nil {
		return err
	}
	for _, p := range before {
		err := link.RawDetachProgram(link.RawDetachProgramOptions{
			Target: int(group.Fd()), Program: p, Attach: ebpf.AttachCGroupDevice,
		})
		if err != nil {
			return fmt.Errorf("detach the program that decided about devices from %s: %w", dir, err)
		}
	}
	return nil
}

// deviceFilters returns the programs of this package that are attached to a group; none where the kernel has no such
// programs, or does not let the host's root have them.
func deviceFilters(group *os.File) (own []*ebpf.Program, err error) {
	all, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: ebpf.AttachCGroupDevice})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("query the programs that decide about devices of %s: %w", group.Name(), err)
	}
	for _, p := range all.Programs {
		program, err := ebpf.NewProgramFromID(p.ID)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var info *ebpf.ProgramInfo
		if err == nil {
			info, err = program.Info()
		}
		switch {
		case err == nil && info.Name == filterName:
			own = append(own, program)
			continue
		case program != nil:
			program.Close()
		}
		if err != nil {
			for _, p := range own {
				p.Close()
			}
			return nil, fmt.Errorf("read a program that decides about devices of %s: %w", group.Name(), err)
		}
	}
	return own, nil
}

// filterName is the name of the programs of this package, of at most 15 bytes.
const filterName = "coracle_devices"

// restrictDevices denies the machine all other devices. An eBPF program decides wherever there is a hierarchy of cgroup
// v2, even one without controllers; the programs of groups below, as runc attaches them, cannot allow more. With cgroup
// v1, rules of the group apply to all below as well.
func (g Group) restrictDevices() error {
	attached := false
	for _, h := range g.Host {
		if !h.V2 {
			continue
		}
		err := attachDeviceFilter(g.groupDir(h), nil)
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
func attachDeviceFilter(dir string, disks []uint32) error {
	program, err := ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Name: filterName, Type: ebpf.CGroupDevice, License: "Apache-2.0", Instructions: deviceFilter(disks),
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
	blockDevice     = 1
	characterDevice = 2
	makeDevice      = 1 // an access
)

// deviceFilter returns the device program: it ends with 1 to allow, with 0 to refuse. All kinds of device files may be
// created, as in every container: they can only be opened if they are among Devices, or loop devices with the minor
// numbers of the machine's disks.
func deviceFilter(disks []uint32) asm.Instructions {
	const refuse, allow, character = "refuse", "allow", "character"
	program := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, accessAndType, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, majorNumber, asm.Word),
		asm.LoadMem(asm.R4, asm.R1, minorNumber, asm.Word),
		asm.Mov.Reg(asm.R5, asm.R2),
		asm.RSh.Imm(asm.R5, accessShift),
		asm.JEq.Imm(asm.R5, makeDevice, allow),
		asm.And.Imm(asm.R2, typeMask),
		asm.JEq.Imm(asm.R2, characterDevice, character),
		asm.JNE.Imm(asm.R2, blockDevice, refuse),
		asm.JNE.Imm(asm.R3, loopdevice.Major, refuse),
	}
	for _, minor := range disks {
		program = append(program, asm.JEq.Imm(asm.R4, int32(minor), allow))
	}
	program = append(program, asm.Ja.Label(refuse), asm.Mov.Reg(asm.R5, asm.R5).WithSymbol(character))
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
	majors = 512 // all that the kernel gives to devices
	minors = 512
)

// console is allowed by containerd to every container. Those would not start if version 1 denied it to a machine
// without a user namespace; Delegate denies it to others.
var console = Device{Major: 5, Minor: 1}

func (d Device) rule() string { return fmt.Sprintf("c %d:%d rw", d.Major, d.Minor) }

// denials returns rules of cgroup v1. A privileged container cannot be started below a group with a list of allowed
// devices: runc wants to allow it everything. So the rules list what is denied: disks and memory, and with all,
// everything that Devices lacks.
// Creating a device file is not denied: the rules of containers allow it, and may not allow what is denied above them.
func denials(all bool) (rules []string) {
	for major := range uint32(majors) {
		if all || major != loopdevice.Major {
			rules = append(rules, fmt.Sprintf("b %d:* rw", major))
		}
	}
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
