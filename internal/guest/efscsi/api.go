//go:build linux

package efscsi

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// api are the operations of EFS that the driver calls.
type api interface {
	CreateAccessPoint(context.Context, *efs.CreateAccessPointInput, ...func(*efs.Options)) (
		*efs.CreateAccessPointOutput, error)
	DeleteAccessPoint(context.Context, *efs.DeleteAccessPointInput, ...func(*efs.Options)) (
		*efs.DeleteAccessPointOutput, error)
	DescribeAccessPoints(context.Context, *efs.DescribeAccessPointsInput, ...func(*efs.Options)) (
		*efs.DescribeAccessPointsOutput, error)
	DescribeFileSystems(context.Context, *efs.DescribeFileSystemsInput, ...func(*efs.Options)) (
		*efs.DescribeFileSystemsOutput, error)
	DescribeMountTargets(context.Context, *efs.DescribeMountTargetsInput, ...func(*efs.Options)) (
		*efs.DescribeMountTargetsOutput, error)
}

// errNotFound is that of an access point that does not exist.
var errNotFound = errors.New("resource was not found")

// isDenied reports whether an error says that the role may not do it.
func isDenied(err error) bool { return csidriver.HasCode(err, "AccessDeniedException") }

// failure returns the error of a call of EFS that failed, with upstream's code.
func failure(err error, format string, args ...any) error {
	switch {
	case isDenied(err):
		return status.Errorf(codes.Unauthenticated,
			"Access Denied. Please ensure you have the right AWS permissions: %v", err)
	case csidriver.HasCode(err, "FileSystemNotFound"):
		return csidriver.Invalid("File System does not exist: %v", err)
	}
	return status.Errorf(codes.Internal, "%s: %v", fmt.Sprintf(format, args...), err)
}

// pageSize is the greatest number of access points in an answer.
const pageSize = 1000

// listAccessPoints returns the access points of a file system.
func listAccessPoints(ctx context.Context, api api, fileSystem string) (all []types.AccessPointDescription, err error) {
	pages := efs.NewDescribeAccessPointsPaginator(api, &efs.DescribeAccessPointsInput{FileSystemId: &fileSystem,
		MaxResults: aws.Int32(pageSize)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.AccessPoints...)
	}
	return all, nil
}

// findAccessPoint returns the access point that a client token has made; nil when there is none.
func findAccessPoint(ctx context.Context, api api, fileSystem, token string) (*types.AccessPointDescription, error) {
	all, err := listAccessPoints(ctx, api, fileSystem)
	for i := range all {
		if aws.ToString(all[i].ClientToken) == token {
			return &all[i], nil
		}
	}
	return nil, err
}

// describeAccessPoint describes an access point of a file system; the error is errNotFound when there is none.
func describeAccessPoint(ctx context.Context, api api, fileSystem, id string) (types.AccessPointDescription, error) {
	out, err := api.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &id})
	switch {
	case csidriver.HasCode(err, "AccessPointNotFound"):
		return types.AccessPointDescription{}, errNotFound
	case err != nil:
		return types.AccessPointDescription{}, err
	case len(out.AccessPoints) != 1:
		return types.AccessPointDescription{}, fmt.Errorf("EFS describes %d access points", len(out.AccessPoints))
	case aws.ToString(out.AccessPoints[0].FileSystemId) != fileSystem:
		return types.AccessPointDescription{}, fmt.Errorf("access point %s does not belong to filesystem %s", id,
			fileSystem)
	}
	return out.AccessPoints[0], nil
}

// mountTargets returns the addresses of the available mount targets of a file system, by Availability Zone.
func mountTargets(ctx context.Context, api api, fileSystem string) (map[string]string, error) {
	addresses := make(map[string]string)
	pages := efs.NewDescribeMountTargetsPaginator(api, &efs.DescribeMountTargetsInput{FileSystemId: &fileSystem})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range page.MountTargets {
			if m.LifeCycleState == types.LifeCycleStateAvailable {
				addresses[aws.ToString(m.AvailabilityZoneName)] = aws.ToString(m.IpAddress)
			}
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("there are no available mount targets for file system %v", fileSystem)
	}
	return addresses, nil
}

// pickAddress returns the address of the mount target in a zone, or of any.
func pickAddress(addresses map[string]string, zone string) (address string) {
	for z, a := range addresses {
		if z == zone {
			return a
		}
		address = max(address, a) // the same each time
	}
	return address
}
