//go:build linux

package loopdevice

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// newDisk attaches a new file of 8 MiB.
func newDisk(t *testing.T) (number int, name Name, file string) {
	t.Helper()
	testenv.NeedsRoot(t)
	var owner [8]byte
	_, _ = rand.Read(owner[:])
	name = Name{hex.EncodeToString(owner[:]), "vol-0123456789abcdef0", "i-0123456789abcdef0"}
	file = filepath.Join(t.TempDir(), "disk")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8 << 20); err != nil {
		t.Fatal(err)
	}
	testenv.NeedsLoopDevices(t)
	if number, err = Attach(f, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := RemoveAll(name.Owner); err != nil {
			t.Error(err)
		}
	})
	return number, name, file
}

func TestADiskIsKnownByItsName(t *testing.T) {
	t.Parallel()
	number, name, _ := newDisk(t)
	devices, err := List(name.Owner)
	if err != nil || len(devices) != 1 || devices[0] != (Device{Number: number, Name: name}) {
		t.Fatalf("the devices are %v, %v", devices, err)
	}
	if err := Check(number, name); err != nil {
		t.Error(err)
	}
	if is, err := Is(number, name); err != nil || !is {
		t.Errorf("it is not the disk that it is: %v", err)
	}
	other := name
	other.Volume = "vol-0123456789abcdef1"
	if err := Check(number, other); err == nil {
		t.Error("a device counts as another disk")
	}
	if is, err := Is(number, other); err != nil || is {
		t.Errorf("it is another disk: %v, %v", is, err)
	}
	if is, err := Is(Last, name); err != nil || is {
		t.Errorf("a device that is not there is a disk: %v, %v", is, err)
	}
	if err := Release(number, other); err != nil || Check(number, name) != nil {
		t.Errorf("a device was released as another disk: %v", err)
	}
	if err := Release(number, name); err != nil {
		t.Fatal(err)
	}
	if err := Release(number, name); err != nil {
		t.Errorf("to release a device again: %v", err)
	}
	for _, gone := range []int{number, Last} {
		if err := Thaw(gone, name); err != nil {
			t.Errorf("writes of a device that is gone are held: %v", err)
		}
	}
}

