//go:build linux

package nodes

import (
	"fmt"
	"strings"
	"testing"
)

// TestErrorsAreWhereUsersLook makes what goes wrong with nodes go wrong, and looks where a user of EKS would.
func TestErrorsAreWhereUsersLook(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "faulty", "1.35")
	image := s.AL2023("1.35")

	// These take their time to boot.
	good := s.RunInstances(1, image, s.SubnetIDs[0], s.NodeConfig())[0]
	broken := s.RunInstances(1, s.AL2("1.35"), s.SubnetIDs[0],
		"#!/bin/bash\necho preparing >&2\nmount-the-data-disk\nexit 7\n")[0]
	s.Role("stranger", "AmazonEKSWorkerNodePolicy")
	stranger := s.RunInstances(1, image, s.SubnetIDs[1], s.NodeConfig(), "--iam-instance-profile", "Name=stranger")[0]

	t.Run("unknown image", func(t *testing.T) {
		s := &cluster{s.Fixture, t}
		s.refused("InvalidAMIID.NotFound", "The image id '[ami-0123456789abcdef0]' does not exist",
			"ec2", "run-instances", "--image-id", "ami-0123456789abcdef0", "--instance-type", "m5.large", "--subnet-id",
			s.SubnetIDs[0])
	})
	t.Run("full subnet", func(t *testing.T) { fullSubnet(&cluster{s.Fixture, t}) })
	t.Run("user data that fails", func(t *testing.T) {
		s := &cluster{s.Fixture, t}
		s.says("the console", []string{"mount-the-data-disk: command not found",
			"Failed running /var/lib/cloud/instance/scripts/part-001 [exit status 7]"},
			"aws", "ec2", "get-console-output", "--instance-id", broken, "--latest", "--output", "text")
		s.says("coracle status", []string{broken, "! user data: failed: ",
			"/var/lib/cloud/instance/scripts/part-001 [exit status 7]"}, "coracle", "status", "--data-dir", s.Dir)
		s.says("the state", []string{"running"}, "aws", "ec2", "describe-instances", "--instance-ids", broken,
			"--query", "Reservations[].Instances[].State.Name", "--output", "text")
	})
	t.Run("role that is not let in", func(t *testing.T) {
		s := &cluster{s.Fixture, t}
		s.says("the kubelet's journal", []string{"Unauthorized"}, "coracle", "exec", "--data-dir", s.Dir, stranger,
			"--", "journalctl", "--no-pager", "-u", "kubelet")
		s.says("the state", []string{"running"}, "aws", "ec2", "describe-instances", "--instance-ids", stranger,
			"--query", "Reservations[].Instances[].State.Name", "--output", "text")
	})

	s.AwaitNodes(good)
	t.Run("image of a pod", func(t *testing.T) {
		s := &cluster{s.Fixture, t}
		s.Apply("apiVersion: v1\nkind: Pod\nmetadata: {name: lost, namespace: default}\nspec: {containers: [{name: " +
			"lost, image: 'registry.k8s.io/lost-and-found:1.0'}]}\n")
		s.says("the pod's events", []string{"registry.k8s.io/lost-and-found:1.0", "coracle images load"},
			"kubectl", "get", "events", "-n", "default", "--field-selector", "involvedObject.name=lost,type=Warning",
			"-o", "jsonpath={.items[*].message}")
	})
	if nodes := s.Nodes(); len(nodes) != 1 {
		t.Errorf("of a node, a machine with a wrong role and one whose user data fails, these are nodes: %+v", nodes)
	}
}

// fullSubnet fills a subnet, and launches there by itself and in a group.
func fullSubnet(s *cluster) {
	vpc := strings.TrimSpace(s.Run("", "aws", "ec2", "describe-subnets", "--subnet-ids", s.SubnetIDs[0], "--query",
		"Subnets[0].VpcId", "--output", "text"))
	var made struct{ Subnet struct{ SubnetId string } }
	s.AWS(&made, "ec2", "create-subnet", "--vpc-id", vpc, "--cidr-block", "172.31.255.0/28")
	subnet := made.Subnet.SubnetId
	// 16 addresses less the 5 that AWS keeps.
	s.AWS(nil, "ec2", "create-network-interface", "--subnet-id", subnet, "--secondary-private-ip-address-count", "10")

	s.refused("InsufficientFreeAddressesInSubnet",
		"The specified subnet does not have enough free addresses to satisfy the request.",
		"ec2", "run-instances", "--image-id", s.AL2023("1.35"), "--instance-type", "m5.large", "--subnet-id", subnet)

	s.launchTemplate("full", s.AL2023("1.35"), s.NodeConfig())
	s.AWS(nil, "autoscaling", "create-auto-scaling-group", "--auto-scaling-group-name", "full", "--min-size", "1",
		"--max-size", "1",
		"--launch-template", "LaunchTemplateName=full", "--vpc-zone-identifier", subnet)
	s.eventually("the group says that it cannot launch", func() error {
		all := s.activities("full")
		if len(all) == 0 || all[0].StatusCode != "Failed" {
			return fmt.Errorf("activities: %+v", all)
		}
		words := "There are not enough free addresses in subnet '" + subnet +
			"' to satisfy the requested number of instances. Launching EC2 instance failed."
		if all[0].StatusMessage != words || all[0].Description != "Launching a new EC2 instance.  Status Reason: "+
			words {
			s.t.Errorf("the activity says %+v", all[0])
		}
		return nil
	})
	s.AWS(nil, "autoscaling", "delete-auto-scaling-group", "--auto-scaling-group-name", "full", "--force-delete")
}

// refused demands that AWS refuses a request with a code and words.
func (s *cluster) refused(code, message string, args ...string) {
	s.t.Helper()
	out, errs, err := s.Try("", "aws", args...)
	if err == nil || !strings.Contains(errs, "("+code+")") || !strings.Contains(errs, message) {
		s.t.Errorf("aws %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
}

// says waits until a command prints all of some words.
func (s *cluster) says(what string, words []string, name string, args ...string) {
	s.t.Helper()
	config := ""
	if name == "kubectl" {
		config = s.Config
	}
	s.eventually(what+" says what went wrong", func() error {
		out, errs, err := s.Try(config, name, args...)
		for _, w := range words {
			if !strings.Contains(out, w) {
				return fmt.Errorf("nothing about %q in (%v)\n%s%s", w, err, out, errs)
			}
		}
		return nil
	})
}
