package nodegroup

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// create makes the group that serves, of nodes one version behind the control plane, and looks at what EKS shows of it.
func (c *cluster) create() {
	c.createGroup("workers", "--kubernetes-version", from, "--instance-types", "m5.large", "--scaling-config",
		"minSize=1,maxSize=5,desiredSize=3",
		"--labels", "team=a,tier=web", "--tags", "owner=me")
	c.Run("", "aws", "eks", "wait", "nodegroup-active", "--cluster-name", c.Cluster, "--nodegroup-name", "workers")
	g, err := c.group("workers")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range []struct {
		what      string
		got, want any
	}{
		{"status", g.Status, ekstypes.NodegroupStatusActive},
		{"version", *g.Version, from},
		{"release version", *g.ReleaseVersion, clustertest.Release(c.t, from, 0)},
		{"AMI type", g.AmiType, ekstypes.AMITypesAl2023X8664Standard},
		{"capacity type", g.CapacityType, ekstypes.CapacityTypesOnDemand},
		{"disk size", *g.DiskSize, int32(20)},
		{"node role", *g.NodeRole, clustertest.RoleARN(clustertest.NodeRole)},
		{"instance types", fmt.Sprint(g.InstanceTypes), "[m5.large]"},
		{"labels", fmt.Sprint(g.Labels), "map[team:a tier:web]"},
		{"tags", fmt.Sprint(g.Tags), "map[owner:me]"},
		{"issues", len(g.Health.Issues), 0},
		{"desired size", *g.ScalingConfig.DesiredSize, int32(3)},
		{"max unavailable", *g.UpdateConfig.MaxUnavailable, int32(1)},
		{"launch template", g.LaunchTemplate == nil, true}, // the user's, and there is none
	} {
		if f.got != f.want {
			c.t.Errorf("the %s is %v, want %v", f.what, f.got, f.want)
		}
	}
	id := (*g.NodegroupArn)[strings.LastIndex(*g.NodegroupArn, "/")+1:]
	if want := "eks-workers-" + id; *g.Resources.AutoScalingGroups[0].Name != want ||
		!regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(id) {
		c.t.Errorf("the Auto Scaling group is %s, want %s", *g.Resources.AutoScalingGroups[0].Name, want)
	}

	// What EKS made is in the account, with the tags by which it and the Cluster Autoscaler find it.
	asg := c.scalingGroup("workers")
	tags := map[string]string{}
	for _, t := range asg.Tags {
		tags[*t.Key] = *t.Value
	}
	for key, want := range map[string]string{
		"eks:cluster-name": c.Cluster, "eks:nodegroup-name": "workers", "kubernetes.io/cluster/" + c.Cluster: "owned",
		"k8s.io/cluster-autoscaler/enabled": "true", "k8s.io/cluster-autoscaler/" + c.Cluster: "owned",
	} {
		if tags[key] != want {
			c.t.Errorf("tag %s of the Auto Scaling group is %q, want %q", key, tags[key], want)
		}
	}
	if *asg.MinSize != 1 || *asg.MaxSize != 5 || *asg.DesiredCapacity != 3 || len(asg.AvailabilityZones) != 2 {
		c.t.Errorf("the Auto Scaling group is %s", harness.Text(asg))
	}
	hooks := strings.Fields(c.Run("", "aws", "autoscaling", "describe-lifecycle-hooks", "--auto-scaling-group-name",
		*asg.AutoScalingGroupName, "--query", "LifecycleHooks[].LifecycleHookName", "--output", "text"))
	if !slices.Contains(hooks, "Launch-LC-Hook") || !slices.Contains(hooks, "Terminate-LC-Hook") {
		c.t.Errorf("the lifecycle hooks are %v", hooks)
	}

	// The nodes say what they are.
	nodes := c.nodes("workers")
	if len(nodes) != 3 {
		c.t.Fatalf("an active group of 3 has %d nodes", len(nodes))
	}
	zones := map[string]int{}
	for _, n := range nodes {
		for key, want := range map[string]string{
			"eks.amazonaws.com/nodegroup": "workers", "eks.amazonaws.com/capacityType": "ON_DEMAND", "team": "a",
			"tier":                              "web",
			"eks.amazonaws.com/nodegroup-image": c.AL2023(from), "eks.amazonaws.com/sourceLaunchTemplateId": "",
		} {
			if got := n.Metadata.Labels[key]; got != want {
				c.t.Errorf("label %s of %s is %q, want %q", key, n.Metadata.Name, got, want)
			}
		}
		if !n.Ready() || !strings.HasPrefix(n.Status.NodeInfo.KubeletVersion, "v"+from+".") {
			c.t.Errorf("node %s runs kubelet %s, %s", n.Metadata.Name, n.Status.NodeInfo.KubeletVersion,
				harness.Text(n.Status.Conditions))
		}
		zones[n.Metadata.Labels["topology.kubernetes.io/zone"]]++
	}
	if len(zones) != 2 {
		c.t.Errorf("3 nodes are in the zones %v", zones)
	}
}

