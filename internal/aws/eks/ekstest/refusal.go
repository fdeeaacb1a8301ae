package ekstest

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Contents returns every record that the service writes, with its revision.
func (f *Fixture) Contents() map[string]int64 {
	f.T.Helper()
	all := map[string]int64{}
	collect(f, all, "cluster", record.Clusters(f.Store))
	collect(f, all, "connected", record.ConnectedClusters(f.Store))
	collect(f, all, "update", record.Updates(f.Store))
	collect(f, all, "accessentry", record.AccessEntries(f.Store))
	collect(f, all, "nodegroup", record.Nodegroups(f.Store))
	collect(f, all, "fargateprofile", record.FargateProfiles(f.Store))
	collect(f, all, "addon", record.Addons(f.Store))
	collect(f, all, "association", record.PodIdentityAssociations(f.Store))
	collect(f, all, "capability", record.Capabilities(f.Store))
	collect(f, all, "subscription", record.AnywhereSubscriptions(f.Store))
	collect(f, all, "insightsrefresh", record.InsightsRefreshes(f.Store))
	return all
}

func collect[T any](f *Fixture, into map[string]int64, kind string, table store.Table[T]) {
	rows, err := table.List(f.T.Context(), "")
	if err != nil {
		f.T.Fatal(err)
	}
	for _, r := range rows {
		into[kind+"/"+r.Key] = r.Revision
	}
}

// Call makes a request.
type Call = func(context.Context, *eks.Client) error

// Refuses makes a bad request, which changes nothing, and checks what EKS says to it. A message that begins with "…"
// only has to contain what follows.
func (f *Fixture) Refuses(name string, do Call, code, message string) {
	f.T.Helper()
	before := f.Contents()
	err := do(f.T.Context(), f.Client)
	if err == nil {
		f.T.Errorf("%s: not refused", name)
		return
	}
	want := map[string]int{
		"ResourceInUseException": 409, "ResourceNotFoundException": 404, "NotFoundException": 404,
		"AccessDeniedException": 403,
	}[code]
	if want == 0 {
		want = 400
	}
	got := FailureOf(f.T, err)
	part, contains := strings.CutPrefix(message, "…")
	if got.Code != code || got.Status != want || !contains && got.Message != message ||
		contains && !strings.Contains(got.Message, part) {
		f.T.Errorf("%s:\n got %s %d %q\nwant %s %d %q", name, got.Code, got.Status, got.Message, code, want, message)
	}
	if d := cmp.Diff(before, f.Contents()); d != "" {
		f.T.Errorf("%s: changed something:\n%s", name, d)
	}
}
