package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// deliveryHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deliveryHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateDelivery, func(
			ctx context.Context, action string, in *cloudwatchlogs.CreateDeliveryInput,
		) (targets []wire.Target, err error) {
			targets = withTags(newTarget(action, s.deliveryARN(ctx, aws.String("*"))), in.Tags)
			for _, arn := range []string{s.sourceARN(ctx, in.DeliverySourceName), aws.ToString(in.DeliveryDestinationArn)} {
				t, err := s.deliveryTarget(ctx, action, arn)
				if err != nil {
					return nil, err
				}
				conditions(t.Conditions).requestTags(in.Tags)
				targets = append(targets, t)
			}
			return targets, nil
		}),
		wire.Handle(s.GetDelivery, func(
			ctx context.Context, action string, in *cloudwatchlogs.GetDeliveryInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.deliveryARN(ctx, in.Id))
			return []wire.Target{t}, err
		}),
		wire.Handle(s.UpdateDeliveryConfiguration, func(
			ctx context.Context, action string, in *cloudwatchlogs.UpdateDeliveryConfigurationInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.deliveryARN(ctx, in.Id))
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DeleteDelivery, func(
			ctx context.Context, action string, in *cloudwatchlogs.DeleteDeliveryInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.deliveryARN(ctx, in.Id))
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DescribeDeliveries, wire.OnAll),
		wire.Handle(s.DescribeConfigurationTemplates, wire.OnAll),
	}
}

func (s *Service) deliveryARN(ctx context.Context, id *string) string {
	at := scopeOf(ctx)
	return record.LogDelivery{Account: at.account, Region: at.region, ID: aws.ToString(id)}.ARN()
}

// deliveryTarget returns an action on a delivery source, a delivery destination or a delivery as the target, whether or
// not it exists.
func (s *Service) deliveryTarget(ctx context.Context, action, arn string) (wire.Target, error) {
	t := newTarget(action, arn)
	r, ok := s.taggableDelivery(ctx, arn)
	if !ok {
		return t, nil
	}
	tags, err := r.get(ctx)
	var gone *types.ResourceNotFoundException
	if errors.As(err, &gone) {
		return t, nil
	}
	for k, v := range tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
	}
	return t, err
}

// sourceDeliveryQuota is the number of deliveries that a delivery source may have: each stores all that it logs.
const sourceDeliveryQuota = 10

