package addon_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// associations returns the pod identity associations of a cluster: the ID and the role by service account.
func (w fixture) associations(cluster string) (ids, roles map[string]string) {
	w.T.Helper()
	ids, roles = map[string]string{}, map[string]string{}
	pages := eks.NewListPodIdentityAssociationsPaginator(w.Client,
		&eks.ListPodIdentityAssociationsInput{ClusterName: &cluster, MaxResults: aws.Int32(1)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		for _, a := range page.Associations {
			out, err := w.Client.DescribePodIdentityAssociation(w.T.Context(),
				&eks.DescribePodIdentityAssociationInput{ClusterName: &cluster, AssociationId: a.AssociationId})
			if err != nil {
				w.T.Fatal(err)
			}
			ids[*a.ServiceAccount], roles[*a.ServiceAccount] = *a.AssociationId, *out.Association.RoleArn
		}
	}
	return ids, roles
}

// An add-on's pod identity associations are replaced by an update that speaks of them, and by no other.
func TestAddonPodIdentity(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	other := "arn:aws:iam::" + ekstest.Account + ":role/other-pods"
	a := w.createAddon("c", "acme_storage", func(in *eks.CreateAddonInput) {
		in.PodIdentityAssociations = pairs("node", ekstest.PodRole, "controller", ekstest.PodRole)
	})
	w.keepAddon("c", "acme_storage")
	first, _ := w.associations("c")
	if len(first) != 2 || len(a.PodIdentityAssociations) != 2 {
		t.Fatalf("associations %v, %v", first, a.PodIdentityAssociations)
	}
	out, err := w.Client.DescribePodIdentityAssociation(t.Context(),
		&eks.DescribePodIdentityAssociationInput{ClusterName: aws.String("c"),
			AssociationId: aws.String(first["node"])})
	if err != nil {
		t.Fatal(err)
	}
	want := &types.PodIdentityAssociation{
		ClusterName: aws.String("c"), Namespace: aws.String("acme"), ServiceAccount: aws.String("node"),
		RoleArn: aws.String(ekstest.PodRole), OwnerArn: a.AddonArn, AssociationId: aws.String(first["node"]),
		AssociationArn: aws.String("arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account +
			":podidentityassociation/c/" + first["node"]), CreatedAt: &ekstest.Today, ModifiedAt: &ekstest.Today,
		DisableSessionTags: aws.Bool(false), Tags: map[string]string{},
	}
	if d := cmp.Diff(want, out.Association, unexportedOfAddons); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	update := func(in eks.UpdateAddonInput, status types.UpdateStatus) *types.Update {
		t.Helper()
		u := w.updateAddon("c", "acme_storage", in)
		w.endAddonUpdate("c", "acme_storage", status)
		w.keepAddon("c", "acme_storage")
		return u
	}
	// One keeps its ID with another role, one goes.
	u := update(eks.UpdateAddonInput{PodIdentityAssociations: pairs("node", other)}, types.UpdateStatusSuccessful)
	if d := cmp.Diff(map[types.UpdateParamType]string{
		"PodIdentityAssociations": `[{"serviceAccount":"node","roleArn":"` + other + `"}]`},
		ekstest.Params(u)); d != "" {
		t.Errorf("params (-want +got):\n%s", d)
	}
	ids, roles := w.associations("c")
	if !maps.Equal(ids, map[string]string{"node": first["node"]}) || roles["node"] != other {
		t.Errorf("replaced: %v with %v", ids, roles)
	}
	update(eks.UpdateAddonInput{ConfigurationValues: aws.String("replicaCount: 3")}, types.UpdateStatusSuccessful)
	if again, _ := w.associations("c"); !maps.Equal(again, ids) {
		t.Errorf("after an update of something else: %v", again)
	}
	// What an update that fails said of associations is done all the same.
	update(eks.UpdateAddonInput{PodIdentityAssociations: pairs("node", other, "controller", ekstest.PodRole)},
		types.UpdateStatusFailed)
	ids, _ = w.associations("c")
	if got := w.describeAddon("c", "acme_storage"); len(ids) != 2 || ids["controller"] == first["controller"] ||
		len(got.PodIdentityAssociations) != 2 {
		t.Errorf("after an update that failed: %v, %v", ids, got.PodIdentityAssociations)
	}
	update(eks.UpdateAddonInput{PodIdentityAssociations: pairs()}, types.UpdateStatusSuccessful)
	if ids, _ := w.associations("c"); len(ids) != 0 {
		t.Errorf("removed: %v", ids)
	}
	if got := w.describeAddon("c", "acme_storage"); len(got.PodIdentityAssociations) != 0 {
		t.Errorf("described with %v", got.PodIdentityAssociations)
	}
}

func TestListPodIdentityAssociations(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createAddon("c", "acme_storage", func(in *eks.CreateAddonInput) {
		in.PodIdentityAssociations = pairs("node",
			ekstest.PodRole)
	})
	own := record.PodIdentityAssociation{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c",
		ClusterID: w.Row("c").ID, ID: "a-own", Namespace: "default", ServiceAccount: "node", RoleARN: ekstest.PodRole}
	ekstest.Put(w.T, record.PodIdentityAssociations(w.Store), own.Key(), own)
	old := record.PodIdentityAssociation{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c",
		ClusterID: "OLD", ID: "a-old", Namespace: "default", ServiceAccount: "node"}
	ekstest.Put(w.T, record.PodIdentityAssociations(w.Store), old.Key(), old)
	for _, c := range []struct {
		in   eks.ListPodIdentityAssociationsInput
		want int
	}{
		{eks.ListPodIdentityAssociationsInput{}, 2},
		{eks.ListPodIdentityAssociationsInput{Namespace: aws.String("default")}, 1},
		{eks.ListPodIdentityAssociationsInput{ServiceAccount: aws.String("node")}, 2},
		{eks.ListPodIdentityAssociationsInput{ServiceAccount: aws.String("node"), Namespace: aws.String("acme")}, 1},
		{eks.ListPodIdentityAssociationsInput{ServiceAccount: aws.String("controller")}, 0},
	} {
		c.in.ClusterName = aws.String("c")
		out, err := w.Client.ListPodIdentityAssociations(t.Context(), &c.in)
		if err != nil || len(out.Associations) != c.want {
			t.Errorf("%v %v: %+v, %v", aws.ToString(c.in.Namespace), aws.ToString(c.in.ServiceAccount), out, err)
			continue
		}
		for _, a := range out.Associations {
			if owned := *a.Namespace == "acme"; owned != (a.OwnerArn != nil) {
				t.Errorf("owner %v of %s", a.OwnerArn, *a.AssociationId)
			}
		}
	}
}

// With preserve the associations stay, and are nobody's; without it they are left to whoever deletes the add-on.
func TestDeleteAddonWithPodIdentity(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, cluster := range []string{"c", "d"} {
		w.Create(cluster)
		w.createAddon(cluster, "acme_storage",
			func(in *eks.CreateAddonInput) { in.PodIdentityAssociations = pairs("node", ekstest.PodRole) })
		out, err := w.Client.DeleteAddon(t.Context(), &eks.DeleteAddonInput{ClusterName: &cluster,
			AddonName: aws.String("acme_storage"), Preserve: cluster == "c"})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := w.Client.ListPodIdentityAssociations(t.Context(),
			&eks.ListPodIdentityAssociationsInput{ClusterName: &cluster})
		if err != nil || len(listed.Associations) != 1 {
			t.Fatalf("%+v, %v", listed, err)
		}
		kept := listed.Associations[0].OwnerArn == nil
		if kept != (cluster == "c") || kept != (len(out.Addon.PodIdentityAssociations) == 0) {
			t.Errorf("%s: owner %v, described %v", cluster, listed.Associations[0].OwnerArn,
				out.Addon.PodIdentityAssociations)
		}
	}
}

// Whoever has an add-on use a role must be allowed to pass it, and to do what the add-on does with associations.
func TestAddonRolesDenied(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	create := func() error {
		_, err := w.Client.CreateAddon(t.Context(), &eks.CreateAddonInput{
			ClusterName: aws.String("c"), AddonName: aws.String("acme_storage"),
			ServiceAccountRoleArn: aws.String(ekstest.IRSARole), PodIdentityAssociations: pairs("node", ekstest.PodRole,
				"controller", ekstest.PodRole),
		})
		return err
	}
	update := func() error {
		_, err := w.Client.UpdateAddon(t.Context(), &eks.UpdateAddonInput{
			ClusterName: aws.String("c"), AddonName: aws.String("acme_storage"), PodIdentityAssociations: pairs("node",
				"arn:aws:iam::"+ekstest.Account+":role/other-pods"),
		})
		return err
	}
	remove := func() error {
		_, err := w.Client.DeleteAddon(t.Context(), &eks.DeleteAddonInput{ClusterName: aws.String("c"),
			AddonName: aws.String("acme_storage")})
		return err
	}
	for _, stage := range []struct {
		do     func() error
		needed []wire.Target // the beginning of the resource
	}{
		{create, []wire.Target{{Action: "iam:PassRole", Resource: ekstest.IRSARole},
			{Action: "iam:PassRole", Resource: ekstest.PodRole}, {Action: "iam:GetRole", Resource: ekstest.PodRole},
			{Action: "eks:CreatePodIdentityAssociation", Resource: ekstest.ClusterARN + "c"}}},
		{update, []wire.Target{{Action: "eks:UpdatePodIdentityAssociation", Resource: "arn:aws:eks:"},
			{Action: "eks:DeletePodIdentityAssociation", Resource: "arn:aws:eks:"}}},
		{remove, []wire.Target{{Action: "eks:DeletePodIdentityAssociation", Resource: "arn:aws:eks:"}}},
	} {
		for _, needed := range stage.needed {
			before := w.Contents()
			w.Deny = func(_ wire.Caller, t wire.Target) bool {
				return t.Action == needed.Action && strings.HasPrefix(t.Resource, needed.Resource)
			}
			err := stage.do()
			w.Deny = nil
			if err == nil {
				t.Fatalf("not asked for %s", needed.Action)
			}
			if f := ekstest.FailureOf(t, err); f.Code != "AccessDeniedException" || !strings.Contains(f.Message,
				"is not authorized to perform: "+needed.Action+" on resource: "+needed.Resource) {
				t.Errorf("without %s: %v", needed.Action, f)
			}
			if d := cmp.Diff(before, w.Contents()); d != "" {
				t.Errorf("without %s: changed something:\n%s", needed.Action, d)
			}
		}
		if err := stage.do(); err != nil {
			t.Fatal(err)
		}
		w.keepAddon("c", "acme_storage")
		if a := w.addonRow("c", "acme_storage"); a.LastUpdateID != "" {
			w.endAddonUpdate("c", "acme_storage", types.UpdateStatusSuccessful)
		}
	}
	if pass := w.Target("iam:PassRole"); pass.Resource == ekstest.PodRole &&
		!slices.Equal(pass.Conditions["iam:PassedToService"], []string{"pods.eks.amazonaws.com"}) {
		t.Errorf("passed by %+v", pass)
	}
}
