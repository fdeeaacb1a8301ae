package nodegroup

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

const selfManagedRole = "self-managed-node"

// selfManaged adds a node as the guides do without EKS's help: an Auto Scaling group of the user's own, whose role the
// user adds to aws-auth.
func (c *cluster) selfManaged() {
	c.Role(selfManagedRole, "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly")
	before, _ := c.mapRoles()
	c.Run(c.Config, "kubectl", "patch", "configmap", "aws-auth", "-n", "kube-system", "--type=merge", "-p",
		harness.Text(map[string]any{"data": map[string]string{
			"mapRoles": "# what follows is ours\n- rolearn: " + clustertest.RoleARN(selfManagedRole) +
				"\n  username: system:node:{{EC2PrivateDNSName}}\n  groups: [system:bootstrappers, system:nodes]\n" +
				before,
		}}))
	c.AWS(nil, "ec2", "create-launch-template", "--launch-template-name", "self-managed", "--launch-template-data",
		harness.Text(map[string]any{
			"ImageId": c.AL2023(to), "InstanceType": "m5.large", "SecurityGroupIds": []string{c.Group},
			"IamInstanceProfile": map[string]string{"Name": selfManagedRole},
			"UserData": base64.StdEncoding.EncodeToString(
				[]byte(c.NodeConfig("--node-labels=own=label,role=client"))),
		}))
	c.AWS(nil, "autoscaling", "create-auto-scaling-group", "--auto-scaling-group-name", "self-managed", "--min-size",
		"1", "--max-size", "1", "--desired-capacity", "1",
		"--launch-template", "LaunchTemplateName=self-managed,Version=$Latest", "--vpc-zone-identifier", c.SubnetIDs[0],
		"--tags", "Key=kubernetes.io/cluster/"+c.Cluster+",Value=owned,PropagateAtLaunch=true")
	var own clustertest.Node
	c.eventually("the self-managed node is ready", func() error {
		all := c.Nodes()
		i := slices.IndexFunc(all, func(n clustertest.Node) bool { return n.Metadata.Labels["own"] == "label" })
		if i < 0 || !all[i].Ready() {
			return fmt.Errorf("nodes: %s", harness.Text(all))
		}
		own = all[i]
		return nil
	})
	for key := range own.Metadata.Labels {
		if strings.HasPrefix(key, "eks.amazonaws.com/") {
			c.t.Errorf("the self-managed node has a label %s, which its user data did not give it", key)
		}
	}
	// Neither is in the other's way.
	text, managers := c.mapRoles()
	for _, want := range []string{"# what follows is ours", clustertest.RoleARN(selfManagedRole),
		clustertest.RoleARN(clustertest.NodeRole)} {
		if !strings.Contains(text, want) {
			c.t.Errorf("mapRoles lacks %q:\n%s", want, text)
		}
	}
	if !slices.Contains(managers, "kubectl-patch") {
		c.t.Errorf("aws-auth is managed by %v", managers)
	}
	if nodes := c.nodes("workers"); len(nodes) != 3 {
		c.t.Errorf("the managed group has %d nodes", len(nodes))
	}
}
