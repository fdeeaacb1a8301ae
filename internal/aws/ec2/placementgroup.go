package ec2

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func (s *Service) placementGroupKind() kind[record.PlacementGroup, types.PlacementGroup] {
	type v = types.PlacementGroup
	return kind[record.PlacementGroup, v]{
		naming: naming{
			resource: types.ResourceTypePlacementGroup, prefix: "pg-", noun: "placement group ID", param: "groupId",
			notFound: "InvalidPlacementGroupId.NotFound", malformed: "InvalidPlacementGroupId.Malformed",
		},
		table: record.PlacementGroups(s.store),
		view: func(in scope, r record.PlacementGroup) v {
			view := v{
				GroupArn: aws.String(in.arn(types.ResourceTypePlacementGroup, r.Name)), GroupId: aws.String(r.ID),
				GroupName:   aws.String(r.Name),
				SpreadLevel: r.SpreadLevel, State: types.PlacementGroupStateAvailable, Strategy: r.Strategy,
				Tags: s.listTagSet(in, r.ID),
			}
			if r.Partitions > 0 {
				view.PartitionCount = aws.Int32(r.Partitions)
			}
			return view
		},
		tagged: func(x v) []types.Tag { return x.Tags },
		filters: filters[v]{
			"group-arn":    stringFilter(func(x v) *string { return x.GroupArn }),
			"group-name":   stringFilter(func(x v) *string { return x.GroupName }),
			"spread-level": enumFilter(func(x v) types.SpreadLevel { return x.SpreadLevel }),
			"state":        enumFilter(func(x v) types.PlacementGroupState { return x.State }),
			"strategy":     enumFilter(func(x v) types.PlacementStrategy { return x.Strategy }),
		},
	}
}

// placementGroupNamed is the placement group of that name.
func (s *Service) placementGroupNamed(in scope, name string) (record.PlacementGroup, error) {
	row, err := s.placementNames.Get(in, store.Key(in.account, in.region, name))
	if errors.Is(err, store.ErrNotFound) {
		return record.PlacementGroup{}, wire.Errorf("InvalidPlacementGroup.Unknown",
			"The Placement Group '%s' is unknown.", name)
	}
	if err != nil {
		return record.PlacementGroup{}, err
	}
	return s.placementGroups.getRecord(in, &row.Value.PlacementGroupID)
}

// placementGroupHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) placementGroupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreatePlacementGroup, creating[ec2.CreatePlacementGroupInput](s,
			types.ResourceTypePlacementGroup)),
		wire.Handle(s.DescribePlacementGroups, onRegion),
		wire.Handle(s.DeletePlacementGroup, touching[ec2.DeletePlacementGroupInput](s)),
	}
}

// CreatePlacementGroup makes a placement group. All machines stand on one host, so it places nothing.
func (s *Service) CreatePlacementGroup(ctx context.Context, in *ec2.CreatePlacementGroupInput) (
	*ec2.CreatePlacementGroupOutput, error) {
	out, err := createResource(ctx, s, s.placementGroups, creation{dryRun: in.DryRun, tags: in.TagSpecifications},
		func(c *change, id string) error {
			name := aws.ToString(in.GroupName)
			r := record.PlacementGroup{EC2Resource: c.identity(id, nil), Name: name, Strategy: in.Strategy,
				Partitions: aws.ToInt32(in.PartitionCount), SpreadLevel: in.SpreadLevel}
			if r.Strategy == "" {
				r.Strategy = types.PlacementStrategyCluster
			}
			switch {
			case name == "":
				return missing("groupName")
			case len(name) > 255:
				return invalidValue(name, "groupName", "Names are up to 255 characters long.")
			case in.LinkedGroupId != nil || in.Operator != nil:
				return unsupported("LinkedGroupId")
			case in.ParentGroupId != nil:
				return unsupported("ParentGroupId")
			}
			if err := validateEnum(r.Strategy, "strategy"); err != nil {
				return err
			}
			switch r.Strategy {
			case types.PlacementStrategyPartition:
				if in.PartitionCount == nil {
					r.Partitions = 2
				}
				if r.Partitions < 1 || r.Partitions > 7 {
					return invalidValue(r.Partitions, "partitionCount", "Expecting a value between 1 and 7.")
				}
			case types.PlacementStrategySpread:
				if r.SpreadLevel == "" {
					r.SpreadLevel = types.SpreadLevelRack
				}
			}
			if r.Strategy != types.PlacementStrategyPartition && in.PartitionCount != nil {
				return wire.Errorf("InvalidParameterCombination",
					"The parameter PartitionCount is valid for the strategy 'partition' only.")
			}
			if r.Strategy != types.PlacementStrategySpread && in.SpreadLevel != "" {
				return wire.Errorf("InvalidParameterCombination",
					"The parameter SpreadLevel is valid for the strategy 'spread' only.")
			}
			if err := validateEnum(r.SpreadLevel, "spreadLevel"); err != nil {
				return err
			}
			claim := store.Key(c.account, c.region, name)
			if _, err := s.placementNames.Get(c, claim); err == nil {
				return wire.Errorf("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", name)
			} else if !errors.Is(err, store.ErrNotFound) {
				return err
			}
			c.add("placementname/"+name, &pending{op: func() store.Op {
				return s.placementNames.CreateOp(claim, record.PlacementGroupName{PlacementGroupID: id})
			}})
			s.placementGroups.createRecord(c, r)
			return nil
		})
	return &ec2.CreatePlacementGroupOutput{PlacementGroup: out}, err
}

// DescribePlacementGroups lists placement groups.
func (s *Service) DescribePlacementGroups(ctx context.Context, in *ec2.DescribePlacementGroupsInput) (
	*ec2.DescribePlacementGroupsOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.GroupIds)
	for _, name := range in.GroupNames {
		group, err := s.placementGroupNamed(sc, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, group.ID)
	}
	found, _, err := describe(ctx, s, s.placementGroups, query{DryRun: in.DryRun, IDs: ids, Filters: in.Filters})
	if found == nil {
		found = []types.PlacementGroup{}
	}
	return &ec2.DescribePlacementGroupsOutput{PlacementGroups: found}, err
}

// DeletePlacementGroup deletes a placement group without instances.
func (s *Service) DeletePlacementGroup(ctx context.Context, in *ec2.DeletePlacementGroupInput) (
	*ec2.DeletePlacementGroupOutput, error) {
	return &ec2.DeletePlacementGroupOutput{}, s.applyChange(ctx, in.DryRun, func(c *change) error {
		if aws.ToString(in.GroupName) == "" {
			return missing("groupName")
		}
		group, err := s.placementGroupNamed(c.scope, *in.GroupName)
		if err != nil {
			return err
		}
		if _, err := s.placementGroups.deleteRecord(c, group.ID); err != nil {
			return err
		}
		if used, err := s.instances.hasMatch(c.scope, func(r record.Instance) bool {
			return r.PlacementGroup == group.Name && s.stateOf(c.scope, r) != types.InstanceStateNameTerminated
		}); err != nil {
			return err
		} else if used {
			return wire.Errorf("InvalidPlacementGroup.InUse",
				"The placement group '%s' is in use and may not be deleted.", group.Name)
		}
		c.add("placementname/"+group.Name,
			&pending{op: func() store.Op {
				return s.placementNames.RemoveOp(store.Key(c.account, c.region,
					group.Name))
			}})
		return nil
	})
}
