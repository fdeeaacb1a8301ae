//go:build linux

package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/test/harness"
)

// TestSecurityGroupsOfPods gives a pod a network interface with security groups of its own, as the user guide has it:
// the role of the cluster gets its policy, the VPC CNI plugin ENABLE_POD_ENI, and a SecurityGroupPolicy selects the
// pod. It follows the interface from the trunk to its end.
// https://docs.aws.amazon.com/eks/latest/userguide/security-groups-for-pods.html
func TestSecurityGroupsOfPods(t *testing.T) {
	t.Parallel()
	s := newCluster(t, "podeni", "1.35")
	s.setPlugin("ENABLE_POD_ENI=true")
	s.Run(s.Config, "kubectl", "patch", "configmap", "amazon-vpc-cni", "-n", "kube-system", "-p",
		`{"data":{"branch-eni-cooldown":"30"}}`)
	instance := s.RunInstances(1, s.AL2023("1.35"), s.SubnetIDs[0], s.NodeConfig())[0]
	node := s.AwaitNodes(instance)[0].Metadata.Name

	s.says("the node", []string{"TrunkENICreationFailed",
		"Failed to create trunk interface: Error Code: UnauthorizedOperation: " +
			"Please verify the cluster IAM role has AmazonEKSVPCResourceController policy"}, "kubectl", "describe", "node", node)
	s.AWS(nil, "iam", "attach-role-policy", "--role-name", "eks-service", "--policy-arn",
		"arn:aws:iam::aws:policy/AmazonEKSVPCResourceController")
	s.says("the node", []string{`"vpc.amazonaws.com/pod-eni":"9"`}, "kubectl", "get", "node", node, "-o",
		"jsonpath={.status.allocatable}")
	s.says("the node", []string{"NodeTrunkInitiated"}, "kubectl", "describe", "node", node)
	s.says("the CNINode", []string{"networking.k8s.aws/resource-cleanup", "SecurityGroupsForPods", instance,
		"kubernetes.io/os: linux"}, "kubectl", "get", "cninode", node, "-o", "yaml")
	trunk := s.interfaceBy("Name=attachment.instance-id,Values="+instance, "Name=interface-type,Values=trunk")
	if trunk.Description != "aws-k8s-trunk-eni" || trunk.Attachment.DeviceIndex != 2 {
		t.Errorf("the trunk is %+v", trunk)
	}

	var made struct{ GroupId string }
	s.AWS(&made, "ec2", "create-security-group", "--group-name", "pods", "--description", "pods", "--vpc-id", trunk.VpcId)
	s.Apply(fmt.Sprintf(`apiVersion: vpcresources.k8s.aws/v1beta1
kind: SecurityGroupPolicy
metadata: {name: guarded}
spec:
  podSelector: {matchLabels: {role: guarded}}
  securityGroups: {groupIds: [%s]}
`, made.GroupId))
	s.Apply(`apiVersion: v1
kind: Pod
metadata: {name: guarded, labels: {role: guarded}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: pause, image: ` + harness.Pause + `}
`)
	var pod struct {
		Metadata struct {
			UID         string
			Annotations map[string]string
		}
		Spec struct {
			Containers []struct {
				Resources struct{ Limits, Requests map[string]string }
			}
		}
	}
	var has []struct {
		EniID, PrivateIP, IfAddress, SubnetCidr, AssociationID string
		VlanID                                                 int
	}
	s.eventually("the pod has an interface", func() error {
		out := s.Run(s.Config, "kubectl", "get", "pod", "guarded", "-o", "json")
		if err := json.Unmarshal([]byte(out), &pod); err != nil {
			return err
		}
		return json.Unmarshal([]byte(pod.Metadata.Annotations["vpc.amazonaws.com/pod-eni"]), &has)
	})
	if r := pod.Spec.Containers[0].Resources; r.Limits["vpc.amazonaws.com/pod-eni"] != "1" ||
		r.Requests["vpc.amazonaws.com/pod-eni"] != "1" {
		t.Errorf("the resources are %+v", r)
	}
	branch := s.interfaceBy("Name=network-interface-id,Values=" + has[0].EniID)
	if len(has) != 1 || has[0].VlanID != 1 || branch.InterfaceType != "branch" || branch.Status != "in-use" ||
		branch.PrivateIpAddress != has[0].PrivateIP || branch.MacAddress != has[0].IfAddress ||
		!strings.HasPrefix(has[0].AssociationID, "trunk-assoc-") || len(branch.Groups) != 1 ||
		branch.Groups[0].GroupId != made.GroupId || branch.Description != "aws-k8s-branch-eni" {
		t.Errorf("the annotation is %+v, and EC2 shows %+v", has, branch)
	}
	s.says("the pod", []string{"SecurityGroupRequested",
		"Pod will get the following Security Groups [" + made.GroupId + "]", "ResourceAllocated"},
		"kubectl", "describe", "pod", "guarded")
	if _, errs, err := s.Try(s.Config, "kubectl", "annotate", "pod", "guarded", "--overwrite",
		"vpc.amazonaws.com/pod-eni=[]"); err == nil || !strings.Contains(errs,
		`admission webhook "vpod.vpc.k8s.aws" denied the request: annotation is not set by vpc-resource-controller`) {
		t.Errorf("a user changes the annotation: %v %s", err, errs)
	}
	s.says("the pod", []string{"FailedCreatePodSandBox"}, "kubectl", "describe", "pod", "guarded")

	s.Run(s.Config, "kubectl", "delete", "pod", "guarded")
	s.eventually("the interface is deleted once it has cooled down", func() error {
		if _, errs, err := s.Try("", "aws", "ec2", "describe-network-interfaces", "--network-interface-ids",
			has[0].EniID); err == nil || !strings.Contains(errs, "InvalidNetworkInterfaceID.NotFound") {
			return errors.Join(errStillThere, err)
		}
		return nil
	})
}

// describedInterface is a network interface as EC2 shows it.
type describedInterface struct {
	Description, InterfaceType, Status, VpcId, PrivateIpAddress, MacAddress string
	Groups                                                                  []struct{ GroupId string }
	Attachment                                                              struct{ DeviceIndex int }
}

// interfaceBy returns the only network interface that passes filters.
func (s *cluster) interfaceBy(filters ...string) describedInterface {
	s.t.Helper()
	var out struct{ NetworkInterfaces []describedInterface }
	s.AWS(&out, append([]string{"ec2", "describe-network-interfaces", "--filters"}, filters...)...)
	if len(out.NetworkInterfaces) != 1 {
		s.t.Fatalf("%q: %+v", filters, out.NetworkInterfaces)
	}
	return out.NetworkInterfaces[0]
}
