package addon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// fixture is the EKS API behind an HTTP server, with what the tests of this part do with it.
type fixture struct{ *ekstest.Fixture }

func newFixture(t testing.TB) fixture { return fixture{ekstest.New(t)} }

// versions are those of an add-on for Kubernetes 1.35, newest first.
func (w fixture) versions(addon string) []string {
	w.T.Helper()
	a, ok := w.Catalog.Addon(addon)
	if !ok {
		w.T.Fatalf("no add-on %s", addon)
	}
	var all []string
	for _, v := range a.Versions {
		if v.Serves("1.35") {
			all = append(all, v.Version)
		}
	}
	if len(all) < 2 {
		w.T.Fatalf("%s has versions %v", addon, all)
	}
	return all
}

// defaultVersion is what CreateAddon takes for Kubernetes 1.35.
func (w fixture) defaultVersion(addon string) string {
	a, _ := w.Catalog.Addon(addon)
	v, _ := a.Default("1.35")
	return v.Version
}

// createAddon creates an add-on, which the controller has not seen yet.
func (w fixture) createAddon(cluster, name string, edit ...func(*eks.CreateAddonInput)) *types.Addon {
	w.T.Helper()
	in := &eks.CreateAddonInput{ClusterName: &cluster, AddonName: &name}
	for _, e := range edit {
		e(in)
	}
	out, err := w.Client.CreateAddon(w.T.Context(), in)
	if err != nil {
		w.T.Fatalf("create add-on %s: %v", name, err)
	}
	return out.Addon
}

func (w fixture) updateAddon(cluster, name string, in eks.UpdateAddonInput) *types.Update {
	w.T.Helper()
	in.ClusterName, in.AddonName = &cluster, &name
	out, err := w.Client.UpdateAddon(w.T.Context(), &in)
	if err != nil {
		w.T.Fatalf("update add-on %s: %v", name, err)
	}
	return out.Update
}

func (w fixture) describeAddon(cluster, name string) *types.Addon {
	w.T.Helper()
	out, err := w.Client.DescribeAddon(w.T.Context(), &eks.DescribeAddonInput{ClusterName: &cluster, AddonName: &name})
	if err != nil {
		w.T.Fatalf("describe add-on %s: %v", name, err)
	}
	return out.Addon
}

func (w fixture) addonRow(cluster, name string) record.Addon {
	w.T.Helper()
	row, err := record.Addons(w.Store).Get(w.T.Context(), record.AddonKey(ekstest.Account, ekstest.Region, cluster,
		name))
	if err != nil {
		w.T.Fatal(err)
	}
	return row.Value
}

// keepAddon is the controller carrying out what is wanted of an add-on, and writing what it saw. It may see something
// else.
func (w fixture) keepAddon(cluster, name string, saw ...func(*record.AddonState)) {
	w.T.Helper()
	a := w.addonRow(cluster, name)
	state := record.AddonState{AddonID: a.ID, Change: a.Change, Applied: a.Wanted, Created: true}
	for _, s := range saw {
		s(&state)
	}
	ekstest.Put(w.T, record.AddonStates(w.Store), a.Key(), state)
}

// failed is what the controller sees when an add-on conflicts with what is there.
func failed(s *record.AddonState) {
	s.Created, s.Failed, s.Applied = false, true, record.AddonConfig{}
	s.Issues = []types.AddonIssue{{Code: types.AddonIssueCodeConfigurationConflict,
		Message: aws.String("Apply failed with 2 conflicts"), ResourceIds: []string{"daemonset.apps/aws-node"}}}
}

// endAddonUpdate is the controller ending the update of an add-on.
func (w fixture) endAddonUpdate(cluster, name string, status types.UpdateStatus) {
	w.T.Helper()
	w.Finish(cluster, w.addonRow(cluster, name).LastUpdateID, status)
}

var unexportedOfAddons = cmpopts.IgnoreUnexported(types.Addon{}, types.AddonHealth{}, types.AddonIssue{},
	types.AddonNamespaceConfigResponse{}, types.MarketplaceInformation{},

	types.AddonVersionInfo{}, types.Compatibility{}, types.AddonInfo{}, types.AddonPodIdentityConfiguration{},
	types.PodIdentityAssociationSummary{}, types.PodIdentityAssociation{})

