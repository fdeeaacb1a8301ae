package iam

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

type oidcProvider = iam.GetOpenIDConnectProviderOutput

func getProvider(ctx context.Context, c *iam.Client, arn string) (*oidcProvider, error) {
	return c.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: &arn})
}

// oidcProviders is the handler of AWS::IAM::OIDCProvider. The physical ID is the ARN.
var oidcProviders = resource.Handle(resource.Table[*iam.Client, oidcProvider]{
	Client: newClient,
	Create: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		out, err := c.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{
			Url: aws.String(r.Text("Url")), ClientIDList: r.Texts("ClientIdList"),
			ThumbprintList: r.Texts("ThumbprintList"), Tags: wantedTags(r),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.OpenIDConnectProviderArn), nil
	},
	Find: func(ctx context.Context, c *iam.Client, r *resource.Request) (string, error) {
		arn := providerARN(r)
		live, err := getProvider(ctx, c, arn)
		if err != nil {
			return "", err
		}
		return ownedName(r, arn, live.Tags)
	},
	Describe: func(ctx context.Context, c *iam.Client, r *resource.Request) (*oidcProvider, error) {
		return getProvider(ctx, c, r.PhysicalID)
	},
	Configure: []resource.Step[*iam.Client]{
		{Properties: []string{"ClientIdList"}, Update: true, Run: setClientIDs},
		{
			Properties: []string{"ThumbprintList"}, Update: true,
			Run: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
				list := r.Texts("ThumbprintList")
				if list == nil {
					list = []string{}
				}
				_, err := c.UpdateOpenIDConnectProviderThumbprint(ctx, &iam.UpdateOpenIDConnectProviderThumbprintInput{
					OpenIDConnectProviderArn: &r.PhysicalID, ThumbprintList: list,
				})
				return err
			},
		},
		setTags(
			func(ctx context.Context, c *iam.Client, arn string, set map[string]string) error {
				_, err := c.TagOpenIDConnectProvider(ctx, &iam.TagOpenIDConnectProviderInput{
					OpenIDConnectProviderArn: &arn, Tags: resource.TagList(set, newTag),
				})
				return err
			},
			func(ctx context.Context, c *iam.Client, arn string, keys []string) error {
				_, err := c.UntagOpenIDConnectProvider(ctx, &iam.UntagOpenIDConnectProviderInput{
					OpenIDConnectProviderArn: &arn, TagKeys: keys,
				})
				return err
			},
		),
	},
	Delete: func(ctx context.Context, c *iam.Client, r *resource.Request) error {
		_, err := c.DeleteOpenIDConnectProvider(ctx,
			&iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: &r.PhysicalID})
		return err
	},
	Attributes: func(r *resource.Request, _ *oidcProvider) map[string]any {
		return map[string]any{"Arn": r.PhysicalID}
	},
	Properties: func(_ context.Context, _ *iam.Client, r *resource.Request, live *oidcProvider) (map[string]any, error) {
		properties := map[string]any{"Url": "https://" + aws.ToString(live.Url)}
		for property, list := range map[string][]string{
			"ClientIdList": live.ClientIDList, "ThumbprintList": live.ThumbprintList,
		} {
			if len(list) > 0 {
				properties[property] = anyList(list)
			}
		}
		setLiveTags(r, properties, live.Tags)
		return properties, nil
	},
})

// providerARN returns the ARN that the provider of the property Url has: its host and path.
func providerARN(r *resource.Request) string {
	host, path, _ := strings.Cut(strings.TrimPrefix(r.Text("Url"), "https://"), "/")
	issuer := strings.TrimSuffix(strings.TrimSuffix(host, ":443")+"/"+path, "/")
	return "arn:" + r.Partition + ":iam::" + r.Account + ":oidc-provider/" + issuer
}

// setClientIDs makes the audiences of a provider those of the property ClientIdList. Both calls succeed where they have
// nothing to do.
func setClientIDs(ctx context.Context, c *iam.Client, r *resource.Request) error {
	return changeList(r.Texts("ClientIdList"), resource.Texts(r.Previous["ClientIdList"]),
		func(id string) error {
			_, err := c.AddClientIDToOpenIDConnectProvider(ctx, &iam.AddClientIDToOpenIDConnectProviderInput{
				OpenIDConnectProviderArn: &r.PhysicalID, ClientID: &id,
			})
			return err
		},
		func(id string) error {
			_, err := c.RemoveClientIDFromOpenIDConnectProvider(ctx, &iam.RemoveClientIDFromOpenIDConnectProviderInput{
				OpenIDConnectProviderArn: &r.PhysicalID, ClientID: &id,
			})
			return err
		})
}
