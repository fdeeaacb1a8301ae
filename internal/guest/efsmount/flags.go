package efsmount

// Flags of mount(2), by the options that set and clear them.
const (
	readOnly     = 1
	noSUID       = 2
	noDevices    = 4
	noExecution  = 8
	synchronous  = 16
	dirSync      = 128
	noATime      = 1024
	noDirATime   = 2048
	relativeTime = 1 << 21
	strictATime  = 1 << 24
	lazyTime     = 1 << 25
)

type flag struct {
	bit uintptr
	off bool
}

var flags = map[string]flag{
	"ro": {bit: readOnly}, "rw": {readOnly, true}, "nosuid": {bit: noSUID}, "suid": {noSUID, true},
	"nodev": {bit: noDevices}, "dev": {noDevices, true}, "noexec": {bit: noExecution}, "exec": {noExecution, true},
	"sync": {bit: synchronous}, "async": {synchronous, true}, "dirsync": {bit: dirSync}, "noatime": {bit: noATime},
	"atime": {noATime, true}, "nodiratime": {bit: noDirATime}, "diratime": {noDirATime, true},
	"relatime": {bit: relativeTime}, "norelatime": {relativeTime, true}, "strictatime": {bit: strictATime},
	"nostrictatime": {strictATime, true}, "lazytime": {bit: lazyTime}, "nolazytime": {lazyTime, true},
	// Those of fstab(5), which mean nothing to the kernel.
	"auto": {}, "noauto": {}, "nofail": {}, "defaults": {}, "user": {}, "nouser": {}, "users": {},
	"owner": {}, "group": {},
}

// mountFlags returns the flags of mount(2).
func (r *request) mountFlags() (bits uintptr) {
	for _, key := range r.order {
		if f, ok := flags[key]; ok && f.off {
			bits &^= f.bit
		} else if ok {
			bits |= f.bit
		}
	}
	return bits
}
