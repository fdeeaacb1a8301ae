//go:build linux

package bench

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// BenchmarkDistribution makes the archive and the image of "make dist" of what was built, weighs them, and times a user
// who unpacks the archive and creates a cluster.
func BenchmarkDistribution(b *testing.B) {
	dist, built := b.TempDir(), b.TempDir()
	for name, target := range map[string]string{
		"coracle": harness.Release(b), "bundles": "bin/bundles", "node": "bin/node",
	} {
		if !filepath.IsAbs(target) {
			target = filepath.Join(testenv.Root(), target)
		}
		if err := os.Symlink(target, filepath.Join(built, name)); err != nil {
			b.Fatal(err)
		}
	}
	name := "coracle-v0.0.0-linux-" + runtime.GOARCH
	size := func(form string) int64 {
		cmd := exec.Command("go", "run", "./hack/dist", "--only", form, "--arch", runtime.GOARCH, "--version", "v0.0.0",
			"-o", dist, "--built", built, version)
		cmd.Dir = testenv.Root()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		info, err := os.Stat(filepath.Join(dist, name+"."+form))
		if err != nil {
			b.Fatal(err)
		}
		return info.Size()
	}
	report(row{"image, compressed, one bundle", megabytes(size("image.tar")), "450 MB", ""})
	report(row{"archive, compressed, one bundle", megabytes(size("tar.gz")), "", ""})

	home := b.TempDir()
	start := time.Now()
	cmd := exec.Command("tar", "xzf", filepath.Join(dist, name+".tar.gz"), "-C", home)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	unpacked := time.Since(start)
	d := harness.StartDistribution(b, filepath.Join(home, name, "coracle"))
	d.CreateCluster("first", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("first", "ACTIVE")
	took := time.Since(start)
	b.ReportMetric(took.Seconds(), "s/first-cluster")
	report(row{"downloaded archive to first cluster ACTIVE", seconds(took), "10 s", "of which tar " + seconds(unpacked)})

	root, err := nodeimage.Unpack(filepath.Join(home, name, "node/image"), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	report(row{"node image, unpacked, shared by all machines", megabytes(diskUsage(b, root)), "120 MB", ""})
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/1e6) }

// diskUsage returns the bytes that the files below a directory take on the disk.
func diskUsage(b *testing.B, dir string) (bytes int64) {
	b.Helper()
	seen := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if s := info.Sys().(*syscall.Stat_t); !seen[s.Ino] {
			seen[s.Ino] = true
			bytes += s.Blocks * 512
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return bytes
}
