package ec2

import (
	"context"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var launchTemplates = kind[types.LaunchTemplate]{
	resource: types.ResourceTypeLaunchTemplate,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.LaunchTemplate, error) {
		out, err := c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: ids,
			Filters: filters})
		if err != nil {
			return nil, err
		}
		return out.LaunchTemplates, nil
	},
	id: func(t *types.LaunchTemplate) *string { return t.LaunchTemplateId },
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-launchtemplate.html
var launchTemplate = resource.Type{
	Tagged:    true,
	NameLimit: 128,
	Names:     []string{"LaunchTemplateName"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.LaunchTemplate]{
		Client: client,
		Create: resource.Create((*ec2.Client).CreateLaunchTemplate, nil,
			func(out *ec2.CreateLaunchTemplateOutput) *string { return out.LaunchTemplate.LaunchTemplateId },
			func(r *resource.Request, in *ec2.CreateLaunchTemplateInput) error {
				if in.LaunchTemplateName == nil {
					in.LaunchTemplateName = &r.Name
				}
				in.TagSpecifications = tagSpecifications(launchTemplates.resource,
					resource.MergeTags(r.Tags, templateTags(r.Properties)))
				return nil
			}),
		Find:     launchTemplates.find,
		Describe: launchTemplates.describe,
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"LaunchTemplateData", "VersionDescription"}, Update: true,
				Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
					_, err := resource.Call(ctx, c, r, (*ec2.Client).CreateLaunchTemplateVersion,
						resource.Members{"LaunchTemplateName": resource.Left},
						func(r *resource.Request, in *ec2.CreateLaunchTemplateVersionInput) error {
							in.LaunchTemplateId = &r.PhysicalID
							return nil
						})
					return err
				}},
			{Properties: []string{"TagSpecifications"}, Tags: true,
				Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
					called := *r
					called.Properties = map[string]any{"Tags": anyTags(templateTags(r.Properties))}
					called.Previous = map[string]any{"Tags": anyTags(templateTags(r.Previous))}
					return changeTags(ctx, c, &called, r.PhysicalID)
				}},
		},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &r.PhysicalID})
			return err
		},
		Attributes: func(_ *resource.Request, t *types.LaunchTemplate) map[string]any {
			return map[string]any{
				"LaunchTemplateId":     aws.ToString(t.LaunchTemplateId),
				"LatestVersionNumber":  strconv.FormatInt(aws.ToInt64(t.LatestVersionNumber), 10),
				"DefaultVersionNumber": strconv.FormatInt(aws.ToInt64(t.DefaultVersionNumber), 10),
			}
		},
		Properties: func(ctx context.Context, c *ec2.Client, r *resource.Request, t *types.LaunchTemplate) (
			map[string]any, error) {
			out, err := c.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
				LaunchTemplateId: &r.PhysicalID, Versions: []string{"$Latest"}})
			if err != nil {
				return nil, err
			}
			properties := map[string]any{"LaunchTemplateName": aws.ToString(t.LaunchTemplateName)}
			for _, version := range out.LaunchTemplateVersions {
				properties["LaunchTemplateData"] = resource.Encode(version.LaunchTemplateData, nil)
				if version.VersionDescription != nil {
					properties["VersionDescription"] = *version.VersionDescription
				}
			}
			if own := ownTags(t.Tags); own != nil {
				properties["TagSpecifications"] = []any{map[string]any{
					"ResourceType": string(launchTemplates.resource), "Tags": own}}
			}
			return properties, nil
		},
	}),
}

// templateTags returns the tags that a launch template itself has, of its properties.
func templateTags(properties map[string]any) map[string]string {
	tags := map[string]string{}
	for _, specification := range resource.Objects(properties["TagSpecifications"]) {
		if resource.Text(specification["ResourceType"]) == string(launchTemplates.resource) {
			for key, value := range resource.OwnTags(specification["Tags"]) {
				tags[key] = value
			}
		}
	}
	return tags
}

// anyTags returns tags in the form of a property that is a map.
func anyTags(tags map[string]string) map[string]any {
	property := make(map[string]any, len(tags))
	for key, value := range tags {
		property[key] = value
	}
	return property
}
