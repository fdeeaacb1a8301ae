package eks_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Policies see the resource and the condition keys of the service authorization reference.
func TestTargets(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	ctx := t.Context()
	w.Create("c", func(in *eks.CreateClusterInput) {
		in.Tags = map[string]string{"team": "a", "env": "dev"}
		in.Version = aws.String("1.35")
		in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi,
			BootstrapClusterCreatorAdminPermissions: aws.Bool(true)}
		in.ResourcesVpcConfig.EndpointPrivateAccess = aws.Bool(true)
		in.Logging = &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"api"},
			Enabled: aws.Bool(true)}}}
		in.UpgradePolicy = &types.UpgradePolicyRequest{SupportType: types.SupportTypeExtended}
		in.ComputeConfig = &types.ComputeConfigRequest{Enabled: aws.Bool(false)}
		in.DeletionProtection = aws.Bool(false)
	})
	alice := "arn:aws:iam::" + ekstest.Account + ":user/alice"
	_, _ = w.Client.ListClusters(ctx, &eks.ListClustersInput{})
	_, _ = w.Client.UpdateClusterVersion(ctx, &eks.UpdateClusterVersionInput{Name: aws.String("c"),
		Version: aws.String("1.37")})
	_, _ = w.Client.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: aws.String("c"),
		AccessConfig: &types.UpdateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi}})
	_, _ = w.Client.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: &alice, KubernetesGroups: []string{"g1", "g2"}, Tags: map[string]string{"t": "v"}})
	_, _ = w.Client.AssociateAccessPolicy(ctx, &eks.AssociateAccessPolicyInput{
		ClusterName: aws.String("c"), PrincipalArn: &alice, PolicyArn: aws.String(ekstest.PolicyPrefix +
			"AmazonEKSViewPolicy"), AccessScope: &types.AccessScope{Type: types.AccessScopeTypeNamespace,
			Namespaces: []string{"a"}},
	})
	described, err := w.Client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: &alice})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Client.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.RoleARN)})
	_, _ = w.Client.TagResource(ctx, &eks.TagResourceInput{ResourceArn: aws.String(ekstest.ClusterARN + "c"),
		Tags: map[string]string{"x": "y"}})
	_, _ = w.Client.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: aws.String(ekstest.ClusterARN + "c"),
		TagKeys: []string{"x"}})
	_, _ = w.Client.DescribeInsight(ctx, &eks.DescribeInsightInput{ClusterName: aws.String("nobody"),
		Id: aws.String("i")})

	entryARN := "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":access-entry/c/"
	for action, want := range map[string]struct {
		resource   string
		conditions map[string]string
	}{
		"ListClusters": {ekstest.ClusterARN + "*", map[string]string{}},
		"CreateCluster": {ekstest.ClusterARN + "c", map[string]string{
			"aws:RequestTag/team": "a", "aws:RequestTag/env": "dev", "aws:TagKeys": "env team",
			"eks:kubernetesVersion": "1.35", "eks:authenticationMode": "API",
			"eks:bootstrapClusterCreatorAdminPermissions": "true", "eks:endpointPrivateAccess": "true",
			"eks:loggingType/api": "true",
			"eks:supportType":     "EXTENDED", "eks:computeConfigEnabled": "false", "eks:deletionProtection": "false",
		}},
		"UpdateClusterVersion": {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/team": "a",
			"aws:ResourceTag/env": "dev", "eks:kubernetesVersion": "1.37"}},
		"UpdateClusterConfig": {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/team": "a",
			"aws:ResourceTag/env": "dev", "eks:authenticationMode": "API"}},
		"CreateAccessEntry": {ekstest.ClusterARN + "c", map[string]string{
			"aws:ResourceTag/team": "a", "aws:ResourceTag/env": "dev", "aws:RequestTag/t": "v", "aws:TagKeys": "t",
			"eks:clusterName":  "c",
			"eks:principalArn": alice, "eks:accessEntryType": "STANDARD", "eks:kubernetesGroups": "g1 g2",
		}},
		"AssociateAccessPolicy": {*described.AccessEntry.AccessEntryArn, map[string]string{
			"aws:ResourceTag/t": "v", "eks:clusterName": "c", "eks:principalArn": alice,
			"eks:accessEntryType": "STANDARD", "eks:kubernetesGroups": "g1 g2", "eks:username": alice,
			"eks:policyArn": ekstest.PolicyPrefix + "AmazonEKSViewPolicy", "eks:accessScope": "namespace",
			"eks:namespaces": "a",
		}},
		"DeleteAccessEntry": {entryARN + "role/" + ekstest.Account + "/eks-service/*",
			map[string]string{"eks:clusterName": "c", "eks:principalArn": ekstest.RoleARN}},
		"TagResource": {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/team": "a",
			"aws:ResourceTag/env": "dev", "aws:RequestTag/x": "y", "aws:TagKeys": "x"}},
		"UntagResource": {ekstest.ClusterARN + "c", map[string]string{"aws:ResourceTag/team": "a",
			"aws:ResourceTag/env": "dev", "aws:ResourceTag/x": "y", "aws:TagKeys": "x"}},
		"DescribeInsight": {ekstest.ClusterARN + "nobody", map[string]string{}},
	} {
		got := w.Target("eks:" + action)
		if got.Resource != want.resource {
			t.Errorf("%s is asked on %s, want %s", action, got.Resource, want.resource)
		}
		if d := cmp.Diff(want.conditions, ekstest.OwnConditions(got)); d != "" {
			t.Errorf("%s: condition keys (-want +got):\n%s", action, d)
		}
	}
}

