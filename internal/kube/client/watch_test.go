package client

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
)

// events returns a watch that says so much, and ends.
func events(all ...kubewatch.Event) kubewatch.Interface {
	w := kubewatch.NewFakeWithChanSize(len(all), false)
	for _, e := range all {
		w.Action(e.Type, e.Object)
	}
	w.Stop()
	return w
}

func node(name, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

// TestWatchesThatEndAtOnceAreNotRepeatedAtOnce runs against an API server that ends each watch as soon as it has begun.
func TestWatchesThatEndAtOnceAreNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+shortest/2)
		defer cancel()
		watches := 0
		err := Watch(ctx, "nodes", "0", func(context.Context, metav1.ListOptions) (kubewatch.Interface, error) {
			watches++
			return events(kubewatch.Event{Type: kubewatch.Bookmark, Object: node("", fmt.Sprint(watches))}), nil
		}, metav1.ListOptions{}, func(kubewatch.EventType, *corev1.Node) error { return nil })
		if watches != 11 || err == nil {
			t.Errorf("%d watches within 10 seconds, %v", watches, err)
		}
	})
	err := Watch(t.Context(), "nodes", "0", func(context.Context, metav1.ListOptions) (kubewatch.Interface, error) {
		return events(), nil
	}, metav1.ListOptions{}, func(kubewatch.EventType, *corev1.Node) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Error(err)
	}
}

func TestEventsOfImpossibleObjectsAreLeftOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 254)
	for name, test := range map[string]struct {
		last kubewatch.Event
		want string
	}{
		"an expired version": {kubewatch.Event{Type: kubewatch.Error,
			Object: &apierrors.NewResourceExpired(long).ErrStatus}, "watch nodes: " + long},
		"a long version": {kubewatch.Event{Type: kubewatch.Bookmark, Object: node("", long)}, "resource version"},
	} {
		var names []string
		err := Watch(t.Context(), "nodes", "0", func(context.Context, metav1.ListOptions) (kubewatch.Interface, error) {
			return events(kubewatch.Event{Type: kubewatch.Added, Object: node("a", "1")},
				kubewatch.Event{Type: kubewatch.Added, Object: node(long, "2")},
				kubewatch.Event{Type: kubewatch.Deleted, Object: node("a/b", "3")},
				kubewatch.Event{Type: kubewatch.Deleted, Object: node("b", "4")}, test.last), nil
		}, metav1.ListOptions{}, func(_ kubewatch.EventType, n *corev1.Node) error {
			names = append(names, n.Name)
			return nil
		})
		if got := strings.Join(names, " "); got != "a b" || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: nodes %q, %v, want %q", name, got, err, test.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := Backoff{First: time.Second, Most: 5 * time.Second}
	var waits []time.Duration
	for _, lasted := range []time.Duration{0, steady - 1, 0, 0, 0, steady, 0} {
		waits = append(waits, b.After(lasted)/time.Second)
	}
	if got := fmt.Sprint(waits); got != "[1ns 2ns 4ns 5ns 5ns 1ns 2ns]" {
		t.Error(got)
	}
}
