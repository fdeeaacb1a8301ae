// Package ecr has the handlers of the CloudFormation resource types of Amazon ECR: AWS::ECR::*, of what is served. Each
// is a client of ECR, signed as the caller or as the service role of the stack.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_ECR.html
package ecr

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of ECR.
var Types = map[string]resource.Type{
	"AWS::ECR::PullThroughCacheRule": {
		Handler: rules, Names: []string{"EcrRepositoryPrefix"}, Refused: []string{"CredentialArn", "CustomRoleArn"},
	},
	"AWS::ECR::Repository": {
		Handler: repositories, NameLimit: 256, NameLower: true, Names: []string{"RepositoryName"}, Tagged: true,
		Refused: []string{"LifecyclePolicy"},
	},
}

func newClient(c aws.Config) *ecr.Client { return ecr.NewFromConfig(c) }

func newTag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

// members are the properties whose names the API has otherwise, and those that other calls take.
var members = resource.Members{
	"EmptyOnDelete": resource.Left, "RepositoryPolicyText": resource.Left, "Tags": resource.Left,
	"ImageTagMutabilityExclusionFilters.ImageTagMutabilityExclusionFilterType":  "FilterType",
	"ImageTagMutabilityExclusionFilters.ImageTagMutabilityExclusionFilterValue": "Filter",
}

// repositories is the handler of AWS::ECR::Repository.
var repositories = resource.Handle(resource.Table[*ecr.Client, types.Repository]{
	Client: newClient,
	Create: resource.Create((*ecr.Client).CreateRepository, members,
		func(out *ecr.CreateRepositoryOutput) *string { return out.Repository.RepositoryName },
		func(r *resource.Request, in *ecr.CreateRepositoryInput) error {
			in.RepositoryName = aws.String(nameOf(r))
			in.Tags = resource.TagList(r.Wanted("Tags"), newTag)
			return nil
		}),
	Find: func(ctx context.Context, c *ecr.Client, r *resource.Request) (string, error) {
		called := *r
		called.PhysicalID = nameOf(r)
		tags, err := tagsOf(ctx, c, &called)
		if err == nil && !r.Owns(tags) {
			err = resource.ErrNotFound
		}
		return called.PhysicalID, err
	},
	Describe: func(ctx context.Context, c *ecr.Client, r *resource.Request) (*types.Repository, error) {
		out, err := c.DescribeRepositories(ctx,
			&ecr.DescribeRepositoriesInput{RepositoryNames: []string{r.PhysicalID}})
		if err != nil {
			return nil, err
		}
		return &out.Repositories[0], nil
	},
	Configure: []resource.Step[*ecr.Client]{
		{Properties: []string{"RepositoryPolicyText"}, Run: setPolicy},
		{
			Properties: []string{"ImageTagMutability", "ImageTagMutabilityExclusionFilters"}, Update: true,
			Run: func(ctx context.Context, c *ecr.Client, r *resource.Request) error {
				in := &ecr.PutImageTagMutabilityInput{}
				if err := resource.Decode(mutability(r), in, members); err != nil {
					return err
				}
				in.RepositoryName = &r.PhysicalID
				_, err := c.PutImageTagMutability(ctx, in)
				return err
			},
		},
		{
			Properties: []string{"ImageScanningConfiguration"}, Update: true,
			Run: func(ctx context.Context, c *ecr.Client, r *resource.Request) error {
				in := &ecr.PutImageScanningConfigurationInput{
					ImageScanningConfiguration: &types.ImageScanningConfiguration{},
				}
				wanted := map[string]any{"ImageScanningConfiguration": r.Properties["ImageScanningConfiguration"]}
				if err := resource.Decode(wanted, in, nil); err != nil {
					return err
				}
				in.RepositoryName = &r.PhysicalID
				_, err := c.PutImageScanningConfiguration(ctx, in)
				return err
			},
		},
		{Properties: []string{"EmptyOnDelete"}, Update: true}, // for the deletion
		{Properties: []string{"Tags"}, Tags: true, Run: setTags},
	},
	Delete: func(ctx context.Context, c *ecr.Client, r *resource.Request) error {
		_, err := c.DeleteRepository(ctx, &ecr.DeleteRepositoryInput{
			RepositoryName: &r.PhysicalID, Force: aws.ToBool(r.Flag("EmptyOnDelete")),
		})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.Repository) map[string]any {
		return map[string]any{
			"Arn": aws.ToString(live.RepositoryArn), "RepositoryUri": aws.ToString(live.RepositoryUri),
		}
	},
	Properties: properties,
})

func nameOf(r *resource.Request) string {
	if name := r.Text("RepositoryName"); name != "" {
		return name
	}
	return r.Name
}

