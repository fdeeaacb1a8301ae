package tagging_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
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

// A resource whose tags change after the decision that its caller may tag it is judged by the new ones.
func TestTagsAreWrittenAsTheyWereJudged(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c", func(*eks.CreateClusterInput) {})
	cluster := w.Row("c")
	entry, err := w.Client.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.RootARN)})
	if err != nil {
		t.Fatal(err)
	}
	group := record.Nodegroup{
		Account: cluster.Account, Region: cluster.Region, Cluster: "c", ClusterID: cluster.ID, Name: "n", ID: "1",
	}
	addon := record.Addon{
		Account: cluster.Account, Region: cluster.Region, Cluster: "c", ClusterID: cluster.ID, Name: "a", ID: "1",
	}
	association := record.PodIdentityAssociation{
		Account: cluster.Account, Region: cluster.Region, Cluster: "c", ClusterID: cluster.ID, ID: "a-1",
	}
	ekstest.Put(t, record.Nodegroups(w.Store), group.Key(), group)
	ekstest.Put(t, record.Addons(w.Store), addon.Key(), addon)
	ekstest.Put(t, record.PodIdentityAssociations(w.Store), association.Key(), association)
	protected := map[string]string{"protected": ""}
	for arn, protect := range map[string]func() error{
		cluster.ARN(): func() error {
			_, err := record.Clusters(w.Store).Modify(t.Context(), cluster.Key(),
				func(c *record.Cluster) error { c.Tags = protected; return nil })
			return err
		},
		*entry.AccessEntry.AccessEntryArn: func() error {
			_, err := record.AccessEntries(w.Store).Modify(t.Context(), record.AccessEntryKey(cluster.Account,
				cluster.Region, "c", ekstest.RootARN),
				func(e *record.AccessEntry) error { e.Tags = protected; return nil })
			return err
		},
		group.ARN(): func() error {
			_, err := record.Nodegroups(w.Store).Modify(t.Context(), group.Key(),
				func(n *record.Nodegroup) error { n.Tags = protected; return nil })
			return err
		},
		addon.ARN(): func() error {
			_, err := record.Addons(w.Store).Modify(t.Context(), addon.Key(),
				func(a *record.Addon) error { a.Tags = protected; return nil })
			return err
		},
		association.ARN(): func() error {
			_, err := record.PodIdentityAssociations(w.Store).Modify(t.Context(), association.Key(),
				func(p *record.PodIdentityAssociation) error { p.Tags = protected; return nil })
			return err
		},
	} {
		asked := 0
		w.Mu.Lock()
		w.Deny = func(_ wire.Caller, target wire.Target) bool {
			if target.Resource != arn {
				t.Errorf("asked on %s instead of %s", target.Resource, arn)
			}
			_, denied := target.Conditions["aws:ResourceTag/protected"]
			if asked++; asked == 1 {
				if err := protect(); err != nil {
					t.Error(err)
				}
			}
			return denied
		}
		w.Mu.Unlock()
		_, err := w.Client.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: &arn,
			Tags: map[string]string{"a": "b"}})
		if code, _, _ := awstest.Failure(err); code != "AccessDeniedException" {
			t.Errorf("%s was tagged though it was protected before: %v", arn, err)
		}
	}
}
