// Package logs has the handlers of the CloudFormation resource types of Amazon CloudWatch Logs: AWS::Logs::*, of what
// is served. Each is a client of CloudWatch Logs, signed as the caller or as the service role of the stack.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_Logs.html
package logs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// Types are the resource types of CloudWatch Logs.
var Types = map[string]resource.Type{
	"AWS::Logs::Delivery": {
		Handler: deliveries, Tagged: true, Refused: []string{"S3EnableHiveCompatiblePath", "S3SuffixPath"},
	},
	"AWS::Logs::DeliveryDestination": {
		Handler: destinations, Names: []string{"Name"}, Tagged: true,
		Refused: []string{"DeliveryDestinationPolicy"},
	},
	"AWS::Logs::DeliverySource": {
		Handler: sources, Names: []string{"Name"}, Tagged: true,
		Refused:  []string{"DeliverySourceConfiguration"},
		Volatile: []string{"Status", "StatusReason"}, // of the load balancer
	},
	"AWS::Logs::LogGroup": {
		Handler: groups, NameLimit: 512, Names: []string{"LogGroupName"}, Tagged: true,
		Refused: []string{"BearerTokenAuthenticationEnabled", "DataProtectionPolicy", "FieldIndexPolicies"},
	},
	"AWS::Logs::LogStream":       {Handler: streams, NameLimit: 512, Names: []string{"LogStreamName"}},
	"AWS::Logs::QueryDefinition": {Handler: definitions},
	"AWS::Logs::ResourcePolicy":  {Handler: policies, Names: []string{"PolicyName"}},
}

type client = cloudwatchlogs.Client

func newClient(c aws.Config) *client { return cloudwatchlogs.NewFromConfig(c) }

// nameOf returns the name of the resource: the custom one of a property, or the generated one.
func nameOf(r *resource.Request, property string) string {
	if name := r.Text(property); name != "" {
		return name
	}
	return r.Name
}

// groups is the handler of AWS::Logs::LogGroup.
var groups = resource.Handle(resource.Table[*client, types.LogGroup]{
	Client: newClient,
	Create: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		in := &cloudwatchlogs.CreateLogGroupInput{
			LogGroupName: aws.String(nameOf(r, "LogGroupName")), KmsKeyId: r.Pointer("KmsKeyId"),
			LogGroupClass:             types.LogGroupClass(r.Text("LogGroupClass")),
			DeletionProtectionEnabled: r.Flag("DeletionProtectionEnabled"), Tags: r.Wanted("Tags"),
		}
		_, err := c.CreateLogGroup(ctx, in)
		if err != nil {
			return "", err
		}
		return *in.LogGroupName, nil
	},
	Find: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		called := *r
		called.PhysicalID = nameOf(r, "LogGroupName")
		tags, err := groupTags(ctx, c, &called)
		if err == nil && !r.Owns(tags) {
			err = resource.ErrNotFound
		}
		return called.PhysicalID, err
	},
	Describe: func(ctx context.Context, c *client, r *resource.Request) (*types.LogGroup, error) {
		// Groups come by name: the first one with the prefix is the one with the name, if there is one.
		out, err := c.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{
			LogGroupNamePrefix: &r.PhysicalID, Limit: aws.Int32(1),
		})
		if err != nil {
			return nil, err
		}
		if len(out.LogGroups) == 0 || aws.ToString(out.LogGroups[0].LogGroupName) != r.PhysicalID {
			return nil, resource.ErrNotFound
		}
		return &out.LogGroups[0], nil
	},
	Configure: []resource.Step[*client]{
		{Properties: []string{"RetentionInDays"}, Run: setRetention},
		{Properties: []string{"KmsKeyId"}, Update: true, Run: setKey},
		{
			Properties: []string{"DeletionProtectionEnabled"}, Update: true,
			Run: func(ctx context.Context, c *client, r *resource.Request) error {
				_, err := c.PutLogGroupDeletionProtection(ctx, &cloudwatchlogs.PutLogGroupDeletionProtectionInput{
					LogGroupIdentifier:        &r.PhysicalID,
					DeletionProtectionEnabled: aws.Bool(aws.ToBool(r.Flag("DeletionProtectionEnabled"))),
				})
				return err
			},
		},
		{Properties: []string{"ResourcePolicyDocument"}, Run: setGroupPolicy},
		setTags(groupARN),
	},
	Delete: func(ctx context.Context, c *client, r *resource.Request) error {
		_, err := c.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: &r.PhysicalID})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.LogGroup) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.Arn)}
	},
	Properties: func(ctx context.Context, c *client, r *resource.Request, live *types.LogGroup) (map[string]any, error) {
		tags, err := groupTags(ctx, c, r)
		if err != nil {
			return nil, err
		}
		properties := map[string]any{}
		described := resource.Encode(live, nil)
		for _, name := range []string{
			"LogGroupName", "LogGroupClass", "RetentionInDays", "KmsKeyId", "DeletionProtectionEnabled",
		} {
			if value, ok := described[name]; ok {
				properties[name] = value
			}
		}
		if r.Properties["ResourcePolicyDocument"] != nil {
			policy, err := groupPolicy(ctx, c, r)
			if err != nil {
				return nil, err
			}
			if policy != nil {
				properties["ResourcePolicyDocument"] = resource.Document(aws.ToString(policy.PolicyDocument))
			}
		}
		if own := resource.TagObjects(r.LiveTags("Tags", tags)); own != nil {
			properties["Tags"] = own
		}
		return properties, nil
	},
})

