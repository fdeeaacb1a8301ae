package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/host/image"
)

const (
	// hands is the name of the tour's node group, and lookout of its Deployment in the namespace harbour.
	hands   = "hands"
	lookout = "lookout"
)

// nodePolicies are the managed policies that a node's role needs:
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html.
var nodePolicies = []string{
	"arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
	"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",
	"arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly",
}

func (t *tour) createNodegroup(ctx context.Context) error {
	role := t.Cluster + "-node"
	commands := []string{"aws iam create-role --role-name " + role + " --assume-role-policy-document '" + nodeTrust +
		"'"}
	for _, policy := range nodePolicies {
		commands = append(commands, "aws iam attach-role-policy --role-name "+role+" --policy-arn "+policy)
	}
	arn, err := t.ensureRole(ctx, role, nodeTrust)
	if err != nil {
		return err
	}
	for _, policy := range nodePolicies {
		_, err := t.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &role, PolicyArn: &policy})
		if err != nil {
			return err
		}
	}
	t.explain(
		"A managed node group is an Auto Scaling group of EC2 instances, which join the cluster by their user data.",
		append(
			commands,
			fmt.Sprintf(
				"aws eks create-nodegroup --cluster-name %s --nodegroup-name %s --node-role %s --subnets %s"+
					" --scaling-config minSize=1,maxSize=3,desiredSize=2",
				t.Cluster,
				hands,
				arn,
				strings.Join(t.subnets, " "),
			),
			"aws eks wait nodegroup-active --cluster-name "+t.Cluster+" --nodegroup-name "+hands,
			"kubectl get nodes -L eks.amazonaws.com/nodegroup",
		)...)
	began := time.Now()
	_, err = t.eks.CreateNodegroup(ctx, &eks.CreateNodegroupInput{
		ClusterName: &t.Cluster, NodegroupName: aws.String(hands), NodeRole: &arn, Subnets: t.subnets,
		ScalingConfig: &ekstypes.NodegroupScalingConfig{
			MinSize:     aws.Int32(1),
			MaxSize:     aws.Int32(3),
			DesiredSize: aws.Int32(2),
		},
	})
	if err != nil {
		return err
	}
	if err := t.waitForNodegroup(ctx, ekstypes.NodegroupStatusActive); err != nil {
		return err
	}
	t.printResult(fmt.Sprintf("ACTIVE after %s", time.Since(began).Round(10*time.Millisecond)))
	return t.kubectl(ctx, t.sts, "get", "nodes", "-L", "eks.amazonaws.com/nodegroup")
}

// waitForNodegroup polls until the node group has the status, or is gone if that is empty.
func (t *tour) waitForNodegroup(ctx context.Context, want ekstypes.NodegroupStatus) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		out, err := t.eks.DescribeNodegroup(
			ctx,
			&eks.DescribeNodegroupInput{ClusterName: &t.Cluster, NodegroupName: aws.String(hands)},
		)
		var gone *ekstypes.ResourceNotFoundException
		if want == "" && errors.As(err, &gone) {
			return nil
		}
		if err != nil {
			return err
		}
		status, reason := out.Nodegroup.Status, ""
		if out.Nodegroup.Health != nil {
			for _, issue := range out.Nodegroup.Health.Issues {
				reason += ": " + string(issue.Code) + ": " + aws.ToString(issue.Message)
			}
		}
		switch status {
		case want:
			return nil
		case ekstypes.NodegroupStatusCreateFailed, ekstypes.NodegroupStatusDeleteFailed:
			return fmt.Errorf("node group %s is %s%s", hands, status, reason)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node group %s is still %s%s: %w", hands, status, reason, ctx.Err())
		case <-poll.C:
		}
	}
}

