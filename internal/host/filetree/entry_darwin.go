package filetree

import "encoding/binary"

// parseEntry decodes the first of what [unix.ReadDirent] returned: a struct dirent, see dir(5). Its kind is one of
// unix.DT_*. ReadDirent keeps the number of entries before it as the offset of a directory, here before.
func parseEntry(data []byte, before int64) (e entry, kind byte, size uint16) {
	size = binary.NativeEndian.Uint16(data[16:])
	length := binary.NativeEndian.Uint16(data[18:])
	return entry{after: before + 1, name: string(data[21 : 21+length])}, data[20], size
}
