// Package sent tells when the answer to an HTTP request has been sent. With HTTP/2 that is after its handler: net/http
// keeps up to 4 KB until the handler returns, and the request with them for as long as the client takes nothing.
package sent

import "net/http"

// Streams reports whether a handler answers on a stream of HTTP/2. The version that a request has can be what a client
// of HTTP/1 says.
func Streams(w http.ResponseWriter) bool {
	_, ok := w.(http.Pusher)
	return ok
}

// Closed returns a channel that is sent to once an answer has been sent, or has been broken off. Its handler calls it
// last. It returns nil with HTTP/1, where an answer that is not taken holds up its connection.
func Closed(w http.ResponseWriter) <-chan bool {
	// Nothing else tells when a stream is closed. To flush would take a frame more for each answer, and would make two
	// parts of the header and the trailer of an error of gRPC, which are to come as one.
	if notifier, ok := w.(http.CloseNotifier); ok && Streams(w) { //nolint:staticcheck // contexts end before
		return notifier.CloseNotify()
	}
	return nil
}
