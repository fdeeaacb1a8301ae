package addon_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// badAddon returns a bad CreateAddon: a good one of acme_storage with an edit.
func badAddon(edits ...func(*eks.CreateAddonInput)) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		in := &eks.CreateAddonInput{ClusterName: aws.String("c"), AddonName: aws.String("acme_storage")}
		for _, edit := range edits {
			edit(in)
		}
		_, err := c.CreateAddon(ctx, in)
		return err
	}
}

func badName(name string) ekstest.Call {
	return badAddon(func(in *eks.CreateAddonInput) { in.AddonName = &name })
}

func badVersion(name, version string) ekstest.Call {
	return badAddon(func(in *eks.CreateAddonInput) { in.AddonName, in.AddonVersion = &name, &version })
}

func badValues(values string) ekstest.Call {
	return badAddon(func(in *eks.CreateAddonInput) { in.ConfigurationValues = &values })
}

func badRole(arn string) ekstest.Call {
	return badAddon(func(in *eks.CreateAddonInput) { in.ServiceAccountRoleArn = &arn })
}

func badNamespace(name string) ekstest.Call {
	return badAddon(func(in *eks.CreateAddonInput) {
		in.NamespaceConfig = &types.AddonNamespaceConfigRequest{Namespace: &name}
	})
}

// pairs returns pod identity associations: service account, role, service account, role, ...
func pairs(words ...string) []types.AddonPodIdentityAssociations {
	out := []types.AddonPodIdentityAssociations{}
	for i := 0; i < len(words); i += 2 {
		out = append(out, types.AddonPodIdentityAssociations{ServiceAccount: &words[i], RoleArn: &words[i+1]})
	}
	return out
}

func badPods(words ...string) ekstest.Call {
	return badAddon(func(in *eks.CreateAddonInput) { in.PodIdentityAssociations = pairs(words...) })
}

func updateOf(name string, in eks.UpdateAddonInput) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		if in.ClusterName == nil {
			in.ClusterName = aws.String("c")
		}
		in.AddonName = &name
		_, err := c.UpdateAddon(ctx, &in)
		return err
	}
}

func deleteOf(cluster, name string) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.DeleteAddon(ctx, &eks.DeleteAddonInput{ClusterName: &cluster, AddonName: &name})
		return err
	}
}

// refusal is a bad request, and what EKS says to it: see [ekstest.Fixture.Refuses].
type refusal struct {
	name          string
	do            ekstest.Call
	code, message string
}

