package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

func TestTheKubeletIsToldOfItsUserNamespace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		uidMap string
		want   bool
	}{
		"the host's users":   {"         0          0 4294967295\n", false},
		"users of its own":   {"         0 1879048192      65536\n", true},
		"no user namespaces": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if c.uidMap != "" {
				if err := os.MkdirAll(filepath.Join(root, "proc/self"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, "proc/self/uid_map"), []byte(c.uidMap), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			const gate = "KubeletInUserNamespace"
			typed, read, none := map[string]bool{"Other": true}, map[string]any{"Other": true}, map[string]any{}
			FitKubelet(map[string]any{"featureGates": typed}, root)
			FitKubelet(map[string]any{"featureGates": read}, root)
			FitKubelet(none, root)
			gates, _ := none["featureGates"].(map[string]any)
			if typed[gate] != c.want || (read[gate] == true) != c.want || (gates[gate] == true) != c.want ||
				!typed["Other"] {
				t.Errorf("gates are %v, %v and %v", typed, read, none)
			}
		})
	}
}

func TestTheKubeletIsToldOfItsDisk(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"the host's disk": false, "a disk of its own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if own {
				file := filepath.Join(root, boot.HostDir, boot.DiskFile)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			config := map[string]any{"evictionHard": map[string]any{"nodefs.available": "10%"}}
			FitKubelet(config, root)
			reserve, collects := config["evictionHard"].(map[string]any)["nodefs.available"],
				config["imageGCHighThresholdPercent"] == nil
			if (reserve == "10%") != own || collects != own {
				t.Errorf("the configuration is %v", config)
			}
		})
	}
}

func TestTheKubeletReportsVolumesEarly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config         map[string]any
		update, report any
	}{
		"no interval": {map[string]any{}, statusUpdate, "5m"},
		"an interval": {map[string]any{"nodeStatusUpdateFrequency": "10s"}, "10s", nil},
		"an interval of reports alone": {map[string]any{"nodeStatusReportFrequency": "1m"}, statusUpdate,
			"1m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ReportVolumesEarly(c.config)
			if update, report := c.config["nodeStatusUpdateFrequency"], c.config["nodeStatusReportFrequency"]; update !=
				c.update || report != c.report {
				t.Errorf("the status is computed each %v and reported each %v; want %v and %v", update, report, c.update,
					c.report)
			}
		})
	}
}
