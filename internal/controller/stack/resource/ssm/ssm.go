// Package ssm has the handler of the CloudFormation resource type AWS::SSM::Parameter: a client of Parameter Store,
// signed as the caller or as the service role of the stack.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ssm-parameter.html
package ssm

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of Systems Manager.
var Types = map[string]resource.Type{
	"AWS::SSM::Parameter": {Handler: parameters, NameLimit: 1011, Names: []string{"Name"}, Tagged: true},
}

func newTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

// updatable are the properties that a new version of a parameter can change.
var updatable = []string{"AllowedPattern", "DataType", "Description", "Policies", "Tier", "Type", "Value"}

// parameters is the handler of AWS::SSM::Parameter.
var parameters = resource.Handle(resource.Table[*ssm.Client, types.Parameter]{
	Client: func(c aws.Config) *ssm.Client { return ssm.NewFromConfig(c) },
	Create: func(ctx context.Context, c *ssm.Client, r *resource.Request) (string, error) {
		in, err := putInput(r)
		if err != nil {
			return "", err
		}
		in.Tags = resource.TagList(r.Wanted("Tags"), newTag)
		if _, err := c.PutParameter(ctx, in); err != nil {
			return "", err
		}
		return *in.Name, nil
	},
	Find: func(ctx context.Context, c *ssm.Client, r *resource.Request) (string, error) {
		called := *r
		called.PhysicalID = nameOf(r)
		if _, err := describe(ctx, c, &called); err != nil {
			return "", err
		}
		tags, err := tagsOf(ctx, c, &called)
		if err == nil && !r.Owns(tags) {
			err = resource.ErrNotFound
		}
		return called.PhysicalID, err
	},
	Describe: describe,
	Configure: []resource.Step[*ssm.Client]{
		{
			Properties: updatable, Update: true,
			Run: func(ctx context.Context, c *ssm.Client, r *resource.Request) error {
				in, err := putInput(r)
				if err != nil {
					return err
				}
				in.Overwrite = aws.Bool(true)
				if in.Description == nil { // else the old one stays
					in.Description = aws.String("")
				}
				_, err = c.PutParameter(ctx, in)
				return err
			},
		},
		{Properties: []string{"Tags"}, Tags: true, Run: setTags},
	},
	Delete: func(ctx context.Context, c *ssm.Client, r *resource.Request) error {
		_, err := c.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.Parameter) map[string]any {
		return map[string]any{
			"Arn": aws.ToString(live.ARN), "Type": string(live.Type), "Value": aws.ToString(live.Value),
		}
	},
	Properties: properties,
})

func nameOf(r *resource.Request) string {
	if name := r.Text("Name"); name != "" {
		return name
	}
	return r.Name
}

// putInput returns the request that puts the parameter. CloudFormation has no secure parameters, whose values would
// stand in templates.
func putInput(r *resource.Request) (*ssm.PutParameterInput, error) {
	if types.ParameterType(r.Text("Type")) == types.ParameterTypeSecureString {
		return nil, resource.Errorf(resource.InvalidRequest,
			"The parameter type SecureString is not supported by CloudFormation: use String or StringList")
	}
	in := &ssm.PutParameterInput{}
	if err := resource.Decode(r.Properties, in, resource.Members{"Tags": resource.Left}); err != nil {
		return nil, err
	}
	in.Name = aws.String(nameOf(r))
	if r.PhysicalID != "" {
		in.Name = &r.PhysicalID
	}
	return in, nil
}

func describe(ctx context.Context, c *ssm.Client, r *resource.Request) (*types.Parameter, error) {
	out, err := c.GetParameter(ctx, &ssm.GetParameterInput{Name: &r.PhysicalID})
	if err != nil {
		return nil, err
	}
	return out.Parameter, nil
}

func tagsOf(ctx context.Context, c *ssm.Client, r *resource.Request) (map[string]string, error) {
	out, err := c.ListTagsForResource(ctx, &ssm.ListTagsForResourceInput{
		ResourceType: types.ResourceTypeForTaggingParameter, ResourceId: &r.PhysicalID,
	})
	if err != nil {
		return nil, err
	}
	tags := make(map[string]string, len(out.TagList))
	for _, t := range out.TagList {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags, nil
}

func setTags(ctx context.Context, c *ssm.Client, r *resource.Request) error {
	set, removed := r.TagChanges("Tags")
	if len(removed) > 0 {
		_, err := c.RemoveTagsFromResource(ctx, &ssm.RemoveTagsFromResourceInput{
			ResourceType: types.ResourceTypeForTaggingParameter, ResourceId: &r.PhysicalID, TagKeys: removed,
		})
		if err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := c.AddTagsToResource(ctx, &ssm.AddTagsToResourceInput{
		ResourceType: types.ResourceTypeForTaggingParameter, ResourceId: &r.PhysicalID,
		Tags: resource.TagList(set, newTag),
	})
	return err
}

func properties(
	ctx context.Context, c *ssm.Client, r *resource.Request, live *types.Parameter,
) (map[string]any, error) {
	out, err := c.DescribeParameters(ctx, &ssm.DescribeParametersInput{ParameterFilters: []types.ParameterStringFilter{{
		Key: aws.String("Name"), Option: aws.String("Equals"), Values: []string{r.PhysicalID},
	}}})
	if err != nil {
		return nil, err
	}
	all := map[string]any{
		"Name": r.PhysicalID, "Type": string(live.Type), "Value": aws.ToString(live.Value),
		"DataType": aws.ToString(live.DataType),
	}
	for _, p := range out.Parameters {
		all["Tier"] = string(p.Tier)
		if p.Description != nil {
			all["Description"] = *p.Description
		}
		if p.AllowedPattern != nil {
			all["AllowedPattern"] = *p.AllowedPattern
		}
	}
	tags, err := tagsOf(ctx, c, r)
	if err != nil {
		return nil, err
	}
	own := map[string]any{}
	for key, value := range r.LiveTags("Tags", tags) {
		own[key] = value
	}
	if len(own) > 0 {
		all["Tags"] = own
	}
	return all, nil
}