func TestCreateAddonWithDefaults(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	got := w.createAddon("c", "vpc-cni")
	want := &types.Addon{
		AddonName: aws.String("vpc-cni"), ClusterName: aws.String("c"),
		AddonArn: aws.String("arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":addon/c/vpc-cni/" +
			w.addonRow("c", "vpc-cni").ID),
		AddonVersion: aws.String(w.defaultVersion("vpc-cni")), CreatedAt: &ekstest.Today, ModifiedAt: &ekstest.Today,
		Status: types.AddonStatusCreating, Publisher: aws.String("eks"), Owner: aws.String("aws"),
		Health:          &types.AddonHealth{Issues: []types.AddonIssue{}},
		NamespaceConfig: &types.AddonNamespaceConfigResponse{Namespace: aws.String("kube-system")},
		Tags:            map[string]string{},
	}
	if d := cmp.Diff(want, got, unexportedOfAddons); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	row := w.addonRow("c", "vpc-cni")
	if row.Wanted.Conflicts != types.ResolveConflictsNone || row.Change != 1 || row.ClusterID != w.Row("c").ID {
		t.Errorf("recorded %+v", row)
	}
	w.keepAddon("c", "vpc-cni")
	want.Status = types.AddonStatusActive
	if d := cmp.Diff(want, w.describeAddon("c", "vpc-cni"), unexportedOfAddons); d != "" {
		t.Errorf("created (-want +got):\n%s", d)
	}
}

