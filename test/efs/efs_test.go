//go:build linux

// Package efs tests EFS file systems in real machines, as users mount them. The tests need root.
package efs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// rig is a daemon and its clients.
type rig struct {
	*harness.Daemon
	t      *testing.T
	ec2    *ec2.Client
	efs    *efs.Client
	iam    *iam.Client
	subnet ec2types.Subnet
}

func newRig(t *testing.T) *rig {
	t.Helper()
	testenv.NeedsRoot(t)
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	d := harness.Start(t)
	r := &rig{Daemon: d, t: t, ec2: ec2.NewFromConfig(d.Config()), efs: efs.NewFromConfig(d.Config()),
		iam: iam.NewFromConfig(d.Config())}
	r.subnet = must[*ec2.DescribeSubnetsOutput](r)(r.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{
		SubnetIds: d.Subnets()[:1]})).Subnets[0]
	return r
}

// must returns the output of a call, which has to succeed.
func must[T any](r *rig) func(T, error) T {
	return func(out T, err error) T {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
		return out
	}
}

func (r *rig) eventually(what string, try func() error) {
	r.t.Helper()
	if err := eventually.Try(100*time.Millisecond, try); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// launch launches instances with the role, if any, and waits until commands run in them.
func (r *rig) launch(count int32, subnet, profile string) (ids []string) {
	r.t.Helper()
	image := r.Run("", "aws", "ssm", "get-parameter", "--query", "Parameter.Value", "--output", "text", "--name",
		"/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")
	in := &ec2.RunInstancesInput{ImageId: aws.String(strings.TrimSpace(image)), SubnetId: &subnet,
		InstanceType: ec2types.InstanceTypeM5Large, MinCount: &count, MaxCount: &count}
	if profile != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: &profile}
	}
	for _, i := range must[*ec2.RunInstancesOutput](r)(r.ec2.RunInstances(r.t.Context(), in)).Instances {
		ids = append(ids, *i.InstanceId)
	}
	for _, id := range ids {
		r.eventually(id+" runs", func() error {
			_, err := r.inside(id, "true")
			return err
		})
	}
	return ids
}

// inside runs a shell command in a machine.
func (r *rig) inside(id, script string) (string, error) {
	out, text, err := r.Try("", "coracle", "exec", "--data-dir", r.Dir, id, "--", "/bin/sh", "-c", script)
	if err != nil {
		return out, fmt.Errorf("%w: %s%s", err, out, text)
	}
	return out, nil
}

func (r *rig) do(id, script string) string {
	r.t.Helper()
	out, err := r.inside(id, script)
	if err != nil {
		r.t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out)
}

// fails runs a command that has to fail, with an error that says so.
func (r *rig) fails(id, script, says string) {
	r.t.Helper()
	out, err := r.inside(id, script)
	if err == nil || !strings.Contains(err.Error(), says) {
		r.t.Errorf("%s: %s, %v, want an error that says %q", script, out, err, says)
	}
}

func (r *rig) createFileSystem() string {
	r.t.Helper()
	id := *must[*efs.CreateFileSystemOutput](r)(r.efs.CreateFileSystem(r.t.Context(), &efs.CreateFileSystemInput{
		CreationToken: aws.String(fmt.Sprint(time.Now().UnixNano()))})).FileSystemId
	r.eventually(id+" is available", func() error {
		out, err := r.efs.DescribeFileSystems(r.t.Context(), &efs.DescribeFileSystemsInput{FileSystemId: &id})
		if err == nil && out.FileSystems[0].LifeCycleState != types.LifeCycleStateAvailable {
			err = fmt.Errorf("it is %s", out.FileSystems[0].LifeCycleState)
		}
		return err
	})
	return id
}