func TestADeviceGrowsWithItsFile(t *testing.T) {
	t.Parallel()
	number, _, file := newDisk(t)
	if err := os.Truncate(file, 16<<20); err != nil {
		t.Fatal(err)
	}
	if err := Grow(number, 16<<20); err != nil {
		t.Fatal(err)
	}
	f, err := Open(number, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if size, err := f.Seek(0, 2); err != nil || size != 16<<20 {
		t.Errorf("the size is %d, %v", size, err)
	}
}

// Who has a device open when it is released reads and writes nothing any more, and nobody gets its number.
func TestAPulledDeviceIsOfNoUse(t *testing.T) {
	t.Parallel()
	number, name, file := newDisk(t)
	f, err := Open(number, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("before"), 0); err != nil {
		t.Fatal(err)
	}
	if err := Release(number, name); !errors.Is(err, ErrInUse) {
		t.Fatalf("an open device was released: %v", err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content[:6]) != "before" {
		t.Errorf("what was written before is not in the file: %q, %v", content[:6], err)
	}
	if n, err := f.ReadAt(make([]byte, 512), 0); err == nil || n > 0 {
		t.Error("a pulled device can be read")
	}
	_, err = f.WriteAt([]byte("after!"), 0)
	if err = errors.Join(err, f.Sync()); err == nil {
		t.Error("a pulled device can be written")
	}
	devices, err := List(name.Owner)
	if err != nil || len(devices) != 1 || !devices[0].Pulled {
		t.Errorf("the devices are %v, %v", devices, err)
	}
	if err := Check(number, name); err == nil {
		t.Error("a pulled device counts as the disk")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := Release(number, name); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content[:6]) != "before" {
		t.Errorf("the file has %q, %v", content[:6], err)
	}
}

// The kernel makes a device of a number that is opened.
func TestToLookForADeviceMakesNone(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	testenv.NeedsLoopDevices(t)
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	const number = Last - 1 // which no other test looks for
	_ = remove(control, number)
	if is, err := Is(number, Name{"owner", "vol-0123456789abcdef0", "i-0123456789abcdef0"}); err != nil || is {
		t.Errorf("a device that is not there is a disk: %v, %v", is, err)
	}
	if _, err := os.Stat(sysDir(number)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}

// The number of a device that somebody had open when it was released is free once he has closed it.
func TestTheNumberOfAHeldDevice(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(int, Name) error{"": Release, "unmounted": ReleaseUnmounted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			number, name, _ := newDisk(t)
			f, err := Open(number, unix.O_RDONLY)
			if err != nil {
				t.Fatal(err)
			}
			if err := release(number, name); !errors.Is(err, ErrInUse) {
				t.Fatalf("an open device was released: %v", err)
			}
			if _, err := List(name.Owner); err != nil {
				t.Fatal(err)
			}
			if attribute(number, "size") == "" {
				t.Error("an open device is removed")
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "the number is free", func() bool {
				devices, err := List(name.Owner)
				return err == nil && len(devices) == 0 && attribute(number, "size") == ""
			})
		})
	}
}

// hang makes a device one that answers nobody, as one whose writes the kernel waits for, until the test ends.
func hang(t *testing.T, number int) {
	t.Helper()
	end, err := lockDevice(number, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	questions.Lock()
	defer questions.Unlock()
	q := questions.asked[number]
	q.began = q.began.Add(-patience)
	questions.asked[number] = q
}

// The device of one machine that answers nobody keeps nobody from those of others, nor from what is known of it.
func TestADeviceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	number, name, file := newDisk(t)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other := Name{name.Owner, "vol-0123456789abcdef1", name.InstanceID}
	second, err := Attach(f, other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Get(number); err != nil { // its name is known from here on
		t.Fatal(err)
	}
	hang(t, number)
	hang(t, second)
	devices, silent, err := list(name.Owner, "")
	id, counted := identify(number)
	if _, ok := known.Load(id); counted && !ok {
		t.Error("the name of a device that has said it is not known")
	}
	want := []Device{{Number: number, Name: name}}
	if counted && (err != nil || silent != 1 || !slices.Equal(devices, want)) {
		t.Errorf("the devices are %v, %d silent, %v", devices, silent, err)
	}
	if devices, silent, err := list("another-owner", ""); err != nil || silent != 0 || len(devices) > 0 {
		t.Errorf("those of another owner are %v, %d silent, %v", devices, silent, err)
	}
	// Nobody takes a volume for one without devices that has one.
	if devices, err := ListVolume(other.Owner, other.Volume); !errors.Is(err, ErrSilent) || len(devices) > 0 {
		t.Errorf("those of its volume are %v, %v", devices, err)
	}
	if devices, err := ListVolume(name.Owner, name.Volume); counted && (err != nil || !slices.Equal(devices, want)) {
		t.Errorf("those of a volume whose device has said its name are %v, %v", devices, err)
	}
	if devices, err := ListVolume(name.Owner, "vol-0123456789abcdef2"); err != nil || len(devices) > 0 {
		t.Errorf("those of another volume are %v, %v", devices, err)
	}
	if _, err := lockDevice(number, time.After(0)); !errors.Is(err, ErrSilent) {
		t.Errorf("a device that does not answer is asked again: %v", err)
	}
	_, err = callDevice(second, time.Millisecond, func() (Device, error) { return inspect(second) })
	if !errors.Is(err, ErrSilent) {
		t.Errorf("a device that does not answer has answered: %v", err)
	}
}

// Who asks waits for a while, and what it has asked goes on.
func TestAnAnswerThatComesLate(t *testing.T) {
	t.Parallel()
	const number = Last + 1
	goOn := make(chan struct{})
	_, err := callDevice(number, time.Millisecond, func() (int, error) { <-goOn; return 1, nil })
	if !errors.Is(err, ErrSilent) {
		t.Errorf("no answer is %v", err)
	}
	if _, err := callDevice(number, time.Millisecond, func() (int, error) { return 2, nil }); !errors.Is(err, ErrSilent) {
		t.Errorf("it is asked twice at once: %v", err)
	}
	close(goOn)
	if n, err := callDevice(number, time.Minute, func() (int, error) { return 3, nil }); n != 3 || err != nil {
		t.Errorf("afterwards it answers %d, %v", n, err)
	}
}

// Devices of other owners are not opened: they may hang.
func TestDevicesOfOthersAreNotOpened(t *testing.T) {
	t.Parallel()
	number, name, _ := newDisk(t)
	hang(t, number)
	if !isSilent(number, listPatience) {
		t.Fatal("it answers")
	}
	if _, silent, err := list(name.Owner, ""); err != nil || silent != 1 {
		t.Errorf("%d of its own are silent, %v", silent, err)
	}
	want := strconv.FormatUint(tag(name.Owner, name.Volume), 10)
	if got := attribute(number, "loop/sizelimit"); got != want {
		t.Errorf("its tag is %q", got)
	}
	if _, silent, err := list("another-owner", ""); err != nil || silent != 0 {
		t.Errorf("%d of others are asked, %v", silent, err)
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	a, other, another := tag("a", "vol-1"), tag("a", "vol-2"), tag("b", "vol-1")
	if a == other || a>>32 != other>>32 || a>>32 == another>>32 {
		t.Errorf("the tags are %x, %x, %x", a, other, another)
	}
	for _, tag := range []uint64{a, other, another} {
		if tag < 1<<62 || tag >= 1<<63 {
			t.Errorf("the tag %x is no limit above all sizes", tag)
		}
	}
}
