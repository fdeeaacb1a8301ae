package efs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/eventually"
)

func TestAFileSystemFromCreationToDeletion(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	created := awstest.Must[*efs.CreateFileSystemOutput](t)(w.CreateFileSystem(ctx, &efs.CreateFileSystemInput{
		CreationToken: aws.String("shared"), Encrypted: aws.Bool(true), ThroughputMode: types.ThroughputModeElastic,
		Backup: aws.Bool(true), Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("home")}},
	}))
	id := *created.FileSystemId
	if !strings.HasPrefix(id, "fs-0") || len(id) != 20 || created.LifeCycleState != types.LifeCycleStateCreating {
		t.Errorf("created %s in state %s", id, created.LifeCycleState)
	}
	w.await(id, types.LifeCycleStateAvailable)
	got := w.describe(id)
	if *got.Name != "home" || *got.FileSystemArn != "arn:aws:elasticfilesystem:"+region+":"+account+":file-system/"+id ||
		got.PerformanceMode != types.PerformanceModeGeneralPurpose || !*got.Encrypted ||
		!strings.HasPrefix(*got.KmsKeyId, "arn:aws:kms:"+region+":"+account+":key/") || *got.OwnerId != account ||
		got.FileSystemProtection.ReplicationOverwriteProtection != types.ReplicationOverwriteProtectionEnabled {
		t.Errorf("it is %+v", got)
	}
	root := w.dir.FileSystemRoot(id)
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its root directory: %v, %v", info, err)
	}
	// The same token creates no other file system, and the error tells which one it has created.
	_, err := w.CreateFileSystem(ctx, &efs.CreateFileSystemInput{CreationToken: aws.String("shared")})
	var exists *types.FileSystemAlreadyExists
	if !errors.As(err, &exists) || aws.ToString(exists.FileSystemId) != id ||
		aws.ToString(exists.ErrorCode_) != "FileSystemAlreadyExists" {
		t.Errorf("again: %v", err)
	}
	found := awstest.Must[*efs.DescribeFileSystemsOutput](t)(w.DescribeFileSystems(ctx,
		&efs.DescribeFileSystemsInput{CreationToken: aws.String("shared")}))
	if len(found.FileSystems) != 1 || *found.FileSystems[0].FileSystemId != id {
		t.Errorf("by its token there are %v", found.FileSystems)
	}

	m := w.mountTarget(id, "a")
	if n := w.describe(id).NumberOfMountTargets; n != 1 {
		t.Errorf("it has %d mount targets", n)
	}
	awstest.WantCode(t, failed(w.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id})), "FileSystemInUse")
	point := w.accessPoint(id)
	awstest.Must[*efs.DeleteMountTargetOutput](t)(w.DeleteMountTarget(ctx,
		&efs.DeleteMountTargetInput{MountTargetId: m.MountTargetId}))
	w.gone(*m.MountTargetId)
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	awstest.Must[*efs.DeleteFileSystemOutput](t)(w.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id}))
	eventually.True(t, "the file system has gone", func() bool {
		_, err := w.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id})
		return awstest.Code(err) == "FileSystemNotFound"
	})
	if left, _ := os.ReadDir(w.dir.FileSystemsDir()); len(left) > 0 {
		t.Errorf("left on the disk: %v", left)
	}
	awstest.WantCode(t, failed(w.DescribeAccessPoints(ctx,
		&efs.DescribeAccessPointsInput{AccessPointId: point.AccessPointId})), "AccessPointNotFound")
	for key := range w.rows() {
		for _, table := range []string{"filesystem", "mounttarget", "accesspoints"} {
			if strings.HasPrefix(key, table) {
				t.Errorf("left in the store: %s", key)
			}
		}
	}
	// Its token is free again.
	w.fileSystem(func(in *efs.CreateFileSystemInput) { in.CreationToken = aws.String("shared") })
}

func TestTheSizeIsMeasured(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.fileSystem()
	eventually.True(t, "the size is measured", func() bool { return w.describe(id).SizeInBytes.Timestamp != nil })
	if size := w.describe(id).SizeInBytes; size.Value != 0 || *size.ValueInStandard != 0 {
		t.Errorf("an empty file system has %+v", size)
	}
}

func TestContentThatIsMissingIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.fileSystem()
	kept := w.dir.FileSystemRoot(id) + "-moved"
	if err := os.Rename(w.dir.FileSystemRoot(id), kept); err != nil {
		t.Fatal(err)
	}
	// Something has the controller look.
	awstest.Must[*efs.TagResourceOutput](t)(w.TagResource(t.Context(), &efs.TagResourceInput{ResourceId: &id,
		Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))
	w.await(id, types.LifeCycleStateError)
	if _, err := os.Stat(w.dir.FileSystemRoot(id)); err == nil {
		t.Error("it was made again, empty")
	}
	awstest.WantCode(t, failed(w.CreateAccessPoint(t.Context(), &efs.CreateAccessPointInput{FileSystemId: &id})),
		"IncorrectFileSystemLifeCycleState")
	if err := os.Rename(kept, w.dir.FileSystemRoot(id)); err != nil {
		t.Fatal(err)
	}
	awstest.Must[*efs.UntagResourceOutput](t)(w.UntagResource(t.Context(), &efs.UntagResourceInput{ResourceId: &id,
		TagKeys: []string{"a"}}))
	w.await(id, types.LifeCycleStateAvailable)
}

func TestMountTargets(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.fileSystem()
	a, b := w.mountTarget(id, "a"), w.mountTarget(id, "b")
	if *a.AvailabilityZoneName != region+"a" || aws.ToString(a.AvailabilityZoneId) == "" || *a.VpcId != *b.VpcId {
		t.Errorf("the mount target is %+v", a)
	}
	out := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.ec2.DescribeNetworkInterfaces(ctx,
		&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*a.NetworkInterfaceId}}))
	eni := out.NetworkInterfaces[0]
	if want := "EFS mount target for " + id + " (" + *a.MountTargetId + ")"; *eni.Description != want ||
		!*eni.RequesterManaged || *eni.PrivateIpAddress != *a.IpAddress || eni.Attachment == nil {
		t.Errorf("its network interface is %+v", eni)
	}
	// Nobody but EFS deletes it.
	awstest.WantCode(t, failed(w.ec2.DeleteNetworkInterface(ctx,
		&ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: eni.NetworkInterfaceId})), "AuthFailure")
	groups := awstest.Must[*efs.DescribeMountTargetSecurityGroupsOutput](t)(w.DescribeMountTargetSecurityGroups(ctx,
		&efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: a.MountTargetId}))
	if len(groups.SecurityGroups) != 1 || groups.SecurityGroups[0] != *eni.Groups[0].GroupId {
		t.Errorf("it has the groups %v", groups.SecurityGroups)
	}
	group := awstest.Must[*ec2.CreateSecurityGroupOutput](t)(w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("nfs"), Description: aws.String("nfs"), VpcId: a.VpcId}))
	awstest.Must[*efs.ModifyMountTargetSecurityGroupsOutput](t)(w.ModifyMountTargetSecurityGroups(ctx,
		&efs.ModifyMountTargetSecurityGroupsInput{MountTargetId: a.MountTargetId,
			SecurityGroups: []string{*group.GroupId}}))
	groups = awstest.Must[*efs.DescribeMountTargetSecurityGroupsOutput](t)(w.DescribeMountTargetSecurityGroups(ctx,
		&efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: a.MountTargetId}))
	if !slices.Equal(groups.SecurityGroups, []string{*group.GroupId}) {
		t.Errorf("it has the groups %v", groups.SecurityGroups)
	}
	awstest.WantCode(t, failed(w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: group.GroupId})),
		"DependencyViolation")

	point := w.accessPoint(id)
	page := awstest.Must[*efs.DescribeMountTargetsOutput](t)(w.DescribeMountTargets(ctx,
		&efs.DescribeMountTargetsInput{AccessPointId: point.AccessPointId, MaxItems: aws.Int32(1)}))
	rest := awstest.Must[*efs.DescribeMountTargetsOutput](t)(w.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{
		AccessPointId: point.AccessPointId, MaxItems: aws.Int32(1), Marker: page.NextMarker}))
	ids := []string{*page.MountTargets[0].MountTargetId, *rest.MountTargets[0].MountTargetId}
	if want := []string{*a.MountTargetId, *b.MountTargetId}; rest.NextMarker != nil || !slices.Equal(slices.Sorted(
		slices.Values(ids)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the pages have %v, want %v", ids, want)
	}

	address := *a.IpAddress
	awstest.Must[*efs.DeleteMountTargetOutput](t)(w.DeleteMountTarget(ctx,
		&efs.DeleteMountTargetInput{MountTargetId: a.MountTargetId}))
	w.gone(*a.MountTargetId)
	awstest.WantCode(t, failed(w.ec2.DescribeNetworkInterfaces(ctx,
		&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*a.NetworkInterfaceId}})),
		"InvalidNetworkInterfaceID.NotFound")
	again := awstest.Must[*efs.CreateMountTargetOutput](t)(w.CreateMountTarget(ctx, &efs.CreateMountTargetInput{
		FileSystemId: &id, SubnetId: a.SubnetId, IpAddress: &address, SecurityGroups: []string{*group.GroupId}}))
	if *again.IpAddress != address {
		t.Errorf("it has the address %s", *again.IpAddress)
	}
}

