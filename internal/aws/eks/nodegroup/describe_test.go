package nodegroup_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// What a group's user asked for shows until the Auto Scaling group has it; then what the Auto Scaling group has,
// whoever changed it.
func TestNodegroupShowsWhatIsThere(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	made := w.createGroup("c", "ng")
	if made.Status != types.NodegroupStatusActive || len(made.Resources.AutoScalingGroups) != 1 ||
		*made.Resources.AutoScalingGroups[0].Name != "eks-ng-"+w.groupRow("c", "ng").ID {
		t.Errorf("made: %s with %+v", made.Status, made.Resources)
	}
	w.keepGroup("c", "ng", func(s *record.NodegroupState) {
		// by a cluster autoscaler
		s.Scaling = types.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(7),
			DesiredSize: aws.Int32(5)}
		s.RemoteAccessGroup = "sg-remote"
		s.Issues = []types.Issue{{Code: types.NodegroupIssueCodeInsufficientFreeAddresses, Message: aws.String("full"),
			ResourceIds: []string{"subnet-a"}}}
	})
	got := w.describeGroup("c", "ng")
	if *got.ScalingConfig.DesiredSize != 5 || *got.Resources.RemoteAccessSecurityGroup != "sg-remote" ||
		got.Status != types.NodegroupStatusDegraded || got.Health.Issues[0].ResourceIds[0] != "subnet-a" {
		t.Errorf("observed: %+v", got)
	}
	// A change of one number keeps what the Auto Scaling group has of the others.
	out, err := w.Client.UpdateNodegroupConfig(t.Context(),
		&eks.UpdateNodegroupConfigInput{ClusterName: aws.String("c"), NodegroupName: aws.String("ng"),
			ScalingConfig: &types.NodegroupScalingConfig{MinSize: aws.Int32(2)}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[types.UpdateParamType]string{"MinSize": "2"}, ekstest.Params(out.Update)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	got = w.describeGroup("c", "ng")
	if s := got.ScalingConfig; *s.MinSize != 2 || *s.MaxSize != 7 || *s.DesiredSize != 5 ||
		got.Status != types.NodegroupStatusUpdating {
		t.Errorf("asked for: %d of %d to %d, %s", *s.DesiredSize, *s.MinSize, *s.MaxSize, got.Status)
	}
	// What was seen of an earlier group of the name says nothing.
	w.keepGroup("c", "ng", func(s *record.NodegroupState) { s.NodegroupID = "earlier" })
	if got := w.describeGroup("c", "ng"); got.Status != types.NodegroupStatusCreating ||
		len(got.Resources.AutoScalingGroups) != 0 {
		t.Errorf("of an earlier group: %s with %+v", got.Status, got.Resources)
	}
}
