package eks

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// identityProviders is the handler of AWS::EKS::IdentityProviderConfig. The physical ID is <name>|<cluster>|<type>. EKS
// associates and disassociates a provider in an update of the cluster.
var identityProviders = resource.Handle(resource.Table[*eks.Client, types.OidcIdentityProviderConfig]{
	Client: newClient,
	Create: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
		oidc := &types.OidcIdentityProviderConfigRequest{}
		config, _ := r.Properties["Oidc"].(map[string]any)
		members := resource.Members{"RequiredClaims": resource.Left}
		if err := resource.Decode(config, oidc, members); err != nil {
			return "", err
		}
		oidc.IdentityProviderConfigName = aws.String(providerName(r))
		if claims := resource.OwnTags(config["RequiredClaims"]); len(claims) > 0 { // a list of {Key, Value}, as tags are
			oidc.RequiredClaims = claims
		}
		_, err := c.AssociateIdentityProviderConfig(ctx, &eks.AssociateIdentityProviderConfigInput{
			ClusterName: r.Pointer("ClusterName"), ClientRequestToken: aws.String(r.Token), Oidc: oidc,
			Tags: r.Wanted("Tags"),
		})
		if err != nil {
			return "", err
		}
		return providerID(r), nil
	},
	Find: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
		called := *r
		called.PhysicalID = providerID(r)
		live, err := describeProvider(ctx, c, &called)
		if err == nil && !r.Owns(live.Tags) {
			err = resource.ErrNotFound
		}
		return called.PhysicalID, err
	},
	Describe: describeProvider,
	State: func(live *types.OidcIdentityProviderConfig) (resource.State, error) {
		switch live.Status {
		case types.ConfigStatusCreating:
			return resource.Creating, nil
		case types.ConfigStatusDeleting:
			return resource.Deleting, nil
		}
		return resource.Ready, nil
	},
	Configure: []resource.Step[*eks.Client]{
		setTags(func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			live, err := describeProvider(ctx, c, r)
			if err != nil {
				return "", err
			}
			return aws.ToString(live.IdentityProviderConfigArn), nil
		}),
	},
	Delete: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
		_, err := c.DisassociateIdentityProviderConfig(ctx, &eks.DisassociateIdentityProviderConfigInput{
			ClusterName: aws.String(idPart(r, "|", 1)), ClientRequestToken: aws.String(r.Token),
			IdentityProviderConfig: providerRef(r),
		})
		return err
	},
	Slow: true,
	Attributes: func(_ *resource.Request, live *types.OidcIdentityProviderConfig) map[string]any {
		return map[string]any{"IdentityProviderConfigArn": aws.ToString(live.IdentityProviderConfigArn)}
	},
	Properties: func(
		_ context.Context, _ *eks.Client, r *resource.Request, live *types.OidcIdentityProviderConfig,
	) (map[string]any, error) {
		described := resource.Encode(live, nil)
		oidc := pick(described, "ClientId", "GroupsClaim", "GroupsPrefix", "IssuerUrl", "UsernameClaim", "UsernamePrefix")
		var claims []any
		for _, key := range slices.Sorted(maps.Keys(live.RequiredClaims)) {
			claims = append(claims, map[string]any{"Key": key, "Value": live.RequiredClaims[key]})
		}
		if claims != nil {
			oidc["RequiredClaims"] = claims
		}
		properties := pick(described, "ClusterName", "IdentityProviderConfigName")
		properties["Oidc"], properties["Type"] = oidc, idPart(r, "|", 2)
		setLiveTags(r, properties, live.Tags)
		return properties, nil
	},
	Poll: poll,
})

func providerName(r *resource.Request) string {
	if name := r.Text("IdentityProviderConfigName"); name != "" {
		return name
	}
	return r.Name
}

func providerID(r *resource.Request) string {
	return providerName(r) + "|" + r.Text("ClusterName") + "|" + r.Text("Type")
}

func providerRef(r *resource.Request) *types.IdentityProviderConfig {
	return &types.IdentityProviderConfig{Name: aws.String(idPart(r, "|", 0)), Type: aws.String(idPart(r, "|", 2))}
}

func describeProvider(
	ctx context.Context, c *eks.Client, r *resource.Request,
) (*types.OidcIdentityProviderConfig, error) {
	out, err := c.DescribeIdentityProviderConfig(ctx, &eks.DescribeIdentityProviderConfigInput{
		ClusterName: aws.String(idPart(r, "|", 1)), IdentityProviderConfig: providerRef(r),
	})
	if err != nil {
		return nil, err
	}
	if out.IdentityProviderConfig == nil || out.IdentityProviderConfig.Oidc == nil {
		return nil, resource.ErrNotFound
	}
	return out.IdentityProviderConfig.Oidc, nil
}
