package extensionmetrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// idleTime is the time that a connection may be quiet: the API server asks every half a minute whether the group is
	// available.
	idleTime = time.Minute
	// requestTime bounds one request, headers to answer.
	requestTime = 30 * time.Second
	// maxRequests is the number of requests of a connection that are answered at a time; others wait.
	maxRequests = 8
	maxHeader   = 64 << 10
)

// Serve answers an API server on a connection until that, or ctx, ends. An error says why it could not begin to.
func Serve(ctx context.Context, conn net.Conn, c Config) error {
	serving, err := c.serverTLS()
	if err != nil {
		return fmt.Errorf("serve the metrics of a control plane: %w", err)
	}
	transport, err := c.newTransport()
	if err != nil {
		return fmt.Errorf("serve the metrics of a control plane: %w", err)
	}
	defer transport.CloseIdleConnections()
	quiet := log.New(io.Discard, "", 0) // errors are answered
	handler, err := c.handler(transport, quiet)
	if err != nil {
		return fmt.Errorf("serve the metrics of a control plane: %w", err)
	}
	server := &http.Server{
		Handler: handler, TLSConfig: serving, ErrorLog: quiet, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: requestTime, ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: idleTime,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxRequests},
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	_ = server.ServeTLS(&listener{conn: conn, closed: make(chan struct{})}, "", "") // ends with the connection
	return nil
}

func (c Config) file(name string) string { return filepath.Join(c.Dir, name) }

// serverTLS admits the API server of the cluster alone.
func (c Config) serverTLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.file(ServingCertificate+".crt"), c.file(ServingCertificate+".key"))
	if err != nil {
		return nil, err
	}
	clients, err := readPool(c.file("front-proxy-ca.crt"))
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.VerifiedChains[0][0].Subject.CommonName; name != Client {
				return fmt.Errorf("%q is not the API server", name)
			}
			return nil
		},
	}, nil
}

// newTransport returns the way to the components.
func (c Config) newTransport() (*http.Transport, error) {
	pair, err := tls.LoadX509KeyPair(c.file(ClientCertificate+".crt"), c.file(ClientCertificate+".key"))
	if err != nil {
		return nil, err
	}
	servers, err := readPool(c.file("ca.crt"))
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: servers,
			MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:  true,
		DisableCompression: true, // whoever asks gets what it takes
		Proxy:              func(*http.Request) (*url.URL, error) { return nil, nil },
		DialContext:        (&net.Dialer{Timeout: requestTime}).DialContext,
		MaxConnsPerHost:    maxRequests, TLSHandshakeTimeout: requestTime, ResponseHeaderTimeout: requestTime,
		IdleConnTimeout: idleTime,
	}, nil
}

func readPool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return pool, nil
}

// handler answers requests that the API server has authorized.
func (c Config) handler(transport http.RoundTripper, errorLog *log.Logger) (http.Handler, error) {
	proxies := map[string]http.Handler{}
	for name, text := range c.Components {
		target, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", name, err)
		}
		proxies[name] = &httputil.ReverseProxy{
			Transport: transport, ErrorLog: errorLog,
			Rewrite: func(r *httputil.ProxyRequest) {
				header := http.Header{} // the component is told nothing of the user
				for _, name := range []string{"Accept", "Accept-Encoding"} {
					if values := r.In.Header.Values(name); len(values) > 0 {
						header[name] = values
					}
				}
				r.Out.URL, r.Out.Host, r.Out.Header, r.Out.Body = target, "", header, nil
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				writeStatus(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
					"the metrics of "+name+" cannot be read: "+unwrap(err).Error())
			},
		}
	}
	mux := http.NewServeMux()
	base := "/apis/" + Group
	mux.HandleFunc("GET "+base+"/"+Version+"/{component}/container/metrics",
		func(w http.ResponseWriter, r *http.Request) {
			proxy, known := proxies[r.PathValue("component")]
			if !known {
				notFound(w, r)
				return
			}
			proxy.ServeHTTP(w, r)
		})
	version := metav1.GroupVersionForDiscovery{GroupVersion: Group + "/" + Version, Version: Version}
	serveJSON(mux, base, metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
	serveJSON(mux, base+"/"+Version, metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.GroupVersion,
		APIResources: c.resources(),
	})
	// There are no types to describe.
	serveJSON(mux, "/openapi/v2", map[string]any{"swagger": "2.0", "paths": map[string]any{},
		"info": map[string]string{"title": Service, "version": Version}})
	serveJSON(mux, "/openapi/v3", map[string]any{"paths": map[string]any{}})
	mux.HandleFunc("/", notFound)
	return mux, nil
}

// resources returns what the group has: text that is read, and no objects. Clients that list or delete whatever there
// is go by the verbs.
func (c Config) resources() []metav1.APIResource {
	var all []metav1.APIResource
	for _, name := range []string{ControllerManager, Scheduler} {
		if c.Components[name] != "" {
			all = append(all, metav1.APIResource{Name: name, Kind: "Metrics", Verbs: metav1.Verbs{}},
				metav1.APIResource{Name: name + "/metrics", Kind: "Metrics", Verbs: metav1.Verbs{"get"}})
		}
	}
	return all
}

func serveJSON(mux *http.ServeMux, path string, content any) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, content) })
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

func writeStatus(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	writeJSON(w, int(code), metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message})
}

func writeJSON(w http.ResponseWriter, code int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(content) // a write fails only when the API server has gone
}

// unwrap returns the cause of an error without the address of the component, which is this host's.
func unwrap(err error) error {
	var dialing *net.OpError
	if errors.As(err, &dialing) {
		return dialing.Err
	}
	return err
}

// listener gives one connection to a server, and ends when that is closed.
type listener struct {
	conn   net.Conn
	given  bool
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener]. One goroutine calls it.
func (l *listener) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return &served{l.conn, l}, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return l.conn.LocalAddr() }

// served ends its listener when it is closed.
type served struct {
	net.Conn
	listener *listener
}

func (s *served) Close() error {
	defer s.listener.Close()
	return s.Conn.Close()
}
