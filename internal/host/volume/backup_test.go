//go:build linux

package volume

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// What a backup reads stays until it has read it, though it is deleted meanwhile.
func TestContentIsHeldForABackup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.volume(volumeID, func(*record.Volume) {})
	c := New(r.o)
	r.runThis(c)
	r.untilDisk("made", made)
	file := filepath.Join(r.o.Dir, volumeID, diskFile)
	write(t, file, 0, "first")
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1})
	eventually.True(t, "the snapshot is complete", func() bool {
		d, _, _ := get(r.ctx, record.SnapshotDisks(r.store), key(snapshotID))
		return d.Complete
	})
	write(t, file, 1<<20, "second")
	if err := os.MkdirAll(filepath.Join(r.o.Dir, "vol-0123456789abcdef9"), 0o700); err != nil { // is made just now
		t.Fatal(err)
	}

	held := c.Contents()
	for range 2 {
		if err := held.Hold(); err != nil {
			t.Fatal(err)
		}
	}
	if ids := held.IDs(); !slices.Equal(ids, []string{snapshotID, volumeID}) {
		t.Errorf("held are %v", ids)
	}
	r.volume(volumeID, func(v *record.Volume) { v.Deleted = time.Now() })
	putRow(r, record.Snapshots(r.store), snapshotID, record.Snapshot{EC2Resource: resource(snapshotID),
		VolumeID: volumeID, VolumeSize: 1, Deleted: time.Now()})
	for id, want := range map[string]string{volumeID: "second", snapshotID: strings.Repeat("\x00", 6)} {
		scratch, err := os.Create(filepath.Join(r.o.Dir, "scratch"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := held.Open(r.ctx, id, scratch)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 6)
		if _, err := f.ReadAt(got, 1<<20); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", id, got, err)
		}
		if size, err := f.Seek(0, io.SeekEnd); err != nil || size != 1<<30 {
			t.Errorf("%s has %d bytes, %v", id, size, err)
		}
		f.Close()
		scratch.Close()
	}
	held.Release()
	for _, id := range []string{volumeID, snapshotID} {
		eventually.True(t, id+" is removed", func() bool {
			_, err := os.Stat(c.file(id))
			return os.IsNotExist(err)
		})
	}
}

// Two backups hold what there is, and hold again what has been made meanwhile: neither waits for the other, and nothing
// is removed before both have ended.
func TestTwoBackupsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := New(r.o)
	add := func(id string) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(c.file(id)), 0o700)
		if err := errors.Join(err, os.WriteFile(c.file(id), []byte("content"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	const first, second, third = "vol-0123456789abcdef1", "vol-0123456789abcdef2", "vol-0123456789abcdef3"
	add(second)
	add(third)
	a, b := c.Contents(), c.Contents()
	if err := a.Hold(); err != nil {
		t.Fatal(err)
	}
	add(first) // sorts before what is held
	done := make(chan error, 1)
	go func() { done <- errors.Join(b.Hold(), a.Hold(), b.Hold()) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(eventually.Limit):
		t.Fatal("two backups wait for each other")
	}
	all := []string{first, second, third}
	if !slices.Equal(a.IDs(), all) || !slices.Equal(b.IDs(), all) {
		t.Errorf("held are %v and %v", a.IDs(), b.IDs())
	}
	for i, held := range []*Contents{a, b} {
		for _, id := range all {
			if end, ok := c.kept.tryRemoval(id); ok {
				end()
				t.Errorf("%s may be removed while %d backups hold it", id, 2-i)
			}
		}
		held.Release()
	}
	for _, id := range all {
		end, ok := c.kept.tryRemoval(id)
		if !ok {
			t.Fatalf("%s is held for ever", id)
		}
		end()
	}
}
