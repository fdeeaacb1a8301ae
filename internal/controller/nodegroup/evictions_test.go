package nodegroup

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestDrainsAreNotWokenWithoutAPause runs against API servers that end each watch as soon as it has begun, or refuse
// it.
func TestDrainsAreNotWokenWithoutAPause(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"ended": nil, "refused": errors.New("no")} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 58*time.Second)
			defer cancel()
			kube := fake.NewClientset()
			watches := 0
			kube.PrependWatchReactor("pods", func(clienttesting.Action) (bool, kubewatch.Interface, error) {
				watches++
				w := kubewatch.NewFake()
				w.Stop()
				return true, w, failure
			})
			kube.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("nothing is listed")
			})
			e := &evictions{ctx: ctx, log: slog.New(slog.DiscardHandler), kube: kube, changed: func(string) {},
				nodes: map[string]string{}}
			for ctx.Err() == nil { // who drains asks again and again
				e.watchNode("a", "group")
				time.Sleep(100 * time.Millisecond)
			}
			e.running.Wait()
			if watches != 12 {
				t.Errorf("%s: %d watches within a minute", name, watches)
			}
		})
	}
}
