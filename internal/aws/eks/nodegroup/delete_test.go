package nodegroup_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// A cluster is deleted or gets a node group, never both.
func TestNodegroupOrNoCluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for i := range 10 {
		name := fmt.Sprint("c", i)
		w.Create(name)
		var deleted, created error
		var both sync.WaitGroup
		both.Go(func() { deleted = ekstest.DeleteCluster(name)(t.Context(), w.Client) })
		both.Go(func() { _, created = w.Client.CreateNodegroup(t.Context(), group(name, "ng")) })
		both.Wait()
		if (deleted == nil) == (created == nil) {
			t.Errorf("deleted: %v; created: %v", deleted, created)
		}
	}
}

func TestDeleteNodegroup(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createGroup("c", "ng")
	for range 2 { // the second time changes nothing
		out, err := w.Client.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("c"),
			NodegroupName: aws.String("ng")})
		if err != nil || out.Nodegroup.Status != types.NodegroupStatusDeleting {
			t.Fatalf("%v, %v", out, err)
		}
	}
	if err := ekstest.DeleteCluster("c")(t.Context(), w.Client); ekstest.FailureOf(t,
		err).Message != "Cluster has nodegroups attached" {
		t.Errorf("deleted the cluster: %v", err)
	}
	w.keepGroup("c", "ng", func(s *record.NodegroupState) {
		s.DeleteFailed = true
		s.Issues = []types.Issue{{Code: types.NodegroupIssueCodeEc2SecurityGroupDeletionFailure}}
	})
	if got := w.describeGroup("c", "ng"); got.Status != types.NodegroupStatusDeleteFailed ||
		len(got.Health.Issues) != 1 {
		t.Errorf("%s with %+v", got.Status, got.Health)
	}
	w.forget("c", "ng")
	_, err := w.Client.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: aws.String("c"),
		NodegroupName: aws.String("ng")})
	if got, want := ekstest.FailureOf(t, err), (ekstest.Failure{Code: "ResourceNotFoundException", Status: 404,
		Message: "No node group found for name: ng."}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if err := ekstest.DeleteCluster("c")(t.Context(), w.Client); err != nil {
		t.Error(err)
	}
}
