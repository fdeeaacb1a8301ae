package etcd_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/pki"
)

// serve runs the etcd in dir until stop is called or the test ends.
func serve(t *testing.T, dir string) (c *etcd.Connection, stop func()) {
	t.Helper()
	e, err := etcd.Prepare(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- etcd.Serve(ctx, dir) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("etcd ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	connecting, done := context.WithTimeout(t.Context(), eventually.Limit)
	defer done()
	c, err = e.Connect(connecting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, stop
}

// as returns a client with the certificate.
func as(t *testing.T, c *etcd.Connection, pair pki.Pair) *clientv3.Client {
	t.Helper()
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if pair.Certificate != nil {
		cert, err := tls.X509KeyPair(pair.Certificate, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints, TLS: config, DialTimeout: eventually.Limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestUsersSeeTheirOwnPrefixOnly(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, t.TempDir())
	ctx := t.Context()
	if _, err := c.Client.Put(ctx, "/coracle/t/secret", "x"); err != nil {
		t.Fatalf("root may not write: %v", err)
	}
	for _, name := range []string{"blue", "green"} {
		prefix := "/clusters/" + name + "/"
		if _, err := c.Client.RoleAdd(ctx, name); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.RoleGrantPermission(ctx, name, prefix, clientv3.GetPrefixRangeEnd(prefix),
			clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.UserAddWithOptions(ctx, name, "",
			&clientv3.UserAddOptions{NoPassword: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.UserGrantRole(ctx, name, name); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := c.IssueClient("blue")
	if err != nil {
		t.Fatal(err)
	}
	blue := as(t, c, pair)
	if _, err := blue.Put(ctx, "/clusters/blue/a", "1"); err != nil {
		t.Errorf("blue may not write its own key: %v", err)
	}
	for _, key := range []string{"/clusters/green/a", "/coracle/t/secret", "/clusters/", "compact_rev_key"} {
		if _, err := blue.Get(ctx, key); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("blue reading %s: %v, want permission denied", key, err)
		}
		if _, err := blue.Put(ctx, key, "1"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("blue writing %s: %v, want permission denied", key, err)
		}
	}
	stranger, err := c.IssueClient("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as(t, c, stranger).Get(ctx, "/clusters/blue/a"); err == nil {
		t.Error("a user that does not exist reads blue's key")
	}

	naked := as(t, c, pki.Pair{})
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := naked.Get(short, "/clusters/blue/a"); err == nil {
		t.Error("a client without certificate reads blue's key")
	}
}

func TestRestartKeepsDataPortAndAuthentication(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, stop := serve(t, dir)
	endpoint := c.Endpoints[0]
	if _, err := c.Client.Put(t.Context(), "/a", "1"); err != nil {
		t.Fatal(err)
	}
	stop()
	started := time.Now()
	c, _ = serve(t, dir)
	t.Logf("etcd served again after %v", time.Since(started))
	if c.Endpoints[0] != endpoint {
		t.Errorf("endpoint is %s after a restart, was %s", c.Endpoints[0], endpoint)
	}
	resp, err := c.Client.Get(t.Context(), "/a")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "1" {
		t.Errorf("after a restart /a is %v, %v", resp, err)
	}
	status, err := c.Client.AuthStatus(t.Context())
	if err != nil || !status.Enabled {
		t.Errorf("authentication after a restart: %v, %v", status, err)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, _ := serve(t, dir)
	if _, err := c.Client.Put(t.Context(), "/a", "then"); err != nil {
		t.Fatal(err)
	}
	r, err := c.Client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var snapshot bytes.Buffer
	if _, err := snapshot.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Put(t.Context(), "/a", "later"); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, snapshot.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	if err := os.CopyFS(filepath.Join(copied, "pki"), os.DirFS(filepath.Join(dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	if err := etcd.Restore(copied, file); err != nil {
		t.Fatal(err)
	}
	restored, _ := serve(t, copied)
	resp, err := restored.Client.Get(t.Context(), "/a")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "then" {
		t.Errorf("restored /a is %v, %v; want then", resp, err)
	}

	damaged := snapshot.Bytes()
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(file, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := etcd.Restore(t.TempDir(), file); err == nil {
		t.Error("a damaged snapshot was restored")
	}
}

func TestPortInUseIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, _ := serve(t, dir)
	other := t.TempDir()
	var port int
	if _, err := fmt.Sscanf(c.Endpoints[0], "https://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "settings.json"), fmt.Appendf(nil, `{"port":%d}`, port),
		0o600); err != nil {
		t.Fatal(err)
	}
	err := etcd.Serve(t.Context(), other)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d", port)) || !strings.Contains(err.Error(),
		"in use") {
		t.Errorf("serving on a port in use: %v", err)
	}
}
