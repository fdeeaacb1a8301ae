package mountgrant

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

const instance = "i-0123456789abcdef0"

var (
	keyA = bytes.Repeat([]byte{1}, keySize)
	keyB = bytes.Repeat([]byte{2}, keySize)
)

var request = Request{FileSystemID: "fs-0123456789abcdef0", AccessPointID: "fsap-1", TLS: true,
	Signed: "Action=Connect"}

var grant = Grant{FileSystemID: "fs-0123456789abcdef0", Root: "/data/filesystems/fs-0123456789abcdef0/root", ReadOnly: true,
	AccessPoint: &AccessPoint{ID: "fsap-1", Path: "/a/b", User: &User{UID: 1, GID: 2, Groups: []uint32{3}},
		Creation: &Creation{UID: 4, GID: 5, Mode: 0o750}}}

// talk lets a launcher ask a daemon, through what changes the bytes of either direction, and returns what both got.
func talk(t *testing.T, launcher, daemon []byte, up, down func([]byte)) (
	asked *Asked, received error, got Grant, err error) {
	t.Helper()
	a, middleA := net.Pipe()
	middleB, b := net.Pipe()
	for _, c := range []net.Conn{a, b, middleA, middleB} {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		defer c.Close()
	}
	relay := func(to io.WriteCloser, from io.ReadCloser, change func([]byte)) {
		defer to.Close()
		defer from.Close()
		buffer := make([]byte, maxFrame)
		for {
			n, err := from.Read(buffer)
			if change != nil {
				change(buffer[:n])
			}
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	go relay(middleB, middleA, up)
	go relay(middleA, middleB, down)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer b.Close()
		asked, received = Receive(b, func(id string) ([]byte, error) {
			if id != instance {
				return nil, fs.ErrNotExist
			}
			return daemon, nil
		})
		if received == nil {
			_ = asked.Answer(b, grant)
		}
	}()
	got, err = Ask(a, launcher, instance, request)
	a.Close()
	<-done
	return asked, received, got, err
}

func TestAGrantIsTheAnswerToItsRequest(t *testing.T) {
	t.Parallel()
	asked, received, got, err := talk(t, keyA, keyA, nil, nil)
	if err != nil || received != nil {
		t.Fatal(err, received)
	}
	if asked.InstanceID != instance || asked.Request != request {
		t.Errorf("the daemon was asked %+v", asked)
	}
	if !reflect.DeepEqual(got, grant) {
		t.Errorf("the launcher got %+v", got)
	}
}

// What is between the two belongs to the machine.
func TestNothingIsBelievedWithoutProof(t *testing.T) {
	t.Parallel()
	flip := func(b []byte) { // in a sealed message, which alone is that long
		if len(b) > 150 {
			b[len(b)-20] ^= 1
		}
	}
	replace := func(from, to string) func([]byte) {
		return func(b []byte) { copy(b, bytes.ReplaceAll(b, []byte(from), []byte(to))) }
	}
	for name, test := range map[string]struct {
		launcher, daemon []byte
		up, down         func([]byte)
		foreign          bool
	}{
		"another key":       {launcher: keyA, daemon: keyB, foreign: true},
		"a changed answer":  {launcher: keyA, daemon: keyA, down: flip},
		"a changed request": {launcher: keyA, daemon: keyA, up: flip},
		"another instance":  {launcher: keyA, daemon: keyA, up: replace("i-0123456789abcdef0", "i-0123456789abcdef1")},
		"no such protocol":  {launcher: keyA, daemon: keyA, up: replace("mount 1", "mount 2"), foreign: true},
		"an RPC message":    {launcher: keyA, daemon: keyA, down: func(b []byte) { clear(b) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := false
			watch := func(change func([]byte)) func([]byte) {
				if change == nil {
					return nil
				}
				return func(b []byte) {
					before := bytes.Clone(b)
					change(b)
					changed = changed || !bytes.Equal(before, b)
				}
			}
			_, received, _, err := talk(t, test.launcher, test.daemon, watch(test.up), watch(test.down))
			if (test.up != nil || test.down != nil) && !changed {
				t.Fatal("nothing was changed")
			}
			if err == nil {
				t.Error("the launcher believes the answer")
			}
			if test.foreign && !errors.Is(err, ErrForeign) {
				t.Errorf("the launcher gets %v, want ErrForeign", err)
			}
			if test.up != nil && received == nil {
				t.Error("the daemon believes the request")
			}
		})
	}
}

// A grant that was recorded is of no use for another request.
func TestAGrantIsOfNoUseTwice(t *testing.T) {
	t.Parallel()
	var recorded bytes.Buffer
	if _, _, _, err := talk(t, keyA, keyA, nil, func(b []byte) { recorded.Write(b) }); err != nil {
		t.Fatal(err)
	}
	got, err := Ask(struct {
		io.Reader
		io.Writer
	}{&recorded, io.Discard}, keyA, instance, request)
	if !errors.Is(err, ErrForeign) {
		t.Errorf("a recorded answer is taken for %+v, %v", got, err)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	_, err := Receive(struct {
		io.Reader
		io.Writer
	}{strings.NewReader(magic + "\xff\xff\xff\xff"), io.Discard}, nil)
	if err == nil {
		t.Error("a message of 4 GiB is read")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadKey(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := EnsureKey(dir); err != nil {
		t.Fatal(err)
	}
	first, err := ReadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := EnsureKey(dir); err != nil {
		t.Fatal(err)
	}
	if second, err := ReadKey(dir); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the key changes: %v", err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(magic + "\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Receive(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(data), io.Discard}, func(string) ([]byte, error) { return keyA, nil }); err == nil {
			t.Error("a request without proof is believed")
		}
	})
}
