package console

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/chromedp/chromedp"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
)

// link returns a link that "coracle console" prints, without the origin.
func link(t *testing.T, d *harness.Daemon) string {
	t.Helper()
	out := d.Run("", harness.Binary(t), "console", "--no-browser", "--data-dir", d.Dir)
	return strings.TrimPrefix(strings.TrimSpace(out), d.Endpoint)
}

// TestSignIn goes in by each way, and out again.
func TestSignIn(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)

	t.Run("by a link", func(t *testing.T) {
		first := link(t, d)
		tab := browser.Open(t, chromium, d.Endpoint, 1280, 800)
		tab.Go(first)
		tab.See("No clusters")
		tab.See("root @ 1111-2222-3333")
		tab.See("Europe (Ireland)")
		if address := tab.Address(); strings.Contains(address, "code") {
			t.Errorf("the code is still in the address: %s", address)
		}
		tab.Do("reload", chromedp.Reload())
		tab.See("No clusters")

		// The link is good once, for whoever finds it in a history.
		second := browser.Open(t, chromium, d.Endpoint, 1280, 800)
		second.Expect("403 (Forbidden)")
		second.Go(first)
		second.See(`The link has been used, or is older than a minute. Run "coracle console" again.`)
		if text := second.Text(); strings.Contains(text, "1111-2222-3333") {
			t.Errorf("somebody is signed in:\n%s", text)
		}

		// Signing out forgets the credentials, and keeps the place.
		tab.Go("/console/clusters/web/overview")
		tab.Expect("404 (Not Found)") // there is no such cluster
		tab.See("No cluster found for name: web.")
		tab.Click("root @ 1111-2222-3333: account menu")
		tab.Click("Sign out")
		tab.See("You have signed out.")
		stored := browser.Evaluate[string](tab, `JSON.stringify({...sessionStorage, ...localStorage})`)
		if strings.Contains(stored, "ASIA") {
			t.Errorf("%s is stored", stored)
		}
		if address := tab.Address(); !strings.HasSuffix(address, "/console/clusters/web/overview") {
			t.Errorf("the place is lost: %s", address)
		}
		tab.Fill("Access key ID", d.Variable("AWS_ACCESS_KEY_ID"))
		tab.Fill("Secret access key", d.Variable("AWS_SECRET_ACCESS_KEY"))
		tab.Click("Sign in")
		tab.See("No cluster found for name: web.")
	})

	t.Run("by keys that are wrong", func(t *testing.T) {
		tab := browser.Open(t, chromium, d.Endpoint, 1280, 800)
		tab.Expect("403 (Forbidden)")
		tab.Go("/console/")
		tab.See("Sign in to Coracle")
		tab.Click("Sign in")
		tab.See("This field is required.")
		tab.Fill("Access key ID", `<img src=x onerror="hacked=1">`)
		tab.Fill("Secret access key", "wrong")
		tab.Click("Sign in")
		tab.See("Sign in failed: ")
		tab.Screenshot("refused")
	})

	t.Run("by a role", func(t *testing.T) {
		d.AWS(nil, "iam", "create-role", "--role-name", "viewer", "--assume-role-policy-document",
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"111122223333"},`+
				`"Action":"sts:AssumeRole"}]}`)
		var made struct {
			AccessKey struct{ AccessKeyId, SecretAccessKey string }
		}
		d.AWS(nil, "iam", "create-user", "--user-name", "alice")
		d.AWS(nil, "iam", "put-user-policy", "--user-name", "alice", "--policy-name", "assume", "--policy-document",
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}]}`)
		d.AWS(&made, "iam", "create-access-key", "--user-name", "alice")
		tab := browser.Open(t, chromium, d.Endpoint, 1280, 800)
		tab.Expect("403 (Forbidden)") // the role may do nothing
		tab.Expect("400 (Bad Request)")
		tab.Go("/console/")
		tab.Click("Assume a role")
		tab.Fill("Role ARN", "arn:aws:iam::111122223333:role/viewer")
		tab.Fill("Access key ID", made.AccessKey.AccessKeyId)
		tab.Fill("Secret access key", made.AccessKey.SecretAccessKey)
		tab.Click("Sign in")
		tab.See("viewer/console @ 1111-2222-3333")
		tab.See("is not authorized to perform: eks:ListClusters")
	})
}

