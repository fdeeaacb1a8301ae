package harness

import (
	"fmt"
	"slices"
)

// PrivateSubnets makes a private subnet in the VPC of two others for each, in their zones. With a NAT gateway they
// reach the internet, and so the endpoints of clusters, as those that eksctl makes.
func (d *Daemon) PrivateSubnets(public []string, nat bool) (private []string) {
	d.t.Helper()
	var subnets struct {
		Subnets []struct{ VpcId, AvailabilityZone string }
	}
	d.AWS(&subnets, append([]string{"ec2", "describe-subnets", "--subnet-ids"}, public...)...)
	var table struct{ RouteTable struct{ RouteTableId string } }
	d.AWS(&table, "ec2", "create-route-table", "--vpc-id", subnets.Subnets[0].VpcId)
	if nat {
		var address struct{ AllocationId string }
		d.AWS(&address, "ec2", "allocate-address")
		var gateway struct{ NatGateway struct{ NatGatewayId string } }
		d.AWS(&gateway, "ec2", "create-nat-gateway", "--subnet-id", public[0], "--allocation-id", address.AllocationId)
		d.Run("", "aws", "ec2", "wait", "nat-gateway-available", "--nat-gateway-ids", gateway.NatGateway.NatGatewayId)
		d.AWS(nil, "ec2", "create-route", "--route-table-id", table.RouteTable.RouteTableId, "--destination-cidr-block",
			"0.0.0.0/0", "--nat-gateway-id", gateway.NatGateway.NatGatewayId)
	}
	for i, s := range subnets.Subnets[:2] {
		var made struct{ Subnet struct{ SubnetId string } }
		d.AWS(&made, "ec2", "create-subnet", "--vpc-id", s.VpcId, "--availability-zone", s.AvailabilityZone,
			"--cidr-block", fmt.Sprintf("172.31.%d.0/20", 128+16*i))
		d.AWS(nil, "ec2", "associate-route-table", "--subnet-id", made.Subnet.SubnetId, "--route-table-id",
			table.RouteTable.RouteTableId)
		private = append(private, made.Subnet.SubnetId)
	}
	return private
}

// PodExecutionRole is the name of the role that PodExecutionRole of a daemon makes.
const PodExecutionRole = "fargate-pods"

// PodExecutionRole makes a role for the Fargate pods of a cluster, and returns its ARN.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func (d *Daemon) PodExecutionRole(cluster string) string {
	d.t.Helper()
	var role struct{ Role struct{ Arn string } }
	d.AWS(&role, "iam", "create-role", "--role-name", PodExecutionRole, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks-fargate-pods.amazonaws.com"},
		"Action":"sts:AssumeRole","Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:eks:`+Region+
			`:111122223333:fargateprofile/`+cluster+`/*"}}}]}`)
	d.AWS(nil, "iam", "attach-role-policy", "--role-name", PodExecutionRole, "--policy-arn",
		"arn:aws:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy")
	return role.Role.Arn
}

// FargateProfile creates a Fargate profile with selectors as the AWS CLI takes them, and waits until it is active.
func (d *Daemon) FargateProfile(cluster, name, role string, subnets []string, selectors ...string) {
	d.t.Helper()
	d.AWS(nil, slices.Concat([]string{"eks", "create-fargate-profile", "--cluster-name", cluster,
		"--fargate-profile-name", name, "--pod-execution-role-arn", role, "--subnets"}, subnets, []string{"--selectors"},
		selectors)...)
	d.Run("", "aws", "eks", "wait", "fargate-profile-active", "--cluster-name", cluster, "--fargate-profile-name", name)
}
