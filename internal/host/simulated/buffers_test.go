package simulated

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// What a server sends that an API server does not read is in the kernel's memory.
func TestBuffersOfForwardedConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	dialer := boundBuffers(new(net.Dialer))
	if receive, send := testenv.DialedBuffers(t, dialer.DialContext); max(receive, send) > 2*connlimit.Buffer {
		t.Errorf("the buffers of a connection to a server have %d and %d bytes", receive, send)
	}
	refused := errors.New("refused")
	dialer = boundBuffers(&net.Dialer{Control: func(string, string, syscall.RawConn) error { return refused }})
	if _, err := dialer.Dial("tcp", "127.0.0.1:1"); !errors.Is(err, refused) {
		t.Errorf("what is refused is connected to: %v", err)
	}
}
