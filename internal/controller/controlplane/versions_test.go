package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// Every supported minor version takes our flags and configuration.
func TestVersions(t *testing.T) {
	dir, owner := newDataDirectory(t)
	d := start(t, dir, owner, nil)
	for _, minor := range []string{"1.33", "1.34", "1.36"} {
		t.Run(minor, func(t *testing.T) {
			_, err := upstream.OpenBundles(upstream.Options{Dir: bundles}).Find(minor)
			if err != nil && minor < kubernetes.Default && !oneAtATime {
				t.Skipf("%v: \"make test-all\" tests versions older than the default", err)
			}
			needBundle(t, minor)
			c := d.create(newCluster("v"+strings.ReplaceAll(minor, ".", "-"), minor))
			d.until("ready", func() bool { return d.plane(c).Ready })
			if v := d.plane(c).FullVersion; !strings.HasPrefix(v, "v"+minor+".") {
				t.Errorf("serves %s", v)
			}
			d.until("health", func() bool { return len(d.processes.List(c.ID+"/")) == 3 })
			for _, s := range d.processes.List(c.ID + "/") {
				log, err := os.ReadFile(filepath.Join(dir, "clusters", c.ID, "log", componentOf(s.Name)+".log"))
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.SplitSeq(string(log), "\n") {
					if strings.Contains(line, "unknown flag") || strings.Contains(line, "deprecated") &&
						strings.Contains(line, "Flag --") {
						t.Errorf("%s: %s", componentOf(s.Name), line)
					}
				}
			}
		})
	}
}
