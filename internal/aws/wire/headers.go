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
	// fieldMemory is the memory of a header field beyond its text.
	fieldMemory = 150
)

// boundHeaders returns a handler that refuses requests whose headers, together with those of all requests of their
// source that have not ended, hold too much memory. It goes before whatever waits, or reads a body.
func boundHeaders(handler http.Handler) http.Handler {
	headers := newShares[netip.Addr](maxHeaders, maxSourceHeaders)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		source, size := sourceOf(r.RemoteAddr), headerMemory(r)
		if !headers.tryAcquire(source, size) {
			http.Error(w, "Too many requests with large headers are being carried out. Please try again, with fewer "+
				"at a time.", http.StatusServiceUnavailable)
			return
		}
		defer headers.release(source, size)
		handler.ServeHTTP(w, r)
	})
}

// headerMemory returns about how much memory the header of a request takes. The URL is kept as it came, and in parts.
func headerMemory(r *http.Request) int64 {
	size := fieldMemory + len(r.Host) + 2*len(r.RequestURI)
	for name, values := range r.Header {
		size += len(name)
		for _, value := range values {
			size += fieldMemory + len(value)
		}
	}
	return int64(size)
}
