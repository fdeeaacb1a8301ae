package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/pki"
)

// Connection is an etcd in use.
type Connection struct {
	Client *clientv3.Client
	// Endpoints and CAFile are for other clients that connect, such as API servers. CAFile is empty when the etcd is
	// served without TLS or with a certificate of a public CA.
	Endpoints []string
	CAFile    string

	authority *pki.Authority // signs client certificates; nil when only own can be used
	own       pki.Pair       // empty when the etcd takes clients without certificates

	log   *slog.Logger // of repairs; nil for an etcd that somebody else runs
	quota int64
}

// Separates reports whether IssueClient makes a certificate for each user. If not, all clients
// of this daemon share one identity, and etcd cannot keep clusters apart.
func (c *Connection) Separates() bool { return c.authority != nil }

// IssueClient returns a certificate for the etcd user of that name. Where the connection does not separate users it is
// the daemon's own certificate, or empty for an etcd without TLS.
func (c *Connection) IssueClient(user string) (pki.Pair, error) {
	if c.authority == nil {
		return c.own, nil
	}
	return c.authority.Issue(pki.Leaf{CommonName: user, Client: true})
}

// Size returns the size of the data in the database, in bytes, and that of its file on the disk.
func (c *Connection) Size(ctx context.Context) (used, file int64, err error) {
	status, err := c.Client.Status(ctx, c.Endpoints[0])
	if err != nil {
		return 0, 0, fmt.Errorf("ask etcd for its size: %w", err)
	}
	return status.DbSizeInUse, status.DbSize, nil
}

// Close ends the connection; the etcd keeps running.
func (c *Connection) Close() error { return c.Client.Close() }

// External is an etcd cluster that the user runs.
type External struct {
	Endpoints []string
	// CACert, Cert and Key are PEM files: the CA of the servers, and the daemon's own identity.
	CACert, Cert, Key string
	// ClientCAKey is the PEM key of CACert, when the daemon may issue client certificates for
	// its clusters.
	ClientCAKey string
}

// Connect waits until the cluster answers.
func (x External) Connect(ctx context.Context) (*Connection, error) {
	c := &Connection{Endpoints: x.Endpoints, CAFile: x.CACert}
	var caPEM []byte
	var err error
	if x.CACert != "" {
		if caPEM, err = os.ReadFile(x.CACert); err != nil {
			return nil, fmt.Errorf("--etcd-cacert: %w", err)
		}
	}
	if (x.Cert == "") != (x.Key == "") {
		return nil, errors.New("--etcd-cert and --etcd-key go together; only one is given")
	}
	if x.Cert != "" {
		if c.own, err = readPair(x.Cert, x.Key); err != nil {
			return nil, fmt.Errorf("--etcd-cert, --etcd-key: %w", err)
		}
	}
	if x.ClientCAKey != "" {
		if x.CACert == "" {
			return nil, errors.New("--etcd-client-ca-key is the key of --etcd-cacert, which is not given")
		}
		if c.authority, err = pki.ReadAuthority(x.CACert, x.ClientCAKey); err != nil {
			return nil, fmt.Errorf("--etcd-client-ca-key: %w", err)
		}
	}
	tlsConfig, err := clientTLS(caPEM, c.own)
	if err != nil {
		return nil, err
	}
	if c.Client, err = dialEtcd(x.Endpoints, tlsConfig); err != nil {
		return nil, fmt.Errorf("--etcd-endpoints: %w", err)
	}
	_, err = retryRead(ctx, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return c.Client.Get(ctx, "/coracle/schema")
	})
	if err != nil {
		c.Client.Close()
		return nil, fmt.Errorf("etcd at %v does not answer: %w", x.Endpoints, err)
	}
	return c, nil
}
