package cluster

import (
	"context"
	"errors"
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
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/kubernetes"
)

// insightText is what EKS says about an upgrade check beside its result.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-insights.html
type insightText struct {
	description, recommendation string
	additionalInfo              map[string]string
}

const updateClusterGuide = "https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html"

var insightTexts = map[string]insightText{
	"Kubelet version skew": {
		"Checks for kubelet versions of worker nodes in the cluster to see if upgrade would cause non compliance with " +
			"supported Kubernetes kubelet version skew policy.",
		"Upgrade your worker nodes to match the Kubernetes version of your cluster control plane.",
		map[string]string{
			"Kubelet version skew policy": "https://kubernetes.io/releases/version-skew-policy/#kubelet",
			"Updating a managed node group": "https://docs.aws.amazon.com/eks/latest/userguide/" +
				"update-managed-node-group.html",
		},
	},
	"kube-proxy version skew": {
		"Checks version of kube-proxy in cluster to see if upgrade would cause non compliance with supported Kubernetes " +
			"kube-proxy version skew policy.",
		"Upgrade kube-proxy to match the Kubernetes version of your cluster control plane.",
		map[string]string{
			"kube-proxy version skew policy": "https://kubernetes.io/releases/version-skew-policy/#kube-proxy",
			"Managing kube-proxy in Amazon EKS clusters": "https://docs.aws.amazon.com/eks/latest/userguide/" +
				"managing-kube-proxy.html",
		},
	},
	"EKS add-on version compatibility": {
		"Checks version of installed EKS add-ons to ensure they are compatible with the next version of Kubernetes. ",
		"Upgrade the EKS add-ons to versions that are compatible with the next Kubernetes version before you upgrade " +
			"the cluster.",
		map[string]string{
			"Amazon EKS add-ons": "https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html",
		},
	},
	"Cluster health issues": {
		"Checks for any cluster health issues that prevent successful upgrade to the next Kubernetes version on EKS.",
		"Review the cluster's health with DescribeCluster and resolve its issues before you upgrade.",
		map[string]string{"EKS update cluster documentation": updateClusterGuide},
	},
}

// textOf returns the text of a check.
func textOf(c record.InsightCheck) insightText {
	if text, ok := insightTexts[c.Name]; ok {
		return text
	}
	v := "v" + c.Version
	return insightText{
		"Checks for usage of deprecated APIs that are scheduled for removal in Kubernetes " + v + ". Upgrading your " +
			"cluster before migrating to the updated APIs supported by " + v + " could cause application impact.",
		"Update manifests and API clients to use newer Kubernetes APIs if applicable before upgrading to Kubernetes " +
			v + ".",
		map[string]string{
			"EKS update cluster documentation": updateClusterGuide,
			"Kubernetes " + v + " deprecation guide": "https://kubernetes.io/docs/reference/using-api/" +
				"deprecation-guide/#" + strings.ReplaceAll(v, ".", "-"),
		},
	}
}

// upgradeInsights returns the checks before an upgrade of the cluster, as the controller last made them.
func (s *Service) upgradeInsights(ctx context.Context, c record.Cluster) ([]types.Insight, error) {
	row, err := s.upgradeChecks.Get(ctx, c.Key())
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.ID {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := row.Value.CheckedAt
	refresh, err := s.refreshOf(ctx, c)
	if err != nil {
		return nil, err
	}
	if r := refresh.Value; r.Failure == "" && r.EndedAt.After(at) {
		at = r.EndedAt // which has found nothing else
	}
	var insights []types.Insight
	for _, check := range row.Value.Checks {
		if kubernetes.MinorNumber(check.Version) <= kubernetes.MinorNumber(c.Version) {
			continue // the cluster was upgraded meanwhile
		}
		insights = append(insights, describeInsight(c, check, at))
	}
	return insights, nil
}

// describeInsight returns a check as DescribeInsight shows it.
func describeInsight(c record.Cluster, check record.InsightCheck, at time.Time) types.Insight {
	text := textOf(check)
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(c.ARN()+"/"+c.ID+"/"+check.Name+"/"+check.Version))
	out := types.Insight{
		Id:                 new(id.String()),
		Name:               new(check.Name),
		Category:           types.CategoryUpgradeReadiness,
		KubernetesVersion:  new(check.Version),
		Description:        new(text.description),
		Recommendation:     new(text.recommendation),
		InsightStatus:      &types.InsightStatus{Status: check.Status, Reason: new(check.Reason)},
		Resources:          check.Resources,
		AdditionalInfo:     text.additionalInfo,
		LastRefreshTime:    new(at),
		LastTransitionTime: new(check.ChangedAt),
		CategorySpecificSummary: &types.InsightCategorySpecificSummary{
			DeprecationDetails: check.APIs, AddonCompatibilityDetails: check.Addons,
		},
	}
	if out.Resources == nil {
		out.Resources = []types.InsightResourceDetail{}
	}
	if out.CategorySpecificSummary.DeprecationDetails == nil {
		out.CategorySpecificSummary.DeprecationDetails = []types.DeprecationDetail{}
	}
	return out
}

func (s *Service) insights(ctx context.Context, cluster string) ([]types.Insight, error) {
	row, err := s.Cluster(ctx, cluster)
	if err != nil {
		return nil, err
	}
	c := row.Value
	_, last, err := s.Observe(ctx, c)
	if err != nil {
		return nil, err
	}
	c.Version = servedVersion(c, last)
	return s.upgradeInsights(ctx, c)
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