// Every operation is refused to whom no policy allows it, before anything is looked at.
func TestDenied(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Deny = func(wire.Caller, wire.Target) bool { return true }
	c := aws.String("nobody")
	ctx := t.Context()
	calls := map[string]func() error{
		"CreateCluster": func() error {
			_, err := w.Client.CreateCluster(ctx,
				ekstest.Request("nobody"))
			return err
		},
		"DescribeCluster": func() error {
			_, err := w.Client.DescribeCluster(ctx,
				&eks.DescribeClusterInput{Name: c})
			return err
		},
		"ListClusters": func() error { _, err := w.Client.ListClusters(ctx, &eks.ListClustersInput{}); return err },
		"DeleteCluster": func() error {
			_, err := w.Client.DeleteCluster(ctx,
				&eks.DeleteClusterInput{Name: c})
			return err
		},
		"UpdateClusterConfig": func() error {
			_, err := w.Client.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: c})
			return err
		},
		"UpdateClusterVersion": func() error { return ekstest.UpdateVersion("nobody", "1.36")(ctx, w.Client) },
		"DescribeClusterVersions": func() error {
			_, err := w.Client.DescribeClusterVersions(ctx, &eks.DescribeClusterVersionsInput{})
			return err
		},
		"ListNodegroups": func() error {
			_, err := w.Client.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: c})
			return err
		},
		"ListAccessPolicies": func() error {
			_, err := w.Client.ListAccessPolicies(ctx,
				&eks.ListAccessPoliciesInput{})
			return err
		},
		"DescribeAccessEntry": func() error {
			_, err := w.Client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: c,
				PrincipalArn: aws.String(ekstest.RootARN)})
			return err
		},
		"TagResource": func() error {
			return tag(ekstest.ClusterARN+"nobody", map[string]string{"a": "b"})(ctx,
				w.Client)
		},
	}
	for _, action := range slices.Sorted(maps.Keys(calls)) {
		f := ekstest.FailureOf(t, calls[action]())
		if f.Code != "AccessDeniedException" || f.Status != 403 || !strings.HasPrefix(f.Message,
			"User: "+ekstest.RootARN+" is not authorized to perform: eks:"+action+" on resource: ") {
			t.Errorf("%s: %v", action, f)
		}
	}
	if n := len(w.Contents()); n != 0 {
		t.Errorf("%d rows", n)
	}
}
