package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
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
		private = append(private, d.subnet(s.VpcId, s.AvailabilityZone, fmt.Sprintf("172.31.%d.0/20", 128+16*i),
			table.RouteTable.RouteTableId))
	}
	return private
}

// SubnetBeside makes a subnet in the VPC and zone of another one, with its routes.
func (d *Daemon) SubnetBeside(other, cidr string) string {
	d.t.Helper()
	var subnets struct {
		Subnets []struct{ VpcId, AvailabilityZone string }
	}
	d.AWS(&subnets, "ec2", "describe-subnets", "--subnet-ids", other)
	var tables struct {
		RouteTables []struct{ RouteTableId string }
	}
	d.AWS(&tables, "ec2", "describe-route-tables", "--filters", "Name=association.subnet-id,Values="+other)
	if len(tables.RouteTables) != 1 {
		d.t.Fatalf("subnet %s has the route tables %+v", other, tables)
	}
	return d.subnet(subnets.Subnets[0].VpcId, subnets.Subnets[0].AvailabilityZone, cidr,
		tables.RouteTables[0].RouteTableId)
}

func (d *Daemon) subnet(vpc, zone, cidr, routeTable string) string {
	d.t.Helper()
	var made struct{ Subnet struct{ SubnetId string } }
	d.AWS(&made, "ec2", "create-subnet", "--vpc-id", vpc, "--availability-zone", zone, "--cidr-block", cidr)
	d.AWS(nil, "ec2", "associate-route-table", "--subnet-id", made.Subnet.SubnetId, "--route-table-id", routeTable)
	return made.Subnet.SubnetId
}

// PodExecutionRole is the name of the role that PodExecutionRole of a daemon makes.
const PodExecutionRole = "fargate-pods"

// PodExecutionPolicy is the ARN of AWS's policy for pod execution roles, by which Fargate pulls images.
const PodExecutionPolicy = "arn:aws:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy"

// PodExecutionRole makes a role for the Fargate pods of a cluster, and returns its ARN.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func (d *Daemon) PodExecutionRole(cluster string) string {
	d.t.Helper()
	arn := d.BarePodExecutionRole(cluster, PodExecutionRole)
	d.AWS(nil, "iam", "attach-role-policy", "--role-name", PodExecutionRole, "--policy-arn", PodExecutionPolicy)
	return arn
}

// BarePodExecutionRole makes a role without permissions for the Fargate pods of a cluster, and returns its ARN.
func (d *Daemon) BarePodExecutionRole(cluster, name string) string {
	d.t.Helper()
	var role struct{ Role struct{ Arn string } }
	d.AWS(&role, "iam", "create-role", "--role-name", name, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks-fargate-pods.amazonaws.com"},
		"Action":"sts:AssumeRole","Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:eks:`+Region+
			`:111122223333:fargateprofile/`+cluster+`/*"}}}]}`)
	return role.Role.Arn
}

// FargateProfile creates a Fargate profile with selectors as the AWS CLI takes them, and waits until it is active. It
// asks from this process: the waiters of the AWS CLI pause for 10 and 30 seconds.
func (d *Daemon) FargateProfile(cluster, name, role string, subnets []string, selectors ...string) {
	d.t.Helper()
	d.AWS(nil, slices.Concat([]string{"eks", "create-fargate-profile", "--cluster-name", cluster,
		"--fargate-profile-name", name, "--pod-execution-role-arn", role, "--subnets"}, subnets, []string{"--selectors"},
		selectors)...)
	d.untilProfile(cluster, name, func(p *ekstypes.FargateProfile) error {
		switch {
		case p == nil:
			return eventually.Never(errors.New("it is gone"))
		case p.Status == ekstypes.FargateProfileStatusCreateFailed:
			return eventually.Never(fmt.Errorf("it is %s: %s", p.Status, Text(p.Health)))
		case p.Status != ekstypes.FargateProfileStatusActive:
			return fmt.Errorf("it is %s", p.Status)
		}
		return nil
	})
}

// DeleteFargateProfile deletes a Fargate profile with its pods, and waits until it is gone.
func (d *Daemon) DeleteFargateProfile(cluster, name string) {
	d.t.Helper()
	d.AWS(nil, "eks", "delete-fargate-profile", "--cluster-name", cluster, "--fargate-profile-name", name)
	d.untilProfile(cluster, name, func(p *ekstypes.FargateProfile) error {
		if p != nil {
			return fmt.Errorf("it is %s: %s", p.Status, Text(p.Health))
		}
		return nil
	})
}

// untilProfile waits until a Fargate profile, nil when there is none, is as it should be.
func (d *Daemon) untilProfile(cluster, name string, is func(*ekstypes.FargateProfile) error) {
	d.t.Helper()
	client := eks.NewFromConfig(d.Config())
	if err := eventually.Try(50*time.Millisecond, func() error {
		out, err := client.DescribeFargateProfile(context.Background(), &eks.DescribeFargateProfileInput{
			ClusterName: aws.String(cluster), FargateProfileName: aws.String(name)})
		var gone *ekstypes.ResourceNotFoundException
		switch {
		case errors.As(err, &gone):
			return is(nil)
		case err != nil:
			return err
		}
		return is(out.FargateProfile)
	}); err != nil {
		d.t.Fatalf("Fargate profile %s of cluster %s: %v", name, cluster, err)
	}
}
