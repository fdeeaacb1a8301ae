package application

import (
	"crypto/tls"
	"strconv"
	"time"
)

// logConnection logs a connection of a client, and whether its TLS handshake failed. It is of one of HTTP, too.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-connection-logs.html
func (s *Server) logConnection(st *state, c *client, secure bool, failure error) {
	if s.o.ConnectionLog == nil || !st.spec.ConnectionLog {
		return
	}
	b := new(entry)
	for _, field := range []string{c.since.UTC().Format(logTime), c.address.Addr().String(),
		strconv.Itoa(int(c.address.Port())), st.port} {
		b.add(field)
	}
	latency, verified, exchange := "", "", ""
	switch {
	case failure != nil:
		verified = "Failed:UnmappedConnectionError"
	case secure:
		latency, verified, exchange = seconds(time.Since(c.since), true), "Success", exchangeName(c.tls.CurveID)
	}
	if c.tls != nil {
		b.add(versionName(c.tls.Version))
		b.add(cipherName(c.tls.CipherSuite))
	} else {
		b.add("")
		b.add("")
	}
	b.add(latency)
	b.quote("") // no client has a certificate
	b.add("")
	b.add("")
	b.add(verified)
	b.add(c.trace())
	b.add(exchange)
	b.add(st.spec.Log)
	s.o.ConnectionLog(b.String())
}

// exchangeNames are OpenSSL's names of key exchanges that have others in Go.
var exchangeNames = map[tls.CurveID]string{tls.X25519: "x25519", tls.CurveP256: "secp256r1", tls.CurveP384: "secp384r1",
	tls.CurveP521: "secp521r1"}

// exchangeName returns the name of a key exchange; empty where there was none.
func exchangeName(id tls.CurveID) string {
	if id == 0 {
		return ""
	}
	if name := exchangeNames[id]; name != "" {
		return name
	}
	return id.String()
}
