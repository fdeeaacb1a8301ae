package capability_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	arnPrefix = "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":capability/c/"
	kroPolicy = ekstest.PolicyPrefix + "AmazonEKSKROPolicy"
)

// request returns a good request for a capability, with an edit (optional).
func request(
	name string, of types.CapabilityType, edit func(*eks.CreateCapabilityInput),
) *eks.CreateCapabilityInput {
	in := &eks.CreateCapabilityInput{
		ClusterName: aws.String("c"), CapabilityName: &name, Type: of, RoleArn: aws.String(ekstest.CapabilityRole),
		DeletePropagationPolicy: types.CapabilityDeletePropagationPolicyRetain,
	}
	if edit != nil {
		edit(in)
	}
	return in
}

func create(w *ekstest.Fixture, in *eks.CreateCapabilityInput) *types.Capability {
	w.T.Helper()
	out, err := w.Client.CreateCapability(w.T.Context(), in)
	if err != nil {
		w.T.Fatal(err)
	}
	return out.Capability
}

// observe writes what the controller observed of a capability.
func observe(w *ekstest.Fixture, name string, state record.CapabilityState) {
	w.T.Helper()
	key := record.CapabilityKey(ekstest.Account, ekstest.Region, "c", name)
	row, err := record.Capabilities(w.Store).Get(w.T.Context(), key)
	if err != nil {
		w.T.Fatal(err)
	}
	state.CapabilityID = row.Value.ID
	ekstest.Put(w.T, record.CapabilityStates(w.Store), key, state)
}

func describe(w *ekstest.Fixture, name string) *types.Capability {
	w.T.Helper()
	out, err := w.Client.DescribeCapability(w.T.Context(),
		&eks.DescribeCapabilityInput{ClusterName: aws.String("c"), CapabilityName: &name})
	if err != nil {
		w.T.Fatal(err)
	}
	return out.Capability
}

// policiesOf returns the access policies of a role.
func policiesOf(w *ekstest.Fixture, role string) (arns []string) {
	w.T.Helper()
	out, err := w.Client.ListAssociatedAccessPolicies(w.T.Context(), &eks.ListAssociatedAccessPoliciesInput{
		ClusterName: aws.String("c"), PrincipalArn: &role,
	})
	if err != nil {
		w.T.Fatal(err)
	}
	for _, p := range out.AssociatedAccessPolicies {
		if p.AccessScope.Type != types.AccessScopeTypeCluster {
			w.T.Errorf("%s has the scope %s", *p.PolicyArn, p.AccessScope.Type)
		}
		arns = append(arns, *p.PolicyArn)
	}
	return arns
}

