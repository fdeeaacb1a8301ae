package iam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// linkedRole describes the service-linked role of a service.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_aws-services-that-work-with-iam.html
type linkedRole struct {
	name        string
	policy      string // managed, below /aws-service-role/
	description string
	suffix      bool // may exist several times, each with a suffix
}

var linkedRoles = map[string]linkedRole{
	"eks.amazonaws.com": {name: "AWSServiceRoleForAmazonEKS", policy: "AmazonEKSServiceRolePolicy",
		description: "Allows Amazon EKS to call AWS services on your behalf."},
	"eks-nodegroup.amazonaws.com": {name: "AWSServiceRoleForAmazonEKSNodegroup",
		policy:      "AWSServiceRoleForAmazonEKSNodegroup",
		description: "This policy allows Amazon EKS to create and manage Nodegroups"},
	"eks-fargate.amazonaws.com": {name: "AWSServiceRoleForAmazonEKSForFargate",
		policy:      "AmazonEKSForFargateServiceRolePolicy",
		description: "This policy grants necessary permissions to Amazon EKS to run fargate tasks"},
	"eks-connector.amazonaws.com": {name: "AWSServiceRoleForAmazonEKSConnector",
		policy: "AmazonEKSConnectorServiceRolePolicy", description: "Amazon EKS connector"},
	"autoscaling.amazonaws.com": {name: "AWSServiceRoleForAutoScaling", policy: "AutoScalingServiceRolePolicy",
		description: "Default Service-Linked Role enables access to AWS Services and Resources used or managed by " +
			"Auto Scaling", suffix: true},
	"elasticloadbalancing.amazonaws.com": {name: "AWSServiceRoleForElasticLoadBalancing",
		policy:      "AWSElasticLoadBalancingServiceRolePolicy",
		description: "Allows ELB to call AWS services on your behalf."},
	"spot.amazonaws.com": {name: "AWSServiceRoleForEC2Spot", policy: "AWSEC2SpotServiceRolePolicy",
		description: "Default EC2 Spot Service Linked Role"},
}

// newLinkedRole returns the service-linked role of a service in an account; false for a service that has none here.
func newLinkedRole(account, service string, now time.Time) (record.Role, bool) {
	l, ok := linkedRoles[service]
	return record.Role{
		Account: account, Name: l.name, Path: "/aws-service-role/" + service + "/", ID: identity.NewID(identity.RoleID),
		CreatedAt: now.UTC(), Description: l.description,
		Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service +
			`"},"Action":"sts:AssumeRole"}]}`,
		MaxSession: defaultMaxSession * time.Second, LinkedService: service,
		Grants: record.Grants{Attached: []string{"arn:aws:iam::aws:policy/aws-service-role/" + l.policy}},
	}, ok
}

// ServiceLinkedRoles makes service-linked roles for the services themselves, which do so when they are first used in an
// account.
type ServiceLinkedRoles struct {
	roles store.Table[record.Role]
	now   func() time.Time
}

// NewServiceLinkedRoles works on a store. now is time.Now unless set.
func NewServiceLinkedRoles(s *store.Store, now func() time.Time) *ServiceLinkedRoles {
	if now == nil {
		now = time.Now
	}
	return &ServiceLinkedRoles{roles: record.Roles(s), now: now}
}

// Ensure makes the service-linked role of service ("eks.amazonaws.com") in account unless it is there.
func (s *ServiceLinkedRoles) Ensure(ctx context.Context, account, service string) error {
	role, ok := newLinkedRole(account, service, s.now())
	if !ok {
		return fmt.Errorf("there is no service-linked role for %q", service)
	}
	key := record.RoleKey(account, role.Name)
	is, err := s.roles.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		if _, err = s.roles.Create(ctx, key, role); !errors.Is(err, store.ErrExists) {
			return err
		}
		is, err = s.roles.Get(ctx, key)
	}
	if err == nil && is.Value.LinkedService != service {
		return invalidInput("Service role name %s has been taken in this account: delete that role.", role.Name)
	}
	return err
}

// LinkedRoleName returns the name of the service-linked role of a service, such as AWSServiceRoleForAmazonEKS of
// "eks.amazonaws.com"; empty for a service that has none here.
func LinkedRoleName(service string) string { return linkedRoles[service].name }

// serviceLinkedRoleHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) serviceLinkedRoleHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateServiceLinkedRole, linkedRoleTargets),
		wire.Handle(s.DeleteServiceLinkedRole, func(
			ctx context.Context, action string, in *iam.DeleteServiceLinkedRoleInput,
		) ([]wire.Target, error) {
			return s.targetRole(ctx, action, in.RoleName)
		}),
		wire.Handle(s.GetServiceLinkedRoleDeletionStatus, wire.OnAll),
	}
}

// linkedRoleTargets returns the role that a request would create, as its authorization target.
func linkedRoleTargets(ctx context.Context, action string, in *iam.CreateServiceLinkedRoleInput) (
	[]wire.Target, error) {
	service := *in.AWSServiceName
	role := "role/aws-service-role/" + service + "/" + linkedRoles[service].name
	if suffix := aws.ToString(in.CustomSuffix); suffix != "" {
		role += "_" + suffix
	}
	t := newTarget(action, resourceARN(ctx, role))
	t.Conditions["iam:AWSServiceName"] = []string{service}
	return []wire.Target{t}, nil
}

