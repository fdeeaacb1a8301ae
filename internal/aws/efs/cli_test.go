package efs_test

import (
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/test/awsclient"
)

// The unmodified aws CLI makes a file system, as the guide of EKS has it, and takes it away.
func TestCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	cli := awsclient.NewCLI(t, w.URL, region, "efs")
	cli.SignAs(w.Root.AccessKeyID, w.Root.SecretAccessKey)
	must := func(args ...string) string { t.Helper(); return cli.Run(nil, args...) }
	id := must("create-file-system", "--performance-mode", "generalPurpose", "--tags", "Key=Name,Value=shared",
		"--query", "FileSystemId", "--output", "text")
	w.await(id, "available")
	target := must("create-mount-target", "--file-system-id", id, "--subnet-id", w.subnet("a"), "--query",
		"MountTargetId", "--output", "text")
	if zone := must("describe-mount-targets", "--file-system-id", id, "--query", "MountTargets[*].AvailabilityZoneName",
		"--output", "text"); zone != region+"a" {
		t.Errorf("the mount target is in %q", zone)
	}
	point := must("create-access-point", "--file-system-id", id, "--posix-user", "Uid=1000,Gid=1000", "--root-directory",
		"Path=/data,CreationInfo={OwnerUid=1000,OwnerGid=1000,Permissions=755}", "--query", "AccessPointId", "--output",
		"text")
	shown := must("describe-access-points", "--file-system-id", id, "--query",
		"AccessPoints[].[AccessPointId,RootDirectory.CreationInfo.Permissions]", "--output", "text")
	if shown != point+"\t755" {
		t.Errorf("the access point is shown as %q", shown)
	}
	must("tag-resource", "--resource-id", point, "--tags", "Key=a,Value=b")
	must("untag-resource", "--resource-id", point, "--tag-keys", "a")
	cli.Refused("FileSystemInUse", "DeleteFileSystem operation: The file system '"+id+"' has mount targets",
		"delete-file-system", "--file-system-id", id)
	cli.Refused("PolicyNotFound", "DescribeFileSystemPolicy operation", "describe-file-system-policy",
		"--file-system-id", id)
	must("delete-mount-target", "--mount-target-id", target)
	w.gone(strings.TrimSpace(target))
	must("delete-file-system", "--file-system-id", id)
}
