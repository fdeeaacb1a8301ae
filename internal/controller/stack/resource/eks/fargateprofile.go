package eks

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// fargateProfiles is the handler of AWS::EKS::FargateProfile. The physical ID is <cluster>|<profile>.
var fargateProfiles = resource.Handle(resource.Table[*eks.Client, types.FargateProfile]{
	Client: newClient,
	Create: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
		members := resource.Members{"Tags": resource.Left, "Selectors": resource.Left}
		_, err := resource.Create((*eks.Client).CreateFargateProfile, members,
			func(out *eks.CreateFargateProfileOutput) *string { return out.FargateProfile.FargateProfileName },
			func(r *resource.Request, in *eks.CreateFargateProfileInput) error {
				in.FargateProfileName, in.Tags = aws.String(fargateProfileName(r)), r.Wanted("Tags")
				in.Selectors = fargateSelectors(r)
				return nil
			})(ctx, c, r)
		if err != nil {
			return "", oneByOne(err)
		}
		return fargateProfileID(r), nil
	},
	Find: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
		called := *r
		called.PhysicalID = fargateProfileID(r)
		live, err := describeFargateProfile(ctx, c, &called)
		if err == nil && !r.Owns(live.Tags) {
			err = resource.ErrNotFound
		}
		return called.PhysicalID, err
	},
	Describe: describeFargateProfile,
	State:    fargateProfileState,
	Configure: []resource.Step[*eks.Client]{
		setTags(func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			live, err := describeFargateProfile(ctx, c, r)
			if err != nil {
				return "", err
			}
			return aws.ToString(live.FargateProfileArn), nil
		}),
	},
	Delete: func(ctx context.Context, c *eks.Client, r *resource.Request) error {
		_, err := c.DeleteFargateProfile(ctx, &eks.DeleteFargateProfileInput{
			ClusterName: aws.String(idPart(r, "|", 0)), FargateProfileName: aws.String(idPart(r, "|", 1)),
		})
		return err
	},
	Slow: true,
	Attributes: func(_ *resource.Request, live *types.FargateProfile) map[string]any {
		return map[string]any{"Arn": aws.ToString(live.FargateProfileArn)}
	},
	Properties: fargateProfileProperties,
	Poll:       poll,
})

func fargateProfileName(r *resource.Request) string {
	if name := r.Text("FargateProfileName"); name != "" {
		return name
	}
	return r.Name
}

func fargateProfileID(r *resource.Request) string {
	return r.Text("ClusterName") + "|" + fargateProfileName(r)
}

// fargateSelectors returns the selectors of a request. Their labels are a map in the API, and a list in templates.
func fargateSelectors(r *resource.Request) []types.FargateProfileSelector {
	var selectors []types.FargateProfileSelector
	for _, s := range r.Objects("Selectors") {
		selector := types.FargateProfileSelector{Namespace: aws.String(resource.Text(s["Namespace"]))}
		for _, label := range resource.Objects(s["Labels"]) {
			if selector.Labels == nil {
				selector.Labels = map[string]string{}
			}
			selector.Labels[resource.Text(label["Key"])] = resource.Text(label["Value"])
		}
		selectors = append(selectors, selector)
	}
	return selectors
}

// oneByOne returns the error of a creation: as a conflict, after which it is tried again, where another profile of the
// cluster is under way. EKS has the same code for that and for a name in use.
func oneByOne(err error) error {
	var used *types.ResourceInUseException
	if errors.As(err, &used) && strings.Contains(used.ErrorMessage(), "currently has Fargate profile") {
		return &resource.Error{Code: resource.ResourceConflict, Err: err}
	}
	return err
}

func describeFargateProfile(ctx context.Context, c *eks.Client, r *resource.Request) (*types.FargateProfile, error) {
	out, err := c.DescribeFargateProfile(ctx, &eks.DescribeFargateProfileInput{
		ClusterName: aws.String(idPart(r, "|", 0)), FargateProfileName: aws.String(idPart(r, "|", 1)),
	})
	if err != nil {
		return nil, err
	}
	return out.FargateProfile, nil
}

// fargateProfileState tells how far a profile is.
func fargateProfileState(live *types.FargateProfile) (resource.State, error) {
	switch live.Status {
	case types.FargateProfileStatusCreating:
		return resource.Creating, nil
	case types.FargateProfileStatusDeleting:
		return resource.Deleting, nil
	case types.FargateProfileStatusCreateFailed, types.FargateProfileStatusDeleteFailed:
		var issues []string
		if live.Health != nil {
			for _, i := range live.Health.Issues {
				issues = append(issues, issue(string(i.Code), aws.ToString(i.Message), i.ResourceIds))
			}
		}
		return resource.Deleting,
			failure("Fargate profile "+aws.ToString(live.FargateProfileName), string(live.Status), issues)
	}
	return resource.Ready, nil
}

func fargateProfileProperties(
	_ context.Context, _ *eks.Client, r *resource.Request, live *types.FargateProfile,
) (map[string]any, error) {
	properties := pick(resource.Encode(live, nil), "ClusterName", "FargateProfileName", "PodExecutionRoleArn", "Subnets")
	var selectors []any
	for _, s := range live.Selectors {
		selector := map[string]any{"Namespace": aws.ToString(s.Namespace)}
		if labels := resource.TagObjects(s.Labels); labels != nil {
			selector["Labels"] = labels
		}
		selectors = append(selectors, selector)
	}
	properties["Selectors"] = selectors
	setLiveTags(r, properties, live.Tags)
	return properties, nil
}
