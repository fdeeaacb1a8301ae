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

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/vended"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// deliverySourceHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) deliverySourceHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutDeliverySource, func(
			ctx context.Context, action string, in *cloudwatchlogs.PutDeliverySourceInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.sourceARN(ctx, in.Name))
			if err != nil {
				return nil, err
			}
			of, err := s.vendingTarget(ctx, aws.ToString(in.ResourceArn))
			return append(withTags(t, in.Tags), of), err
		}),
		wire.Handle(s.GetDeliverySource, func(
			ctx context.Context, action string, in *cloudwatchlogs.GetDeliverySourceInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.sourceARN(ctx, in.Name))
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DeleteDeliverySource, func(
			ctx context.Context, action string, in *cloudwatchlogs.DeleteDeliverySourceInput,
		) ([]wire.Target, error) {
			t, err := s.deliveryTarget(ctx, action, s.sourceARN(ctx, in.Name))
			return []wire.Target{t}, err
		}),
		wire.Handle(s.DescribeDeliverySources, wire.OnAll),
	}
}

func (s *Service) sourceARN(ctx context.Context, name *string) string {
	at := scopeOf(ctx)
	return record.LogDeliverySource{Account: at.account, Region: at.region, Name: aws.ToString(name)}.ARN()
}

// vendingTarget returns the permission for a resource to vend its logs, which the service of the resource defines.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-logs-infrastructure-V2-service-specific.html
func (s *Service) vendingTarget(ctx context.Context, arn string) (wire.Target, error) {
	service := "logs"
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) == 6 && parts[2] != "" {
		service = parts[2]
	}
	t := newTarget(service+":AllowVendedLogDeliveryForResource", arn)
	if len(parts) == 6 && parts[4] != scopeOf(ctx).account {
		t.Owner = parts[4]
		return t, nil
	}
	b, err := s.loadBalancer(ctx, arn)
	if errors.Is(err, store.ErrNotFound) {
		return t, nil // the operation says so, to those who may ask
	}
	for k, v := range b.Tags {
		t.Conditions["aws:ResourceTag/"+k] = []string{v}
		t.Conditions["elasticloadbalancing:ResourceTag/"+k] = []string{v}
	}
	return t, err
}

// loadBalancer returns the caller's load balancer that an ARN names, or store.ErrNotFound.
func (s *Service) loadBalancer(ctx context.Context, arn string) (record.LoadBalancer, error) {
	at := scopeOf(ctx)
	path, ok := strings.CutPrefix(arn, record.LoadBalancingARN(at.account, at.region, "loadbalancer/"))
	parts := strings.Split(path, "/")
	if !ok || len(parts) != 3 {
		return record.LoadBalancer{}, store.ErrNotFound
	}
	row, err := s.balancers.Get(ctx, record.LoadBalancerKey(at.account, at.region, record.NetworkLoadBalancer, parts[1]))
	if err == nil && row.Value.ARN() != arn {
		err = store.ErrNotFound
	}
	return row.Value, err
}

