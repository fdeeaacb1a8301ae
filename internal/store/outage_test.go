package store_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestTheMirrorCatchesUpAfterAnOutage takes etcd away, changes and compacts it meanwhile, and
// brings it back.
func TestTheMirrorCatchesUpAfterAnOutage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	serve := func(listen string) *embed.Etcd {
		t.Helper()
		c := embed.NewConfig()
		c.Dir, c.LogLevel, c.UnsafeNoFsync = dir, "panic", true
		anywhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
		c.ListenPeerUrls, c.AdvertisePeerUrls = anywhere, anywhere
		c.ListenClientUrls = []url.URL{{Scheme: "http", Host: listen}}
		c.AdvertiseClientUrls = c.ListenClientUrls
		c.InitialCluster = c.InitialClusterFromName(c.Name)
		e, err := embed.StartEtcd(c)
		if err != nil {
			t.Fatal(err)
		}
		<-e.Server.ReadyNotify()
		return e
	}
	connect := func(address string) *clientv3.Client {
		t.Helper()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + address}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return client
	}

	// A graceful end waits for the open watches: this one pulls the plug.
	stop := func(e *embed.Etcd) {
		for _, l := range e.Clients {
			l.Close()
		}
		e.Server.HardStop()
		go e.Close()
		<-e.Server.StopNotify()
	}
	etcd := serve(address)
	open := func(client *clientv3.Client, writeTimeout time.Duration) store.Table[boat] {
		t.Helper()
		s, err := store.Open(ctx, client, store.Options{Log: slog.New(slog.DiscardHandler), WriteTimeout: writeTimeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return store.NewTable[boat](s, "boats")
	}
	before := open(connect(address), eventually.Limit)
	for _, k := range []string{"kept", "changed", "deleted"} {
		if _, err := before.Create(ctx, k, boat{Oars: 1}); err != nil {
			t.Fatal(err)
		}
	}
	boats := open(connect(address), 500*time.Millisecond) // for a write that fails
	byOars := store.NewIndex(boats, "oars", func(b boat) string { return fmt.Sprint(b.Oars) })
	if rows, err := byOars.List(ctx, "1"); err != nil || len(rows) != 3 {
		t.Errorf("the index: %v %v", rows, err)
	}
	told := make(chan string, 100)
	go boats.Notify(ctx, "", func(k string) { told <- k })
	for range 3 {
		<-told
	}
	stop(etcd)

	if _, err := boats.Create(ctx, "refused", boat{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a write during the outage: %v", err)
	}
	// Reads go on; another store changes the data where the first cannot see it.
	if row, err := boats.Get(ctx, "kept"); err != nil || row.Value.Oars != 1 {
		t.Errorf("during the outage: %v %v", row, err)
	}
	etcd = serve("127.0.0.1:0")
	client := connect(etcd.Clients[0].Addr().String())
	elsewhere := open(client, eventually.Limit)
	if _, err := elsewhere.Modify(ctx, "changed", func(b *boat) error { b.Oars = 2; return nil }); err != nil {
		t.Fatal(err)
	}
	row, err := elsewhere.Get(ctx, "deleted")
	if err != nil {
		t.Fatal(err)
	}
	if err := elsewhere.Delete(ctx, row); err != nil {
		t.Fatal(err)
	}
	row, err = elsewhere.Create(ctx, "new", boat{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(ctx, row.Revision); err != nil {
		t.Fatal(err)
	}
	stop(etcd)

	etcd = serve(address)
	defer stop(etcd)
	missing := map[string]bool{"changed": true, "deleted": true, "new": true}
	deadline := time.After(eventually.Limit)
	for len(missing) > 0 {
		select {
		case k := <-told:
			if k == "kept" {
				t.Error("a row that did not change was told")
			}
			delete(missing, k)
		case <-deadline:
			t.Fatalf("never told: %v", missing)
		}
	}
	if rows, err := byOars.List(ctx, "2"); err != nil || keys(rows) != "changed" {
		t.Errorf("the index after the outage: %v %v", rows, err)
	}
	rows, err := boats.List(ctx, "")
	if err != nil || keys(rows) != "changed kept new" || rows[0].Value.Oars != 2 {
		t.Errorf("after the outage: %v %v", rows, err)
	}
}
