// Package storetest gives tests a store over a real etcd.
package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/store"
)

// New returns an empty store, which is removed at the end of the test. The tests of a process that run at the same time
// share one etcd, each under a prefix of its own.
func New(t testing.TB) *store.Store {
	t.Helper()
	return NewAt(t, Prefix(t))
}

// NewAt does what New does, under a prefix that the test knows, with options that the test may edit.
func NewAt(t testing.TB, prefix string, edits ...func(*store.Options)) *store.Store {
	t.Helper()
	options := store.Options{Prefix: prefix, Log: slog.New(slog.DiscardHandler), WriteTimeout: eventually.Limit}
	for _, edit := range edits {
		edit(&options)
	}
	s, err := store.Open(t.Context(), Client(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Rows returns all records of the store under a prefix, as they are stored, by table and key.
func Rows(t testing.TB, prefix string) map[string]string {
	t.Helper()
	prefix += "t/"
	answer, err := Client(t).Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, kv := range answer.Kvs {
		rows[strings.TrimPrefix(string(kv.Key), prefix)] = string(kv.Value)
	}
	return rows
}

// Prefix returns a prefix for the test's own keys in the shared etcd.
func Prefix(t testing.TB) string {
	return fmt.Sprintf("/%s-%d/", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
}

// Client returns a client of the shared etcd, without authentication, which is closed at the end of the test.
func Client(t testing.TB) *clientv3.Client {
	t.Helper()
	endpoint := shared.acquire(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: eventually.Limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

var shared server

// server is the etcd of this process; it runs while a test uses it.
type server struct {
	mu    sync.Mutex
	users int
	etcd  *embed.Etcd
	dir   string
}

func (s *server) acquire(t testing.TB) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd == nil {
		dir, err := os.MkdirTemp("", "storetest")
		if err != nil {
			t.Fatal(err)
		}
		etcd, err := startEtcd(filepath.Join(dir, "etcd"))
		if err != nil {
			os.RemoveAll(dir)
			t.Fatalf("start etcd: %v", err)
		}
		s.etcd, s.dir = etcd, dir
	}
	s.users++
	t.Cleanup(s.release)
	return "http://" + s.etcd.Clients[0].Addr().String()
}

func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	s.etcd.Close()
	os.RemoveAll(s.dir)
	s.etcd = nil
}

func startEtcd(data string) (*embed.Etcd, error) {
	c := embed.NewConfig()
	c.Dir = data
	c.LogLevel = "panic"
	c.UnsafeNoFsync = true
	any := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenPeerUrls, c.AdvertisePeerUrls = any, any
	c.ListenClientUrls, c.AdvertiseClientUrls = any, any
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		return nil, err
	case <-time.After(eventually.Limit):
		etcd.Close()
		return nil, context.DeadlineExceeded
	}
}
