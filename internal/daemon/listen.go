package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/soheilhy/cmux"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/pki"
)

// How many connections to the AWS endpoint a source may have open, and all sources. Programs of the host have one
// source.
const (
	perSource = 4096
	perDaemon = 16384
)

// openListener opens the address of the AWS endpoint, or says who has it and what to do.
func openListener(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return connlimit.New(l, connlimit.Limits{Share: "host", PerSource: perSource, Total: perDaemon}), nil
	case errors.Is(err, syscall.EADDRINUSE):
		_, port, _ := net.SplitHostPort(address)
		return nil,
			fmt.Errorf(
				"%s is in use by another program (ss -ltnp 'sport = :%s' shows which): stop it, or choose another "+
					"address with --listen HOST:PORT", address, port)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("you may not listen on %s: run as root, or choose a port above 1023 with --listen",
			address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this host: choose another with --listen", address)
	}
	return nil, fmt.Errorf("--listen: %w", err)
}

// sniffTime is the time that a new connection may take until it is known whether it speaks TLS.
const sniffTime = 10 * time.Second

// serveBoth serves plain HTTP and TLS on one listener until ctx ends: what a connection speaks
// shows in its first bytes. Requests under way have until grace to finish.
func serveBoth(ctx context.Context, l net.Listener, handler http.Handler, certificates *certificates,
	grace time.Duration, log *slog.Logger) error {
	split := cmux.New(l)
	split.SetReadTimeout(sniffTime)
	split.HandleError(func(error) bool { return true }) // one connection's failure is not the listener's
	secure, plain := split.Match(cmux.TLS()), split.Match(cmux.Any())

	server := wire.Server("", handler)
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificates.getCertificate,
		NextProtos: []string{"http/1.1"}}
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)

	var serving sync.WaitGroup
	failed := make(chan error, 3)
	run := func(serve func() error) {
		serving.Go(func() {
			err := serve()
			if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) &&
				!errors.Is(err, cmux.ErrServerClosed) && !errors.Is(err, cmux.ErrListenerClosed) {
				failed <- err
			}
		})
	}
	run(func() error { return server.ServeTLS(secure, "", "") })
	run(func() error { return server.Serve(plain) })
	run(split.Serve)

	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(shutdown) != nil {
		server.Close() // some took too long
	}
	split.Close()
	l.Close()
	serving.Wait()
	return err
}

// certificates are the daemon's own for the names under which clients may think to reach it:
// the host's, and those of AWS, for clients that are made to resolve them to this host.
type certificates struct {
	authority *pki.Authority
	anyName   bool // clients may know the host by any
	hosts     []string
	ips       []net.IP
	issuing   singleflight.Group // by server name

	mu   sync.Mutex
	made map[string]*tls.Certificate // by server name
}

const maxCertificates = 1000

// newCertificates returns those for the addresses, HOST:PORT, beside those that every host has. An empty one is none.
func newCertificates(authority *pki.Authority, addresses ...string) *certificates {
	c := &certificates{
		authority: authority,
		hosts:     []string{"localhost"},
		ips:       []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		made:      map[string]*tls.Certificate{},
	}
	if name, err := os.Hostname(); err == nil {
		c.hosts = append(c.hosts, name)
	}
	for _, address := range addresses {
		c.anyName = c.anyName || address == Auto
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			c.ips = append(c.ips, ip)
		} else if ip == nil && host != "" && !slices.Contains(c.hosts, host) {
			c.hosts = append(c.hosts, host)
		}
	}
	return c
}

// getCertificate answers a TLS client: a name of AWS gets a certificate of its own, everybody else the host's.
func (c *certificates) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if !isName(name) || !c.anyName && !isAWSName(name) {
		name = ""
	}
	if cert := c.find(name); cert != nil {
		return cert, nil
	}
	cert, err, _ := c.issuing.Do(name, func() (any, error) { return c.issue(name) }) // others do not wait for it
	if err != nil {
		return nil, err
	}
	return cert.(*tls.Certificate), nil
}

// find returns the certificate for a name, nil when another must be issued.
func (c *certificates) find(name string) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cert := c.made[name]; cert != nil && time.Until(cert.Leaf.NotAfter) > 24*time.Hour {
		return cert
	}
	return nil
}

func (c *certificates) issue(name string) (*tls.Certificate, error) {
	leaf := pki.Leaf{CommonName: name, DNSNames: []string{name}, Server: true}
	if name == "" {
		// Not the authority's name: OpenSSL would take it for a certificate that signs itself.
		leaf = pki.Leaf{CommonName: hostName, DNSNames: c.hosts, IPs: c.ips, Server: true}
	}
	pair, err := c.authority.Issue(leaf)
	if err != nil {
		return nil, err
	}
	// With the authority's: IAM's clients take the last certificate of an issuer's for its thumbprint, which is then
	// the same whenever they ask.
	cert, err := tls.X509KeyPair(slices.Concat(pair.Certificate, c.authority.PEM), pair.Key)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) >= maxCertificates {
		clear(c.made) // names cost a client nothing, and us a signature
	}
	c.made[name] = &cert
	return &cert, nil
}

// isName reports whether a name is of a length that DNS allows: certificates are kept.
func isName(name string) bool {
	return len(validation.IsDNS1123Subdomain(name)) == 0 && !slices.ContainsFunc(strings.Split(name, "."),
		func(label string) bool { return len(label) > validation.DNS1123LabelMaxLength })
}

// hostName is the common name of the certificate of the host's names.
const hostName = "coracle endpoint"

// awsDomains are the domains of AWS's names.
var awsDomains = []string{"amazonaws.com", "amazonaws.com.cn", "api.aws", "on.aws"}

// isAWSName reports whether a name is one of AWS's.
func isAWSName(name string) bool {
	return slices.ContainsFunc(awsDomains, func(domain string) bool { return strings.HasSuffix(name, "."+domain) })
}