// arnOf returns the ARN of a resource of a kind, such as "log-group", whose physical ID is its name.
func arnOf(kind string, r *resource.Request) *string {
	return aws.String("arn:" + r.Partition + ":logs:" + r.Region + ":" + r.Account + ":" + kind + ":" + r.PhysicalID)
}

func groupARN(r *resource.Request) *string { return arnOf("log-group", r) }

func groupTags(ctx context.Context, c *client, r *resource.Request) (map[string]string, error) {
	out, err := c.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: groupARN(r)})
	if err != nil {
		return nil, err
	}
	return out.Tags, nil
}

func setRetention(ctx context.Context, c *client, r *resource.Request) error {
	days := r.Int32("RetentionInDays")
	if days == nil {
		_, err := c.DeleteRetentionPolicy(ctx, &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: &r.PhysicalID})
		return err
	}
	_, err := c.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{
		LogGroupName: &r.PhysicalID, RetentionInDays: days,
	})
	return err
}

func setKey(ctx context.Context, c *client, r *resource.Request) error {
	key := r.Pointer("KmsKeyId")
	if key == nil {
		_, err := c.DisassociateKmsKey(ctx, &cloudwatchlogs.DisassociateKmsKeyInput{LogGroupName: &r.PhysicalID})
		return err
	}
	_, err := c.AssociateKmsKey(ctx, &cloudwatchlogs.AssociateKmsKeyInput{LogGroupName: &r.PhysicalID, KmsKeyId: key})
	return err
}

// setTags returns the step that tags a resource, whose ARN arn returns.
func setTags(arn func(*resource.Request) *string) resource.Step[*client] {
	return resource.Step[*client]{
		Properties: []string{"Tags"}, Tags: true,
		Run: func(ctx context.Context, c *client, r *resource.Request) error {
			set, removed := r.TagChanges("Tags")
			if len(removed) > 0 {
				_, err := c.UntagResource(ctx, &cloudwatchlogs.UntagResourceInput{ResourceArn: arn(r), TagKeys: removed})
				if err != nil {
					return err
				}
			}
			if len(set) == 0 {
				return nil
			}
			_, err := c.TagResource(ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: arn(r), Tags: set})
			return err
		},
	}
}

