package cluster

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// The messages of the API reference.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeInsightsRefresh.html
const (
	refreshInitiated  = "Initiated cluster insights refresh."
	refreshInProgress = "Cluster insights refresh is in progress."
	refreshCompleted  = "Cluster insights refresh has completed successfully."
	refreshFailed     = "Cluster insights refresh has failed: "
)

// insightsRefreshHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) insightsRefreshHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.StartInsightsRefresh, func(
			ctx context.Context, action string, in *eks.StartInsightsRefreshInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
		wire.Handle(s.DescribeInsightsRefresh, func(
			ctx context.Context, action string, in *eks.DescribeInsightsRefreshInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// refreshOf returns the newest refresh of the insights into a cluster, with no revision when there was none.
func (s *Service) refreshOf(ctx context.Context, c record.Cluster) (store.Row[record.InsightsRefresh], error) {
	row, err := s.refreshes.Copy(ctx, c.Key())
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ClusterID != c.ID {
		return store.Row[record.InsightsRefresh]{Key: c.Key()}, nil
	}
	return row, err
}

// StartInsightsRefresh has the insights into the cluster made now. A refresh that is in progress is not
// started again.
func (s *Service) StartInsightsRefresh(
	ctx context.Context, in *eks.StartInsightsRefreshInput,
) (*eks.StartInsightsRefreshOutput, error) {
	for {
		row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
		if err != nil {
			return nil, err
		}
		c := row.Value
		cp, last, err := s.Observe(ctx, c)
		if err != nil {
			return nil, err
		}
		switch resource.ClusterStatus(c, cp, last) {
		case types.ClusterStatusActive, types.ClusterStatusUpdating:
		default:
			return nil, exception.InvalidRequest(c.Name, "Cluster '%s' is not in ACTIVE status", c.Name)
		}
		refresh, err := s.refreshOf(ctx, c)
		if err != nil {
			return nil, err
		}
		if refresh.Revision != 0 && refresh.Value.EndedAt.IsZero() {
			return &eks.StartInsightsRefreshOutput{
				Message: new(refreshInProgress), Status: types.InsightsRefreshStatusInProgress,
			}, nil
		}
		refresh.Value = record.InsightsRefresh{ClusterID: c.ID, StartedAt: s.Timestamp()}
		op := s.refreshes.CreateOp(refresh.Key, refresh.Value)
		if refresh.Revision != 0 {
			op = s.refreshes.UpdateOp(refresh)
		}
		// The cluster must not be deleted in between: its deletion removes the record.
		if err := s.Store.Txn(ctx, s.Clusters.CheckOp(row), op); resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.StartInsightsRefreshOutput{
			Message: new(refreshInitiated), Status: types.InsightsRefreshStatusInProgress,
		}, nil
	}
}

// DescribeInsightsRefresh describes the newest refresh that was asked for.
func (s *Service) DescribeInsightsRefresh(
	ctx context.Context, in *eks.DescribeInsightsRefreshInput,
) (*eks.DescribeInsightsRefreshOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	refresh, err := s.refreshOf(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	r := refresh.Value
	if refresh.Revision == 0 {
		return nil, exception.NotFound(
			row.Value.Name, "No insights refresh found for cluster: %s.", row.Value.Name,
		)
	}
	out := &eks.DescribeInsightsRefreshOutput{
		Message: new(refreshInProgress), Status: types.InsightsRefreshStatusInProgress, StartedAt: new(r.StartedAt),
	}
	if !r.EndedAt.IsZero() {
		out.Message, out.Status = new(refreshCompleted), types.InsightsRefreshStatusCompleted
		out.EndedAt = new(r.EndedAt)
		if r.Failure != "" {
			out.Message, out.Status = new(refreshFailed+r.Failure), types.InsightsRefreshStatusFailed
		}
	}
	return out, nil
}