func TestCreateAddonWithEverything(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	oldest := w.versions("acme_storage")[len(w.versions("acme_storage"))-1]
	got := w.createAddon("c", "acme_storage", func(in *eks.CreateAddonInput) {
		in.AddonVersion, in.ConfigurationValues, in.ResolveConflicts = &oldest, aws.String("replicaCount: 3\n"),
			types.ResolveConflictsPreserve
		in.ServiceAccountRoleArn, in.Tags = aws.String(ekstest.IRSARole), map[string]string{"team": "a"}
		in.NamespaceConfig = &types.AddonNamespaceConfigRequest{Namespace: aws.String("storage")}
		in.PodIdentityAssociations = []types.AddonPodIdentityAssociations{{ServiceAccount: aws.String("node"),
			RoleArn: aws.String(ekstest.PodRole)}}
	})
	want := &types.Addon{
		AddonVersion: &oldest, Status: types.AddonStatusCreating, Publisher: aws.String("acme"),
		Owner: aws.String("aws-marketplace"), ConfigurationValues: aws.String("replicaCount: 3\n"),
		MarketplaceInformation: &types.MarketplaceInformation{ProductId: aws.String("prod-1"),
			ProductUrl: aws.String("https://acme.example/storage")},
		ServiceAccountRoleArn: aws.String(ekstest.IRSARole), Tags: map[string]string{"team": "a"},
		Health:          &types.AddonHealth{Issues: []types.AddonIssue{}},
		NamespaceConfig: &types.AddonNamespaceConfigResponse{Namespace: aws.String("storage")},
	}
	if d := cmp.Diff(want, got, unexportedOfAddons, cmpopts.IgnoreFields(types.Addon{}, "AddonName", "ClusterName",
		"AddonArn", "CreatedAt", "ModifiedAt", "PodIdentityAssociations")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if row := w.addonRow("c", "acme_storage"); row.Wanted.Conflicts != types.ResolveConflictsPreserve ||
		len(row.Wanted.PodIdentityAssociations) != 1 {
		t.Errorf("recorded %+v", row)
	}
	if len(got.PodIdentityAssociations) != 1 || !strings.HasPrefix(got.PodIdentityAssociations[0], "arn:aws:eks:"+
		ekstest.Region+":"+ekstest.Account+":podidentityassociation/c/a-") {
		t.Errorf("associations %v", got.PodIdentityAssociations)
	}
}

// An add-on whose creation failed is created again: the same add-on, with what the new request says.
func TestCreateAddonAgainAfterItFailed(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	first := w.createAddon("c", "vpc-cni", func(in *eks.CreateAddonInput) { in.Tags = map[string]string{"old": "1"} })
	w.keepAddon("c", "vpc-cni", failed)
	got := w.describeAddon("c", "vpc-cni")
	if got.Status != types.AddonStatusCreateFailed || len(got.Health.Issues) != 1 ||
		got.Health.Issues[0].Code != types.AddonIssueCodeConfigurationConflict {
		t.Errorf("failed: %s, %+v", got.Status, got.Health)
	}
	older := w.versions("vpc-cni")[1]
	again := w.createAddon("c", "vpc-cni", func(in *eks.CreateAddonInput) {
		in.AddonVersion, in.ResolveConflicts, in.Tags = &older, types.ResolveConflictsOverwrite,
			map[string]string{"new": "1"}
	})
	if *again.AddonArn != *first.AddonArn || *again.AddonVersion != older ||
		again.Status != types.AddonStatusCreating || !cmp.Equal(again.Tags, map[string]string{"new": "1"}) {
		t.Errorf("created again as %+v", again)
	}
	if row := w.addonRow("c", "vpc-cni"); row.Change != 2 || row.Wanted.Conflicts != types.ResolveConflictsOverwrite ||
		row.LastUpdateID != "" {
		t.Errorf("recorded %+v", row)
	}
	w.keepAddon("c", "vpc-cni")
	if got := w.describeAddon("c", "vpc-cni"); got.Status != types.AddonStatusActive {
		t.Errorf("in the end %s", got.Status)
	}
	if all := w.addonNames("c"); !slices.Equal(all, []string{"vpc-cni"}) {
		t.Errorf("add-ons %v", all)
	}
}

// An update may bring up what creation failed to.
func TestUpdateAddonAfterCreationFailed(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createAddon("c", "coredns")
	w.keepAddon("c", "coredns", failed)
	w.updateAddon("c", "coredns", eks.UpdateAddonInput{ResolveConflicts: types.ResolveConflictsOverwrite})
	if got := w.describeAddon("c", "coredns").Status; got != types.AddonStatusUpdating {
		t.Errorf("on its way %s", got)
	}
	w.endAddonUpdate("c", "coredns", types.UpdateStatusFailed)
	w.keepAddon("c", "coredns", failed)
	if got := w.describeAddon("c", "coredns").Status; got != types.AddonStatusCreateFailed {
		t.Errorf("failed again: %s", got)
	}
	w.updateAddon("c", "coredns", eks.UpdateAddonInput{ResolveConflicts: types.ResolveConflictsOverwrite})
	w.endAddonUpdate("c", "coredns", types.UpdateStatusSuccessful)
	w.keepAddon("c", "coredns")
	if got := w.describeAddon("c", "coredns").Status; got != types.AddonStatusActive {
		t.Errorf("in the end %s", got)
	}
}

func (w fixture) addonNames(cluster string) []string {
	w.T.Helper()
	var names []string
	pages := eks.NewListAddonsPaginator(w.Client, &eks.ListAddonsInput{ClusterName: &cluster, MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		names = append(names, page.Addons...)
	}
	return names
}

func TestAddonsAreListedByPage(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	for _, name := range []string{"vpc-cni", "kube-proxy", "acme_storage", "coredns", "acme_strict"} {
		w.createAddon("c", name, func(in *eks.CreateAddonInput) { in.ConfigurationValues = aws.String("{}") })
	}
	old := record.Addon{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c", ClusterID: "OLD",
		Name: "b-of-an-earlier-cluster"}
	ekstest.Put(w.T, record.Addons(w.Store), old.Key(), old)
	if d := cmp.Diff([]string{"acme_storage", "acme_strict", "coredns", "kube-proxy", "vpc-cni"},
		w.addonNames("c")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestUpdateAddon(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	newer, older := w.versions("coredns")[0], w.versions("coredns")[1]
	w.createAddon("c", "coredns", func(in *eks.CreateAddonInput) { in.AddonVersion = &older })
	w.keepAddon("c", "coredns")
	for _, step := range []struct {
		name    string
		in      eks.UpdateAddonInput
		params  map[types.UpdateParamType]string
		version string
		values  string // of the configuration
	}{
		{"a newer version", eks.UpdateAddonInput{AddonVersion: &newer},
			map[types.UpdateParamType]string{"AddonVersion": newer}, newer, ""},
		{"a configuration in JSON", eks.UpdateAddonInput{ConfigurationValues: aws.String(`{"replicaCount":3}`),
			ResolveConflicts: types.ResolveConflictsOverwrite},
			map[types.UpdateParamType]string{"ConfigurationValues": `{"replicaCount":3}`,
				"ResolveConflicts": "OVERWRITE"}, newer, `{"replicaCount":3}`},
		{"a downgrade keeps the configuration", eks.UpdateAddonInput{AddonVersion: &older,
			ResolveConflicts: types.ResolveConflictsPreserve},
			map[types.UpdateParamType]string{"AddonVersion": older, "ResolveConflicts": "PRESERVE"}, older,
			`{"replicaCount":3}`},
		{"the same version, as eksctl says it", eks.UpdateAddonInput{AddonVersion: &older,
			ResolveConflicts: types.ResolveConflictsOverwrite},
			map[types.UpdateParamType]string{"AddonVersion": older, "ResolveConflicts": "OVERWRITE"}, older,
			`{"replicaCount":3}`},
		{"a configuration in YAML", eks.UpdateAddonInput{ConfigurationValues: aws.String("replicaCount: 4\n")},
			map[types.UpdateParamType]string{"ConfigurationValues": "replicaCount: 4\n"}, older, "replicaCount: 4\n"},
		{"nothing at all", eks.UpdateAddonInput{}, map[types.UpdateParamType]string{}, older, "replicaCount: 4\n"},
		{"no configuration any more", eks.UpdateAddonInput{ConfigurationValues: aws.String("")},
			map[types.UpdateParamType]string{"ConfigurationValues": ""}, older, ""},
	} {
		change := w.addonRow("c", "coredns").Change
		u := w.updateAddon("c", "coredns", step.in)
		if d := cmp.Diff(step.params, ekstest.Params(u)); d != "" || u.Type != types.UpdateTypeAddonUpdate ||
			u.Status != types.UpdateStatusInProgress {
			t.Errorf("%s: %s %s (-want +got):\n%s", step.name, u.Type, u.Status, d)
		}
		if got := w.addonRow("c", "coredns"); got.Change != change+1 || got.LastUpdateID != *u.Id {
			t.Errorf("%s: recorded %+v", step.name, got)
		}
		got := w.describeAddon("c", "coredns")
		if got.Status != types.AddonStatusUpdating || *got.AddonVersion != step.version ||
			aws.ToString(got.ConfigurationValues) != step.values {
			t.Errorf("%s: %s, version %s, values %q", step.name, got.Status, *got.AddonVersion,
				aws.ToString(got.ConfigurationValues))
		}
		w.endAddonUpdate("c", "coredns", types.UpdateStatusSuccessful)
		w.keepAddon("c", "coredns")
		described, err := w.Client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("c"),
			AddonName: aws.String("coredns"), UpdateId: u.Id})
		if err != nil || described.Update.Status != types.UpdateStatusSuccessful {
			t.Errorf("%s: described as %+v, %v", step.name, described, err)
		}
		if got := w.describeAddon("c", "coredns"); got.Status != types.AddonStatusActive {
			t.Errorf("%s: done, %s", step.name, got.Status)
		}
	}
}

// An update that failed leaves what was before, and the next goes on from there.
func TestUpdateAddonThatFails(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	newer, older := w.versions("vpc-cni")[0], w.versions("vpc-cni")[1]
	w.createAddon("c", "vpc-cni", func(in *eks.CreateAddonInput) {
		in.AddonVersion, in.ServiceAccountRoleArn = &older, aws.String(ekstest.IRSARole)
	})
	w.keepAddon("c", "vpc-cni")
	w.updateAddon("c", "vpc-cni", eks.UpdateAddonInput{AddonVersion: &newer,
		ConfigurationValues: aws.String(`{"env":{"WARM_ENI_TARGET":"2"}}`)})
	w.endAddonUpdate("c", "vpc-cni", types.UpdateStatusFailed)
	w.keepAddon("c", "vpc-cni", func(s *record.AddonState) { failed(s); s.Created, s.Failed = true, false })
	got := w.describeAddon("c", "vpc-cni")
	if got.Status != types.AddonStatusUpdateFailed || *got.AddonVersion != older || got.ConfigurationValues != nil ||
		aws.ToString(got.ServiceAccountRoleArn) != ekstest.IRSARole || len(got.Health.Issues) != 1 {
		t.Errorf("after it failed: %+v", got)
	}
	u := w.updateAddon("c", "vpc-cni", eks.UpdateAddonInput{ServiceAccountRoleArn: aws.String(ekstest.IRSARole),
		ResolveConflicts: types.ResolveConflictsOverwrite})
	if got := w.describeAddon("c", "vpc-cni"); *got.AddonVersion != older || got.ConfigurationValues != nil {
		t.Errorf("the next update is of %s with %v", *got.AddonVersion, got.ConfigurationValues)
	}
	row, err := record.Updates(w.Store).Get(t.Context(), record.UpdateKey(ekstest.Account, ekstest.Region, "c", *u.Id))
	if err != nil || row.Value.AddonName != "vpc-cni" || row.Value.AddonID != w.addonRow("c", "vpc-cni").ID ||
		row.Value.PreviousAddon == nil || row.Value.PreviousAddon.Version != older {
		t.Errorf("recorded %+v, %v", row.Value, err)
	}
	w.endAddonUpdate("c", "vpc-cni", types.UpdateStatusSuccessful)
	w.keepAddon("c", "vpc-cni", func(s *record.AddonState) { s.ModifiedAt = ekstest.Today.Add(time.Hour) })
	if got := w.describeAddon("c", "vpc-cni"); got.Status != types.AddonStatusActive ||
		!got.ModifiedAt.Equal(ekstest.Today.Add(time.Hour)) {
		t.Errorf("in the end %s, modified at %s", got.Status, got.ModifiedAt)
	}
	// Without a role in the request the add-on has none any more, as on EKS.
	w.updateAddon("c", "vpc-cni", eks.UpdateAddonInput{})
	if got := w.describeAddon("c", "vpc-cni"); got.ServiceAccountRoleArn != nil {
		t.Errorf("role %s", *got.ServiceAccountRoleArn)
	}
}

// The same request with the same token is done once; with the same token another one is refused.
func TestAddonRequestsAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	create := &eks.CreateAddonInput{ClusterName: aws.String("c"), AddonName: aws.String("coredns"),
		ClientRequestToken: aws.String("t")}
	update := &eks.UpdateAddonInput{ClusterName: aws.String("c"), AddonName: aws.String("coredns"),
		ClientRequestToken: aws.String("u"), ConfigurationValues: aws.String("replicaCount: 3")}
	var id string
	for range 2 {
		out, err := w.Client.CreateAddon(t.Context(), create)
		if err != nil || id != "" && id != *out.Addon.AddonArn {
			t.Fatalf("%+v, %v", out, err)
		}
		id = *out.Addon.AddonArn
	}
	w.keepAddon("c", "coredns")
	id = ""
	for range 2 {
		out, err := w.Client.UpdateAddon(t.Context(), update)
		if err != nil || id != "" && id != *out.Update.Id {
			t.Fatalf("%+v, %v", out, err)
		}
		id = *out.Update.Id
	}
	if got := w.addonRow("c", "coredns").Change; got != 2 {
		t.Errorf("%d changes", got)
	}
	create.ConfigurationValues, update.ConfigurationValues = aws.String("replicaCount: 5"),
		aws.String("replicaCount: 6")
	if _, err := w.Client.CreateAddon(t.Context(), create); ekstest.FailureOf(t,
		err).Code != "InvalidParameterException" {
		t.Errorf("another CreateAddon: %v", err)
	}
	if _, err := w.Client.UpdateAddon(t.Context(), update); ekstest.FailureOf(t,
		err).Code != "InvalidParameterException" {
		t.Errorf("another UpdateAddon: %v", err)
	}
}

// Two at once: one succeeds.
func TestAddonTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	race := func(what, message string, do func() error) {
		t.Helper()
		errs := make(chan error)
		for range 4 {
			go func() { errs <- do() }()
		}
		done := 0
		for range 4 {
			if err := <-errs; err == nil {
				done++
			} else if f := ekstest.FailureOf(t, err); f.Code != "ResourceInUseException" || f.Message != message {
				t.Errorf("%s: %v", what, f)
			}
		}
		if done != 1 {
			t.Errorf("%s: %d succeeded", what, done)
		}
	}
	create := func() error {
		_, err := w.Client.CreateAddon(t.Context(), &eks.CreateAddonInput{ClusterName: aws.String("c"),
			AddonName: aws.String("coredns")})
		return err
	}
	race("create", "Addon already exists.", create)
	w.keepAddon("c", "coredns")
	race("update", "Addon coredns cannot be updated as it is currently in UPDATING state", func() error {
		_, err := w.Client.UpdateAddon(t.Context(), &eks.UpdateAddonInput{ClusterName: aws.String("c"),
			AddonName: aws.String("coredns")})
		return err
	})
	w.endAddonUpdate("c", "coredns", types.UpdateStatusFailed)
	w.keepAddon("c", "coredns", failed)
	race("create again", "Addon already exists.", create)
}