// createMountTarget makes a mount target in the subnet, and returns its ID and address.
func (r *rig) createMountTarget(fileSystem string) (id, address string) {
	r.t.Helper()
	out := must[*efs.CreateMountTargetOutput](r)(r.efs.CreateMountTarget(r.t.Context(), &efs.CreateMountTargetInput{
		FileSystemId: &fileSystem, SubnetId: r.subnet.SubnetId}))
	id, address = *out.MountTargetId, *out.IpAddress
	r.eventually(id+" is available", func() error {
		out, err := r.efs.DescribeMountTargets(r.t.Context(), &efs.DescribeMountTargetsInput{MountTargetId: &id})
		if err == nil && out.MountTargets[0].LifeCycleState != types.LifeCycleStateAvailable {
			err = fmt.Errorf("it is %s", out.MountTargets[0].LifeCycleState)
		}
		return err
	})
	return id, address
}

// createProfile makes an instance profile, whose role may do these actions with EFS.
func (r *rig) createProfile(name string, actions ...string) (roleARN string) {
	r.t.Helper()
	role := must[*iam.CreateRoleOutput](r)(r.iam.CreateRole(r.t.Context(), &iam.CreateRoleInput{RoleName: &name,
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":` +
			`{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))
	if len(actions) > 0 {
		must[*iam.PutRolePolicyOutput](r)(r.iam.PutRolePolicy(r.t.Context(), &iam.PutRolePolicyInput{RoleName: &name,
			PolicyName: &name, PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow",` +
				`"Action":["` + strings.Join(actions, `","`) + `"],"Resource":"*"}]}`)}))
	}
	must[*iam.CreateInstanceProfileOutput](r)(r.iam.CreateInstanceProfile(r.t.Context(), &iam.CreateInstanceProfileInput{
		InstanceProfileName: &name}))
	must[*iam.AddRoleToInstanceProfileOutput](r)(r.iam.AddRoleToInstanceProfile(r.t.Context(),
		&iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &name}))
	return *role.Role.Arn
}

