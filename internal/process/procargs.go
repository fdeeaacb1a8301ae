package process

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// environ returns the environment in what kern.procargs2 has of a process: the number of its arguments, the path of its
// program, padding, the arguments and the environment, each ended by a NUL.
func environ(arguments []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(arguments) < 4 {
			return
		}
		count := int(binary.NativeEndian.Uint32(arguments))
		_, rest, _ := bytes.Cut(arguments[4:], []byte{0})
		rest = bytes.TrimLeft(rest, "\x00")
		for i := 0; len(rest) > 0; i++ {
			var text []byte
			text, rest, _ = bytes.Cut(rest, []byte{0})
			if i < count {
				continue
			}
			if len(text) == 0 || !yield(string(text)) {
				return
			}
		}
	}
}
