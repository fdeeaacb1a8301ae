package fargate_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// A cluster is deleted or gets a Fargate profile, never both.
func TestFargateProfileOrNoCluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for i := range 10 {
		name := fmt.Sprint("c", i)
		w.Create(name)
		var deleted, created error
		var both sync.WaitGroup
		both.Go(func() { deleted = ekstest.DeleteCluster(name)(t.Context(), w.Client) })
		both.Go(func() { _, created = w.Client.CreateFargateProfile(t.Context(), profile(name, "fp")) })
		both.Wait()
		if (deleted == nil) == (created == nil) {
			t.Errorf("deleted: %v; created: %v", deleted, created)
		}
	}
}

// One profile of a cluster is under way at a time, whatever happens at once.
func TestOneFargateProfileAtATime(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for i := range 10 {
		name := fmt.Sprint("c", i)
		w.Create(name)
		w.createProfile(name, "a")
		w.createProfile(name, "b")
		errs := make([]error, 3)
		var all sync.WaitGroup
		all.Go(func() { _, errs[0] = w.deleteProfile(name, "a") })
		all.Go(func() { _, errs[1] = w.deleteProfile(name, "b") })
		all.Go(func() { _, errs[2] = w.Client.CreateFargateProfile(t.Context(), profile(name, "c")) })
		all.Wait()
		// The deletion of one does not wait for the creation of another.
		if deleted := errs[0] == nil || errs[1] == nil; !deleted || errs[0] == nil && errs[1] == nil {
			t.Errorf("%v", errs)
		}
	}
}

func TestDeleteFargateProfile(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createProfile("c", "fp")
	w.createProfile("c", "other")
	for range 2 { // the second time changes nothing
		out, err := w.deleteProfile("c", "fp")
		if err != nil || out.Status != types.FargateProfileStatusDeleting {
			t.Fatalf("%v, %v", out, err)
		}
	}
	if err := ekstest.DeleteCluster("c")(t.Context(), w.Client); ekstest.FailureOf(t,
		err).Message != "Cluster has fargate profiles attached" {
		t.Errorf("deleted the cluster: %v", err)
	}
	w.observeProfile("c", "fp", record.FargateProfileState{DeleteFailed: true,
		Issues: []types.FargateProfileIssue{{Code: types.FargateProfileIssueCodeClusterUnreachable}}})
	if got := w.describeProfile("c", "fp"); got.Status != types.FargateProfileStatusDeleteFailed ||
		len(got.Health.Issues) != 1 {
		t.Errorf("%s with %+v", got.Status, got.Health)
	}
	w.forget("c", "fp")
	_, err := w.Client.DescribeFargateProfile(t.Context(), &eks.DescribeFargateProfileInput{
		ClusterName: aws.String("c"), FargateProfileName: aws.String("fp")})
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
		Message: "No Fargate Profile found with name: fp."}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := w.deleteProfile("c", "other"); err != nil {
		t.Error(err)
	}
	w.forget("c", "other")
	if err := ekstest.DeleteCluster("c")(t.Context(), w.Client); err != nil {
		t.Error(err)
	}
}

// One that could not be created, or is still being created, can be deleted, and its name is free again.
func TestDeleteFargateProfileThatWasNotMade(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	for range 2 {
		if _, err := w.Client.CreateFargateProfile(t.Context(), profile("c", "fp")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.deleteProfile("c", "fp"); err != nil {
			t.Fatal(err)
		}
		w.forget("c", "fp")
	}
	if _, err := w.Client.CreateFargateProfile(t.Context(), profile("c", "fp")); err != nil {
		t.Fatal(err)
	}
	w.observeProfile("c", "fp", record.FargateProfileState{Failed: true})
	w.createProfile("c", "other") // one that failed is not under way
	if out, err := w.deleteProfile("c", "fp"); err != nil || out.Status != types.FargateProfileStatusDeleting {
		t.Errorf("%v, %v", out, err)
	}
	if got := w.profiles("c"); !slices.Equal(got, []string{"fp", "other"}) {
		t.Errorf("profiles %v", got)
	}
}
