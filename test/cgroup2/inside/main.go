//go:build linux

// Command inside runs in a virtual machine with cgroup v2: it starts a daemon, has it make a cluster with a node group,
// and looks at the cgroups of the node and of a pod. Each fact is a line "fact NAME VALUE"; the last line is "end", or
// "failed: WHY".
//
// It is patient, because a virtual machine without KVM is some thirty times slower than its host.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

const (
	data    = "/data"
	cluster = "two"
	groups  = "/sys/fs/cgroup"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println("end")
}

func fact(name, format string, args ...any) {
	fmt.Printf("fact %s %s\n", name, fmt.Sprintf(format, args...))
}

func run(ctx context.Context) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(groups, &fs); err != nil {
		return err
	}
	fact("cgroup2", "%v", fs.Type == unix.CGROUP2_SUPER_MAGIC)
	doctor, _ := exec.CommandContext(ctx, "coracle", "doctor", "--data-dir", data).CombinedOutput()
	fmt.Printf("%s", doctor)
	for line := range strings.Lines(string(doctor)) {
		if words := strings.Fields(line); len(words) > 2 && words[1] == "cgroups" {
			fact("doctor", "%s", strings.Join(words, " "))
		}
	}
	if _, err := output(ctx, "coracle", "up", "--data-dir", data); err != nil {
		return err
	}
	env, err := output(ctx, "coracle", "env", "--data-dir", data)
	if err != nil {
		return err
	}
	for line := range strings.Lines(env) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			os.Setenv(name, strings.Trim(value, `"'`))
		}
	}
	if err := limitPart(); err != nil {
		return err
	}
	if err := build(ctx); err != nil {
		return err
	}
	return look(ctx)
}

// limitPart makes the group of a machine with a part of a CPU, as the smallest of Fargate has, and prints its limits.
func limitPart() error {
	host, err := cgroup.Open()
	if err != nil {
		return err
	}
	part := host.Group("inside", "part")
	if err := part.Create(cgroup.Limits{CPUs: 1, MilliCPUs: 250, MemoryBytes: 512 << 20}); err != nil {
		return err
	}
	for _, file := range []string{"cpu.max", "memory.max"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(part.Dir("cpu")), file)) // that of the parent is enforced
		if err != nil {
			return err
		}
		fact("part-"+file, "%s", strings.TrimSpace(string(text)))
	}
	return part.Remove()
}

