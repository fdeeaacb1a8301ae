package addon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
)

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
