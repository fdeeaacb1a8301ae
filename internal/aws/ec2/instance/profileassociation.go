package instance

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// profileAsked returns the instance profile that a request names by its ARN or its name.
func (s *Service) profileAsked(
	sc resource.Scope,
	asked *types.IamInstanceProfileSpecification,
) (record.InstanceProfile, error) {
	if asked == nil || asked.Arn == nil && asked.Name == nil {
		return record.InstanceProfile{}, resource.MissingParameter("iamInstanceProfile")
	}
	if asked.Arn != nil && asked.Name != nil {
		return record.InstanceProfile{}, wire.Errorf("InvalidParameterCombination",
			"The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'")
	}
	arn, name := aws.ToString(asked.Arn), aws.ToString(asked.Name)
	if asked.Arn != nil {
		name = arn[strings.LastIndex(arn, "/")+1:]
	}
	row, err := s.InstanceProfiles.Get(sc, record.InstanceProfileKey(sc.Account, name))
	p := row.Value
	switch unknown := errors.Is(err, store.ErrNotFound); {
	case err != nil && !unknown:
		return p, err
	case asked.Arn != nil && (unknown || p.ARN() != arn):
		return p, resource.InvalidValue(arn, "iamInstanceProfile.arn", "Invalid IAM Instance Profile ARN")
	case asked.Arn == nil && (unknown || p.Name != name):
		return p, resource.InvalidValue(name, "iamInstanceProfile.name", "Invalid IAM Instance Profile name")
	case p.Role == "":
		return p, resource.InvalidValue(p.Name, "iamInstanceProfile.name", "IAM Instance Profile \""+p.ARN()+
			"\" has no associated IAM Roles")
	}
	return p, nil
}

// mayPass demands that the caller may hand the role of a profile to EC2; p may be nil.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/permission-to-pass-iam-roles.html
func (s *Service) mayPass(sc resource.Scope, p *record.InstanceProfile) error {
	if p == nil {
		return nil
	}
	row, err := s.Roles.Get(sc, record.RoleKey(p.Account, p.Role))
	if errors.Is(err, store.ErrNotFound) {
		return resource.InvalidValue(p.Name, "iamInstanceProfile.name", "IAM Instance Profile \""+p.ARN()+
			"\" has no associated IAM Roles")
	} else if err != nil {
		return err
	}
	return wire.Authorize(sc.Context, wire.Target{
		Action: "iam:PassRole", Resource: row.Value.ARN(),
		Conditions: map[string][]string{"iam:PassedToService": {"ec2.amazonaws.com"},
			"iam:AssociatedResourceArn": {sc.ARN(types.ResourceTypeInstance, "*")}},
	})
}

func viewProfileAssociation(r record.Instance,
	state types.IamInstanceProfileAssociationState) *types.IamInstanceProfileAssociation {
	return &types.IamInstanceProfileAssociation{
		AssociationId: aws.String(r.InstanceProfileAssociationID), InstanceId: aws.String(r.ID), State: state,
		IamInstanceProfile: &types.IamInstanceProfile{Arn: aws.String(r.InstanceProfileARN),
			Id: aws.String(r.InstanceProfileID)},
	}
}

// profileAssociationHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) profileAssociationHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssociateIamInstanceProfile, resource.Touching[ec2.AssociateIamInstanceProfileInput](s.Records)),
		wire.Handle(s.DisassociateIamInstanceProfile, resource.Touching[ec2.DisassociateIamInstanceProfileInput](s.Records)),
		wire.Handle(
			s.ReplaceIamInstanceProfileAssociation,
			resource.Touching[ec2.ReplaceIamInstanceProfileAssociationInput](s.Records),
		),
		wire.Handle(s.DescribeIamInstanceProfileAssociations, resource.OnRegion),
	}
}

// AssociateIamInstanceProfile gives an instance without a profile one.
func (s *Service) AssociateIamInstanceProfile(ctx context.Context, in *ec2.AssociateIamInstanceProfileInput) (
	*ec2.AssociateIamInstanceProfileOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Instances.GetRecord(sc, in.InstanceId)
	if err != nil {
		return nil, err
	}
	p, err := s.profileAsked(sc, in.IamInstanceProfile)
	if err != nil {
		return nil, err
	}
	if err := s.mayPass(sc, &p); err != nil {
		return nil, err
	}
	if err := s.CommitPlan(sc, nil, func(c *resource.Change) error {
		return eachInstance(c, []string{r.ID}, func(now *record.Instance, state types.InstanceStateName) error {
			if state == types.InstanceStateNameShuttingDown || state == types.InstanceStateNameTerminated {
				return resource.IncorrectInstanceState(r.ID, state)
			}
			if now.InstanceProfileARN != "" {
				return wire.Errorf("IncorrectState", "There is an existing association for instance %s", r.ID)
			}
			now.InstanceProfileARN, now.InstanceProfileID, now.InstanceProfileAssociationID = p.ARN(), p.ID,
				resource.NewID("iip-assoc-")
			r = *now
			return nil
		})
	}); err != nil {
		return nil, err
	}
	return &ec2.AssociateIamInstanceProfileOutput{IamInstanceProfileAssociation: viewProfileAssociation(r,
		types.IamInstanceProfileAssociationStateAssociating)}, nil
}

