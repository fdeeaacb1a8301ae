package client

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	pageSize = 250
	// maxPages bounds a list: a server can say without end that there is more.
	maxPages = 400
)

// EachPage lists objects page by page and calls each with every page, so that whoever needs little of them holds
// little. Where the objects are so large that a page of them is refused (see MaxAnswer), pages become smaller. It
// returns the resource version
// from which a watch goes on.
func EachPage[L metav1.ListInterface](
	ctx context.Context, o metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), each func(L),
) (resourceVersion string, err error) {
	o.Limit = pageSize
	for range maxPages {
		page, err := list(ctx, o)
		if errors.Is(err, ErrTooLarge) && o.Limit > 1 {
			o.Limit = max(1, o.Limit/8)
			continue
		}
		if err != nil {
			return "", err
		}
		each(page)
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return page.GetResourceVersion(), nil
		}
	}
	return "", fmt.Errorf("the list does not end within %d pages, %w", maxPages, ErrTooLarge)
}
