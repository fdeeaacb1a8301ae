package wire

import (
	"net/http"
	"net/netip"
)

// Bounds of what the headers of requests hold in memory, in bytes, from when they have arrived to the end of the
// request. Nobody is known to answer for them yet.
const (
	// maxHeaderBytes limits the header of a request. The largest session token, of policies and tags of
	// 8 KiB, has some 15 KiB, and half as much again in a password of the registry.
	maxHeaderBytes = 24 << 10
	// maxHeaders limits the memory of all headers of a server together, maxSourceHeaders that of one source: thousands
	// of usual requests.
	maxHeaders       = 128 << 20
	maxSourceHeaders = 32 << 20
	// maxTrailers bounds the names in a Trailer field, of which net/http makes a map. Those of S3 are in another one.
	maxTrailers = 32
	// fieldMemory is the memory of a header field beyond its text.
	fieldMemory = 150
)

// boundHeaders returns a handler that refuses requests whose headers, together with those of all requests of their
// source that have not ended, hold too much memory. It goes before whatever waits, or reads a body.
func boundHeaders(handler http.Handler) http.Handler {
	headers := newShares[netip.Addr](maxHeaders, maxSourceHeaders)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		source, size := sourceOf(r.RemoteAddr), headerMemory(r)
		announced := len(r.Trailer)
		r.Trailer = nil                   // nobody reads them
		defer func() { r.Header = nil }() // net/http keeps the request until its body and the answer have gone
		if announced > maxTrailers {
			http.Error(w, "The request announces too many trailers.", http.StatusBadRequest)
			return
		}
		if !headers.tryAcquire(source, size) {
			http.Error(w, "Too many requests with large headers are being carried out. Please try again, with fewer at a time.",
				http.StatusServiceUnavailable)
			return
		}
		defer headers.release(source, size)
		handler.ServeHTTP(w, r)
	})
}

// headerMemory returns about how much memory the header of a request takes. The URL is kept as it came, and in parts.
func headerMemory(r *http.Request) int64 {
	size := fieldMemory + len(r.Host) + 2*len(r.RequestURI)
	for name := range r.Trailer {
		size += fieldMemory + len(name)
	}
	for name, values := range r.Header {
		size += len(name)
		for _, value := range values {
			size += fieldMemory + len(value)
		}
	}
	return int64(size)
}
