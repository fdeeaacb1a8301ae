package eks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The unmodified aws CLI creates a cluster, waits for it, enters it, changes it and deletes it.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	cli := awsclient.NewCLI(t, w.URL, ekstest.Region, "eks")
	kubeconfig := filepath.Join(cli.Home, "kubeconfig")
	must := func(args ...string) map[string]any {
		t.Helper()
		parsed := map[string]any{}
		if out := cli.Run(nil, args...); strings.HasPrefix(out, "{") {
			if err := json.Unmarshal([]byte(out), &parsed); err != nil {
				t.Fatalf("aws eks %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
		return parsed
	}
	part := func(v map[string]any, path ...string) any {
		var at any = v
		for _, p := range path {
			m, _ := at.(map[string]any)
			at = m[p]
		}
		return at
	}

	created := must("create-cluster", "--name", "ironman-2022", "--kubernetes-version", "1.35", "--role-arn",
		ekstest.RoleARN, "--resources-vpc-config", "subnetIds=subnet-a,subnet-b", "--tags", "team=a")
	if got := part(created, "cluster", "status"); got != "CREATING" {
		t.Errorf("created in status %v", got)
	}
	w.Ready("ironman-2022")
	must("wait", "cluster-active", "--name", "ironman-2022")
	must("update-kubeconfig", "--name", "ironman-2022", "--kubeconfig", kubeconfig)
	if text, err := os.ReadFile(kubeconfig); err != nil || !strings.Contains(string(text), "https://127.0.0.1:34567") ||
		!strings.Contains(string(text), "UEVN") {
		t.Errorf("kubeconfig: %v\n%s", err, text)
	}

	update := must("update-cluster-version", "--name", "ironman-2022", "--kubernetes-version", "1.36")
	id, _ := part(update, "update", "id").(string)
	cli.Refused("ResourceInUseException",
		": Cannot EndpointAccessUpdate because cluster ironman-2022 currently has update "+id+" in progress",
		"update-cluster-config", "--name", "ironman-2022", "--resources-vpc-config", "endpointPrivateAccess=true")
	w.Finish("ironman-2022", id, types.UpdateStatusSuccessful)
	if got := part(must("describe-cluster", "--name", "ironman-2022"), "cluster", "version"); got != "1.36" {
		t.Errorf("version %v", got)
	}

	must("tag-resource", "--resource-arn", ekstest.ClusterARN+"ironman-2022", "--tags", "x=y")
	if got := part(must("list-tags-for-resource", "--resource-arn", ekstest.ClusterARN+"ironman-2022"), "tags",
		"x"); got != "y" {
		t.Errorf("tag %v", got)
	}
	mode := must("update-cluster-config", "--name", "ironman-2022", "--access-config",
		"authenticationMode=API_AND_CONFIG_MAP")
	id, _ = part(mode, "update", "id").(string)
	w.Finish("ironman-2022", id, types.UpdateStatusSuccessful)
	alice := "arn:aws:iam::" + ekstest.Account + ":user/alice"
	must("create-access-entry", "--cluster-name", "ironman-2022", "--principal-arn", alice, "--kubernetes-groups",
		"dev")
	must("associate-access-policy", "--cluster-name", "ironman-2022", "--principal-arn", alice, "--policy-arn",
		ekstest.PolicyPrefix+"AmazonEKSViewPolicy", "--access-scope", "type=namespace,namespaces=dev-*")
	if got := part(must("describe-access-entry", "--cluster-name", "ironman-2022", "--principal-arn", alice),
		"accessEntry", "username"); got != alice {
		t.Errorf("user name %v", got)
	}
	if got, _ := part(must("describe-cluster-versions"), "clusterVersions").([]any); len(got) != 4 {
		t.Errorf("%d versions", len(got))
	}
	must("list-insights", "--cluster-name", "ironman-2022")
	must("delete-cluster", "--name", "ironman-2022")
	if got := w.Describe("ironman-2022").Status; got != types.ClusterStatusDeleting {
		t.Errorf("deleted: %s", got)
	}
	cli.Refused("ResourceNotFoundException", ": No cluster found for name: nobody.", "describe-cluster", "--name",
		"nobody")
}
