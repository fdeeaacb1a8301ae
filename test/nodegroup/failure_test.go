package nodegroup

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// createMute makes groups whose nodes never join: one of an image whose user data does nothing, one whose kubelet does
// not start, one whose role may do nothing.
func (c *cluster) createMute() {
	c.AWS(nil, "ec2", "create-launch-template", "--launch-template-name", "mute", "--launch-template-data",
		harness.Text(map[string]any{
			"ImageId": c.AL2023(to), "InstanceType": "m5.large",
			"UserData": base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\ntrue\n")),
		}))
	c.createGroup("mute", "--launch-template", "name=mute,version=1", "--scaling-config",
		"minSize=1,maxSize=1,desiredSize=1")
	c.AWS(nil, "ec2", "create-launch-template", "--launch-template-name", "failing", "--launch-template-data",
		harness.Text(map[string]any{"InstanceType": "m5.large", "UserData": base64.StdEncoding.EncodeToString([]byte(
			"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n" +
				"Content-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n" +
				"spec: {kubelet: {flags: [--no-such-flag=1]}}\n--//--\n"))}))
	c.createGroup("failing", "--launch-template", "name=failing,version=1", "--scaling-config",
		"minSize=1,maxSize=1,desiredSize=1")
	c.Role("powerless")
	c.createGroup("powerless", "--node-role", clustertest.RoleARN("powerless"), "--scaling-config",
		"minSize=1,maxSize=1,desiredSize=1")
}

// runOutOfTime checks that operations that cannot succeed fail. Until now the timeouts were those of EKS, so that no
// machine is too slow for those that do; a daemon with a second for each finds that they are over.
func (c *cluster) runOutOfTime() {
	c.SetExtraEnv("CORACLE_NODEGROUP_JOIN_TIMEOUT=1s", "CORACLE_NODEGROUP_DRAIN_TIMEOUT=1s")
	c.Restart()
	c.stubbornFails()
	c.muteFails()
	c.SetExtraEnv()
	c.Restart()
}

// kubeletFails reads the reason where users of EKS and of Coracle do, while the group is still being created.
func (c *cluster) kubeletFails() {
	var id string
	c.eventually("the group says which unit fails", func() error {
		g, err := c.group("failing")
		if err != nil {
			return err
		}
		for _, i := range g.Health.Issues {
			text := aws.ToString(i.Message)
			if i.Code == ekstypes.NodegroupIssueCodeNodeCreationFailure && strings.Contains(text, "kubelet.service") &&
				strings.Contains(text, "no-such-flag") && g.Status == ekstypes.NodegroupStatusCreating {
				id = i.ResourceIds[0]
				return nil
			}
		}
		return fmt.Errorf("it is %s: %s", g.Status, harness.Text(g.Health))
	})
	status := c.Run("", "aws", "ec2", "describe-instance-status", "--instance-ids", id, "--query",
		"InstanceStatuses[].[InstanceState.Name,SystemStatus.Status,InstanceStatus.Status]", "--output", "text")
	if got := strings.Fields(status); !slices.Equal(got, []string{"running", "ok", "impaired"}) {
		c.t.Errorf("the instance status is %v", got)
	}
	if got := c.Run("", "coracle", "status", "--data-dir", c.Daemon.Dir); !strings.Contains(got, "kubelet.service fails again and again") {
		c.t.Errorf("coracle status:\n%s", got)
	}
}

// muteFails reads the error where users of EKS do.
func (c *cluster) muteFails() {
	for _, name := range []string{"mute", "failing", "powerless"} {
		var found *ekstypes.Nodegroup
		c.eventually(name+" fails", func() error {
			g, err := c.group(name)
			if err != nil {
				return err
			}
			if found = g; g.Status != ekstypes.NodegroupStatusCreateFailed {
				return fmt.Errorf("it is %s", g.Status)
			}
			return nil
		})
		asg := c.scalingGroup(name)
		i := slices.IndexFunc(found.Health.Issues,
			func(i ekstypes.Issue) bool { return i.Code == ekstypes.NodegroupIssueCodeNodeCreationFailure })
		if i < 0 || len(asg.Instances) != 1 || !slices.Contains(found.Health.Issues[i].ResourceIds,
			*asg.Instances[0].InstanceId) || aws.ToString(found.Health.Issues[i].Message) == "" {
			c.t.Errorf("the issues of %s are %s, its instances %s", name, harness.Text(found.Health),
				harness.Text(asg.Instances))
		}
		_, errs, err := c.Try("", "aws", "eks", "wait", "nodegroup-active", "--cluster-name", c.Cluster,
			"--nodegroup-name", name)
		if err == nil || !strings.Contains(errs, "CREATE_FAILED") {
			c.t.Errorf("aws eks wait: %v %s", err, errs)
		}
		c.AWS(nil, "eks", "delete-nodegroup", "--cluster-name", c.Cluster, "--nodegroup-name", name)
	}
}

