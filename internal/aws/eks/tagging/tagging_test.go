package tagging_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
)

func TestTags(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c", func(in *eks.CreateClusterInput) { in.Tags = map[string]string{"a": "1"} })
	entry, err := w.Client.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.RootARN)})
	if err != nil {
		t.Fatal(err)
	}
	for arn, want := range map[string]map[string]string{
		ekstest.ClusterARN + "c":          {"a": "1", "b": "3"},
		*entry.AccessEntry.AccessEntryArn: {"b": "3"},
	} {
		tag := func(tags map[string]string) {
			if _, err := w.Client.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: &arn,
				Tags: tags}); err != nil {
				t.Fatalf("tag %s: %v", arn, err)
			}
		}
		tag(map[string]string{"b": "2", "c": ""})
		tag(map[string]string{"b": "3"})
		if _, err := w.Client.UntagResource(t.Context(), &eks.UntagResourceInput{ResourceArn: &arn,
			TagKeys: []string{"c", "not-there"}}); err != nil {
			t.Fatal(err)
		}
		got, err := w.Client.ListTagsForResource(t.Context(), &eks.ListTagsForResourceInput{ResourceArn: &arn})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Tags); d != "" {
			t.Errorf("%s (-want +got):\n%s", arn, d)
		}
	}
	if d := cmp.Diff(map[string]string{"a": "1", "b": "3"}, w.Describe("c").Tags); d != "" {
		t.Errorf("described (-want +got):\n%s", d)
	}
}
