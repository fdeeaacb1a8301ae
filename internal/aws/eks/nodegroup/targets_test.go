package nodegroup_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestNodegroupTags(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	arn := w.createGroup("c", "ng", func(in *eks.CreateNodegroupInput) {
		in.Tags = map[string]string{
			"a": "1"}
	}).NodegroupArn
	if _, err := w.Client.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: arn,
		Tags: map[string]string{"b": "2", "c": "3"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: arn,
		TagKeys: []string{"a", "c"}}); err != nil {
		t.Fatal(err)
	}
	out, err := w.Client.ListTagsForResource(t.Context(), &eks.ListTagsForResourceInput{ResourceArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"b": "2"}, out.Tags); d != "" || !cmp.Equal(out.Tags,
		w.describeGroup("c", "ng").Tags) {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := w.Target("eks:UntagResource"); got.Resource != *arn || !slices.Equal(got.Conditions["aws:ResourceTag/b"],
		[]string{"2"}) {
		t.Errorf("judged %+v", got)
	}
	_, err = w.Client.TagResource(t.Context(),
		&eks.TagResourceInput{ResourceArn: aws.String(strings.Replace(*arn, "/ng/", "/other/", 1)),
			Tags: map[string]string{"x": "y"}})
	if ekstest.FailureOf(t, err).Code != "NotFoundException" {
		t.Errorf("another ARN: %v", err)
	}
}

func TestNodegroupTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Tags = map[string]string{"env": "test"} })
	made := w.createGroup("c", "ng", func(in *eks.CreateNodegroupInput) { in.Tags = map[string]string{"team": "a"} })
	if got := w.Target("eks:CreateNodegroup"); got.Resource != ekstest.ClusterARN+"c" ||
		!slices.Equal(got.Conditions["aws:RequestTag/team"], []string{"a"}) ||
		!slices.Equal(got.Conditions["aws:ResourceTag/env"], []string{"test"}) {
		t.Errorf("create: %+v", got)
	}
	if got := w.Target("eks:DescribeNodegroup"); got.Resource != *made.NodegroupArn ||
		!slices.Equal(got.Conditions["aws:ResourceTag/team"], []string{"a"}) {
		t.Errorf("describe: %+v", got)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "eks:DeleteNodegroup" }
	_, err := w.Client.DeleteNodegroup(t.Context(), &eks.DeleteNodegroupInput{ClusterName: aws.String("c"),
		NodegroupName: aws.String("nobody")})
	if ekstest.FailureOf(t, err).Code != "AccessDeniedException" ||
		w.Target("eks:DeleteNodegroup").Resource != "arn:aws:eks:"+ekstest.Region+":"+ekstest.Account+
			":nodegroup/c/nobody/*" {
		t.Errorf("delete: %v of %+v", err, w.Target("eks:DeleteNodegroup"))
	}
	if _, err := w.Client.ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: aws.String("c"),
		NodegroupName: aws.String("ng")}); err != nil || w.Target("eks:ListUpdates").Resource != *made.NodegroupArn {
		t.Errorf("updates: %v of %+v", err, w.Target("eks:ListUpdates"))
	}
}
