package autoscaling_test

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/store"
)

// rows returns the number of records in a table.
func rows[T any](t testing.TB, table store.Table[T]) int {
	t.Helper()
	all, err := table.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
