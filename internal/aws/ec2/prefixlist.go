package ec2

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// awsPrefixList is a prefix list that AWS manages: the addresses of a service which has a gateway endpoint.
type awsPrefixList struct {
	id, name, cidr string
}

var prefixListNames = naming{
	resource: types.ResourceTypePrefixList, prefix: "pl-", noun: "prefix list ID", param: "prefixListId",
	notFound: "InvalidPrefixListID.NotFound", malformed: "InvalidPrefixListId.Malformed",
}

// prefixLists are those of the scope's region, by id. The blocks lie in the range for benchmarks, beside our public
// addresses: the real ones are elsewhere in every region and change.
func (in scope) prefixLists() []awsPrefixList {
	var lists []awsPrefixList
	for service, cidr := range map[string]string{"s3": "198.19.1.0/24", "dynamodb": "198.19.2.0/24"} {
		name := "com.amazonaws." + in.region + "." + service
		digest := fnv.New32a()
		digest.Write([]byte(name))
		lists = append(lists, awsPrefixList{fmt.Sprintf("pl-%08x", digest.Sum32()), name, cidr})
	}
	slices.SortFunc(lists, func(a, b awsPrefixList) int { return strings.Compare(a.id, b.id) })
	return lists
}

// prefixList is the list with that id.
func (in scope) prefixList(id string) (awsPrefixList, error) {
	if err := prefixListNames.validate(id); err != nil {
		return awsPrefixList{}, err
	}
	lists := in.prefixLists()
	i := slices.IndexFunc(lists, func(l awsPrefixList) bool { return l.id == id })
	if i < 0 {
		return awsPrefixList{}, prefixListNames.missing(id)
	}
	return lists[i], nil
}

// prefixListItems are the lists with the given ids, or all, as view shows them.
func prefixListItems[V any](in scope, ids []string, view func(awsPrefixList) V) ([]item[V], error) {
	for _, id := range ids {
		if _, err := in.prefixList(id); err != nil {
			return nil, err
		}
	}
	var items []item[V]
	for _, l := range in.prefixLists() {
		if len(ids) == 0 || slices.Contains(ids, l.id) {
			items = append(items, item[V]{l.id, view(l)})
		}
	}
	return items, nil
}

// prefixListHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) prefixListHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribePrefixLists, onRegion),
		wire.Handle(s.DescribeManagedPrefixLists, onRegion),
		wire.Handle(s.GetManagedPrefixListEntries, onRegion),
	}
}

// DescribePrefixLists lists the prefix lists of AWS services.
func (s *Service) DescribePrefixLists(ctx context.Context, in *ec2.DescribePrefixListsInput) (
	*ec2.DescribePrefixListsOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	items, err := prefixListItems(sc, in.PrefixListIds, func(l awsPrefixList) types.PrefixList {
		return types.PrefixList{PrefixListId: aws.String(l.id), PrefixListName: aws.String(l.name),
			Cidrs: []string{l.cidr}}
	})
	if err != nil {
		return nil, err
	}
	found, next, err := describeItems(ctx, query{in.DryRun, in.PrefixListIds, in.Filters, in.MaxResults, in.NextToken},
		"prefixListIds", items, filters[types.PrefixList]{
			"prefix-list-id":   stringFilter(func(l types.PrefixList) *string { return l.PrefixListId }),
			"prefix-list-name": stringFilter(func(l types.PrefixList) *string { return l.PrefixListName }),
		}, nil)
	return &ec2.DescribePrefixListsOutput{PrefixLists: found, NextToken: next}, err
}

// DescribeManagedPrefixLists lists prefix lists: those of AWS services, as coracle has no others.
func (s *Service) DescribeManagedPrefixLists(ctx context.Context, in *ec2.DescribeManagedPrefixListsInput) (
	*ec2.DescribeManagedPrefixListsOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	items, err := prefixListItems(sc, in.PrefixListIds, func(l awsPrefixList) types.ManagedPrefixList {
		return types.ManagedPrefixList{
			AddressFamily: aws.String("IPv4"), OwnerId: aws.String("AWS"), PrefixListId: aws.String(l.id),
			PrefixListName: aws.String(l.name),
			PrefixListArn:  aws.String("arn:aws:ec2:" + sc.region + ":aws:prefix-list/" + l.id),
			State:          types.PrefixListStateCreateComplete, Tags: []types.Tag{},
		}
	})
	if err != nil {
		return nil, err
	}
	found, next, err := describeItems(ctx, query{in.DryRun, in.PrefixListIds, in.Filters, in.MaxResults, in.NextToken},
		"prefixListIds", items, filters[types.ManagedPrefixList]{
			"owner-id":         stringFilter(func(l types.ManagedPrefixList) *string { return l.OwnerId }),
			"prefix-list-id":   stringFilter(func(l types.ManagedPrefixList) *string { return l.PrefixListId }),
			"prefix-list-name": stringFilter(func(l types.ManagedPrefixList) *string { return l.PrefixListName }),
		}, func(l types.ManagedPrefixList) []types.Tag { return l.Tags })
	return &ec2.DescribeManagedPrefixListsOutput{PrefixLists: found, NextToken: next}, err
}

// GetManagedPrefixListEntries lists the blocks of a prefix list.
func (s *Service) GetManagedPrefixListEntries(ctx context.Context, in *ec2.GetManagedPrefixListEntriesInput) (
	*ec2.GetManagedPrefixListEntriesOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	list, err := sc.prefixList(aws.ToString(in.PrefixListId))
	if err != nil {
		return nil, err
	}
	if in.TargetVersion != nil {
		return nil, wire.Errorf("InvalidParameterValue", "The prefix list '%s' is managed by AWS and has no versions.",
			list.id)
	}
	items := []item[types.PrefixListEntry]{{list.cidr, types.PrefixListEntry{Cidr: aws.String(list.cidr)}}}
	found, next, err := describeItems(ctx, query{DryRun: in.DryRun, Max: in.MaxResults, Token: in.NextToken}, "", items,
		nil, nil)
	return &ec2.GetManagedPrefixListEntriesOutput{Entries: found, NextToken: next}, err
}
