package iam

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// serviceLinkedRoles is the handler of AWS::IAM::ServiceLinkedRole. The service chooses the name of the role, which has
// no tags.
type serviceLinkedRoles struct{}

// task is what Progress has of a deletion.
const task = "task"

// Create is part of [resource.Handler].
func (serviceLinkedRoles) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	service := r.Text("AWSServiceName")
	out, err := newClient(r.Config).CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{
		AWSServiceName: &service, CustomSuffix: r.Pointer("CustomSuffix"), Description: r.Pointer("Description"),
	}, withToken(r))
	if err != nil {
		return resource.Result{}, err
	}
	return linkedResult(aws.ToString(out.Role.RoleName)), nil
}

func linkedResult(name string) resource.Result {
	return resource.Result{PhysicalID: name, Attributes: map[string]any{"RoleName": name}}
}

// Update is part of [resource.Handler].
func (serviceLinkedRoles) Update(ctx context.Context, r *resource.Request) (resource.Result, error) {
	_, err := newClient(r.Config).UpdateRole(ctx, &iam.UpdateRoleInput{
		RoleName: &r.PhysicalID, Description: aws.String(r.Text("Description")),
	})
	return linkedResult(r.PhysicalID), err
}

// Delete is part of [resource.Handler]. IAM deletes the role in a task, unless something still needs the role.
func (serviceLinkedRoles) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	c, result := newClient(r.Config), resource.Result{PhysicalID: r.PhysicalID}
	if r.PhysicalID == "" && r.Progress[task] == "" {
		out, err := c.ListRoles(ctx, &iam.ListRolesInput{
			PathPrefix: aws.String("/aws-service-role/" + r.Text("AWSServiceName") + "/"),
		}, withToken(r))
		if err != nil || r.Name == "" || len(out.Roles) == 0 {
			return result, err
		}
		result.PhysicalID = aws.ToString(out.Roles[0].RoleName)
	}
	id := r.Progress[task]
	if id == "" {
		out, err := c.DeleteServiceLinkedRole(ctx, &iam.DeleteServiceLinkedRoleInput{RoleName: &result.PhysicalID})
		if resource.IsNotFound(err) {
			return result, nil
		} else if err != nil {
			return result, err
		}
		id = aws.ToString(out.DeletionTaskId)
	}
	out, err := c.GetServiceLinkedRoleDeletionStatus(ctx,
		&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: &id})
	if err != nil {
		return result, err
	}
	switch out.Status {
	case types.DeletionTaskStatusTypeSucceeded:
	case types.DeletionTaskStatusTypeFailed:
		reason := "the deletion failed"
		if out.Reason != nil {
			reason = aws.ToString(out.Reason.Reason)
			for _, use := range out.Reason.RoleUsageList {
				reason += " " + aws.ToString(use.Region) + ": " + strings.Join(use.Resources, ", ")
			}
		}
		return result, resource.Errorf(resource.ResourceConflict, "%s", reason)
	default:
		result.Pending, result.Progress = time.Second, map[string]string{task: id}
	}
	return result, nil
}

// Read is part of [resource.Handler].
func (serviceLinkedRoles) Read(
	ctx context.Context, r *resource.Request,
) (properties, attributes map[string]any, err error) {
	live, err := getRole(ctx, newClient(r.Config), r.PhysicalID)
	if resource.IsNotFound(err) {
		return nil, nil, resource.ErrNotFound
	} else if err != nil {
		return nil, nil, err
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(aws.ToString(live.Path), "/aws-service-role/"), "/")
	properties = map[string]any{"AWSServiceName": service}
	if _, suffix, ok := strings.Cut(r.PhysicalID, "_"); ok {
		properties["CustomSuffix"] = suffix
	}
	if live.Description != nil {
		properties["Description"] = *live.Description
	}
	return properties, map[string]any{"RoleName": r.PhysicalID}, nil
}

// Updatable returns the properties that the handler changes in place.
func (serviceLinkedRoles) Updatable() []string {
	return []string{"Description"}
}
