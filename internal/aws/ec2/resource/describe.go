package resource

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// Query is the common part of all Describe requests.
type Query struct {
	// Operation is what was called, whose limits of MaxResults apply.
	Operation string

	DryRun  *bool
	IDs     []string
	Filters []types.Filter
	Max     *int32
	Token   *string
}

// Item is a resource as the API shows it, with the id that orders pages.
type Item[V any] struct {
	ID   string
	View V
}

// Describe answers a Describe request: the resources with the ids that it names, or else all, which pass its filters.
func (k View[R, V]) Describe(ctx context.Context, q Query) ([]V, *string, error) {
	sc, err := k.records.RequestScope(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := q.CheckPage(); err != nil {
		return nil, nil, err
	}
	rows, err := k.ListByID(sc, q.IDs)
	if err != nil {
		return nil, nil, err
	}
	show := func(r R) V { return k.Show(sc, r) }
	if k.ShowAll != nil {
		show = k.ShowAll(sc)
	}
	items := make([]Item[V], len(rows))
	for i, r := range rows {
		items[i] = Item[V]{r.Identity().ID, show(r)}
	}
	return DescribeItems(ctx, q, items, k.Filters, k.Tagged)
}

// ListByID returns the resources with the given ids, or all when there are none, in the order of their ids.
func (k Kind[R]) ListByID(sc Scope, ids []string) ([]R, error) {
	if len(ids) == 0 {
		return k.List(sc, nil)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var rows []R
	var unknown []string
	for _, id := range ids {
		if err := k.Validate(id); err != nil {
			return nil, err
		}
		row, err := k.Find(sc, id)
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
		return nil, k.Missing(unknown...)
	}
	return rows, nil
}

// DescribeItems filters items, sorted by id, and cuts the page that q asks for.
func DescribeItems[V any](ctx context.Context, q Query, items []Item[V], by Filters[V],
	tagged func(V) []types.Tag) ([]V, *string, error) {
	max, err := q.Page()
	if err != nil {
		return nil, nil, err
	}
	g := &Globs{Context: ctx}
	passes, err := by.compile(q.Filters, tagged, g)
	if err != nil {
		return nil, nil, err
	}
	items = slices.DeleteFunc(items, func(i Item[V]) bool { return !passes(i.View) })
	if g.Err != nil {
		return nil, nil, g.Err
	}
	if aws.ToBool(q.DryRun) {
		return nil, nil, ErrDryRun
	}
	page, next, err := wire.Page(ctx, items, max, q.Token, func(i Item[V]) string { return i.ID })
	if err != nil {
		return nil, nil, err
	}
	views := make([]V, len(page))
	for i, p := range page {
		views[i] = p.View
	}
	return views, next, nil
}

// Filters are the values of a V by which it can be found, by filter name. A V passes a filter when one of its values
// fits one of the filter's, in which * stands for any text, ? for any character, and \ takes that meaning away.
type Filters[V any] map[string]func(V) []string

// compile returns a function that reports whether a value passes all wanted filters.
func (f Filters[V]) compile(wanted []types.Filter, tagged func(V) []types.Tag, g *Globs) (func(V) bool, error) {
	if err := CheckFilters(wanted); err != nil {
		return nil, err
	}
	tests := make([]func(V) bool, 0, len(wanted))
	for _, w := range wanted {
		name := aws.ToString(w.Name)
		values := f.lookupValues(name, tagged)
		if values == nil {
			return nil, Invalid("The filter '%s' is invalid", name)
		}
		if len(w.Values) == 0 {
			return nil, Invalid("The filter '%s' has no values", name)
		}
		tests = append(tests, func(v V) bool {
			return slices.ContainsFunc(values(v), func(has string) bool { return g.MatchesAny(w.Values, has) })
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

// lookupValues returns the function of the filter with a name; nil when there is no such filter.
func (f Filters[V]) lookupValues(name string, tagged func(V) []types.Tag) func(V) []string {
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
			return CollectValues(slices.DeleteFunc(slices.Clone(tagged(v)),
				func(t types.Tag) bool { return *t.Key != key }), tagValue)
		}
	case name == "tag-key":
		return func(v V) []string { return CollectValues(tagged(v), func(t types.Tag) *string { return t.Key }) }
	case name == "tag-value":
		return func(v V) []string { return CollectValues(tagged(v), tagValue) }
	}
	return nil
}

func tagValue(t types.Tag) *string { return t.Value }

// GroupBy returns elements by the key that each has.
func GroupBy[E any](list []E, key func(E) string) map[string][]E {
	groups := make(map[string][]E)
	for _, e := range list {
		groups[key(e)] = append(groups[key(e)], e)
	}
	return groups
}

// CollectValues returns the values that the elements of a list have.
func CollectValues[E any, T ~string](list []E, value func(E) *T) []string {
	var values []string
	for _, e := range list {
		if v := value(e); v != nil {
			values = append(values, string(*v))
		}
	}
	return values
}

// StringFilter returns the filter of a member that is a string.
func StringFilter[V any](member func(V) *string) func(V) []string {
	return func(v V) []string { return CollectValues([]V{v}, member) }
}

// BoolFilter returns the filter of a member that is a boolean.
func BoolFilter[V any](member func(V) *bool) func(V) []string {
	return func(v V) []string {
		if aws.ToBool(member(v)) {
			return []string{"true"}
		}
		return []string{"false"}
	}
}

// EnumFilter returns the filter of a member that has one of some values.
func EnumFilter[V any, T ~string](member func(V) T) func(V) []string {
	return func(v V) []string { return []string{string(member(v))} }
}

// IntFilter returns the filter of a numeric member.
func IntFilter[V any](member func(V) *int32) func(V) []string {
	return func(v V) []string {
		if n := member(v); n != nil {
			return []string{strconv.Itoa(int(*n))}
		}
		return nil
	}
}

// TimeFilter returns the filter of a time.
func TimeFilter[V any](member func(V) *time.Time) func(V) []string {
	return func(v V) []string {
		t := member(v)
		if t == nil {
			return nil
		}
		return []string{aws.ToTime(t).UTC().Format("2006-01-02T15:04:05.000Z")}
	}
}

// MergeFilters returns the union of several sets of filters.
func MergeFilters[V any](sets ...Filters[V]) Filters[V] {
	all := Filters[V]{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}

// ElementFilters returns the filters by what the elements of a list have.
func ElementFilters[V, E any](prefix string, list func(V) []E, by Filters[E]) Filters[V] {
	all := Filters[V]{}
	for name, values := range by {
		all[prefix+name] = func(v V) []string {
			var found []string
			for _, e := range list(v) {
				found = append(found, values(e)...)
			}
			return found
		}
	}
	return all
}