func TestTwoMachinesShareAFileSystem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	role := r.createProfile("client", "elasticfilesystem:ClientMount")
	id := r.createFileSystem()
	target, address := r.createMountTarget(id)
	machines := r.launch(2, *r.subnet.SubnetId, "client")
	one, two := machines[0], machines[1]

	// By address, and by name.
	r.do(one, "mkdir /mnt/efs && mount -t nfs4 -o nfsvers=4.1,hard,noresvport "+address+":/ /mnt/efs")
	r.do(two, "mkdir /mnt/efs && mount -t efs "+id+":/ /mnt/efs")
	r.do(one, "echo hello > /mnt/efs/file && chown 1000:1000 /mnt/efs/file && mkdir -m 777 /mnt/efs/open")
	if got := r.do(two, "cat /mnt/efs/file; stat -c %u:%g /mnt/efs/file"); got != "hello\n1000:1000" {
		t.Errorf("the other machine sees %q", got)
	}
	name := id + ".efs." + r.Config().Region + ".amazonaws.com"
	r.do(one, "mkdir /mnt/name && mount -t nfs4 -o nfsvers=4.1 "+name+":/open /mnt/name && touch /mnt/name/x")
	r.do(two, "test -e /mnt/efs/open/x")

	// Locks are those of one file system.
	r.do(one, "(flock -n 9 || exit 1; touch /run/holds; until test -e /run/free; do sleep 0.1; done) 9> /mnt/efs/lock "+
		"> /dev/null 2>&1 & until test -e /run/holds; do sleep 0.1; done")
	r.fails(two, "flock -n /mnt/efs/lock true", "")
	r.do(one, "touch /run/free")
	r.do(two, "flock -w 60 /mnt/efs/lock true")

	// An access point has a user and a root directory.
	point := must[*efs.CreateAccessPointOutput](r)(r.efs.CreateAccessPoint(t.Context(), &efs.CreateAccessPointInput{
		FileSystemId: &id, ClientToken: aws.String("point"), PosixUser: &types.PosixUser{Uid: aws.Int64(5000),
			Gid: aws.Int64(5001)},
		RootDirectory: &types.RootDirectory{Path: aws.String("/points/one"), CreationInfo: &types.CreationInfo{
			OwnerUid: aws.Int64(5000), OwnerGid: aws.Int64(5001), Permissions: aws.String("0750")}}}))
	mountPoint := "mkdir /mnt/point && mount -t efs -o tls,accesspoint=" + *point.AccessPointId + " " + id + ":/ /mnt/point"
	r.do(one, mountPoint)
	r.do(two, mountPoint)
	r.do(one, "echo one > /mnt/point/file")
	if got := r.do(two, "cat /mnt/point/file; stat -c %u:%g /mnt/efs/points/one/file; stat -c %u:%g:%a /mnt/efs/points/one"); got !=
		"one\n5000:5001\n5000:5001:750" {
		t.Errorf("by the access point, the other machine sees %q", got)
	}
	r.do(two, "echo two >> /mnt/point/file && umount /mnt/point")
	if got := r.do(one, "cat /mnt/point/file"); got != "one\ntwo" {
		t.Errorf("by the access point, the first machine sees %q", got)
	}
	r.fails(one, "mkdir /mnt/no; mount -t efs -o tls,accesspoint=fsap-0123456789abcdef0 "+id+":/ /mnt/no", "access denied")

	// A policy asks for an identity, and lets it read.
	must[*efs.PutFileSystemPolicyOutput](r)(r.efs.PutFileSystemPolicy(t.Context(), &efs.PutFileSystemPolicyInput{
		FileSystemId: &id, Policy: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` +
			role + `"},"Action":["elasticfilesystem:ClientMount","elasticfilesystem:ClientRootAccess"],"Condition":` +
			`{"Bool":{"aws:SecureTransport":"true"}}}]}`)}))
	r.fails(one, "mkdir /mnt/anonymous; mount -t nfs4 -o retry=0 "+address+":/ /mnt/anonymous", "access denied")
	r.fails(one, "mount -t efs -o tls "+id+":/ /mnt/anonymous", "access denied")
	r.do(one, "mount -t efs -o tls,iam "+id+":/ /mnt/anonymous && cat /mnt/anonymous/file")
	r.fails(one, "touch /mnt/anonymous/new", "Read-only file system")
	if got := r.do(one, "cat /mnt/efs/file"); got != "hello" {
		t.Errorf("what was mounted before has %q", got)
	}
	eventually.True(t, "the console says why a mount was refused", func() bool { // it is written from time to time
		console := r.Run("", "aws", "ec2", "get-console-output", "--latest", "--instance-id", one, "--output", "text")
		return strings.Contains(console, "AccessDenied")
	})
	must[*efs.DeleteFileSystemPolicyOutput](r)(r.efs.DeleteFileSystemPolicy(t.Context(), &efs.DeleteFileSystemPolicyInput{
		FileSystemId: &id}))

	// The daemon dies: what is mounted stays, and what comes later is mounted again.
	r.Kill()
	r.do(two, "echo alone > /mnt/efs/alone")
	r.Serve()
	if got := r.do(one, "cat /mnt/efs/alone"); got != "alone" {
		t.Errorf("without a daemon, %q was written", got)
	}
	r.eventually("it is mounted again", func() error {
		_, err := r.inside(two, "mkdir -p /mnt/again && mount -t efs "+id+":/ /mnt/again && test -e /mnt/again/file")
		return err
	})
	r.unreachable(one, id, target, address)

	// Who serves access points ends with the machines.
	must[*ec2.TerminateInstancesOutput](r)(r.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{
		InstanceIds: machines}))
	r.eventually("nothing of the mounts is left", func() error {
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err == nil && strings.Contains(string(data), id) {
			err = errors.New("the host has mounts of the file system")
		}
		return errors.Join(err, r.noServers())
	})
}

// noServers returns an error while a process serves a file system.
func (r *rig) noServers() error {
	all, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, name := range all {
		if root, err := os.Readlink(name); err == nil && strings.HasPrefix(root, r.Dir+"/filesystems") {
			return fmt.Errorf("%s is in %s", name, root)
		}
	}
	return nil
}

