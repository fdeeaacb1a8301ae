//go:build linux

package mounttarget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/filesystem"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	account    = "111122223333"
	region     = "eu-west-1"
	fileSystem = "fs-0123456789abcdef0"
	instance   = "i-0123456789abcdef0"
)

// fakeNetwork has one instance, at 10.0.0.9 in vpc-1.
type fakeNetwork struct{}

func (fakeNetwork) Namespace(string) string        { return "/nonexistent" }
func (fakeNetwork) RouterSource() reconcile.Source { return func(context.Context, func(string)) {} }
func (fakeNetwork) Carries(vpc string, address netip.Addr, i string) bool {
	return vpc == vpcKey && address == netip.MustParseAddr("10.0.0.9") && i == record.EC2Key(account, region, instance)
}

var vpcKey = record.EC2Key(account, region, "vpc-1")

// authorizer answers by access point.
type authorizer struct{ asked filesystem.MountRequest }

func (a *authorizer) AuthorizeMount(_ context.Context, r filesystem.MountRequest) (filesystem.MountGrant, error) {
	a.asked = r
	switch r.AccessPointID {
	case "fsap-denied":
		return filesystem.MountGrant{}, &filesystem.RefusedError{Code: "AccessDenied", Message: "the policy says no"}
	case "fsap-broken":
		return filesystem.MountGrant{}, errors.New("the store does not answer")
	case "fsap-none":
		return filesystem.MountGrant{AccessPoint: &record.AccessPoint{ID: r.AccessPointID, Path: "/",
			User: &record.PosixUser{UID: 1, GID: 1, SecondaryGIDs: []uint32{math.MaxUint32}}}}, nil
	case "fsap-deleted":
		return filesystem.MountGrant{AccessPoint: &record.AccessPoint{ID: r.AccessPointID, Path: "/",
			User: &record.PosixUser{UID: math.MaxUint32 - 1, GID: 1}}}, nil
	case "fsap-none-made":
		return filesystem.MountGrant{AccessPoint: &record.AccessPoint{ID: r.AccessPointID, Path: "/",
			Creation: &record.RootCreation{GID: math.MaxUint32}}}, nil
	case "fsap-root":
		return filesystem.MountGrant{SquashRoot: true, ReadOnly: true, AccessPoint: &record.AccessPoint{ID: r.AccessPointID,
			Path: "/a", User: &record.PosixUser{GID: 7, SecondaryGIDs: []uint32{0, 8}},
			Creation: &record.RootCreation{UID: 1, GID: 2, Mode: 0o750}}}, nil
	}
	return filesystem.MountGrant{}, nil
}

