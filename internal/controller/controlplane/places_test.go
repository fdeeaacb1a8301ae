package controlplane

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

var errNoHost = errors.New("no host")

// noHost starts nothing. It has another API server of each cluster.
type noHost struct{ Host }

func (noHost) Ensure(context.Context, process.Spec) (process.Status, error) {
	return process.Status{}, errNoHost
}

func (noHost) List(prefix string) []process.Status { return []process.Status{{Name: prefix + "other"}} }

// TestAnAccountLeavesPlacesToStart has an account that starts, and replaces, as many API servers at a time as it may,
// however long they take: those of another account start.
func TestAnAccountLeavesPlacesToStart(t *testing.T) {
	t.Parallel()
	const one, other = "111122223333", "444455556666"
	c := New(Options{Store: storetest.New(t), Host: noHost{}, Dir: t.TempDir()})
	for range 2*runtime.NumCPU() - 1 {
		for _, places := range []interface {
			TryAcquire(string) (func(), bool)
		}{c.starts, c.handovers} {
			release, ok := places.TryAcquire(one)
			if !ok {
				t.Fatal("an account has fewer places than it may have")
			}
			defer release()
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for account, want := range map[string]error{one: context.Canceled, other: errNoHost} {
		ctx := t.Context()
		if account == one {
			ctx = gone
		}
		p := plane{cluster: record.Cluster{Account: account, Region: "eu-west-1", Name: "blue",
			ID: "0123456789ABCDEF0123456789ABCDEF"}}
		var err error
		if p.keys, err = c.ensureKeys(t.Context(), p.cluster); err != nil {
			t.Fatal(err)
		}
		// The start finds another API server, to be replaced: it has a place for that.
		if _, err := c.startComponents(ctx, p, components{}); !errors.Is(err, want) {
			t.Errorf("a start of account %s ends with %v", account, err)
		}
		if _, err := c.runAPIServer(ctx, p, components{}, c.o.StartTimeout); !errors.Is(err, want) {
			t.Errorf("a handover of account %s ends with %v", account, err)
		}
	}
	if _, ok := c.starts.TryAcquire(one); ok {
		t.Error("an account has more places than it may have")
	}
}
