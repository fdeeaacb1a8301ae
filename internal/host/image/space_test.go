package image

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

func TestSpaceIsReserved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	free := int64(disk.Bavail) * int64(disk.Bsize)
	if free < 2*diskspace.Reserve {
		t.Skipf("the disk of %s has %d bytes free", dir, free)
	}
	blob := func(size int64) []v1.Descriptor { return []v1.Descriptor{{Size: size}} }
	layers := func(size int64) (all []v1.Descriptor) { // no layer is larger than a layer may be
		for ; size > maxLayer; size -= maxLayer {
			all = append(all, blob(maxLayer)...)
		}
		return append(all, blob(size)...)
	}
	var s space
	for name, blobs := range map[string][]v1.Descriptor{
		"a negative size":          blob(-1),
		"a layer that is too big":  blob(maxLayer + 1),
		"more than there is":       layers(free + diskspace.Reserve),
		"what the disk must keep":  layers(free - diskspace.Reserve/2),
		"a negative beside others": {{Size: 10}, {Size: -5}},
	} {
		if _, err := s.reserve(dir, blobs); err == nil {
			t.Errorf("%s is stored", name)
		}
	}
	release, err := s.reserve(dir, layers(free-diskspace.Reserve-diskspace.Reserve/2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.reserve(dir, layers(diskspace.Reserve)); err == nil {
		t.Error("two images at once are stored that do not fit together")
	}
	release()
	if release, err = s.reserve(dir, layers(diskspace.Reserve/2)); err != nil {
		t.Errorf("after an image was stored: %v", err)
	} else {
		release()
	}
	if s.reserved != 0 {
		t.Errorf("%d bytes stay reserved", s.reserved)
	}
}