// The role of kro is in the cluster with the capability, as whom the program then acts.
func TestCapabilityLife(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	w.Create("c")
	in := request("graphs", types.CapabilityTypeKro, func(in *eks.CreateCapabilityInput) {
		in.Tags, in.ClientRequestToken = map[string]string{"team": "a"}, aws.String("once")
	})
	c := create(w, in)
	if !strings.HasPrefix(*c.Arn, arnPrefix+"kro/graphs/") {
		t.Errorf("ARN %s", *c.Arn)
	}
	want := &types.Capability{
		CapabilityName: aws.String("graphs"), Arn: c.Arn, ClusterName: aws.String("c"), Type: types.CapabilityTypeKro,
		RoleArn: aws.String(ekstest.CapabilityRole), Status: types.CapabilityStatusCreating,
		Configuration: &types.CapabilityConfigurationResponse{}, Tags: map[string]string{"team": "a"},
		Health: &types.CapabilityHealth{Issues: []types.CapabilityIssue{}}, CreatedAt: &ekstest.Today,
		ModifiedAt: &ekstest.Today, DeletePropagationPolicy: types.CapabilityDeletePropagationPolicyRetain,
	}
	if d := cmp.Diff(want, c, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("created (-want +got):\n%s", d)
	}
	if again := create(w, in); *again.Arn != *c.Arn {
		t.Errorf("the same request again made %s", *again.Arn)
	}
	if pass := w.Target("iam:PassRole"); pass.Resource != ekstest.CapabilityRole ||
		pass.Conditions["iam:PassedToService"][0] != "capabilities.eks.amazonaws.com" {
		t.Errorf("passed %+v", pass)
	}
	if tag := w.Target("eks:TagResource"); tag.Resource != arnPrefix+"kro/graphs/*" {
		t.Errorf("tagged %s", tag.Resource)
	}
	entry, err := w.Client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.CapabilityRole)})
	if err != nil || *entry.AccessEntry.Type != "STANDARD" || *entry.AccessEntry.Username !=
		"arn:aws:sts::"+ekstest.Account+":assumed-role/capability/{{SessionName}}" {
		t.Errorf("access entry %+v, %v", entry, err)
	}
	if d := cmp.Diff([]string{kroPolicy}, policiesOf(w, ekstest.CapabilityRole)); d != "" {
		t.Errorf("access policies (-want +got):\n%s", d)
	}

	observe(w, "graphs", record.CapabilityState{Created: true, Version: "v0.9.4", Change: 1})
	if c := describe(w, "graphs"); c.Status != types.CapabilityStatusActive || *c.Version != "v0.9.4" {
		t.Errorf("described %+v", c)
	}
	observe(w, "graphs", record.CapabilityState{Created: true, Version: "v0.9.4", Change: 1,
		Issues: []types.CapabilityIssue{{Code: types.CapabilityIssueCodeAccessDenied, Message: aws.String("no")}}})
	if c := describe(w, "graphs"); c.Status != types.CapabilityStatusDegraded || len(c.Health.Issues) != 1 {
		t.Errorf("degraded: %+v", c)
	}

	// Another role, which gets the same access. The former keeps its own, as on EKS.
	change := &eks.UpdateCapabilityInput{ClusterName: aws.String("c"), CapabilityName: aws.String("graphs"),
		RoleArn: aws.String(ekstest.OtherCapabilityRole), ClientRequestToken: aws.String("change")}
	out, err := w.Client.UpdateCapability(ctx, change)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[types.UpdateParamType]string{"RoleArn": ekstest.OtherCapabilityRole},
		ekstest.Params(out.Update)); d != "" || out.Update.Type != types.UpdateTypeCapabilityUpdate {
		t.Errorf("update %+v: %s", out.Update, d)
	}
	if again, err := w.Client.UpdateCapability(ctx, change); err != nil || *again.Update.Id != *out.Update.Id {
		t.Errorf("the same update again: %+v, %v", again, err)
	}
	if c := describe(w, "graphs"); c.Status != types.CapabilityStatusUpdating ||
		*c.RoleArn != ekstest.OtherCapabilityRole {
		t.Errorf("updating: %+v", c)
	}
	if d := cmp.Diff([]string{kroPolicy}, policiesOf(w, ekstest.OtherCapabilityRole)); d != "" {
		t.Errorf("access policies of the other role (-want +got):\n%s", d)
	}
	seen, err := w.Client.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: aws.String("c"), UpdateId: out.Update.Id,
		CapabilityName: aws.String("graphs")})
	if err != nil || seen.Update.Status != types.UpdateStatusInProgress {
		t.Errorf("described %+v, %v", seen, err)
	}
	if on := w.Target("eks:DescribeUpdate").Resource; on != *c.Arn {
		t.Errorf("DescribeUpdate is asked on %s", on)
	}
	ids, err := w.Client.ListUpdates(ctx,
		&eks.ListUpdatesInput{Name: aws.String("c"), CapabilityName: aws.String("graphs")})
	if err != nil || len(ids.UpdateIds) != 1 {
		t.Errorf("updates %+v, %v", ids, err)
	}
	if ids, err := w.Client.ListUpdates(ctx, &eks.ListUpdatesInput{Name: aws.String("c")}); err != nil ||
		len(ids.UpdateIds) != 0 {
		t.Errorf("updates of the cluster %+v, %v", ids, err)
	}
	if c := w.Describe("c"); c.Status != types.ClusterStatusActive {
		t.Errorf("the cluster is %s", c.Status)
	}
	w.Finish("c", *out.Update.Id, types.UpdateStatusFailed)
	if c := describe(w, "graphs"); *c.RoleArn != ekstest.CapabilityRole {
		t.Errorf("after a failed update: %s", *c.RoleArn)
	}

	w.Refuses("the cluster has it", ekstest.DeleteCluster("c"), "ResourceInUseException",
		"Cluster has capabilities attached")
	for range 2 {
		gone, err := w.Client.DeleteCapability(ctx,
			&eks.DeleteCapabilityInput{ClusterName: aws.String("c"), CapabilityName: aws.String("graphs")})
		if err != nil || gone.Capability.Status != types.CapabilityStatusDeleting {
			t.Errorf("deleted %+v, %v", gone, err)
		}
	}
}

