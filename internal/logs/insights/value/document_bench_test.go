package value

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fastjson"
)

// auditEvents are audit events of a cluster of Coracle, one of each verb and resource, 0.7 to 12 KB.
func auditEvents(tb testing.TB) [][]byte {
	data, err := os.ReadFile("testdata/audit.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	var events [][]byte
	for line := range strings.Lines(string(data)) {
		events = append(events, []byte(strings.TrimSpace(line)))
	}
	return events
}

var auditPaths = []string{"verb", "objectRef.name", "objectRef.resource", "user.username", "responseStatus.code"}

// perCPU reports, beside the speed by the clock, the speed by the time the CPU spent: on a machine that others use,
// too, only that compares.
func perCPU(b *testing.B, events [][]byte, loop func()) {
	bytes := 0
	for _, e := range events {
		bytes += len(e)
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := cpu(b)
	for b.Loop() {
		loop()
	}
	spent := cpu(b) - start
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "cpu-ns/op")
	if bytes > 0 {
		b.ReportMetric(float64(bytes)*float64(b.N)/1e6/spent.Seconds(), "MB/cpu-s")
	}
}

// cpu is the time that this thread has spent.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	const thread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thread, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDocument(b *testing.B) {
	events := auditEvents(b)
	var paths []*Path
	for _, p := range auditPaths {
		paths = append(paths, ParsePath(p))
	}
	b.Run("5 paths", func(b *testing.B) {
		d := NewDocument(paths...)
		perCPU(b, events, func() {
			for _, e := range events {
				if !d.Parse(e) {
					b.Fatal("not JSON")
				}
				for i := range paths {
					d.At(i)
				}
			}
		})
	})
	b.Run("check only", func(b *testing.B) {
		d := NewDocument()
		perCPU(b, events, func() {
			for _, e := range events {
				if !d.Parse(e) {
					b.Fatal("not JSON")
				}
			}
		})
	})
	b.Run("valyala fastjson 5 paths", func(b *testing.B) {
		var p fastjson.Parser
		var split [][]string
		for _, path := range auditPaths {
			split = append(split, strings.Split(path, "."))
		}
		perCPU(b, events, func() {
			for _, e := range events {
				v, err := p.ParseBytes(e)
				if err != nil {
					b.Fatal(err)
				}
				for _, path := range split {
					v.Get(path...)
				}
			}
		})
	})
	b.Run("valyala fastjson 5 paths, checked", func(b *testing.B) {
		var p fastjson.Parser
		var split [][]string
		for _, path := range auditPaths {
			split = append(split, strings.Split(path, "."))
		}
		perCPU(b, events, func() {
			for _, e := range events {
				// Its parser takes some of what isn't JSON: control characters in strings, bad escapes, 1-2 as a
				// number.
				if err := fastjson.ValidateBytes(e); err != nil {
					b.Fatal(err)
				}
				v, err := p.ParseBytes(e)
				if err != nil {
					b.Fatal(err)
				}
				for _, path := range split {
					v.Get(path...)
				}
			}
		})
	})
}
