//go:build linux

package endpoint

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/application"
	"github.com/coracle-eks/coracle/internal/logs/vended"
)

// logged waits for an entry of a log that matches an expression.
func (b balancerRig) logged(root string, l vended.Log, want string) {
	b.t.Helper()
	last := ""
	eventually.True(b.t, fmt.Sprintf("an entry of %s like %s", l.Type, want), func() bool {
		entries, _, err := vended.Read(root, l, vended.Position{})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range entries {
			if last = e.Text; regexp.MustCompile("^" + want + "$").MatchString(e.Text) {
				return true
			}
		}
		return false
	})
	if b.t.Failed() {
		b.t.Logf("the last is %s", last)
	}
}

const (
	timePattern  = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`
	shortPattern = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`
)

// TestLogsOfLoadBalancers writes the logs of an Application Load Balancer with and without TLS, and of a Network Load
// Balancer with a TLS listener.
func TestLogsOfLoadBalancers(t *testing.T) {
	t.Parallel()
	b, root := newBalancerRig(t), t.TempDir()
	_, certificate := b.server(true, nil)
	target, _ := b.server(false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "there") })
	listener := application.Listener{Port: 80, Secret: bytes.Repeat([]byte{1}, 32), Log: "app/web/1",
		Attributes: application.DefaultAttributes(), AccessLog: true, ConnectionLog: true,
		Groups: []application.TargetGroup{{ID: "g", ARN: "arn:g", Protocol: "HTTP", Version: application.HTTP1,
			Targets: []application.Target{{Address: netip.MustParseAddrPort(target)}}}},
		Rules: []application.Rule{{Priority: "default", Actions: []application.Action{{Forward: &application.Forward{
			Groups: []application.WeightedGroup{{ID: "g", Weight: 1}}}}}}}}
	spec := b.spec()
	spec.Application = &listener
	spec.Logs = &BalancerLogs{Account: "111122223333", ID: "1", Name: "app/web/1", Listener: "l",
		Types: []string{vended.ApplicationAccess, vended.ApplicationConnections}}
	apply := func() { b.done(Config{Balancers: []Balancer{spec}, LogDir: root}) }
	apply()
	access := vended.Log{Account: "111122223333", ID: "1", Type: vended.ApplicationAccess}
	connections := vended.Log{Account: "111122223333", ID: "1", Type: vended.ApplicationConnections}
	b.get(b.browser(), "http://a.example/x")
	b.logged(root, access, `http `+timePattern+` app/web/1 10\.0\.0\.10:\d+ `+regexp.QuoteMeta(target)+
		` .* 200 200 \d+ \d+ "GET http://a\.example:80/x HTTP/1\.1" .* arn:g .* "forward" .* 10\.0\.0\.20`)
	b.logged(root, connections, timePattern+` 10\.0\.0\.10 \d+ 80 - - - "-" - - - TID_[0-9a-f]{32} - app/web/1 10\.0\.0\.20`)

	secure := listener
	secure.Port, secure.TLS = 443, &application.TLS{Certificates: []application.Certificate{certificate}}
	spec.Application = &secure
	apply()
	b.get(b.browser(), "https://a.example/y")
	b.logged(root, access, `h2 .* "GET https://a\.example:443/y HTTP/2\.0" .* 10\.0\.0\.20`)
	b.logged(root, connections, timePattern+` 10\.0\.0\.10 \d+ 443 TLSv1\.3 TLS_AES_128_GCM_SHA256 0\.\d{3} "-" - - Success `+
		`TID_[0-9a-f]{32} \S+ app/web/1 10\.0\.0\.20`)
	conn, err := dial(t, b.client, net.Dialer{}, balancerAddress)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "no TLS at all")
	b.logged(root, connections, timePattern+` 10\.0\.0\.10 \d+ 443 - - - "-" - - Failed:UnmappedConnectionError TID_.*`)

	// A Network Load Balancer: a connection that has ended.
	spec = b.spec(target)
	spec.TLS = &application.TLS{Certificates: []application.Certificate{certificate}, ALPN: application.ALPNHTTP1Only}
	spec.Logs = &BalancerLogs{Account: "111122223333", ID: "2", Name: "net/web/2", Listener: "l",
		Types: []string{vended.NetworkAccess}}
	apply()
	network := vended.Log{Account: "111122223333", ID: "2", Type: vended.NetworkAccess}
	browser := b.browser()
	b.get(browser, "https://a.example/z")
	browser.CloseIdleConnections()
	b.logged(root, network, `tls 2\.0 `+shortPattern+` net/web/2 l 10\.0\.0\.10:\d+ 10\.0\.0\.20:80 \d+ \d+ [1-9]\d* [1-9]\d* - `+
		`arn - TLS_AES_128_GCM_SHA256 tlsv13 \S+ a\.example http/1\.1 - "h2","http/1\.1" `+shortPattern)
	conn, err = dial(t, b.client, net.Dialer{}, balancerAddress)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "no TLS at all")
	b.logged(root, network, `tls 2\.0 `+shortPattern+` net/web/2 l 10\.0\.0\.10:\d+ 10\.0\.0\.20:80 \d+ - 0 0 - - - - - - - - - - `+
		shortPattern)

	// Without a delivery nothing is written.
	spec.Logs = nil
	apply()
	if err := vended.Remove(root, network); err != nil {
		t.Fatal(err)
	}
	b.get(b.browser(), "https://a.example/")
	if all, err := vended.Logs(root); err != nil || len(all) != 2 {
		t.Errorf("the logs are %v, %v", all, err)
	}
}
