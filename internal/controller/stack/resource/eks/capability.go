package eks

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// capabilityUpdatable are the properties that UpdateCapability changes.
var capabilityUpdatable = []string{"Configuration", "DeletePropagationPolicy", "RoleArn"}

// capabilities is the handler of AWS::EKS::Capability. The physical ID is the ARN, which ends in
// <cluster>/<type>/<name>/<ID>.
var capabilities = updater[types.Capability]{
	Handler: resource.Handle(resource.Table[*eks.Client, types.Capability]{
		Client: newClient,
		Create: resource.Create((*eks.Client).CreateCapability, resource.Members{"Tags": resource.Left},
			func(out *eks.CreateCapabilityOutput) *string { return out.Capability.Arn },
			func(r *resource.Request, in *eks.CreateCapabilityInput) error {
				in.Tags = r.Wanted("Tags")
				return nil
			}),
		Find: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			out, err := c.DescribeCapability(ctx, &eks.DescribeCapabilityInput{
				ClusterName: r.Pointer("ClusterName"), CapabilityName: r.Pointer("CapabilityName"),
			})
			if err != nil {
				return "", err
			}
			if !r.Owns(out.Capability.Tags) {
				return "", resource.ErrNotFound
			}
			return aws.ToString(out.Capability.Arn), nil
		},
		Describe: describeCapability,
		State:    capabilityState,
		Configure: []resource.Step[*eks.Client]{
			setTags(func(_ context.Context, _ *eks.Client, r *resource.Request) (string, error) { return r.PhysicalID, nil }),
			{Update: true, Properties: capabilityUpdatable},
		},
		Delete: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
			cluster, name := capabilityOf(r)
			_, err := c.DeleteCapability(ctx, &eks.DeleteCapabilityInput{ClusterName: cluster, CapabilityName: name})
			return err
		},
		Slow: true,
		Attributes: func(_ *resource.Request, live *types.Capability) map[string]any {
			attributes := map[string]any{
				"Arn": aws.ToString(live.Arn), "Status": string(live.Status), "Version": aws.ToString(live.Version),
				"CreatedAt": timestamp(live.CreatedAt), "ModifiedAt": timestamp(live.ModifiedAt),
			}
			if c := live.Configuration; c != nil && c.ArgoCd != nil {
				attributes["Configuration.ArgoCd.ServerUrl"] = aws.ToString(c.ArgoCd.ServerUrl)
				if c.ArgoCd.AwsIdc != nil {
					attributes["Configuration.ArgoCd.AwsIdc.IdcManagedApplicationArn"] =
						aws.ToString(c.ArgoCd.AwsIdc.IdcManagedApplicationArn)
				}
			}
			return attributes
		},
		Properties: capabilityProperties,
		Poll:       poll,
	}),
	describe: describeCapability,
	busy:     func(live *types.Capability) bool { return live.Status == types.CapabilityStatusUpdating },
	of: func(r *resource.Request, in *eks.DescribeUpdateInput) {
		in.Name, in.CapabilityName = capabilityOf(r)
	},
	changes: []change[types.Capability]{{
		due: func(r *resource.Request, _ *types.Capability) (bool, error) {
			return r.Changed(capabilityUpdatable...), nil
		},
		start: func(ctx context.Context, c *eks.Client, r *resource.Request, token *string) (*types.Update, error) {
			in := &eks.UpdateCapabilityInput{}
			if err := resource.Decode(pick(r.Properties, "DeletePropagationPolicy", "RoleArn"), in, nil); err != nil {
				return nil, err
			}
			in.ClusterName, in.CapabilityName = capabilityOf(r)
			in.ClientRequestToken = token
			out, err := c.UpdateCapability(ctx, in)
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		},
	}},
}

// capabilityOf returns the cluster and the name of a capability from its ARN.
func capabilityOf(r *resource.Request) (cluster, name *string) {
	parts := strings.Split(r.PhysicalID, "/")
	const fromEnd = 4
	if len(parts) <= fromEnd {
		return nil, nil
	}
	return aws.String(parts[len(parts)-fromEnd]), aws.String(parts[len(parts)-2])
}

// timestamp words a time as CloudFormation does; "" for none.
func timestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func describeCapability(ctx context.Context, c *eks.Client, r *resource.Request) (*types.Capability, error) {
	cluster, name := capabilityOf(r)
	out, err := c.DescribeCapability(ctx, &eks.DescribeCapabilityInput{ClusterName: cluster, CapabilityName: name})
	if err != nil {
		return nil, err
	}
	if aws.ToString(out.Capability.Arn) != r.PhysicalID { // another one has the name now
		return nil, resource.ErrNotFound
	}
	return out.Capability, nil
}

// capabilityState tells how far a capability is. One that is degraded is made.
func capabilityState(live *types.Capability) (resource.State, error) {
	switch live.Status {
	case types.CapabilityStatusCreating, types.CapabilityStatusUpdating:
		return resource.Creating, nil
	case types.CapabilityStatusDeleting:
		return resource.Deleting, nil
	case types.CapabilityStatusCreateFailed, types.CapabilityStatusDeleteFailed:
		var issues []string
		if live.Health != nil {
			for _, i := range live.Health.Issues {
				issues = append(issues, issue(string(i.Code), aws.ToString(i.Message), nil))
			}
		}
		return resource.Deleting,
			failure("Capability "+aws.ToString(live.CapabilityName), string(live.Status), issues)
	}
	return resource.Ready, nil
}

func capabilityProperties(
	_ context.Context, _ *eks.Client, r *resource.Request, live *types.Capability,
) (map[string]any, error) {
	properties := pick(resource.Encode(live, nil), "CapabilityName", "ClusterName", "DeletePropagationPolicy", "RoleArn",
		"Type")
	if c := live.Configuration; c != nil && (c.Ack != nil || c.ArgoCd != nil) {
		properties["Configuration"] = resource.Encode(c, nil)
	}
	setLiveTags(r, properties, live.Tags)
	return properties, nil
}
