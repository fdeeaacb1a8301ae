package controlplane

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// Whoever may create network interfaces chooses their description. Only those that EKS created are the cluster's.
func TestInterfacesOfOthersAreNotAdopted(t *testing.T) {
	t.Parallel()
	const byUser, byService, byEKS = "AIDAEXAMPLE", "amazon-aws", "AROAEXAMPLE:AmazonEKS"
	for _, c := range []struct {
		name      string
		requester string
		owner     string // of what it is attached to
		adopted   bool
	}{
		{name: "an interface that a user created", requester: byUser},
		{name: "an interface of a session that a user named as that of EKS", requester: byEKS, owner: account},
		{name: "an interface that another service created", requester: byService, owner: "amazon-aws"},
		{name: "an interface that EKS created", requester: byEKS, owner: record.EKSAccount, adopted: true},
		{name: "an interface that an earlier version created", requester: "AROAEXAMPLE:EKS", owner: "amazon-aws",
			adopted: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster := record.Cluster{Account: account, Region: region, ID: "0123456789ABCDEF", Name: "ironman",
				VPCID: "vpc-1", SubnetIDs: []string{"subnet-a", "subnet-b"}}
			fake := newFakeEC2(filepath.Join(t.TempDir(), "ec2.json"))
			const id = "eni-already-there"
			fake.change("", func(s *fakeState) {
				s.Interfaces = append(s.Interfaces, ec2types.NetworkInterface{
					NetworkInterfaceId: aws.String(id), SubnetId: aws.String("subnet-a"),
					Description:      aws.String(interfaceDescription(cluster)),
					PrivateIpAddress: aws.String("172.31.0.200"),
					RequesterId:      aws.String(c.requester),
					Attachment:       &ec2types.NetworkInterfaceAttachment{InstanceOwnerId: aws.String(c.owner)},
				})
			})
			controller := &Controller{o: Options{EC2: func(string, string) EC2 { return fake }}}
			present := func() (present, unchanged bool) {
				for _, i := range fake.state().Interfaces {
					if aws.ToString(i.NetworkInterfaceId) == id {
						return true, len(i.Groups) == 0
					}
				}
				return false, false
			}
			network, err := controller.ensureNetwork(t.Context(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			ids := network.interfaceIDs()
			if slices.Contains(ids, id) != c.adopted || len(ids) != zones {
				t.Errorf("the cluster's interfaces are %v", ids)
			}
			if there, unchanged := present(); !there || unchanged == c.adopted {
				t.Errorf("after creation: present %v, unchanged %v", there, unchanged)
			}
			// A cluster whose subnets change, and one that is deleted, delete what is theirs only.
			cluster.SubnetIDs = []string{"subnet-b", "subnet-c"}
			if _, err := controller.ensureNetwork(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			if there, _ := present(); there == c.adopted {
				t.Errorf("after a change of subnets: present %v", there)
			}
			if err := controller.removeNetwork(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			if there, _ := present(); there == c.adopted {
				t.Errorf("after deletion: present %v", there)
			}
			if left := len(fake.state().Interfaces); (left == 0) != c.adopted || left > 1 {
				t.Errorf("%d interfaces are left", left)
			}
		})
	}
}

// The members of a cluster's security group reach each other, whoever has changed the group's rules before.
func TestSecurityGroupRules(t *testing.T) {
	t.Parallel()
	cluster := record.Cluster{Account: account, Region: region, ID: "0123456789ABCDEF", Name: "ironman", VPCID: "vpc-1",
		SubnetIDs: []string{"subnet-a", "subnet-b"}}
	fake := newFakeEC2(filepath.Join(t.TempDir(), "ec2.json"))
	controller := &Controller{o: Options{EC2: func(string, string) EC2 { return fake }}}
	for _, remove := range []func(*ec2types.SecurityGroup){
		func(*ec2types.SecurityGroup) {},
		func(g *ec2types.SecurityGroup) { g.IpPermissions = nil },
		func(g *ec2types.SecurityGroup) { g.IpPermissionsEgress = nil },
	} {
		fake.change("", func(s *fakeState) {
			for i := range s.Groups {
				remove(&s.Groups[i])
			}
		})
		if _, err := controller.ensureNetwork(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		group := fake.state().Groups[0]
		for direction, permissions := range map[string][]ec2types.IpPermission{"ingress": group.IpPermissions,
			"egress": group.IpPermissionsEgress} {
			if len(permissions) != 1 || *permissions[0].IpProtocol != "-1" {
				t.Fatalf("%s: %+v", direction, permissions)
			}
			pair := permissions[0].UserIdGroupPairs[0]
			if *pair.GroupId != *group.GroupId ||
				*pair.Description != "Allows EFA traffic, which is not matched by CIDR rules." {
				t.Errorf("%s: %s %q", direction, *pair.GroupId, *pair.Description)
			}
		}
	}
}

// A cluster of the IP family ipv6 reaches kubelets and webhooks, and is reached by pods, at addresses of that family.
func TestInterfacesHaveAddressesOfTheIPFamily(t *testing.T) {
	t.Parallel()
	for family, want := range map[ekstypes.IpFamily]int{ekstypes.IpFamilyIpv4: 0, ekstypes.IpFamilyIpv6: 1} {
		cluster := record.Cluster{Account: account, Region: region, ID: "0123456789ABCDEF", Name: "ironman",
			VPCID: "vpc-1", SubnetIDs: []string{"subnet-a", "subnet-b"}, IPFamily: family}
		fake := newFakeEC2(filepath.Join(t.TempDir(), "ec2.json"))
		controller := &Controller{o: Options{EC2: func(string, string) EC2 { return fake }}}
		network, err := controller.ensureNetwork(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range network.interfaces {
			if len(i.Ipv6Addresses) != want {
				t.Errorf("the cluster of %s has the network interface %+v", family, i)
			}
		}
	}
}
