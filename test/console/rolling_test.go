package console

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// TestRollingUpdate looks at a node group of simulated machines: on the map, and while it is updated, which a budget
// blocks until somebody deletes it.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	const version = "1.35"
	chromium, d := browser.Start(t), harness.Start(t, "CORACLE_MACHINES=simulated")
	subnets := d.Subnets()
	d.CreateCluster("web", version, d.ClusterRole(), subnets)
	s := clustertest.Of(t, d, "web")
	s.Role(clustertest.NodeRole, "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
		"AmazonEC2ContainerRegistryReadOnly")
	client := eks.NewFromConfig(d.Config())
	if _, err := client.CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
		ClusterName: aws.String("web"), NodegroupName: aws.String("workers"), Subnets: subnets,
		NodeRole:       aws.String(clustertest.RoleARN(clustertest.NodeRole)),
		ReleaseVersion: aws.String(clustertest.Release(t, version, 1)),
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(2), MaxSize: aws.Int32(2),
			DesiredSize: aws.Int32(2)},
	}); err != nil {
		t.Fatal(err)
	}
	d.Run("", "aws", "eks", "wait", "nodegroup-active", "--cluster-name", "web", "--nodegroup-name", "workers")
	s.Run(s.Config, "kubectl", "create", "deployment", "shop", "--image=nginx", "--replicas=4")
	s.Run(s.Config, "kubectl", "create", "poddisruptionbudget", "shop", "--selector=app=shop", "--min-available=4")
	s.Run(s.Config, "kubectl", "rollout", "status", "deployment/shop", "--timeout="+eventually.Limit.String())

	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go(link(t, d))
	tab.See("Health issues")
	lookAtMap(tab)

	updated, err := client.UpdateNodegroupVersion(t.Context(), &eks.UpdateNodegroupVersionInput{
		ClusterName: aws.String("web"), NodegroupName: aws.String("workers"),
		ReleaseVersion: aws.String(clustertest.Release(t, version, 0)),
	})
	if err != nil {
		t.Fatal(err)
	}
	tab.Go("/console/clusters/web/update-history")
	tab.Click(*updated.Update.Id)
	tab.See("Update of node group workers")
	tab.See("PodDisruptionBudget default/shop blocks evictions")
	tab.See("4 of 4 pods are healthy, and 4 have to be (minAvailable: 4)")
	tab.See("Launching a new EC2 instance")
	tab.See("Deployment shop")
	eachLook(tab, "blocked")
	tab.Resize(1280, 2400)
	tab.Screenshot("blocked-whole")

	s.Run(s.Config, "kubectl", "delete", "poddisruptionbudget", "shop")
	tab.See("No old nodes are left.")
	tab.Until("see that it has ended", `/Status\s+Successful/.test(document.body.innerText)`)
	eachLook(tab, "done")
	tab.Resize(1280, 2400)
	tab.Screenshot("done-whole")
}

// lookAtMap asks on the map whether packets get from one node to the other.
func lookAtMap(tab *browser.Tab) {
	tab.Resize(1600, 1000)
	tab.Go("/console/map")
	tab.Until("see the nodes with their pods", `/2 instances, \d\d pods/.test(document.body.innerText)`)
	for i, end := range []string{"source", "destination"} {
		instance := fmt.Sprintf(`document.querySelectorAll(".map-canvas [aria-label^='Instance ']")[%d]`, i)
		tab.Until("find an instance", instance)
		browser.Evaluate[bool](tab, instance+`.dispatchEvent(new MouseEvent("click", { bubbles: true }))`)
		tab.See("Instance: i-")
		tab.Screenshot("map-" + end)
		tab.Click("Use as " + end)
	}
	tab.Click("Analyze reachability")
	tab.See("The packet gets to the destination, and its answer back.")
	eachLook(tab, "map")
}
