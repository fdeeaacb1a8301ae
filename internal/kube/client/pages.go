package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	pageSize = 250
	// maxPages bounds a list: a server can say without end that there is more.
	maxPages = 400
	// MaxObjects is the largest number of objects that are read of a list, and kept of a watch.
	MaxObjects = pageSize * maxPages

	maxUID      = 128
	maxContinue = 16 << 10
)

// EachPage lists objects page by page and calls each with every page, so that whoever needs little of them holds
// little. Where the objects are so large that a page of them is refused (see MaxAnswer), pages become smaller; what all
// pages may have together is bounded, too (see MaxList and MaxObjects). Pages are without objects that no API server of
// Kubernetes would store, see IsPossible, and those that are too large to be read, see WithPartial. EachPage returns
// the resource version from which a watch goes on.
func EachPage[L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), each func(L),
) (resourceVersion string, err error) {
	part, smaller := ctx.Value(partKey{}).(int)
	if !smaller {
		part = 1
	}
	size := listSize{what: "the pages of the list", maxBytes: MaxList / part, maxValues: MaxListValues / part,
		maxRaw: maxRawList / part, part: part}
	partial := wantsPartial(ctx)
	ctx = context.WithValue(ctx, listKey{}, &size)
	o.Limit = pageSize
	objects := 0
	for range 2 * maxPages { // some of which are refused
		before := size.used
		page, err := list(ctx, o)
		if errors.Is(err, ErrTooLarge) && !size.exceeded && o.Limit > 1 {
			o.Limit = max(1, o.Limit/8)
			size.used = before
			continue
		}
		if err != nil {
			return "", err
		}
		n, err := remove(page, func(o metav1.Object) bool { return !IsPossible(o) || IsPartial(o) && !partial })
		if err != nil {
			return "", err
		}
		if objects += n; objects > MaxObjects {
			return "", fmt.Errorf("the list has more than %d objects, %w", MaxObjects, ErrTooLarge)
		}
		version, next := page.GetResourceVersion(), page.GetContinue()
		if len(version) > maxUID || len(next) > maxContinue {
			return "", fmt.Errorf("the resource version of the list, or the token of its next page, is %w", ErrTooLarge)
		}
		each(page)
		if o.Continue = next; next == "" {
			return version, nil
		}
		o.Limit = min(2*o.Limit, pageSize)
	}
	return "", fmt.Errorf("the list does not end within %d pages, %w", 2*maxPages, ErrTooLarge)
}

// WithPart returns a context in which EachPage reads lists that are an n-th of those that it reads otherwise, in bytes
// and in values, and pages as well. What is larger is an error: one object of a list may be.
func WithPart(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, partKey{}, n)
}

type partKey struct{}

// Within returns a context in which the answers to all requests together may have so many bytes and values of JSON, as
// well as each what any may have. what names the answers, for errors.
func Within(ctx context.Context, what string, bytes, values int) context.Context {
	return context.WithValue(ctx, listKey{}, &listSize{what: what, maxBytes: bytes, maxValues: values})
}

// listKey is the key of a list's size in the context of its requests.
type listKey struct{}

// listSize counts what answers have together.
type listSize struct {
	what                string // for errors
	maxBytes, maxValues int
	maxRaw              int // 0 unless the answers have items
	part                int // see WithPart; 0 unless the answers have items

	mu       sync.Mutex
	used     usage
	raw      int
	exceeded bool
}

// usage is what a list has so far: in all, and of large objects.
type usage struct{ bytes, values, largeBytes, largeValues int }

// hasItems reports whether the answers are pages of a list.
func (s *listSize) hasItems() bool { return s != nil && s.maxRaw > 0 }

// addRaw counts what is read of the pages, whether or not it is decoded.
func (s *listSize) addRaw(bytes int) error {
	if !s.hasItems() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raw += bytes; s.raw > s.maxRaw {
		s.exceeded = true
		return fmt.Errorf("%s are larger than %d MiB together, %w", s.what, s.maxRaw>>20, ErrTooLarge)
	}
	return nil
}

// addLarge counts a large object, and reports whether it is to be decoded: objects that are not large have the other
// half.
func (s *listSize) addLarge(bytes, values int) bool {
	if !s.hasItems() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.largeBytes += bytes
	s.used.largeValues += values
	return s.used.largeBytes <= s.maxBytes/2 && s.used.largeValues <= s.maxValues/2
}

// add returns an error once the bounds are exceeded.
func (s *listSize) add(bytes, values int) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used.bytes += bytes
	s.used.values += values
	s.exceeded = s.used.bytes > s.maxBytes || s.used.values > s.maxValues
	switch {
	case s.used.bytes > s.maxBytes:
		return fmt.Errorf("%s are larger than %d MiB together, %w", s.what, s.maxBytes>>20, ErrTooLarge)
	case s.used.values > s.maxValues:
		return fmt.Errorf("%s have more than %d values together, %w", s.what, s.maxValues, ErrTooLarge)
	}
	return nil
}

// IsPossible reports whether an API server of Kubernetes could have stored an object with that name, namespace, UID and
// resource version. They are kept longer than the object, in queues and maps.
func IsPossible(o metav1.Object) bool {
	name := o.GetName()
	return name != "" && len(name) <= validation.DNS1123SubdomainMaxLength &&
		len(path.IsValidPathSegmentName(name)) == 0 &&
		len(o.GetNamespace()) <= validation.DNS1123LabelMaxLength &&
		len(path.IsValidPathSegmentName(o.GetNamespace())) == 0 &&
		len(o.GetUID()) <= maxUID && len(o.GetResourceVersion()) <= maxUID
}

// remove takes the objects out of a page of which a condition is true, and returns how many there were in all.
func remove(page runtime.Object, is func(metav1.Object) bool) (int, error) {
	items, err := meta.GetItemsPtr(page)
	if err != nil {
		return 0, err
	}
	all := reflect.ValueOf(items).Elem()
	kept, n := 0, all.Len()
	for i := range n {
		o, err := meta.Accessor(all.Index(i).Addr().Interface())
		if err != nil {
			return 0, err
		}
		if is(o) {
			continue
		}
		if kept < i {
			all.Index(kept).Set(all.Index(i))
		}
		kept++
	}
	all.SetLen(kept)
	return n, nil
}
