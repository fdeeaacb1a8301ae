package cloudformation

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// describeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) describeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeStacks, func(
			ctx context.Context, action string, in *cloudformation.DescribeStacksInput,
		) ([]wire.Target, error) {
			return s.onStackOrAll(ctx, action, in.StackName)
		}),
		wire.Handle(s.ListStacks, wire.OnAll),
		wire.Handle(s.DescribeStackEvents, func(
			ctx context.Context, action string, in *cloudformation.DescribeStackEventsInput,
		) ([]wire.Target, error) {
			return s.onStackOrAll(ctx, action, in.StackName)
		}),
		wire.Handle(s.ListExports, wire.OnAll),
		wire.Handle(s.ListImports, wire.OnAll),
		wire.Handle(s.DescribeAccountLimits, wire.OnAll),
	}
}

// all returns the stacks of an account and region, newest first.
func (s *Service) all(ctx context.Context, at scope) ([]view, error) {
	rows, err := s.stacks.List(ctx, at.prefix())
	if err != nil {
		return nil, err
	}
	views := make([]view, 0, len(rows))
	for _, row := range rows {
		v, err := s.load(ctx, row.Key)
		if err != nil {
			continue // it is gone since
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b view) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return views, nil
}

func viewID(v view) string { return v.ID }

// DescribeStacks shows one stack, or all that are not deleted.
func (s *Service) DescribeStacks(ctx context.Context, in *cloudformation.DescribeStacksInput) (
	*cloudformation.DescribeStacksOutput, error) {
	out := &cloudformation.DescribeStacksOutput{Stacks: []types.Stack{}}
	var views []view
	if aws.ToString(in.StackName) != "" {
		v, err := s.get(ctx, in.StackName)
		if err != nil {
			return nil, err
		}
		views = []view{v}
	} else {
		all, err := s.all(ctx, scopeOf(ctx))
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, view.isDeleted)
		if views, out.NextToken, err = wire.Page(ctx, all, nil, in.NextToken, viewID); err != nil {
			return nil, err
		}
	}
	for _, v := range views {
		shown, err := s.show(ctx, v)
		if err != nil {
			return nil, err
		}
		out.Stacks = append(out.Stacks, shown)
	}
	return out, nil
}

// ListStacks lists stacks, also deleted ones.
func (s *Service) ListStacks(ctx context.Context, in *cloudformation.ListStacksInput) (
	*cloudformation.ListStacksOutput, error) {
	for _, status := range in.StackStatusFilter {
		if !slices.Contains(status.Values(), status) {
			return nil, validation("1 validation error detected: Value '[%s]' at 'stackStatusFilter' failed to satisfy "+
				"constraint: Member must satisfy enum value set", status)
		}
	}
	all, err := s.all(ctx, scopeOf(ctx))
	if err != nil {
		return nil, err
	}
	if len(in.StackStatusFilter) > 0 {
		all = slices.DeleteFunc(all, func(v view) bool { return !slices.Contains(in.StackStatusFilter, v.status()) })
	}
	out := &cloudformation.ListStacksOutput{StackSummaries: []types.StackSummary{}}
	views, next, err := wire.Page(ctx, all, nil, in.NextToken, viewID)
	if err != nil {
		return nil, err
	}
	out.NextToken = next
	for _, v := range views {
		shown, err := s.summarize(ctx, v)
		if err != nil {
			return nil, err
		}
		out.StackSummaries = append(out.StackSummaries, shown)
	}
	return out, nil
}

// DescribeStackEvents lists the events of a stack, newest first.
func (s *Service) DescribeStackEvents(ctx context.Context, in *cloudformation.DescribeStackEventsInput) (
	*cloudformation.DescribeStackEventsOutput, error) {
	if aws.ToString(in.StackName) == "" {
		return nil, validation("1 validation error detected: Value null at 'stackName' failed to satisfy constraint: " +
			"Member must not be null")
	}
	v, err := s.find(ctx, *in.StackName)
	if err != nil {
		if isLost(err) {
			return nil, validation("Stack [%s] does not exist", *in.StackName)
		}
		return nil, err
	}
	rows, err := s.events.List(ctx, store.Prefix(v.Account, v.Region, v.ID))
	if err != nil {
		return nil, err
	}
	slices.Reverse(rows)
	page, next, err := wire.Page(ctx, rows, nil, in.NextToken, func(r store.Row[record.StackEvent]) string {
		return r.Key
	})
	if err != nil {
		return nil, err
	}
	out := &cloudformation.DescribeStackEventsOutput{NextToken: next, StackEvents: []types.StackEvent{}}
	for _, row := range page {
		e := row.Value
		shown := types.StackEvent{
			StackId: aws.String(v.ARN()), StackName: aws.String(v.Name), EventId: aws.String(e.ID),
			LogicalResourceId: aws.String(e.LogicalID), PhysicalResourceId: aws.String(e.PhysicalID),
			ResourceType: aws.String(e.Type), ResourceStatus: e.Status, ResourceStatusReason: optional(e.Reason),
			Timestamp: aws.Time(e.At), ClientRequestToken: optional(e.Token),
			ResourceProperties: optional(string(e.Properties)),
		}
		out.StackEvents = append(out.StackEvents, shown)
	}
	return out, nil
}

// ListExports lists the exports of all stacks, by name.
func (s *Service) ListExports(ctx context.Context, in *cloudformation.ListExportsInput) (
	*cloudformation.ListExportsOutput, error) {
	at := scopeOf(ctx)
	rows, err := s.exports.List(ctx, at.prefix())
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, nil, in.NextToken, func(r store.Row[record.StackExport]) string {
		return r.Key
	})
	if err != nil {
		return nil, err
	}
	out := &cloudformation.ListExportsOutput{NextToken: next, Exports: []types.Export{}}
	for _, row := range page {
		e := row.Value
		out.Exports = append(out.Exports, types.Export{Name: aws.String(e.Name), Value: aws.String(e.Value),
			ExportingStackId: aws.String(record.StackARN(at.account, at.region, e.StackName, e.StackID))})
	}
	return out, nil
}

// ListImports lists the stacks that use an export.
func (s *Service) ListImports(ctx context.Context, in *cloudformation.ListImportsInput) (
	*cloudformation.ListImportsOutput, error) {
	at, name := scopeOf(ctx), aws.ToString(in.ExportName)
	if _, err := s.exports.Get(ctx, record.StackExportKey(at.account, at.region, name)); err != nil {
		if isLost(err) {
			return nil, validation("Export '%s' does not exist.", name)
		}
		return nil, err
	}
	users, err := s.usersOf(ctx, record.Stack{Account: at.account, Region: at.region}, name)
	if err != nil {
		return nil, err
	}
	if len(users) == 0 {
		return nil, validation("Export '%s' is not imported by any stack.", name)
	}
	page, next, err := wire.Page(ctx, users, nil, in.NextToken, func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	return &cloudformation.ListImportsOutput{Imports: page, NextToken: next}, nil
}

// DescribeAccountLimits lists the quotas of stacks.
func (s *Service) DescribeAccountLimits(context.Context, *cloudformation.DescribeAccountLimitsInput) (
	*cloudformation.DescribeAccountLimitsOutput, error) {
	return &cloudformation.DescribeAccountLimitsOutput{AccountLimits: []types.AccountLimit{
		{Name: aws.String("StackLimit"), Value: aws.Int32(maxStacks)},
		{Name: aws.String("StackOutputsLimit"), Value: aws.Int32(stackOutputs)},
	}}, nil
}
