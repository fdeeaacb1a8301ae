package image

import (
	"fmt"
	"sync"

	"github.com/dustin/go-humanize"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// leastFree is how many bytes of the data directory's disk images leave: etcd and every cluster stop when it is full.
const leastFree = 2 << 30

// space reserves disk space for images while they are stored, so that images that are stored at once do not fill the
// disk together. Anybody in a VPC may cause an image to be pulled, without credentials.
type space struct {
	mu       sync.Mutex
	reserved int64
}

// reserve reserves the space of blobs, as their descriptors state it, on the disk of dir. release gives it back once the blobs
// are stored, or are not.
func (s *space) reserve(dir string, blobs []v1.Descriptor) (release func(), err error) {
	var need int64
	for _, b := range blobs {
		if b.Size < 0 || b.Size > maxLayer {
			return nil, fmt.Errorf("the size of %s is %d bytes, and may be 0 to %d", b.Digest, b.Size, int64(maxLayer))
		}
		need += b.Size
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return nil, fmt.Errorf("free space of %s: %w", dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free := int64(disk.Bavail)*int64(disk.Bsize) - s.reserved
	if need > free-leastFree {
		return nil, fmt.Errorf("it has %s, and the disk of the data directory has %s to spare: free some space",
			humanize.IBytes(uint64(need)), humanize.IBytes(uint64(max(0, free-leastFree))))
	}
	s.reserved += need
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reserved -= need
	}, nil
}
