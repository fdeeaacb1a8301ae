package podidentity_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

const target = "arn:aws:iam::444455556666:role/target"

// association returns a good request, with an edit (optional).
func association(
	account string, edit func(*eks.CreatePodIdentityAssociationInput),
) *eks.CreatePodIdentityAssociationInput {
	in := &eks.CreatePodIdentityAssociationInput{ClusterName: aws.String("c"), Namespace: aws.String("default"),
		ServiceAccount: &account, RoleArn: aws.String(ekstest.PodRole)}
	if edit != nil {
		edit(in)
	}
	return in
}

func TestAssociationLife(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	w.Create("c")
	in := association("app", func(in *eks.CreatePodIdentityAssociationInput) {
		in.Tags, in.ClientRequestToken = map[string]string{"team": "a"}, aws.String("once")
		in.TargetRoleArn = aws.String(target)
	})
	out, err := w.Client.CreatePodIdentityAssociation(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	a := out.Association
	want := &types.PodIdentityAssociation{
		ClusterName: aws.String("c"), Namespace: aws.String("default"), ServiceAccount: aws.String("app"),
		RoleArn: aws.String(ekstest.PodRole), TargetRoleArn: aws.String(target), ExternalId: a.ExternalId,
		AssociationId: a.AssociationId, DisableSessionTags: aws.Bool(false), Tags: map[string]string{"team": "a"},
		AssociationArn: aws.String("arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account +
			":podidentityassociation/c/" + *a.AssociationId),
		CreatedAt: &ekstest.Today, ModifiedAt: &ekstest.Today,
	}
	if d := cmp.Diff(want, a, ekstest.IgnoreUnexported()); d != "" || len(aws.ToString(a.ExternalId)) != 36 {
		t.Errorf("created (-want +got):\n%s", d)
	}
	if again, err := w.Client.CreatePodIdentityAssociation(ctx, in); err != nil ||
		*again.Association.AssociationId != *a.AssociationId {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	if pass := w.Target("iam:PassRole"); pass.Conditions["iam:PassedToService"][0] != "pods.eks.amazonaws.com" {
		t.Errorf("passed %+v", pass)
	}
	w.Target("iam:GetRole")

	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}`
	changed, err := w.Client.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{
		ClusterName: aws.String("c"), AssociationId: a.AssociationId, Policy: &policy, DisableSessionTags: aws.Bool(true),
		TargetRoleArn: aws.String("")})
	if err != nil {
		t.Fatal(err)
	}
	if c := changed.Association; aws.ToString(c.Policy) != policy || !*c.DisableSessionTags || c.TargetRoleArn != nil ||
		c.ExternalId != nil || *c.RoleArn != ekstest.PodRole {
		t.Errorf("changed %+v", c)
	}
	seen, err := w.Client.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{
		ClusterName: aws.String("c"), AssociationId: a.AssociationId})
	if err != nil || cmp.Diff(changed.Association, seen.Association, ekstest.IgnoreUnexported()) != "" {
		t.Errorf("described %+v, %v", seen, err)
	}
	if _, err := w.Client.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{
		ClusterName: aws.String("c"), AssociationId: a.AssociationId}); err != nil {
		t.Fatal(err)
	}
	list, err := w.Client.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{
		ClusterName: aws.String("c")})
	if err != nil || len(list.Associations) > 0 {
		t.Errorf("left %+v, %v", list, err)
	}
	if _, err := w.Client.CreatePodIdentityAssociation(ctx, association("app", nil)); err != nil {
		t.Errorf("create again: %v", err)
	}
}

func TestAssociationRefusals(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	w.Create("leaving")
	if err := ekstest.DeleteCluster("leaving")(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	made, err := w.Client.CreatePodIdentityAssociation(t.Context(), association("app", nil))
	if err != nil {
		t.Fatal(err)
	}
	id := *made.Association.AssociationId
	owned := record.PodIdentityAssociation{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c",
		ClusterID: w.Row("c").ID, ID: "a-owned", Namespace: "kube-system", ServiceAccount: "aws-node",
		RoleARN: ekstest.PodRole, OwnerARN: "arn:aws:eks:eu-west-1:111122223333:addon/c/vpc-cni/1"}
	ekstest.Put(t, record.PodIdentityAssociations(w.Store), owned.Key(), owned)
	type in = eks.CreatePodIdentityAssociationInput
	create := func(edit func(*in)) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.CreatePodIdentityAssociation(ctx, association("new", edit))
			return err
		}
	}
	update := func(id string, in eks.UpdatePodIdentityAssociationInput) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			in.ClusterName, in.AssociationId = aws.String("c"), &id
			_, err := c.UpdatePodIdentityAssociation(ctx, &in)
			return err
		}
	}
	remove := func(cluster, id string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: &cluster,
				AssociationId: &id})
			return err
		}
	}
	const (
		parameter = "InvalidParameterException"
		invalid   = "InvalidRequestException"
		missing   = "ResourceNotFoundException"
	)
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}`
	trust := "Trust policy of the role provided is invalid. Follow the official documentation to resolve the issue."
	for _, r := range []struct {
		name          string
		do            ekstest.Call
		code, message string
	}{
		{"no cluster", create(func(in *in) { in.ClusterName = aws.String("nobody") }), missing,
			"No cluster found for name: nobody."},
		{"cluster on its way out", create(func(in *in) { in.ClusterName = aws.String("leaving") }), invalid,
			"Cluster 'leaving' is not in ACTIVE status"},
		{"second of a service account", create(func(in *in) { in.ServiceAccount = aws.String("app") }),
			"ResourceInUseException", "Association already exists: " + id},
		{"second beside an add-on's", create(func(in *in) {
			in.Namespace, in.ServiceAccount = aws.String("kube-system"), aws.String("aws-node")
		}), "ResourceInUseException", "Association already exists: a-owned"},
		{"namespace with a dot", create(func(in *in) { in.Namespace = aws.String("a.b") }), parameter, "…namespace"},
		{"empty namespace", create(func(in *in) { in.Namespace = aws.String("") }), parameter, "…namespace"},
		{"service account in capitals", create(func(in *in) { in.ServiceAccount = aws.String("App") }), parameter,
			"…serviceAccount"},
		{"role is no ARN", create(func(in *in) { in.RoleArn = aws.String("pods") }), parameter,
			"roleArn pods is not the ARN of an IAM role"},
		{"role does not exist", create(func(in *in) { in.RoleArn = aws.String(iam + "role/nobody") }), parameter,
			"Role provided in the request does not exist."},
		{"role of another account", create(func(in *in) { in.RoleArn = aws.String(target) }), "AccessDeniedException",
			"Cross-account pass role is not allowed."},
		{"role that trusts EKS", create(func(in *in) { in.RoleArn = aws.String(ekstest.RoleARN) }), parameter, trust},
		{"target is no role", create(func(in *in) { in.TargetRoleArn = aws.String(iam + "user/x") }), parameter,
			"targetRoleArn " + iam + "user/x is not the ARN of an IAM role"},
		{"policy with session tags", create(func(in *in) { in.Policy = &policy }), parameter,
			"disableSessionTags must be true when policy is specified"},
		{"policy is no JSON", create(func(in *in) {
			in.Policy, in.DisableSessionTags = aws.String("{"), aws.Bool(true)
		}), parameter, "…policy is not a valid IAM policy"},
		{"long policy", create(func(in *in) {
			in.Policy = aws.String(strings.Replace(policy, "s3:*", strings.Repeat("x", 2048)+":*", 1))
			in.DisableSessionTags = aws.Bool(true)
		}), parameter, "…2048"},
		{"tag of AWS", create(func(in *in) { in.Tags = map[string]string{"aws:x": "y"} }), parameter, "…reserved"},
		{"update none", update("a-nobody", eks.UpdatePodIdentityAssociationInput{RoleArn: aws.String(ekstest.PodRole)}),
			missing, "No association found in cluster c for ID: a-nobody"},
		{"update nothing", update(id, eks.UpdatePodIdentityAssociationInput{}), parameter,
			"No changes needed for the pod identity association"},
		{"update to a policy with session tags", update(id, eks.UpdatePodIdentityAssociationInput{Policy: &policy}),
			parameter, "disableSessionTags must be true when policy is specified"},
		{"update to another account's role", update(id, eks.UpdatePodIdentityAssociationInput{
			RoleArn: aws.String(target)}), "AccessDeniedException", "Cross-account pass role is not allowed."},
		{"update an add-on's", update("a-owned", eks.UpdatePodIdentityAssociationInput{
			RoleArn: aws.String(ekstest.PodRole)}), invalid, "…it is owned by " + owned.OwnerARN},
		{"delete none", remove("c", "a-nobody"), missing, "No association found in cluster c for ID: a-nobody"},
		{"delete of no cluster", remove("nobody", id), missing, "No cluster found for name: nobody."},
		{"delete an add-on's", remove("c", "a-owned"), invalid, "…it is owned by " + owned.OwnerARN},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:PassRole" }
	w.Refuses("role that may not be passed", create(nil), "AccessDeniedException", "…iam:PassRole")
	w.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == "iam:GetRole" }
	w.Refuses("role that may not be seen", create(nil), "AccessDeniedException", "…iam:GetRole")
}