// CreateDelivery connects a delivery source with a delivery destination.
func (s *Service) CreateDelivery(ctx context.Context, in *cloudwatchlogs.CreateDeliveryInput) (
	*cloudwatchlogs.CreateDeliveryOutput, error) {
	if err := checkTags(ctx, in.Tags); err != nil {
		return nil, err
	}
	at := scopeOf(ctx)
	arn := aws.ToString(in.DeliveryDestinationArn)
	name, ok := strings.CutPrefix(arn, s.destinationARN(ctx, aws.String("")))
	if !ok {
		return nil, validation("%s is not the ARN of a delivery destination of this account and Region, which begins "+
			"with %s.", arn, s.destinationARN(ctx, aws.String("")))
	}
	defer s.lockAccount(at)() // from counting to creation
	for {
		source, err := s.getSource(ctx, aws.ToString(in.DeliverySourceName))
		if err != nil {
			return nil, err
		}
		destination, err := s.getDestination(ctx, name)
		if err != nil {
			return nil, err
		}
		d := record.LogDelivery{Account: at.account, Region: at.region, ID: fmt.Sprintf("%016x", randomID()),
			Source: source.Value.Name, Destination: name, CreatedAt: s.timestamp(), Tags: in.Tags}
		if err := configureDelivery(&d, source.Value, destination.Value, in.RecordFields, in.FieldDelimiter,
			in.S3DeliveryConfiguration); err != nil {
			return nil, err
		}
		existing, err := s.deliveriesBySource.List(ctx, source.Key)
		if err != nil {
			return nil, err
		}
		for _, row := range existing {
			if row.Value.Destination == name {
				return nil, conflict("The delivery %s of the delivery source %s to the delivery destination %s exists.",
					row.Value.ID, source.Value.Name, name)
			}
		}
		if len(existing) >= sourceDeliveryQuota {
			return nil, &types.ServiceQuotaExceededException{Message: new(fmt.Sprintf("The delivery source %s has %d "+
				"deliveries, which is the quota: delete one first.", source.Value.Name, len(existing)))}
		}
		if err := checkDeliveryQuota(s.deliveries, at, "deliveries"); err != nil {
			return nil, err
		}
		ops, err := s.admit(ctx, destination.Value.Group, source.Value)
		if err != nil {
			return nil, err
		}
		// Writing both keeps either from being deleted by who has seen no delivery.
		err = s.store.Txn(ctx, append(ops, s.sources.UpdateOp(source), s.destinations.UpdateOp(destination),
			s.deliveries.CreateOp(d.Key(), d))...)
		if isOutdated(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &cloudwatchlogs.CreateDeliveryOutput{Delivery: describeDelivery(d)}, nil
	}
}

// configureDelivery sets which fields a delivery has, and what separates them, or returns why that cannot be.
func configureDelivery(d *record.LogDelivery, source record.LogDeliverySource, to record.LogDeliveryDestination,
	fields []string, delimiter *string, s3 *types.S3DeliveryConfiguration) error {
	if s3 != nil {
		return validation("s3DeliveryConfiguration is for delivery destinations of Amazon S3, and %s is a log group: "+
			"leave it out.", to.Group)
	}
	kind, ok := vended.TypeNamed(source.LogType)
	if !ok {
		return validation("The log type %s of the delivery source is not delivered.", source.LogType)
	}
	known := kind.FieldNames()
	for i, name := range fields {
		if !slices.Contains(known, name) {
			return validation("Logs of the type %s have no field %q: choose of %s.", kind.Name, name,
				strings.Join(known, ", "))
		}
		if slices.Contains(fields[:i], name) {
			return validation("The field %q is in recordFields twice.", name)
		}
	}
	if len(fields) == 0 {
		fields = known
	}
	text := aws.ToString(delimiter)
	switch {
	case text == "":
	case to.OutputFormat != types.OutputFormatPlain:
		return validation("fieldDelimiter is for the output format plain, and the delivery destination %s has %s.",
			to.Name, to.OutputFormat)
	case !slices.Contains(vended.Delimiters, text):
		return validation("The field delimiter %q is not one of %q.", text, vended.Delimiters)
	}
	d.RecordFields, d.FieldDelimiter = fields, text
	return nil
}

func describeDelivery(d record.LogDelivery) *types.Delivery {
	out := &types.Delivery{
		Arn: new(d.ARN()), Id: &d.ID, DeliverySourceName: &d.Source, RecordFields: d.RecordFields, Tags: d.Tags,
		DeliveryDestinationArn: new(record.LogDeliveryDestination{Account: d.Account, Region: d.Region,
			Name: d.Destination}.ARN()),
		DeliveryDestinationType: types.DeliveryDestinationTypeCwl,
	}
	if d.FieldDelimiter != "" {
		out.FieldDelimiter = &d.FieldDelimiter
	}
	return out
}

func deliveryNotFound(id string) error { return notFound("The delivery %s does not exist.", id) }

// getDelivery returns the caller's delivery of that ID, or a ResourceNotFoundException.
func (s *Service) getDelivery(ctx context.Context, id string) (store.Row[record.LogDelivery], error) {
	at := scopeOf(ctx)
	row, err := s.deliveries.Copy(ctx, record.LogDeliveryKey(at.account, at.region, id))
	if errors.Is(err, store.ErrNotFound) {
		return row, deliveryNotFound(id)
	}
	return row, err
}

// GetDelivery describes a delivery.
func (s *Service) GetDelivery(ctx context.Context, in *cloudwatchlogs.GetDeliveryInput) (
	*cloudwatchlogs.GetDeliveryOutput, error) {
	row, err := s.getDelivery(ctx, aws.ToString(in.Id))
	if err != nil {
		return nil, err
	}
	return &cloudwatchlogs.GetDeliveryOutput{Delivery: describeDelivery(row.Value)}, nil
}

// DescribeDeliveries lists deliveries, by ID.
func (s *Service) DescribeDeliveries(ctx context.Context, in *cloudwatchlogs.DescribeDeliveriesInput) (
	*cloudwatchlogs.DescribeDeliveriesOutput, error) {
	id := func(d record.LogDelivery) string { return d.ID }
	all, err := listByName(ctx, s.deliveries, scopeOf(ctx).prefix(), "", id)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(d record.LogDelivery) bool {
		return len(in.DeliverySourceNames) > 0 && !slices.Contains(in.DeliverySourceNames, d.Source)
	})
	page, next, err := wire.Page(ctx, all, in.Limit, in.NextToken, id)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeDeliveriesOutput{Deliveries: []types.Delivery{}, NextToken: next}
	for _, d := range page {
		out.Deliveries = append(out.Deliveries, *describeDelivery(d))
	}
	return out, nil
}

