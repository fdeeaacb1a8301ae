package efs_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsefs "github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	service "github.com/coracle-eks/coracle/internal/aws/efs"
	kmsservice "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/filesystem"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/efs"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource/resourcetest"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// around is what the resources of the tests are made of.
type around struct{ fileSystem, subnet, address, group, otherGroup, key string }

// newStack returns a stack with what its resources are made of, and the controller of file systems at work.
func newStack(t *testing.T) (*resourcetest.Stack, around) {
	t.Helper()
	var rows *store.Store
	var lifecycle service.Lifecycle
	s := resourcetest.New(t, efs.Types, func(mux *wire.Mux, s *store.Store) {
		rows = s
		keys := kmsservice.New(kmsservice.Options{Store: s})
		keys.Register(mux)
		machines := ec2service.New(ec2service.Options{Store: s, Keys: keys})
		machines.Register(mux)
		files := service.New(service.Options{Store: s, EC2: machines.NetworkInterfaces.Records, Keys: keys})
		files.Register(mux)
		lifecycle = service.NewLifecycle(files)
	})
	controller := filesystem.New(filesystem.Options{Store: rows, EFS: lifecycle, Dir: datadir.Dir(t.TempDir())})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), controller.Controllers()...) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.Controllers = func() {
		t.Helper()
		eventually.Nil(t, "the controller has nothing to do", func() error { return atRest(ctx, rows) })
	}
	return s, surround(t, s)
}

// atRest reports what the controller has not finished yet.
func atRest(ctx context.Context, s *store.Store) error {
	files, err := record.FileSystems(s).List(ctx, "")
	if err != nil {
		return err
	}
	for _, row := range files {
		content, _ := record.FileSystemContents(s).Get(ctx, row.Key)
		if state := row.Value.State(content.Value); state != types.LifeCycleStateAvailable {
			return fmt.Errorf("%s is %s", row.Value.ID, state)
		}
	}
	targets, err := record.MountTargets(s).List(ctx, "")
	if err != nil {
		return err
	}
	for _, row := range targets {
		status, _ := record.MountTargetStatuses(s).Get(ctx, row.Key)
		if state := row.Value.State(status.Value); state != types.LifeCycleStateAvailable {
			return fmt.Errorf("%s is %s", row.Value.ID, state)
		}
	}
	return nil
}

// surround makes what the resources of a stack are made of.
func surround(t *testing.T, s *resourcetest.Stack) (a around) {
	t.Helper()
	ctx, machines := t.Context(), awsec2.NewFromConfig(s.Config)
	subnets := awstest.Must[*awsec2.DescribeSubnetsOutput](t)(machines.DescribeSubnets(ctx,
		&awsec2.DescribeSubnetsInput{}))
	subnet := subnets.Subnets[0]
	a.subnet = *subnet.SubnetId
	address := netip.MustParsePrefix(*subnet.CidrBlock).Addr()
	for range 100 {
		address = address.Next()
	}
	a.address = address.String()
	for _, group := range []*string{&a.group, &a.otherGroup} {
		out := awstest.Must[*awsec2.CreateSecurityGroupOutput](t)(machines.CreateSecurityGroup(ctx,
			&awsec2.CreateSecurityGroupInput{GroupName: new(fmt.Sprintf("nfs%p", group)), Description: new("nfs"),
				VpcId: subnet.VpcId}))
		*group = *out.GroupId
	}
	key := awstest.Must[*awskms.CreateKeyOutput](t)(awskms.NewFromConfig(s.Config).CreateKey(ctx,
		&awskms.CreateKeyInput{}))
	a.key = *key.KeyMetadata.Arn
	out := awstest.Must[*awsefs.CreateFileSystemOutput](t)(awsefs.NewFromConfig(s.Config).CreateFileSystem(ctx,
		&awsefs.CreateFileSystemInput{CreationToken: new("around")}))
	a.fileSystem = *out.FileSystemId
	s.Controllers()
	return a
}

