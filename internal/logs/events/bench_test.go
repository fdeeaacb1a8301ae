package events

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// BenchmarkIngest appends batches as a shipper does, and says what came of them. It counts an event as
// ingested when it is durable, and the time until everything is sealed as well. On a busy machine the
// time of the processors says more: cpu-µs/event.
//
//	CORACLE_AUDIT_CORPUS=events.jsonl go test -run - -bench Ingest -benchtime 300000x ./internal/logs/events
func BenchmarkIngest(b *testing.B) {
	messages := corpus(b, b.N)
	raw := 0
	for _, m := range messages {
		raw += len(m)
	}
	s := open(b, b.TempDir(), Options{})
	const batch = 700
	cpu := processTime(b)
	b.ResetTimer()
	for i := 0; i < len(messages); i += batch {
		var events []Event
		for j, m := range messages[i:min(i+batch, len(messages))] {
			at := int64(1_700_000_000_000 + (i+j)*864)
			events = append(events, Event{Stream: 1, Timestamp: at, Ingested: at + 1500, Message: m})
		}
		if _, err := s.Append(context.Background(), Batch{Group: 1, Events: events,
			Marks: map[string][]byte{"offset": []byte(strconv.Itoa(i))}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	if err := s.WaitIdle(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64((processTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/event")
	b.ReportMetric(float64(raw)/1e6/b.Elapsed().Seconds(), "MB/s")
	var parts, sealed int64
	for _, p := range s.findGroup(1).parts {
		parts += p.size()
		sealed += p.raw
	}
	if sealed > 0 {
		b.ReportMetric(float64(sealed)/float64(parts), "raw/part")
	}
	b.ReportMetric(float64(raw)/float64(s.DiskBytes()), "raw/disk")
	b.ReportMetric(float64(raw)/float64(zstdBytes(b, messages)), "raw/zstd3")
}

// processTime returns the processor time of this process.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func zstdBytes(b *testing.B, messages []string) int64 {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw.zst"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(3)))
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range messages {
		if _, err := w.Write(append([]byte(m), '\n')); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

func BenchmarkWriteBlock(b *testing.B) {
	var buffer []byte
	var rows []row
	for i, m := range corpus(b, 1500) {
		rows = append(rows, row{1, int64(i * 100), int64(i*100 + 7), uint64(i + 1), len(buffer), len(m)})
		buffer = append(buffer, m...)
	}
	w := newBlockWriter()
	b.SetBytes(int64(len(buffer)))
	size := 0
	for b.Loop() {
		encoded, _ := w.encodeBlock(rows, buffer)
		size = len(encoded)
	}
	b.ReportMetric(float64(len(buffer))/float64(size), "raw/block")
}

// BenchmarkScan reads everything in a group, as queries do.
func BenchmarkScan(b *testing.B) {
	s := open(b, b.TempDir(), Options{})
	messages := corpus(b, 100_000)
	raw := fill(b, s, 1, messages)
	waitFor(b, s, 1, func(g *group) bool { return g.unsealed < s.SealBytes })
	for _, c := range []struct {
		name string
		read func(*Block) error
	}{
		{"messages", func(block *Block) error {
			m, err := block.Messages()
			if err == nil {
				m.Release()
			}
			return err
		}},
		{"rows", func(block *Block) error { _, err := block.Rows(); return err }},
		{"column", func(block *Block) error {
			_, _, err := block.Column("verb")
			return err
		}},
		{"word", func(block *Block) error { block.MayContain("daemonset"); return nil }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(raw))
			for b.Loop() {
				v, err := s.View(1, 0, 1<<62)
				if err != nil {
					b.Fatal(err)
				}
				for _, block := range v.Blocks() {
					if err := c.read(block); err != nil {
						b.Fatal(err)
					}
				}
				if err := v.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("first-page", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, err := range s.Events(context.Background(), 1, Range{To: 1 << 62, Backward: true}) {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n == 100 {
					break
				}
			}
		}
	})
	b.Run("events", func(b *testing.B) {
		b.SetBytes(int64(raw))
		for b.Loop() {
			for _, err := range s.Events(context.Background(), 1, Range{To: 1 << 62}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// fill appends messages to stream 1, a second apart, and returns their bytes.
func fill(tb testing.TB, s *Store, g GroupID, messages []string) (raw int) {
	tb.Helper()
	for i := 0; i < len(messages); i += 700 {
		var events []Event
		for j, m := range messages[i:min(i+700, len(messages))] {
			raw += len(m)
			at := int64(i+j) * time.Second.Milliseconds()
			events = append(events, Event{Stream: 1, Timestamp: at, Ingested: at + 10, Message: m})
		}
		if _, err := s.Append(context.Background(), Batch{Group: g, Events: events}); err != nil {
			tb.Fatal(err)
		}
	}
	return raw
}
