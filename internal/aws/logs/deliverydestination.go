package logs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// deliveryDestinationHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deliveryDestinationHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutDeliveryDestination, func(
			ctx context.Context, action string, in *cloudwatchlogs.PutDeliveryDestinationInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.destinationARN(ctx, in.Name))
			return withTags(t, in.Tags), err
		}),
		wire.Handle(s.GetDeliveryDestination, func(
			ctx context.Context, action string, in *cloudwatchlogs.GetDeliveryDestinationInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.destinationARN(ctx, in.Name))
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DeleteDeliveryDestination, func(
			ctx context.Context, action string, in *cloudwatchlogs.DeleteDeliveryDestinationInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.destinationARN(ctx, in.Name))
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DescribeDeliveryDestinations, wire.OnAll),
	}
}

func (s *Service) destinationARN(ctx context.Context, name *string) string {
	at := scopeOf(ctx)
	return record.LogDeliveryDestination{Account: at.account, Region: at.region, Name: aws.ToString(name)}.ARN()
}

// PutDeliveryDestination creates a delivery destination, or changes one.
func (s *Service) PutDeliveryDestination(ctx context.Context, in *cloudwatchlogs.PutDeliveryDestinationInput) (
	*cloudwatchlogs.PutDeliveryDestinationOutput, error) {
	at := scopeOf(ctx)
	want, err := s.checkDestination(ctx, in)
	if err != nil {
		return nil, err
	}
	defer s.lockAccount(at)() // from counting to creation
	for {
		row, err := s.destinations.Copy(ctx, want.Key())
		switch {
		case errors.Is(err, store.ErrNotFound):
			if err := checkDeliveryQuota(s.destinations, at, "delivery destinations"); err != nil {
				return nil, err
			}
			_, err = s.destinations.Create(ctx, want.Key(), want)
		case err == nil:
			if err := tagsOfExisting(in.Tags); err != nil {
				return nil, err
			}
			var ops []store.Op
			if want.Group != row.Value.Group {
				if ops, err = s.readmit(ctx, want); err != nil {
					return nil, err
				}
			}
			want.Tags = row.Value.Tags
			row.Value = want
			err = s.store.Txn(ctx, append(ops, s.destinations.UpdateOp(row))...)
		}
		if isOutdated(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &cloudwatchlogs.PutDeliveryDestinationOutput{DeliveryDestination: describeDestination(want)}, nil
	}
}

// readmit returns the operations that let what is delivered to a destination in at the log group that it gets now.
func (s *Service) readmit(ctx context.Context, to record.LogDeliveryDestination) ([]store.Op, error) {
	deliveries, err := s.deliveriesTo(ctx, to.Name)
	if err != nil {
		return nil, err
	}
	var sources []record.LogDeliverySource
	for _, d := range deliveries {
		source, err := s.getSource(ctx, d.Source)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source.Value)
	}
	return s.admit(ctx, to.Group, sources...)
}

// deliveriesTo returns the deliveries to the caller's delivery destination of that name.
func (s *Service) deliveriesTo(ctx context.Context, name string) (all []record.LogDelivery, err error) {
	rows, err := s.deliveries.List(ctx, scopeOf(ctx).prefix())
	for _, row := range rows {
		if row.Value.Destination == name {
			all = append(all, row.Value)
		}
	}
	return all, err
}

// checkDestination returns the destination that a request asks for, or why it cannot be.
func (s *Service) checkDestination(ctx context.Context, in *cloudwatchlogs.PutDeliveryDestinationInput) (
	d record.LogDeliveryDestination, err error) {
	if err := checkTags(ctx, in.Tags); err != nil {
		return d, err
	}
	at, arn := scopeOf(ctx), ""
	if in.DeliveryDestinationConfiguration != nil {
		arn = aws.ToString(in.DeliveryDestinationConfiguration.DestinationResourceArn)
	}
	group, isGroup := parseARN(strings.TrimSuffix(arn, ":*"))
	switch {
	case in.DeliveryDestinationType != "" && in.DeliveryDestinationType != types.DeliveryDestinationTypeCwl,
		strings.HasPrefix(arn, "arn:aws:s3:"), strings.HasPrefix(arn, "arn:aws:firehose:"):
		return d, validation("Coracle delivers logs to log groups of CloudWatch Logs alone, and not to Amazon S3, "+
			"Firehose or X-Ray: give the ARN of a log group, which begins with %s.", at.groupARN(""))
	case arn == "":
		return d, validation("deliveryDestinationConfiguration is required: give the ARN of a log group in its "+
			"destinationResourceArn, which begins with %s.", at.groupARN(""))
	case !isGroup || group.account != at.account || group.region != at.region:
		return d, validation("The destination %s is not the ARN of a log group of this account and Region, which begins "+
			"with %s.", arn, at.groupARN(""))
	case in.RoleArn != nil:
		return d, validation("roleArn is for delivery destinations of X-Ray: leave it out.")
	}
	if _, err := s.getGroup(ctx, group.group); err != nil {
		return d, err
	}
	format := cmp.Or(in.OutputFormat, types.OutputFormatJson)
	if format != types.OutputFormatJson && format != types.OutputFormatPlain {
		return d, validation("The output format %s is not one of log groups: choose json or plain.", format)
	}
	return record.LogDeliveryDestination{Account: at.account, Region: at.region, Name: aws.ToString(in.Name),
		ResourceARN: arn, Group: group.group, OutputFormat: format, Tags: in.Tags}, nil
}

