package efs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	efsservice "github.com/coracle-eks/coracle/internal/aws/efs"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	kmsservice "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/controller/filesystem"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = iamtest.Account
	region  = iamtest.Region
)

// fixture is EFS with EC2, KMS and IAM behind the real wire, its controller, and clients of the root user.
type fixture struct {
	*iamtest.AWS
	*efs.Client
	t       testing.TB
	service *efsservice.Service
	ec2     *ec2.Client
	dir     datadir.Dir
	later   atomic.Int64 // how much later it is for EFS, in nanoseconds
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{AWS: iamtest.New(t), t: t, dir: datadir.Dir(t.TempDir())}
	now := func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) }
	keys := kmsservice.New(kmsservice.Options{Store: w.Store})
	keys.Register(w.Mux)
	machines := ec2service.New(ec2service.Options{Store: w.Store, Keys: keys})
	machines.Register(w.Mux)
	w.service = efsservice.New(efsservice.Options{Store: w.Store, Identity: w.Identity,
		EC2: machines.NetworkInterfaces.Records, Keys: keys, Now: now})
	w.service.Register(w.Mux)
	w.Client = w.efs(w.Root)
	w.ec2 = ec2.New(ec2.Options{Region: region, BaseEndpoint: aws.String(w.URL), HTTPClient: awsclient.HTTP(),
		RetryMaxAttempts: 1, Credentials: credentials.StaticCredentialsProvider{Value: w.Root}})
	controller := filesystem.New(filesystem.Options{Store: w.Store, EFS: efsservice.NewLifecycle(w.service), Dir: w.dir,
		Now: now})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), controller.Controllers()...) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// efs returns a client with those credentials.
func (w *fixture) efs(with aws.Credentials) *efs.Client {
	return efs.New(efs.Options{Region: region, BaseEndpoint: aws.String(w.URL), HTTPClient: awsclient.HTTP(),
		RetryMaxAttempts: 1, Credentials: credentials.StaticCredentialsProvider{Value: with}})
}

func (w *fixture) kms() *kms.Client {
	return kms.New(kms.Options{Region: region, BaseEndpoint: aws.String(w.URL), HTTPClient: awsclient.HTTP(),
		RetryMaxAttempts: 1, Credentials: credentials.StaticCredentialsProvider{Value: w.Root}})
}

// fileSystem makes a file system that is available.
func (w *fixture) fileSystem(edits ...func(*efs.CreateFileSystemInput)) string {
	w.t.Helper()
	in := &efs.CreateFileSystemInput{}
	for _, edit := range edits {
		edit(in)
	}
	out := awstest.Must[*efs.CreateFileSystemOutput](w.t)(w.CreateFileSystem(w.t.Context(), in))
	w.await(*out.FileSystemId, types.LifeCycleStateAvailable)
	return *out.FileSystemId
}

func (w *fixture) describe(id string) types.FileSystemDescription {
	w.t.Helper()
	out := awstest.Must[*efs.DescribeFileSystemsOutput](w.t)(w.DescribeFileSystems(w.t.Context(),
		&efs.DescribeFileSystemsInput{FileSystemId: &id}))
	return out.FileSystems[0]
}

// await waits until a file system has a state.
func (w *fixture) await(id string, state types.LifeCycleState) {
	w.t.Helper()
	eventually.Nil(w.t, "the file system is "+string(state), func() error {
		if got := w.describe(id).LifeCycleState; got != state {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// subnet returns the ID of the default subnet of a zone, such as "a".
func (w *fixture) subnet(zone string) string {
	w.t.Helper()
	out := awstest.Must[*ec2.DescribeSubnetsOutput](w.t)(w.ec2.DescribeSubnets(w.t.Context(), &ec2.DescribeSubnetsInput{}))
	for _, s := range out.Subnets {
		if strings.HasSuffix(*s.AvailabilityZone, zone) && *s.DefaultForAz {
			return *s.SubnetId
		}
	}
	w.t.Fatalf("no subnet in zone %s", zone)
	return ""
}

// mountTarget makes a mount target that is available.
func (w *fixture) mountTarget(fileSystem, zone string) types.MountTargetDescription {
	w.t.Helper()
	out := awstest.Must[*efs.CreateMountTargetOutput](w.t)(w.CreateMountTarget(w.t.Context(),
		&efs.CreateMountTargetInput{FileSystemId: &fileSystem, SubnetId: aws.String(w.subnet(zone))}))
	var m types.MountTargetDescription
	eventually.Nil(w.t, "the mount target is available", func() error {
		all := awstest.Must[*efs.DescribeMountTargetsOutput](w.t)(w.DescribeMountTargets(w.t.Context(),
			&efs.DescribeMountTargetsInput{MountTargetId: out.MountTargetId}))
		if m = all.MountTargets[0]; m.LifeCycleState != types.LifeCycleStateAvailable {
			return fmt.Errorf("it is %s", m.LifeCycleState)
		}
		return nil
	})
	return m
}

// gone waits until a mount target does not exist.
func (w *fixture) gone(mountTarget string) {
	w.t.Helper()
	eventually.Nil(w.t, "the mount target has gone", func() error {
		_, err := w.DescribeMountTargets(w.t.Context(), &efs.DescribeMountTargetsInput{MountTargetId: &mountTarget})
		if code := awstest.Code(err); code != "MountTargetNotFound" {
			return fmt.Errorf("got %s", code)
		}
		return nil
	})
}

// accessPoint makes an access point.
func (w *fixture) accessPoint(fileSystem string) *efs.CreateAccessPointOutput {
	w.t.Helper()
	return awstest.Must[*efs.CreateAccessPointOutput](w.t)(w.CreateAccessPoint(w.t.Context(),
		&efs.CreateAccessPointInput{FileSystemId: &fileSystem}))
}

// rows returns all that the store has, but what controllers write by themselves.
func (w *fixture) rows() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for key, value := range storetest.Rows(w.t, w.Prefix) {
		if !strings.Contains(key, "filesystemcontents") && !strings.Contains(key, "mounttargetstatuses") &&
			!strings.Contains(key, "uses/") && !strings.Contains(key, "accesskeyuses") {
			all[key] = fmt.Sprint(value)
		}
	}
	return all
}

func failed[T any](_ T, err error) error { return err }

// attach gives a user a managed policy.
func (w *fixture) attach(t *testing.T, user, arn string) {
	t.Helper()
	awstest.Must[*iam.AttachUserPolicyOutput](t)(w.IAM(w.Root).AttachUserPolicy(t.Context(),
		&iam.AttachUserPolicyInput{UserName: &user, PolicyArn: &arn}))
}
