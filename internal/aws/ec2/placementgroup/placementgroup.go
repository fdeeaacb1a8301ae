package placementgroup

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func (s *Service) newPlacementGroupView() resource.View[record.PlacementGroup, types.PlacementGroup] {
	type v = types.PlacementGroup
	return resource.View[record.PlacementGroup, v]{
		Kind: s.PlacementGroups,
		Show: func(sc resource.Scope, r record.PlacementGroup) v {
			view := v{
				GroupArn: aws.String(sc.ARN(types.ResourceTypePlacementGroup, r.Name)), GroupId: aws.String(r.ID),
				GroupName:   aws.String(r.Name),
				SpreadLevel: r.SpreadLevel, State: types.PlacementGroupStateAvailable, Strategy: r.Strategy,
				Tags: s.ListTagSet(sc, r.ID),
			}
			if r.Partitions > 0 {
				view.PartitionCount = aws.Int32(r.Partitions)
			}
			return view
		},
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"group-arn":    resource.StringFilter(func(x v) *string { return x.GroupArn }),
			"group-name":   resource.StringFilter(func(x v) *string { return x.GroupName }),
			"spread-level": resource.EnumFilter(func(x v) types.SpreadLevel { return x.SpreadLevel }),
			"state":        resource.EnumFilter(func(x v) types.PlacementGroupState { return x.State }),
			"strategy":     resource.EnumFilter(func(x v) types.PlacementStrategy { return x.Strategy }),
		},
	}
}

// placementGroupHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) placementGroupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreatePlacementGroup, resource.Creating[ec2.CreatePlacementGroupInput](s.Records,
			types.ResourceTypePlacementGroup)),
		wire.Handle(s.DescribePlacementGroups, resource.OnRegion),
		wire.Handle(s.DeletePlacementGroup, resource.Touching[ec2.DeletePlacementGroupInput](s.Records)),
	}
}

// CreatePlacementGroup makes a placement group. All machines stand on one host, so it places nothing.
func (s *Service) CreatePlacementGroup(ctx context.Context, in *ec2.CreatePlacementGroupInput) (
	*ec2.CreatePlacementGroupOutput, error) {
	out, err := s.placementGroupView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			name := aws.ToString(in.GroupName)
			r := record.PlacementGroup{EC2Resource: c.NewResource(id, nil), Name: name, Strategy: in.Strategy,
				Partitions: aws.ToInt32(in.PartitionCount), SpreadLevel: in.SpreadLevel}
			if r.Strategy == "" {
				r.Strategy = types.PlacementStrategyCluster
			}
			switch {
			case name == "":
				return resource.MissingParameter("groupName")
			case len(name) > 255:
				return resource.InvalidValue(name, "groupName", "Names are up to 255 characters long.")
			case in.LinkedGroupId != nil || in.Operator != nil:
				return resource.Unsupported("LinkedGroupId")
			case in.ParentGroupId != nil:
				return resource.Unsupported("ParentGroupId")
			}
			if err := resource.CheckEnum(r.Strategy, "strategy"); err != nil {
				return err
			}
			switch r.Strategy {
			case types.PlacementStrategyPartition:
				if in.PartitionCount == nil {
					r.Partitions = 2
				}
				if r.Partitions < 1 || r.Partitions > 7 {
					return resource.InvalidValue(r.Partitions, "partitionCount", "Expecting a value between 1 and 7.")
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
			if err := resource.CheckEnum(r.SpreadLevel, "spreadLevel"); err != nil {
				return err
			}
			claim := store.Key(c.Account, c.Region, name)
			if _, err := s.PlacementGroupNames.Get(c, claim); err == nil {
				return wire.Errorf("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", name)
			} else if !errors.Is(err, store.ErrNotFound) {
				return err
			}
			c.Add("placementname/"+name, func() store.Op {
				return s.PlacementGroupNames.CreateOp(claim, record.PlacementGroupName{PlacementGroupID: id})
			})
			s.PlacementGroups.CreateRecord(c, r)
			return nil
		})
	return &ec2.CreatePlacementGroupOutput{PlacementGroup: out}, err
}

// DescribePlacementGroups lists placement groups.
func (s *Service) DescribePlacementGroups(ctx context.Context, in *ec2.DescribePlacementGroupsInput) (
	*ec2.DescribePlacementGroupsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.GroupIds)
	for _, name := range in.GroupNames {
		group, err := s.PlacementGroupNamed(sc, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, group.ID)
	}
	found, _, err := s.placementGroupView.Describe(ctx, resource.Query{Operation: "DescribePlacementGroups",
		DryRun: in.DryRun, IDs: ids, Filters: in.Filters})
	if found == nil {
		found = []types.PlacementGroup{}
	}
	return &ec2.DescribePlacementGroupsOutput{PlacementGroups: found}, err
}

// DeletePlacementGroup deletes a placement group without instances.
func (s *Service) DeletePlacementGroup(ctx context.Context, in *ec2.DeletePlacementGroupInput) (
	*ec2.DeletePlacementGroupOutput, error) {
	return &ec2.DeletePlacementGroupOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		if aws.ToString(in.GroupName) == "" {
			return resource.MissingParameter("groupName")
		}
		group, err := s.PlacementGroupNamed(c.Scope, *in.GroupName)
		if err != nil {
			return err
		}
		if _, err := s.PlacementGroups.DeleteRecord(c, group.ID); err != nil {
			return err
		}
		if used, err := s.Instances.HasMatch(c.Scope, func(r record.Instance) bool {
			return r.PlacementGroup == group.Name && s.InstanceState(c.Scope, r) != types.InstanceStateNameTerminated
		}); err != nil {
			return err
		} else if used {
			return wire.Errorf("InvalidPlacementGroup.InUse",
				"The placement group '%s' is in use and may not be deleted.", group.Name)
		}
		c.Add("placementname/"+group.Name,
			func() store.Op {
				return s.PlacementGroupNames.RemoveOp(store.Key(c.Account, c.Region,
					group.Name))
			})
		return nil
	})
}
