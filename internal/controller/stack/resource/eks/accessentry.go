package eks

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// accessEntries is the handler of AWS::EKS::AccessEntry. The physical ID is <principal's ARN>|<cluster>.
var accessEntries = resource.Handle(resource.Table[*eks.Client, types.AccessEntry]{
	Client: newClient,
	Create: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
		_, err := resource.Create((*eks.Client).CreateAccessEntry, resource.Members{"Tags": resource.Left},
			func(out *eks.CreateAccessEntryOutput) *string { return out.AccessEntry.PrincipalArn },
			func(r *resource.Request, in *eks.CreateAccessEntryInput) error {
				in.Tags = r.Wanted("Tags")
				return nil
			})(ctx, c, r)
		if err != nil {
			return "", err
		}
		return entryID(r), nil
	},
	Find: func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
		called := *r
		called.PhysicalID = entryID(r)
		live, err := describeEntry(ctx, c, &called)
		if err == nil && !r.Owns(live.Tags) {
			err = resource.ErrNotFound
		}
		return called.PhysicalID, err
	},
	Describe: describeEntry,
	Configure: []resource.Step[*eks.Client]{
		{Properties: []string{"AccessPolicies"}, Run: setAccessPolicies},
		{Properties: []string{"Username", "KubernetesGroups"}, Update: true, Run: updateEntry},
		setTags(func(ctx context.Context, c *eks.Client, r *resource.Request) (string, error) {
			live, err := describeEntry(ctx, c, r)
			if err != nil {
				return "", err
			}
			return aws.ToString(live.AccessEntryArn), nil
		}),
	},
	Delete: deleteEntry,
	Attributes: func(_ *resource.Request, live *types.AccessEntry) map[string]any {
		return map[string]any{"AccessEntryArn": aws.ToString(live.AccessEntryArn)}
	},
	Properties: entryProperties,
})

func entryID(r *resource.Request) string { return r.Text("PrincipalArn") + "|" + r.Text("ClusterName") }

func describeEntry(ctx context.Context, c *eks.Client, r *resource.Request) (*types.AccessEntry, error) {
	out, err := c.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{
		PrincipalArn: aws.String(idPart(r, "|", 0)), ClusterName: aws.String(idPart(r, "|", 1)),
	})
	if err != nil {
		return nil, err
	}
	return out.AccessEntry, nil
}

// deleteEntry deletes an entry. Those of a cluster that is being deleted go with it, and EKS lets nobody touch them.
func deleteEntry(ctx context.Context, c *eks.Client, r *resource.Request) error {
	principal, cluster := aws.String(idPart(r, "|", 0)), aws.String(idPart(r, "|", 1))
	_, err := c.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{PrincipalArn: principal, ClusterName: cluster})
	if !resource.HasCode(err, "InvalidRequestException") {
		return err
	}
	out, look := c.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: cluster})
	if look == nil && out.Cluster.Status == types.ClusterStatusDeleting {
		return nil
	}
	return err
}

// setAccessPolicies associates the access policies of the property, which gives those that are associated already their
// scope, and disassociates those that were there before.
func setAccessPolicies(ctx context.Context, c *eks.Client, r *resource.Request) error {
	principal, cluster := aws.String(idPart(r, "|", 0)), aws.String(idPart(r, "|", 1))
	kept := map[string]bool{}
	for _, p := range r.Objects("AccessPolicies") {
		in := &eks.AssociateAccessPolicyInput{}
		if err := resource.Decode(p, in, nil); err != nil {
			return err
		}
		if in.AccessScope != nil { // a word of the API, which templates also have in upper case
			in.AccessScope.Type = types.AccessScopeType(strings.ToLower(string(in.AccessScope.Type)))
		}
		in.PrincipalArn, in.ClusterName = principal, cluster
		kept[aws.ToString(in.PolicyArn)] = true
		if _, err := c.AssociateAccessPolicy(ctx, in); err != nil {
			return err
		}
	}
	for _, p := range resource.Objects(r.Previous["AccessPolicies"]) {
		arn := resource.Text(p["PolicyArn"])
		if kept[arn] {
			continue
		}
		_, err := c.DisassociateAccessPolicy(ctx, &eks.DisassociateAccessPolicyInput{
			PrincipalArn: principal, ClusterName: cluster, PolicyArn: &arn,
		})
		if err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func updateEntry(ctx context.Context, c *eks.Client, r *resource.Request) error {
	in := &eks.UpdateAccessEntryInput{
		PrincipalArn: aws.String(idPart(r, "|", 0)), ClusterName: aws.String(idPart(r, "|", 1)),
		Username: r.Pointer("Username"),
	}
	if r.Changed("KubernetesGroups") {
		in.KubernetesGroups = append([]string{}, r.Texts("KubernetesGroups")...)
	}
	_, err := c.UpdateAccessEntry(ctx, in)
	return err
}

func entryProperties(
	ctx context.Context, c *eks.Client, r *resource.Request, live *types.AccessEntry,
) (map[string]any, error) {
	properties := pick(resource.Encode(live, nil), "ClusterName", "KubernetesGroups", "PrincipalArn", "Type", "Username")
	setLiveTags(r, properties, live.Tags)
	var policies []any
	pages := eks.NewListAssociatedAccessPoliciesPaginator(c, &eks.ListAssociatedAccessPoliciesInput{
		PrincipalArn: live.PrincipalArn, ClusterName: live.ClusterName,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range page.AssociatedAccessPolicies {
			policies = append(policies, pick(resource.Encode(p, nil), "PolicyArn", "AccessScope"))
		}
	}
	if policies != nil {
		properties["AccessPolicies"] = policies
	}
	return properties, nil
}