// CreateServiceLinkedRole makes the role through which an AWS service acts in the account.
func (s *Service) CreateServiceLinkedRole(ctx context.Context, in *iam.CreateServiceLinkedRoleInput) (
	*iam.CreateServiceLinkedRoleOutput, error) {
	service := *in.AWSServiceName
	r, ok := newLinkedRole(account(ctx), service, s.now())
	if !ok {
		return nil, invalidInput("Service role for %s is not supported. Services with a service-linked role: %s.",
			service, strings.Join(linkedServices(), ", "))
	}
	if in.CustomSuffix != nil {
		if !linkedRoles[service].suffix {
			return nil, invalidInput("Custom suffix is not allowed for %s", service)
		}
		r.Name += "_" + *in.CustomSuffix
	}
	if in.Description != nil {
		r.Description = *in.Description
	}
	r.ClientToken = wire.ClientTokenFrom(ctx)
	err := s.createRole(ctx, r)
	var e *wire.Error
	if errors.As(err, &e) && e.Code == "EntityAlreadyExists" {
		row, err := s.roles.Get(ctx, record.RoleKey(r.Account, r.Name))
		if err := ignoreMissing(err); err != nil {
			return nil, err
		}
		if r.ClientToken != "" && row.Value.ClientToken == r.ClientToken {
			return &iam.CreateServiceLinkedRoleOutput{Role: roleType(row.Value)}, nil
		}
		return nil, invalidInput("Service role name %s has been taken in this account, please try a different suffix.",
			r.Name)
	}
	if err != nil {
		return nil, err
	}
	return &iam.CreateServiceLinkedRoleOutput{Role: roleType(r)}, nil
}

func linkedServices() []string {
	var names []string
	for name := range linkedRoles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// DeleteServiceLinkedRole deletes the role unless something still needs it. As on AWS the answer is a task that tells
// the outcome.
func (s *Service) DeleteServiceLinkedRole(ctx context.Context, in *iam.DeleteServiceLinkedRoleInput) (
	*iam.DeleteServiceLinkedRoleOutput, error) {
	var id string
	err := s.retryWrite(ctx, func() ([]store.Op, error) {
		row, err := s.roles.findEntity(ctx, in.RoleName)
		if err != nil {
			return nil, err
		}
		r := row.Value
		if r.LinkedService == "" {
			return nil, invalidInput("The role %s is not a service-linked role; use DeleteRole.", r.Name)
		}
		id = "task" + r.Path + r.Name + "/" + uuid.NewString()
		deletion := record.RoleDeletion{RoleARN: r.ARN(), At: s.now().UTC(), Region: wire.RegionFrom(ctx)}
		if deletion.InUse, err = s.dependents(ctx, r); err != nil {
			return nil, err
		}
		ops := []store.Op{s.deletions.CreateOp(store.Key(r.Account, id), deletion)}
		if len(deletion.InUse) == 0 {
			ops = append(ops, s.roles.DeleteOp(row), s.roleUses.RemoveOp(store.Key(r.ID)))
		}
		return ops, nil
	})
	if err != nil {
		return nil, err
	}
	return &iam.DeleteServiceLinkedRoleOutput{DeletionTaskId: aws.String(id)}, nil
}

// dependents returns the ARNs of the resources that need a service-linked role.
func (s *Service) dependents(ctx context.Context, r record.Role) ([]string, error) {
	prefix := store.Prefix(r.Account)
	var arns []string
	var err error
	switch r.LinkedService {
	case "eks.amazonaws.com":
		var rows []store.Row[record.Cluster]
		rows, err = record.Clusters(s.store).List(ctx, prefix)
		for _, row := range rows {
			arns = append(arns, row.Value.ARN())
		}
	case "eks-nodegroup.amazonaws.com":
		var rows []store.Row[record.Nodegroup]
		rows, err = record.Nodegroups(s.store).List(ctx, prefix)
		for _, row := range rows {
			arns = append(arns, row.Value.ARN())
		}
	case "eks-fargate.amazonaws.com":
		var rows []store.Row[record.FargateProfile]
		rows, err = record.FargateProfiles(s.store).List(ctx, prefix)
		for _, row := range rows {
			arns = append(arns, row.Value.ARN())
		}
	case "autoscaling.amazonaws.com":
		// There may be several, with suffixes; a group has one of them.
		var rows []store.Row[record.AutoScalingGroup]
		rows, err = record.AutoScalingGroups(s.store).List(ctx, prefix)
		for _, row := range rows {
			if row.Value.ServiceLinkedRoleARN == r.ARN() {
				arns = append(arns, row.Value.ARN())
			}
		}
	}
	return arns, err
}

// GetServiceLinkedRoleDeletionStatus returns the outcome of a deletion.
func (s *Service) GetServiceLinkedRoleDeletionStatus(ctx context.Context,
	in *iam.GetServiceLinkedRoleDeletionStatusInput) (*iam.GetServiceLinkedRoleDeletionStatusOutput, error) {
	row, err := s.deletions.Get(ctx, store.Key(account(ctx), *in.DeletionTaskId))
	if errors.Is(err, store.ErrNotFound) {
		return nil, noSuchEntity("The deletion task with id %s cannot be found.", *in.DeletionTaskId)
	}
	if err != nil {
		return nil, err
	}
	out := &iam.GetServiceLinkedRoleDeletionStatusOutput{Status: types.DeletionTaskStatusTypeSucceeded}
	if d := row.Value; len(d.InUse) > 0 {
		out.Status = types.DeletionTaskStatusTypeFailed
		out.Reason = &types.DeletionTaskFailureReasonType{
			Reason: aws.String(
				"One or more resources are using the service-linked role. Delete them and try again."),
			RoleUsageList: []types.RoleUsageType{{Region: aws.String(d.Region), Resources: d.InUse}},
		}
	}
	return out, nil
}
