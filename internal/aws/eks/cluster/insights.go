package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/kubernetes"
)

// clusterHealthInsight is the one upgrade check of EKS that can be answered from what is recorded here: that the
// cluster itself is well. Checks of nodes, add-ons and the use of removed APIs come with the records that they need.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-insights.html
const clusterHealthInsight = "Cluster health issues"

// upgradeInsights returns the checks before an upgrade of the cluster to the next minor version; none when there is no
// newer one.
func upgradeInsights(c record.Cluster, cp record.ControlPlane) []types.Insight {
	next, ok := nextVersion(c.Version)
	if !ok || !cp.Ready {
		return nil
	}
	result := types.InsightStatus{
		Status: types.InsightStatusValuePassing,
		Reason: new("No cluster health issues detected."),
	}
	resources := []types.InsightResourceDetail{}
	if issues := health(cp).Issues; len(issues) > 0 {
		var codes []string
		for _, i := range issues {
			codes = append(codes, fmt.Sprintf("%s: %s", i.Code, aws.ToString(i.Message)))
		}
		result = types.InsightStatus{
			Status: types.InsightStatusValueError,
			Reason: new("Cluster health issues detected: " + strings.Join(codes, "; ")),
		}
		resources = append(resources, types.InsightResourceDetail{Arn: new(c.ARN()), InsightStatus: &result})
	}
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(c.ARN()+"/"+c.ID+"/"+clusterHealthInsight+"/"+next))
	insight := types.Insight{
		Id:                new(id.String()),
		Name:              new(clusterHealthInsight),
		Category:          types.CategoryUpgradeReadiness,
		KubernetesVersion: new(next),
		Description: new(
			"Checks for any cluster health issues that prevent successful upgrade to the next Kubernetes version on EKS.",
		),
		Recommendation: new(
			"Review the cluster's health with DescribeCluster and resolve its issues before you upgrade.",
		),
		InsightStatus: &result,
		Resources:     resources,
		AdditionalInfo: map[string]string{
			"EKS update cluster documentation": "https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html",
		},
	}
	if !cp.ObservedAt.IsZero() {
		insight.LastRefreshTime = new(cp.ObservedAt.UTC().Truncate(time.Second))
	}
	return []types.Insight{insight}
}

func nextVersion(version string) (string, bool) {
	for _, v := range kubernetes.Versions() {
		if kubernetes.MinorNumber(v.Minor) == kubernetes.MinorNumber(version)+1 {
			return v.Minor, true
		}
	}
	return "", false
}

func (s *Service) insights(ctx context.Context, cluster string) ([]types.Insight, error) {
	row, err := s.Cluster(ctx, cluster)
	if err != nil {
		return nil, err
	}
	c := row.Value
	cp, last, err := s.Observe(ctx, c)
	if err != nil {
		return nil, err
	}
	c.Version = servedVersion(c, last)
	return upgradeInsights(c, cp), nil
}

// insightHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) insightHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ListInsights, func(
			ctx context.Context, action string, in *eks.ListInsightsInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.DescribeInsight, func(
			ctx context.Context, action string, in *eks.DescribeInsightInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// ListInsights lists the insights into a cluster.
func (s *Service) ListInsights(ctx context.Context, in *eks.ListInsightsInput) (*eks.ListInsightsOutput, error) {
	all, err := s.insights(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	f := in.Filter
	if f == nil {
		f = &types.InsightsFilter{}
	}
	summaries := []types.InsightSummary{}
	for _, i := range all {
		if len(f.Categories) > 0 && !slices.Contains(f.Categories, i.Category) ||
			len(f.KubernetesVersions) > 0 &&
				!slices.Contains(f.KubernetesVersions, aws.ToString(i.KubernetesVersion)) ||
			len(f.Statuses) > 0 && !slices.Contains(f.Statuses, i.InsightStatus.Status) {
			continue
		}
		summaries = append(summaries, types.InsightSummary{
			Category: i.Category, Description: i.Description, Id: i.Id, InsightStatus: i.InsightStatus,
			KubernetesVersion: i.KubernetesVersion,
			LastRefreshTime:   i.LastRefreshTime, LastTransitionTime: i.LastTransitionTime, Name: i.Name,
		})
	}
	page, next, err := wire.Page(
		ctx, summaries, in.MaxResults, in.NextToken, func(i types.InsightSummary) string { return aws.ToString(i.Id) },
	)
	if err != nil {
		return nil, err
	}
	return &eks.ListInsightsOutput{Insights: page, NextToken: next}, nil
}

// DescribeInsight describes an insight into a cluster.
func (s *Service) DescribeInsight(
	ctx context.Context, in *eks.DescribeInsightInput,
) (*eks.DescribeInsightOutput, error) {
	name := aws.ToString(in.ClusterName)
	all, err := s.insights(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if aws.ToString(i.Id) == aws.ToString(in.Id) {
			return &eks.DescribeInsightOutput{Insight: &i}, nil
		}
	}
	return nil, exception.NotFound(name, "No insight found for ID: %s", aws.ToString(in.Id))
}