// UpdateDeliveryConfiguration changes which fields a delivery has, and what separates them.
func (s *Service) UpdateDeliveryConfiguration(ctx context.Context,
	in *cloudwatchlogs.UpdateDeliveryConfigurationInput) (*cloudwatchlogs.UpdateDeliveryConfigurationOutput, error) {
	for {
		row, err := s.getDelivery(ctx, aws.ToString(in.Id))
		if err != nil {
			return nil, err
		}
		source, err := s.getSource(ctx, row.Value.Source)
		if err != nil {
			return nil, err
		}
		destination, err := s.getDestination(ctx, row.Value.Destination)
		if err != nil {
			return nil, err
		}
		fields, delimiter := in.RecordFields, in.FieldDelimiter
		if fields == nil {
			fields = row.Value.RecordFields
		}
		if delimiter == nil && destination.Value.OutputFormat == types.OutputFormatPlain {
			delimiter = &row.Value.FieldDelimiter
		}
		if err := configureDelivery(&row.Value, source.Value, destination.Value, fields, delimiter,
			in.S3DeliveryConfiguration); err != nil {
			return nil, err
		}
		_, err = s.deliveries.Update(ctx, row)
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &cloudwatchlogs.UpdateDeliveryConfigurationOutput{}, nil
	}
}

// DeleteDelivery deletes a delivery. What its source has logged and was not delivered yet is not.
func (s *Service) DeleteDelivery(ctx context.Context, in *cloudwatchlogs.DeleteDeliveryInput) (
	*cloudwatchlogs.DeleteDeliveryOutput, error) {
	for {
		row, err := s.getDelivery(ctx, aws.ToString(in.Id))
		if err != nil {
			return nil, err
		}
		switch err := s.deliveries.Delete(ctx, row); {
		case errors.Is(err, store.ErrConflict):
			continue
		case errors.Is(err, store.ErrNotFound):
			return nil, deliveryNotFound(row.Value.ID)
		case err != nil:
			return nil, err
		}
		return &cloudwatchlogs.DeleteDeliveryOutput{}, nil
	}
}

