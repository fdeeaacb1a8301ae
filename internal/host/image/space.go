package image

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/dustin/go-humanize"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// ErrFull is the error of an upload for which the disk of the data directory has no space.
var ErrFull = errors.New("the disk of the data directory is nearly full: free some space")

// space reserves disk space for images while they are stored, so that images that are stored at once do not fill the
// disk together. Anybody in a VPC may cause an image to be pulled, without credentials.
type space struct {
	mu       sync.Mutex
	reserved int64
	// free measures the bytes that the disk of a directory has free; set by tests only.
	free func(dir string) (int64, error)
}

func (s *space) measure(dir string) (int64, error) {
	if s.free != nil {
		return s.free(dir)
	}
	return diskspace.Free(dir)
}

// reserve reserves the space of blobs, as their descriptors state it, on the disk of dir. release gives it back once
// the blobs are stored, or are not.
func (s *space) reserve(dir string, blobs []v1.Descriptor) (release func(), err error) {
	var need int64
	for _, b := range blobs {
		if b.Size < 0 || b.Size > maxLayer {
			return nil, fmt.Errorf("the size of %s is %d bytes, and may be 0 to %d", b.Digest, b.Size, int64(maxLayer))
		}
		need += b.Size
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free, err := s.measure(dir)
	if err != nil {
		return nil, err
	}
	free -= s.reserved
	if need > free-diskspace.Reserve {
		return nil, fmt.Errorf("%w: it has %s, and the disk of the data directory has %s to spare", ErrFull,
			humanize.IBytes(uint64(need)), humanize.IBytes(uint64(max(0, free-diskspace.Reserve))))
	}
	s.reserved += need
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reserved -= need
	}, nil
}

// bytesPerReservation is the number of bytes of an upload that are written between two checks of the disk.
const bytesPerReservation = 8 << 20

// spaced is the body of an upload, whose length need not be known. While it is read, the space of what comes next is
// reserved. Close gives it back.
type spaced struct {
	io.ReadCloser
	space   *space
	dir     string
	left    int64  // of what is reserved
	release func() // nil for nothing reserved
}

// reserveBody replaces the body of an upload by one that stops at a full disk. It refuses what does not fit from the
// beginning.
func (s *space) reserveBody(dir string, request *http.Request) (body *spaced, err error) {
	if request.ContentLength > maxLayer {
		return nil, &Refusal{http.StatusRequestEntityTooLarge, "SIZE_INVALID", fmt.Sprintf("a layer may have %s",
			humanize.IBytes(maxLayer))}
	}
	body = &spaced{ReadCloser: request.Body, space: s, dir: dir}
	if err := body.reserve(max(request.ContentLength, 0)); err != nil {
		return nil, err
	}
	body.releaseSpace() // a client that sends nothing takes no space from others
	body.left = 0
	request.Body = body
	return body, nil
}

func (b *spaced) reserve(size int64) error {
	b.releaseSpace()
	release, err := b.space.reserve(b.dir, []v1.Descriptor{{Size: size}})
	if err == nil {
		b.left, b.release = size, release
	}
	return err
}

func (b *spaced) releaseSpace() {
	if b.release != nil {
		b.release()
		b.release = nil
	}
}

func (b *spaced) Read(p []byte) (int, error) {
	if b.left == 0 {
		if err := b.reserve(bytesPerReservation); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
