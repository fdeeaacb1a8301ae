package console

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/chromedp/chromedp"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
)

// TestAddonsAndAccess does what a person does with the add-ons and the access of a cluster: resolves a conflict, and
// gives a role access.
func TestAddonsAndAccess(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	d.CreateCluster("web", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("web", ekstypes.ClusterStatusActive)
	for _, task := range []struct {
		name string
		do   func(*testing.T, *harness.Daemon, *browser.Tab)
	}{
		{"resolve a conflict of an add-on", resolveConflict},
		{"give a role access", giveAccess},
		{"change the configuration", changeConfiguration},
	} {
		t.Run(task.name, func(t *testing.T) {
			tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
			tab.Go(link(t, d))
			tab.See("Health issues")
			task.do(t, d, tab)
		})
	}
}

// resolveConflict installs CoreDNS, scales it with kubectl, and has the add-on want another number of replicas.
func resolveConflict(t *testing.T, d *harness.Daemon, tab *browser.Tab) {
	t.Helper()
	kubeconfig := d.Login("web")
	replicas := func(want string) {
		t.Helper()
		if got := d.Run(kubeconfig, "kubectl", "get", "deployment/coredns", "-n", "kube-system", "-o",
			"jsonpath={.spec.replicas}"); got != want {
			t.Errorf("CoreDNS has %s replicas, want %s", got, want)
		}
	}
	tab.Expect("404 (Not Found)") // the add-on is described once more when it is gone
	tab.Go("/console/clusters/web/add-ons")
	tab.Click("Get more add-ons")
	tab.See("Select add-ons to enhance cluster web")
	tab.Click("Add-ons Select coredns")
	tab.Accessible("the choice of add-ons")
	tab.Screenshot("addons-choose")
	tab.Click("Next")
	tab.See("Select the version for this add-on.")
	tab.Click("Optional configuration settings")
	tab.Fill("Configuration values", "replicas: 2")
	tab.See("$.replicas: is not defined in the schema")
	tab.Accessible("the settings of an add-on")
	tab.Screenshot("addons-configure")
	selectText(tab)
	tab.Do("clear the field", chromedp.KeyEvent("\b"))
	tab.Until("see no problem", `!document.body.innerText.includes("$.replicas")`)
	tab.Click("Next")
	tab.See("Conflict resolution method")
	tab.Click("The same with other tools")
	tab.See("aws eks create-addon")
	tab.Screenshot("addons-review")
	tab.Click("Create")
	tab.See("Add-on coredns is being created.")
	awaitAddon(t, d, "coredns", ekstypes.AddonStatusActive, ekstypes.AddonStatusDegraded) // there are no nodes
	replicas("2")

	// Somebody scales it, and the add-on is to have another number.
	d.Run(kubeconfig, "kubectl", "scale", "deployment/coredns", "-n", "kube-system", "--replicas=3")
	tab.Click("coredns")
	tab.See("Add-on ARN")
	tab.Click("Edit")
	tab.See("Amazon EKS doesn’t change the value. The update might fail.")
	tab.Fill("Configuration values", "replicaCount: 4")
	tab.Screenshot("addons-edit")
	tab.Click("Save changes")
	tab.See("Add-on coredns is being updated.")
	awaitAddon(t, d, "coredns", ekstypes.AddonStatusUpdateFailed)
	tab.See("A field belongs to another manager than EKS")
	tab.See(".spec.replicas")
	tab.Until("see who owns the field, and its value", `[...document.querySelectorAll("tr")].some(({ innerText }) =>
		/deployment\.apps\/coredns\s+\.spec\.replicas\s+kubectl\s+3\s/.test(innerText))`)
	tab.See("Ways out")
	replicas("3")
	eachLook(tab, "conflict")
	tab.Click("Show what EKS wants")
	tab.See("coracle fields deployment.apps/coredns -n kube-system --cluster web --addon coredns")
	tab.Click("Close")

	tab.Click("Overwrite")
	tab.See("Amazon EKS overwrites the changed value back to the Amazon EKS default value.")
	tab.See("those of the update that has failed")
	tab.Screenshot("addons-overwrite")
	tab.Click("Save changes")
	awaitAddon(t, d, "coredns", ekstypes.AddonStatusActive, ekstypes.AddonStatusDegraded)
	replicas("4")
	tab.Until("see no conflict any more", `document.body.innerText.includes("Add-on ARN") &&
		!document.body.innerText.includes("Ways out")`)
	tab.Click("Update history")
	tab.See("ConfigurationConflict: Apply failed with 1 conflict")
	tab.See("Successful")

	// It is removed by whoever types its name, and its objects stay.
	tab.Click("Remove")
	tab.Click("Preserve on cluster")
	tab.Fill("To confirm deletion", "coredns")
	tab.Accessible("the removal of an add-on")
	tab.Screenshot("addons-remove")
	tab.Click("Delete")
	d.AWS(nil, "eks", "wait", "addon-deleted", "--cluster-name", "web", "--addon-name", "coredns")
	replicas("4")
}

// selectText selects the text of the field of configuration values, so that what is typed replaces it.
func selectText(tab *browser.Tab) {
	browser.Evaluate[bool](tab, `((area) => { area.focus(); area.select(); return true; })(
		document.querySelector("textarea"))`)
}

// awaitAddon waits until an add-on has one of these statuses.
func awaitAddon(t *testing.T, d *harness.Daemon, name string, want ...ekstypes.AddonStatus) {
	t.Helper()
	eventually.Nil(t, "await add-on "+name, func() error {
		var out struct {
			Addon struct {
				Status ekstypes.AddonStatus
				Health any
			}
		}
		d.AWS(&out, "eks", "describe-addon", "--cluster-name", "web", "--addon-name", name)
		if !slices.Contains(want, out.Addon.Status) {
			return fmt.Errorf("add-on %s is %s, not one of %v: %v", name, out.Addon.Status, want, out.Addon.Health)
		}
		return nil
	})
}

// giveAccess gives a role a policy in a namespace, with which it reads that namespace and no other.
func giveAccess(t *testing.T, d *harness.Daemon, tab *browser.Tab) {
	t.Helper()
	const role = "arn:aws:iam::111122223333:role/viewer"
	d.AWS(nil, "iam", "create-role", "--role-name", "viewer", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"111122223333"},`+
			`"Action":"sts:AssumeRole"}]}`)
	d.AWS(nil, "iam", "create-user", "--user-name", "alice")
	d.AWS(nil, "iam", "put-user-policy", "--user-name", "alice", "--policy-name", "assume", "--policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}]}`)
	tab.Expect("404 (Not Found)") // the entry is described once more when it is gone
	tab.Go("/console/clusters/web/access")
	tab.See("IAM access entries")
	tab.Click("Create access entry")
	tab.See("Configure IAM access entry")
	tab.Click("Create")
	tab.See("Enter the ARN of an IAM role or user.")
	tab.Fill("IAM principal ARN", role)
	tab.Click("Add policy")
	tab.Click("Choose a policy")
	tab.Click("AmazonEKSViewPolicy")
	tab.Click("Kubernetes namespace")
	tab.Fill("Namespaces", "default")
	tab.Click("The same with other tools")
	tab.See("aws eks associate-access-policy")
	tab.Accessible("the form of an access entry")
	tab.Screenshot("access-create")
	tab.Click("Create")
	tab.See("The access entry of " + role + " was created.")
	tab.See("AmazonEKSViewPolicy")
	eachLook(tab, "access-entry")

	var made struct {
		Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken string }
	}
	var key struct {
		AccessKey struct{ AccessKeyId, SecretAccessKey string }
	}
	d.AWS(&key, "iam", "create-access-key", "--user-name", "alice")
	out := d.Run("", "env", "AWS_ACCESS_KEY_ID="+key.AccessKey.AccessKeyId,
		"AWS_SECRET_ACCESS_KEY="+key.AccessKey.SecretAccessKey, "aws", "sts", "assume-role", "--role-arn", role,
		"--role-session-name", "alice", "--output", "json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	token := d.Token("web", "AWS_ACCESS_KEY_ID="+made.Credentials.AccessKeyId,
		"AWS_SECRET_ACCESS_KEY="+made.Credentials.SecretAccessKey, "AWS_SESSION_TOKEN="+made.Credentials.SessionToken)
	for namespace, want := range map[string]int{"default": http.StatusOK, "kube-system": http.StatusForbidden} {
		eventually.Nil(t, "reach "+namespace, func() error {
			status, text := get(t, d, token, "/api/v1/namespaces/"+namespace+"/pods")
			if status != want {
				return fmt.Errorf("the role lists the pods of %s: %d %s, want %d", namespace, status, text, want)
			}
			return nil
		})
	}

	// Its groups are changed, and it loses the policy, and its entry.
	tab.Click("Edit")
	tab.Fill("Groups", "viewers, testers")
	tab.Click("Save changes")
	tab.See("viewers, testers")
	tab.Click("Select AmazonEKSViewPolicy")
	tab.Click("Remove")
	tab.See("Access policy AmazonEKSViewPolicy was removed.")
	tab.See("No access policies")
	tab.Click("Delete")
	tab.Fill("To confirm deletion", "delete")
	tab.Screenshot("access-delete")
	tab.Do("confirm", chromedp.KeyEvent("\r"))
	tab.See("The access entry of " + role + " was deleted.")
	tab.See("IAM access entries")
}

