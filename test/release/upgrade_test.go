//go:build linux

package release

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestUpgradeKeepsClustersAndMachinesRunning replaces the program of a daemon with a cluster and a machine by another
// program at another path. What runs goes on in the same processes.
func TestUpgradeKeepsClustersAndMachinesRunning(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	d := harness.Start(t)
	d.Kill()
	d.SetBinary(harness.Release(t))
	d.Serve()
	subnets := d.Subnets()
	d.CreateCluster("demo", "1.35", d.ClusterRole(), subnets)
	client := ec2.NewFromConfig(d.Config())
	image := d.Run("", "aws", "ssm", "get-parameter", "--query", "Parameter.Value", "--output", "text", "--name",
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
	run, err := client.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(strings.TrimSpace(image)), InstanceType: ec2types.InstanceTypeM5Large,
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(subnets[0])})
	if err != nil {
		t.Fatal(err)
	}
	id := aws.ToString(run.Instances[0].InstanceId)
	runs := func() error {
		out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil {
			return err
		}
		if i := out.Reservations[0].Instances[0]; i.State.Name != ec2types.InstanceStateNameRunning {
			return fmt.Errorf("%s is %s: %+v", id, i.State.Name, i.StateReason)
		}
		return nil
	}
	if err := eventually.Try(50*time.Millisecond, runs); err != nil {
		t.Fatal(err)
	}
	d.AwaitStatus("demo", "ACTIVE")
	// What runs is what remains without a daemon. Two of its processes are of the program that is replaced: etcd, for
	// which API servers wait, and the endpoint, whose connections the tests of package endpoint keep.
	left := func() []string {
		d.Kill()
		return slices.DeleteFunc(d.Processes(), func(p string) bool {
			return strings.Contains(p, "/coracle endpoint ") || strings.Contains(p, "/coracle etcd ")
		})
	}
	before := left()
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", " launch "} {
		if !slices.ContainsFunc(before, func(p string) bool { return strings.Contains(p, name) }) {
			t.Errorf("without a daemon no %s runs:\n%s", name, strings.Join(before, "\n"))
		}
	}

	d.SetBinary(harness.Binary(t))
	d.Serve()
	d.AwaitStatus("demo", "ACTIVE")
	if err := runs(); err != nil {
		t.Error(err)
	}
	// The new daemon answers for the cluster once its controllers have looked at it.
	if out := d.Run(d.Login("demo"), "kubectl", "get", "namespaces", "--output", "name"); !strings.Contains(out,
		"namespace/kube-system") {
		t.Errorf("the cluster has the namespaces\n%s", out)
	}
	if after := left(); !slices.Equal(before, after) {
		t.Errorf("an upgrade replaced processes: there were\n%s\nand are\n%s", strings.Join(before, "\n"),
			strings.Join(after, "\n"))
	}
	d.Serve()
}