func describeDestination(d record.LogDeliveryDestination) *types.DeliveryDestination {
	return &types.DeliveryDestination{
		Arn: new(d.ARN()), Name: &d.Name, DeliveryDestinationType: types.DeliveryDestinationTypeCwl,
		OutputFormat: d.OutputFormat, Tags: d.Tags,
		DeliveryDestinationConfiguration: &types.DeliveryDestinationConfiguration{DestinationResourceArn: &d.ResourceARN},
	}
}

func destinationNotFound(name string) error {
	return notFound("The delivery destination %s does not exist.", name)
}

// getDestination returns the caller's delivery destination of that name, or a ResourceNotFoundException.
func (s *Service) getDestination(ctx context.Context, name string) (store.Row[record.LogDeliveryDestination], error) {
	at := scopeOf(ctx)
	row, err := s.destinations.Copy(ctx, record.LogDeliveryKey(at.account, at.region, name))
	if errors.Is(err, store.ErrNotFound) {
		return row, destinationNotFound(name)
	}
	return row, err
}

// GetDeliveryDestination describes a delivery destination.
func (s *Service) GetDeliveryDestination(ctx context.Context, in *cloudwatchlogs.GetDeliveryDestinationInput) (
	*cloudwatchlogs.GetDeliveryDestinationOutput, error) {
	row, err := s.getDestination(ctx, aws.ToString(in.Name))
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.GetDeliveryDestinationOutput{DeliveryDestination: describeDestination(row.Value)}, nil
}

// DescribeDeliveryDestinations lists delivery destinations, by name.
func (s *Service) DescribeDeliveryDestinations(ctx context.Context,
	in *cloudwatchlogs.DescribeDeliveryDestinationsInput) (*cloudwatchlogs.DescribeDeliveryDestinationsOutput, error) {
	name := func(d record.LogDeliveryDestination) string { return d.Name }
	all, err := listByName(ctx, s.destinations, scopeOf(ctx).prefix(), "", name)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(d record.LogDeliveryDestination) bool {
		return len(in.Names) > 0 && !slices.Contains(in.Names, d.Name)
	})
	page, next, err := wire.Page(ctx, all, in.Limit, in.NextToken, name)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeDeliveryDestinationsOutput{DeliveryDestinations: []types.DeliveryDestination{},
		NextToken: next}
	for _, d := range page {
		out.DeliveryDestinations = append(out.DeliveryDestinations, *describeDestination(d))
	}
	return out, nil
}

// DeleteDeliveryDestination deletes a delivery destination that has no delivery.
func (s *Service) DeleteDeliveryDestination(ctx context.Context, in *cloudwatchlogs.DeleteDeliveryDestinationInput) (
	*cloudwatchlogs.DeleteDeliveryDestinationOutput, error) {
	for {
		row, err := s.getDestination(ctx, aws.ToString(in.Name))
		if err != nil {
			return nil, err
		}
		deliveries, err := s.deliveriesTo(ctx, row.Value.Name)
		if err != nil {
			return nil, err
		}
		if len(deliveries) > 0 {
			return nil, conflict("The delivery destination %s has deliveries: delete these first.", row.Value.Name)
		}
		switch err := s.destinations.Delete(ctx, row); {
		case errors.Is(err, store.ErrConflict):
			continue // it may have a delivery now
		case errors.Is(err, store.ErrNotFound):
			return nil, destinationNotFound(row.Value.Name)
		case err != nil:
			return nil, err
		}
		return &cloudwatchlogs.DeleteDeliveryDestinationOutput{}, nil
	}
}