func TestDeleteAddon(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createAddon("c", "coredns")
	remove := func(preserve bool) (*types.Addon, error) {
		out, err := w.Client.DeleteAddon(t.Context(), &eks.DeleteAddonInput{ClusterName: aws.String("c"),
			AddonName: aws.String("coredns"), Preserve: preserve})
		if err != nil {
			return nil, err
		}
		return out.Addon, nil
	}
	for range 2 { // also one that is being created, and twice
		if got, err := remove(false); err != nil || got.Status != types.AddonStatusDeleting {
			t.Fatalf("deleted: %+v, %v", got, err)
		}
	}
	if _, err := remove(true); ekstest.FailureOf(t, err) != (ekstest.Failure{Code: "InvalidRequestException",
		Status: 400, Message: "Addon coredns cannot be deleted as it is currently in DELETING state"}) {
		t.Errorf("preserved while it is deleted: %v", err)
	}
	w.keepAddon("c", "coredns", func(s *record.AddonState) { s.DeleteFailed = true })
	if got := w.describeAddon("c", "coredns").Status; got != types.AddonStatusDeleteFailed {
		t.Errorf("stuck: %s", got)
	}
	if got, err := remove(true); err != nil || !w.addonRow("c", "coredns").Preserve {
		t.Errorf("preserved after all: %+v, %v", got, err)
	}
	// What is on its way out is in nobody's way: clusters with add-ons can be deleted, and the controller takes the
	// rows.
	if _, err := w.Client.DeleteCluster(t.Context(), &eks.DeleteClusterInput{Name: aws.String("c")}); err != nil {
		t.Error(err)
	}
}

