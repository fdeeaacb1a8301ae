package application

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// bytesConn is a connection whose client has sent everything.
type bytesConn struct {
	net.Conn
	in bytes.Buffer
}

func (c *bytesConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *bytesConn) Write(b []byte) (int, error) { return len(b), nil }
func (c *bytesConn) Close() error                { return nil }

// TestResetStreamsCountWhileTheyWait has a client that resets requests for which there may be no handler yet: net/http
// keeps these until one ends.
func TestResetStreamsCountWhileTheyWait(t *testing.T) {
	t.Parallel()
	counted := 0
	c := &bytesConn{}
	m := newMultiplexed(c, &client{server: &Server{o: Options{Acquire: func(netip.Addr) (func(), bool) {
		counted++
		return func() { counted-- }, true
	}}}})
	sends, answers := http2.NewFramer(&c.in, nil), http2.NewFramer(m, nil)
	c.in.WriteString(http2.ClientPreface)
	header := make([]byte, headerPart)
	last := uint32(1)
	open := func() uint32 {
		id := last
		last += 2
		p := http2.HeadersFrameParam{StreamID: id, BlockFragment: header, EndStream: true}
		if err := errors.Join(sends.WriteHeaders(p), sends.WriteContinuation(id, true, header[:1])); err != nil {
			t.Fatal(err)
		}
		return id
	}
	read := func(want int, what string) {
		t.Helper()
		if _, err := io.ReadAll(m); err != nil {
			t.Fatal(err)
		}
		if counted != want {
			t.Errorf("%s count %d times, want %d", what, counted, want)
		}
	}
	reset := func() {
		if err := sends.WriteRSTStream(open(), http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
	}
	write := func() {
		if err := answers.WritePing(true, [8]byte{}); err != nil {
			t.Fatal(err)
		}
	}
	reset()
	read(2, "a request that was reset")
	write()
	read(2, "a request that was reset, which net/http may not have seen,")
	write()
	read(0, "a request that was reset, and that it has seen,")
	if err := sends.WriteRawFrame(http2.FrameRSTStream, 0, open(), nil); err != nil {
		t.Fatal(err)
	}
	c.in.Bytes()[c.in.Len()-frameHeader+2] = 4 // its payload has not come
	read(2, "a request that is about to be reset")
	write()
	write()
	read(2, "a request that is about to be reset")
	c.in.Write(make([]byte, 4))
	read(2, "a request that has been reset")
	write()
	write()
	read(0, "a request that has been reset, and that net/http has seen,")
	var all []uint32
	for range maxStreams - 1 {
		all = append(all, open())
		m.beginRequest()
	}
	read(2*(maxStreams-1), "requests with a header of two parts")
	for range 10 {
		reset()
	}
	write()
	read(2*(maxStreams-1)+20, "these, and those that were reset, which may wait for a handler,")
	for _, id := range all {
		m.endRequest()
		if err := answers.WriteData(id, true, nil); err != nil {
			t.Fatal(err)
		}
	}
	read(0, "requests that have ended")
	last = 1
	open()
	read(2, "a request with an earlier number")
	if err := answers.WriteRSTStream(1, http2.ErrCodeInternal); err != nil {
		t.Fatal(err)
	}
	read(2, "a request that net/http has reset, for which a handler may wait,")
	write()
	write()
	read(0, "a request that it has reset before")
	// What a frame says of its length counts for no more than a header may have.
	c.in.Write([]byte{1, 0, 0, byte(http2.FrameHeaders), 0, 0, 0, 0xff, 0xff})
	read(1+maxHeader/headerPart, "a header that is too long")
	if err := answers.WriteGoAway(1, http2.ErrCodeFlowControl, nil); err != nil {
		t.Fatal(err)
	}
	write()
	if _, err := m.Read(make([]byte, 1)); !errors.Is(err, errGoneAway) {
		t.Errorf("after an error of the connection: %v", err)
	}
	if counted != 1+maxHeader/headerPart {
		t.Errorf("after an error of the connection %d count", counted)
	}
	m.Close()
	if counted != 0 {
		t.Errorf("after the end of the connection %d count", counted)
	}
}

// TestBrokenConnectionsEnd has clients of which net/http keeps what nobody counts.
func TestBrokenConnectionsEnd(t *testing.T) {
	t.Parallel()
	type rig struct {
		sends, answers *http2.Framer
		read           func() // what was sent
	}
	begin := func(r rig) error {
		return r.sends.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true})
	}
	send := func(r rig, length int) (err error) {
		for ; length > 0; length -= maxFrame {
			err = errors.Join(err, r.sends.WriteData(1, false, make([]byte, min(length, maxFrame))))
		}
		return err
	}
	for _, c := range []struct {
		name string
		do   func(rig) error
		ends bool
	}{
		{"a stream that has been cancelled", func(r rig) error {
			return r.answers.WriteRSTStream(1, http2.ErrCodeCancel)
		}, false},
		{"a request that breaks the protocol", func(r rig) error {
			err := begin(r)
			r.read()
			return errors.Join(err, r.answers.WriteRSTStream(1, http2.ErrCodeProtocol))
		}, false},
		{"a stream whose number may not have been taken", func(r rig) error {
			err := errors.Join(begin(r), begin(r))
			r.read()
			return errors.Join(err, r.answers.WriteRSTStream(1, http2.ErrCodeProtocol))
		}, true},
		{"the end of a connection", func(r rig) error {
			return r.answers.WriteGoAway(1, http2.ErrCodeNo, nil)
		}, false},
		{"an error of a connection", func(r rig) error {
			return r.answers.WriteGoAway(1, http2.ErrCodeProtocol, nil)
		}, true},
		{"a priority", func(r rig) error {
			return r.sends.WritePriority(5, http2.PriorityParam{StreamDep: 3, Exclusive: true})
		}, false},
		{"a stream that depends on itself", func(r rig) error {
			return r.sends.WritePriority(5, http2.PriorityParam{StreamDep: 5})
		}, true},
		{"a stream that depends on itself alone", func(r rig) error {
			return r.sends.WritePriority(5, http2.PriorityParam{StreamDep: 5, Exclusive: true})
		}, true},
		{"a window that does not grow", func(r rig) error {
			return r.sends.WriteRawFrame(http2.FrameWindowUpdate, 0, 5, make([]byte, 4))
		}, true},
		{"a body within its window", func(r rig) error { return errors.Join(begin(r), send(r, receiveWindow)) }, false},
		{"a body beyond it", func(r rig) error { return errors.Join(begin(r), send(r, receiveWindow+1)) }, true},
		{"a body within a window that has grown", func(r rig) error {
			err := begin(r)
			r.read()
			return errors.Join(err, r.answers.WriteWindowUpdate(1, 9), send(r, receiveWindow+9))
		}, false},
		{"a body beyond it", func(r rig) error {
			err := begin(r)
			r.read()
			return errors.Join(err, r.answers.WriteWindowUpdate(1, 9), r.answers.WriteWindowUpdate(0, 9),
				send(r, receiveWindow+10))
		}, true},
		{"padding beyond a window", func(r rig) error {
			return errors.Join(begin(r), send(r, receiveWindow), r.sends.WriteDataPadded(1, false, nil, []byte{}))
		}, true},
		{"a header that does not end", func(r rig) error {
			err := r.sends.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
			for range maxHeader/maxFrame + 2 {
				err = errors.Join(err, r.sends.WriteContinuation(1, false, make([]byte, maxFrame)))
			}
			return err
		}, true},
	} {
		conn := &bytesConn{}
		m := newMultiplexed(conn, &client{server: &Server{o: Options{Acquire: func(netip.Addr) (func(), bool) {
			return func() {}, true
		}}}})
		conn.in.WriteString(http2.ClientPreface)
		read := func() {
			if _, err := io.ReadAll(m); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if err := c.do(rig{http2.NewFramer(&conn.in, nil), http2.NewFramer(m, nil), read}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(m); errors.Is(err, errGoneAway) != c.ends {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// heldConn is a connection whose client takes something when it is let.
type heldConn struct {
	bytesConn
	takes chan int
}

func (c *heldConn) Write([]byte) (int, error) { return <-c.takes, nil }

// TestReadsWaitForAnswersToBeTaken has a client that sends pings, and takes nothing for a while, then little.
func TestReadsWaitForAnswersToBeTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &heldConn{takes: make(chan int)}
		m := newMultiplexed(c, &client{server: &Server{}})
		c.in.WriteString(http2.ClientPreface)
		if _, err := io.ReadFull(m, make([]byte, len(http2.ClientPreface))); err != nil {
			t.Fatal(err)
		}
		sends := http2.NewFramer(&c.in, nil)
		for range 3 * mostAhead {
			if err := sends.WritePing(false, [8]byte{}); err != nil {
				t.Fatal(err)
			}
		}
		answers := make([]byte, 100*longestAnswer)
		go func() { _, _ = m.Write(answers) }()
		synctest.Wait()
		read := 0
		go func() {
			for ping := make([]byte, frameHeader+8); ; read++ {
				if _, err := io.ReadFull(m, ping); err != nil {
					return
				}
			}
		}()
		if synctest.Wait(); read != mostAhead {
			t.Errorf("while nothing is taken %d frames are read, want %d", read, mostAhead)
		}
		c.takes <- len(answers)
		if synctest.Wait(); read != 3*mostAhead || m.ahead != mostAhead-100 {
			t.Errorf("when 100 answers have been taken %d frames are read, and %d count", read, m.ahead)
		}
	})
}