const stubborn = `apiVersion: v1
kind: Namespace
metadata: {name: stubborn}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: stubborn, namespace: stubborn}
spec:
  replicas: 1
  selector: {matchLabels: {app: stubborn}}
  template:
    metadata: {labels: {app: stubborn}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {eks.amazonaws.com/nodegroup: stubborn}
      containers:
      - {name: stubborn, image: ` + harness.Agnhost + `, args: [pause]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: stubborn, namespace: stubborn}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: stubborn}}}
`

// createStubborn makes a group with a pod that no eviction is allowed of.
func (c *cluster) createStubborn() {
	c.createGroup("stubborn", "--release-version", clustertest.Release(c.t, to, 1), "--subnets", c.SubnetIDs[0],
		"--scaling-config", "minSize=1,maxSize=1,desiredSize=1", "--update-config", "maxUnavailable=1,updateStrategy=MINIMAL")
}

func (c *cluster) updateStubborn() {
	c.becomes("stubborn", ekstypes.NodegroupStatusActive)
	c.Apply(stubborn)
	c.Await("condition=Available", "deployment/stubborn", "-n", "stubborn")
	c.update("update-nodegroup-version", "--cluster-name", c.Cluster, "--nodegroup-name", "stubborn")
}

func (c *cluster) lastUpdate(nodegroup string) string {
	c.t.Helper()
	return strings.Fields(c.Run("", "aws", "eks", "list-updates", "--name", c.Cluster, "--nodegroup-name", nodegroup,
		"--query", "updateIds", "--output", "text"))[0]
}

// stubbornFails checks that the update fails, with the pod's name, and the group goes on as it was.
func (c *cluster) stubbornFails() {
	u := c.updated("stubborn", c.lastUpdate("stubborn"))
	pod := strings.TrimSpace(c.Run(c.Config, "kubectl", "get", "pods", "-n", "stubborn", "-o",
		"jsonpath={.items[0].metadata.name}"))
	if u.Status != ekstypes.UpdateStatusFailed || len(u.Errors) != 1 ||
		u.Errors[0].ErrorCode != ekstypes.ErrorCodePodEvictionFailure ||
		!strings.Contains(aws.ToString(u.Errors[0].ErrorMessage)+harness.Text(u.Errors[0].ResourceIds), pod) {
		c.t.Fatalf("the update is %s: %s; the pod is %s", u.Status, harness.Text(u.Errors), pod)
	}
	g := c.becomes("stubborn", ekstypes.NodegroupStatusActive)
	if *g.ReleaseVersion != clustertest.Release(c.t, to, 1) {
		c.t.Errorf("after the update has failed the release version is %s", *g.ReleaseVersion)
	}
	c.waitForNodes("stubborn", 1, to)
}

// forceStubborn updates the same group in spite of the budget.
func (c *cluster) forceStubborn() {
	before := *c.scalingGroup("stubborn").Instances[0].InstanceId
	id := c.update("update-nodegroup-version", "--cluster-name", c.Cluster, "--nodegroup-name", "stubborn", "--force")
	c.succeeds("stubborn", id)
	g := c.becomes("stubborn", ekstypes.NodegroupStatusActive)
	if *g.ReleaseVersion != clustertest.Release(c.t, to, 0) {
		c.t.Errorf("the release version is %s", *g.ReleaseVersion)
	}
	c.waitForNodes("stubborn", 1, to)
	if now := *c.scalingGroup("stubborn").Instances[0].InstanceId; now == before {
		c.t.Errorf("the node is still %s", before)
	}
	c.Await("condition=Available", "deployment/stubborn", "-n", "stubborn")
}

