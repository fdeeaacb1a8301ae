package escalation

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// path is a way from a few permissions to more.
type path struct {
	name    string
	given   func(w *fixture)       // prepares the fixture
	needs   []statement            // all that mallory may do, which is all that the path needs
	stops   []statement            // but for these permissions, with which it succeeds
	hinders []statement            // or with these denials, without which it succeeds
	open    func(w *fixture)       // or until this is done, after which it succeeds
	try     func(w *fixture) error // as mallory
	changes []string               // the tables that a refusal may write to all the same
}

// all are the paths.
var all = slices.Concat(iamPaths, sessionPaths, ec2Paths, volumePaths, fleetPaths, groupPaths, eksPaths, otherPaths)

// TestPaths tries each path without the permission that should stop it, which must be refused and change nothing, and
// then with it, which must succeed: so that it is exactly that permission which stops it.
func TestPaths(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.name] {
			t.Errorf("two paths are called %q", p.name)
		}
		seen[p.name] = true
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			if p.given != nil {
				p.given(w)
			}
			w.may(slices.Concat(p.needs, p.hinders)...)
			before := storetest.Rows(t, w.Prefix)
			if err := p.try(w); !denied(err) {
				t.Fatalf("without the permission it is not refused: %v", err)
			}
			for _, change := range differ(before, storetest.Rows(t, w.Prefix), p.changes) {
				t.Errorf("it was refused, but changed %s", change)
			}
			w.may(slices.Concat(p.needs, p.stops)...)
			if p.open != nil {
				p.open(w)
			}
			if err := p.try(w); err != nil {
				t.Errorf("it is no path, because it fails with the permission too: %v", err)
			}
		})
	}
}

// errorCode returns AWS's code of an error; empty for an error that AWS did not return.
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// denied reports whether an error is a refusal because of a missing permission.
func denied(err error) bool {
	switch errorCode(err) {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation":
		return true
	case "ValidationError": // as Auto Scaling says it
		return strings.Contains(err.Error(), ": You are not authorized to use launch template")
	}
	return false
}

// uses are the tables about when credentials were used.
var uses = []string{"accesskeyuses", "roleuses"}

// differ returns the keys of the records that are not the same, except for those of some tables.
func differ(before, after map[string]string, except []string) []string {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(keys)), func(key string) bool {
		table, _, _ := strings.Cut(key, "/")
		return before[key] == after[key] || slices.Contains(uses, table) || slices.Contains(except, table)
	})
}

// failed returns the error of a call whose output does not matter.
func failed(_ any, err error) error { return err }
