package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The programs of the benchmark of load balancers: what pods run, a bare proxy, and what asks them.
const (
	serveWebArgument   = "serve-web"   // on :8080 and, for streams, :5201
	serveProxyArgument = "serve-proxy" // LISTEN TARGET...
	loadWebArgument    = "load-web"    // ADDRESS CONNECTIONS SECONDS: prints requests/s and the 99th percentile in ms
	streamArgument     = "stream"      // ADDRESS MIB: prints MiB/s
)

func init() {
	programs[serveWebArgument] = serveWeb
	programs[serveProxyArgument] = serveProxy
	programs[loadWebArgument] = loadWeb
	programs[streamArgument] = stream
}

// serveWeb answers requests until it is told to end, and then those that it has.
func serveWeb([]string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	sink, err := net.Listen("tcp", ":5201")
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := sink.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn)
				_, _ = conn.Write([]byte{1})
			}()
		}
	}()
	server := &http.Server{Addr: ":8080", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.Shutdown(context.WithoutCancel(ctx))
	}
}

// serveProxy is Go's reverse proxy and nothing else.
func serveProxy(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: %s LISTEN TARGET...", serveProxyArgument)
	}
	var to []*url.URL
	for _, target := range args[1:] {
		to = append(to, &url.URL{Scheme: "http", Host: target})
	}
	var turn atomic.Uint64
	return http.ListenAndServe(args[0], &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to[turn.Add(1)%uint64(len(to))]) },
		Transport:  &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		BufferPool: &copyBuffers{sync.Pool{New: func() any { return make([]byte, 32<<10) }}},
	})
}

type copyBuffers struct{ pool sync.Pool }

func (b *copyBuffers) Get() []byte  { return b.pool.Get().([]byte) }
func (b *copyBuffers) Put(p []byte) { b.pool.Put(p) } //nolint:staticcheck // the proxy has slices

// loadWeb makes requests by connections that stay open, each one request after the other.
func loadWeb(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: %s ADDRESS CONNECTIONS SECONDS", loadWebArgument)
	}
	connections, err1 := strconv.Atoi(args[1])
	length, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	took, failures := make([][]time.Duration, connections), make([]error, connections)
	var clients sync.WaitGroup
	began := time.Now()
	for i := range connections {
		clients.Go(func() {
			took[i], failures[i] = askUntil(args[0], began.Add(time.Duration(length)*time.Second))
		})
	}
	clients.Wait()
	lasted := time.Since(began)
	if err := errors.Join(failures...); err != nil {
		return err
	}
	all := slices.Concat(took...)
	fmt.Printf("%.0f %.2f\n", float64(len(all))/lasted.Seconds(),
		float64(quantile(all, 0.99).Microseconds())/1000)
	return nil
}

// askUntil makes requests by a connection until a time, and returns how long each took. It is so simple that what is
// measured is the other side.
func askUntil(address string, end time.Time) (took []time.Duration, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	question := []byte("GET / HTTP/1.1\r\nHost: a.example\r\nUser-Agent: load\r\nAccept: */*\r\n\r\n")
	in := bufio.NewReader(conn)
	for {
		now := time.Now()
		if now.After(end) {
			return took, nil
		}
		if _, err := conn.Write(question); err != nil {
			return nil, err
		}
		length := -1
		for line := "-"; line != ""; {
			b, err := in.ReadSlice('\n')
			if err != nil {
				return nil, err
			}
			if line = strings.TrimSpace(string(b)); strings.HasPrefix(line, "HTTP/1.1") && line != "HTTP/1.1 200 OK" {
				return nil, errors.New(line)
			}
			if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				if length, err = strconv.Atoi(value); err != nil {
					return nil, err
				}
			}
		}
		if length < 0 {
			return nil, errors.New("the answer has no length")
		}
		if _, err := in.Discard(length); err != nil {
			return nil, err
		}
		took = append(took, time.Since(now))
	}
}

// stream sends so much by one connection.
func stream(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: %s ADDRESS MIB", streamArgument)
	}
	mebibytes, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	block := make([]byte, 1<<20)
	began := time.Now()
	for range mebibytes {
		if _, err := conn.Write(block); err != nil {
			return err
		}
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, block[:1]); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%.0f\n", float64(mebibytes)/time.Since(began).Seconds())
	return nil
}