// get sends a request for the API server of the cluster with a token.
func get(t *testing.T, d *harness.Daemon, token, path string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		d.Endpoint+"/console/kubernetes/"+harness.Region+"/web"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// changeConfiguration changes settings of the cluster, one after the other, as each is an update.
func changeConfiguration(t *testing.T, d *harness.Daemon, tab *browser.Tab) {
	t.Helper()
	tab.Expect("404 (Not Found)") // there is no agent of EKS Pod Identity
	tab.Go("/console/clusters/web/overview")
	tab.See("Settings")
	tab.Click("Manage")
	tab.Click("Deletion protection")
	tab.See("Manage deletion protection")
	tab.Click("Deletion protection")
	tab.Click("The same with other tools")
	tab.See("--deletion-protection")
	tab.Accessible("the form of a setting")
	tab.Screenshot("deletion-protection")
	tab.Click("Save changes")
	tab.See("Cluster web is being updated: the deletion protection.")
	d.AwaitStatus("web", ekstypes.ClusterStatusActive)

	tab.Go("/console/clusters/web/networking")
	tab.Click("Manage")
	tab.Click("Endpoint access")
	tab.See("Public access source allowlist")
	tab.Screenshot("endpoint-access")
	tab.Click("Cancel")
	tab.Go("/console/clusters/web/access")
	tab.Click("Manage access")
	tab.See("This is one-way")
	tab.Screenshot("authentication-mode")
	tab.Click("Cancel")
	tab.Click("Create association")
	tab.See("The EKS Pod Identity Agent is not installed")
	tab.Accessible("the form of a pod identity association")
	tab.Screenshot("association-create")
	tab.Go("/console/clusters/web/version-upgrade")
	tab.See("Before you upgrade")
	tab.See("Upgrade insights")
	tab.Accessible("the upgrade of a cluster")
	tab.Screenshot("upgrade")
	tab.Go("/console/clusters/web/observability")
	tab.See("Upgrade insights")
	tab.Screenshot("observability")
}