// PutDeliverySource creates a delivery source, or changes one.
func (s *Service) PutDeliverySource(ctx context.Context, in *cloudwatchlogs.PutDeliverySourceInput) (
	*cloudwatchlogs.PutDeliverySourceOutput, error) {
	at := scopeOf(ctx)
	want := record.LogDeliverySource{Account: at.account, Region: at.region, Name: aws.ToString(in.Name),
		LogType: aws.ToString(in.LogType), ResourceARN: aws.ToString(in.ResourceArn), Tags: in.Tags}
	if err := s.checkSource(ctx, in, want); err != nil {
		return nil, err
	}
	defer s.lockAccount(at)() // from counting to creation
	for {
		if err := s.checkOnlySource(ctx, want); err != nil {
			return nil, err
		}
		row, err := s.sources.Copy(ctx, want.Key())
		switch {
		case errors.Is(err, store.ErrNotFound):
			if err := checkDeliveryQuota(s.sources, at, "delivery sources"); err != nil {
				return nil, err
			}
			_, err = s.sources.Create(ctx, want.Key(), want)
		case err == nil:
			if err := s.checkSourceChange(row.Value, want); err != nil {
				return nil, err
			}
			want.Tags = row.Value.Tags
			row.Value = want
			_, err = s.sources.Update(ctx, row)
		}
		if isOutdated(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out, err := s.describeSource(ctx, want)
		return &cloudwatchlogs.PutDeliverySourceOutput{DeliverySource: out}, err
	}
}

// checkSource refuses a source that cannot be.
func (s *Service) checkSource(ctx context.Context, in *cloudwatchlogs.PutDeliverySourceInput,
	want record.LogDeliverySource) error {
	if err := checkTags(ctx, in.Tags); err != nil {
		return err
	}
	t, ok := vended.TypeNamed(want.LogType)
	if !ok {
		var names []string
		for _, t := range vended.Types() {
			names = append(names, t.Name)
		}
		return validation("The log type %s is not delivered by Coracle: those that are delivered are %s.", want.LogType,
			strings.Join(names, ", "))
	}
	at := scopeOf(ctx)
	if prefix := record.LoadBalancingARN(at.account, at.region, t.Resource); !strings.HasPrefix(want.ResourceARN, prefix) {
		return validation("The resource %s has no logs of the type %s: give the ARN of a load balancer of this account "+
			"and Region, which begins with %s.", want.ResourceARN, t.Name, prefix)
	}
	if len(in.DeliverySourceConfiguration) > 0 {
		return validation("Delivery sources of the log type %s have no configuration: leave out "+
			"deliverySourceConfiguration.", t.Name)
	}
	if _, err := s.loadBalancer(ctx, want.ResourceARN); errors.Is(err, store.ErrNotFound) {
		return notFound("The resource %s does not exist.", want.ResourceARN)
	} else if err != nil {
		return err
	}
	return nil
}

// checkOnlySource refuses a second source of a log.
func (s *Service) checkOnlySource(ctx context.Context, want record.LogDeliverySource) error {
	rows, err := s.sourcesByResource.List(ctx, want.ResourceARN)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Value.LogType == want.LogType && row.Key != want.Key() {
			return conflict("The resource %s has a delivery source for the log type %s, %s: use that one.",
				want.ResourceARN, want.LogType, row.Value.Name)
		}
	}
	return nil
}

// checkSourceChange refuses to change what deliveries deliver, and tags.
func (s *Service) checkSourceChange(before, after record.LogDeliverySource) error {
	if before.LogType != after.LogType || before.ResourceARN != after.ResourceARN {
		if n := s.deliveriesBySource.Count(before.Key()); n > 0 {
			return conflict("The delivery source %s has %d deliveries, and its log type and resource cannot be changed: "+
				"delete these first.", before.Name, n)
		}
	}
	return tagsOfExisting(after.Tags)
}

// withTags returns the permissions that a request with tags for a new resource about deliveries needs: also the one to
// tag it, as on AWS. target is that of the request itself.
func withTags(target wire.Target, tags map[string]string) []wire.Target {
	conditions(target.Conditions).requestTags(tags)
	if len(tags) == 0 {
		return []wire.Target{target}
	}
	tagging := target
	tagging.Action = "logs:TagResource"
	return []wire.Target{target, tagging}
}

// tagsOfExisting refuses tags in a request to change what exists, as AWS does: TagResource and UntagResource change
// them, with the permissions and conditions of these.
func tagsOfExisting(tags map[string]string) error {
	if len(tags) > 0 {
		return conflict("Tags can only be provided when a resource is being created, not updated. Use TagResource and " +
			"UntagResource.")
	}
	return nil
}

// describeSource returns a source as the API shows it. It is inactive once its load balancer has gone.
func (s *Service) describeSource(ctx context.Context, d record.LogDeliverySource) (*types.DeliverySource, error) {
	out := &types.DeliverySource{
		Arn: new(d.ARN()), Name: &d.Name, LogType: &d.LogType, ResourceArns: []string{d.ResourceARN},
		Service: aws.String(vended.Service), Tags: d.Tags, Status: types.DeliverySourceStatusActive,
	}
	switch _, err := s.loadBalancer(ctx, d.ResourceARN); {
	case errors.Is(err, store.ErrNotFound):
		out.Status, out.StatusReason = types.DeliverySourceStatusInactive, types.DeliverySourceStatusReasonResourceDeleted
	case err != nil:
		return nil, err
	}
	return out, nil
}

