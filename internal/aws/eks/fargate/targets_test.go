package fargate_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const profileARN = "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":fargateprofile/c/"

func TestFargateProfileTags(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	arn := w.createProfile("c", "fp", func(in *eks.CreateFargateProfileInput) {
		in.Tags = map[string]string{"a": "1"}
	}).FargateProfileArn
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
		w.describeProfile("c", "fp").Tags) {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := w.Target("eks:UntagResource"); got.Resource != *arn || !slices.Equal(got.Conditions["aws:ResourceTag/b"],
		[]string{"2"}) {
		t.Errorf("judged %+v", got)
	}
	for _, other := range []string{strings.Replace(*arn, "/fp/", "/other/", 1), profileARN + "fp/earlier", profileARN} {
		_, err = w.Client.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: &other,
			Tags: map[string]string{"x": "y"}})
		if ekstest.FailureOf(t, err).Code != "NotFoundException" {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// Policies see the resource and the condition keys of the service authorization reference.
func TestFargateProfileTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Tags = map[string]string{"env": "test"} })
	made := w.createProfile("c", "fp", func(in *eks.CreateFargateProfileInput) {
		in.Tags = map[string]string{"team": "a"}
	})
	w.profiles("c")
	if _, err := w.deleteProfile("c", "fp"); err != nil {
		t.Fatal(err)
	}
	of := map[string]string{"aws:ResourceTag/team": "a"}
	for action, want := range map[string]struct {
		resource   string
		conditions map[string]string
	}{
		"CreateFargateProfile": {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/env": "test",
			"aws:RequestTag/team": "a", "aws:TagKeys": "team"}},
		"TagResource": {profileARN + "fp/*", map[string]string{"aws:RequestTag/team": "a",
			"aws:TagKeys": "team"}},
		"DescribeFargateProfile": {*made.FargateProfileArn, of},
		"ListFargateProfiles":    {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/env": "test"}},
		"DeleteFargateProfile":   {*made.FargateProfileArn, of},
	} {
		got := w.Target("eks:" + action)
		if d := cmp.Diff(want.conditions, ekstest.OwnConditions(got)); d != "" || got.Resource != want.resource {
			t.Errorf("%s: of %s, conditions (-want +got):\n%s", action, got.Resource, d)
		}
	}
}

// Who lacks a permission is denied, whether or not there is such a profile, and changes nothing.
func TestFargateProfileDenied(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	w.createProfile("c", "fp")
	cluster, nobody := aws.String("c"), aws.String("nobody")
	create := func(edit func(*eks.CreateFargateProfileInput)) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			in := profile("c", "new")
			edit(in)
			_, err := c.CreateFargateProfile(ctx, in)
			return err
		}
	}
	for _, d := range []struct {
		action, resource string
		do               ekstest.Call
	}{
		{"eks:CreateFargateProfile", ekstest.ClusterARN + "c", create(func(*eks.CreateFargateProfileInput) {})},
		{"eks:CreateFargateProfile", ekstest.ClusterARN + "nobody", create(func(in *eks.CreateFargateProfileInput) {
			in.ClusterName = nobody
		})},
		{"eks:TagResource", profileARN + "new/*", create(func(in *eks.CreateFargateProfileInput) {
			in.Tags = map[string]string{"a": "b"}
		})},
		{"iam:PassRole", ekstest.FargateRole, create(func(*eks.CreateFargateProfileInput) {})},
		{"iam:PassRole", "arn:aws:iam::" + ekstest.Account + ":role/nobody", create(
			func(in *eks.CreateFargateProfileInput) {
				in.PodExecutionRoleArn = aws.String("arn:aws:iam::" + ekstest.Account + ":role/nobody")
			})},
		{"eks:DescribeFargateProfile", w.row("c", "fp").ARN(), func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeFargateProfile(ctx, &eks.DescribeFargateProfileInput{ClusterName: cluster,
				FargateProfileName: aws.String("fp")})
			return err
		}},
		{"eks:DescribeFargateProfile", profileARN + "nobody/*", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeFargateProfile(ctx, &eks.DescribeFargateProfileInput{ClusterName: cluster,
				FargateProfileName: nobody})
			return err
		}},
		{"eks:ListFargateProfiles", ekstest.ClusterARN + "nobody", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListFargateProfiles(ctx, &eks.ListFargateProfilesInput{ClusterName: nobody})
			return err
		}},
		{"eks:DeleteFargateProfile", w.row("c", "fp").ARN(), func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeleteFargateProfile(ctx, &eks.DeleteFargateProfileInput{ClusterName: cluster,
				FargateProfileName: aws.String("fp")})
			return err
		}},
		{"eks:DeleteFargateProfile", profileARN + "nobody/*", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeleteFargateProfile(ctx, &eks.DeleteFargateProfileInput{ClusterName: cluster,
				FargateProfileName: nobody})
			return err
		}},
	} {
		w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == d.action && t.Resource == d.resource }
		w.Refuses(d.action+" on "+d.resource, d.do, "AccessDeniedException", "…"+d.action)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:CreateServiceLinkedRole" }
	w.Refuses("the service-linked role", create(func(*eks.CreateFargateProfileInput) {}), "InvalidRequestException",
		"Failed to create service linked role: AWSServiceRoleForAmazonEKSForFargate due to missing permissions for "+
			"'iam:CreateServiceLinkedRole'")
}
