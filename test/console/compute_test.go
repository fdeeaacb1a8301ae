package console

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/chromedp/chromedp"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
)

// createRole makes a role that a service may assume, with managed policies.
func createRole(d *harness.Daemon, name, service string, policies ...string) {
	d.AWS(nil, "iam", "create-role", "--role-name", name, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"`+service+
			`"},"Action":"sts:AssumeRole"}]}`)
	for _, policy := range policies {
		d.AWS(nil, "iam", "attach-role-policy", "--role-name", name, "--policy-arn", "arn:aws:iam::aws:policy/"+policy)
	}
}

// replace types into the field with a label, instead of what it holds.
func replace(tab *browser.Tab, label, text string) {
	tab.Until("select what is in "+label, fmt.Sprintf(`(() => {
		const label = [...document.querySelectorAll("label")].find((l) => l.innerText.trim().startsWith(%q));
		const input = document.getElementById(label?.htmlFor);
		input?.focus();
		input?.select();
		return input === document.activeElement;
	})()`, label))
	tab.Do("type into "+label, chromedp.KeyEvent(text))
}

// TestNodegroup creates, scales and deletes a node group as a person does, who errs at times.
func TestNodegroup(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t, "CORACLE_MACHINES=simulated")
	createRole(d, "eks-node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy")
	d.CreateCluster("demo", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("demo", ekstypes.ClusterStatusActive)
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go(link(t, d))
	tab.See("Health issues")
	tab.Go("/console/clusters/demo/compute")
	tab.See("No node groups")
	tab.Click("Add node group")

	// What is wrong is said before anything is sent.
	tab.See("Assign a unique name for this node group.")
	tab.Click("Next")
	tab.See("Enter a name.")
	tab.See("Select a role.")
	tab.Fill("Name", "-web")
	tab.See("begin with a letter or a digit")
	tab.Screenshot("wrong")
	replace(tab, "Name", "web")
	tab.Click("Select role")
	tab.Click("eks-node")
	tab.See("AmazonEC2ContainerRegistryPullOnly")
	tab.Click("Add label")
	tab.Fill("Key", "team")
	tab.Fill("Value", "blue")
	eachLook(tab, "configure")
	tab.Click("Next")
	tab.See("t3.medium")
	replace(tab, "Minimum size", "3")
	tab.Click("Next")
	tab.See("The minimum size must not be greater than the maximum size.")
	replace(tab, "Minimum size", "1")
	replace(tab, "Desired size", "1")
	eachLook(tab, "compute")
	tab.Click("Next")
	tab.See("Specify the subnets in your VPC where your nodes will run.")
	tab.Accessible("the subnets of a node group")
	tab.Screenshot("network")
	tab.Click("Next")
	tab.See("Step 1: Configure node group")
	tab.See("team=blue")
	tab.Click("The same with other tools")
	tab.See("aws eks create-nodegroup")
	eachLook(tab, "review")
	tab.Click("Create")
	tab.See("Node group web is being created.")

	// The page follows the node group.
	tab.See("Node group ARN")
	tab.Until("see that it is active", `document.body.innerText.match(/^Active$/m)`)
	eachLook(tab, "nodegroup")
	tab.Click("Nodes")
	tab.See("Nodes (1)")
	tab.Until("see that the node is ready", `document.body.innerText.match(/^Ready$/m)`)
	for _, each := range [][2]string{
		{"Kubernetes labels", "blue"}, {"Kubernetes taints", "This node group has no Kubernetes taints."},
		{"Update config", "1 node"}, {"Tags", "No tags associated with the resource."},
		{"Health issues (0)", "No health issues"},
	} {
		tab.Click(each[0])
		tab.See(each[1])
		tab.Accessible("the tab " + each[0])
	}

	// It is scaled.
	tab.Click("Edit")
	tab.See("Edit node group: web")
	replace(tab, "Desired size", "3")
	tab.Click("Save changes")
	tab.See("The desired size must not be greater than the maximum size.")
	replace(tab, "Desired size", "2")
	tab.Click("The same with other tools")
	tab.See(`--scaling-config '{"minSize":1,"maxSize":2,"desiredSize":2}'`)
	eachLook(tab, "edit")
	tab.Click("Save changes")
	tab.See("Node group web is being updated.")
	tab.Click("Update history")
	tab.See("Config update")
	tab.See("Successful")
	tab.Screenshot("history")
	tab.Click("Nodes")
	tab.See("Nodes (2)")
	tab.Click("Update version")
	tab.See("AMI release version")
	tab.See("Latest (1.35.")
	tab.Accessible("the version update of a node group")
	tab.Screenshot("version")
	tab.Click("Cancel")

	// What EKS refuses stands beside what it is about.
	tab.Expect("409 (Conflict)")
	tab.Expect("404 (Not Found)") // once it is gone
	tab.Go("/console/clusters/demo/nodegroup-create")
	tab.See("Assign a unique name for this node group.")
	tab.Fill("Name", "web")
	tab.Click("Select role")
	tab.Click("eks-node")
	tab.See("AmazonEC2ContainerRegistryPullOnly") // moves what is below
	tab.Click("Next")
	tab.See("t3.medium")
	tab.Click("Next")
	tab.See("Specify the subnets in your VPC where your nodes will run.")
	tab.Click("Next")
	tab.See("Step 1: Configure node group")
	tab.Click("Create")
	tab.See("NodeGroup already exists with name web and cluster name demo")
	tab.See("Assign a unique name for this node group.")
	tab.Screenshot("refused")

	// It is deleted by whoever types its name.
	tab.Go("/console/clusters/demo/nodegroups/web")
	tab.See("Node group ARN")
	tab.Click("Delete")
	tab.Fill("To confirm deletion", "web")
	tab.Do("confirm", chromedp.KeyEvent("\r"))
	tab.See("Node group web is being deleted.")
	tab.See("No node groups")
	eachLook(tab, "compute-tab")
	out, err := eks.NewFromConfig(d.Config()).ListNodegroups(t.Context(),
		&eks.ListNodegroupsInput{ClusterName: aws.String("demo")})
	if err != nil || len(out.Nodegroups) > 0 {
		t.Errorf("node groups are %v, %v", out, err)
	}
}

