package addon_test

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

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
