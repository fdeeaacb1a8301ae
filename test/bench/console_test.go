package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
)

// BenchmarkConsole opens the console by a one-time link in a browser that has nothing of it, until the list of clusters
// is there, and takes input: until the browser has drawn it and has nothing else to do.
func BenchmarkConsole(b *testing.B) {
	chromium, d := browser.Start(b), harness.Start(b)
	const rounds = 5
	var times []time.Duration
	var kilobytes float64
	for range rounds {
		link := strings.TrimSpace(d.Run("", harness.Binary(b), "console", "--no-browser", "--data-dir", d.Dir))
		tab := browser.Open(b, chromium, d.Endpoint, 1280, 800)
		tab.Go(strings.TrimPrefix(link, d.Endpoint))
		tab.See("No clusters")
		got := browser.Evaluate[struct{ Milliseconds, Kilobytes float64 }](tab,
			`new Promise((done) => requestIdleCallback(() => done({
				Milliseconds: performance.now(),
				Kilobytes: [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")]
					.filter((e) => e.name.includes("/console/")).reduce((sum, e) => sum + e.transferSize, 0) / 1000,
			})))`)
		times = append(times, time.Duration(got.Milliseconds*float64(time.Millisecond)))
		kilobytes = got.Kilobytes
	}
	median := quantile(times, 0.5)
	b.ReportMetric(median.Seconds(), "s")
	report(row{fmt.Sprintf("console: first page, cold, until it is interactive (median of %d)", rounds),
		fmt.Sprintf("%s, %.0f KB compressed", seconds(median), kilobytes), "1 s, 700 KB", ""})
}
