package efs_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// TestBadRequests shows that each gets AWS's error, and changes nothing.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.fileSystem(func(in *efs.CreateFileSystemInput) { in.CreationToken = aws.String("taken") })
	oneZone := w.fileSystem(func(in *efs.CreateFileSystemInput) { in.AvailabilityZoneName = aws.String(region + "b") })
	m := w.mountTarget(id, "a")
	awstest.Must[*efs.CreateAccessPointOutput](t)(w.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{
		FileSystemId: &id, ClientToken: aws.String("taken")}))
	vpc := awstest.Must[*ec2.CreateVpcOutput](t)(w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.9.0.0/16")})).Vpc
	elsewhere := *awstest.Must[*ec2.CreateSubnetOutput](t)(w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
		VpcId: vpc.VpcId, CidrBlock: aws.String("10.9.0.0/24"), AvailabilityZone: aws.String(region + "b")})).Subnet.SubnetId
	group := awstest.Must[*ec2.CreateSecurityGroupOutput](t)(w.ec2.CreateSecurityGroup(ctx,
		&ec2.CreateSecurityGroupInput{GroupName: aws.String("nfs"), Description: aws.String("nfs"), VpcId: vpc.VpcId}))
	foreign := *group.GroupId
	subnetB := w.subnet("b")
	awstest.Must[*ec2.CreateNetworkInterfaceOutput](t)(w.ec2.CreateNetworkInterface(ctx,
		&ec2.CreateNetworkInterfaceInput{SubnetId: &subnetB}))
	const (
		noFileSystem  = "fs-0123456789abcdef0"
		noMountTarget = "fsmt-0123456789abcdef0"
		noAccessPoint = "fsap-0123456789abcdef0"
		noSubnet      = "subnet-0123456789abcdef0"
		noGroup       = "sg-0123456789abcdef0"
	)

	create := func(in efs.CreateFileSystemInput) func() error {
		return func() error { return failed(w.CreateFileSystem(ctx, &in)) }
	}
	mount := func(edit func(*efs.CreateMountTargetInput)) func() error {
		return func() error {
			in := &efs.CreateMountTargetInput{FileSystemId: &id, SubnetId: &subnetB}
			edit(in)
			return failed(w.CreateMountTarget(ctx, in))
		}
	}
	point := func(edit func(*efs.CreateAccessPointInput)) func() error {
		return func() error {
			in := &efs.CreateAccessPointInput{FileSystemId: &id}
			edit(in)
			return failed(w.CreateAccessPoint(ctx, in))
		}
	}
	path := func(path string) func() error {
		return point(func(in *efs.CreateAccessPointInput) { in.RootDirectory = &types.RootDirectory{Path: &path} })
	}
	policy := func(text string) func() error {
		return func() error {
			return failed(w.PutFileSystemPolicy(ctx, &efs.PutFileSystemPolicyInput{FileSystemId: &id, Policy: &text}))
		}
	}
	statement := func(fields string) func() error {
		return policy(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow",` + fields + `}]}`)
	}
	lifecycle := func(policies ...types.LifecyclePolicy) func() error {
		return func() error {
			return failed(w.PutLifecycleConfiguration(ctx, &efs.PutLifecycleConfigurationInput{FileSystemId: &id,
				LifecyclePolicies: policies}))
		}
	}
	update := func(in efs.UpdateFileSystemInput) func() error {
		return func() error {
			in.FileSystemId = &id
			return failed(w.UpdateFileSystem(ctx, &in))
		}
	}
	tag := func(resource string, tags ...types.Tag) func() error {
		return func() error {
			return failed(w.TagResource(ctx, &efs.TagResourceInput{ResourceId: &resource, Tags: tags}))
		}
	}
	newTag := func(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }
	tags := func(n int) (all []types.Tag) {
		for i := range n {
			all = append(all, newTag(fmt.Sprint("key", i), ""))
		}
		return all
	}
	groups := func(n int) (all []string) {
		for range n {
			all = append(all, noGroup)
		}
		return all
	}

	before := w.rows()
	for name, c := range map[string]struct {
		call          func() error
		code, message string
	}{
		"a creation token twice": {create(efs.CreateFileSystemInput{CreationToken: aws.String("taken")}),
			"FileSystemAlreadyExists", id},
		"a creation token too long": {create(efs.CreateFileSystemInput{CreationToken: aws.String(strings.Repeat("x", 65))}),
			"ValidationException", "at 'creationToken' failed to satisfy constraint: Member must have length less than"},
		"a performance mode that does not exist": {create(efs.CreateFileSystemInput{PerformanceMode: "fast"}),
			"ValidationException", "enum value set: [generalPurpose, maxIO]"},
		"a throughput mode that does not exist": {create(efs.CreateFileSystemInput{ThroughputMode: "fast"}),
			"ValidationException", "at 'throughputMode'"},
		"provisioned without throughput": {create(efs.CreateFileSystemInput{
			ThroughputMode: types.ThroughputModeProvisioned}), "BadRequest", "needs ProvisionedThroughputInMibps"},
		"throughput without provisioned": {create(efs.CreateFileSystemInput{
			ProvisionedThroughputInMibps: aws.Float64(10)}), "BadRequest", "for the throughput mode provisioned alone"},
		"less throughput than there is": {create(efs.CreateFileSystemInput{ThroughputMode: types.ThroughputModeProvisioned,
			ProvisionedThroughputInMibps: aws.Float64(0.5)}), "ValidationException", "greater than or equal to 1"},
		"more throughput than there is": {create(efs.CreateFileSystemInput{ThroughputMode: types.ThroughputModeProvisioned,
			ProvisionedThroughputInMibps: aws.Float64(5000)}), "ThroughputLimitExceeded", "3414 MiB/s"},
		"maxIO with elastic throughput": {create(efs.CreateFileSystemInput{PerformanceMode: types.PerformanceModeMaxIo,
			ThroughputMode: types.ThroughputModeElastic}), "BadRequest", "generalPurpose alone"},
		"maxIO in one zone": {create(efs.CreateFileSystemInput{PerformanceMode: types.PerformanceModeMaxIo,
			AvailabilityZoneName: aws.String(region + "a")}), "BadRequest", "One Zone"},
		"a zone that does not exist": {create(efs.CreateFileSystemInput{AvailabilityZoneName: aws.String("eu-west-1a")}),
			"BadRequest", "does not exist in " + region},
		"a key without encryption": {create(efs.CreateFileSystemInput{KmsKeyId: aws.String("alias/mine")}),
			"BadRequest", "Encrypted must be true"},
		"a key that does not exist": {create(efs.CreateFileSystemInput{Encrypted: aws.Bool(true),
			KmsKeyId: aws.String("alias/mine")}), "BadRequest", "alias/mine"},
		"what is no key": {create(efs.CreateFileSystemInput{Encrypted: aws.Bool(true), KmsKeyId: aws.String("mine")}),
			"ValidationException", "at 'kmsKeyId'"},
		"a reserved tag": {create(efs.CreateFileSystemInput{Tags: []types.Tag{newTag("aws:x", "")}}),
			"ValidationException", "at 'tags.1.member.key'"},
		"a tag twice": {create(efs.CreateFileSystemInput{Tags: []types.Tag{newTag("x", ""), newTag("x", "")}}),
			"BadRequest", "twice"},
		"a tag with letters that it cannot have": {create(efs.CreateFileSystemInput{Tags: []types.Tag{newTag("x!", "")}}),
			"ValidationException", "regular expression pattern"},
		"too many tags": {create(efs.CreateFileSystemInput{Tags: tags(51)}), "BadRequest", "50 tags at most"},

		"describe what is no ID": {func() error {
			return failed(w.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: aws.String("fs-xyz")}))
		}, "ValidationException", "Value 'fs-xyz' at 'fileSystemId' failed to satisfy constraint: Member must"},
		"describe what is not there": {func() error {
			return failed(w.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: aws.String(noFileSystem)}))
		}, "FileSystemNotFound", "File system '" + noFileSystem + "' does not exist."},
		"describe what is in another region": {func() error {
			return failed(w.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{
				FileSystemId: aws.String("arn:aws:elasticfilesystem:eu-west-1:" + account + ":file-system/" + id)}))
		}, "FileSystemNotFound", id},
		"describe by ID and token": {func() error {
			return failed(w.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id,
				CreationToken: aws.String("taken")}))
		}, "BadRequest", "not both"},
		"a marker of nobody's": {func() error {
			return failed(w.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{Marker: aws.String("x")}))
		}, "BadRequest", "token"},
		"delete what is in use": {func() error {
			return failed(w.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id}))
		}, "FileSystemInUse", *m.MountTargetId},
		"delete what is not there": {func() error {
			return failed(w.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: aws.String(noFileSystem)}))
		}, "FileSystemNotFound", noFileSystem},

		"update nothing": {update(efs.UpdateFileSystemInput{}), "BadRequest", "nothing else"},
		"update to provisioned without throughput": {update(efs.UpdateFileSystemInput{
			ThroughputMode: types.ThroughputModeProvisioned}), "BadRequest", "needs ProvisionedThroughputInMibps"},
		"update throughput that is not provisioned": {update(efs.UpdateFileSystemInput{
			ProvisionedThroughputInMibps: aws.Float64(10)}), "BadRequest", "not for bursting"},
		"protect as replication does": {func() error {
			return failed(w.UpdateFileSystemProtection(ctx, &efs.UpdateFileSystemProtectionInput{FileSystemId: &id,
				ReplicationOverwriteProtection: types.ReplicationOverwriteProtectionReplicating}))
		}, "BadRequest", "set ENABLED or DISABLED"},
		"protect nothing": {func() error {
			return failed(w.UpdateFileSystemProtection(ctx, &efs.UpdateFileSystemProtectionInput{FileSystemId: &id}))
		}, "BadRequest", "nothing else"},

		"a mount target of nothing": {mount(func(in *efs.CreateMountTargetInput) {
			in.FileSystemId = aws.String(noFileSystem)
		}), "FileSystemNotFound", noFileSystem},
		"a mount target in no subnet": {mount(func(in *efs.CreateMountTargetInput) { in.SubnetId = aws.String(noSubnet) }),
			"SubnetNotFound", noSubnet},
		"a second mount target in a zone": {mount(func(in *efs.CreateMountTargetInput) { in.SubnetId = m.SubnetId }),
			"MountTargetConflict", "already exists in this AZ"},
		"a mount target in another VPC": {mount(func(in *efs.CreateMountTargetInput) { in.SubnetId = &elsewhere }),
			"MountTargetConflict", "one VPC"},
		"a mount target in another zone": {mount(func(in *efs.CreateMountTargetInput) {
			in.FileSystemId, in.SubnetId = &oneZone, m.SubnetId
		}), "AvailabilityZonesMismatch", region + "b alone"},
		"an address outside of the subnet": {mount(func(in *efs.CreateMountTargetInput) {
			in.IpAddress = aws.String("10.200.0.9")
		}), "BadRequest", "does not fall within the subnet"},
		"what is no address": {mount(func(in *efs.CreateMountTargetInput) { in.IpAddress = aws.String("10.0.0.300.1") }),
			"ValidationException", "at 'ipAddress'"},
		"an address that is in use": {mount(func(in *efs.CreateMountTargetInput) {
			in.FileSystemId, in.SubnetId, in.IpAddress = &oneZone, &subnetB, usedAddress(w, subnetB)
		}), "IpAddressInUse", "is in use"},
		"too many security groups": {mount(func(in *efs.CreateMountTargetInput) { in.SecurityGroups = groups(6) }),
			"SecurityGroupLimitExceeded", "5 security groups"},
		"a security group that does not exist": {mount(func(in *efs.CreateMountTargetInput) {
			in.SecurityGroups = groups(1)
		}), "SecurityGroupNotFound", noGroup},
		"a security group of another VPC": {mount(func(in *efs.CreateMountTargetInput) {
			in.SecurityGroups = []string{foreign}
		}), "SecurityGroupNotFound", "not in the VPC"},
		"what is no security group": {mount(func(in *efs.CreateMountTargetInput) {
			in.SecurityGroups = []string{"default"}
		}), "SecurityGroupNotFound", "default"},
		"IPv6 alone": {mount(func(in *efs.CreateMountTargetInput) { in.IpAddressType = types.IpAddressTypeIpv6Only }),
			"BadRequest", "DUAL_STACK"},
		"IPv6 in a subnet without": {mount(func(in *efs.CreateMountTargetInput) {
			in.IpAddressType = types.IpAddressTypeDualStack
		}), "BadRequest", "has no IPv6 CIDR block"},
		"an IPv6 address without IPv6": {mount(func(in *efs.CreateMountTargetInput) {
			in.Ipv6Address = aws.String("2001:db8::1")
		}), "BadRequest", "DUAL_STACK alone"},
		"describe mount targets of nothing": {func() error {
			return failed(w.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{}))
		}, "BadRequest", "Give one of"},
		"describe mount targets of two things": {func() error {
			return failed(w.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{FileSystemId: &id,
				MountTargetId: m.MountTargetId}))
		}, "BadRequest", "Give one of"},
		"describe no mount target": {func() error {
			return failed(w.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{
				MountTargetId: aws.String(noMountTarget)}))
		}, "MountTargetNotFound", noMountTarget},
		"describe mount targets of no access point": {func() error {
			return failed(w.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{
				AccessPointId: aws.String(noAccessPoint)}))
		}, "AccessPointNotFound", noAccessPoint},
		"delete no mount target": {func() error {
			return failed(w.DeleteMountTarget(ctx, &efs.DeleteMountTargetInput{MountTargetId: aws.String(noMountTarget)}))
		}, "MountTargetNotFound", noMountTarget},
		"security groups of no mount target": {func() error {
			return failed(w.DescribeMountTargetSecurityGroups(ctx, &efs.DescribeMountTargetSecurityGroupsInput{
				MountTargetId: aws.String(noMountTarget)}))
		}, "MountTargetNotFound", noMountTarget},
		"change to too many security groups": {func() error {
			return failed(w.ModifyMountTargetSecurityGroups(ctx, &efs.ModifyMountTargetSecurityGroupsInput{
				MountTargetId: m.MountTargetId, SecurityGroups: groups(6)}))
		}, "SecurityGroupLimitExceeded", "5 security groups"},
		"change to a security group of another VPC": {func() error {
			return failed(w.ModifyMountTargetSecurityGroups(ctx, &efs.ModifyMountTargetSecurityGroupsInput{
				MountTargetId: m.MountTargetId, SecurityGroups: []string{foreign}}))
		}, "SecurityGroupNotFound", "not in the VPC"},

		"a client token twice": {point(func(in *efs.CreateAccessPointInput) { in.ClientToken = aws.String("taken") }),
			"AccessPointAlreadyExists", "already exists with client token 'taken'"},
		"an access point of nothing": {point(func(in *efs.CreateAccessPointInput) {
			in.FileSystemId = aws.String(noFileSystem)
		}), "FileSystemNotFound", noFileSystem},
		"a path out of the file system": {path("/../etc"), "ValidationException", "at 'rootDirectory.path'"},
		"a path that is not absolute":   {path("home"), "ValidationException", "at 'rootDirectory.path'"},
		"a path with an empty name":     {path("/a//b"), "ValidationException", "at 'rootDirectory.path'"},
		"a path that is too deep":       {path("/a/b/c/d/e"), "ValidationException", "at 'rootDirectory.path'"},
		"a path that is too long": {path("/" + strings.Repeat("a", 100)), "ValidationException",
			"less than or equal to 100"},
		"a user ID below zero": {point(func(in *efs.CreateAccessPointInput) {
			in.PosixUser = &types.PosixUser{Uid: aws.Int64(-1), Gid: aws.Int64(0)}
		}), "ValidationException", "at 'posixUser.uid'"},
		"a group ID that is too large": {point(func(in *efs.CreateAccessPointInput) {
			in.PosixUser = &types.PosixUser{Uid: aws.Int64(1), Gid: aws.Int64(1 << 32)}
		}), "ValidationException", "at 'posixUser.gid'"},
		"a secondary group ID that is too large": {point(func(in *efs.CreateAccessPointInput) {
			in.PosixUser = &types.PosixUser{Uid: aws.Int64(1), Gid: aws.Int64(1), SecondaryGids: []int64{1, 1 << 32}}
		}), "ValidationException", "at 'posixUser.secondaryGids.2.member'"},
		"a user ID that means none": {point(func(in *efs.CreateAccessPointInput) {
			in.PosixUser = &types.PosixUser{Uid: aws.Int64(1<<32 - 2), Gid: aws.Int64(1)}
		}), "BadRequest", "not the ID of a user"},
		"a secondary group ID that means none": {point(func(in *efs.CreateAccessPointInput) {
			in.PosixUser = &types.PosixUser{Uid: aws.Int64(1), Gid: aws.Int64(1), SecondaryGids: []int64{1<<32 - 1}}
		}), "BadRequest", "not the ID of a user"},
		"an owner that means none": {point(func(in *efs.CreateAccessPointInput) {
			in.RootDirectory = &types.RootDirectory{Path: aws.String("/a"), CreationInfo: &types.CreationInfo{
				OwnerUid: aws.Int64(0), OwnerGid: aws.Int64(1<<32 - 1), Permissions: aws.String("755")}}
		}), "BadRequest", "not the ID of a user"},
		"too many secondary groups": {point(func(in *efs.CreateAccessPointInput) {
			in.PosixUser = &types.PosixUser{Uid: aws.Int64(1), Gid: aws.Int64(1), SecondaryGids: make([]int64, 17)}
		}), "ValidationException", "less than or equal to 16"},
		"permissions that are none": {point(func(in *efs.CreateAccessPointInput) {
			in.RootDirectory = &types.RootDirectory{Path: aws.String("/a"), CreationInfo: &types.CreationInfo{
				OwnerUid: aws.Int64(0), OwnerGid: aws.Int64(0), Permissions: aws.String("rwx")}}
		}), "ValidationException", "^[0-7]{3,4}$"},
		"describe access points by two things": {func() error {
			return failed(w.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{FileSystemId: &id,
				AccessPointId: aws.String(noAccessPoint)}))
		}, "BadRequest", "not both"},
		"delete no access point": {func() error {
			return failed(w.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: aws.String(noAccessPoint)}))
		}, "AccessPointNotFound", noAccessPoint},

		"a policy that is no JSON": {policy("x"), "InvalidPolicyException", "Syntax errors"},
		"a policy without statements": {policy(`{"Version":"2012-10-17"}`), "InvalidPolicyException",
			"missing required field Statement"},
		"a policy without principal": {statement(`"Action":"elasticfilesystem:ClientMount"`), "InvalidPolicyException",
			"Missing required field Principal"},
		"a policy for who is not there": {statement(`"Principal":{"AWS":"arn:aws:iam::` + account +
			`:role/nobody"},"Action":"elasticfilesystem:*"`), "InvalidPolicyException", "Principal not found"},
		"a policy about another file system": {statement(`"Principal":"*","Action":"elasticfilesystem:*",
			"Resource":"arn:aws:elasticfilesystem:` + region + `:` + account + `:file-system/` + noFileSystem + `"`),
			"InvalidPolicyException", "and not about"},
		"a policy about all but a resource": {statement(`"Principal":"*","Action":"elasticfilesystem:*","NotResource":"*"`),
			"InvalidPolicyException", "NotResource"},
		"a policy of another service": {statement(`"Principal":"*","Action":"s3:GetObject"`), "InvalidPolicyException",
			"and not s3:GetObject"},
		"a policy that locks its author out": {policy(`{"Version":"2012-10-17","Statement":[{"Effect":"Deny",
			"Principal":"*","Action":"*"}]}`), "InvalidPolicyException", "BypassPolicyLockoutSafetyCheck"},
		"a policy of nothing": {func() error {
			return failed(w.DescribeFileSystemPolicy(ctx, &efs.DescribeFileSystemPolicyInput{FileSystemId: &id}))
		}, "PolicyNotFound", id},

		"two transitions in one": {lifecycle(types.LifecyclePolicy{TransitionToIA: types.TransitionToIARulesAfter7Days,
			TransitionToArchive: types.TransitionToArchiveRulesAfter90Days}), "BadRequest", "has one transition"},
		"no transition": {lifecycle(types.LifecyclePolicy{}), "BadRequest", "has one transition"},
		"a transition twice": {lifecycle(types.LifecyclePolicy{TransitionToIA: types.TransitionToIARulesAfter7Days},
			types.LifecyclePolicy{TransitionToIA: types.TransitionToIARulesAfter14Days}), "BadRequest", "twice"},
		"an archive before the rest": {lifecycle(types.LifecyclePolicy{TransitionToIA: types.TransitionToIARulesAfter90Days},
			types.LifecyclePolicy{TransitionToArchive: types.TransitionToArchiveRulesAfter30Days}), "BadRequest", "later"},
		"a transition that does not exist": {lifecycle(types.LifecyclePolicy{TransitionToIA: "AFTER_2_DAYS"}),
			"ValidationException", "at 'lifecyclePolicies.1.member.transitionToIA'"},
		"a backup that is being enabled": {func() error {
			return failed(w.PutBackupPolicy(ctx, &efs.PutBackupPolicyInput{FileSystemId: &id,
				BackupPolicy: &types.BackupPolicy{Status: types.StatusEnabling}}))
		}, "BadRequest", "ENABLED or DISABLED"},
		"short IDs": {func() error {
			return failed(w.PutAccountPreferences(ctx, &efs.PutAccountPreferencesInput{
				ResourceIdType: types.ResourceIdTypeShortId}))
		}, "BadRequest", "must be LONG_ID"},

		"tag what is not there": {tag(noFileSystem, newTag("x", "")), "FileSystemNotFound", noFileSystem},
		"tag no access point":   {tag(noAccessPoint, newTag("x", "")), "AccessPointNotFound", noAccessPoint},
		"tag what is no resource": {tag("vol-0123456789abcdef0", newTag("x", "")), "ValidationException",
			"at 'resourceId'"},
		"remove a reserved tag": {func() error {
			return failed(w.UntagResource(ctx, &efs.UntagResourceInput{ResourceId: &id, TagKeys: []string{"aws:x"}}))
		}, "ValidationException", "at 'tagKeys.1.member'"},

		"replicate": {func() error {
			return failed(w.CreateReplicationConfiguration(ctx, &efs.CreateReplicationConfigurationInput{
				SourceFileSystemId: &id, Destinations: []types.DestinationToCreate{{Region: aws.String("eu-west-1")}}}))
		}, "BadRequest", "coracle does not replicate file systems"},
		"replicate nothing": {func() error {
			return failed(w.CreateReplicationConfiguration(ctx, &efs.CreateReplicationConfigurationInput{
				SourceFileSystemId: aws.String(noFileSystem),
				Destinations:       []types.DestinationToCreate{{Region: aws.String("eu-west-1")}}}))
		}, "FileSystemNotFound", noFileSystem},
		"delete no replication": {func() error {
			return failed(w.DeleteReplicationConfiguration(ctx, &efs.DeleteReplicationConfigurationInput{
				SourceFileSystemId: &id}))
		}, "ReplicationNotFound", id},
		"describe no replication": {func() error {
			return failed(w.DescribeReplicationConfigurations(ctx, &efs.DescribeReplicationConfigurationsInput{
				FileSystemId: &id}))
		}, "ReplicationNotFound", id},
	} {
		code, message, status := awstest.Failure(c.call())
		if code != c.code || !strings.Contains(message, c.message) {
			t.Errorf("%s: got %s, %q; want %s, %q", name, code, message, c.code, c.message)
		}
		if status < 400 || status >= 500 {
			t.Errorf("%s: got the status %d", name, status)
		}
	}
	if d := cmp.Diff(before, maps.Clone(w.rows())); d != "" {
		t.Errorf("the store has changed: %s", d)
	}
}

// usedAddress returns an address of a subnet that is in use. It is of the network interface that the test has made.
func usedAddress(w *fixture, subnet string) *string {
	out, err := w.ec2.DescribeNetworkInterfaces(w.t.Context(), &ec2.DescribeNetworkInterfacesInput{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range out.NetworkInterfaces {
		if *n.SubnetId == subnet {
			return n.PrivateIpAddress
		}
	}
	w.t.Fatalf("no address of %s is in use", subnet)
	return nil
}
