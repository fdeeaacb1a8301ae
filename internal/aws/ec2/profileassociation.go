package ec2

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// profileAsked is the instance profile that a request names by its ARN or its name.
func (s *Service) profileAsked(in scope, asked *types.IamInstanceProfileSpecification) (record.InstanceProfile, error) {
	if asked == nil || asked.Arn == nil && asked.Name == nil {
		return record.InstanceProfile{}, missing("iamInstanceProfile")
	}
	if asked.Arn != nil && asked.Name != nil {
		return record.InstanceProfile{}, wire.Errorf("InvalidParameterCombination",
			"The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'")
	}
	arn, name := aws.ToString(asked.Arn), aws.ToString(asked.Name)
	if asked.Arn != nil {
		name = arn[strings.LastIndex(arn, "/")+1:]
	}
	row, err := s.profiles.Get(in, record.InstanceProfileKey(in.account, name))
	p := row.Value
	switch unknown := errors.Is(err, store.ErrNotFound); {
	case err != nil && !unknown:
		return p, err
	case asked.Arn != nil && (unknown || p.ARN() != arn):
		return p, invalidValue(arn, "iamInstanceProfile.arn", "Invalid IAM Instance Profile ARN")
	case asked.Arn == nil && (unknown || p.Name != name):
		return p, invalidValue(name, "iamInstanceProfile.name", "Invalid IAM Instance Profile name")
	case p.Role == "":
		return p, invalidValue(p.Name, "iamInstanceProfile.name", "IAM Instance Profile \""+p.ARN()+
			"\" has no associated IAM Roles")
	}
	return p, nil
}

// mayPass demands that the caller may hand the role of a profile to EC2; p may be nil.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/permission-to-pass-iam-roles.html
func (s *Service) mayPass(in scope, p *record.InstanceProfile) error {
	if p == nil {
		return nil
	}
	row, err := s.roles.Get(in, record.RoleKey(p.Account, p.Role))
	if errors.Is(err, store.ErrNotFound) {
		return invalidValue(p.Name, "iamInstanceProfile.name", "IAM Instance Profile \""+p.ARN()+
			"\" has no associated IAM Roles")
	} else if err != nil {
		return err
	}
	return wire.Authorize(in.Context, wire.Target{
		Action: "iam:PassRole", Resource: row.Value.ARN(),
		Conditions: map[string][]string{"iam:PassedToService": {"ec2.amazonaws.com"},
			"iam:AssociatedResourceArn": {in.arn(types.ResourceTypeInstance, "*")}},
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

// profileAssociationHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) profileAssociationHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AssociateIamInstanceProfile, touching[ec2.AssociateIamInstanceProfileInput](s)),
		wire.Handle(s.DisassociateIamInstanceProfile, touching[ec2.DisassociateIamInstanceProfileInput](s)),
		wire.Handle(s.ReplaceIamInstanceProfileAssociation, touching[ec2.ReplaceIamInstanceProfileAssociationInput](s)),
		wire.Handle(s.DescribeIamInstanceProfileAssociations, onRegion),
	}
}

// AssociateIamInstanceProfile gives an instance without a profile one.
func (s *Service) AssociateIamInstanceProfile(ctx context.Context, in *ec2.AssociateIamInstanceProfileInput) (
	*ec2.AssociateIamInstanceProfileOutput, error) {
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.instances.getRecord(sc, in.InstanceId)
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
	if err := s.commitPlan(sc, nil, func(c *change) error {
		return c.eachInstance([]string{r.ID}, func(now *record.Instance, state types.InstanceStateName) error {
			if state == types.InstanceStateNameShuttingDown || state == types.InstanceStateNameTerminated {
				return incorrectInstance(r.ID, state)
			}
			if now.InstanceProfileARN != "" {
				return wire.Errorf("IncorrectState", "There is an existing association for instance %s", r.ID)
			}
			now.InstanceProfileARN, now.InstanceProfileID, now.InstanceProfileAssociationID = p.ARN(), p.ID,
				newID("iip-assoc-")
			r = *now
			return nil
		})
	}); err != nil {
		return nil, err
	}
	return &ec2.AssociateIamInstanceProfileOutput{IamInstanceProfileAssociation: viewProfileAssociation(r,
		types.IamInstanceProfileAssociationStateAssociating)}, nil
}

// incorrectInstance is the error about an instance in whose state an operation makes no sense.
func incorrectInstance(id string, state types.InstanceStateName) error {
	return wire.Errorf("IncorrectInstanceState",
		"The instance '%s' is in the state '%s', in which this operation is not possible.", id, state)
}

// profileAssociation is the instance of an association.
func (s *Service) profileAssociation(in scope, id *string) (record.Instance, error) {
	if aws.ToString(id) == "" {
		return record.Instance{}, missing("associationId")
	}
	found, err := s.instances.list(in, func(r record.Instance) bool { return r.InstanceProfileAssociationID == *id })
	if err == nil && len(found) == 0 {
		err = wire.Errorf("InvalidAssociationID.NotFound", "An invalid association-id of '%s' was given", *id)
	}
	if err != nil {
		return record.Instance{}, err
	}
	return found[0], nil
}

// DisassociateIamInstanceProfile takes the profile from an instance.
func (s *Service) DisassociateIamInstanceProfile(ctx context.Context, in *ec2.DisassociateIamInstanceProfileInput) (
	*ec2.DisassociateIamInstanceProfileOutput, error) {
	var r record.Instance
	err := s.applyChange(ctx, nil, func(c *change) (err error) {
		if r, err = s.profileAssociation(c.scope, in.AssociationId); err != nil {
			return err
		}
		return s.instances.updateRecord(c, r.ID, func(now *record.Instance) error {
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
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.profileAssociation(sc, in.AssociationId)
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
	if err := s.commitPlan(sc, nil, func(c *change) error {
		if r, err = s.profileAssociation(c.scope, in.AssociationId); err != nil {
			return err
		}
		return s.instances.updateRecord(c, r.ID, func(now *record.Instance) error {
			now.InstanceProfileARN, now.InstanceProfileID, now.InstanceProfileAssociationID = p.ARN(), p.ID,
				newID("iip-assoc-")
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
	sc, err := s.requestScope(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range in.AssociationIds {
		if _, err := s.profileAssociation(sc, &id); err != nil {
			return nil, err
		}
	}
	rows, err := s.instances.list(sc, func(r record.Instance) bool {
		return r.InstanceProfileAssociationID != "" && s.stateOf(sc, r) != types.InstanceStateNameTerminated &&
			(len(in.AssociationIds) == 0 || slices.Contains(in.AssociationIds, r.InstanceProfileAssociationID))
	})
	if err != nil {
		return nil, err
	}
	var items []item[types.IamInstanceProfileAssociation]
	for _, r := range rows {
		items = append(items, item[types.IamInstanceProfileAssociation]{r.ID,
			*viewProfileAssociation(r, types.IamInstanceProfileAssociationStateAssociated)})
	}
	found, next, err := describeItems(ctx, query{nil, in.AssociationIds, in.Filters, in.MaxResults, in.NextToken},
		"associationIds", items, filters[types.IamInstanceProfileAssociation]{
			"instance-id": stringFilter(func(x types.IamInstanceProfileAssociation) *string { return x.InstanceId }),
			"state": enumFilter(
				func(x types.IamInstanceProfileAssociation) types.IamInstanceProfileAssociationState { return x.State }),
		}, nil)
	return &ec2.DescribeIamInstanceProfileAssociationsOutput{IamInstanceProfileAssociations: found, NextToken: next},
		err
}
