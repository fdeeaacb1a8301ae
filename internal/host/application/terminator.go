package application

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/logs/vended"
)

// Terminator ends the TLS of clients, for listeners that forward what is in it as it is.
type Terminator struct{ config atomic.Pointer[tls.Config] }

// protocols are what listeners of Network Load Balancers offer by their ALPN policies.
var protocols = map[string][]string{
	ALPNHTTP1Only:      {"http/1.1", "http/1.0"},
	ALPNHTTP2Only:      {"h2"},
	ALPNHTTP2Optional:  {"http/1.1", "http/1.0", "h2"},
	ALPNHTTP2Preferred: {"h2", "http/1.1", "http/1.0"},
}

// NewTerminator returns a Terminator. An error tells what certificates it leaves out.
func NewTerminator(spec TLS) (*Terminator, error) {
	t := new(Terminator)
	return t, t.Update(spec)
}

// Update replaces the configuration of further connections. It leaves out certificates that do not match their keys,
// and returns why.
func (t *Terminator) Update(spec TLS) error {
	certs, err := parseCertificates(spec.Certificates)
	t.config.Store(newTLSConfig(spec, certs, protocols[spec.ALPN]))
	return err
}

// Handshake ends TLS on a connection of a client. The caller closes the connection if it fails; what it returns then
// is for the log alone.
func (t *Terminator) Handshake(ctx context.Context, c net.Conn) (*Secured, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	bounded := handshake.Bound(c, handshake.MostOfClient)
	s := &Secured{hello: &greeted{Conn: bounded}, began: time.Now()}
	s.Conn = tls.Server(s.hello, t.config.Load())
	err := s.HandshakeContext(ctx)
	if err == nil {
		bounded.End()
	}
	s.observe(err)
	s.handshake, s.failed = time.Since(s.began), err != nil
	return s, err
}

// greeted is a connection of a client under TLS, with what the client has said when it chose a certificate.
type greeted struct {
	net.Conn
	certificate string // its ARN
	offered     []string
}

// Secured is a connection of a client whose TLS has ended here.
type Secured struct {
	*tls.Conn
	hello         *greeted
	began         time.Time
	handshake     time.Duration
	failed        bool
	read, written atomic.Int64
	alert         atomic.Int32 // from the client, and one more
}

// Read reads what is in TLS.
func (s *Secured) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.read.Add(int64(n))
	s.observe(err)
	return n, err
}

// Write writes what is to be in TLS.
func (s *Secured) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.written.Add(int64(n))
	return n, err
}

// observe keeps the alert that a client has sent.
func (s *Secured) observe(err error) {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" || remote.Err == nil {
		return
	}
	if v := reflect.ValueOf(remote.Err); v.Kind() == reflect.Uint8 { // crypto/tls does not export the type
		s.alert.Store(int32(v.Uint()) + 1)
	}
}

// networkTime is the form of times in access logs of Network Load Balancers.
const networkTime = "2006-01-02T15:04:05"

// Entry returns the entry of the connection in the access log of a Network Load Balancer, by the name of that and the
// ID of its listener, once it has ended.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-access-logs.html
func (s *Secured) Entry(log, listener string, client, destination netip.AddrPort, now time.Time) string {
	milliseconds := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	b, state := new(entry), s.ConnectionState()
	for _, field := range []string{"tls", "2.0", now.UTC().Format(networkTime), log, listener, client.String(),
		destination.String(), milliseconds(now.Sub(s.began))} {
		b.add(field)
	}
	handshake, alert := "", ""
	if !s.failed {
		handshake = milliseconds(s.handshake)
	}
	if n := s.alert.Load(); n > 0 {
		alert = strconv.Itoa(int(n - 1))
	}
	for _, field := range []string{handshake, strconv.FormatInt(s.read.Load(), 10),
		strconv.FormatInt(s.written.Load(), 10), alert} {
		b.add(field)
	}
	certificate := s.hello.certificate
	if state.DidResume {
		certificate = "session-reused"
	}
	b.add(certificate)
	b.add("")
	cipher, version, exchange := "", "", ""
	if !s.failed {
		cipher, exchange = cipherName(state.CipherSuite), exchangeName(state.CurveID)
		version = "tls" + strings.ReplaceAll(strings.TrimPrefix(versionName(state.Version), "TLS"), ".", "")
		if version == "tlsv1" {
			version = "tlsv10"
		}
	}
	var offered []string
	for _, p := range s.hello.offered {
		offered = append(offered, `"`+vended.Escape(p)+`"`)
	}
	for _, field := range []string{cipher, version, exchange, word(state.ServerName), word(state.NegotiatedProtocol), "",
		strings.Join(offered, ","), s.began.UTC().Format(networkTime)} {
		b.add(field)
	}
	return b.String()
}

// word returns a text from a client as a field without quotes.
func word(text string) string { return strings.ReplaceAll(vended.Escape(text), " ", `\x20`) }