// DescribeConfigurationTemplates lists what can be configured of deliveries, by log type.
func (s *Service) DescribeConfigurationTemplates(ctx context.Context,
	in *cloudwatchlogs.DescribeConfigurationTemplatesInput) (*cloudwatchlogs.DescribeConfigurationTemplatesOutput, error) {
	if err := checkPageSize("limit", in.Limit, 1, 50); err != nil {
		return nil, err
	}
	name := func(t vended.Type) string { return t.Name }
	all := slices.DeleteFunc(vended.Types(), func(t vended.Type) bool {
		return in.Service != nil && *in.Service != vended.Service ||
			len(in.LogTypes) > 0 && !slices.Contains(in.LogTypes, t.Name) ||
			len(in.ResourceTypes) > 0 && !slices.Contains(in.ResourceTypes, "loadbalancer") ||
			len(in.DeliveryDestinationTypes) > 0 &&
				!slices.Contains(in.DeliveryDestinationTypes, types.DeliveryDestinationTypeCwl)
	})
	page, next, err := wire.Page(ctx, all, in.Limit, in.NextToken, name)
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeConfigurationTemplatesOutput{
		ConfigurationTemplates: []types.ConfigurationTemplate{}, NextToken: next}
	for _, t := range page {
		template := types.ConfigurationTemplate{
			Service: aws.String(vended.Service), LogType: &t.Name, ResourceType: aws.String("loadbalancer"),
			DeliveryDestinationType: types.DeliveryDestinationTypeCwl,
			AllowedActionForAllowVendedLogsDeliveryForResource: aws.String(
				vended.Service + ":AllowVendedLogDeliveryForResource"),
			AllowedOutputFormats:   []types.OutputFormat{types.OutputFormatJson, types.OutputFormatPlain},
			AllowedFieldDelimiters: vended.Delimiters,
			DefaultDeliveryConfigValues: &types.ConfigurationTemplateDeliveryConfigValues{
				RecordFields: t.FieldNames(), FieldDelimiter: &vended.Delimiters[0]},
		}
		for _, f := range t.Fields {
			template.AllowedFields = append(template.AllowedFields, types.RecordField{Name: &f.Name,
				Mandatory: aws.Bool(false)})
		}
		out.ConfigurationTemplates = append(out.ConfigurationTemplates, template)
	}
	return out, nil
}

// DeliveryStreams makes the log streams of deliveries, which is no operation of a user's.
type DeliveryStreams struct{ service *Service }

// NewDeliveryStreams returns the DeliveryStreams of a store.
func NewDeliveryStreams(s *store.Store) DeliveryStreams {
	return DeliveryStreams{New(Options{Store: s})}
}

// Ensure returns the IDs of a log group and of the stream of a source in it, and makes the stream when there is none.
// It returns store.ErrNotFound while there is no such group, and vended.ErrRefused while no resource policy lets the
// source be delivered there.
func (d DeliveryStreams) Ensure(ctx context.Context, source record.LogDeliverySource, group string) (
	groupID, streamID uint64, err error) {
	s, stream := d.service, source.StreamName()
	for {
		row, err := s.groups.Get(ctx, record.LogGroupKey(source.Account, source.Region, group))
		if err != nil {
			return 0, 0, fmt.Errorf("find log group %s: %w", group, err)
		}
		decision, err := s.decideDelivery(ctx, policy.NewBudget(ctx, admissionSteps), source, group)
		if err != nil {
			return 0, 0, fmt.Errorf("evaluate the resource policies of log group %s: %w", group, err)
		}
		if !decision.Allowed() {
			return 0, 0, fmt.Errorf("%w, %s", vended.ErrRefused, decision.Reason())
		}
		key := record.LogStreamKey(row.Value.ID, stream)
		found, err := s.streams.Get(ctx, key)
		if err == nil {
			return row.Value.ID, found.Value.ID, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return 0, 0, fmt.Errorf("find log stream %s: %w", stream, err)
		}
		made := record.LogStream{Account: source.Account, GroupID: row.Value.ID, Name: stream, ID: randomID(),
			CreatedAt: s.timestamp()}
		err = s.store.Txn(ctx, s.groups.CheckOp(row), s.streams.CreateOp(key, made))
		if err != nil && !isOutdated(err) {
			return 0, 0, fmt.Errorf("create log stream %s: %w", stream, err)
		}
	}
}