// A bad request about add-ons is answered with EKS's error, and changes nothing.
func TestAddonRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	iam := "arn:aws:iam::" + ekstest.Account + ":"
	w.Create("c")
	w.Create("elsewhere")
	w.Create("busy")
	if _, err := w.Client.UpdateClusterConfig(t.Context(), &eks.UpdateClusterConfigInput{Name: aws.String("busy"),
		ZonalShiftConfig: &types.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.CreateCluster(t.Context(), ekstest.Request("unborn")); err != nil {
		t.Fatal(err)
	}
	w.Create("dying")
	w.createAddon("dying", "coredns")
	w.keepAddon("dying", "coredns")
	if _, err := w.Client.DeleteCluster(t.Context(), &eks.DeleteClusterInput{Name: aws.String("dying")}); err != nil {
		t.Fatal(err)
	}
	w.createAddon("c", "coredns", func(in *eks.CreateAddonInput) {
		in.ConfigurationValues = aws.String(
			`{"replicaCount":3}`)
	})
	w.keepAddon("c", "coredns")
	w.createAddon("c", "vpc-cni")
	w.createAddon("c", "kube-proxy")
	w.keepAddon("c", "kube-proxy")
	w.updateAddon("c", "kube-proxy", eks.UpdateAddonInput{})
	w.createAddon("c", "acme_strict", func(in *eks.CreateAddonInput) { in.ConfigurationValues = aws.String("{}") })
	if err := deleteOf("c", "acme_strict")(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	w.createAddon("elsewhere", "acme_strict",
		func(in *eks.CreateAddonInput) { in.ConfigurationValues = aws.String("{}") })
	w.keepAddon("elsewhere", "acme_strict")
	// Somebody's own association, in the way of add-ons in the namespace "taken".
	taken := record.PodIdentityAssociation{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c",
		ClusterID: w.Row("c").ID, ID: "a-taken", Namespace: "taken", ServiceAccount: "node", RoleARN: ekstest.PodRole}
	ekstest.Put(w.T, record.PodIdentityAssociations(w.Store), taken.Key(), taken)

	const (
		parameter   = "InvalidParameterException"
		invalid     = "InvalidRequestException"
		used        = "ResourceInUseException"
		missing     = "ResourceNotFoundException"
		denied      = "AccessDeniedException"
		unsupported = "Addon version specified is not supported"
		schema      = "ConfigurationValue provided in request is not supported: Json schema validation failed with " +
			"error: ["
		stranger = " is not defined in the schema and the schema does not allow additional properties"
		crossed  = "Cross-account pass role is not allowed."
		distrust = "Trust policy of the role provided is invalid. Follow the official documentation to resolve " +
			"the issue."
	)
	for _, r := range []refusal{
		// Clusters, add-ons, versions.
		{"no cluster", badAddon(func(in *eks.CreateAddonInput) { in.ClusterName = aws.String("nobody") }), missing,
			"No cluster found for name: nobody."},
		{"a cluster in an update", badAddon(func(in *eks.CreateAddonInput) { in.ClusterName = aws.String("busy") }),
			invalid, "Cluster 'busy' is not in ACTIVE status"},
		{"a cluster in the making", badAddon(func(in *eks.CreateAddonInput) { in.ClusterName = aws.String("unborn") }),
			invalid, "Cluster 'unborn' is not in ACTIVE status"},
		{"a cluster on its way out", badAddon(func(in *eks.CreateAddonInput) { in.ClusterName = aws.String("dying") }),
			invalid, "Cluster 'dying' is not in ACTIVE status"},
		{"a cluster name with a dot", badAddon(func(in *eks.CreateAddonInput) { in.ClusterName = aws.String("a.b") }),
			parameter, "…regular expression pattern"},
		{"unknown add-on", badName("vpc"), parameter, "Addon vpc specified is not supported in 1.35 kubernetes version"},
		{"add-on in capitals", badName("CoreDNS"), parameter,
			"Addon CoreDNS specified is not supported in 1.35 kubernetes version"},
		{"add-on that is there", badName("coredns"), used, "Addon already exists."},
		{"add-on that is being created", badName("vpc-cni"), used, "Addon already exists."},
		{"add-on that is being updated", badName("kube-proxy"), used, "Addon already exists."},
		{"add-on on its way out", badName("acme_strict"), used, "Addon already exists."},
		{"unknown version", badVersion("acme_storage", "v0.0.1-eksbuild.1"), parameter, unsupported},
		{"version without eksbuild", badVersion("acme_storage", "v1.11.1"), parameter, unsupported},
		{"latest", badVersion("acme_storage", "latest"), parameter, unsupported},
		{"an empty version", badVersion("acme_storage", ""), parameter, unsupported},
		{"add-on of an older Kubernetes", badName("acme_old"), parameter,
			"Addon acme_old specified is not supported in 1.35 kubernetes version"},
		{"add-on of an older Kubernetes in a version that it has", badVersion("acme_old", w.versions("coredns")[0]),
			parameter, "Addon acme_old specified is not supported in 1.35 kubernetes version"},
		{"version of another add-on", badVersion("acme_storage", w.versions("vpc-cni")[0]), parameter, unsupported},
		{"unknown way to resolve conflicts", badAddon(func(in *eks.CreateAddonInput) { in.ResolveConflicts = "FORCE" }),
			parameter,
			"…Value 'FORCE' at 'resolveConflicts' failed to satisfy constraint: Member must satisfy enum value set: " +
				"[OVERWRITE, NONE, PRESERVE]"},
		{"reserved tag", badAddon(func(in *eks.CreateAddonInput) { in.Tags = map[string]string{"aws:x": ""} }),
			parameter, "Tag key aws:x is invalid: the prefix aws: is reserved for system use"},
		{"tag value of 257 characters", badAddon(func(in *eks.CreateAddonInput) {
			in.Tags = map[string]string{
				"x": strings.Repeat("v", 257)}
		}), parameter, "…256"},

		// Configuration.
		{"property that the schema doesn't have", badValues(`{"foo":1}`), parameter, schema + "$.foo:" + stranger +
			"]"},
		{"the same in YAML", badValues("foo:\n  bar: 1\n"), parameter, schema + "$.foo:" + stranger + "]"},
		{"property deeper down", badValues(`{"resources":{"limit":{}}}`), parameter, schema + "$.resources.limit:" +
			stranger + "]"},
		{"two wrong properties", badValues("foo: 1\nreplicaCount: many\n"), parameter, schema + "$.foo:" + stranger +
			", $.replicaCount: string found, integer expected]"},
		{"wrong type", badValues(`{"replicaCount":"3"}`), parameter,
			schema + "$.replicaCount: string found, integer expected]"},
		{"wrong type deeper down", badValues(`{"resources":{"limits":{"cpu":1}}}`), parameter,
			schema + "$.resources.limits.cpu: integer found, string expected]"},
		{"an object where a list is due", badValues(`{"tolerations":{"key":"a"}}`), parameter,
			schema + "$.tolerations: object found, array expected]"},
		{"no object", badValues(`[1,2]`), parameter, schema + "$: array found, object expected]"},
		{"a word", badValues(`hello`), parameter, schema + "$: string found, object expected]"},
		{"broken JSON", badValues(`{"replicaCount":`), parameter,
			"…ConfigurationValue provided in request is not supported: it is not a valid JSON or YAML document: "},
		{"broken YAML", badValues("a: b: c\n"), parameter,
			"…ConfigurationValue provided in request is not supported: it is not a valid JSON or YAML document: "},
		{"a key twice", badValues("replicaCount: 1\nreplicaCount: 2\n"), parameter,
			"…key \"replicaCount\" already set in map"},
		{"more than a configuration may have", badValues("corefile: " + strings.Repeat("x", 1<<20)), parameter,
			"ConfigurationValue provided in request is not supported: it is not a valid JSON or YAML document: it is " +
				"larger than 64 KiB"},
		{"no configuration where there must be one",
			badAddon(func(in *eks.CreateAddonInput) { in.AddonName = aws.String("acme_stricter") }), parameter,
			schema + "$: is missing but it is required]"},

		// Roles for service accounts.
		{"role is no ARN", badRole("irsa"), parameter, "serviceAccountRoleArn irsa is not the ARN of an IAM role"},
		{"role is a user", badRole(iam + "user/alice"), parameter, "…is not the ARN of an IAM role"},
		{"role is a policy", badRole("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"), parameter,
			"…is not the ARN of an IAM role"},
		{"role of another account", badRole("arn:aws:iam::444455556666:role/irsa"), denied, crossed},
		{"role for an add-on that needs none", badAddon(func(in *eks.CreateAddonInput) {
			in.ClusterName, in.AddonName, in.ServiceAccountRoleArn = aws.String("elsewhere"), aws.String("coredns"),
				aws.String(ekstest.IRSARole)
		}), parameter, "…serviceAccountRoleArn can't be specified for addon coredns: no service account of version v"},

		// Namespaces.
		{"namespace in capitals", badNamespace("Acme"), parameter,
			"…Namespace Acme in namespaceConfig is invalid: a lowercase RFC 1123 label must consist of"},
		{"namespace with a dot", badNamespace("a.b"), parameter, "…Namespace a.b in namespaceConfig is invalid: "},
		{"namespace of 64 characters", badNamespace(strings.Repeat("x", 64)), parameter, "…63"},
		{"no namespace", badNamespace(""), parameter, "…namespaceConfig"},

		// Pod identity.
		{"add-on without service accounts that take roles", badAddon(func(in *eks.CreateAddonInput) {
			in.ClusterName, in.AddonName, in.PodIdentityAssociations = aws.String("elsewhere"), aws.String("coredns"),
				pairs("coredns", ekstest.PodRole)
		}), parameter, "Pod Identity feature is not supported for addon version: " + w.defaultVersion("coredns")},
		{"service account that isn't the add-on's", badPods("default", ekstest.PodRole), parameter,
			"Service account default in pod identity configuration is not supported for addon acme_storage"},
		{"service account that takes none by pod identity", badPods("legacy", ekstest.PodRole), parameter,
			"Service account legacy in pod identity configuration is not supported for addon acme_storage"},
		{"service account twice", badPods("node", ekstest.PodRole, "node", ekstest.PodRole), parameter,
			"Service account node is specified more than once in pod identity configuration"},
		{"pods' role is no ARN", badPods("node", "pods"), parameter, "roleArn pods is not the ARN of an IAM role"},
		{"pods' role of another account", badPods("node", "arn:aws:iam::444455556666:role/pods"), denied, crossed},
		{"pods' role does not exist", badPods("node", iam+"role/nobody"), parameter,
			"Role provided in the request does not exist."},
		{"pods' role is elsewhere", badPods("node", iam+"role/teams/pods"), parameter,
			"Role provided in the request does not exist."},
		{"pods' role trusts an OIDC provider", badPods("node", ekstest.IRSARole), parameter, distrust},
		{"pods' role trusts nodes", badPods("node", ekstest.NodeRole), parameter, distrust},
		{"pods' role can't be tagged", badPods("node", iam+"role/untagged-pods"), parameter, distrust},
		{"the second role is bad", badPods("node", ekstest.PodRole, "controller", ekstest.NodeRole), parameter,
			distrust},
		{"pods' role is for another namespace", badAddon(func(in *eks.CreateAddonInput) {
			in.NamespaceConfig = &types.AddonNamespaceConfigRequest{Namespace: aws.String("elsewhere")}
			in.PodIdentityAssociations = pairs("node", iam+"role/other-pods")
		}), parameter, distrust},
		{"service account that is taken", badAddon(func(in *eks.CreateAddonInput) {
			in.NamespaceConfig = &types.AddonNamespaceConfigRequest{Namespace: aws.String("taken")}
			in.PodIdentityAssociations = pairs("node", ekstest.PodRole)
		}), used, "Association already exists: a-taken"},

		// Updates.
		{"update of no add-on", updateOf("acme_storage", eks.UpdateAddonInput{}), missing,
			"No addon: acme_storage found in cluster: c"},
		{"update in no cluster", updateOf("coredns", eks.UpdateAddonInput{ClusterName: aws.String("nobody")}), missing,
			"No cluster found for name: nobody."},
		{"update of another cluster's add-on",
			updateOf("coredns", eks.UpdateAddonInput{ClusterName: aws.String("elsewhere")}), missing,
			"No addon: coredns found in cluster: elsewhere"},
		{"update on a cluster on its way out",
			updateOf("coredns", eks.UpdateAddonInput{ClusterName: aws.String("dying")}), invalid,
			"Cluster 'dying' is not in ACTIVE status"},
		{"update during creation", updateOf("vpc-cni", eks.UpdateAddonInput{}), used,
			"Addon vpc-cni cannot be updated as it is currently in CREATING state"},
		{"update during an update", updateOf("kube-proxy", eks.UpdateAddonInput{}), used,
			"Addon kube-proxy cannot be updated as it is currently in UPDATING state"},
		{"update on the way out", updateOf("acme_strict", eks.UpdateAddonInput{}), used,
			"Addon acme_strict cannot be updated as it is currently in DELETING state"},
		{"update to an unknown version",
			updateOf("coredns", eks.UpdateAddonInput{AddonVersion: aws.String("v0.0.1-eksbuild.1")}), parameter,
			unsupported},
		{"update to an empty version", updateOf("coredns", eks.UpdateAddonInput{AddonVersion: aws.String("")}),
			parameter, unsupported},
		{"update to a configuration that breaks the schema",
			updateOf("coredns", eks.UpdateAddonInput{ConfigurationValues: aws.String(`{"corefile":7}`)}), parameter,
			schema + "$.corefile: integer found, string expected]"},
		{"update to no configuration where there must be one",
			updateOf("acme_strict", eks.UpdateAddonInput{ClusterName: aws.String("elsewhere"),
				ConfigurationValues: aws.String("")}), parameter, schema + "$: is missing but it is required]"},
		{"update that resolves conflicts by chance",
			updateOf("coredns", eks.UpdateAddonInput{ResolveConflicts: "RANDOM"}), parameter,
			"…enum value set: [OVERWRITE, NONE, PRESERVE]"},
		{"update to an empty role", updateOf("coredns", eks.UpdateAddonInput{ServiceAccountRoleArn: aws.String("")}),
			parameter,
			"…Value '' at 'serviceAccountRoleArn' failed to satisfy constraint: Member must have length greater than " +
				"or equal to 1"},
		{"update to a bad role", updateOf("coredns", eks.UpdateAddonInput{ServiceAccountRoleArn: aws.String("x")}),
			parameter, "serviceAccountRoleArn x is not the ARN of an IAM role"},
		{"update to pods without identity",
			updateOf("coredns", eks.UpdateAddonInput{PodIdentityAssociations: pairs("coredns", ekstest.PodRole)}),
			parameter, "…Pod Identity feature is not supported for addon version: v"},

		// Deletion, description, lists.
		{"delete no add-on", deleteOf("c", "acme_storage"), missing, "No addon: acme_storage found in cluster: c"},
		{"delete in no cluster", deleteOf("nobody", "coredns"), missing, "No cluster found for name: nobody."},
		{"delete during an update", deleteOf("c", "kube-proxy"), invalid,
			"Addon kube-proxy cannot be deleted as it is currently in UPDATING state"},
		{"describe no add-on", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: aws.String("c"),
				AddonName: aws.String("nobody")})
			return err
		}, missing, "No addon: nobody found in cluster: c"},
		{"list the updates of no add-on", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListUpdates(ctx, &eks.ListUpdatesInput{Name: aws.String("c"), AddonName: aws.String("nobody")})
			return err
		}, missing, "No addon: nobody found in cluster: c"},
		{"list 101 add-ons", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: aws.String("c"), MaxResults: aws.Int32(101)})
			return err
		}, parameter, "…100"},
		{"versions from a page that isn't", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeAddonVersions(ctx, &eks.DescribeAddonVersionsInput{NextToken: aws.String("x")})
			return err
		}, parameter, "…oken"},
		{"configuration of no add-on", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeAddonConfiguration(ctx,
				&eks.DescribeAddonConfigurationInput{AddonName: aws.String("nobody"),
					AddonVersion: aws.String("v1.0.0-eksbuild.1")})
			return err
		}, parameter, "Addon specified is not supported"},
		{"configuration of no version", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribeAddonConfiguration(ctx,
				&eks.DescribeAddonConfigurationInput{AddonName: aws.String("coredns"),
					AddonVersion: aws.String("v0.0.1-eksbuild.1")})
			return err
		}, parameter, unsupported},
		{"associations of no cluster", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListPodIdentityAssociations(ctx,
				&eks.ListPodIdentityAssociationsInput{ClusterName: aws.String("nobody")})
			return err
		}, missing, "No cluster found for name: nobody."},
		{"no association", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribePodIdentityAssociation(ctx,
				&eks.DescribePodIdentityAssociationInput{ClusterName: aws.String("c"),
					AssociationId: aws.String("a-0")})
			return err
		}, missing, "…a-0"},
		{"association of another cluster", func(ctx context.Context, c *eks.Client) error {
			_, err := c.DescribePodIdentityAssociation(ctx,
				&eks.DescribePodIdentityAssociationInput{ClusterName: aws.String("elsewhere"),
					AssociationId: aws.String("a-taken")})
			return err
		}, missing, "…a-taken"},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
}