// noAddresses makes a group in a subnet that is full.
func (c *cluster) noAddresses() {
	ctx, client := c.t.Context(), ec2sdk.NewFromConfig(c.Daemon.Config())
	subnets, err := client.DescribeSubnets(ctx, &ec2sdk.DescribeSubnetsInput{SubnetIds: c.SubnetIDs[:1]})
	if err != nil {
		c.t.Fatal(err)
	}
	full, err := client.CreateSubnet(ctx, &ec2sdk.CreateSubnetInput{VpcId: subnets.Subnets[0].VpcId,
		CidrBlock: aws.String("172.31.255.0/28"), AvailabilityZone: subnets.Subnets[0].AvailabilityZone})
	if err != nil {
		c.t.Fatal(err)
	}
	// The VPC's main route table makes it a public subnet.
	if _, err := client.ModifySubnetAttribute(ctx, &ec2sdk.ModifySubnetAttributeInput{SubnetId: full.Subnet.SubnetId,
		MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}); err != nil {
		c.t.Fatal(err)
	}
	for range 11 {
		if _, err := client.CreateNetworkInterface(ctx,
			&ec2sdk.CreateNetworkInterfaceInput{SubnetId: full.Subnet.SubnetId}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.createGroup("full", "--subnets", *full.Subnet.SubnetId, "--scaling-config", "minSize=1,maxSize=1,desiredSize=1")
	c.eventually("the group's health says why nothing is launched", func() error {
		g, err := c.group("full")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(g.Health.Issues, func(i ekstypes.Issue) bool {
			return (i.Code == ekstypes.NodegroupIssueCodeInsufficientFreeAddresses ||
				i.Code == ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures) && aws.ToString(i.Message) != ""
		}) {
			return fmt.Errorf("it is %s: %s", g.Status, harness.Text(g.Health))
		}
		return nil
	})
	c.AWS(nil, "eks", "delete-nodegroup", "--cluster-name", c.Cluster, "--nodegroup-name", "full")
}

// delete deletes the groups, and finds that what EKS made has gone and what the user made has not.
func (c *cluster) delete() {
	asg := *c.scalingGroup("workers").AutoScalingGroupName
	_, errs, err := c.Try("", "aws", "eks", "delete-cluster", "--name", c.Cluster)
	if err == nil || !strings.Contains(errs, "ResourceInUseException") || !strings.Contains(errs, "nodegroups") {
		c.t.Errorf("deleting a cluster with node groups: %v %s", err, errs)
	}
	// Nothing is left to wait for: the pods may go anywhere.
	c.Run(c.Config, "kubectl", "delete", "namespace", "stubborn", "demo")
	groups := strings.Fields(c.Run("", "aws", "eks", "list-nodegroups", "--cluster-name", c.Cluster, "--query",
		"nodegroups", "--output", "text"))
	for _, name := range groups {
		g, err := c.group(name)
		if err == nil && g.Status != ekstypes.NodegroupStatusDeleting {
			c.AWS(nil, "eks", "delete-nodegroup", "--cluster-name", c.Cluster, "--nodegroup-name", name)
		}
	}
	for _, name := range groups { // "aws eks wait" looks every 30 seconds
		c.eventually("node group "+name+" is deleted", func() error {
			g, err := c.group(name)
			if notFound := (*ekstypes.ResourceNotFoundException)(nil); errors.As(err, &notFound) {
				return nil
			}
			return errors.Join(err, fmt.Errorf("it is there: %s", harness.Text(g)))
		})
	}
	if left := strings.Fields(c.Run("", "aws", "autoscaling", "describe-auto-scaling-groups", "--query",
		"AutoScalingGroups[].AutoScalingGroupName", "--output", "text")); !slices.Equal(left,
		[]string{"self-managed"}) {
		c.t.Errorf("the Auto Scaling groups are %v; there was %s", left, asg)
	}
	if left := strings.Fields(c.Run("", "aws", "ec2", "describe-launch-templates", "--query",
		"LaunchTemplates[?starts_with(LaunchTemplateName, 'eks-')].LaunchTemplateName", "--output", "text")); len(
		left) != 0 {
		c.t.Errorf("the launch templates of EKS are %v", left)
	}
	if left := strings.Fields(c.Run("", "aws", "iam", "list-instance-profiles", "--query",
		"InstanceProfiles[?starts_with(InstanceProfileName, 'eks-')].InstanceProfileName", "--output",
		"text")); slices.ContainsFunc(left, func(n string) bool { return n != clustertest.NodeRole }) {
		c.t.Errorf("the instance profiles are %v", left)
	}
	c.eventually("only the self-managed node is left", func() error {
		if nodes := c.Nodes(); len(nodes) != 1 || nodes[0].Metadata.Labels["own"] != "label" {
			return fmt.Errorf("nodes: %s", harness.Text(nodes))
		}
		return nil
	})
	text, _ := c.mapRoles()
	if strings.Contains(text, clustertest.RoleARN(clustertest.NodeRole)+"\n") ||
		!strings.Contains(text, "# what follows is ours") ||
		!strings.Contains(text, clustertest.RoleARN(selfManagedRole)) {
		c.t.Errorf("mapRoles is\n%s", text)
	}
}
