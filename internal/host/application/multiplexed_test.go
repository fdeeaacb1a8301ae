package application

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

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
	c.in.Write([]byte{0xff, 0xff, 0xff, byte(http2.FrameHeaders), 0, 0, 0, 0xff, 0xff})
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
	for _, c := range []struct {
		name string
		do   func(sends, answers *http2.Framer) error
		ends bool
	}{
		{"as many pings as may be", func(sends, _ *http2.Framer) (err error) {
			for range mostUnanswered {
				err = errors.Join(err, sends.WritePing(false, [8]byte{}))
			}
			return err
		}, false},
		{"more of them", func(sends, _ *http2.Framer) (err error) {
			for range mostUnanswered {
				err = errors.Join(err, sends.WritePing(false, [8]byte{}))
			}
			return errors.Join(err, sends.WriteSettings())
		}, true},
		{"a stream that has been cancelled", func(_, answers *http2.Framer) error {
			return answers.WriteRSTStream(1, http2.ErrCodeCancel)
		}, false},
		{"a stream whose number is not taken", func(_, answers *http2.Framer) error {
			return answers.WriteRSTStream(1, http2.ErrCodeProtocol)
		}, true},
		{"the end of a connection", func(_, answers *http2.Framer) error {
			return answers.WriteGoAway(1, http2.ErrCodeNo, nil)
		}, false},
		{"an error of a connection", func(_, answers *http2.Framer) error {
			return answers.WriteGoAway(1, http2.ErrCodeProtocol, nil)
		}, true},
	} {
		conn := &bytesConn{}
		m := newMultiplexed(conn, &client{server: &Server{o: Options{Acquire: func(netip.Addr) (func(), bool) {
			return func() {}, true
		}}}})
		conn.in.WriteString(http2.ClientPreface)
		if err := c.do(http2.NewFramer(&conn.in, nil), http2.NewFramer(m, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(m); errors.Is(err, errGoneAway) != c.ends {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
