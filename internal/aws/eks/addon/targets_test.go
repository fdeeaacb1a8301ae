package addon_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
)

func TestAddonTags(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	a := w.createAddon("c", "acme_storage", func(in *eks.CreateAddonInput) {
		in.Tags = map[string]string{"a": "1", "b": "2"}
		in.PodIdentityAssociations = []types.AddonPodIdentityAssociations{{ServiceAccount: aws.String("node"),
			RoleArn: aws.String(ekstest.PodRole)}}
	})
	ctx := t.Context()
	for arn, before := range map[string]map[string]string{*a.AddonArn: {"a": "1", "b": "2"},
		a.PodIdentityAssociations[0]: {}} {
		if _, err := w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn,
			Tags: map[string]string{"b": "3", "c": "4"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: &arn,
			TagKeys: []string{"c", "nope"}}); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"b": "3"}
		if before["a"] != "" {
			want["a"] = "1"
		}
		out, err := w.Client.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: &arn})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, out.Tags); d != "" {
			t.Errorf("%s (-want +got):\n%s", arn, d)
		}
	}
	if got := w.describeAddon("c", "acme_storage").Tags["b"]; got != "3" {
		t.Errorf("described with b=%s", got)
	}
	for _, arn := range []string{*a.AddonArn + "x", strings.Replace(*a.AddonArn, "addon/", "nodegroup/", 1),
		a.PodIdentityAssociations[0] + "x"} {
		if _, err := w.Client.ListTagsForResource(ctx,
			&eks.ListTagsForResourceInput{ResourceArn: &arn}); ekstest.FailureOf(t, err).Code != "NotFoundException" {
			t.Errorf("%s: %v", arn, err)
		}
	}
	// Another partition's ARN names nothing here.
	for _, start := range []string{"arn:aws-cn:eks:", "arn:aws-us-gov:eks:", "arn::eks:", "arn:aws:ec2:",
		"aws:aws:eks:"} {
		arn := strings.Replace(*a.AddonArn, "arn:aws:eks:", start, 1)
		_, list := w.Client.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: &arn})
		_, tag := w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"b": "4"}})
		for _, err := range []error{list, tag} {
			if ekstest.FailureOf(t, err).Code != "BadRequestException" {
				t.Errorf("%s: %v", arn, err)
			}
		}
	}
}

// Policies see the resource and the condition keys of the service authorization reference.
func TestAddonTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx, c, name := t.Context(), aws.String("c"), aws.String("coredns")
	w.Create("c", func(in *eks.CreateClusterInput) { in.Tags = map[string]string{"team": "a"} })
	w.createAddon("c", "coredns", func(in *eks.CreateAddonInput) { in.Tags = map[string]string{"t": "v"} })
	arn := *w.describeAddon("c", "coredns").AddonArn
	_, _ = w.Client.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: c})
	_, _ = w.Client.UpdateAddon(ctx, &eks.UpdateAddonInput{ClusterName: c, AddonName: name})
	_, _ = w.Client.DeleteAddon(ctx, &eks.DeleteAddonInput{ClusterName: c, AddonName: name})
	_, _ = w.Client.ListUpdates(ctx, &eks.ListUpdatesInput{Name: c, AddonName: name})
	_, _ = w.Client.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: c, AddonName: aws.String("none"),
		UpdateId: aws.String("u")})
	_, _ = w.Client.DescribeAddonVersions(ctx, &eks.DescribeAddonVersionsInput{})
	_, _ = w.Client.DescribeAddonConfiguration(ctx, &eks.DescribeAddonConfigurationInput{AddonName: name,
		AddonVersion: aws.String("v")})
	_, _ = w.Client.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: c})
	_, _ = w.Client.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: c,
		AssociationId: aws.String("a-1")})
	_, _ = w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"x": "y"}})
	ofCluster, ofAddon := map[string]string{"aws:ResourceTag/team": "a"}, map[string]string{"aws:ResourceTag/t": "v"}
	for action, want := range map[string]struct {
		resource   string
		conditions map[string]string
	}{
		"CreateAddon": {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/team": "a",
			"aws:RequestTag/t": "v", "aws:TagKeys": "t"}},
		"ListAddons":    {ekstest.ClusterARN + "c", ofCluster},
		"DescribeAddon": {arn, ofAddon},
		"UpdateAddon":   {arn, ofAddon},
		"DeleteAddon":   {arn, ofAddon},
		"ListUpdates":   {arn, ofAddon},
		"DescribeUpdate": {"arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":addon/c/none/*",
			map[string]string{}},
		"DescribeAddonVersions":       {"*", map[string]string{}},
		"DescribeAddonConfiguration":  {"*", map[string]string{}},
		"ListPodIdentityAssociations": {ekstest.ClusterARN + "c", ofCluster},
		"DescribePodIdentityAssociation": {"arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account +
			":podidentityassociation/c/a-1", map[string]string{}},
		"TagResource": {arn, map[string]string{"aws:ResourceTag/t": "v", "aws:RequestTag/x": "y",
			"aws:TagKeys": "x"}},
	} {
		got := w.Target("eks:" + action)
		if got.Resource != want.resource {
			t.Errorf("%s is asked on %s, want %s", action, got.Resource, want.resource)
		}
		if d := cmp.Diff(want.conditions, ekstest.OwnConditions(got)); d != "" {
			t.Errorf("%s: condition keys (-want +got):\n%s", action, d)
		}
	}
}