// TestHostileText opens addresses that name things as an attacker would.
func TestHostileText(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 800)
	tab.Expect("400 (Bad Request)")
	tab.Expect("404 (Not Found)")
	tab.Go(link(t, d))
	tab.See("No clusters")
	for _, name := range []string{`<img src=x onerror="hacked=1">`, `"><script>hacked=1</script>`, `{{hacked=1}}`,
		`javascript:hacked=1`} {
		tab.Go("/console/clusters/" + url.PathEscape(name))
		tab.See("Describe cluster " + name + " failed")
		if browser.Evaluate[bool](tab, `"hacked" in window`) {
			t.Errorf("%s is executed", name)
		}
	}

	// A command is for a shell of the host, whatever an object is called.
	object := url.Values{"group": {"rbac.authorization.k8s.io"}, "resource": {"roles"}, "namespace": {"default"}}
	for name, word := range map[string]string{
		"view $(hacked)": `'roles/view $(hacked)'`, "it's\x15": `$'roles/it\047s\025'`,
	} {
		object.Set("name", name)
		tab.Go("/console/cluster-objects/web?" + object.Encode())
		tab.Click("Show the command")
		tab.Click("coracle")
		tab.See("coracle fields " + word + " -n default --cluster web")
	}
}

// TestClusters looks at a cluster as people do, in every size and color.
func TestClusters(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	role, subnets := d.ClusterRole(), d.Subnets()
	for _, name := range []string{"web", "batch"} {
		d.CreateCluster(name, "1.35", role, subnets)
	}
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go(link(t, d))
	tab.See("What is wrong")
	tab.Accessible("home")
	tab.Go("/console/clusters")
	tab.See("Clusters (2)")
	d.AwaitStatus("web", ekstypes.ClusterStatusActive)
	d.AwaitStatus("batch", ekstypes.ClusterStatusActive)
	tab.Until("see that both are active", `document.body.innerText.match(/\bActive\b/g)?.length === 2`)

	eachLook(tab, "clusters")
	tab.Click("Show the command")
	tab.See("aws eks list-clusters --region eu-west-1")
	tab.Accessible("a command")
	tab.Screenshot("command")
	tab.Click("Close")

	tab.Click("web")
	tab.See("Cluster info")
	tab.See("API server endpoint")
	tab.See("arn:aws:eks:eu-west-1:111122223333:cluster/web")
	eachLook(tab, "cluster")

	// A cluster is deleted by whoever types its name.
	tab.Click("Clusters")
	tab.See("Clusters (2)")
	tab.Click("Select batch")
	tab.Click("Delete")
	tab.See("To confirm deletion, type")
	tab.Accessible("the deletion of a cluster")
	tab.Screenshot("delete")
	tab.Fill("To confirm deletion", "batch")
	tab.Do("confirm", chromedp.KeyEvent("\r"))
	tab.See("Cluster batch is being deleted.")
	tab.See("Clusters (1)")
	d.AwaitGone("batch")
}

// eachLook takes screenshots in the sizes and colors that people have, and has axe look at each color.
func eachLook(tab *browser.Tab, what string) {
	for _, scheme := range []string{"light", "dark"} {
		tab.Prefer(scheme)
		for _, size := range [][2]int64{{1920, 1080}, {820, 1180}, {1280, 900}} {
			tab.Resize(size[0], size[1])
			tab.Screenshot(fmt.Sprintf("%s-%s-%d", what, scheme, size[0]))
		}
		tab.Accessible(what + " in " + scheme + " mode")
	}
	tab.Prefer("light")
}

// TestSignInPageIsAccessible has axe look at the page that everybody sees first.
func TestSignInPageIsAccessible(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go("/console/")
	tab.See("Sign in to Coracle")
	eachLook(tab, "sign-in")
}
