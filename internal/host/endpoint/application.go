package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/handshake"
	"github.com/coracle-eks/coracle/internal/host/application"
	"github.com/coracle-eks/coracle/internal/logs/vended"
)

// serveApplication serves a listener of an Application Load Balancer.
func (b *balancer) serveApplication(spec Balancer) {
	var err error
	b.application, err = application.New(*spec.Application, application.Options{
		Dial: func(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
			return connectFrom(ctx, b.spec.Load().Namespace, target)
		},
		Acquire: func(source netip.Addr) (func(), bool) {
			if source.IsValid() {
				return b.listener.AcquireRequest(source)
			}
			return connlimit.Acquire(spec.Share, 1)
		},
		AccessLog:     func(entry string) { b.logRequest(vended.ApplicationAccess, entry) },
		ConnectionLog: func(entry string) { b.logRequest(vended.ApplicationConnections, entry) },
		Log:           b.log,
	})
	b.warnIncomplete(spec, err)
	b.done.Go(func() {
		if err := b.application.Serve(b.listener); err != nil {
			b.log.Warn("a load balancer ended", "error", err)
		}
	})
}

// updateTLS changes with what certificates, and by which rules, further connections are served.
func (b *balancer) updateTLS(spec Balancer) {
	var err error
	if b.application != nil {
		err = b.application.Update(*spec.Application)
	}
	if b.terminator != nil {
		err = b.terminator.Update(*spec.TLS)
	}
	b.warnIncomplete(spec, err)
}

func (b *balancer) warnIncomplete(spec Balancer, err error) {
	if err != nil {
		b.log.Warn("a listener of a load balancer is not complete", "listener", spec.Key(), "error", err)
	}
}

// unwrapTLS ends TLS on a connection of a client, if it has any. What it returns of one whose handshake fails is for
// the log alone.
func (b *balancer) unwrapTLS(client *connlimit.Conn) (inner stream, secured *application.Secured, err error) {
	if b.terminator == nil {
		return client, nil, nil
	}
	secured, err = b.terminator.Handshake(b.ctx, client)
	return secured, secured, err
}

// logRequest adds an entry of a log of an Application Load Balancer, with the address that the load balancer has here.
func (b *balancer) logRequest(kind, entry string) {
	spec := b.spec.Load()
	b.addLog(spec, kind, time.Now(), entry+" "+spec.Listen.Addr().String())
}

// logTLS adds an entry of the access log of a Network Load Balancer for a connection that has ended.
func (b *balancer) logTLS(client *connlimit.Conn, secured *application.Secured) {
	spec := b.spec.Load()
	if secured == nil || spec.Logs == nil || !slices.Contains(spec.Logs.Types, vended.NetworkAccess) {
		return
	}
	var from netip.AddrPort
	if at, ok := client.RemoteAddr().(*net.TCPAddr); ok {
		from = netip.AddrPortFrom(at.AddrPort().Addr().Unmap(), at.AddrPort().Port())
	}
	now := time.Now()
	b.addLog(spec, vended.NetworkAccess, now, secured.Entry(spec.Logs.Name, spec.Logs.Listener, from, spec.Listen, now))
}

func (b *balancer) addLog(spec *Balancer, kind string, at time.Time, entry string) {
	if spec.Logs != nil && slices.Contains(spec.Logs.Types, kind) {
		b.logs.Add(vended.Log{Account: spec.Logs.Account, ID: spec.Logs.ID, Type: kind}, at, entry)
	}
}

// wrapTLS begins TLS on a connection to a target, if that is to have any.
func (b *balancer) wrapTLS(server *net.TCPConn, protocol string) (stream, error) {
	if !b.spec.Load().TargetTLS {
		return server, nil
	}
	config := unverified.Clone()
	if protocol != "" {
		config.NextProtos = []string{protocol}
	}
	return handshake.Client(b.ctx, server, config, targetTime)
}

// unverified is for connections to targets: a load balancer does not verify their certificates.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-target-groups.html
var unverified = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as on AWS
