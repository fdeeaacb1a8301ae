package controlplane

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/record"
)

// BenchmarkCreate measures the time from the record of a cluster to ACTIVE, one cluster after the other, each deleted
// before the next.
func BenchmarkCreate(b *testing.B) {
	needBundle(b, "1.35")
	dir, owner := newDataDirectory(b)
	d := start(b, dir, owner, nil)
	var took []time.Duration
	for b.Loop() {
		c := d.create(newCluster(fmt.Sprintf("c%d", len(took)), "1.35"))
		took = append(took, d.until("ready", func() bool { return d.plane(c).Ready }))
		b.StopTimer()
		d.remove(c)
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds(), "s/median")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTenAtOnce measures the time until ten clusters that were requested at once are all ACTIVE, and the memory
// that one of them takes once they idle.
func BenchmarkTenAtOnce(b *testing.B) {
	needBundle(b, "1.35")
	const n = 10
	for b.Loop() {
		dir, owner := newDataDirectory(b)
		d := start(b, dir, owner, nil)
		began := time.Now()
		var clusters []record.Cluster
		for i := range n {
			clusters = append(clusters, d.create(newCluster(fmt.Sprintf("c%d", i), "1.35")))
		}
		var group errgroup.Group
		for _, c := range clusters {
			group.Go(func() error { d.until("ready", func() bool { return d.plane(c).Ready }); return nil })
		}
		_ = group.Wait()
		b.ReportMetric(time.Since(began).Seconds(), "s/ten")
		b.StopTimer()
		time.Sleep(45 * time.Second) // KUBE_GOGC takes effect, and the garbage of the start is collected
		before, at := d.cpu(), time.Now()
		time.Sleep(10 * time.Second)
		b.ReportMetric(100*(d.cpu()-before).Seconds()/time.Since(at).Seconds()/n, "%cpu/cluster")
		total := 0.0
		for component, mib := range d.pss(b) {
			b.Logf("%s %.0f MiB", component, mib/n)
			total += mib
		}
		b.ReportMetric(total/n, "MiB/cluster")
		b.ReportMetric(0, "ns/op")
		d.stop()
		b.StartTimer()
	}
}

// pss returns the proportional set size of all processes, by component, in MiB.
func (d *daemon) pss(b *testing.B) map[string]float64 {
	total := map[string]float64{}
	for _, s := range d.processes.List("") {
		f, err := os.Open(filepath.Join("/proc", strconv.Itoa(s.PID), "smaps_rollup"))
		if err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if kb, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
				n, err := strconv.Atoi(strings.Fields(kb)[0])
				if err != nil {
					b.Fatal(err)
				}
				total[componentOf(s.Name)] += float64(n) / 1024
			}
		}
		f.Close()
	}
	return total
}

// cpu returns the processor time of all processes.
func (d *daemon) cpu() time.Duration {
	var total time.Duration
	for _, s := range d.processes.List("") {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.PID), "stat"))
		if err != nil {
			d.Fatal(err)
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, f := range fields[11:13] {
			ticks, err := strconv.Atoi(f)
			if err != nil {
				d.Fatal(err)
			}
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total
}
