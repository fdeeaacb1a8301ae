package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// TestTasks does what a person opens the console for: create a cluster, find out why a pod is pending, and who changed
// a field. The tests of node groups, add-ons and denials do the others.
func TestTasks(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t, "CORACLE_MACHINES=simulated")
	d.ClusterRole()
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go(link(t, d))
	tab.Click("Clusters")
	tab.See("No clusters")
	createCluster(tab, d)

	s := clustertest.Of(t, d, "shop")
	s.Apply(`apiVersion: v1
kind: Pod
metadata: {name: cart, namespace: default}
spec: {containers: [{name: cart, image: nginx}]}
`)
	tab.Click("Resources")
	tab.See("Pending")
	tab.Screenshot("pods")
	tab.Click("cart")
	tab.Click("Events")
	tab.See("FailedScheduling")
	tab.See("no nodes available to schedule pods")
	eachLook(tab, "pending")

	s.Run(s.Config, "kubectl", "create", "configmap", "settings", "--from-literal=color=blue")
	s.Run(s.Config, "kubectl", "patch", "configmap", "settings", "--field-manager=night-shift",
		`--patch={"data":{"color":"red"}}`)
	settings := url.Values{"resource": {"configmaps"}, "namespace": {"default"}, "name": {"settings"}}
	tab.Go("/console/cluster-objects/shop?" + settings.Encode())
	tab.See("color: red")
	tab.See("night-shift")
	eachLook(tab, "owners")
	eventually.True(t, "the audit log has the change", func() bool {
		return strings.Contains(d.AWS(nil, "logs", "filter-log-events", "--log-group-name", "/aws/eks/shop/cluster",
			"--filter-pattern", `{ $.verb = "patch" && $.objectRef.name = "settings" }`), "settings")
	})
	tab.Click("Timeline")
	tab.Click("Show who changed it")
	tab.See("patch")
	tab.See("kubectl")
	eachLook(tab, "timeline")
}

// createCluster creates the cluster shop, with its audit log, in the form.
func createCluster(tab *browser.Tab, d *harness.Daemon) {
	tab.Click("Create cluster")
	tab.Click("Create")
	tab.See("Choose a role.")
	tab.Fill("Name", "shop")
	tab.Click("Select role")
	tab.Click("eks-service")
	tab.Click("Select subnets")
	for _, id := range d.Subnets() {
		tab.Click(id)
	}
	tab.Do("close the list", chromedp.KeyEvent(kb.Escape))
	tab.Click("Audit")
	eachLook(tab, "create-cluster")
	tab.Click("Create")
	tab.See("Cluster info")
	tab.Until("see that the cluster is active", `document.body.innerText.match(/^Active$/m)`)
	eachLook(tab, "cluster")
}