// Of two requests that come at once for one zone, one makes a mount target.
func TestMountTargetsAtOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id, subnet := w.fileSystem(), w.subnet("a")
	const requests = 8
	answers := make(chan error, requests)
	for range requests {
		go func() {
			answers <- failed(w.CreateMountTarget(t.Context(), &efs.CreateMountTargetInput{FileSystemId: &id,
				SubnetId: &subnet}))
		}()
	}
	made := 0
	for range requests {
		switch err := <-answers; {
		case err == nil:
			made++
		default:
			awstest.WantCode(t, err, "MountTargetConflict")
		}
	}
	out := awstest.Must[*ec2.DescribeNetworkInterfacesOutput](t)(w.ec2.DescribeNetworkInterfaces(t.Context(),
		&ec2.DescribeNetworkInterfacesInput{}))
	if made != 1 || len(out.NetworkInterfaces) != 1 {
		t.Errorf("%d mount targets were made, and there are %d network interfaces", made, len(out.NetworkInterfaces))
	}
}

func TestAccessPoints(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.fileSystem()
	created := awstest.Must[*efs.CreateAccessPointOutput](t)(w.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{
		FileSystemId: aws.String("arn:aws:elasticfilesystem:" + region + ":" + account + ":file-system/" + id),
		ClientToken:  aws.String("pvc-1"),
		PosixUser:    &types.PosixUser{Uid: aws.Int64(1001), Gid: aws.Int64(4294967293), SecondaryGids: []int64{5}},
		RootDirectory: &types.RootDirectory{Path: aws.String("/pvc-1"), CreationInfo: &types.CreationInfo{
			OwnerUid: aws.Int64(1001), OwnerGid: aws.Int64(1002), Permissions: aws.String("700")}},
		Tags: []types.Tag{{Key: aws.String("efs.csi.aws.com/cluster"), Value: aws.String("true")}},
	}))
	_, err := w.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{FileSystemId: &id, ClientToken: aws.String("pvc-1")})
	var exists *types.AccessPointAlreadyExists
	if !errors.As(err, &exists) || aws.ToString(exists.AccessPointId) != *created.AccessPointId {
		t.Errorf("again: %v", err)
	}
	out := awstest.Must[*efs.DescribeAccessPointsOutput](t)(w.DescribeAccessPoints(ctx,
		&efs.DescribeAccessPointsInput{FileSystemId: &id, MaxResults: aws.Int32(10000)}))
	got := out.AccessPoints[0]
	if len(out.AccessPoints) != 1 || *got.ClientToken != "pvc-1" || *got.RootDirectory.Path != "/pvc-1" ||
		*got.RootDirectory.CreationInfo.Permissions != "700" || *got.PosixUser.Gid != 4294967293 ||
		got.LifeCycleState != types.LifeCycleStateAvailable || *got.FileSystemId != id {
		t.Errorf("it is %+v", got)
	}
	awstest.Must[*efs.DeleteAccessPointOutput](t)(w.DeleteAccessPoint(ctx,
		&efs.DeleteAccessPointInput{AccessPointId: created.AccessPointId}))
	awstest.Must[*efs.CreateAccessPointOutput](t)(w.CreateAccessPoint(ctx,
		&efs.CreateAccessPointInput{FileSystemId: &id, ClientToken: aws.String("pvc-1")}))
}

