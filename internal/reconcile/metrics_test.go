package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/metrics"
	"github.com/coracle-eks/coracle/internal/reconcile"
)

// A key that fails is known, with the reason, until it succeeds.
func TestFailuresAreKnown(t *testing.T) {
	t.Parallel()
	const controller = "sometimes-fails"
	keys, works := make(chan string, 1), make(chan struct{})
	start(t, reconcile.Controller{
		Name:    controller,
		Sources: []reconcile.Source{reconcile.Channel(keys)},
		Reconcile: func(context.Context, string) (reconcile.Result, error) {
			select {
			case <-works:
				return reconcile.Result{}, nil
			default:
				return reconcile.Result{}, errors.New("no luck")
			}
		},
	})
	failure := func() (reconcile.Failure, bool) {
		all := reconcile.Failures()
		i := slices.IndexFunc(all, func(f reconcile.Failure) bool { return f.Controller == controller })
		if i < 0 {
			return reconcile.Failure{}, false
		}
		return all[i], true
	}
	keys <- "a/b"
	eventually.True(t, "the failures are counted", func() bool {
		f, ok := failure()
		return ok && f.Key == "a/b" && f.Failures >= 2 && f.Error == "no luck" && !f.Since.IsZero()
	})
	close(works)
	eventually.True(t, "the failure is over", func() bool { _, ok := failure(); return !ok })
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "coracle_reconcile_duration_seconds" && labels["controller"] == controller {
				results[labels["result"]] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if results["error"] < 2 || results["success"] != 1 {
		t.Errorf("the results are %v", results)
	}
}
