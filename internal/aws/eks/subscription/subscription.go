// Package subscription serves the operations of the EKS API on EKS Anywhere subscriptions.
//
// A subscription is a record ([record.AnywhereSubscription]) that follows its term: what the API shows is computed from
// it and the time. It has no licenses, because there is no AWS License Manager here that could hold them.
//
// https://docs.aws.amazon.com/eks/latest/APIReference/API_EksAnywhereSubscription.html
package subscription

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// mostLicenses is the largest licenseQuantity.
	mostLicenses = 100
	// pageSize is the number of subscriptions in an answer to a request that says nothing of it.
	pageSize = 10
)

// terms are the durations that a subscription may have, in months.
var terms = []int32{12, 36}

// Service serves the operations on EKS Anywhere subscriptions.
type Service struct{ *resource.Records }

// New returns the service over the records.
func New(records *resource.Records) *Service { return &Service{records} }

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) { mux.Register(wire.EKS, s.handlers()...) }

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateEksAnywhereSubscription, createTargets),
		wire.Handle(s.DescribeEksAnywhereSubscription, func(
			ctx context.Context, action string, in *eks.DescribeEksAnywhereSubscriptionInput,
		) ([]wire.Target, error) {
			return s.OnSubscription(ctx, action, in.Id)
		}),
		wire.Handle(s.ListEksAnywhereSubscriptions, wire.OnAll),
		wire.Handle(s.UpdateEksAnywhereSubscription, func(
			ctx context.Context, action string, in *eks.UpdateEksAnywhereSubscriptionInput,
		) ([]wire.Target, error) {
			return s.OnSubscription(ctx, action, in.Id)
		}),
		wire.Handle(s.DeleteEksAnywhereSubscription, func(
			ctx context.Context, action string, in *eks.DeleteEksAnywhereSubscriptionInput,
		) ([]wire.Target, error) {
			return s.OnSubscription(ctx, action, in.Id)
		}),
	}
}

// createTargets returns any subscription as the target: the ID of a new one is not known.
func createTargets(
	ctx context.Context, action string, in *eks.CreateEksAnywhereSubscriptionInput,
) ([]wire.Target, error) {
	t := resource.NewTarget(action, "*")
	resource.Conditions(t.Conditions).RequestTags(in.Tags)
	at := resource.ScopeOf(ctx)
	all := record.AnywhereSubscription{Account: at.Account, Region: at.Region, ID: "*"}
	return resource.WithTagging([]wire.Target{t}, all.ARN(), in.Tags), nil
}

// check validates a request for a new subscription. Wire has checked its name and tags against the model.
func check(ctx context.Context, in *eks.CreateEksAnywhereSubscriptionInput) error {
	var about exception.About
	name := aws.ToString(in.Name)
	switch {
	case !namePattern.MatchString(name):
		return about.InvalidParameter("The subscription name %s is invalid: it can contain only alphanumeric characters, "+
			"hyphens and underscores, and must start with an alphabetic character", name)
	case in.Term.Unit != types.EksAnywhereSubscriptionTermUnitMonths:
		return about.InvalidParameter("term.unit is invalid: it must be MONTHS")
	case !slices.Contains(terms, in.Term.Duration):
		return about.InvalidParameter("term.duration %d is invalid: it must be 12 or 36", in.Term.Duration)
	case in.LicenseQuantity < 1 || in.LicenseQuantity > mostLicenses:
		return about.InvalidParameter(
			"licenseQuantity %d is invalid: it must be between 1 and %d", in.LicenseQuantity, mostLicenses,
		)
	case in.LicenseType != types.EksAnywhereSubscriptionLicenseTypeCluster:
		return about.InvalidParameter("licenseType is invalid: it must be Cluster")
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return about.InvalidParameter("%s", fault)
	}
	return nil
}

// namePattern matches the names that the API reference allows. Their length is in the model.
var namePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// CreateEksAnywhereSubscription records a subscription, which is ACTIVE at once.
func (s *Service) CreateEksAnywhereSubscription(
	ctx context.Context, in *eks.CreateEksAnywhereSubscriptionInput,
) (*eks.CreateEksAnywhereSubscriptionOutput, error) {
	if err := check(ctx, in); err != nil {
		return nil, err
	}
	at, now, hash := resource.ScopeOf(ctx), s.Timestamp(), wire.Fingerprint(in)
	v := record.AnywhereSubscription{
		Account: at.Account, Region: at.Region, ID: uuid.NewString(), Name: aws.ToString(in.Name), CreatedAt: now,
		ExpiresAt: now.AddDate(0, int(in.Term.Duration), 0), TermMonths: in.Term.Duration, AutoRenew: in.AutoRenew,
		LicenseQuantity: in.LicenseQuantity, LicenseType: in.LicenseType, Tags: in.Tags,
		ClientRequestToken: aws.ToString(in.ClientRequestToken), RequestHash: hash,
	}
	_, err := s.Subscriptions.Create(ctx, v.Key(), v)
	if !errors.Is(err, store.ErrExists) {
		return &eks.CreateEksAnywhereSubscriptionOutput{Subscription: s.describe(v)}, err
	}
	other, err := s.Subscriptions.Get(ctx, v.Key())
	if err != nil {
		return nil, err
	}
	same, err := wire.Repeated(ctx, in.ClientRequestToken, hash, other.Value.ClientRequestToken, other.Value.RequestHash)
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, exception.About{Subscription: other.Value.ID}.InvalidParameter(
			"Subscription already exists with name: %s", v.Name,
		)
	}
	return &eks.CreateEksAnywhereSubscriptionOutput{Subscription: s.describe(other.Value)}, nil
}

