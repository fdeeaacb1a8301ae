//go:build linux

package nodes

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// TestGroupsKeepNodes follows self-managed nodes in an Auto Scaling group, as articles and unmanaged node groups make
// them: they join, the lost are replaced, those that are too many leave, and with the group everything goes.
func TestGroupsKeepNodes(t *testing.T) {
	t.Parallel()
	testenv.NeedsAll(t, "test/nodegroup has groups of both kinds")
	s := newCluster(t, "grouped", "1.35")
	free := s.freeAddresses()
	s.launchTemplate("nodes", s.AL2023("1.35"), s.NodeConfig("--node-labels=group=nodes"))
	s.AWS(nil, "autoscaling", "create-auto-scaling-group", "--auto-scaling-group-name", "nodes", "--min-size", "1",
		"--max-size", "3", "--desired-capacity", "2",
		"--launch-template", "LaunchTemplateName=nodes,Version=$Latest", "--vpc-zone-identifier",
		strings.Join(s.SubnetIDs, ","),
		"--tags", "Key=kubernetes.io/cluster/"+s.Cluster+",Value=owned,PropagateAtLaunch=true")

	// As many nodes as are desired, in as many zones as there are.
	members := s.serves("nodes", 2)
	if members[0].AvailabilityZone == members[1].AvailabilityZone {
		t.Errorf("two instances for two zones: %+v", members)
	}
	for _, n := range s.AwaitNodes(members[0].InstanceId, members[1].InstanceId) {
		if n.Metadata.Labels["group"] != "nodes" {
			t.Errorf("the user data's label is missing in %v", n.Metadata.Labels)
		}
	}
	for _, m := range members {
		if a := s.activity("nodes", "Launching a new EC2 instance: "+m.InstanceId); a.StatusCode != "Successful" ||
			!strings.Contains(a.Cause, "a user request created an AutoScalingGroup") {
			t.Errorf("the launch of %s is %+v", m.InstanceId, a)
		}
	}

	// One that somebody terminates is replaced, in its zone.
	lost, kept := members[0], members[1]
	s.AWS(nil, "ec2", "terminate-instances", "--instance-ids", lost.InstanceId)
	var fresh member
	s.eventually("the group replaces what was terminated", func() error {
		now := s.members("nodes")
		at := slices.IndexFunc(now, func(m member) bool {
			return m.InstanceId != lost.InstanceId && m.InstanceId != kept.InstanceId && m.LifecycleState == "InService"
		})
		if at < 0 || len(now) != 2 {
			return fmt.Errorf("its instances are %+v", now)
		}
		fresh = now[at]
		return nil
	})
	if fresh.AvailabilityZone != lost.AvailabilityZone {
		t.Errorf("%+v replaces %+v in another zone, where %+v is", fresh, lost, kept)
	}
	if a := s.activity("nodes", "Terminating EC2 instance: "+lost.InstanceId); !strings.Contains(a.Cause,
		"an EC2 health check indicating it has been terminated or stopped") {
		t.Errorf("the end of %s is %+v", lost.InstanceId, a)
	}
	if a := s.activity("nodes", "Launching a new EC2 instance: "+fresh.InstanceId); a.StatusCode != "Successful" ||
		!strings.Contains(a.Cause, "in response to an unhealthy instance needing to be replaced") {
		t.Errorf("the launch of %s is %+v", fresh.InstanceId, a)
	}
	s.AwaitNodes(kept.InstanceId, fresh.InstanceId)

	// Fewer: one goes, and its node with it. That takes the time in which a kubelet must say that it lives.
	s.AWS(nil, "autoscaling", "set-desired-capacity", "--auto-scaling-group-name", "nodes", "--desired-capacity", "1")
	last := s.serves("nodes", 1)[0]
	gone := kept
	if last.InstanceId == kept.InstanceId {
		gone = fresh
	}
	if a := s.activity("nodes", "Terminating EC2 instance: "+gone.InstanceId); !strings.Contains(a.Cause,
		"changing the desired capacity from 2 to 1") || !strings.Contains(a.Cause,
		"shrinking the capacity from 2 to 1") {
		t.Errorf("the end of %s is %+v", gone.InstanceId, a)
	}
	s.eventually("only the last one is a node", func() error {
		if nodes := s.Nodes(); len(nodes) != 1 || !strings.HasSuffix(nodes[0].Spec.ProviderID, "/"+last.InstanceId) ||
			!nodes[0].Ready() {
			return fmt.Errorf("nodes: %+v", nodes)
		}
		return nil
	})

	// With the group everything goes, the interfaces that the CNI made as well.
	if _, errs, err := s.Try("", "aws", "autoscaling", "delete-auto-scaling-group", "--auto-scaling-group-name",
		"nodes"); err == nil || !strings.Contains(errs, "ResourceInUse") {
		t.Errorf("a group with instances is deleted without force: %q, %v", errs, err)
	}
	s.AWS(nil, "autoscaling", "delete-auto-scaling-group", "--auto-scaling-group-name", "nodes", "--force-delete")
	s.eventually("the group is gone", func() error {
		if groups := s.Run("", "aws", "autoscaling", "describe-auto-scaling-groups", "--query",
			"AutoScalingGroups[].AutoScalingGroupName", "--output", "text"); strings.TrimSpace(groups) != "" {
			return fmt.Errorf("there is %s", groups)
		}
		return nil
	})
	s.eventually("all addresses are free again", func() error {
		if now := s.freeAddresses(); now != free {
			enis := s.Run("", "aws", "ec2", "describe-network-interfaces", "--query",
				"NetworkInterfaces[].[NetworkInterfaceId,Status,Description,Attachment.InstanceId]", "--output", "text")
			return fmt.Errorf("the subnets have %s free addresses, and had %s; interfaces:\n%s", now, free, enis)
		}
		return nil
	})
}

