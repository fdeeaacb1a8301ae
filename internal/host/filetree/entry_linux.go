package filetree

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// parseEntry decodes the first of what [unix.ReadDirent] returned: a struct linux_dirent64, see getdents(2). Its kind
// is one of unix.DT_*.
func parseEntry(data []byte, _ int64) (e entry, kind byte, size uint16) {
	size = binary.NativeEndian.Uint16(data[16:])
	after := int64(binary.NativeEndian.Uint64(data[8:]))
	return entry{after: after, name: unix.ByteSliceToString(data[19:size])}, data[18], size
}
