package logs_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A group is described as it was made, in pages by name, and is gone when it is deleted.
func TestGroups(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	_, err := w.client.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{
		LogGroupName: aws.String("/aws/eks/c/cluster"), Tags: map[string]string{"team": "a"},
		DeletionProtectionEnabled: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.PutRetentionPolicy(ctx,
		&cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: aws.String("/aws/eks/c/cluster"),
			RetentionInDays: aws.Int32(7)}); err != nil {
		t.Fatal(err)
	}
	out, err := w.client.DescribeLogGroups(ctx,
		&cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String("/aws/eks/")})
	if err != nil {
		t.Fatal(err)
	}
	want := []types.LogGroup{{
		Arn: aws.String(groupARN + "/aws/eks/c/cluster:*"), LogGroupArn: aws.String(groupARN + "/aws/eks/c/cluster"),
		LogGroupName:  aws.String("/aws/eks/c/cluster"),
		LogGroupClass: types.LogGroupClassStandard, CreationTime: aws.Int64(today.UnixMilli()),
		MetricFilterCount: aws.Int32(0), StoredBytes: aws.Int64(0),
		RetentionInDays: aws.Int32(7), DeletionProtectionEnabled: aws.Bool(true),
	}}
	if d := cmp.Diff(want, out.LogGroups, cmpopts.IgnoreUnexported(types.LogGroup{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := w.client.DeleteLogGroup(ctx,
		&cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("/aws/eks/c/cluster")}); failureOf(t,
		err).code != "ValidationException" {
		t.Errorf("a protected group: %v", err)
	}
	if _, err := w.client.PutLogGroupDeletionProtection(ctx,
		&cloudwatchlogs.PutLogGroupDeletionProtectionInput{LogGroupIdentifier: aws.String(groupARN +
			"/aws/eks/c/cluster"), DeletionProtectionEnabled: aws.Bool(false)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.DeleteLogGroup(ctx,
		&cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("/aws/eks/c/cluster")}); err != nil {
		t.Fatal(err)
	}

	var names []string
	for i := range 120 {
		names = append(names, fmt.Sprintf("g-%03d", i))
		w.group(names[i])
	}
	var got []string
	pages := cloudwatchlogs.NewDescribeLogGroupsPaginator(w.client, &cloudwatchlogs.DescribeLogGroupsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.LogGroups) > 50 {
			t.Errorf("a page of %d", len(page.LogGroups))
		}
		for _, g := range page.LogGroups {
			got = append(got, *g.LogGroupName)
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("groups %q", got)
	}
}