// unreachable tests who does not get to a mount target: those whom the security group refuses, other VPCs, and
// everybody once it is deleted.
func (r *rig) unreachable(machine, id, target, address string) {
	vpc := r.subnet.VpcId
	closed := *must[*ec2.CreateSecurityGroupOutput](r)(r.ec2.CreateSecurityGroup(r.t.Context(),
		&ec2.CreateSecurityGroupInput{GroupName: aws.String("closed"), Description: aws.String("closed"),
			VpcId: vpc})).GroupId
	must[*efs.ModifyMountTargetSecurityGroupsOutput](r)(r.efs.ModifyMountTargetSecurityGroups(r.t.Context(),
		&efs.ModifyMountTargetSecurityGroupsInput{MountTargetId: &target, SecurityGroups: []string{closed}}))
	r.eventually("the security group closes the mount target", func() error {
		_, err := r.inside(machine, "timeout 2 bash -c ': < /dev/tcp/"+address+"/2049'")
		if err == nil {
			return errors.New("it is open")
		}
		return nil
	})
	r.fails(machine, "mkdir /mnt/closed; mount -t nfs4 -o retry=0 "+address+":/ /mnt/closed", "timed out")
	r.do(machine, "cat /mnt/efs/file")
	must[*ec2.AuthorizeSecurityGroupIngressOutput](r)(r.ec2.AuthorizeSecurityGroupIngress(r.t.Context(),
		&ec2.AuthorizeSecurityGroupIngressInput{GroupId: &closed, IpProtocol: aws.String("tcp"), FromPort: aws.Int32(2049),
			ToPort: aws.Int32(2049), CidrIp: aws.String("0.0.0.0/0")}))
	r.eventually("the security group opens it", func() error {
		_, err := r.inside(machine, "mount -t nfs4 -o retry=0 "+address+":/ /mnt/closed")
		return err
	})

	other := *must[*ec2.CreateVpcOutput](r)(r.ec2.CreateVpc(r.t.Context(), &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.77.0.0/16")})).Vpc.VpcId
	subnet := *must[*ec2.CreateSubnetOutput](r)(r.ec2.CreateSubnet(r.t.Context(), &ec2.CreateSubnetInput{VpcId: &other,
		CidrBlock: aws.String("10.77.1.0/24")})).Subnet.SubnetId
	stranger := r.launch(1, subnet, "")[0]
	r.fails(stranger, "mount -t efs -o region="+r.Config().Region+" "+id+":/ /mnt", "Failed to resolve")
	r.fails(stranger, "mount -t nfs4 -o retry=0 "+address+":/ /mnt", "")
	must[*ec2.TerminateInstancesOutput](r)(r.ec2.TerminateInstances(r.t.Context(), &ec2.TerminateInstancesInput{
		InstanceIds: []string{stranger}}))

	must[*efs.DeleteMountTargetOutput](r)(r.efs.DeleteMountTarget(r.t.Context(), &efs.DeleteMountTargetInput{
		MountTargetId: &target}))
	r.eventually("the deleted mount target is gone", func() error {
		_, err := r.efs.DescribeMountTargets(r.t.Context(), &efs.DescribeMountTargetsInput{MountTargetId: &target})
		var gone *types.MountTargetNotFound
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("it is still there: %w", err)
	})
	r.fails(machine, "mkdir -p /mnt/late; mount -t nfs4 -o retry=0 "+address+":/ /mnt/late", "")
	r.do(machine, "cat /mnt/efs/file")
	must[*efs.DeleteFileSystemOutput](r)(r.efs.DeleteFileSystem(r.t.Context(), &efs.DeleteFileSystemInput{
		FileSystemId: &id}))
	r.eventually("the files are gone", func() error {
		if _, err := r.inside(machine, "cat /mnt/efs/file"); err == nil {
			return errors.New("they are there")
		}
		return nil
	})
}
