package resource

import "context"

// Paginator is a paginator of the SDK.
type Paginator[Out, O any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, options ...func(*O)) (*Out, error)
}

// ListAll returns the items of all pages.
func ListAll[Out, O, T any](
	ctx context.Context, pages Paginator[Out, O], items func(*Out) []T, options ...func(*O),
) (all []T, err error) {
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx, options...)
		if err != nil {
			return nil, err
		}
		all = append(all, items(page)...)
	}
	return all, nil
}
