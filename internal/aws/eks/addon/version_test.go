package addon_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
)

func (w fixture) addonVersions(in eks.DescribeAddonVersionsInput) []types.AddonInfo {
	w.T.Helper()
	var all []types.AddonInfo
	pages := eks.NewDescribeAddonVersionsPaginator(w.Client, &in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		all = append(all, page.Addons...)
	}
	return all
}

func TestDescribeAddonVersionsFilters(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const acme = "acme_old acme_storage acme_strict"
	for _, c := range []struct {
		name string
		in   eks.DescribeAddonVersionsInput
		want string // "…" before it: among others
	}{
		{"all", eks.DescribeAddonVersionsInput{}, "…acme_old acme_storage acme_strict coredns kube-proxy vpc-cni"},
		{"all, by page", eks.DescribeAddonVersionsInput{MaxResults: aws.Int32(1)},
			"…acme_old acme_storage acme_strict coredns kube-proxy vpc-cni"},
		{"by name", eks.DescribeAddonVersionsInput{AddonName: aws.String("coredns")}, "coredns"},
		{"by unknown name", eks.DescribeAddonVersionsInput{AddonName: aws.String("nobody")}, ""},
		{"by Kubernetes version", eks.DescribeAddonVersionsInput{KubernetesVersion: aws.String("1.35"),
			Publishers: []string{"acme"}}, "acme_storage acme_strict"},
		{"by name and Kubernetes version that don't go together",
			eks.DescribeAddonVersionsInput{KubernetesVersion: aws.String("1.35"), AddonName: aws.String("acme_old")},
			""},
		{"by unknown Kubernetes version", eks.DescribeAddonVersionsInput{KubernetesVersion: aws.String("1.2")}, ""},
		{"by publisher", eks.DescribeAddonVersionsInput{Publishers: []string{"acme", "nobody"}}, acme},
		{"by owner", eks.DescribeAddonVersionsInput{Owners: []string{"aws-marketplace"}}, acme},
		{"by type", eks.DescribeAddonVersionsInput{Types: []string{"storage"}, Owners: []string{"aws-marketplace"}},
			acme},
		{"by what nothing has together", eks.DescribeAddonVersionsInput{Types: []string{"storage"},
			Owners: []string{"aws"}, Publishers: []string{"acme"}}, ""},
	} {
		var names []string
		for _, a := range w.addonVersions(c.in) {
			names = append(names, *a.AddonName)
		}
		part, some := strings.CutPrefix(c.want, "…")
		if some {
			names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(strings.Fields(part), n) })
		}
		if got := strings.Join(names, " "); got != part {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDescribeAddonVersions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	got := w.addonVersions(eks.DescribeAddonVersionsInput{KubernetesVersion: aws.String("1.35"),
		AddonName: aws.String("acme_storage")})
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	want := types.AddonInfo{
		AddonName: aws.String("acme_storage"), Type: aws.String("storage"), Publisher: aws.String("acme"),
		Owner: aws.String("aws-marketplace"), DefaultNamespace: aws.String("acme"),
		MarketplaceInformation: &types.MarketplaceInformation{ProductId: aws.String("prod-1"),
			ProductUrl: aws.String("https://acme.example/storage")},
	}
	entry, _ := w.Catalog.Addon("acme_storage")
	for _, v := range entry.Versions {
		if v.Serves("1.35") {
			want.AddonVersions = append(want.AddonVersions, types.AddonVersionInfo{
				AddonVersion: aws.String(v.Version), Architecture: v.Architectures, ComputeTypes: v.ComputeTypes,
				RequiresIamPermissions: true,
				Compatibilities: []types.Compatibility{{ClusterVersion: aws.String("1.35"),
					PlatformVersions: []string{"*"}, DefaultVersion: v.Version == w.defaultVersion("acme_storage")}},
			})
		}
	}
	if d := cmp.Diff(want, got[0], unexportedOfAddons); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Without a Kubernetes version each says all that it is for.
	for _, v := range w.addonVersions(eks.DescribeAddonVersionsInput{
		AddonName: aws.String("vpc-cni")})[0].AddonVersions {
		if len(v.Compatibilities) < 2 || !slices.Contains(v.Architecture, "amd64") || !v.RequiresIamPermissions {
			t.Errorf("%s: %+v", *v.AddonVersion, v)
		}
	}
}

func TestDescribeAddonConfiguration(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	version := w.defaultVersion("acme_storage")
	out, err := w.Client.DescribeAddonConfiguration(t.Context(),
		&eks.DescribeAddonConfigurationInput{AddonName: aws.String("acme_storage"), AddonVersion: &version})
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal([]byte(*out.ConfigurationSchema), &schema); err != nil ||
		!strings.Contains(*out.ConfigurationSchema, "replicaCount") || *out.AddonVersion != version {
		t.Errorf("%s: %v\n%s", *out.AddonVersion, err, *out.ConfigurationSchema)
	}
	want := []types.AddonPodIdentityConfiguration{
		{ServiceAccount: aws.String("controller"),
			RecommendedManagedPolicies: []string{"arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"}},
		{ServiceAccount: aws.String("node")},
	}
	if d := cmp.Diff(want, out.PodIdentityConfiguration, unexportedOfAddons); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
