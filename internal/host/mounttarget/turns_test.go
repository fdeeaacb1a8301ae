//go:build linux

package mounttarget

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/filesystem"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// everywhere is a network in which each address is that of each instance.
type everywhere struct{}

func (everywhere) Namespace(string) string                 { return "/nonexistent" }
func (everywhere) RouterSource() reconcile.Source          { return func(context.Context, func(string)) {} }
func (everywhere) Carries(string, netip.Addr, string) bool { return true }

// slow decides for one account when it is told to.
type slow struct {
	account string
	begun   chan struct{}
	goOn    chan struct{}
}

func (s slow) AuthorizeMount(_ context.Context, r filesystem.MountRequest) (filesystem.MountGrant, error) {
	if r.Account == s.account {
		s.begun <- struct{}{}
		<-s.goOn
	}
	return filesystem.MountGrant{}, nil
}

// An account whose decisions take long has some of them made at a time, and others do not wait for it.
func TestMountsOfAnAccountHaveTurns(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const other = "444455556666"
	for owner, address := range map[string]string{account: "10.0.0.5", other: "10.0.0.6"} {
		target := record.MountTarget{Account: owner, Region: region, ID: "fsmt-" + owner, FileSystemID: fileSystem,
			VPCID: "vpc-" + owner, IPAddress: address}
		if _, err := record.MountTargets(s).Put(t.Context(), target.Key(), target); err != nil {
			t.Fatal(err)
		}
		if _, err := record.MountTargetStatuses(s).Put(t.Context(), target.Key(),
			record.MountTargetStatus{MountTargetID: target.ID, Available: true}); err != nil {
			t.Fatal(err)
		}
	}
	const many = 3 * mostDeciding
	decider := slow{account: account, begun: make(chan struct{}, many), goOn: make(chan struct{})}
	c := New(Options{Store: s, Network: everywhere{}, Authorizer: decider, Log: slog.New(slog.DiscardHandler),
		Root: func(id string) string { return "/data/" + id }})
	ask := func(ctx context.Context, owner, address string) mountgrant.Grant {
		return c.decide(ctx, record.EC2Key(owner, region, "vpc-"+owner), netip.MustParseAddr(address),
			netip.MustParseAddr("10.0.0.9"), &mountgrant.Asked{InstanceID: instance})
	}
	granted := make(chan mountgrant.Grant, many)
	for range many {
		go func() { granted <- ask(t.Context(), account, "10.0.0.5") }()
	}
	for range mostDeciding {
		<-decider.begun
	}
	eventually.True(t, "the others wait", func() bool { return c.turns.Waiting(account) == many })
	if n := len(decider.begun); n > 0 {
		t.Errorf("%d more are decided about at the same time", n)
	}
	if got := ask(t.Context(), other, "10.0.0.6"); got.Refused != nil {
		t.Errorf("another account: %+v", got.Refused)
	}
	gone, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if got := ask(gone, account, "10.0.0.5"); got.Refused == nil || got.Refused.Errno != uint32(unix.ETIMEDOUT) ||
		!strings.Contains(got.Refused.Message, "try again") {
		t.Errorf("one that waits too long: %+v", got.Refused)
	}
	close(decider.goOn)
	for range many {
		if got := <-granted; got.Refused != nil {
			t.Errorf("one that waited: %+v", got.Refused)
		}
	}
	if n := c.turns.Holders(); n > 0 {
		t.Errorf("%d holders are left", n)
	}
}
