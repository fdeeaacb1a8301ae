package addon_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

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