// describe returns the subscription as the API shows it.
func (s *Service) describe(v record.AnywhereSubscription) *types.EksAnywhereSubscription {
	now := s.Now()
	out := &types.EksAnywhereSubscription{
		Id: new(v.ID), Arn: new(v.ARN()), CreatedAt: new(v.CreatedAt), EffectiveDate: new(v.CreatedAt),
		ExpirationDate: new(v.Expiration(now)), LicenseQuantity: v.LicenseQuantity, LicenseType: v.LicenseType,
		Term: &types.EksAnywhereSubscriptionTerm{
			Duration: v.TermMonths, Unit: types.EksAnywhereSubscriptionTermUnitMonths,
		},
		Status: new(string(v.Status(now))), AutoRenew: v.AutoRenew, LicenseArns: []string{}, Licenses: []types.License{},
		Tags: v.Tags,
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out
}

// DescribeEksAnywhereSubscription describes a subscription.
func (s *Service) DescribeEksAnywhereSubscription(
	ctx context.Context, in *eks.DescribeEksAnywhereSubscriptionInput,
) (*eks.DescribeEksAnywhereSubscriptionOutput, error) {
	row, err := s.Subscription(ctx, aws.ToString(in.Id))
	if err != nil {
		return nil, err
	}
	return &eks.DescribeEksAnywhereSubscriptionOutput{Subscription: s.describe(row.Value)}, nil
}

// ListEksAnywhereSubscriptions lists the subscriptions of the caller's account and region.
func (s *Service) ListEksAnywhereSubscriptions(
	ctx context.Context, in *eks.ListEksAnywhereSubscriptionsInput,
) (*eks.ListEksAnywhereSubscriptionsOutput, error) {
	at := resource.ScopeOf(ctx)
	rows, err := s.Subscriptions.List(ctx, store.Prefix(at.Account, at.Region))
	if err != nil {
		return nil, err
	}
	all := []types.EksAnywhereSubscription{}
	for _, row := range rows {
		shown := s.describe(row.Value)
		status := types.EksAnywhereSubscriptionStatus(aws.ToString(shown.Status))
		if len(in.IncludeStatus) == 0 || slices.Contains(in.IncludeStatus, status) {
			all = append(all, *shown)
		}
	}
	slices.SortFunc(all, func(a, b types.EksAnywhereSubscription) int { return strings.Compare(*a.Id, *b.Id) })
	most := in.MaxResults
	if most == nil {
		most = aws.Int32(pageSize)
	}
	page, next, err := wire.Page(
		ctx, all, most, in.NextToken, func(v types.EksAnywhereSubscription) string { return *v.Id },
	)
	if err != nil {
		return nil, err
	}
	return &eks.ListEksAnywhereSubscriptionsOutput{Subscriptions: page, NextToken: next}, nil
}

// UpdateEksAnywhereSubscription sets whether a subscription renews itself at the end of its term.
func (s *Service) UpdateEksAnywhereSubscription(
	ctx context.Context, in *eks.UpdateEksAnywhereSubscriptionInput,
) (*eks.UpdateEksAnywhereSubscriptionOutput, error) {
	for {
		row, err := s.Subscription(ctx, aws.ToString(in.Id))
		if err != nil {
			return nil, err
		}
		v, now := &row.Value, s.Now()
		if v.Status(now) == types.EksAnywhereSubscriptionStatusExpired {
			return nil, exception.About{Subscription: v.ID}.InvalidRequest(
				"Subscription %s is in EXPIRED status and can't be updated", v.ID,
			)
		}
		v.ExpiresAt, v.AutoRenew = v.Expiration(now), in.AutoRenew
		if row, err = s.Subscriptions.Update(ctx, row); resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.UpdateEksAnywhereSubscriptionOutput{Subscription: s.describe(row.Value)}, nil
	}
}

// DeleteEksAnywhereSubscription removes the record of an expired subscription. An active one is a contract.
func (s *Service) DeleteEksAnywhereSubscription(
	ctx context.Context, in *eks.DeleteEksAnywhereSubscriptionInput,
) (*eks.DeleteEksAnywhereSubscriptionOutput, error) {
	for {
		row, err := s.Subscription(ctx, aws.ToString(in.Id))
		if err != nil {
			return nil, err
		}
		if now := row.Value.Status(s.Now()); now != types.EksAnywhereSubscriptionStatusExpired {
			return nil, exception.About{Subscription: row.Value.ID}.InvalidRequest(
				"Subscription %s is in %s status and can't be deleted: only expired subscriptions can be deleted. "+
					"Create a support case to cancel a subscription within 7 days of its creation.", row.Value.ID, now,
			)
		}
		if err := s.Subscriptions.Delete(ctx, row); resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		shown := s.describe(row.Value)
		shown.Status = new(string(types.EksAnywhereSubscriptionStatusDeleting))
		return &eks.DeleteEksAnywhereSubscriptionOutput{Subscription: shown}, nil
	}
}