// build makes the cluster and a node.
func build(ctx context.Context) error {
	config := aws.Config{
		Region: os.Getenv("AWS_REGION"), BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL")),
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"),
			os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
	}
	roles, machines, clusters := iam.NewFromConfig(config), ec2.NewFromConfig(config), eks.NewFromConfig(config)
	role := func(name, service string, policies ...string) (string, error) {
		out, err := roles.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service +
				`"},"Action":"sts:AssumeRole"}]}`)})
		for _, p := range policies {
			if err == nil {
				_, err = roles.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &name,
					PolicyArn: aws.String("arn:aws:iam::aws:policy/" + p)})
			}
		}
		if err != nil {
			return "", err
		}
		return *out.Role.Arn, nil
	}
	clusterRole, err := role("cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
	if err != nil {
		return err
	}
	nodeRole, err := role("node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
		"AmazonEC2ContainerRegistryReadOnly")
	if err != nil {
		return err
	}
	out, err := machines.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		return err
	}
	slices.SortFunc(out.Subnets, func(a, b ec2types.Subnet) int { // EKS has no control planes in us-east-1e
		return strings.Compare(*a.AvailabilityZone, *b.AvailabilityZone)
	})
	subnets := []string{*out.Subnets[0].SubnetId, *out.Subnets[1].SubnetId}
	if _, err := clusters.CreateCluster(ctx, &eks.CreateClusterInput{Name: aws.String(cluster), RoleArn: &clusterRole,
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets}}); err != nil {
		return err
	}
	var made *ekstypes.Cluster
	if err := until(ctx, func() (bool, error) {
		out, err := clusters.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(cluster)})
		if err == nil {
			made = out.Cluster
		}
		return err == nil && made.Status != ekstypes.ClusterStatusCreating, err
	}); err != nil {
		return err
	}
	fact("cluster", "%s", made.Status)
	if err := os.WriteFile("/root/kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: two, cluster: {server: %s, certificate-authority-data: %s}}]
contexts: [{name: two, context: {cluster: two, user: two}}]
current-context: two
users:
- name: two
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: aws-iam-authenticator
      args: [token, -i, %s, --region, %s]
`, *made.Endpoint, *made.CertificateAuthority.Data, cluster, config.Region), 0o600); err != nil {
		return err
	}
	os.Setenv("KUBECONFIG", "/root/kubeconfig")
	if _, err := clusters.CreateNodegroup(ctx, &eks.CreateNodegroupInput{
		ClusterName: aws.String(cluster), NodegroupName: aws.String("nodes"), NodeRole: &nodeRole, Subnets: subnets,
		InstanceTypes: []string{"t3.medium"},
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(1),
			DesiredSize: aws.Int32(1)},
	}); err != nil {
		return err
	}
	var group *ekstypes.Nodegroup
	explaining, explained := context.WithCancel(ctx)
	defer explained()
	go explain(explaining)
	if err := until(ctx, func() (bool, error) {
		out, err := clusters.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String(cluster),
			NodegroupName: aws.String("nodes")})
		if err == nil {
			group = out.Nodegroup
		}
		return err == nil && group.Status != ekstypes.NodegroupStatusCreating, err
	}); err != nil {
		return err
	}
	for _, issue := range group.Health.Issues {
		fmt.Println(issue.Code, aws.ToString(issue.Message), issue.ResourceIds)
	}
	fact("nodegroup", "%s", group.Status)
	return nil
}

const pod = `apiVersion: v1
kind: Pod
metadata: {name: limited}
spec:
  containers:
  - {name: main, image: "registry.k8s.io/e2e-test-images/agnhost:2.63.0", args: [pause], resources: {limits: {memory: 64Mi, cpu: 100m}}}
`

// look prints what the node has, and checks that the cgroups enforce it.
func look(ctx context.Context) error {
	if err := os.WriteFile("/root/pod.yaml", []byte(pod), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-f", "/root/pod.yaml"}, {"wait", "--for=condition=Ready", "--timeout=20m", "pod/limited"},
	} {
		if _, err := output(ctx, "kubectl", args...); err != nil {
			return err
		}
	}
	fact("pod", "Ready")
	capacity, err := output(ctx, "kubectl", "get", "nodes", "-o", "jsonpath={.items[0].status.capacity.cpu}")
	if err != nil {
		return err
	}
	fact("cpus", "%s", capacity)
	provider, err := output(ctx, "kubectl", "get", "nodes", "-o", "jsonpath={.items[0].spec.providerID}")
	if err != nil {
		return err
	}
	instance := filepath.Base(provider)
	inside, err := output(ctx, "coracle", "exec", "--data-dir", data, instance, "--", "stat", "-fc", "%T", groups)
	if err != nil {
		return err
	}
	fact("inside", "%s", strings.TrimSpace(inside))
	uid, err := output(ctx, "kubectl", "get", "pod", "limited", "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	err = filepath.WalkDir(groups, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it may have gone
		}
		switch name := d.Name(); {
		case name == instance:
			for _, file := range []string{"cpu.max", "memory.max"} {
				text, _ := os.ReadFile(filepath.Join(path, file))
				fact("machine-"+file, "%s", strings.TrimSpace(string(text)))
			}
		case name == "pod"+uid:
			text, _ := os.ReadFile(filepath.Join(path, "memory.max"))
			fact("pod-memory.max", "%s", strings.TrimSpace(string(text)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := output(ctx, "coracle", "reset", "--yes", "--data-dir", data); err != nil {
		return err
	}
	left := 0
	_ = filepath.WalkDir(groups, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == instance || strings.Contains(path, "kubepods")) {
			left++
		}
		return nil
	})
	fact("left", "%d", left)
	return nil
}

// explain prints the progress of the node every two minutes, for readers of a console on which it does not start.
func explain(ctx context.Context) {
	tick := time.NewTicker(2 * time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		status, _ := output(ctx, "coracle", "status", "--data-dir", data)
		for line := range strings.Lines(status) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "instance" {
				_, _ = output(ctx, "coracle", "exec", "--data-dir", data, words[1], "--", "sh", "-c",
					"systemctl --failed; uptime; ps -eo pid,etimes,time,args | tail -n 30 | cut -c1-150; journalctl "+
						"--no-pager -n 40 | cut -c1-300")
			}
		}
		_, _ = output(ctx, "kubectl", "get", "nodes,pods,events", "-A", "-o", "wide")
	}
}

// until asks every two seconds. Errors of a daemon that is busy do not end it.
func until(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stdout
	text, err := cmd.Output()
	fmt.Printf("$ %s %s\n%s\n", name, strings.Join(args, " "), strings.TrimRight(string(text), "\n"))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(text), nil
}