func TestDecide(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), storetest.Client(t), store.Options{Prefix: storetest.Prefix(t),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for id, address := range map[string]string{"fsmt-available": "10.0.0.5", "fsmt-creating": "10.0.0.6",
		"fsmt-deleted": "10.0.0.7"} {
		target := record.MountTarget{Account: account, Region: region, ID: id, FileSystemID: fileSystem, VPCID: "vpc-1",
			IPAddress: address}
		if id == "fsmt-deleted" {
			target.Deleted = time.Now()
		}
		if _, err := record.MountTargets(s).Put(t.Context(), target.Key(), target); err != nil {
			t.Fatal(err)
		}
		if id == "fsmt-creating" {
			continue
		}
		if _, err := record.MountTargetStatuses(s).Put(t.Context(), target.Key(), record.MountTargetStatus{
			MountTargetID: id, Available: true}); err != nil {
			t.Fatal(err)
		}
	}
	decider := &authorizer{}
	c := New(Options{Store: s, Network: fakeNetwork{}, Authorizer: decider, Log: slog.New(slog.DiscardHandler),
		Root: func(id string) string { return "/data/" + id }})
	for _, test := range []struct {
		name          string
		vpc           string
		local, remote string
		instance      string
		request       mountgrant.Request
		errno         unix.Errno
		says          string
		grant         mountgrant.Grant
	}{
		{name: "by address", grant: mountgrant.Grant{}},
		{name: "by name", request: mountgrant.Request{FileSystemID: fileSystem}},
		{name: "another file system's name", request: mountgrant.Request{FileSystemID: "fs-1"}, errno: unix.EACCES,
			says: "10.0.0.5 is the address of a mount target of " + fileSystem},
		{name: "no mount target", local: "10.0.0.8", errno: unix.ECONNREFUSED, says: "no mount target"},
		{name: "another VPC", vpc: record.EC2Key(account, region, "vpc-2"), errno: unix.ECONNREFUSED},
		{name: "being made", local: "10.0.0.6", errno: unix.ECONNREFUSED, says: "creating"},
		{name: "deleted", local: "10.0.0.7", errno: unix.ECONNREFUSED, says: "deleting"},
		{name: "an address of another instance", remote: "10.0.0.10", errno: unix.EACCES, says: "10.0.0.10"},
		{name: "another instance", instance: "i-1", errno: unix.EACCES, says: "i-1"},
		{name: "a policy", request: mountgrant.Request{AccessPointID: "fsap-denied"}, errno: unix.EACCES,
			says: "AccessDenied: the policy says no"},
		{name: "no user", request: mountgrant.Request{AccessPointID: "fsap-none"}, errno: unix.EACCES, says: "4294967295"},
		{name: "who owns what is deleted", request: mountgrant.Request{AccessPointID: "fsap-deleted"}, errno: unix.EACCES,
			says: "4294967294"},
		{name: "no owner", request: mountgrant.Request{AccessPointID: "fsap-none-made"}, errno: unix.EACCES,
			says: "4294967295"},
		{name: "a failure", request: mountgrant.Request{AccessPointID: "fsap-broken"}, errno: unix.EIO, says: "log"},
		{name: "root that is nobody", request: mountgrant.Request{AccessPointID: "fsap-root", TLS: true, Signed: "x"},
			grant: mountgrant.Grant{ReadOnly: true, SquashRoot: true, AccessPoint: &mountgrant.AccessPoint{ID: "fsap-root",
				Path: "/a", User: &mountgrant.User{UID: 65534, GID: 7, Groups: []uint32{65534, 8}},
				Creation: &mountgrant.Creation{UID: 1, GID: 2, Mode: 0o750}}}},
	} {
		or := func(s, otherwise string) string {
			if s == "" {
				return otherwise
			}
			return s
		}
		got := c.decide(t.Context(), or(test.vpc, vpcKey), netip.MustParseAddr(or(test.local, "10.0.0.5")),
			netip.MustParseAddr(or(test.remote, "10.0.0.9")), &mountgrant.Asked{InstanceID: or(test.instance, instance),
				Request: test.request})
		if test.errno != 0 {
			if got.Refused == nil || got.Refused.Errno != uint32(test.errno) ||
				!strings.Contains(got.Refused.Message, test.says) {
				t.Errorf("%s: %+v, want %v with %q", test.name, got.Refused, test.errno, test.says)
			}
			continue
		}
		test.grant.FileSystemID, test.grant.Root = fileSystem, "/data/"+fileSystem
		if !reflect.DeepEqual(got, test.grant) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.grant)
		}
		want := filesystem.MountRequest{Account: account, Region: region, FileSystemID: fileSystem,
			MountTargetID: "fsmt-available", AccessPointID: test.request.AccessPointID, TLS: test.request.TLS,
			Signed: test.request.Signed}
		if decider.asked != want {
			t.Errorf("%s: the authorizer is asked %+v, want %+v", test.name, decider.asked, want)
		}
	}
}

// What is read of the store to decide about a mount has a bound: no account is charged for it.
func TestMountsReadLittle(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 9 {
		target := record.MountTarget{Account: account, Region: region, ID: fmt.Sprintf("fsmt-%d", i), VPCID: "vpc-1",
			IPAddress: "10.0.0.5", FileSystemID: strings.Repeat("x", 1<<20)}
		if _, err := record.MountTargets(s).Put(t.Context(), target.Key(), target); err != nil {
			t.Fatal(err)
		}
	}
	c := New(Options{Store: s, Network: fakeNetwork{}, Authorizer: &authorizer{}, Log: slog.New(slog.DiscardHandler)})
	got := c.decide(t.Context(), vpcKey, netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.9"),
		&mountgrant.Asked{InstanceID: instance})
	if got.Refused == nil || got.Refused.Errno != uint32(unix.EIO) {
		t.Errorf("with records of 9 MiB: %+v", got.Refused)
	}
}

// A mount target that is served is recorded, also as long as nobody is there who could mount.
func TestReports(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), storetest.Client(t), store.Options{Prefix: storetest.Prefix(t),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c := New(Options{Store: s, Network: fakeNetwork{}, Log: slog.New(slog.DiscardHandler)})
	target := record.MountTarget{Account: account, Region: region, ID: "fsmt-1", VPCID: "vpc-1", IPAddress: "10.0.0.5"}
	if _, err := record.MountTargets(s).Put(t.Context(), target.Key(), target); err != nil {
		t.Fatal(err)
	}
	if _, err := c.reconcile(t.Context(), vpcKey); err != nil {
		t.Fatal(err)
	}
	if row, err := record.MountTargetListeners(s).Get(t.Context(), target.Key()); err != nil || !row.Value.Listening {
		t.Errorf("the record says %+v, %v", row.Value, err)
	}
	if err := s.Txn(t.Context(), record.MountTargets(s).RemoveOp(target.Key())); err != nil {
		t.Fatal(err)
	}
	if _, err := c.reconcile(t.Context(), target.Key()); err != nil {
		t.Fatal(err)
	}
	if _, err := record.MountTargetListeners(s).Get(t.Context(), target.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the record of a mount target that is gone: %v", err)
	}
}
