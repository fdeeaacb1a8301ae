package cloudformation

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// driftHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) driftHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DetectStackDrift, func(
			ctx context.Context, action string, in *cloudformation.DetectStackDriftInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
		wire.Handle(s.DescribeStackDriftDetectionStatus, wire.OnAll),
		wire.Handle(s.DescribeStackResourceDrifts, func(
			ctx context.Context, action string, in *cloudformation.DescribeStackResourceDriftsInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
		wire.Handle(s.DetectStackResourceDrift, func(
			ctx context.Context, action string, in *cloudformation.DetectStackResourceDriftInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
	}
}

// driftOf returns what the last drift detection found.
func (s *Service) driftOf(ctx context.Context, v view) *types.StackDriftInformation {
	none := &types.StackDriftInformation{StackDriftStatus: types.StackDriftStatusNotChecked}
	if v.Drift == "" {
		return none
	}
	row, err := s.drifts.Get(ctx, record.StackDriftDetectionKey(v.Account, v.Region, v.Drift))
	if err != nil || row.Value.StackStatus == "" {
		return none
	}
	return &types.StackDriftInformation{StackDriftStatus: row.Value.StackStatus,
		LastCheckTimestamp: aws.Time(row.Value.StartedAt)}
}

// beginDrift records a detection of drift; the controller reads the resources.
func (s *Service) beginDrift(ctx context.Context, name *string, logicalIDs []string) (view, string, error) {
	v, err := s.getLive(ctx, name)
	if err != nil {
		return v, "", err
	}
	if !slices.Contains(updatable, v.status()) && v.status() != types.StackStatusUpdateRollbackFailed {
		return v, "", validation("Drift detection cannot be performed on stack [%s] while in status %s", v.ARN(), v.status())
	}
	for _, id := range logicalIDs {
		row, err := s.resources.Get(ctx, record.StackResourceKey(v.Account, v.Region, v.ID, id))
		if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.Live == nil {
			return v, "", validation("Resource %s does not exist for stack %s", id, v.Name)
		}
		if err != nil {
			return v, "", err
		}
	}
	if v.Drift != "" {
		row, err := s.drifts.Get(ctx, record.StackDriftDetectionKey(v.Account, v.Region, v.Drift))
		if err == nil && row.Value.Status == types.StackDriftDetectionStatusDetectionInProgress {
			return v, "", validation("Drift detection is already in progress for stack [%s]", v.ARN())
		}
	}
	d := record.StackDriftDetection{Account: v.Account, Region: v.Region, StackID: v.ID, ID: newID(),
		LogicalIDs: logicalIDs, Caller: s.options.Identity.Forward(wire.CallerFrom(ctx)), RoleARN: v.roleARN(),
		StartedAt: s.timestamp(), Status: types.StackDriftDetectionStatusDetectionInProgress}
	row := v.row
	ops := []store.Op{s.drifts.CreateOp(record.StackDriftDetectionKey(v.Account, v.Region, d.ID), d)}
	if v.Drift != "" {
		ops = append(ops, s.drifts.RemoveOp(record.StackDriftDetectionKey(v.Account, v.Region, v.Drift)))
	}
	row.Value.Drift = d.ID
	err = s.store.Txn(ctx, append(ops, s.stacks.UpdateOp(row))...)
	if isLost(err) {
		err = validation("Drift detection is already in progress for stack [%s]", v.ARN())
	}
	return v, d.ID, err
}

// DetectStackDrift begins a detection of drift.
func (s *Service) DetectStackDrift(ctx context.Context, in *cloudformation.DetectStackDriftInput) (
	*cloudformation.DetectStackDriftOutput, error) {
	_, id, err := s.beginDrift(ctx, in.StackName, in.LogicalResourceIds)
	if err != nil {
		return nil, err
	}
	return &cloudformation.DetectStackDriftOutput{StackDriftDetectionId: aws.String(id)}, nil
}

// DescribeStackDriftDetectionStatus tells how far a detection of drift is, and what it found. A newer detection
// replaces it.
func (s *Service) DescribeStackDriftDetectionStatus(ctx context.Context,
	in *cloudformation.DescribeStackDriftDetectionStatusInput) (
	*cloudformation.DescribeStackDriftDetectionStatusOutput, error) {
	at, id := scopeOf(ctx), aws.ToString(in.StackDriftDetectionId)
	row, err := s.drifts.Get(ctx, record.StackDriftDetectionKey(at.account, at.region, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, validation("Drift detection with id %s does not exist", id)
	}
	if err != nil {
		return nil, err
	}
	d := row.Value
	v, err := s.load(ctx, record.StackKey(d.Account, d.Region, d.StackID))
	if err != nil {
		return nil, err
	}
	out := &cloudformation.DescribeStackDriftDetectionStatusOutput{
		StackId: aws.String(v.ARN()), StackDriftDetectionId: aws.String(id), DetectionStatus: d.Status,
		DetectionStatusReason: optional(d.Reason), StackDriftStatus: d.StackStatus, Timestamp: aws.Time(d.StartedAt),
	}
	if d.Status == types.StackDriftDetectionStatusDetectionComplete {
		out.DriftedStackResourceCount = aws.Int32(d.Drifted)
	}
	return out, nil
}

// DescribeStackResourceDrifts lists what detections of drift found of the resources of a stack.
func (s *Service) DescribeStackResourceDrifts(ctx context.Context,
	in *cloudformation.DescribeStackResourceDriftsInput) (*cloudformation.DescribeStackResourceDriftsOutput, error) {
	v, err := s.get(ctx, in.StackName)
	if err != nil {
		return nil, err
	}
	rows, err := s.resources.List(ctx, store.Prefix(v.Account, v.Region, v.ID))
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r store.Row[record.StackResource]) bool {
		d := r.Value.Drift
		return d == nil || r.Value.Live == nil || len(in.StackResourceDriftStatusFilters) > 0 &&
			!slices.Contains(in.StackResourceDriftStatusFilters, d.Status)
	})
	page, next, err := wire.Page(ctx, rows, in.MaxResults, in.NextToken,
		func(r store.Row[record.StackResource]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &cloudformation.DescribeStackResourceDriftsOutput{NextToken: next,
		StackResourceDrifts: []types.StackResourceDrift{}}
	for _, row := range page {
		out.StackResourceDrifts = append(out.StackResourceDrifts, showDrift(v, row.Value))
	}
	return out, nil
}

func showDrift(v view, r record.StackResource) types.StackResourceDrift {
	d := r.Drift
	out := types.StackResourceDrift{
		StackId: aws.String(v.ARN()), LogicalResourceId: aws.String(r.LogicalID), ResourceType: aws.String(r.Type),
		PhysicalResourceId: physicalID(r), StackResourceDriftStatus: d.Status, Timestamp: aws.Time(d.CheckedAt),
		ActualProperties: optional(string(d.Actual)), ExpectedProperties: optional(string(d.Expected)),
		PropertyDifferences: []types.PropertyDifference{},
	}
	for _, p := range d.Differences {
		out.PropertyDifferences = append(out.PropertyDifferences, types.PropertyDifference{
			PropertyPath: aws.String(p.Path), ExpectedValue: aws.String(p.Expected), ActualValue: aws.String(p.Actual),
			DifferenceType: p.Type})
	}
	return out
}
