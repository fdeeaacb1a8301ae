package forward

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// What an endpoint sends that its client does not read is in the kernel's memory, on both connections.
func TestBuffersOfForwardedConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	if receive, send := testenv.DialedBuffers(t, newTransport().DialContext); max(receive, send) > 2*connlimit.Buffer {
		t.Errorf("the buffers of a connection to an endpoint have %d and %d bytes", receive, send)
	}
}