// runPods creates a Deployment and looks into its pods.
func (t *tour) runPods(ctx context.Context) error {
	create := []string{
		"--namespace",
		"harbour",
		"create",
		"deployment",
		lookout,
		"--image",
		image.Agnhost,
		"--replicas",
		"2",
		"--port",
		"8080",
		"--",
		"/agnhost",
		"netexec",
	}
	rollout := []string{"--namespace", "harbour", "rollout", "status", "deployment/" + lookout, "--timeout", "3m"}
	pods := []string{"--namespace", "harbour", "get", "pods", "-o", "wide"}
	t.explain("Pods have addresses of the VPC, from the real VPC CNI. The image is one of those that are in Coracle's "+
		"registry; others it fetches, or \"coracle images load\" puts them in.",
		"kubectl "+strings.Join(create, " "), "kubectl "+strings.Join(rollout, " "), "kubectl "+strings.Join(pods, " "))
	for _, args := range [][]string{create, rollout} {
		if out, err := t.runKubectl(ctx, t.sts, args...); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	if err := t.kubectl(ctx, t.sts, pods...); err != nil {
		return err
	}
	if t.Simulated {
		t.explain(
			"The machines are simulated, because you are not root, this host has no Linux, or it lacks what " +
				"\"coracle doctor\" names: nothing runs in the pods.")
		return nil
	}
	command := []string{"--namespace", "harbour", "exec", "deployment/" + lookout, "--", "/agnhost", "dns-server-list"}
	logs := []string{"--namespace", "harbour", "logs", "deployment/" + lookout, "--tail", "1"}
	t.explain(
		"They can be entered, and say what they do.",
		"kubectl "+strings.Join(command, " "), "kubectl "+strings.Join(logs, " "),
	)
	for _, args := range [][]string{command, logs} {
		if err := t.kubectl(ctx, t.sts, args...); err != nil {
			return err
		}
	}
	return t.showMachine(ctx)
}

// showMachine runs a command in the machine of a node.
func (t *tour) showMachine(ctx context.Context) error {
	id, err := t.runKubectl(ctx, t.sts, "get", "nodes", "-o", "jsonpath={.items[0].spec.providerID}")
	if err != nil {
		return fmt.Errorf("kubectl get nodes: %w: %s", err, id)
	}
	id = id[strings.LastIndexByte(id, '/')+1:]
	const script = "ls /etc/cni/net.d /opt/cni/bin; pgrep -l 'kubelet|containerd$|aws-k8s-agent'"
	t.explain(
		"An instance is a machine of its own, with what EKS's nodes have.",
		"coracle exec "+id+" -- sh -c "+`"`+script+`"`,
	)
	out, err := t.Exec(ctx, id, "sh", "-c", script)
	if err != nil {
		return fmt.Errorf("look into instance %s: %w", id, err)
	}
	t.printResult(out)
	return nil
}

// upgradeNodes replaces the nodes by those of the cluster's new version.
func (t *tour) upgradeNodes(ctx context.Context) error {
	inUse := []string{"get", "nodes", "--field-selector", "spec.unschedulable=false"}
	t.explain(
		"The nodes follow, one by one: a new one joins, an old one is drained and goes.",
		fmt.Sprintf("aws eks update-nodegroup-version --cluster-name %s --nodegroup-name %s", t.Cluster, hands),
		"aws eks wait nodegroup-active --cluster-name "+t.Cluster+" --nodegroup-name "+hands,
		"kubectl "+strings.Join(inUse, " "),
	)
	began := time.Now()
	update, err := t.eks.UpdateNodegroupVersion(
		ctx,
		&eks.UpdateNodegroupVersionInput{ClusterName: &t.Cluster, NodegroupName: aws.String(hands)},
	)
	if err != nil {
		return err
	}
	if err := t.waitForNodegroup(ctx, ekstypes.NodegroupStatusActive); err != nil {
		return err
	}
	out, err := t.eks.DescribeUpdate(
		ctx,
		&eks.DescribeUpdateInput{Name: &t.Cluster, NodegroupName: aws.String(hands), UpdateId: update.Update.Id},
	)
	if err != nil {
		return err
	}
	if out.Update.Status != ekstypes.UpdateStatusSuccessful {
		why := ""
		for _, e := range out.Update.Errors {
			why += ": " + string(e.ErrorCode) + ": " + aws.ToString(e.ErrorMessage)
		}
		return fmt.Errorf("the update of node group %s is %s%s", hands, out.Update.Status, why)
	}
	t.printResult(fmt.Sprintf("Successful after %s", time.Since(began).Round(10*time.Millisecond)))
	return t.kubectl(ctx, t.sts, inUse...)
}

// deleteNodegroup removes the nodes and their role.
func (t *tour) deleteNodegroup(ctx context.Context) error {
	budget := []string{"--namespace", "kube-system", "delete", "poddisruptionbudget", "coredns"}
	t.explain(
		"And it is gone again, the nodes first. They are drained, and CoreDNS wants to be somewhere: "+
			"without its budget it may go, too.",
		"kubectl "+strings.Join(budget, " "),
		fmt.Sprintf("aws eks delete-nodegroup --cluster-name %s --nodegroup-name %s", t.Cluster, hands),
		"aws eks wait nodegroup-deleted --cluster-name "+t.Cluster+" --nodegroup-name "+hands,
	)
	if out, err := t.runKubectl(ctx, t.sts, budget...); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(budget, " "), err, out)
	}
	deletion := &eks.DeleteNodegroupInput{ClusterName: &t.Cluster, NodegroupName: aws.String(hands)}
	if _, err := t.eks.DeleteNodegroup(ctx, deletion); err != nil {
		return err
	}
	if err := t.waitForNodegroup(ctx, ""); err != nil {
		return err
	}
	role := t.Cluster + "-node"
	for _, policy := range nodePolicies {
		_, err := t.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: &role, PolicyArn: &policy})
		if err != nil {
			return err
		}
	}
	_, err := t.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &role})
	return err
}
