package apiserver

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubewatch "k8s.io/apimachinery/pkg/watch"
)

// Watch goes on with a watch, whenever it ends, from a resource version until the API server goes away, and calls each
// for every change. what names the objects, for errors.
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
		if from == was && time.Since(began) < time.Second { // nothing that the API server ends so soon is in order
			return fmt.Errorf("the watch of %s ended at once", what)
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
				return from, fmt.Errorf("watch %s: %w", what, apierrors.FromObject(e.Object))
			}
			o, ok := e.Object.(T)
			if !ok {
				continue
			}
			from = o.GetResourceVersion()
			if e.Type == kubewatch.Bookmark {
				continue
			}
			if err := each(e.Type, o); err != nil {
				return from, err
			}
		}
	}
}
