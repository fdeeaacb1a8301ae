package ec2_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestInstanceFilters(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx, s := w.Context(), aws.String
	startHardware(w)
	createInstanceProfile(w, "nodes", "node-role")
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.0.0/24", "a")
	launch := func(name string) types.Instance {
		return runInstance(w, ec2.RunInstancesInput{SubnetId: &subnet,
			IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: s("nodes")},
			TagSpecifications: []types.TagSpecification{
				{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: s("Name"), Value: &name},
					{Key: s("kubernetes.io/cluster/ironman"), Value: s("owned")}, {Key: s("empty"), Value: s("")}}},
			}})
	}
	a, b := launch("a"), launch("b")
	waitForState(w, *a.InstanceId, "running")
	waitForState(w, *b.InstanceId, "running")
	runInstance(w, ec2.RunInstancesInput{})
	row, _ := record.Instances(w.Store).Get(ctx, record.EC2Key(ec2test.Account, ec2test.Region, *a.InstanceId))
	ni := a.NetworkInterfaces[0]
	for _, test := range []struct {
		name   string
		values []string
		want   string // a, b, ab or neither
	}{
		{"instance-id", []string{*a.InstanceId}, "a"},
		{"private-dns-name", []string{*b.PrivateDnsName}, "b"},
		{"private-dns-name", []string{*a.PrivateDnsName, *b.PrivateDnsName, "ip-10-0-0-1.eu-west-1.compute.internal"},
			"ab"},
		{"private-dns-name", []string{"ip-10-0-0-*"}, "ab"},
		{"private-ip-address", []string{*a.PrivateIpAddress}, "a"},
		{"network-interface.private-dns-name", []string{*a.PrivateDnsName}, ""}, // the VPC has no DNS hostnames
		{"network-interface.network-interface-id", []string{*ni.NetworkInterfaceId}, "a"},
		{"network-interface.addresses.private-ip-address", []string{*ni.PrivateIpAddress}, "a"},
		{"network-interface.attachment.instance-id", []string{*b.InstanceId}, "b"},
		{"tag:Name", []string{"a"}, "a"},
		{"tag:Name", []string{"*"}, "ab"},
		{"tag:empty", []string{""}, "ab"},
		{"tag:kubernetes.io/cluster/ironman", []string{"owned", "shared"}, "ab"},
		{"tag:kubernetes.io/cluster/thor", []string{"*"}, ""},
		{"tag-key", []string{"kubernetes.io/cluster/ironman"}, "ab"},
		{"instance-state-name", []string{"running", "pending"}, "ab"},
		{"instance-state-name", []string{"stopped"}, ""},
		{"instance-state-code", []string{"16"}, "ab"},
		{"reservation-id", []string{row.Value.ReservationID}, "a"},
		{"iam-instance-profile.name", []string{"nodes"}, "ab"},
		{"iam-instance-profile.arn", []string{"arn:aws:iam::" + ec2test.Account + ":instance-profile/nodes"}, "ab"},
		{"block-device-mapping.volume-id", []string{*a.BlockDeviceMappings[0].Ebs.VolumeId}, "a"},
		{"instance.group-name", []string{"default"}, "ab"},
		{"subnet-id", []string{subnet}, "ab"},
		{"vpc-id", []string{*a.VpcId}, "ab"},
		{"owner-id", []string{ec2test.Account}, "ab"},
		{"availability-zone", []string{"eu-west-1a"}, "ab"},
		{"architecture", []string{"arm64"}, ""},
		{"instance-lifecycle", []string{"spot"}, ""},
		{"launch-time", []string{a.LaunchTime.UTC().Format("2006-01-02") + "*"}, "ab"},
		{"metadata-options.http-tokens", []string{"required"}, "ab"},
		{"ip-address", []string{"*"}, ""},
		{"key-name", []string{"*"}, ""},
	} {
		out := awstest.Must[*ec2.DescribeInstancesOutput](t)(w.DescribeInstances(ctx,
			&ec2.DescribeInstancesInput{Filters: []types.Filter{ec2test.Filter(test.name, test.values...),
				ec2test.Filter("vpc-id", *a.VpcId)}}))
		var got []string
		for _, r := range out.Reservations {
			for _, v := range r.Instances {
				got = append(got, map[string]string{*a.InstanceId: "a", *b.InstanceId: "b"}[*v.InstanceId])
			}
		}
		slices.Sort(got)
		if strings.Join(got, "") != test.want {
			t.Errorf("%s=%v finds %v, want %q", test.name, test.values, got, test.want)
		}
	}
	checks := awstest.Must[*ec2.DescribeInstanceStatusOutput](t)(w.DescribeInstanceStatus(ctx,
		&ec2.DescribeInstanceStatusInput{InstanceIds: []string{*a.InstanceId}})).InstanceStatuses
	if len(checks) != 1 || checks[0].InstanceStatus.Status != "ok" ||
		checks[0].SystemStatus.Details[0].Status != "passed" || checks[0].InstanceState.Name != "running" {
		t.Errorf("status %+v", checks)
	}
	awstest.Must[any](t)(
		record.MachineConsoles(w.Store).Put(ctx, record.EC2Key(ec2test.Account, ec2test.Region, *a.InstanceId),
			record.MachineConsole{Output: []byte("Linux version"), UpdatedAt: time.Now()}),
	)
	console := awstest.Must[*ec2.GetConsoleOutputOutput](t)(w.GetConsoleOutput(ctx,
		&ec2.GetConsoleOutputInput{InstanceId: a.InstanceId}))
	if text, _ := base64.StdEncoding.DecodeString(*console.Output); string(text) != "Linux version" {
		t.Errorf("console %s", text)
	}
}

// BenchmarkDescribeInstances asks for one of 2,000 instances, and for all, as tools do.
func BenchmarkDescribeInstances(b *testing.B) {
	w := ec2test.New(b)
	subnet := w.Subnet(w.VPC("10.0.0.0/16"), "10.0.16.0/20", "a")
	var last types.Instance
	for range 4 {
		in := ec2.RunInstancesInput{SubnetId: &subnet, MinCount: aws.Int32(500),
			TagSpecifications: []types.TagSpecification{
				{ResourceType: types.ResourceTypeInstance,
					Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("node")},
						{Key: aws.String("eks:cluster-name"), Value: aws.String("ironman")}}},
			}}
		completeRequest(w, &in)
		last = awstest.Must[*ec2.RunInstancesOutput](b)(w.RunInstances(w.Context(), &in)).Instances[499]
	}
	for name, in := range map[string]ec2.DescribeInstancesInput{
		"by ID": {InstanceIds: []string{*last.InstanceId}},
		"by private DNS name": {Filters: []types.Filter{ec2test.Filter("private-dns-name", *last.PrivateDnsName),
			ec2test.Filter("instance-state-name", "running", "pending")}},
		"by tag": {Filters: []types.Filter{ec2test.Filter("tag:eks:cluster-name", "thor")}},
		"by IP":  {Filters: []types.Filter{ec2test.Filter("private-ip-address", *last.PrivateIpAddress)}},
		"all":    {},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				awstest.Must[any](b)(w.DescribeInstances(w.Context(), &in))
			}
		})
	}
}