// mapRoles returns the mapRoles of aws-auth, and the names of the managers of its fields.
func (c *cluster) mapRoles() (text string, managers []string) {
	c.t.Helper()
	var auth struct {
		Metadata struct{ ManagedFields []struct{ Manager string } }
		Data     struct{ MapRoles string }
	}
	c.JSON(&auth, "get", "configmap", "aws-auth", "-n", "kube-system", "--show-managed-fields")
	for _, m := range auth.Metadata.ManagedFields {
		managers = append(managers, m.Manager)
	}
	return auth.Data.MapRoles, managers
}

// whoDidIt finds EKS's hand in aws-auth where it is found on AWS.
func (c *cluster) whoDidIt() {
	text, managers := c.mapRoles()
	for _, want := range []string{"rolearn: " + clustertest.RoleARN(clustertest.NodeRole),
		"username: system:node:{{EC2PrivateDNSName}}", "- system:bootstrappers", "- system:nodes"} {
		if !strings.Contains(text, want) {
			c.t.Errorf("mapRoles lacks %q:\n%s", want, text)
		}
	}
	if !slices.Contains(managers, "vpcLambda") {
		c.t.Errorf("aws-auth is managed by %v", managers)
	}
	// Two writers at a time may conflict; then one of them writes again.
	e := c.audit(
		`{ ($.objectRef.name = "aws-auth") && ($.verb != "get") && ($.verb != "list") && ($.verb != "watch") && ($.user.username = "eks:node-manager") && ($.responseStatus.code != 409) }`)
	if !strings.HasPrefix(e.UserAgent, "vpcLambda") || e.ResponseStatus.Code/100 != 2 {
		c.t.Errorf("the event is %+v", e)
	}
}

// configure changes labels and taints of nodes that run.
func (c *cluster) configure() {
	before := c.nodes("workers")
	id := c.update("update-nodegroup-config", "--cluster-name", c.Cluster, "--nodegroup-name", "workers",
		"--labels", `addOrUpdateLabels={team=b,phase=two},removeLabels=tier`, "--taints",
		"addOrUpdateTaints=[{key=dedicated,value=web,effect=PREFER_NO_SCHEDULE}]")
	c.succeeds("workers", id)
	after := c.nodes("workers")
	if len(after) != len(before) {
		c.t.Errorf("there are %d nodes, and were %d", len(after), len(before))
	}
	for _, n := range after {
		if l := n.Metadata.Labels; l["team"] != "b" || l["phase"] != "two" || l["tier"] != "" {
			c.t.Errorf("the labels of %s are %v", n.Metadata.Name, l)
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "dedicated" ||
			n.Spec.Taints[0].Effect != "PreferNoSchedule" {
			c.t.Errorf("the taints of %s are %v", n.Metadata.Name, n.Spec.Taints)
		}
		if !slices.ContainsFunc(before, func(o clustertest.Node) bool { return o.Spec.ProviderID == n.Spec.ProviderID }) {
			c.t.Errorf("%s was not there before", n.Metadata.Name)
		}
	}
	id = c.update("update-nodegroup-config", "--cluster-name", c.Cluster, "--nodegroup-name", "workers", "--taints",
		"removeTaints=[{key=dedicated,value=web,effect=PREFER_NO_SCHEDULE}]")
	c.succeeds("workers", id)
	for _, n := range c.nodes("workers") {
		if len(n.Spec.Taints) != 0 {
			c.t.Errorf("the taints of %s are %v", n.Metadata.Name, n.Spec.Taints)
		}
	}
}