const (
	policy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"},
		"Action": "elasticfilesystem:ClientMount", "Resource": "*"}]}`
	wider = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"},
		"Action": "elasticfilesystem:*", "Resource": "*"}]}`
)

func lives(a around) map[string]resourcetest.Life {
	const arn = "arn:aws:elasticfilesystem:" + awstest.Region + ":" + awstest.Account + ":"
	return map[string]resourcetest.Life{
		"file system": {
			Type: "AWS::EFS::FileSystem",
			Properties: `{"Encrypted": true, "KmsKeyId": "` + a.key + `", "PerformanceMode": "generalPurpose",
				"ThroughputMode": "provisioned", "ProvisionedThroughputInMibps": 100, "FileSystemPolicy": ` + policy + `,
				"LifecyclePolicies": [{"TransitionToIA": "AFTER_30_DAYS"}], "BackupPolicy": {"Status": "ENABLED"},
				"FileSystemProtection": {"ReplicationOverwriteProtection": "DISABLED"},
				"FileSystemTags": [{"Key": "a", "Value": "b"}]}`,
			Updates: []string{
				`{"ProvisionedThroughputInMibps": 200, "FileSystemPolicy": ` + wider + `,
				"BypassPolicyLockoutSafetyCheck": true, "BackupPolicy": {"Status": "DISABLED"},
				"LifecyclePolicies": [{"TransitionToIA": "AFTER_7_DAYS"}, {"TransitionToPrimaryStorageClass": "AFTER_1_ACCESS"}]}`,
				`{"FileSystemPolicy": null, "LifecyclePolicies": null, "FileSystemTags": null, "FileSystemProtection": null}`,
			},
			Hidden:     []string{"BypassPolicyLockoutSafetyCheck"},
			Attributes: map[string]string{"Arn": arn + "file-system/fs-*", "FileSystemId": "fs-*"},
		},
		"file system of one zone": {
			Type: "AWS::EFS::FileSystem", Properties: `{"AvailabilityZoneName": "` + awstest.Region + `a"}`,
		},
		"mount target": {
			Type: "AWS::EFS::MountTarget",
			Properties: `{"FileSystemId": "` + a.fileSystem + `", "SubnetId": "` + a.subnet + `", "IpAddress": "` + a.address +
				`", "IpAddressType": "IPV4_ONLY", "SecurityGroups": ["` + a.group + `"]}`,
			Updates:    []string{`{"SecurityGroups": ["` + a.group + `", "` + a.otherGroup + `"]}`},
			Hidden:     []string{"IpAddressType"},
			Attributes: map[string]string{"Id": "fsmt-*", "IpAddress": a.address},
		},
		"access point": {
			Type: "AWS::EFS::AccessPoint",
			Properties: `{"FileSystemId": "` + a.fileSystem + `", "PosixUser": {"Uid": "1001", "Gid": "1002",
				"SecondaryGids": ["5"]}, "RootDirectory": {"Path": "/data", "CreationInfo": {"OwnerUid": "1001",
				"OwnerGid": "1002", "Permissions": "0755"}}, "AccessPointTags": [{"Key": "a", "Value": "b"}]}`,
			Updates:    []string{`{"AccessPointTags": [{"Key": "a", "Value": "c"}]}`, `{"AccessPointTags": null}`},
			Attributes: map[string]string{"Arn": arn + "access-point/fsap-*", "AccessPointId": "fsap-*"},
		},
		"access point with a client token": {
			Type: "AWS::EFS::AccessPoint", Hidden: []string{"ClientToken"},
			Properties: `{"FileSystemId": "` + a.fileSystem + `", "ClientToken": "Own"}`,
		},
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	resourcetest.CheckSchema(t, efs.Types, slices.Collect(maps.Values(lives(around{}))), map[string][]string{
		"AWS::EFS::MountTarget": {"Ipv6Address"}, // the default subnets have no IPv6
	})
}

func TestLives(t *testing.T) {
	t.Parallel()
	for name := range lives(around{}) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s, a := newStack(t)
			s.Run(lives(a)[name])
		})
	}
}
