package wire

import (
	"net/http"
	"time"
)

// Server returns an http.Server for handler whose timeouts cut off clients that send or read too slowly to be honest,
// and which bounds what the headers of all its requests hold in memory, for each source and in all. The limits leave
// room for a 10 MiB body on a slow line.
//
// It speaks HTTP/1.1 alone, as AWS's endpoints do: with HTTP/2, net/http keeps requests that no handler has counted,
// and those that have been answered, for as long as a client takes nothing.
func Server(addr string, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Addr:              addr,
		Handler:           boundHeaders(handler),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      120 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		// What net/http answers itself nobody would count.
		DisableGeneralOptionsHandler: true,
	}
}
