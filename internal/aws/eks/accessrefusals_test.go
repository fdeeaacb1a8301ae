package eks_test

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
)

func entry(in eks.CreateAccessEntryInput) func(context.Context, *eks.Client) error {
	return func(ctx context.Context, c *eks.Client) error {
		if in.ClusterName == nil {
			in.ClusterName = aws.String("c")
		}
		if in.PrincipalArn == nil {
			in.PrincipalArn = aws.String("arn:aws:iam::" + ekstest.Account + ":role/teams/tooling/Admin")
		}
		_, err := c.CreateAccessEntry(ctx, &in)
		return err
	}
}

func associate(in eks.AssociateAccessPolicyInput) func(context.Context, *eks.Client) error {
	return func(ctx context.Context, c *eks.Client) error {
		in.ClusterName = aws.String("c")
		if in.PrincipalArn == nil {
			in.PrincipalArn = aws.String(ekstest.RootARN)
		}
		if in.PolicyArn == nil {
			in.PolicyArn = aws.String(ekstest.PolicyPrefix + "AmazonEKSViewPolicy")
		}
		_, err := c.AssociateAccessPolicy(ctx, &in)
		return err
	}
}

func updateEntry(in eks.UpdateAccessEntryInput) func(context.Context, *eks.Client) error {
	return func(ctx context.Context, c *eks.Client) error {
		in.ClusterName = aws.String("c")
		_, err := c.UpdateAccessEntry(ctx, &in)
		return err
	}
}

