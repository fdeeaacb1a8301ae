package wire

import (
	"net/http"
	"time"
)

// MaxStreams limits the concurrent requests of one HTTP/2 connection. Clients open another connection for more,
// which is bounded in turn.
const MaxStreams = 8

// What the library keeps of bodies that nobody has begun to read, in bytes: of one, and of all on an HTTP/2 connection.
// It is beside what all bodies together may have, and before anybody is known to answer for them. Left alone, the
// library keeps 1 MiB for each connection.
const (
	maxUnread    = 64 << 10
	maxAllUnread = 4 * maxUnread // so that one that waits for its turn holds up no others
)

// Server returns an http.Server for handler whose timeouts cut off clients that send or read too slowly to be honest,
// and which bounds what the headers of all its requests hold in memory, for each source and in all. The limits leave
// room for a 10 MiB body on a slow line.
func Server(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           boundHeaders(handler),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      120 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: MaxStreams, MaxReceiveBufferPerStream: maxUnread,
			MaxReceiveBufferPerConnection: maxAllUnread},
	}
}
