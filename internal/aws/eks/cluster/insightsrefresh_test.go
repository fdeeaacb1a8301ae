package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

func startRefresh(cluster string) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.StartInsightsRefresh(ctx, &eks.StartInsightsRefreshInput{ClusterName: &cluster})
		return err
	}
}

func describeRefresh(cluster string) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.DescribeInsightsRefresh(ctx, &eks.DescribeInsightsRefreshInput{ClusterName: &cluster})
		return err
	}
}

// A refresh is in progress until the controller has made the insights.
func TestInsightsRefresh(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	w.Create("c")
	describe := func(status types.InsightsRefreshStatus, message string) *eks.DescribeInsightsRefreshOutput {
		t.Helper()
		out, err := w.Client.DescribeInsightsRefresh(ctx, &eks.DescribeInsightsRefreshInput{ClusterName: aws.String("c")})
		if err != nil || out.Status != status || aws.ToString(out.Message) != message ||
			!aws.ToTime(out.StartedAt).Equal(ekstest.Today) {
			t.Fatalf("got %+v, %v, want %s, %q", out, err, status, message)
		}
		return out
	}
	for _, message := range []string{"Initiated cluster insights refresh.", "Cluster insights refresh is in progress."} {
		out, err := w.Client.StartInsightsRefresh(ctx, &eks.StartInsightsRefreshInput{ClusterName: aws.String("c")})
		if err != nil || out.Status != types.InsightsRefreshStatusInProgress || aws.ToString(out.Message) != message {
			t.Errorf("started %+v, %v, want %q", out, err, message)
		}
	}
	out := describe(types.InsightsRefreshStatusInProgress, "Cluster insights refresh is in progress.")
	if out.EndedAt != nil {
		t.Errorf("it has ended at %v", out.EndedAt)
	}
	ended := ekstest.Today.Add(time.Minute)
	refreshes := record.InsightsRefreshes(w.Store)
	end := func(r *record.InsightsRefresh) error {
		r.EndedAt = ended
		return nil
	}
	if _, err := refreshes.Modify(ctx, w.Row("c").Key(), end); err != nil {
		t.Fatal(err)
	}
	const completed = "Cluster insights refresh has completed successfully."
	if out := describe(types.InsightsRefreshStatusCompleted, completed); !aws.ToTime(out.EndedAt).Equal(ended) {
		t.Errorf("it has ended at %v", out.EndedAt)
	}
	if _, err := record.InsightsOf(w.Store).Create(ctx, w.Row("c").Key(), record.Insights{ClusterID: w.Row("c").ID,
		CheckedAt: ekstest.Today, Checks: []record.InsightCheck{{Name: "Kubelet version skew", Version: "9.99"}},
	}); err != nil {
		t.Fatal(err)
	}
	refreshed := func(when string, at time.Time) {
		t.Helper()
		all, err := w.Client.ListInsights(ctx, &eks.ListInsightsInput{ClusterName: aws.String("c")})
		if err != nil || len(all.Insights) != 1 || !aws.ToTime(all.Insights[0].LastRefreshTime).Equal(at) {
			t.Errorf("%s: %+v, %v, want %v", when, all, err, at)
		}
	}
	refreshed("a refresh that has found nothing else", ended)
	again, err := w.Client.StartInsightsRefresh(ctx, &eks.StartInsightsRefreshInput{ClusterName: aws.String("c")})
	if err != nil || aws.ToString(again.Message) != "Initiated cluster insights refresh." {
		t.Errorf("again: %+v, %v", again, err)
	}
	describe(types.InsightsRefreshStatusInProgress, "Cluster insights refresh is in progress.")
	if _, err := refreshes.Modify(ctx, w.Row("c").Key(), func(r *record.InsightsRefresh) error {
		r.EndedAt, r.Failure = ended, "the API server does not answer"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	describe(types.InsightsRefreshStatusFailed, "Cluster insights refresh has failed: the API server does not answer")
	refreshed("a refresh that has failed", ekstest.Today)
}

func TestInsightsRefreshRefusals(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	if _, err := w.Client.CreateCluster(t.Context(), ekstest.Request("new")); err != nil {
		t.Fatal(err)
	}
	w.Refuses("no cluster", startRefresh("nobody"), "ResourceNotFoundException", "No cluster found for name: nobody.")
	w.Refuses("describe: no cluster", describeRefresh("nobody"), "ResourceNotFoundException",
		"No cluster found for name: nobody.")
	w.Refuses("never asked for", describeRefresh("c"), "ResourceNotFoundException",
		"No insights refresh found for cluster: c.")
	w.Refuses("a cluster that is being created", startRefresh("new"), "InvalidRequestException",
		"Cluster 'new' is not in ACTIVE status")
}