func sourceNotFound(name string) error {
	return notFound("The delivery source %s does not exist.", name)
}

// getSource returns the caller's delivery source of that name, or a ResourceNotFoundException.
func (s *Service) getSource(ctx context.Context, name string) (store.Row[record.LogDeliverySource], error) {
	at := scopeOf(ctx)
	row, err := s.sources.Copy(ctx, record.LogDeliveryKey(at.account, at.region, name))
	if errors.Is(err, store.ErrNotFound) {
		return row, sourceNotFound(name)
	}
	return row, err
}

// GetDeliverySource describes a delivery source.
func (s *Service) GetDeliverySource(ctx context.Context, in *cloudwatchlogs.GetDeliverySourceInput) (
	*cloudwatchlogs.GetDeliverySourceOutput, error) {
	row, err := s.getSource(ctx, aws.ToString(in.Name))
	if err != nil {
		return nil, err
	}
	out, err := s.describeSource(ctx, row.Value)
	return &cloudwatchlogs.GetDeliverySourceOutput{DeliverySource: out}, err
}

// DescribeDeliverySources lists delivery sources, by name.
func (s *Service) DescribeDeliverySources(ctx context.Context, in *cloudwatchlogs.DescribeDeliverySourcesInput) (
	*cloudwatchlogs.DescribeDeliverySourcesOutput, error) {
	all, err := listByName(ctx, s.sources, scopeOf(ctx).prefix(), "",
		func(d record.LogDeliverySource) string { return d.Name })
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(d record.LogDeliverySource) bool {
		return len(in.ResourceArns) > 0 && !slices.Contains(in.ResourceArns, d.ResourceARN)
	})
	page, next, err := wire.Page(ctx, all, in.Limit, in.NextToken,
		func(d record.LogDeliverySource) string { return d.Name })
	if err != nil {
		return nil, err
	}
	out := &cloudwatchlogs.DescribeDeliverySourcesOutput{DeliverySources: []types.DeliverySource{}, NextToken: next}
	for _, d := range page {
		one, err := s.describeSource(ctx, d)
		if err != nil {
			return nil, err
		}
		out.DeliverySources = append(out.DeliverySources, *one)
	}
	return out, nil
}

// DeleteDeliverySource deletes a delivery source that has no delivery.
func (s *Service) DeleteDeliverySource(ctx context.Context, in *cloudwatchlogs.DeleteDeliverySourceInput) (
	*cloudwatchlogs.DeleteDeliverySourceOutput, error) {
	for {
		row, err := s.getSource(ctx, aws.ToString(in.Name))
		if err != nil {
			return nil, err
		}
		if n := s.deliveriesBySource.Count(row.Key); n > 0 {
			return nil, conflict("The delivery source %s has %d deliveries: delete these first.", row.Value.Name, n)
		}
		switch err := s.sources.Delete(ctx, row); {
		case errors.Is(err, store.ErrConflict):
			continue // it may have a delivery now
		case errors.Is(err, store.ErrNotFound):
			return nil, sourceNotFound(row.Value.Name)
		case err != nil:
			return nil, err
		}
		return &cloudwatchlogs.DeleteDeliverySourceOutput{}, nil
	}
}

// deliveryQuota is the number of delivery sources, of delivery destinations and of deliveries that an account may have
// in a Region.
const deliveryQuota = 1000

// checkDeliveryQuota refuses one more of what a table has.
func checkDeliveryQuota[T any](table store.Table[T], at scope, what string) error {
	if n := table.Count(at.prefix()); n >= deliveryQuota {
		return &types.ServiceQuotaExceededException{Message: new(fmt.Sprintf(
			"The account has %d %s in this Region, which is the quota: delete some first.", n, what))}
	}
	return nil
}

func (sc scope) prefix() string { return store.Prefix(sc.account, sc.region) }

func conflict(format string, args ...any) error {
	return &types.ConflictException{Message: new(fmt.Sprintf(format, args...))}
}
