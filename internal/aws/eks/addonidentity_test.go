package eks_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// associations are the pod identity associations of a cluster: the ID and the role by service account.
func (w *world) associations(cluster string) (ids, roles map[string]string) {
	w.t.Helper()
	ids, roles = map[string]string{}, map[string]string{}
	pages := eks.NewListPodIdentityAssociationsPaginator(w.client, &eks.ListPodIdentityAssociationsInput{ClusterName: &cluster, MaxResults: aws.Int32(1)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, a := range page.Associations {
			out, err := w.client.DescribePodIdentityAssociation(w.t.Context(), &eks.DescribePodIdentityAssociationInput{ClusterName: &cluster, AssociationId: a.AssociationId})
			if err != nil {
				w.t.Fatal(err)
			}
			ids[*a.ServiceAccount], roles[*a.ServiceAccount] = *a.AssociationId, *out.Association.RoleArn
		}
	}
	return ids, roles
}

// An add-on's pod identity associations are replaced by an update that speaks of them, and by no other.
func TestAddonPodIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	other := "arn:aws:iam::" + account + ":role/other-pods"
	a := w.createAddon("c", "acme_storage", func(in *eks.CreateAddonInput) {
		in.PodIdentityAssociations = pairs("node", podRole, "controller", podRole)
	})
	w.keepAddon("c", "acme_storage")
	first, _ := w.associations("c")
	if len(first) != 2 || len(a.PodIdentityAssociations) != 2 {
		t.Fatalf("associations %v, %v", first, a.PodIdentityAssociations)
	}
	out, err := w.client.DescribePodIdentityAssociation(t.Context(), &eks.DescribePodIdentityAssociationInput{ClusterName: aws.String("c"), AssociationId: aws.String(first["node"])})
	if err != nil {
		t.Fatal(err)
	}
	want := &types.PodIdentityAssociation{
		ClusterName: aws.String("c"), Namespace: aws.String("acme"), ServiceAccount: aws.String("node"), RoleArn: aws.String(podRole), OwnerArn: a.AddonArn, AssociationId: aws.String(first["node"]),
		AssociationArn: aws.String("arn:aws:eks:" + region + ":" + account + ":podidentityassociation/c/" + first["node"]), CreatedAt: &today, ModifiedAt: &today, DisableSessionTags: aws.Bool(false), Tags: map[string]string{},
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
	if d := cmp.Diff(map[types.UpdateParamType]string{"PodIdentityAssociations": `[{"serviceAccount":"node","roleArn":"` + other + `"}]`}, params(u)); d != "" {
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
	update(eks.UpdateAddonInput{PodIdentityAssociations: pairs("node", other, "controller", podRole)}, types.UpdateStatusFailed)
	ids, _ = w.associations("c")
	if got := w.describeAddon("c", "acme_storage"); len(ids) != 2 || ids["controller"] == first["controller"] || len(got.PodIdentityAssociations) != 2 {
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
	w := newWorld(t)
	w.create("c")
	w.createAddon("c", "acme_storage", func(in *eks.CreateAddonInput) { in.PodIdentityAssociations = pairs("node", podRole) })
	own := record.PodIdentityAssociation{Account: account, Region: region, Cluster: "c", ClusterID: w.row("c").ID, ID: "a-own", Namespace: "default", ServiceAccount: "node", RoleARN: podRole}
	put(w, record.PodIdentityAssociations(w.store), own.Key(), own)
	old := record.PodIdentityAssociation{Account: account, Region: region, Cluster: "c", ClusterID: "OLD", ID: "a-old", Namespace: "default", ServiceAccount: "node"}
	put(w, record.PodIdentityAssociations(w.store), old.Key(), old)
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
		out, err := w.client.ListPodIdentityAssociations(t.Context(), &c.in)
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
	w := newWorld(t)
	for _, cluster := range []string{"c", "d"} {
		w.create(cluster)
		w.createAddon(cluster, "acme_storage", func(in *eks.CreateAddonInput) { in.PodIdentityAssociations = pairs("node", podRole) })
		out, err := w.client.DeleteAddon(t.Context(), &eks.DeleteAddonInput{ClusterName: &cluster, AddonName: aws.String("acme_storage"), Preserve: cluster == "c"})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := w.client.ListPodIdentityAssociations(t.Context(), &eks.ListPodIdentityAssociationsInput{ClusterName: &cluster})
		if err != nil || len(listed.Associations) != 1 {
			t.Fatalf("%+v, %v", listed, err)
		}
		kept := listed.Associations[0].OwnerArn == nil
		if kept != (cluster == "c") || kept != (len(out.Addon.PodIdentityAssociations) == 0) {
			t.Errorf("%s: owner %v, described %v", cluster, listed.Associations[0].OwnerArn, out.Addon.PodIdentityAssociations)
		}
	}
}

// Whoever has an add-on use a role must be allowed to pass it, and to do what the add-on does with associations.
func TestAddonRolesDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("c")
	create := func() error {
		_, err := w.client.CreateAddon(t.Context(), &eks.CreateAddonInput{
			ClusterName: aws.String("c"), AddonName: aws.String("acme_storage"), ServiceAccountRoleArn: aws.String(irsaRole), PodIdentityAssociations: pairs("node", podRole, "controller", podRole),
		})
		return err
	}
	update := func() error {
		_, err := w.client.UpdateAddon(t.Context(), &eks.UpdateAddonInput{
			ClusterName: aws.String("c"), AddonName: aws.String("acme_storage"), PodIdentityAssociations: pairs("node", "arn:aws:iam::"+account+":role/other-pods"),
		})
		return err
	}
	remove := func() error {
		_, err := w.client.DeleteAddon(t.Context(), &eks.DeleteAddonInput{ClusterName: aws.String("c"), AddonName: aws.String("acme_storage")})
		return err
	}
	for _, stage := range []struct {
		do     func() error
		needed []wire.Target // the beginning of the resource
	}{
		{create, []wire.Target{{Action: "iam:PassRole", Resource: irsaRole}, {Action: "iam:PassRole", Resource: podRole}, {Action: "iam:GetRole", Resource: podRole}, {Action: "eks:CreatePodIdentityAssociation", Resource: clusterARN + "c"}}},
		{update, []wire.Target{{Action: "eks:UpdatePodIdentityAssociation", Resource: "arn:aws:eks:"}, {Action: "eks:DeletePodIdentityAssociation", Resource: "arn:aws:eks:"}}},
		{remove, []wire.Target{{Action: "eks:DeletePodIdentityAssociation", Resource: "arn:aws:eks:"}}},
	} {
		for _, needed := range stage.needed {
			before := w.contents()
			w.deny = func(t wire.Target) bool {
				return t.Action == needed.Action && strings.HasPrefix(t.Resource, needed.Resource)
			}
			err := stage.do()
			w.deny = nil
			if err == nil {
				t.Fatalf("not asked for %s", needed.Action)
			}
			if f := failureOf(t, err); f.code != "AccessDeniedException" || !strings.Contains(f.message, "is not authorized to perform: "+needed.Action+" on resource: "+needed.Resource) {
				t.Errorf("without %s: %v", needed.Action, f)
			}
			if d := cmp.Diff(before, w.contents()); d != "" {
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
	if pass := w.target("iam:PassRole"); pass.Resource == podRole && !slices.Equal(pass.Conditions["iam:PassedToService"], []string{"pods.eks.amazonaws.com"}) {
		t.Errorf("passed by %+v", pass)
	}
}