// What an earlier cluster of the name left is not there, and not in the way.
func TestAddonOfAnEarlierCluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	old := record.Addon{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c", ClusterID: "OLD",
		Name: "coredns", ID: "old", Change: 7, LastUpdateID: "u"}
	ekstest.Put(w.T, record.Addons(w.Store), old.Key(), old)
	ekstest.Put(w.T, record.AddonStates(w.Store), old.Key(), record.AddonState{AddonID: "old", Change: 7,
		Created: true})
	_, err := w.Client.DescribeAddon(t.Context(), &eks.DescribeAddonInput{ClusterName: aws.String("c"),
		AddonName: aws.String("coredns")})
	if f := ekstest.FailureOf(t, err); f != (ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
		Message: "No addon: coredns found in cluster: c"}) {
		t.Errorf("%v", f)
	}
	w.createAddon("c", "coredns")
	if got := w.addonRow("c", "coredns"); got.ID == "old" || got.Change != 1 || w.describeAddon("c",
		"coredns").Status != types.AddonStatusCreating {
		t.Errorf("created %+v", got)
	}
}

// The updates of an add-on are its own.
func TestUpdatesOfAddons(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createAddon("c", "coredns")
	w.createAddon("c", "vpc-cni")
	w.keepAddon("c", "coredns")
	w.keepAddon("c", "vpc-cni")
	mine := *w.updateAddon("c", "coredns", eks.UpdateAddonInput{}).Id
	other := *w.updateAddon("c", "vpc-cni", eks.UpdateAddonInput{}).Id
	clusters := *w.Config(&eks.UpdateClusterConfigInput{Name: aws.String("c"), DeletionProtection: aws.Bool(true)}).Id
	list := func(addon *string) []string {
		out, err := w.Client.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("c"), AddonName: addon})
		if err != nil {
			t.Fatal(err)
		}
		return out.UpdateIds
	}
	if got := list(aws.String("coredns")); !slices.Equal(got, []string{mine}) {
		t.Errorf("of coredns: %v", got)
	}
	if got := list(nil); !slices.Equal(got, []string{clusters}) {
		t.Errorf("of the cluster: %v", got)
	}
	for _, id := range []string{other, clusters} {
		_, err := w.Client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("c"),
			AddonName: aws.String("coredns"), UpdateId: &id})
		if f := ekstest.FailureOf(t, err); f != (ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
			Message: "No update found for ID: " + id}) {
			t.Errorf("%v", f)
		}
	}
	_, err := w.Client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("c"), UpdateId: &mine})
	if f := ekstest.FailureOf(t, err); f.Code != "ResourceNotFoundException" {
		t.Errorf("an add-on's as the cluster's: %v", f)
	}
}