// launchTemplate makes a template for instances in the cluster's security group, with the role of nodes.
func (s *cluster) launchTemplate(name, image, userData string) {
	s.t.Helper()
	s.AWS(nil, "ec2", "create-launch-template", "--launch-template-name", name, "--launch-template-data",
		harness.Text(map[string]any{
			"ImageId": image, "InstanceType": "m5.large", "SecurityGroupIds": []string{s.Group},
			"IamInstanceProfile": map[string]string{"Name": clustertest.NodeRole},
			"UserData":           base64.StdEncoding.EncodeToString([]byte(userData)),
		}))
}

// member is an instance as its group describes it.
type member struct{ InstanceId, AvailabilityZone, LifecycleState, HealthStatus string }

func (s *cluster) members(group string) []member {
	s.t.Helper()
	var out struct {
		AutoScalingGroups []struct{ Instances []member }
	}
	s.AWS(&out, "autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", group)
	if len(out.AutoScalingGroups) != 1 {
		s.t.Fatalf("there are %d groups with the name %s", len(out.AutoScalingGroups), group)
	}
	return out.AutoScalingGroups[0].Instances
}

// serves waits until the group consists of n instances that are in service.
func (s *cluster) serves(group string, n int) []member {
	s.t.Helper()
	var found []member
	s.eventually(fmt.Sprintf("%s has %d instances in service", group, n), func() error {
		found = s.members(group)
		if len(found) != n || slices.ContainsFunc(found, func(m member) bool {
			return m.LifecycleState != "InService" ||
				m.HealthStatus != "Healthy"
		}) {
			return fmt.Errorf("its instances are %+v; activities: %+v", found, s.activities(group))
		}
		return nil
	})
	return found
}

// activity is one activity of a group as it is described.
type activity struct{ Description, Cause, StatusCode, StatusMessage string }

func (s *cluster) activities(group string) []activity {
	s.t.Helper()
	var out struct{ Activities []activity }
	s.AWS(&out, "autoscaling", "describe-scaling-activities", "--auto-scaling-group-name", group)
	return out.Activities
}

// activity returns the newest activity of a group whose description has that prefix.
func (s *cluster) activity(group, description string) activity {
	s.t.Helper()
	all := s.activities(group)
	for _, a := range all {
		if strings.HasPrefix(a.Description, description) {
			return a
		}
	}
	s.t.Errorf("no activity of %s says %q: %+v", group, description, all)
	return activity{}
}

// freeAddresses returns the number of free addresses in each of the cluster's subnets.
func (s *cluster) freeAddresses() string {
	s.t.Helper()
	return strings.TrimSpace(s.AWS(nil, append([]string{"ec2", "describe-subnets", "--query",
		"sort_by(Subnets,&SubnetId)[].AvailableIpAddressCount", "--subnet-ids"}, s.SubnetIDs...)...))
}
