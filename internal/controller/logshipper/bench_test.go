package logshipper

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// auditLine returns an audit event of about 1.5 KB.
func auditLine(n int) string {
	return fmt.Sprintf(
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"%036d","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/pods/web-%d","verb":"patch","user":{"username":"kubernetes-admin","groups":["system:masters","system:authenticated"]},"sourceIPs":["127.0.0.1"],"userAgent":"kubectl/v1.35.4","objectRef":{"resource":"pods","namespace":"default","name":"web-%d","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"responseObject":{"kind":"Pod","text":%q},"requestReceivedTimestamp":"2026-11-21T10:36:40.123456Z","stageTimestamp":"2026-11-21T10:36:40.133456Z","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`, n, n, n, strings.Repeat("lorem ipsum ", 60)) + "\n"
}

// discard is a store of log events without a disk, so that shipping alone is measured.
type discard struct{ memory }

func (d *discard) Append(_ context.Context, b events.Batch) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set(b.Marks)
	return 0, nil
}

// BenchmarkShip reads audit events of 1.5 KB from a file, makes events of them and hands them over: to
// nobody, and to the real store of log events.
//
//	go test -run '^$' -bench Ship ./internal/controller/logshipper
func BenchmarkShip(b *testing.B) {
	const lines = 40_000
	s := storetest.New(b)
	c := record.Cluster{Account: account, Region: region, Name: cluster, ID: id,
		LoggingTypes: []ekstypes.LogType{audits}}
	if _, err := record.Clusters(s).Create(b.Context(), c.Key(), c); err != nil {
		b.Fatal(err)
	}
	root := b.TempDir()
	file := filepath.Join(root, id, "log", auditFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for i := range lines {
		text.WriteString(auditLine(i))
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	ship := func(b *testing.B, to Events) {
		b.SetBytes(int64(text.Len()))
		b.ReportAllocs()
		for b.Loop() {
			// From the beginning again.
			if err := to.SetMarks(map[string][]byte{marks + id: nil}); err != nil {
				b.Fatal(err)
			}
			controller := New(Options{
				Store: s, Events: to, Dir: root, Log: slog.New(slog.DiscardHandler),
				Logs: func(account, region string) Logs { return logs{s, account, region} },
			})
			if err := controller.Drain(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			if err := controller.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	}
	b.Run("to nobody", func(b *testing.B) { ship(b, &discard{memory{marks: map[string][]byte{}}}) })
	b.Run("to the store", func(b *testing.B) {
		e, err := events.Open(b.TempDir(), events.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		ship(b, e)
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
