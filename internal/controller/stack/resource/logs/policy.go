package logs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// policies is the handler of AWS::Logs::ResourcePolicy.
var policies = resource.Claim(resource.Table[*client, types.ResourcePolicy]{
	Client: newClient,
	Create: func(ctx context.Context, c *client, r *resource.Request) (string, error) {
		called := *r
		called.PhysicalID = r.Text("PolicyName")
		if err := putPolicy(ctx, c, &called); err != nil {
			return "", err
		}
		return called.PhysicalID, nil
	},
	Describe: func(ctx context.Context, c *client, r *resource.Request) (*types.ResourcePolicy, error) {
		out, err := c.DescribeResourcePolicies(ctx, &cloudwatchlogs.DescribeResourcePoliciesInput{})
		if err != nil {
			return nil, err
		}
		for _, p := range out.ResourcePolicies { // an account has ten, and a page fifty
			if aws.ToString(p.PolicyName) == r.PhysicalID {
				return &p, nil
			}
		}
		return nil, resource.ErrNotFound
	},
	Configure: []resource.Step[*client]{{Properties: []string{"PolicyDocument"}, Update: true, Run: putPolicy}},
	Delete: func(ctx context.Context, c *client, r *resource.Request) error {
		_, err := c.DeleteResourcePolicy(ctx, &cloudwatchlogs.DeleteResourcePolicyInput{PolicyName: &r.PhysicalID})
		return err
	},
	Properties: func(_ context.Context, _ *client, _ *resource.Request, live *types.ResourcePolicy) (
		map[string]any, error) {
		return map[string]any{"PolicyName": aws.ToString(live.PolicyName),
			"PolicyDocument": resource.Document(aws.ToString(live.PolicyDocument))}, nil
	},
}, func(r *resource.Request) (string, bool) { return r.Text("PolicyName"), false })

func putPolicy(ctx context.Context, c *client, r *resource.Request) error {
	_, err := c.PutResourcePolicy(ctx, &cloudwatchlogs.PutResourcePolicyInput{PolicyName: &r.PhysicalID,
		PolicyDocument: r.Pointer("PolicyDocument")})
	return err
}

// groupPolicy returns the policy that is attached to a log group, nil for none.
func groupPolicy(ctx context.Context, c *client, r *resource.Request) (*types.ResourcePolicy, error) {
	out, err := c.DescribeResourcePolicies(ctx, &cloudwatchlogs.DescribeResourcePoliciesInput{
		PolicyScope: types.PolicyScopeResource, ResourceArn: groupARN(r)})
	if err != nil || len(out.ResourcePolicies) == 0 {
		return nil, err
	}
	return &out.ResourcePolicies[0], nil
}

// setGroupPolicy attaches a policy to a log group, or takes it away.
func setGroupPolicy(ctx context.Context, c *client, r *resource.Request) error {
	live, err := groupPolicy(ctx, c, r)
	if err != nil {
		return err
	}
	wanted := r.Pointer("ResourcePolicyDocument")
	switch {
	case wanted == nil && live == nil:
		return nil
	case wanted == nil:
		_, err := c.DeleteResourcePolicy(ctx, &cloudwatchlogs.DeleteResourcePolicyInput{ResourceArn: groupARN(r),
			ExpectedRevisionId: live.RevisionId})
		return err
	}
	in := &cloudwatchlogs.PutResourcePolicyInput{ResourceArn: groupARN(r), PolicyDocument: wanted}
	if live != nil {
		in.ExpectedRevisionId = live.RevisionId
	}
	_, err = c.PutResourcePolicy(ctx, in)
	return err
}