func TestAddonTags(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	a := w.createAddon("c", "acme_storage", func(in *eks.CreateAddonInput) {
		in.Tags = map[string]string{"a": "1", "b": "2"}
		in.PodIdentityAssociations = []types.AddonPodIdentityAssociations{{ServiceAccount: aws.String("node"),
			RoleArn: aws.String(ekstest.PodRole)}}
	})
	ctx := t.Context()
	for arn, before := range map[string]map[string]string{*a.AddonArn: {"a": "1", "b": "2"},
		a.PodIdentityAssociations[0]: {}} {
		if _, err := w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn,
			Tags: map[string]string{"b": "3", "c": "4"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: &arn,
			TagKeys: []string{"c", "nope"}}); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"b": "3"}
		if before["a"] != "" {
			want["a"] = "1"
		}
		out, err := w.Client.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: &arn})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, out.Tags); d != "" {
			t.Errorf("%s (-want +got):\n%s", arn, d)
		}
	}
	if got := w.describeAddon("c", "acme_storage").Tags["b"]; got != "3" {
		t.Errorf("described with b=%s", got)
	}
	for _, arn := range []string{*a.AddonArn + "x", strings.Replace(*a.AddonArn, "addon/", "nodegroup/", 1),
		a.PodIdentityAssociations[0] + "x"} {
		if _, err := w.Client.ListTagsForResource(ctx,
			&eks.ListTagsForResourceInput{ResourceArn: &arn}); ekstest.FailureOf(t, err).Code != "NotFoundException" {
			t.Errorf("%s: %v", arn, err)
		}
	}
	// Another partition's ARN names nothing here.
	for _, start := range []string{"arn:aws-cn:eks:", "arn:aws-us-gov:eks:", "arn::eks:", "arn:aws:ec2:",
		"aws:aws:eks:"} {
		arn := strings.Replace(*a.AddonArn, "arn:aws:eks:", start, 1)
		_, list := w.Client.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: &arn})
		_, tag := w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"b": "4"}})
		for _, err := range []error{list, tag} {
			if ekstest.FailureOf(t, err).Code != "BadRequestException" {
				t.Errorf("%s: %v", arn, err)
			}
		}
	}
}

