package addon

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/record"
)

// BenchmarkPlan measures the dry run of the whole vpc-cni add-on over one connection after another: cold, with a new
// connection each time, as when an add-on is created.
func BenchmarkPlan(b *testing.B) {
	server := apiservertest.Start(b, apiservertest.Options{})
	entry, _ := entries(b).Addon("vpc-cni")
	version, _ := entry.Default("1.35")
	objects, err := version.Render(catalog.RenderOptions{Cluster: cluster(), Endpoint: endpoint, Minor: "1.35",
		Config: record.AddonConfig{Version: version.Version, Namespace: "kube-system"}})
	if err != nil {
		b.Fatal(err)
	}
	config := server.Config(User, "system:masters")
	warm, err := newRequester(config, "")
	if err != nil {
		b.Fatal(err)
	}
	defer warm.Close()
	dry := func(b *testing.B, r *requester) {
		steps, err := r.dryRunAll(b.Context(), objects, nil, none, false)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range steps {
			if s.problem != nil || s.later {
				b.Fatal(s.ref, s.problem)
			}
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			r, err := newRequester(config, "")
			if err != nil {
				b.Fatal(err)
			}
			dry(b, r)
			r.Close()
		}
	})
	b.Run("warm", func(b *testing.B) {
		for b.Loop() {
			dry(b, warm)
		}
	})
	b.ReportMetric(float64(len(objects)), "objects")
}