// What a type is configured with is described as it was given, with EKS's defaults.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	ack := create(w, request("aws", types.CapabilityTypeAck, func(in *eks.CreateCapabilityInput) {
		in.Configuration = &types.CapabilityConfigurationRequest{
			Ack: &types.AckConfigRequest{DisabledServices: []string{"s3", "nonsense"}},
		}
	}))
	want := &types.CapabilityConfigurationResponse{Ack: &types.AckConfigResponse{
		DisabledServices: []string{"s3", "nonsense"}, EnableCrossNamespace: aws.Bool(false),
	}}
	if d := cmp.Diff(want, ack.Configuration, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("ACK (-want +got):\n%s", d)
	}
	mappings := []types.ArgoCdRoleMapping{{Role: types.ArgoCdRoleAdmin, Identities: []types.SsoIdentity{
		{Id: aws.String("38414300-1041-708a-01af-12345abcedf0"), Type: types.SsoIdentityTypeSsoUser},
	}}}
	argo := create(w, request("delivery", types.CapabilityTypeArgocd, func(in *eks.CreateCapabilityInput) {
		in.Configuration = &types.CapabilityConfigurationRequest{ArgoCd: &types.ArgoCdConfigRequest{
			AwsIdc: &types.ArgoCdAwsIdcConfigRequest{IdcInstanceArn: aws.String(instance)}, RbacRoleMappings: mappings,
			NetworkAccess: &types.ArgoCdNetworkAccessConfigRequest{VpceIds: []string{"vpce-1"}},
		}}
	}))
	want = &types.CapabilityConfigurationResponse{ArgoCd: &types.ArgoCdConfigResponse{
		AwsIdc: &types.ArgoCdAwsIdcConfigResponse{
			IdcInstanceArn: aws.String(instance), IdcRegion: aws.String(ekstest.Region),
		},
		Namespace: aws.String("argocd"), RbacRoleMappings: mappings,
		NetworkAccess: &types.ArgoCdNetworkAccessConfigResponse{VpceIds: []string{"vpce-1"}},
	}}
	if d := cmp.Diff(want, argo.Configuration, ekstest.IgnoreUnexported()); d != "" {
		t.Errorf("Argo CD (-want +got):\n%s", d)
	}
	create(w, request("graphs", types.CapabilityTypeKro, nil))
	var names []string
	pages := eks.NewListCapabilitiesPaginator(w.Client,
		&eks.ListCapabilitiesInput{ClusterName: aws.String("c"), MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Capabilities {
			names = append(names, *c.CapabilityName+" "+string(c.Type)+" "+string(c.Status))
		}
	}
	all := []string{"aws ACK CREATING", "delivery ARGOCD CREATING", "graphs KRO CREATING"}
	if d := cmp.Diff(all, names); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
}

const instance = "arn:aws:sso:::instance/ssoins-1234567890abcdef"

// A role that is in the cluster already keeps what it has there.
func TestRoleWithAccessEntry(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	w.Create("c")
	_, err := w.Client.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.CapabilityRole), KubernetesGroups: []string{"kro"}})
	if err != nil {
		t.Fatal(err)
	}
	view := ekstest.PolicyPrefix + "AmazonEKSViewPolicy"
	_, err = w.Client.AssociateAccessPolicy(ctx, &eks.AssociateAccessPolicyInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.CapabilityRole), PolicyArn: &view,
		AccessScope: &types.AccessScope{Type: types.AccessScopeTypeCluster}})
	if err != nil {
		t.Fatal(err)
	}
	create(w, request("graphs", types.CapabilityTypeKro, nil))
	if d := cmp.Diff([]string{kroPolicy, view}, policiesOf(w, ekstest.CapabilityRole)); d != "" {
		t.Errorf("access policies (-want +got):\n%s", d)
	}
	entry, err := w.Client.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("c"),
		PrincipalArn: aws.String(ekstest.CapabilityRole)})
	if err != nil || len(entry.AccessEntry.KubernetesGroups) != 1 {
		t.Errorf("access entry %+v, %v", entry, err)
	}
}

