package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// maxVersions is how many versions a managed policy can have.
const maxVersions = 5

// managedPolicies is the handler of AWS::IAM::ManagedPolicy. The physical ID is the ARN.
var managedPolicies = resource.Handle(resource.Table[*iam.Client, types.Policy]{
	Client: newClient,
	Create: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		out, err := c.CreatePolicy(ctx, &iam.CreatePolicyInput{
			PolicyName: aws.String(nameOf(r, "ManagedPolicyName")), Path: r.Pointer("Path"),
			Description: r.Pointer("Description"), Tags: resource.TagList(r.Wanted(""), newTag),
			PolicyDocument: aws.String(resource.Text(r.Properties["PolicyDocument"])),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.Policy.Arn), nil
	},
	Find: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		arn := "arn:" + r.Partition + ":iam::" + r.Account + ":policy" + pathOf(r) + nameOf(r, "ManagedPolicyName")
		live, err := getPolicy(ctx, c, arn)
		if err != nil {
			return "", err
		}
		return ownedName(r, arn, live.Tags)
	},
	Describe: func(ctx context.Context, c *iam.Client, r *resource.Request) (*types.Policy, error) {
		return getPolicy(ctx, c, r.PhysicalID)
	},
	Configure: []resource.Step[*iam.Client]{
		{Properties: []string{"PolicyDocument"}, Update: true, Run: putVersion},
		{Properties: []string{"Groups", "Roles", "Users"}, Run: setHolders},
		setTags(
			func(ctx context.Context, c *iam.Client, arn string, set map[string]string) error {
				_, err := c.TagPolicy(ctx, &iam.TagPolicyInput{PolicyArn: &arn, Tags: resource.TagList(set, newTag)})
				return err
			},
			func(ctx context.Context, c *iam.Client, arn string, keys []string) error {
				_, err := c.UntagPolicy(ctx, &iam.UntagPolicyInput{PolicyArn: &arn, TagKeys: keys})
				return err
			},
		),
	},
	Delete:     deletePolicy,
	Attributes: policyAttributes,
	Properties: func(ctx context.Context, c *iam.Client, r *resource.Request, live *types.Policy) (map[string]any, error) {
		properties := map[string]any{"ManagedPolicyName": aws.ToString(live.PolicyName), "Path": aws.ToString(live.Path)}
		if live.Description != nil {
			properties["Description"] = *live.Description
		}
		version, err := c.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{
			PolicyArn: &r.PhysicalID, VersionId: live.DefaultVersionId,
		})
		if err != nil {
			return nil, err
		}
		properties["PolicyDocument"] = decodeDocument(version.PolicyVersion.Document)
		return properties, readHolders(ctx, c, r, properties)
	},
})

func getPolicy(ctx context.Context, c *iam.Client, arn string) (*types.Policy, error) {
	out, err := c.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: &arn})
	if err != nil {
		return nil, err
	}
	return out.Policy, nil
}

func policyAttributes(_ *resource.Request, live *types.Policy) map[string]any {
	attributes := map[string]any{
		"PolicyArn": aws.ToString(live.Arn), "PolicyId": aws.ToString(live.PolicyId),
		"DefaultVersionId": aws.ToString(live.DefaultVersionId), "IsAttachable": live.IsAttachable,
		"AttachmentCount":               aws.ToInt32(live.AttachmentCount),
		"PermissionsBoundaryUsageCount": aws.ToInt32(live.PermissionsBoundaryUsageCount),
	}
	if live.CreateDate != nil {
		attributes["CreateDate"] = live.CreateDate.UTC().Format(timestamp)
	}
	if live.UpdateDate != nil {
		attributes["UpdateDate"] = live.UpdateDate.UTC().Format(timestamp)
	}
	return attributes
}

func listVersions(ctx context.Context, c *iam.Client, arn string) ([]types.PolicyVersion, error) {
	pages := iam.NewListPolicyVersionsPaginator(c, &iam.ListPolicyVersionsInput{PolicyArn: &arn})
	return resource.ListAll(ctx, pages, func(page *iam.ListPolicyVersionsOutput) []types.PolicyVersion {
		return page.Versions
	})
}

// putVersion makes the document the default version of the policy, in place of the oldest version where there are as
// many as there can be. A call whose answer was lost has done so already.
func putVersion(ctx context.Context, c *iam.Client, r *resource.Request) error {
	versions, err := listVersions(ctx, c, r.PhysicalID)
	if err != nil {
		return err
	}
	var oldest *types.PolicyVersion
	for i, v := range versions {
		if v.IsDefaultVersion {
			out, err := c.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{
				PolicyArn: &r.PhysicalID, VersionId: v.VersionId,
			})
			if err != nil || sameDocument(out.PolicyVersion.Document, r.Properties["PolicyDocument"]) {
				return err
			}
		} else if oldest == nil || aws.ToTime(v.CreateDate).Before(aws.ToTime(oldest.CreateDate)) {
			oldest = &versions[i]
		}
	}
	if len(versions) >= maxVersions && oldest != nil {
		_, err := c.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{
			PolicyArn: &r.PhysicalID, VersionId: oldest.VersionId,
		})
		if err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	_, err = c.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{
		PolicyArn: &r.PhysicalID, SetAsDefault: true,
		PolicyDocument: aws.String(resource.Text(r.Properties["PolicyDocument"])),
	})
	return err
}

// setHolders attaches the policy to the entities that the properties name, and detaches it from those that they named
// before.
func setHolders(ctx context.Context, c *iam.Client, r *resource.Request) error {
	for _, h := range holdersOf(r.Properties) {
		if err := h.attach(ctx, c, h.name, r.PhysicalID); err != nil {
			return err
		}
	}
	for _, h := range formerHolders(r) {
		if err := h.detach(ctx, c, h.name, r.PhysicalID); err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// readHolders adds to the properties which of the entities that they name have the policy.
func readHolders(ctx context.Context, c *iam.Client, r *resource.Request, properties map[string]any) error {
	has := map[string]map[string]bool{"Groups": {}, "Roles": {}, "Users": {}}
	pages := iam.NewListEntitiesForPolicyPaginator(c, &iam.ListEntitiesForPolicyInput{PolicyArn: &r.PhysicalID})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, g := range page.PolicyGroups {
			has["Groups"][aws.ToString(g.GroupName)] = true
		}
		for _, o := range page.PolicyRoles {
			has["Roles"][aws.ToString(o.RoleName)] = true
		}
		for _, u := range page.PolicyUsers {
			has["Users"][aws.ToString(u.UserName)] = true
		}
	}
	for property, names := range has {
		var having []any
		for _, name := range r.Texts(property) {
			if names[name] {
				having = append(having, name)
			}
		}
		if having != nil {
			properties[property] = having
		}
	}
	return nil
}

// deletePolicy deletes the policy with its versions, once it is detached from the entities that the stack attached it
// to. Those of others keep IAM from deleting it.
func deletePolicy(ctx context.Context, c *iam.Client, r *resource.Request) error {
	for _, h := range holdersOf(r.Properties) {
		if err := h.detach(ctx, c, h.name, r.PhysicalID); err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	versions, err := listVersions(ctx, c, r.PhysicalID)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if v.IsDefaultVersion {
			continue
		}
		_, err := c.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{
			PolicyArn: &r.PhysicalID, VersionId: v.VersionId,
		})
		if err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	_, err = c.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: &r.PhysicalID})
	return err
}
