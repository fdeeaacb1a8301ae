package client

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubewatch "k8s.io/apimachinery/pkg/watch"
)

// shortest is the least time from one watch to the next that goes on with it.
const shortest = time.Second

// Watch goes on with a watch, whenever it ends, from a resource version until the API server goes away, and calls each
// for every change, but for those of objects that are not possible; see IsPossible. An object that has become too large
// to be read counts as deleted; see WithPartial. what names the objects, for errors.
func Watch[T interface {
	runtime.Object
	metav1.Object
}](ctx context.Context, what, from string, watch func(context.Context, metav1.ListOptions) (kubewatch.Interface, error),
	o metav1.ListOptions, each func(kubewatch.EventType, T) error) error {
	for ctx.Err() == nil {
		o.ResourceVersion, o.AllowWatchBookmarks = from, true
		w, err := watch(ctx, o)
		if err != nil {
			return err
		}
		was, began := from, time.Now()
		if from, err = receiveEvents(ctx, what, w, from, each); err != nil {
			return err
		}
		rest := shortest - time.Since(began)
		if from == was && rest > 0 { // nothing that the API server ends so soon is in order
			return fmt.Errorf("the watch of %s ended at once", what)
		}
		if err := Sleep(ctx, rest); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// receiveEvents takes what a watch says until it ends, and gives back from where to go on.
func receiveEvents[T interface {
	runtime.Object
	metav1.Object
}](ctx context.Context, what string, w kubewatch.Interface, from string, each func(kubewatch.EventType, T) error) (
	string, error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return from, ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return from, nil
			}
			if e.Type == kubewatch.Error {
				return from, fmt.Errorf("watch %s: %w", what, EventError(e.Object))
			}
			o, ok := e.Object.(T)
			if !ok {
				continue
			}
			if e.Type != kubewatch.Bookmark && !IsPossible(o) {
				continue
			}
			version := o.GetResourceVersion()
			if len(version) > maxUID {
				return from, fmt.Errorf("watch %s: the resource version is %w", what, ErrTooLarge)
			}
			from = version
			if e.Type == kubewatch.Bookmark {
				continue
			}
			what := e.Type
			if IsPartial(o) && !wantsPartial(ctx) {
				what = kubewatch.Deleted
			}
			if err := each(what, o); err != nil {
				return from, err
			}
		}
	}
}

// steady is the time that a connection must have lasted for its end not to count as another failure.
const steady = 10 * time.Second

// Backoff returns the delay before an API server that ended a connection, or a watch, is asked again. That it
// answered is not enough to ask it more often: it may end each watch as soon as it has begun.
type Backoff struct {
	First, Most time.Duration
	next        time.Duration
}

// After returns how long to wait after a connection that lasted that long.
func (b *Backoff) After(lasted time.Duration) time.Duration {
	if b.next == 0 || lasted >= steady {
		b.next = b.First
	}
	wait := b.next
	b.next = min(2*wait, b.Most)
	return wait
}

// Exhausted reports whether the next wait is the longest.
func (b *Backoff) Exhausted() bool { return b.next >= b.Most }

// Sleep waits that long, or until ctx ends.
func Sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