// The unmodified aws CLI makes, lists, tags and deletes a capability.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	cli := awsclient.NewCLI(t, w.URL, ekstest.Region, "eks")
	cli.Run(nil, "list-capabilities", "--cluster-name", "c")
	arn := strings.TrimSpace(cli.Run(nil, "create-capability", "--cluster-name", "c", "--capability-name", "graphs",
		"--type", "KRO", "--role-arn", ekstest.CapabilityRole, "--delete-propagation-policy", "RETAIN", "--query",
		"capability.arn", "--output", "text"))
	cli.Run(nil, "tag-resource", "--resource-arn", arn, "--tags", "a=b")
	observe(w, "graphs", record.CapabilityState{Created: true, Version: "v0.9.4", Change: 1})
	got := strings.Fields(cli.Run(nil, "describe-capability", "--cluster-name", "c", "--capability-name", "graphs",
		"--query", "capability.[status,version,tags.a]", "--output", "text"))
	if d := cmp.Diff([]string{"ACTIVE", "v0.9.4", "b"}, got); d != "" {
		t.Errorf("described (-want +got):\n%s", d)
	}
	cli.Refused("ResourceInUseException", "Capability already exists with name graphs and cluster name c",
		"create-capability", "--cluster-name", "c", "--capability-name", "graphs", "--type", "KRO", "--role-arn",
		ekstest.CapabilityRole, "--delete-propagation-policy", "RETAIN")
	cli.Run(nil, "delete-capability", "--cluster-name", "c", "--capability-name", "graphs")
}