// streams is the handler of AWS::Logs::LogStream. The physical ID is the name; the group is a property.
var streams = resource.Claim(resource.Table[*client, types.LogStream]{
	Client: newClient,
	Create: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		name := nameOf(r, "LogStreamName")
		_, err := c.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{
			LogGroupName: r.Pointer("LogGroupName"), LogStreamName: &name,
		})
		return name, err
	},
	Describe: func(ctx context.Context, c *client, r *resource.Request) (*types.LogStream, error) {
		out, err := c.DescribeLogStreams(ctx, &cloudwatchlogs.DescribeLogStreamsInput{
			LogGroupName: r.Pointer("LogGroupName"), LogStreamNamePrefix: &r.PhysicalID, Limit: aws.Int32(1),
		})
		if err != nil {
			return nil, err
		}
		if len(out.LogStreams) == 0 || aws.ToString(out.LogStreams[0].LogStreamName) != r.PhysicalID {
			return nil, resource.ErrNotFound
		}
		return &out.LogStreams[0], nil
	},
	Delete: func(ctx context.Context, c *client, r *resource.Request) error {
		_, err := c.DeleteLogStream(ctx, &cloudwatchlogs.DeleteLogStreamInput{
			LogGroupName: r.Pointer("LogGroupName"), LogStreamName: &r.PhysicalID,
		})
		return err
	},
	Properties: func(_ context.Context, _ *client, r *resource.Request, _ *types.LogStream) (map[string]any, error) {
		return map[string]any{"LogGroupName": r.Text("LogGroupName"), "LogStreamName": r.PhysicalID}, nil
	},
}, func(r *resource.Request) (string, bool) {
	return nameOf(r, "LogStreamName"), r.Text("LogStreamName") == ""
})

// definitions is the handler of AWS::Logs::QueryDefinition.
var definitions = resource.Handle(resource.Table[*client, types.QueryDefinition]{
	Client: newClient,
	Create: resource.Create((*client).PutQueryDefinition, nil,
		func(out *cloudwatchlogs.PutQueryDefinitionOutput) *string { return out.QueryDefinitionId },
		func(r *resource.Request, in *cloudwatchlogs.PutQueryDefinitionInput) error {
			sum := sha256.Sum256([]byte(r.Token)) // tokens have 36 characters or more here
			in.ClientToken = aws.String(hex.EncodeToString(sum[:]))
			return nil
		}),
	Describe: func(ctx context.Context, c *client, r *resource.Request) (*types.QueryDefinition, error) {
		in := &cloudwatchlogs.DescribeQueryDefinitionsInput{}
		for {
			out, err := c.DescribeQueryDefinitions(ctx, in)
			if err != nil {
				return nil, err
			}
			for _, d := range out.QueryDefinitions {
				if aws.ToString(d.QueryDefinitionId) == r.PhysicalID {
					return &d, nil
				}
			}
			if in.NextToken = out.NextToken; in.NextToken == nil {
				return nil, resource.ErrNotFound
			}
		}
	},
	Configure: []resource.Step[*client]{{
		Properties: []string{"LogGroupNames", "Name", "Parameters", "QueryLanguage", "QueryString"}, Update: true,
		Run: func(ctx context.Context, c *client, r *resource.Request) error {
			_, err := resource.Call(ctx, c, r, (*client).PutQueryDefinition, nil,
				func(r *resource.Request, in *cloudwatchlogs.PutQueryDefinitionInput) error {
					in.QueryDefinitionId, in.ClientToken = &r.PhysicalID, nil
					return nil
				})
			return err
		},
	}},
	Delete: func(ctx context.Context, c *client, r *resource.Request) error {
		_, err := c.DeleteQueryDefinition(ctx,
			&cloudwatchlogs.DeleteQueryDefinitionInput{QueryDefinitionId: &r.PhysicalID})
		return err
	},
	Attributes: func(r *resource.Request, _ *types.QueryDefinition) map[string]any {
		return map[string]any{"QueryDefinitionId": r.PhysicalID}
	},
	Properties: func(
		_ context.Context, _ *client, _ *resource.Request, live *types.QueryDefinition,
	) (map[string]any, error) {
		properties := resource.Encode(live, nil)
		delete(properties, "LastModified")
		delete(properties, "QueryDefinitionId")
		return properties, nil
	},
})
