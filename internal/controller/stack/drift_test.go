package stack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// detectDrift detects the drift of a stack, and returns what it found.
func (f *fixture) detectDrift(name string) *cloudformation.DescribeStackDriftDetectionStatusOutput {
	f.t.Helper()
	ctx := f.t.Context()
	began := awstest.Must[*cloudformation.DetectStackDriftOutput](f.t)(f.DetectStackDrift(ctx,
		&cloudformation.DetectStackDriftInput{StackName: &name}))
	var out *cloudformation.DescribeStackDriftDetectionStatusOutput
	eventually.Nil(f.t, "the detection of drift is complete", func() (err error) {
		out, err = f.DescribeStackDriftDetectionStatus(ctx, &cloudformation.DescribeStackDriftDetectionStatusInput{
			StackDriftDetectionId: began.StackDriftDetectionId})
		if err == nil && out.DetectionStatus == types.StackDriftDetectionStatusDetectionInProgress {
			err = fmt.Errorf("it is %s", out.DetectionStatus)
		}
		return err
	})
	if out.DetectionStatus != types.StackDriftDetectionStatusDetectionComplete {
		f.t.Fatalf("the detection is %s: %s", out.DetectionStatus, aws.ToString(out.DetectionStatusReason))
	}
	return out
}

// drifts returns what was found of each resource: "A IN_SYNC", "B MODIFIED /RetentionInDays 1 7".
func (f *fixture) drifts(name string) string {
	f.t.Helper()
	out := awstest.Must[*cloudformation.DescribeStackResourceDriftsOutput](f.t)(f.DescribeStackResourceDrifts(
		f.t.Context(), &cloudformation.DescribeStackResourceDriftsInput{StackName: &name}))
	var all []string
	for _, d := range out.StackResourceDrifts {
		text := fmt.Sprintf("%s %s", *d.LogicalResourceId, d.StackResourceDriftStatus)
		for _, p := range d.PropertyDifferences {
			text += fmt.Sprintf(" %s %s %s", *p.PropertyPath, *p.ExpectedValue, *p.ActualValue)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestDrift(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("s", logGroups(1, "A", "B", "C"))
	w.await("s", types.StackStatusCreateComplete)
	if got := w.describe("s").DriftInformation.StackDriftStatus; got != types.StackDriftStatusNotChecked {
		t.Errorf("before the first detection the drift is %s", got)
	}
	if out := w.detectDrift("s"); out.StackDriftStatus != types.StackDriftStatusInSync ||
		aws.ToInt32(out.DriftedStackResourceCount) != 0 {
		t.Errorf("of a new stack, the drift is %+v", out)
	}
	if got := w.drifts("s"); got != "A IN_SYNC, B IN_SYNC, C IN_SYNC" {
		t.Errorf("the drifts are %s", got)
	}

	all := w.all()
	if _, err := w.cloud.things.Modify(ctx, all["B"][0], func(thing *thing) error {
		thing.Properties = map[string]any{"RetentionInDays": 7, "KmsKeyId": "added"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	row, err := w.cloud.things.Get(ctx, all["C"][0])
	if err == nil {
		err = w.cloud.things.Delete(ctx, row)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := w.detectDrift("s"); out.StackDriftStatus != types.StackDriftStatusDrifted ||
		aws.ToInt32(out.DriftedStackResourceCount) != 2 {
		t.Errorf("the drift is %+v", out)
	}
	if got := w.drifts("s"); got != "A IN_SYNC, B MODIFIED /RetentionInDays 1 7, C DELETED" {
		t.Errorf("the drifts are %s", got)
	}
	if got := w.describe("s").DriftInformation.StackDriftStatus; got != types.StackDriftStatusDrifted {
		t.Errorf("the drift of the stack is %s", got)
	}
	one, err := w.DetectStackResourceDrift(ctx, &cloudformation.DetectStackResourceDriftInput{
		StackName: aws.String("s"), LogicalResourceId: aws.String("B")})
	if err != nil || one.StackResourceDrift.StackResourceDriftStatus != types.StackResourceDriftStatusModified {
		t.Errorf("the drift of a resource is %+v, %v", one, err)
	}

	// An update sets what it changes; the stack can be deleted although a resource is gone.
	w.update("s", logGroups(14, "A", "B"))
	w.await("s", types.StackStatusUpdateComplete)
	if out := w.detectDrift("s"); out.StackDriftStatus != types.StackDriftStatusInSync {
		t.Errorf("after the update the drift is %+v: %s", out, w.drifts("s"))
	}
}
