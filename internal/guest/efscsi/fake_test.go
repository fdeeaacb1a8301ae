//go:build linux

package efscsi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/smithy-go"
)

const fileSystem = "fs-0123456789abcdef0"

// fakeEFS has one file system, with access points in memory and two mount targets.
type fakeEFS struct {
	mu     sync.Mutex
	last   int
	points []types.AccessPointDescription
	calls  []string // of what changes something
	// denied are actions that the role may not do; guarded lets it delete only what is there, as a condition on tags.
	denied  []string
	guarded bool
	zone    string // of the file system, if it is in one
	page    int    // access points in an answer; 0: all
}

func refuse(code string) error {
	return &smithy.GenericAPIError{Code: code, Message: "refused by the test"}
}

func (f *fakeEFS) begin(action string, fileSystemID *string) error {
	if slices.Contains(f.denied, action) {
		return refuse("AccessDeniedException")
	}
	if fileSystemID != nil && *fileSystemID != fileSystem {
		return refuse("FileSystemNotFound")
	}
	return nil
}

func (f *fakeEFS) CreateAccessPoint(_ context.Context, in *efs.CreateAccessPointInput, _ ...func(*efs.Options)) (
	*efs.CreateAccessPointOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("CreateAccessPoint", in.FileSystemId); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(f.points, func(p types.AccessPointDescription) bool {
		return *p.ClientToken == *in.ClientToken
	}) {
		return nil, refuse("AccessPointAlreadyExists")
	}
	f.last++
	p := types.AccessPointDescription{AccessPointId: aws.String(fmt.Sprintf("fsap-%017x", f.last)),
		ClientToken: in.ClientToken, FileSystemId: in.FileSystemId, PosixUser: in.PosixUser,
		RootDirectory: in.RootDirectory, Tags: in.Tags}
	f.points = append(f.points, p)
	f.calls = append(f.calls, "create "+*p.AccessPointId)
	return &efs.CreateAccessPointOutput{AccessPointId: p.AccessPointId, FileSystemId: p.FileSystemId}, nil
}

func (f *fakeEFS) DeleteAccessPoint(_ context.Context, in *efs.DeleteAccessPointInput, _ ...func(*efs.Options)) (
	*efs.DeleteAccessPointOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("DeleteAccessPoint", nil); err != nil {
		return nil, err
	}
	before := len(f.points)
	f.points = slices.DeleteFunc(f.points, func(p types.AccessPointDescription) bool {
		return *p.AccessPointId == *in.AccessPointId
	})
	switch {
	case len(f.points) == before && f.guarded:
		return nil, refuse("AccessDeniedException")
	case len(f.points) == before:
		return nil, refuse("AccessPointNotFound")
	}
	f.calls = append(f.calls, "delete "+*in.AccessPointId)
	return &efs.DeleteAccessPointOutput{}, nil
}

func (f *fakeEFS) DescribeAccessPoints(_ context.Context, in *efs.DescribeAccessPointsInput,
	_ ...func(*efs.Options)) (*efs.DescribeAccessPointsOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("DescribeAccessPoints", in.FileSystemId); err != nil {
		return nil, err
	}
	if in.AccessPointId != nil {
		for _, p := range f.points {
			if *p.AccessPointId == *in.AccessPointId {
				return &efs.DescribeAccessPointsOutput{AccessPoints: []types.AccessPointDescription{p}}, nil
			}
		}
		return nil, refuse("AccessPointNotFound")
	}
	var first int
	_, _ = fmt.Sscan(aws.ToString(in.NextToken), &first)
	out := &efs.DescribeAccessPointsOutput{AccessPoints: slices.Clone(f.points[first:])}
	if f.page > 0 && len(out.AccessPoints) > f.page {
		out.AccessPoints, out.NextToken = out.AccessPoints[:f.page], aws.String(fmt.Sprint(first+f.page))
	}
	return out, nil
}

func (f *fakeEFS) DescribeFileSystems(_ context.Context, in *efs.DescribeFileSystemsInput, _ ...func(*efs.Options)) (
	*efs.DescribeFileSystemsOutput, error) {
	if err := f.begin("DescribeFileSystems", in.FileSystemId); err != nil {
		return nil, err
	}
	d := types.FileSystemDescription{FileSystemId: in.FileSystemId}
	if f.zone != "" {
		d.AvailabilityZoneName = &f.zone
	}
	return &efs.DescribeFileSystemsOutput{FileSystems: []types.FileSystemDescription{d}}, nil
}

func (f *fakeEFS) DescribeMountTargets(_ context.Context, in *efs.DescribeMountTargetsInput,
	_ ...func(*efs.Options)) (*efs.DescribeMountTargetsOutput, error) {
	if err := f.begin("DescribeMountTargets", in.FileSystemId); err != nil {
		return nil, err
	}
	target := func(zone, address string, state types.LifeCycleState) types.MountTargetDescription {
		return types.MountTargetDescription{AvailabilityZoneName: &zone, IpAddress: &address, LifeCycleState: state}
	}
	return &efs.DescribeMountTargetsOutput{MountTargets: []types.MountTargetDescription{
		target("eu-west-1a", "10.0.1.5", types.LifeCycleStateAvailable),
		target("eu-west-1b", "10.0.2.5", types.LifeCycleStateAvailable),
		target("eu-west-1c", "10.0.3.5", types.LifeCycleStateCreating)}}, nil
}
