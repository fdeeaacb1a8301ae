package outbound

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"golang.org/x/net/proxy"
)

type dialContext = func(ctx context.Context, network, address string) (net.Conn, error)

// proxied makes the connections of a transport, through the operator's proxy where there is one. A proxy is asked for
// an address that was resolved and checked here. It would otherwise connect to what its own resolver says, which may
// be another answer, in the operator's network.
type proxied struct {
	policy  Policy
	proxy   func(*http.Request) (*url.URL, error)
	resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
	direct  dialContext // to what the policy admits
	connect dialContext // to the proxy
	tls     *tls.Config // of a proxy that is reached over TLS
}

func (p *proxied) dialProxy(ctx context.Context, network, address string) (net.Conn, error) {
	server, err := p.proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	if err != nil {
		return nil, fmt.Errorf("proxy of the environment: %w", err)
	}
	if server == nil {
		return p.direct(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := p.resolve(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve the name that is asked for through the proxy: %w", err)
	}
	var failures []error
	for _, a := range addresses {
		a = unmapAddress(a)
		if err := p.policy.Check(a); err != nil {
			failures = append(failures, err)
			continue
		}
		conn, err := p.through(ctx, server, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return nil, errors.Join(failures...)
}

// through connects to an address through a proxy.
func (p *proxied) through(ctx context.Context, server *url.URL, address string) (net.Conn, error) {
	switch server.Scheme {
	case "socks5", "socks5h":
		var auth *proxy.Auth
		if user := server.User; user != nil {
			password, _ := user.Password()
			auth = &proxy.Auth{User: user.Username(), Password: password}
		}
		dialer, err := proxy.SOCKS5("tcp", joinHostPort(server, "1080"), auth, forward(p.connect))
		if err != nil {
			return nil, err
		}
		return dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	case "http", "https":
	default:
		return nil, fmt.Errorf("the scheme %q of the proxy is none of http, https and socks5", server.Scheme)
	}
	defaults := map[string]string{"http": "80", "https": "443"}
	conn, err := p.connect(ctx, "tcp", joinHostPort(server, defaults[server.Scheme]))
	if err != nil {
		return nil, fmt.Errorf("connect to the proxy: %w", err)
	}
	if server.Scheme == "https" {
		config := p.tls.Clone()
		if config == nil {
			config = &tls.Config{}
		}
		config.ServerName, config.NextProtos = server.Hostname(), nil
		conn = tls.Client(conn, config)
	}
	tunnel, err := connect(ctx, conn, server, address)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return tunnel, nil
}

// connect asks an HTTP proxy for a tunnel to an address.
// https://www.rfc-editor.org/rfc/rfc9110#name-connect
func connect(ctx context.Context, conn net.Conn, server *url.URL, address string) (net.Conn, error) {
	// Whoever waits gives up by closing the connection.
	ctx, cancel := context.WithTimeoutCause(ctx, headerTimeout, errors.New("the proxy does not answer"))
	defer cancel()
	ended := context.AfterFunc(ctx, func() { conn.Close() })
	fail := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("ask the proxy to connect: %w", err)
	}
	request := &http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Opaque: address},
		Host:   address,
		Header: http.Header{},
	}
	if user := server.User; user != nil {
		password, _ := user.Password()
		basic := &http.Request{Header: http.Header{}}
		basic.SetBasicAuth(user.Username(), password)
		request.Header.Set("Proxy-Authorization", basic.Header.Get("Authorization"))
	}
	if err := request.Write(conn); err != nil {
		return nil, fail(err)
	}
	// Nothing comes after the answer until this side has spoken: TLS begins with the client.
	reader := bufio.NewReader(io.LimitReader(conn, maxHeader))
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, fail(err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fail(fmt.Errorf("it answers %s", response.Status))
	}
	if reader.Buffered() > 0 {
		return nil, fail(errors.New("it sends more than its answer"))
	}
	if !ended() {
		return nil, fail(net.ErrClosed)
	}
	return conn, nil
}

// forward is a [proxy.ContextDialer].
type forward dialContext

func (f forward) Dial(network, address string) (net.Conn, error) {
	return f(context.Background(), network, address)
}

func (f forward) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// joinHostPort returns the host and the port of a proxy.
func joinHostPort(server *url.URL, defaultPort string) string {
	if server.Port() != "" {
		defaultPort = server.Port()
	}
	return net.JoinHostPort(server.Hostname(), defaultPort)
}