// Policies see the resource and the condition keys of the service authorization reference.
func TestAddonTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c, name := t.Context(), aws.String("c"), aws.String("coredns")
	w.Create("c", func(in *eks.CreateClusterInput) { in.Tags = map[string]string{"team": "a"} })
	w.createAddon("c", "coredns", func(in *eks.CreateAddonInput) { in.Tags = map[string]string{"t": "v"} })
	arn := *w.describeAddon("c", "coredns").AddonArn
	_, _ = w.Client.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: c})
	_, _ = w.Client.UpdateAddon(ctx, &eks.UpdateAddonInput{ClusterName: c, AddonName: name})
	_, _ = w.Client.DeleteAddon(ctx, &eks.DeleteAddonInput{ClusterName: c, AddonName: name})
	_, _ = w.Client.ListUpdates(ctx, &eks.ListUpdatesInput{Name: c, AddonName: name})
	_, _ = w.Client.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: c, AddonName: aws.String("none"),
		UpdateId: aws.String("u")})
	_, _ = w.Client.DescribeAddonVersions(ctx, &eks.DescribeAddonVersionsInput{})
	_, _ = w.Client.DescribeAddonConfiguration(ctx, &eks.DescribeAddonConfigurationInput{AddonName: name,
		AddonVersion: aws.String("v")})
	_, _ = w.Client.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: c})
	_, _ = w.Client.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: c,
		AssociationId: aws.String("a-1")})
	_, _ = w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"x": "y"}})
	ofCluster, ofAddon := map[string]string{"aws:ResourceTag/team": "a"}, map[string]string{"aws:ResourceTag/t": "v"}
	for action, want := range map[string]struct {
		resource   string
		conditions map[string]string
	}{
		"CreateAddon": {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/team": "a",
			"aws:RequestTag/t": "v", "aws:TagKeys": "t"}},
		"ListAddons":    {ekstest.ClusterARN + "c", ofCluster},
		"DescribeAddon": {arn, ofAddon},
		"UpdateAddon":   {arn, ofAddon},
		"DeleteAddon":   {arn, ofAddon},
		"ListUpdates":   {arn, ofAddon},
		"DescribeUpdate": {"arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":addon/c/none/*",
			map[string]string{}},
		"DescribeAddonVersions":       {"*", map[string]string{}},
		"DescribeAddonConfiguration":  {"*", map[string]string{}},
		"ListPodIdentityAssociations": {ekstest.ClusterARN + "c", ofCluster},
		"DescribePodIdentityAssociation": {"arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account +
			":podidentityassociation/c/a-1", map[string]string{}},
		"TagResource": {arn, map[string]string{"aws:ResourceTag/t": "v", "aws:RequestTag/x": "y",
			"aws:TagKeys": "x"}},
	} {
		got := w.Target("eks:" + action)
		if got.Resource != want.resource {
			t.Errorf("%s is asked on %s, want %s", action, got.Resource, want.resource)
		}
		if d := cmp.Diff(want.conditions, ekstest.OwnConditions(got)); d != "" {
			t.Errorf("%s: condition keys (-want +got):\n%s", action, d)
		}
	}
}

// The SDK's waiters return as soon as the add-on has arrived, and not after their delay.
func TestAddonWaiters(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createAddon("c", "coredns")
	in := &eks.DescribeAddonInput{ClusterName: aws.String("c"), AddonName: aws.String("coredns")}
	// arrives has a waiter wait, the controller do something once the question is there, and the waiter return.
	arrives := func(what string, wait func() error, then func()) {
		t.Helper()
		asked, done := make(chan struct{}, 1), make(chan error, 1)
		w.Mu.Lock()
		w.Deny = func(_ wire.Caller, t wire.Target) bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return false
		}
		w.Mu.Unlock()
		go func() { done <- wait() }()
		<-asked
		then()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	arrives("active", func() error {
		return eks.NewAddonActiveWaiter(w.Client).Wait(t.Context(), in,
			eventually.Limit)
	}, func() { w.keepAddon("c", "coredns") })
	if _, err := w.Client.DeleteAddon(t.Context(), &eks.DeleteAddonInput{ClusterName: in.ClusterName,
		AddonName: in.AddonName}); err != nil {
		t.Fatal(err)
	}
	arrives("deleted", func() error {
		return eks.NewAddonDeletedWaiter(w.Client).Wait(t.Context(), in,
			eventually.Limit)
	}, func() {
		row, err := record.Addons(w.Store).Get(t.Context(), store.Key(ekstest.Account, ekstest.Region, "c", "coredns"))
		if err == nil {
			err = record.Addons(w.Store).Delete(t.Context(), row)
		}
		if err != nil {
			t.Error(err)
		}
	})
}
