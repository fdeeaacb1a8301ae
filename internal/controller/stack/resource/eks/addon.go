package eks

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// addons is the handler of AWS::EKS::Addon. The physical ID is <cluster>|<add-on>.
var addons = updater[types.Addon]{
	Handler: resource.Handle(resource.Table[*eks.Client, types.Addon]{
		Client: newClient,
		Create: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			members := resource.Members{"Tags": resource.Left, "PreserveOnDelete": resource.Left}
			_, err := resource.Create((*eks.Client).CreateAddon, members,
				func(out *eks.CreateAddonOutput) *string { return out.Addon.AddonName },
				func(r *resource.Request, in *eks.CreateAddonInput) error {
					in.Tags = r.Wanted("Tags")
					return nil
				})(ctx, c, r)
			if err != nil {
				return "", err
			}
			return addonID(r), nil
		},
		Find: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			called := *r
			called.PhysicalID = addonID(r)
			live, err := describeAddon(ctx, c, &called)
			if err == nil && !r.Owns(live.Tags) {
				err = resource.ErrNotFound
			}
			return called.PhysicalID, err
		},
		Describe: describeAddon,
		State:    addonState,
		Configure: []resource.Step[*eks.Client]{
			setTags(func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
				live, err := describeAddon(ctx, c, r)
				if err != nil {
					return "", err
				}
				return aws.ToString(live.AddonArn), nil
			}),
			{Update: true, Properties: append([]string{"PreserveOnDelete"}, addonUpdatable...)},
		},
		Delete: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
			_, err := c.DeleteAddon(ctx, &eks.DeleteAddonInput{
				ClusterName: aws.String(idPart(r, "|", 0)), AddonName: aws.String(idPart(r, "|", 1)),
				Preserve: aws.ToBool(r.Flag("PreserveOnDelete")),
			})
			return err
		},
		Slow: true,
		Attributes: func(_ *resource.Request, live *types.Addon) map[string]any {
			return map[string]any{"Arn": aws.ToString(live.AddonArn)}
		},
		Properties: addonProperties,
		Poll:       poll,
	}),
	describe: describeAddon,
	busy:     func(live *types.Addon) bool { return live.Status == types.AddonStatusUpdating },
	of: func(r *resource.Request, in *eks.DescribeUpdateInput) {
		in.Name, in.AddonName = aws.String(idPart(r, "|", 0)), aws.String(idPart(r, "|", 1))
	},
	changes: []change[types.Addon]{{
		due: func(r *resource.Request, _ *types.Addon) (bool, error) { return r.Changed(addonUpdatable...), nil },
		start: func(ctx context.Context, c *eks.Client, r *resource.Request, token *string) (*types.Update, error) {
			in, err := addonUpdate(r)
			if err != nil {
				return nil, err
			}
			in.ClientRequestToken = token
			out, err := c.UpdateAddon(ctx, in)
			if err != nil {
				return nil, err
			}
			return out.Update, nil
		},
	}},
}

// addonUpdatable are the properties that UpdateAddon changes.
var addonUpdatable = []string{
	"AddonVersion", "ConfigurationValues", "PodIdentityAssociations", "ResolveConflicts", "ServiceAccountRoleArn",
}

func addonID(r *resource.Request) string { return r.Text("ClusterName") + "|" + r.Text("AddonName") }

func describeAddon(ctx context.Context, c *eks.Client, r *resource.Request) (*types.Addon, error) {
	out, err := c.DescribeAddon(ctx, &eks.DescribeAddonInput{
		ClusterName: aws.String(idPart(r, "|", 0)), AddonName: aws.String(idPart(r, "|", 1)),
	})
	if err != nil {
		return nil, err
	}
	return out.Addon, nil
}

// addonState tells how far an add-on is. As on AWS one that is degraded is made: CoreDNS is, until there are nodes.
func addonState(live *types.Addon) (resource.State, error) {
	switch live.Status {
	case types.AddonStatusCreating, types.AddonStatusUpdating:
		return resource.Creating, nil
	case types.AddonStatusDeleting:
		return resource.Deleting, nil
	case types.AddonStatusCreateFailed, types.AddonStatusUpdateFailed, types.AddonStatusDeleteFailed:
		var issues []string
		if live.Health != nil {
			for _, i := range live.Health.Issues {
				issues = append(issues, issue(string(i.Code), aws.ToString(i.Message), i.ResourceIds))
			}
		}
		return resource.Deleting, failure("Addon "+aws.ToString(live.AddonName), string(live.Status), issues)
	}
	return resource.Ready, nil
}

// addonUpdate returns the request for an update. It has all that the template says: an update without a role takes the
// role away. What the template says no more is emptied.
func addonUpdate(r *resource.Request) (*eks.UpdateAddonInput, error) {
	in := &eks.UpdateAddonInput{}
	if err := resource.Decode(pick(r.Properties, addonUpdatable...), in, nil); err != nil {
		return nil, err
	}
	in.ClusterName, in.AddonName = aws.String(idPart(r, "|", 0)), aws.String(idPart(r, "|", 1))
	if in.ConfigurationValues == nil && r.Changed("ConfigurationValues") {
		in.ConfigurationValues = aws.String("")
	}
	if in.PodIdentityAssociations == nil && r.Changed("PodIdentityAssociations") {
		in.PodIdentityAssociations = []types.AddonPodIdentityAssociations{}
	}
	return in, nil
}

func addonProperties(
	ctx context.Context, c *eks.Client, r *resource.Request, live *types.Addon,
) (map[string]any, error) {
	properties := pick(resource.Encode(live, nil), "AddonName", "AddonVersion", "ClusterName", "ConfigurationValues",
		"NamespaceConfig", "ServiceAccountRoleArn")
	setLiveTags(r, properties, live.Tags)
	if len(live.PodIdentityAssociations) == 0 {
		return properties, nil
	}
	var associations []any
	pages := eks.NewListPodIdentityAssociationsPaginator(c,
		&eks.ListPodIdentityAssociationsInput{ClusterName: live.ClusterName})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range page.Associations {
			if aws.ToString(a.OwnerArn) != aws.ToString(live.AddonArn) {
				continue
			}
			out, err := c.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{
				ClusterName: live.ClusterName, AssociationId: a.AssociationId,
			})
			if err != nil {
				return nil, err
			}
			associations = append(associations, pick(resource.Encode(out.Association, nil), "ServiceAccount", "RoleArn"))
		}
	}
	if associations != nil {
		properties["PodIdentityAssociations"] = associations
	}
	return properties, nil
}
