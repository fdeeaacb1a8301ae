package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/pki"
)

// rootUser may do everything once authentication is on. etcd fixes the name.
const rootUser = "root"

// Embedded is the etcd of one data directory.
type Embedded struct {
	// Log receives what is repaired; slog.Default() when nil.
	Log *slog.Logger

	dir       string
	port      int
	quota     int64
	authority *pki.Authority
	caFile    string
	root      pki.Pair
}

// settings outlive the process: clusters know etcd by its port.
type settings struct {
	Port int `json:"port"`
	// Quota is the size in bytes at which the database is full; 0 for the usual one.
	Quota int64 `json:"quotaBytes,omitempty"`
}

// Prepare makes what the etcd in dir needs before it can start. It changes nothing that is there.
func Prepare(dir string) (*Embedded, error) {
	pkiDir := filepath.Join(dir, "pki")
	if err := os.MkdirAll(pkiDir, 0o700); err != nil {
		return nil, err
	}
	ca, err := pki.OpenAuthority(pkiDir, "ca", "coracle etcd")
	if err != nil {
		return nil, fmt.Errorf("etcd's certificate authority: %w", err)
	}
	_, _, err = ca.Ensure(pkiDir, "server", pki.Leaf{
		CommonName: "etcd", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true,
		Client: true,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd's server certificate: %w", err)
	}
	crt, key, err := ca.Ensure(pkiDir, rootUser, pki.Leaf{CommonName: rootUser, Client: true})
	if err != nil {
		return nil, fmt.Errorf("etcd's root certificate: %w", err)
	}
	root, err := readPair(crt, key)
	if err != nil {
		return nil, err
	}
	e := &Embedded{dir: dir, authority: ca, caFile: filepath.Join(pkiDir, "ca.crt"), root: root}
	if e.port, err = ensurePort(dir); err != nil {
		return nil, err
	}
	saved, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	if e.quota = saved.Quota; e.quota == 0 {
		e.quota = quota
	}
	return e, nil
}

func ensurePort(dir string) (int, error) {
	p, err := Port(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if p, err = freeport.Find(); err != nil {
		return 0, fmt.Errorf("a port for etcd: %w", err)
	}
	data, err := json.Marshal(settings{Port: p})
	if err != nil {
		return 0, err
	}
	return p, durable.WriteFile(filepath.Join(dir, "settings.json"), data, 0o600)
}

// Args returns the arguments after the program's name that run this etcd.
func (e *Embedded) Args() []string { return []string{"etcd", "--dir", e.dir} }

// Endpoint returns the URL for clients.
func (e *Embedded) Endpoint() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(e.port))
}

// Connect waits until the etcd serves and connects to it as root. An etcd that is full is repaired. The
// caller closes the connection.
func (e *Embedded) Connect(ctx context.Context) (*Connection, error) {
	tlsConfig, err := clientTLS(e.authority.PEM, e.root)
	if err != nil {
		return nil, err
	}
	client, err := dialEtcd([]string{e.Endpoint()}, tlsConfig)
	if err != nil {
		return nil, err
	}
	if err := enableAuthentication(ctx, client); err != nil {
		client.Close()
		return nil, fmt.Errorf("etcd at %s: %w", e.Endpoint(), err)
	}
	c := &Connection{
		Client:    client,
		Endpoints: []string{e.Endpoint()},
		CAFile:    e.caFile,
		authority: e.authority,
		own:       e.root,
		log:       cmp.Or(e.Log, slog.Default()),
		quota:     e.quota,
	}
	if _, err := c.reclaimSpace(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return c, nil
}

// enableAuthentication creates root and turns authentication on, as far as that is not done
// yet. It is safe to repeat after a crash at any point.
func enableAuthentication(ctx context.Context, client *clientv3.Client) error {
	status, err := retryRead(ctx, func(ctx context.Context) (*clientv3.AuthStatusResponse, error) {
		return client.AuthStatus(ctx)
	})
	if err != nil {
		return fmt.Errorf("does not answer: %w", err)
	}
	if status.Enabled {
		return nil
	}
	// The role root exists in every etcd, with its own meaning, as soon as it has been added.
	if _, err := client.RoleAdd(ctx, rootUser); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add the role root: %w", err)
	}
	_, err = client.UserAddWithOptions(ctx, rootUser, "", &clientv3.UserAddOptions{NoPassword: true})
	if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return fmt.Errorf("add the user root: %w", err)
	}
	if _, err := client.UserGrantRole(ctx, rootUser, rootUser); err != nil {
		return fmt.Errorf("grant root its role: %w", err)
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("enable authentication: %w", err)
	}
	return nil
}

// retryRead repeats a read until etcd serves. A starting etcd refuses connections for some tens of
// milliseconds, and has no leader for a moment after that; both show as errors of one attempt.
func retryRead[T any](ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		v, err := read(attempt)
		cancel()
		if err == nil {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("%w (last answer: %w)", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func dialEtcd(endpoints []string, tlsConfig *tls.Config) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		TLS:                  tlsConfig,
		DialTimeout:          10 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		// gRPC's default waits a second after the first refused connection.
		BackoffWaitBetween:  25 * time.Millisecond,
		MaxCallRecvMsgSize:  64 << 20,
		MaxCallSendMsgSize:  maxRequestBytes,
		Logger:              zap.NewNop(),
		PermitWithoutStream: true,
	})
}

func clientTLS(caPEM []byte, pair pki.Pair) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(caPEM) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(caPEM) {
			return nil, errors.New("the CA file of etcd holds no PEM certificate")
		}
	}
	if len(pair.Certificate) > 0 {
		cert, err := tls.X509KeyPair(pair.Certificate, pair.Key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate for etcd: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

func readPair(certificateFile, keyFile string) (pki.Pair, error) {
	cert, err := os.ReadFile(certificateFile)
	if err != nil {
		return pki.Pair{}, err
	}
	key, err := os.ReadFile(keyFile)
	return pki.Pair{Certificate: cert, Key: key}, err
}

// Port returns the port of the etcd in dir, or fs.ErrNotExist when none has been prepared.
func Port(dir string) (int, error) {
	s, err := readSettings(dir)
	return s.Port, err
}

func readSettings(dir string) (s settings, err error) {
	file := filepath.Join(dir, "settings.json")
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}