// TestFargateProfile creates and deletes a Fargate profile, which takes a private subnet.
func TestFargateProfile(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t, "CORACLE_MACHINES=simulated")
	createRole(d, "eks-pods", "eks-fargate-pods.amazonaws.com", "AmazonEKSFargatePodExecutionRolePolicy")
	subnets := d.Subnets()
	d.CreateCluster("demo", "1.35", d.ClusterRole(), subnets)
	d.AwaitStatus("demo", ekstypes.ClusterStatusActive)
	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Go(link(t, d))
	tab.See("Health issues")
	tab.Go("/console/clusters/demo/fargate-profile-create")
	tab.See("Only private subnets are supported.")
	tab.Click("Next")
	tab.See("Select a private subnet.")

	// A route table without an internet gateway makes a subnet private.
	var made struct {
		RouteTable struct{ VpcId, RouteTableId string }
	}
	var described struct{ Subnets []struct{ VpcId string } }
	d.AWS(&described, "ec2", "describe-subnets", "--subnet-ids", subnets[0])
	d.AWS(&made, "ec2", "create-route-table", "--vpc-id", described.Subnets[0].VpcId)
	d.AWS(nil, "ec2", "associate-route-table", "--subnet-id", subnets[0], "--route-table-id",
		made.RouteTable.RouteTableId)
	tab.Go("/console/clusters/demo/fargate-profile-create")
	tab.See(subnets[0])
	tab.Fill("Name", "pods")
	tab.Click("Select role")
	tab.Click("eks-pods")
	eachLook(tab, "configure")
	tab.Click("Next")
	tab.See("Pod selector 1")
	tab.Click("Next")
	tab.See("Enter a namespace.")
	tab.Fill("Namespace", "web-*")
	tab.Click("Add label")
	tab.Fill("Key", "team")
	tab.Fill("Value", "blue")
	eachLook(tab, "selectors")
	tab.Click("Next")
	tab.See("web-*: team=blue")
	tab.Click("Create")
	tab.See("Fargate profile pods is being created.")
	tab.Until("see that it is active", `document.body.innerText.match(/^Active$/m)`)
	tab.See("team=blue")
	eachLook(tab, "profile")
	tab.Expect("404 (Not Found)") // once it is gone
	tab.Click("Delete")
	tab.Fill("To confirm deletion", "pods")
	tab.Do("confirm", chromedp.KeyEvent("\r"))
	tab.See("Fargate profile pods is being deleted.")
	tab.See("No Fargate profiles")
}
