package cloudformation

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// resourceHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) resourceHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeStackResource, func(
			ctx context.Context, action string, in *cloudformation.DescribeStackResourceInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
		wire.Handle(s.DescribeStackResources, func(
			ctx context.Context, action string, in *cloudformation.DescribeStackResourcesInput,
		) ([]wire.Target, error) {
			if id := aws.ToString(in.PhysicalResourceId); id != "" && aws.ToString(in.StackName) == "" {
				if v, err := s.stackOf(ctx, id); err == nil {
					return s.onStack(ctx, action, aws.String(v.ARN()))
				}
			}
			return s.onStackOrAll(ctx, action, in.StackName)
		}),
		wire.Handle(s.ListStackResources, func(
			ctx context.Context, action string, in *cloudformation.ListStackResourcesInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
	}
}

// physicalID returns the physical ID that a resource shows.
func physicalID(r record.StackResource) *string {
	switch {
	case r.Work != nil && r.Work.Target.ID() != "":
		return aws.String(r.Work.Target.ID())
	case r.Live != nil:
		return aws.String(r.Live.ID())
	case r.Before != nil && r.Status == types.ResourceStatusDeleteComplete:
		return aws.String(r.Before.ID())
	}
	return nil
}

func driftSummary(r record.StackResource) (types.StackResourceDriftStatus, *record.StackResourceDrift) {
	if r.Drift == nil {
		return types.StackResourceDriftStatusNotChecked, &record.StackResourceDrift{}
	}
	return r.Drift.Status, r.Drift
}

// DescribeStackResource shows a resource of a stack.
func (s *Service) DescribeStackResource(ctx context.Context, in *cloudformation.DescribeStackResourceInput) (
	*cloudformation.DescribeStackResourceOutput, error) {
	v, err := s.find(ctx, aws.ToString(in.StackName))
	if isLost(err) {
		return nil, validation("Stack '%s' does not exist", aws.ToString(in.StackName))
	}
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.LogicalResourceId)
	row, err := s.resources.Get(ctx, record.StackResourceKey(v.Account, v.Region, v.ID, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, validation("Resource %s does not exist for stack %s", id, v.Name)
	}
	if err != nil {
		return nil, err
	}
	r := row.Value
	status, drift := driftSummary(r)
	detail := &types.StackResourceDetail{
		StackName: aws.String(v.Name), StackId: aws.String(v.ARN()), LogicalResourceId: aws.String(id),
		PhysicalResourceId: physicalID(r), ResourceType: aws.String(r.Type), ResourceStatus: r.Status,
		ResourceStatusReason: optional(r.Reason), LastUpdatedTimestamp: aws.Time(r.UpdatedAt),
		DriftInformation: &types.StackResourceDriftInformation{StackResourceDriftStatus: status},
		Metadata:         aws.String("{}"),
	}
	if !drift.CheckedAt.IsZero() {
		detail.DriftInformation.LastCheckTimestamp = aws.Time(drift.CheckedAt)
	}
	if r.Live != nil && len(r.Live.Metadata) > 0 && json.Valid(r.Live.Metadata) {
		detail.Metadata = aws.String(string(r.Live.Metadata))
	}
	return &cloudformation.DescribeStackResourceOutput{StackResourceDetail: detail}, nil
}

// maxDescribed is the number of resources that DescribeStackResources shows.
const maxDescribed = 100

// DescribeStackResources shows the resources of a stack, or of the stack that has a physical resource.
func (s *Service) DescribeStackResources(ctx context.Context, in *cloudformation.DescribeStackResourcesInput) (
	*cloudformation.DescribeStackResourcesOutput, error) {
	var v view
	var err error
	switch {
	case aws.ToString(in.StackName) != "" && aws.ToString(in.PhysicalResourceId) != "":
		return nil, validation("You may specify either StackName or PhysicalResourceId, but not both")
	case aws.ToString(in.StackName) != "":
		v, err = s.get(ctx, in.StackName)
	case aws.ToString(in.PhysicalResourceId) != "":
		v, err = s.stackOf(ctx, *in.PhysicalResourceId)
	default:
		return nil, validation("Either StackName or PhysicalResourceId must be specified")
	}
	if err != nil {
		return nil, err
	}
	rows, err := s.resources.List(ctx, store.Prefix(v.Account, v.Region, v.ID))
	if err != nil {
		return nil, err
	}
	out := &cloudformation.DescribeStackResourcesOutput{StackResources: []types.StackResource{}}
	for _, row := range rows {
		r := row.Value
		if id := aws.ToString(in.LogicalResourceId); id != "" && id != r.LogicalID {
			continue
		}
		if len(out.StackResources) == maxDescribed {
			break
		}
		status, drift := driftSummary(r)
		shown := types.StackResource{
			StackName: aws.String(v.Name), StackId: aws.String(v.ARN()), LogicalResourceId: aws.String(r.LogicalID),
			PhysicalResourceId: physicalID(r), ResourceType: aws.String(r.Type), ResourceStatus: r.Status,
			ResourceStatusReason: optional(r.Reason), Timestamp: aws.Time(r.UpdatedAt),
			DriftInformation: &types.StackResourceDriftInformation{StackResourceDriftStatus: status},
		}
		if !drift.CheckedAt.IsZero() {
			shown.DriftInformation.LastCheckTimestamp = aws.Time(drift.CheckedAt)
		}
		out.StackResources = append(out.StackResources, shown)
	}
	if id := aws.ToString(in.LogicalResourceId); id != "" && len(out.StackResources) == 0 {
		return nil, validation("Resource %s does not exist for stack %s", id, v.Name)
	}
	return out, nil
}

// stackOf returns the stack that has a resource with a physical ID.
func (s *Service) stackOf(ctx context.Context, physical string) (view, error) {
	at := scopeOf(ctx)
	rows, err := s.resources.List(ctx, at.prefix())
	if err != nil {
		return view{}, err
	}
	for _, row := range rows {
		if row.Value.Live != nil && row.Value.Live.ID() == physical {
			return s.load(ctx, record.StackKey(at.account, at.region, row.Value.StackID))
		}
	}
	return view{}, validation("Stack for %s does not exist", physical)
}

// ListStackResources lists the resources of a stack.
func (s *Service) ListStackResources(ctx context.Context, in *cloudformation.ListStackResourcesInput) (
	*cloudformation.ListStackResourcesOutput, error) {
	v, err := s.get(ctx, in.StackName)
	if err != nil {
		return nil, err
	}
	rows, err := s.resources.List(ctx, store.Prefix(v.Account, v.Region, v.ID))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, nil, in.NextToken, func(r store.Row[record.StackResource]) string {
		return r.Key
	})
	if err != nil {
		return nil, err
	}
	out := &cloudformation.ListStackResourcesOutput{NextToken: next,
		StackResourceSummaries: []types.StackResourceSummary{}}
	for _, row := range page {
		r := row.Value
		status, drift := driftSummary(r)
		shown := types.StackResourceSummary{
			LogicalResourceId: aws.String(r.LogicalID), PhysicalResourceId: physicalID(r), ResourceType: aws.String(r.Type),
			ResourceStatus: r.Status, ResourceStatusReason: optional(r.Reason), LastUpdatedTimestamp: aws.Time(r.UpdatedAt),
			DriftInformation: &types.StackResourceDriftInformationSummary{StackResourceDriftStatus: status},
		}
		if !drift.CheckedAt.IsZero() {
			shown.DriftInformation.LastCheckTimestamp = aws.Time(drift.CheckedAt)
		}
		out.StackResourceSummaries = append(out.StackResourceSummaries, shown)
	}
	return out, nil
}
