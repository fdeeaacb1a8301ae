package addon_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// fixture is the EKS API behind an HTTP server, with what the tests of this part do with it.
type fixture struct{ *ekstest.Fixture }

func newFixture(t testing.TB) fixture { return fixture{ekstest.New(t)} }

// versions returns the versions of an add-on for Kubernetes 1.35, newest first.
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

// defaultVersion returns the version that CreateAddon takes for Kubernetes 1.35.
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

// keepAddon stands for the controller: it carries out the desired state of an add-on, and writes the observed state,
// which saw may change.
func (w fixture) keepAddon(cluster, name string, saw ...func(*record.AddonState)) {
	w.T.Helper()
	a := w.addonRow(cluster, name)
	state := record.AddonState{AddonID: a.ID, Change: a.Change, Applied: a.Wanted, Created: true}
	for _, s := range saw {
		s(&state)
	}
	ekstest.Put(w.T, record.AddonStates(w.Store), a.Key(), state)
}

// failed changes the observed state to that of an add-on that conflicts with existing objects.
func failed(s *record.AddonState) {
	s.Created, s.Failed, s.Applied = false, true, record.AddonConfig{}
	s.Issues = []types.AddonIssue{{Code: types.AddonIssueCodeConfigurationConflict,
		Message: aws.String("Apply failed with 2 conflicts"), ResourceIds: []string{"daemonset.apps/aws-node"}}}
}

// endAddonUpdate stands for the controller that ends the update of an add-on.
func (w fixture) endAddonUpdate(cluster, name string, status types.UpdateStatus) {
	w.T.Helper()
	w.Finish(cluster, w.addonRow(cluster, name).LastUpdateID, status)
}

var unexportedOfAddons = cmpopts.IgnoreUnexported(types.Addon{}, types.AddonHealth{}, types.AddonIssue{},
	types.AddonNamespaceConfigResponse{}, types.MarketplaceInformation{},

	types.AddonVersionInfo{}, types.Compatibility{}, types.AddonInfo{}, types.AddonPodIdentityConfiguration{},
	types.PodIdentityAssociationSummary{}, types.PodIdentityAssociation{})

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
