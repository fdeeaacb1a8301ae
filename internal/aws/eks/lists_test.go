package eks_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
)

// What a cluster doesn't have is listed as nothing, not as an error.
func TestListsOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	ctx, c := t.Context(), aws.String("c")
	counts := map[string]func() (int, error){
		"nodegroups": func() (int, error) {
			o, err := w.Client.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: c})
			return len(o.Nodegroups), err
		},
		"fargate profiles": func() (int, error) {
			o, err := w.Client.ListFargateProfiles(ctx, &eks.ListFargateProfilesInput{ClusterName: c})
			return len(o.FargateProfileNames), err
		},
		"addons": func() (int, error) {
			o, err := w.Client.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: c})
			return len(o.Addons), err
		},
		"pod identity associations": func() (int, error) {
			o, err := w.Client.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: c})
			return len(o.Associations), err
		},
		"identity provider configs": func() (int, error) {
			o, err := w.Client.ListIdentityProviderConfigs(ctx, &eks.ListIdentityProviderConfigsInput{ClusterName: c})
			return len(o.IdentityProviderConfigs), err
		},
		"capabilities": func() (int, error) {
			o, err := w.Client.ListCapabilities(ctx, &eks.ListCapabilitiesInput{ClusterName: c})
			return len(o.Capabilities), err
		},
	}
	for what, count := range counts {
		if n, err := count(); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	c = aws.String("nobody")
	for what, list := range map[string]func() error{
		"nodegroups": func() error {
			_, err := w.Client.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: c})
			return err
		},
		"addons": func() error {
			_, err := w.Client.ListAddons(ctx,
				&eks.ListAddonsInput{ClusterName: c})
			return err
		},
		"updates": func() error { _, err := w.Client.ListUpdates(ctx, &eks.ListUpdatesInput{Name: c}); return err },
		"insights": func() error {
			_, err := w.Client.ListInsights(ctx,
				&eks.ListInsightsInput{ClusterName: c})
			return err
		},
	} {
		if f := ekstest.FailureOf(t, list()); f.Code != "ResourceNotFoundException" || f.Status != 404 {
			t.Errorf("%s of no cluster: %v", what, f)
		}
	}
}