// mutability returns what the properties say of tags, which can be changed unless they say otherwise.
func mutability(r *resource.Request) map[string]any {
	wanted := map[string]any{"ImageTagMutability": string(types.ImageTagMutabilityMutable)}
	for _, name := range []string{"ImageTagMutability", "ImageTagMutabilityExclusionFilters"} {
		if value := r.Properties[name]; value != nil {
			wanted[name] = value
		}
	}
	return wanted
}

func setPolicy(ctx context.Context, c *ecr.Client, r *resource.Request) error {
	if r.Properties["RepositoryPolicyText"] != nil {
		_, err := c.SetRepositoryPolicy(ctx, &ecr.SetRepositoryPolicyInput{
			RepositoryName: &r.PhysicalID, PolicyText: r.Pointer("RepositoryPolicyText"),
		})
		return err
	}
	_, err := c.DeleteRepositoryPolicy(ctx, &ecr.DeleteRepositoryPolicyInput{RepositoryName: &r.PhysicalID})
	if resource.HasCode(err, "RepositoryPolicyNotFoundException") {
		return nil
	}
	return err
}

func repositoryARN(r *resource.Request) *string {
	return aws.String("arn:" + r.Partition + ":ecr:" + r.Region + ":" + r.Account + ":repository/" + r.PhysicalID)
}

func tagsOf(ctx context.Context, c *ecr.Client, r *resource.Request) (map[string]string, error) {
	out, err := c.ListTagsForResource(ctx, &ecr.ListTagsForResourceInput{ResourceArn: repositoryARN(r)})
	if err != nil {
		return nil, err
	}
	tags := make(map[string]string, len(out.Tags))
	for _, t := range out.Tags {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags, nil
}

func setTags(ctx context.Context, c *ecr.Client, r *resource.Request) error {
	set, removed := r.TagChanges("Tags")
	if len(removed) > 0 {
		_, err := c.UntagResource(ctx, &ecr.UntagResourceInput{ResourceArn: repositoryARN(r), TagKeys: removed})
		if err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := c.TagResource(ctx, &ecr.TagResourceInput{
		ResourceArn: repositoryARN(r), Tags: resource.TagList(set, newTag),
	})
	return err
}

func properties(
	ctx context.Context, c *ecr.Client, r *resource.Request, live *types.Repository,
) (map[string]any, error) {
	all := resource.Encode(live, members)
	for _, name := range []string{"RepositoryArn", "RepositoryUri", "RegistryId", "CreatedAt"} {
		delete(all, name)
	}
	out, err := c.GetRepositoryPolicy(ctx, &ecr.GetRepositoryPolicyInput{RepositoryName: &r.PhysicalID})
	switch {
	case err == nil:
		all["RepositoryPolicyText"] = resource.Document(aws.ToString(out.PolicyText))
	case !resource.HasCode(err, "RepositoryPolicyNotFoundException"):
		return nil, err
	}
	tags, err := tagsOf(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if own := resource.TagObjects(r.LiveTags("Tags", tags)); own != nil {
		all["Tags"] = own
	}
	return all, nil
}

// rules is the handler of AWS::ECR::PullThroughCacheRule. All its properties are fixed.
var rules = resource.Claim(resource.Table[*ecr.Client, types.PullThroughCacheRule]{
	Client: newClient,
	Create: resource.Create((*ecr.Client).CreatePullThroughCacheRule, nil,
		func(out *ecr.CreatePullThroughCacheRuleOutput) *string { return out.EcrRepositoryPrefix }),
	Describe: func(ctx context.Context, c *ecr.Client, r *resource.Request) (*types.PullThroughCacheRule, error) {
		out, err := c.DescribePullThroughCacheRules(ctx, &ecr.DescribePullThroughCacheRulesInput{
			EcrRepositoryPrefixes: []string{r.PhysicalID},
		})
		if err != nil {
			return nil, err
		}
		return &out.PullThroughCacheRules[0], nil
	},
	Delete: func(ctx context.Context, c *ecr.Client, r *resource.Request) error {
		_, err := c.DeletePullThroughCacheRule(ctx,
			&ecr.DeletePullThroughCacheRuleInput{EcrRepositoryPrefix: &r.PhysicalID})
		return err
	},
	Properties: func(
		_ context.Context, _ *ecr.Client, _ *resource.Request, live *types.PullThroughCacheRule,
	) (map[string]any, error) {
		all := resource.Encode(live, nil)
		for _, name := range []string{"CreatedAt", "UpdatedAt", "RegistryId"} {
			delete(all, name)
		}
		return all, nil
	},
}, func(r *resource.Request) (string, bool) { return r.Text("EcrRepositoryPrefix"), false })