// DisassociateIamInstanceProfile takes the profile from an instance.
func (s *Service) DisassociateIamInstanceProfile(ctx context.Context, in *ec2.DisassociateIamInstanceProfileInput) (
	*ec2.DisassociateIamInstanceProfileOutput, error) {
	var r record.Instance
	err := s.ApplyChange(ctx, nil, func(c *resource.Change) (err error) {
		if r, err = s.ProfileAssociation(c.Scope, in.AssociationId); err != nil {
			return err
		}
		return s.Instances.UpdateRecord(c, r.ID, func(now *record.Instance) error {
			now.InstanceProfileARN, now.InstanceProfileID, now.InstanceProfileAssociationID = "", "", ""
			return nil
		})
	})
	return &ec2.DisassociateIamInstanceProfileOutput{IamInstanceProfileAssociation: viewProfileAssociation(r,
		types.IamInstanceProfileAssociationStateDisassociating)}, err
}

// ReplaceIamInstanceProfileAssociation gives an instance another profile.
func (s *Service) ReplaceIamInstanceProfileAssociation(ctx context.Context,
	in *ec2.ReplaceIamInstanceProfileAssociationInput) (*ec2.ReplaceIamInstanceProfileAssociationOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.ProfileAssociation(sc, in.AssociationId)
	if err != nil {
		return nil, err
	}
	p, err := s.profileAsked(sc, in.IamInstanceProfile)
	if err != nil {
		return nil, err
	}
	if err := s.mayPass(sc, &p); err != nil {
		return nil, err
	}
	if err := s.CommitPlan(sc, nil, func(c *resource.Change) error {
		if r, err = s.ProfileAssociation(c.Scope, in.AssociationId); err != nil {
			return err
		}
		return s.Instances.UpdateRecord(c, r.ID, func(now *record.Instance) error {
			now.InstanceProfileARN, now.InstanceProfileID, now.InstanceProfileAssociationID = p.ARN(), p.ID,
				resource.NewID("iip-assoc-")
			r = *now
			return nil
		})
	}); err != nil {
		return nil, err
	}
	return &ec2.ReplaceIamInstanceProfileAssociationOutput{IamInstanceProfileAssociation: viewProfileAssociation(r,
		types.IamInstanceProfileAssociationStateAssociating)}, nil
}

// DescribeIamInstanceProfileAssociations lists the profiles of instances.
func (s *Service) DescribeIamInstanceProfileAssociations(ctx context.Context,
	in *ec2.DescribeIamInstanceProfileAssociationsInput) (*ec2.DescribeIamInstanceProfileAssociationsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeIamInstanceProfileAssociations", IDs: in.AssociationIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	for _, id := range in.AssociationIds {
		if _, err := s.ProfileAssociation(sc, &id); err != nil {
			return nil, err
		}
	}
	rows, err := s.Instances.List(sc, func(r record.Instance) bool {
		return r.InstanceProfileAssociationID != "" && s.InstanceState(sc, r) != types.InstanceStateNameTerminated &&
			(len(in.AssociationIds) == 0 || slices.Contains(in.AssociationIds, r.InstanceProfileAssociationID))
	})
	if err != nil {
		return nil, err
	}
	var items []resource.Item[types.IamInstanceProfileAssociation]
	for _, r := range rows {
		items = append(items, resource.Item[types.IamInstanceProfileAssociation]{ID: r.ID,
			View: *viewProfileAssociation(r, types.IamInstanceProfileAssociationStateAssociated)})
	}
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		items,
		resource.Filters[types.IamInstanceProfileAssociation]{
			"instance-id": resource.StringFilter(func(x types.IamInstanceProfileAssociation) *string { return x.InstanceId }),
			"state": resource.EnumFilter(
				func(x types.IamInstanceProfileAssociation) types.IamInstanceProfileAssociationState { return x.State }),
		},
		nil,
	)
	return &ec2.DescribeIamInstanceProfileAssociationsOutput{IamInstanceProfileAssociations: found, NextToken: next},
		err
}
