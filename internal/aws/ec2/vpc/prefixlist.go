package vpc

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// prefixListItems returns the lists with the given IDs, or all, as view shows them.
func prefixListItems[V any](
	sc resource.Scope, ids []string, view func(resource.PrefixList) V,
) ([]resource.Item[V], error) {
	for _, id := range ids {
		if _, err := sc.PrefixList(id); err != nil {
			return nil, err
		}
	}
	var items []resource.Item[V]
	for _, l := range sc.PrefixLists() {
		if len(ids) == 0 || slices.Contains(ids, l.ID) {
			items = append(items, resource.Item[V]{ID: l.ID, View: view(l)})
		}
	}
	return items, nil
}

// prefixListHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) prefixListHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribePrefixLists, resource.OnRegion),
		wire.Handle(s.DescribeManagedPrefixLists, resource.OnRegion),
		wire.Handle(s.GetManagedPrefixListEntries, resource.OnRegion),
	}
}

// DescribePrefixLists lists the prefix lists of AWS services.
func (s *Service) DescribePrefixLists(ctx context.Context, in *ec2.DescribePrefixListsInput) (
	*ec2.DescribePrefixListsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribePrefixLists", DryRun: in.DryRun, IDs: in.PrefixListIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	items, err := prefixListItems(sc, in.PrefixListIds, func(l resource.PrefixList) types.PrefixList {
		return types.PrefixList{PrefixListId: aws.String(l.ID), PrefixListName: aws.String(l.Name),
			Cidrs: []string{l.CIDR}}
	})
	if err != nil {
		return nil, err
	}
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		items,
		resource.Filters[types.PrefixList]{
			"prefix-list-id":   resource.StringFilter(func(l types.PrefixList) *string { return l.PrefixListId }),
			"prefix-list-name": resource.StringFilter(func(l types.PrefixList) *string { return l.PrefixListName }),
		},
		nil,
	)
	return &ec2.DescribePrefixListsOutput{PrefixLists: found, NextToken: next}, err
}

// DescribeManagedPrefixLists lists prefix lists: those of AWS services, as coracle has no others.
func (s *Service) DescribeManagedPrefixLists(ctx context.Context, in *ec2.DescribeManagedPrefixListsInput) (
	*ec2.DescribeManagedPrefixListsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeManagedPrefixLists", DryRun: in.DryRun, IDs: in.PrefixListIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	items, err := prefixListItems(sc, in.PrefixListIds, func(l resource.PrefixList) types.ManagedPrefixList {
		return types.ManagedPrefixList{
			AddressFamily: aws.String("IPv4"), OwnerId: aws.String("AWS"), PrefixListId: aws.String(l.ID),
			PrefixListName: aws.String(l.Name),
			PrefixListArn:  aws.String("arn:aws:ec2:" + sc.Region + ":aws:prefix-list/" + l.ID),
			State:          types.PrefixListStateCreateComplete, Tags: []types.Tag{},
		}
	})
	if err != nil {
		return nil, err
	}
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		items,
		resource.Filters[types.ManagedPrefixList]{
			"owner-id":         resource.StringFilter(func(l types.ManagedPrefixList) *string { return l.OwnerId }),
			"prefix-list-id":   resource.StringFilter(func(l types.ManagedPrefixList) *string { return l.PrefixListId }),
			"prefix-list-name": resource.StringFilter(func(l types.ManagedPrefixList) *string { return l.PrefixListName }),
		},
		func(l types.ManagedPrefixList) []types.Tag { return l.Tags },
	)
	return &ec2.DescribeManagedPrefixListsOutput{PrefixLists: found, NextToken: next}, err
}

// GetManagedPrefixListEntries lists the blocks of a prefix list.
func (s *Service) GetManagedPrefixListEntries(ctx context.Context, in *ec2.GetManagedPrefixListEntriesInput) (
	*ec2.GetManagedPrefixListEntriesOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "GetManagedPrefixListEntries", DryRun: in.DryRun, Max: in.MaxResults,
		Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	list, err := sc.PrefixList(aws.ToString(in.PrefixListId))
	if err != nil {
		return nil, err
	}
	if in.TargetVersion != nil {
		return nil, wire.Errorf("InvalidParameterValue", "The prefix list '%s' is managed by AWS and has no versions.",
			list.ID)
	}
	items := []resource.Item[types.PrefixListEntry]{
		{ID: list.CIDR, View: types.PrefixListEntry{Cidr: aws.String(list.CIDR)}},
	}
	found, next, err := resource.DescribeItems(ctx, query, items, nil, nil)
	return &ec2.GetManagedPrefixListEntriesOutput{Entries: found, NextToken: next}, err
}