// accessRefusals returns the bad requests about access entries and policies, on the clusters of [TestRefusals].
func accessRefusals() []refusal {
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	return []refusal{
		// Access entries.
		{"entry of no cluster", entry(eks.CreateAccessEntryInput{ClusterName: aws.String("nobody")}), missing,
			"No cluster found for name: nobody."},
		{"entry under CONFIG_MAP", entry(eks.CreateAccessEntryInput{ClusterName: aws.String("map")}), invalid,
			"The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this " +
				"operation."},
		{"entry of a cluster on its way out", entry(eks.CreateAccessEntryInput{ClusterName: aws.String("leaving")}),
			invalid, "…being deleted"},
		{"entry that exists", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(ekstest.RootARN)}), used,
			"The specified access entry resource is already in use on this cluster."},
		{"principal is no ARN", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String("alice")}), parameter,
			"…The specified principalArn is invalid"},
		{"principal is a session", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String("arn:aws:sts::" +
			ekstest.Account + ":assumed-role/Admin/me")}), parameter, "…The specified principalArn is invalid"},
		{"principal is a group", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "group/admins")}),
			parameter, "…The specified principalArn is invalid"},
		{"principal does not exist", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/nobody")}),
			parameter, "The specified principalArn is invalid: invalid principal."},
		{"principal without its path", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "role/Admin")}),
			parameter, "The specified principalArn is invalid: invalid principal."},
		{"principal is a service-linked role",
			entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam +
				"role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS")}), parameter,
			"The caller is not allowed to modify access entries with a principalArn value of a Service Linked Role"},
		{"group of Kubernetes", entry(eks.CreateAccessEntryInput{KubernetesGroups: []string{"dev", "system:masters"}}),
			parameter, "The kubernetes group name system:masters is invalid, it cannot start with system:"},
		{"group of EKS", entry(eks.CreateAccessEntryInput{KubernetesGroups: []string{"eks:x"}}), parameter,
			"The kubernetes group name eks:x is invalid, it cannot start with eks:"},
		{"empty group", entry(eks.CreateAccessEntryInput{KubernetesGroups: []string{""}}), parameter, "…group name"},
		{"template in a group", entry(eks.CreateAccessEntryInput{
			KubernetesGroups: []string{"{{SessionName}}system:masters"}}), parameter,
			"The kubernetes group name {{SessionName}}system:masters is invalid, only a username can contain a template"},
		{"user name of Kubernetes", entry(eks.CreateAccessEntryInput{Username: aws.String("system:admin")}), parameter,
			"The username must not begin with system:"},
		{"user name of AWS", entry(eks.CreateAccessEntryInput{Username: aws.String("aws:x")}), parameter,
			"The username must not begin with aws:"},
		{"session name without a colon before",
			entry(eks.CreateAccessEntryInput{Username: aws.String("me-{{SessionName}}")}), parameter, "…colon"},
		{"raw session name without a colon before",
			entry(eks.CreateAccessEntryInput{Username: aws.String("{{SessionNameRaw}}:node:a")}), parameter, "…colon"},
		{"raw session name of a user", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "user/alice"),
			Username: aws.String("me:{{SessionNameRaw}}")}), parameter, "…only a role has"},
		{"session name of a user", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "user/alice"),
			Username: aws.String("me:{{SessionName}}")}), parameter, "…only a role has"},
		{"unknown type", entry(eks.CreateAccessEntryInput{Type: aws.String("EC2_BSD")}), parameter,
			"…The specified type EC2_BSD is invalid."},
		{"node that is a user", entry(eks.CreateAccessEntryInput{PrincipalArn: aws.String(iam + "user/alice"),
			Type: aws.String("EC2_LINUX")}), parameter, "…IAM role"},
		{"node with groups", entry(eks.CreateAccessEntryInput{Type: aws.String("EC2_LINUX"),
			KubernetesGroups: []string{"a"}}), parameter, "…kubernetesGroups"},
		{"node with a user name", entry(eks.CreateAccessEntryInput{Type: aws.String("EC2_LINUX"),
			Username: aws.String("a")}), parameter, "…username"},
		{"entry with a reserved tag", entry(eks.CreateAccessEntryInput{Tags: map[string]string{"AWS:x": "y"}}),
			parameter, "…reserved"},
		{"describe no entry", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"),
				PrincipalArn: aws.String(iam + "user/alice")})
			return err
		}, missing,
			"The specified principalArn could not be found. You can view your available access entries with " +
				"'list-access-entries'."},
		{"list entries under CONFIG_MAP", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: aws.String("map")})
			return err
		}, invalid, "…authentication mode must be set"},
		{"update a node's entry", updateEntry(eks.UpdateAccessEntryInput{PrincipalArn: aws.String(iam + "role/node"),
			Username: aws.String("x")}), parameter,
			`This operation can only be performed on Access Entries with a type of "STANDARD".`},
		{"update to a group of Kubernetes",
			updateEntry(eks.UpdateAccessEntryInput{PrincipalArn: aws.String(ekstest.RootARN),
				KubernetesGroups: []string{"system:nodes"}}), parameter, "…cannot start with system:"},
		{"update no entry", updateEntry(eks.UpdateAccessEntryInput{PrincipalArn: aws.String(iam + "user/alice")}),
			missing, "…could not be found"},

		// Access policies.
		{"unknown policy", associate(eks.AssociateAccessPolicyInput{
			PolicyArn:   aws.String("arn:aws:iam::aws:policy/AdministratorAccess"),
			AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster}}), missing,
			"…policyArn could not be found"},
		{"policy for a node", associate(eks.AssociateAccessPolicyInput{PrincipalArn: aws.String(iam + "role/node"),
			AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster}}), parameter, `…type of "STANDARD"`},
		{"policy for nobody", associate(eks.AssociateAccessPolicyInput{PrincipalArn: aws.String(iam + "user/alice"),
			AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster}}), missing,
			"…principalArn could not be found"},
		{"cluster scope with namespaces",
			associate(eks.AssociateAccessPolicyInput{AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster,
				Namespaces: []string{"a"}}}), parameter, "…access scope type is cluster"},
		{"namespace scope without namespaces",
			associate(eks.AssociateAccessPolicyInput{AccessScope: &types.AccessScope{
				Type: types.AccessScopeTypeNamespace}}), parameter, "…At least one namespace"},
		{"unknown scope", associate(eks.AssociateAccessPolicyInput{AccessScope: &types.AccessScope{Type: "galaxy"}}),
			parameter, "…cluster, namespace"},
		{"namespace that is no name", associate(eks.AssociateAccessPolicyInput{AccessScope: &types.AccessScope{
			Type: types.AccessScopeTypeNamespace, Namespaces: []string{"Dev"}}}), parameter,
			"…Namespace Dev is invalid"},
		{"wildcard in the middle", associate(eks.AssociateAccessPolicyInput{AccessScope: &types.AccessScope{
			Type: types.AccessScopeTypeNamespace, Namespaces: []string{"a*b"}}}), parameter,
			"…Namespace a*b is invalid"},
	}
}
