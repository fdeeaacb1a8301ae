package ec2

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// query is what any Describe request asks.
type query struct {
	DryRun  *bool
	IDs     []string
	Filters []types.Filter
	Max     *int32
	Token   *string
}

// item is a resource as the API shows it, with the id that orders pages.
type item[V any] struct {
	id   string
	view V
}

// describe answers a Describe request: the resources with the ids that it names, or else all, which pass its filters.
func describe[R interface{ Identity() record.EC2Resource }, V any](ctx context.Context, s *Service, k kind[R, V],
	q query) ([]V, *string, error) {
	in, err := s.requestScope(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := k.listByID(in, q.IDs)
	if err != nil {
		return nil, nil, err
	}
	items := make([]item[V], len(rows))
	for i, r := range rows {
		items[i] = item[V]{r.Identity().ID, k.view(in, r)}
	}
	return describeItems(ctx, q, k.param+"s", items, k.filters, k.tagged)
}

// listByID are the resources with the given ids, or all when there are none, in the order of their ids.
func (k kind[R, V]) listByID(in scope, ids []string) ([]R, error) {
	if len(ids) == 0 {
		return k.list(in, nil)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var rows []R
	var unknown []string
	for _, id := range ids {
		if err := k.validate(id); err != nil {
			return nil, err
		}
		row, err := k.table.Get(in, in.key(id))
		switch {
		case errors.Is(err, store.ErrNotFound):
			unknown = append(unknown, id)
		case err != nil:
			return nil, err
		default:
			rows = append(rows, row.Value)
		}
	}
	if len(unknown) > 0 {
		return nil, k.missing(unknown...)
	}
	return rows, nil
}

// describeItems filters items, sorted by id, and cuts the page that q asks for.
func describeItems[V any](ctx context.Context, q query, idsParameter string, items []item[V], by filters[V],
	tagged func(V) []types.Tag) ([]V, *string, error) {
	if q.Max != nil {
		switch max := *q.Max; {
		case len(q.IDs) > 0:
			return nil, nil, wire.Errorf("InvalidParameterCombination",
				"The parameter %s cannot be used with the parameter maxResults", idsParameter)
		case max < 5:
			return nil, nil, invalidValue(max, "maxResults", "Expecting a value greater than or equal to 5.")
		case max > 1000:
			return nil, nil, invalidValue(max, "maxResults", "Expecting a value less than or equal to 1000.")
		}
	}
	g := &globs{ctx: ctx}
	passes, err := by.compile(q.Filters, tagged, g)
	if err != nil {
		return nil, nil, err
	}
	items = slices.DeleteFunc(items, func(i item[V]) bool { return !passes(i.view) })
	if g.err != nil {
		return nil, nil, g.err
	}
	if aws.ToBool(q.DryRun) {
		return nil, nil, errDryRun
	}
	page, next, err := wire.Page(ctx, items, q.Max, q.Token, func(i item[V]) string { return i.id })
	if err != nil {
		return nil, nil, err
	}
	views := make([]V, len(page))
	for i, p := range page {
		views[i] = p.view
	}
	return views, next, nil
}

// filters are the values of a V by which it can be found, by filter name. A V passes a filter when one of its values
// fits one of the filter's, in which * stands for any text, ? for any character, and \ takes that meaning away.
type filters[V any] map[string]func(V) []string

// compile is the test that all of wanted make together.
func (f filters[V]) compile(wanted []types.Filter, tagged func(V) []types.Tag, g *globs) (func(V) bool, error) {
	if err := checkFilters(wanted); err != nil {
		return nil, err
	}
	tests := make([]func(V) bool, 0, len(wanted))
	for _, w := range wanted {
		name := aws.ToString(w.Name)
		values := f.lookupValues(name, tagged)
		if values == nil {
			return nil, invalid("The filter '%s' is invalid", name)
		}
		if len(w.Values) == 0 {
			return nil, invalid("The filter '%s' has no values", name)
		}
		tests = append(tests, func(v V) bool {
			return slices.ContainsFunc(values(v), func(has string) bool { return g.matchesAny(w.Values, has) })
		})
	}
	return func(v V) bool {
		for _, passes := range tests {
			if !passes(v) {
				return false
			}
		}
		return true
	}, nil
}

// lookupValues is the function behind a filter's name; nil when there is no such filter.
func (f filters[V]) lookupValues(name string, tagged func(V) []types.Tag) func(V) []string {
	if values, ok := f[name]; ok {
		return values
	}
	if tagged == nil {
		return nil
	}
	key, one := strings.CutPrefix(name, "tag:")
	switch {
	case one:
		return func(v V) []string {
			return collectValues(slices.DeleteFunc(slices.Clone(tagged(v)),
				func(t types.Tag) bool { return *t.Key != key }), tagValue)
		}
	case name == "tag-key":
		return func(v V) []string { return collectValues(tagged(v), func(t types.Tag) *string { return t.Key }) }
	case name == "tag-value":
		return func(v V) []string { return collectValues(tagged(v), tagValue) }
	}
	return nil
}

func tagValue(t types.Tag) *string { return t.Value }

// collectValues are the values that the elements of a list have.
func collectValues[E any, T ~string](list []E, value func(E) *T) []string {
	var values []string
	for _, e := range list {
		if v := value(e); v != nil {
			values = append(values, string(*v))
		}
	}
	return values
}

// stringFilter, flag and word make a filter of one member.
func stringFilter[V any](member func(V) *string) func(V) []string {
	return func(v V) []string { return collectValues([]V{v}, member) }
}

func boolFilter[V any](member func(V) *bool) func(V) []string {
	return func(v V) []string {
		if aws.ToBool(member(v)) {
			return []string{"true"}
		}
		return []string{"false"}
	}
}

func enumFilter[V any, T ~string](member func(V) T) func(V) []string {
	return func(v V) []string { return []string{string(member(v))} }
}
