package application

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkRequests sends requests by 64 connections: through a Server, and through a bare httputil.ReverseProxy.
func BenchmarkRequests(b *testing.B) {
	const connections = 64
	target := serveTarget(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	run := func(b *testing.B, address string) {
		transport := &http.Transport{MaxIdleConnsPerHost: connections, DialContext: func(ctx context.Context, _, _ string) (
			net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}}
		defer transport.CloseIdleConnections()
		c := &http.Client{Transport: transport}
		times := make([]time.Duration, b.N)
		var next atomic.Int64
		var clients sync.WaitGroup
		b.ResetTimer()
		for range connections {
			clients.Go(func() {
				for {
					i := next.Add(1) - 1
					if i >= int64(b.N) {
						return
					}
					begun := time.Now()
					answer, err := c.Get("http://a.example/")
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					times[i] = time.Since(begun)
				}
			})
		}
		clients.Wait()
		b.StopTimer()
		slices.Sort(times)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
	}
	b.Run("target", func(b *testing.B) { run(b, target.Address.String()) })
	b.Run("bare", func(b *testing.B) {
		to := &url.URL{Scheme: "http", Host: target.Address.String()}
		bare := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to) },
			Transport:  &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true},
			BufferPool: new(buffers),
		})
		defer bare.Close()
		run(b, bare.Listener.Addr().String())
	})
	b.Run("server", func(b *testing.B) {
		run(b, newRig(b, forwarding(groupOf("g", target)), func(o *Options) { o.AccessLog = nil }).address)
	})
}
