//go:build linux

package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A directFile is read and written beside the page cache where its file system allows that, and through it elsewhere:
// content is read once, and to copy it into the page cache and out of it takes longer than a fast disk does.
type directFile struct {
	file   *os.File
	direct *os.File // nil where there is no direct I/O
}

// openDirect returns the open file for direct I/O. The caller closes it, and the file.
func openDirect(f *os.File) directFile {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return directFile{file: f}
	}
	direct, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flags&unix.O_ACCMODE|unix.O_DIRECT, 0)
	if err != nil {
		return directFile{file: f}
	}
	return directFile{file: f, direct: direct}
}

func (d directFile) Close() error {
	if d.direct == nil {
		return nil
	}
	return d.direct.Close()
}

func (d directFile) ReadAt(p []byte, at int64) (int, error) { return d.at(p, at, (*os.File).ReadAt) }

func (d directFile) WriteAt(p []byte, at int64) (int, error) { return d.at(p, at, (*os.File).WriteAt) }

// at reads or writes. What is not aligned as the disk demands goes through the page cache, which is coherent.
func (d directFile) at(p []byte, at int64, do func(*os.File, []byte, int64) (int, error)) (int, error) {
	if d.direct != nil {
		if n, err := do(d.direct, p, at); !errors.Is(err, unix.EINVAL) {
			return n, err
		}
	}
	return do(d.file, p, at)
}

// buffers are for direct I/O: of bufferSize, aligned to pages.
var buffers = sync.Pool{New: func() any { return newBuffer() }}

func newBuffer() *[]byte {
	align := os.Getpagesize()
	b := make([]byte, bufferSize+align)
	skip := (align - int(uintptr(unsafe.Pointer(&b[0]))%uintptr(align))) % align
	b = b[skip : skip+bufferSize]
	return &b
}

// bufferSize is what is read of content at a time: enough for a disk, and little for each copy.
const bufferSize = 1 << 20

// transferRange copies a range of content.
func transferRange(to io.WriterAt, from io.ReaderAt, start, end int64) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for at := start; at < end; at += bufferSize {
		part := (*buffer)[:min(bufferSize, end-at)]
		if _, err := from.ReadAt(part, at); err != nil {
			return err
		}
		if _, err := to.WriteAt(part, at); err != nil {
			return err
		}
	}
	return nil
}
