package eks

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// associations is the handler of AWS::EKS::PodIdentityAssociation. The physical ID is the ARN, which ends in
// <cluster>/<ID>.
var associations = resource.Handle(resource.Table[*eks.Client, types.PodIdentityAssociation]{
	Client: newClient,
	Create: resource.Create((*eks.Client).CreatePodIdentityAssociation, resource.Members{"Tags": resource.Left},
		func(out *eks.CreatePodIdentityAssociationOutput) *string { return out.Association.AssociationArn },
		func(r *resource.Request, in *eks.CreatePodIdentityAssociationInput) error {
			in.Tags = r.Wanted("Tags")
			return nil
		}),
	Find:     findAssociation,
	Describe: describeAssociation,
	Configure: []resource.Step[*eks.Client]{
		{
			Properties: []string{"DisableSessionTags", "Policy", "RoleArn", "TargetRoleArn"}, Update: true,
			Run: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
				cluster, id := associationOf(r)
				_, err := c.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{
					ClusterName: cluster, AssociationId: id, RoleArn: r.Pointer("RoleArn"),
					DisableSessionTags: aws.Bool(aws.ToBool(r.Flag("DisableSessionTags"))),
					Policy:             aws.String(r.Text("Policy")), TargetRoleArn: aws.String(r.Text("TargetRoleArn")),
				})
				return err
			},
		},
		setTags(func(_ context.Context, _ *eks.Client, r *resource.Request) (string, error) { return r.PhysicalID, nil }),
	},
	Delete: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
		cluster, id := associationOf(r)
		_, err := c.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{
			ClusterName: cluster, AssociationId: id,
		})
		return err
	},
	Attributes: func(_ *resource.Request, live *types.PodIdentityAssociation) map[string]any {
		return map[string]any{
			"AssociationArn": aws.ToString(live.AssociationArn), "AssociationId": aws.ToString(live.AssociationId),
			"ExternalId": aws.ToString(live.ExternalId),
		}
	},
	Properties: func(
		_ context.Context, _ *eks.Client, r *resource.Request, live *types.PodIdentityAssociation,
	) (map[string]any, error) {
		properties := pick(resource.Encode(live, nil), "ClusterName", "DisableSessionTags", "Namespace", "Policy",
			"RoleArn", "ServiceAccount", "TargetRoleArn")
		setLiveTags(r, properties, live.Tags)
		return properties, nil
	},
})

// associationOf returns the cluster and the ID of an association from its ARN.
func associationOf(r *resource.Request) (cluster, id *string) {
	parts := strings.Split(r.PhysicalID, "/")
	if len(parts) < 3 {
		return nil, nil
	}
	return aws.String(parts[len(parts)-2]), aws.String(parts[len(parts)-1])
}

func describeAssociation(
	ctx context.Context, c *eks.Client, r *resource.Request,
) (*types.PodIdentityAssociation, error) {
	cluster, id := associationOf(r)
	out, err := c.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{
		ClusterName: cluster, AssociationId: id,
	})
	if err != nil {
		return nil, err
	}
	return out.Association, nil
}

// findAssociation returns the association of the service account, if this stack has made it.
func findAssociation(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
	out, err := c.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{
		ClusterName: r.Pointer("ClusterName"), Namespace: r.Pointer("Namespace"),
		ServiceAccount: r.Pointer("ServiceAccount"),
	})
	if err != nil {
		return "", err
	}
	for _, a := range out.Associations { // there is one at most
		called := *r
		called.PhysicalID = aws.ToString(a.AssociationArn)
		live, err := describeAssociation(ctx, c, &called)
		if err != nil {
			return "", err
		}
		if r.Owns(live.Tags) {
			return called.PhysicalID, nil
		}
	}
	return "", resource.ErrNotFound
}