func TestCapabilityRefusals(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c")
	w.Create("other")
	w.Create("old", func(in *eks.CreateClusterInput) {
		in.AccessConfig = &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeConfigMap}
	})
	w.Create("leaving")
	if err := ekstest.DeleteCluster("leaving")(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	create(w, request("aws", types.CapabilityTypeAck, func(in *eks.CreateCapabilityInput) {
		in.ClientRequestToken = aws.String("once")
	}))
	observe(w, "aws", record.CapabilityState{Failed: true})
	create(w, request("graphs", types.CapabilityTypeKro, nil))
	if _, err := w.Client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: aws.String("other"),
		PrincipalArn: aws.String(ekstest.CapabilityRole), Type: aws.String("EC2_LINUX")}); err != nil {
		t.Fatal(err)
	}
	type in = eks.CreateCapabilityInput
	creates := func(of types.CapabilityType, edit func(*in)) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.CreateCapability(ctx, request("new", of, edit))
			return err
		}
	}
	argo := func(edit func(*types.ArgoCdConfigRequest)) ekstest.Call {
		return creates(types.CapabilityTypeArgocd, func(in *in) {
			c := &types.ArgoCdConfigRequest{
				AwsIdc: &types.ArgoCdAwsIdcConfigRequest{IdcInstanceArn: aws.String(instance)},
			}
			edit(c)
			in.Configuration = &types.CapabilityConfigurationRequest{ArgoCd: c}
		})
	}
	kro := func(cluster string, edit func(*in)) ekstest.Call {
		return creates(types.CapabilityTypeKro, func(in *in) {
			in.ClusterName = &cluster
			if edit != nil {
				edit(in)
			}
		})
	}
	role := func(arn string) ekstest.Call { return kro("other", func(in *in) { in.RoleArn = &arn }) }
	updates := func(name string, edit func(*eks.UpdateCapabilityInput)) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			in := &eks.UpdateCapabilityInput{ClusterName: aws.String("c"), CapabilityName: &name}
			edit(in)
			_, err := c.UpdateCapability(ctx, in)
			return err
		}
	}
	toOther := func(in *eks.UpdateCapabilityInput) { in.RoleArn = aws.String(ekstest.OtherCapabilityRole) }
	deletes := func(cluster, name string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.DeleteCapability(ctx, &eks.DeleteCapabilityInput{ClusterName: &cluster, CapabilityName: &name})
			return err
		}
	}
	lists := func(cluster string, most int32) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListCapabilities(ctx, &eks.ListCapabilitiesInput{ClusterName: &cluster, MaxResults: &most})
			return err
		}
	}
	const (
		parameter = "InvalidParameterException"
		invalid   = "InvalidRequestException"
		missing   = "ResourceNotFoundException"
		inUse     = "ResourceInUseException"
	)
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	trust := "The trust policy for the provided role is invalid. The policy must include sts:AssumeRole and " +
		"sts:TagSession actions granting access to the AWS service capabilities.eks.amazonaws.com"
	for _, r := range []struct {
		name          string
		do            ekstest.Call
		code, message string
	}{
		{"no cluster", kro("nobody", nil), missing, "No cluster found for name: nobody."},
		{"cluster on its way out", kro("leaving", nil), invalid, "Cluster 'leaving' is not in ACTIVE status"},
		{"no access entries", kro("old", nil), invalid,
			"The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation."},
		{"second of a type", kro("c", nil), inUse, "Capability of type KRO already exists in cluster c: graphs"},
		{"name in use", creates(types.CapabilityTypeArgocd, func(in *in) { in.CapabilityName = aws.String("aws") }), inUse,
			"Capability already exists with name aws and cluster name c"},
		{"token in use", creates(types.CapabilityTypeAck, func(in *in) {
			in.CapabilityName, in.ClientRequestToken = aws.String("aws"), aws.String("once")
			in.Tags = map[string]string{"a": "b"}
		}), parameter, "…was used before by a request with other parameters"},
		{"name with a dot", kro("other", func(in *in) { in.CapabilityName = aws.String("a.b") }), parameter,
			"…The capability name a.b is invalid"},
		{"unknown type", creates("FLUX", nil), parameter, "…enum value set: [ACK, KRO, ARGOCD]"},
		{"unknown policy", kro("other", func(in *in) { in.DeletePropagationPolicy = "DELETE" }), parameter,
			"…enum value set: [RETAIN]"},
		{"reserved tag", kro("other", func(in *in) { in.Tags = map[string]string{"aws:x": "y"} }), parameter,
			"Tag key aws:x is invalid: the prefix aws: is reserved for system use"},
		{"ARN of a user", role(iam + "user/alice"), parameter, "roleArn " + iam + "user/alice is not the ARN of an IAM role"},
		{"role of another account", role("arn:aws:iam::444455556666:role/x"), "AccessDeniedException",
			"Cross-account pass role is not allowed."},
		{"no role", role(iam + "role/nobody"), parameter, "Role provided in the request does not exist."},
		{"role of pods", role(ekstest.PodRole), parameter, trust},
		{"role without sessions with tags", role(iam + "role/untagged-capability"), parameter, trust},
		{"role of nodes", kro("other", nil), parameter, "The role " + ekstest.CapabilityRole +
			" has an access entry of type EC2_LINUX in cluster other: a capability needs a role without one, or with one " +
			"of type STANDARD"},
		{"configuration of another type", kro("other", func(in *in) {
			in.Configuration = &types.CapabilityConfigurationRequest{Ack: &types.AckConfigRequest{}}
		}), parameter, "configuration.ack can't be specified for capabilities of type KRO"},
		{"Argo CD without its users", creates(types.CapabilityTypeArgocd, nil), parameter,
			"configuration.argoCd.awsIdc is required for capabilities of type ARGOCD"},
		{"instance", argo(func(c *types.ArgoCdConfigRequest) { c.AwsIdc.IdcInstanceArn = aws.String("x") }), parameter,
			"idcInstanceArn x is not the ARN of an IAM Identity Center instance"},
		{"namespace", argo(func(c *types.ArgoCdConfigRequest) { c.Namespace = aws.String("A_B") }), parameter,
			`…namespace "A_B" is not the name of a Kubernetes namespace`},
		{"mapping without identities", argo(func(c *types.ArgoCdConfigRequest) {
			c.RbacRoleMappings = []types.ArgoCdRoleMapping{{Role: types.ArgoCdRoleViewer, Identities: []types.SsoIdentity{}}}
		}), parameter, "the mapping of role VIEWER has no identities"},
		{"describe nothing", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeCapability(ctx,
				&eks.DescribeCapabilityInput{ClusterName: aws.String("c"), CapabilityName: aws.String("nope")})
			return err
		}, missing, "No capability found with name: nope in cluster: c."},
		{"update nothing", updates("nope", toOther), missing, "No capability found with name: nope in cluster: c."},
		{"update without a change", updates("graphs", func(*eks.UpdateCapabilityInput) {}), parameter,
			"No changes needed for the capability"},
		{"update while it is created", updates("graphs", toOther), inUse,
			"Capability graphs cannot be updated as it is currently in CREATING state"},
		{"update of one that failed", updates("aws", toOther), inUse,
			"Capability aws cannot be updated as it is currently in CREATE_FAILED state"},
		{"update of another type", updates("graphs", func(in *eks.UpdateCapabilityInput) {
			in.Configuration = &types.UpdateCapabilityConfiguration{ArgoCd: &types.UpdateArgoCdConfig{}}
		}), parameter, "configuration.argoCd can't be specified for capabilities of type KRO"},
		{"delete nothing", deletes("c", "nope"), missing, "No capability found with name: nope in cluster: c."},
		{"delete of no cluster", deletes("nobody", "graphs"), missing, "No cluster found for name: nobody."},
		{"list of no cluster", lists("nobody", 1), missing, "No cluster found for name: nobody."},
		{"page of 101", lists("c", 101), parameter, "1 validation error detected: Value '101' at 'maxResults' " +
			"failed to satisfy constraint: Member must have value less than or equal to 100"},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
}