// Page tokens are not longer than the API lets them be.
func TestPagesOfAccessPointsAndTags(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.fileSystem(func(in *efs.CreateFileSystemInput) {
		for _, key := range []string{"a", "b", strings.Repeat("c", 128)} {
			in.Tags = append(in.Tags, types.Tag{Key: aws.String(key), Value: aws.String(key)})
		}
	})
	want := map[string]bool{}
	for range 3 {
		want[*w.accessPoint(id).AccessPointId] = true
	}
	pages := efs.NewDescribeAccessPointsPaginator(w, &efs.DescribeAccessPointsInput{FileSystemId: &id,
		MaxResults: aws.Int32(1)})
	for n := 0; pages.HasMorePages(); n++ {
		page := awstest.Must[*efs.DescribeAccessPointsOutput](t)(pages.NextPage(ctx))
		for _, a := range page.AccessPoints {
			delete(want, *a.AccessPointId)
		}
	}
	if len(want) > 0 {
		t.Errorf("no page has %v", want)
	}
	tags := efs.NewListTagsForResourcePaginator(w, &efs.ListTagsForResourceInput{ResourceId: &id,
		MaxResults: aws.Int32(1)})
	var keys []string
	for tags.HasMorePages() {
		page := awstest.Must[*efs.ListTagsForResourceOutput](t)(tags.NextPage(ctx))
		for _, tag := range page.Tags {
			keys = append(keys, *tag.Key)
		}
	}
	if !slices.Equal(keys, []string{"a", "b", strings.Repeat("c", 128)}) {
		t.Errorf("the tags are %v", keys)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.fileSystem(func(in *efs.CreateFileSystemInput) { in.AvailabilityZoneName = aws.String(region + "a") })
	if got := w.describe(id); *got.AvailabilityZoneName != region+"a" || *got.AvailabilityZoneId == "" {
		t.Errorf("it is %+v", got)
	}
	backup := awstest.Must[*efs.DescribeBackupPolicyOutput](t)(w.DescribeBackupPolicy(ctx,
		&efs.DescribeBackupPolicyInput{FileSystemId: &id}))
	if backup.BackupPolicy.Status != types.StatusEnabled { // as One Zone file systems have it
		t.Errorf("backup is %s", backup.BackupPolicy.Status)
	}
	awstest.Must[*efs.PutBackupPolicyOutput](t)(w.PutBackupPolicy(ctx, &efs.PutBackupPolicyInput{FileSystemId: &id,
		BackupPolicy: &types.BackupPolicy{Status: types.StatusDisabled}}))
	awstest.Must[*efs.PutLifecycleConfigurationOutput](t)(w.PutLifecycleConfiguration(ctx,
		&efs.PutLifecycleConfigurationInput{FileSystemId: &id, LifecyclePolicies: []types.LifecyclePolicy{
			{TransitionToIA: types.TransitionToIARulesAfter30Days},
			{TransitionToPrimaryStorageClass: types.TransitionToPrimaryStorageClassRulesAfter1Access}}}))
	lifecycle := awstest.Must[*efs.DescribeLifecycleConfigurationOutput](t)(w.DescribeLifecycleConfiguration(ctx,
		&efs.DescribeLifecycleConfigurationInput{FileSystemId: &id}))
	if len(lifecycle.LifecyclePolicies) != 2 {
		t.Errorf("the policies are %v", lifecycle.LifecyclePolicies)
	}
	protection := awstest.Must[*efs.UpdateFileSystemProtectionOutput](t)(w.UpdateFileSystemProtection(ctx,
		&efs.UpdateFileSystemProtectionInput{FileSystemId: &id,
			ReplicationOverwriteProtection: types.ReplicationOverwriteProtectionDisabled}))
	if protection.ReplicationOverwriteProtection != types.ReplicationOverwriteProtectionDisabled {
		t.Errorf("protection is %s", protection.ReplicationOverwriteProtection)
	}
	update := func(mode types.ThroughputMode, throughput *float64) error {
		return failed(w.UpdateFileSystem(ctx, &efs.UpdateFileSystemInput{FileSystemId: &id, ThroughputMode: mode,
			ProvisionedThroughputInMibps: throughput}))
	}
	if err := update(types.ThroughputModeProvisioned, aws.Float64(100.5)); err != nil {
		t.Error(err)
	}
	if err := update("", aws.Float64(200)); err != nil { // more is always possible
		t.Error(err)
	}
	awstest.WantCode(t, update("", aws.Float64(150)), "TooManyRequests")
	awstest.WantCode(t, update(types.ThroughputModeBursting, nil), "TooManyRequests")
	w.later.Store(int64(24 * time.Hour))
	if err := update(types.ThroughputModeElastic, nil); err != nil {
		t.Error(err)
	}
	if got := w.describe(id); got.ThroughputMode != types.ThroughputModeElastic ||
		got.ProvisionedThroughputInMibps != nil {
		t.Errorf("throughput is %s, %v", got.ThroughputMode, got.ProvisionedThroughputInMibps)
	}
	preferences := awstest.Must[*efs.PutAccountPreferencesOutput](t)(w.PutAccountPreferences(ctx,
		&efs.PutAccountPreferencesInput{ResourceIdType: types.ResourceIdTypeLongId}))
	if preferences.ResourceIdPreference.ResourceIdType != types.ResourceIdTypeLongId {
		t.Errorf("preferences are %+v", preferences.ResourceIdPreference)
	}
	replications := awstest.Must[*efs.DescribeReplicationConfigurationsOutput](t)(w.DescribeReplicationConfigurations(ctx,
		&efs.DescribeReplicationConfigurationsInput{}))
	if len(replications.Replications) != 0 {
		t.Errorf("there are replications: %v", replications.Replications)
	}
	// The old operations on tags are those of file systems.
	awstest.Must[*efs.CreateTagsOutput](t)(w.CreateTags(ctx, //nolint:staticcheck // old
		&efs.CreateTagsInput{FileSystemId: &id, Tags: []types.Tag{
			{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")}}}))
	awstest.Must[*efs.DeleteTagsOutput](t)(w.DeleteTags(ctx, //nolint:staticcheck // old
		&efs.DeleteTagsInput{FileSystemId: &id, TagKeys: []string{"a"}}))
	tags := awstest.Must[*efs.DescribeTagsOutput](t)(w.DescribeTags(ctx, //nolint:staticcheck // old
		&efs.DescribeTagsInput{FileSystemId: &id}))
	if len(tags.Tags) != 1 || *tags.Tags[0].Key != "b" {
		t.Errorf("the tags are %v", tags.Tags)
	}
}

func TestAKeyThatIsNotEnabled(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	key := awstest.Must[*kms.CreateKeyOutput](t)(w.kms().CreateKey(t.Context(), &kms.CreateKeyInput{}))
	awstest.Must[*kms.DisableKeyOutput](t)(w.kms().DisableKey(t.Context(),
		&kms.DisableKeyInput{KeyId: key.KeyMetadata.KeyId}))
	_, err := w.CreateFileSystem(t.Context(), &efs.CreateFileSystemInput{Encrypted: aws.Bool(true),
		KmsKeyId: key.KeyMetadata.KeyId})
	if code, message, _ := awstest.Failure(err); code != "BadRequest" || !strings.Contains(message, "disabled") {
		t.Errorf("got %v", err)
	}
}
