//go:build linux

package efscsi

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// zoneKey is the key of topologies.
const zoneKey = "topology.kubernetes.io/zone"

// tagDriver is the tag of access points that the driver has made. Policies of roles ask for it.
const tagDriver = DriverName + "/cluster"

// controller is the controller's service.
type controller struct {
	csi.UnimplementedControllerServer
	options options
	efs     api
	// assume returns EFS as a role of another account sees it.
	assume     func(role, externalID string) api
	kubernetes func() (*csidriver.Kubernetes, error)
	zone       string // of its node
	mounter    mounter
	working    csidriver.InFlight
	// choosing is held from when a free group is looked for until an access point has it.
	choosing sync.Mutex
}

// ControllerGetCapabilities answers what the controller can do.
func (*controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (
	*csi.ControllerGetCapabilitiesResponse, error) {
	return csidriver.ControllerCapabilities(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME), nil
}

// account is whose file systems a request is about.
type account struct {
	api
	other bool // not that of the cluster
	named bool // nodes find the mount targets of another account by name
}

// Secrets of requests, about file systems of another account.
const (
	secretRole         = "awsRoleArn"
	secretExternalID   = "externalId"
	secretCrossAccount = "crossaccount"
)

// accountOf reads the secrets of a request.
func (c *controller) accountOf(secrets map[string]string) (a account, err error) {
	if value, ok := secrets[secretCrossAccount]; ok {
		if a.named, err = strconv.ParseBool(value); err != nil {
			return a, csidriver.Invalid("crossaccount parameter must have boolean value.")
		}
	}
	a.api = c.efs
	if role := secrets[secretRole]; role != "" {
		a.api, a.other = c.assume(role, secrets[secretExternalID]), true
	}
	return a, nil
}

// CreateVolume creates an access point, or finds the one that a request of the same name has made. Its size is that
// of the request: file systems have none.
func (c *controller) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.GetName() == "" {
		return nil, csidriver.Invalid("Volume name not provided")
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, csidriver.Invalid("Volume capabilities not provided")
	}
	if err := checkCapabilities(r.GetVolumeCapabilities()); err != nil {
		return nil, csidriver.Invalid("Volume capabilities not supported: %s", err)
	}
	for _, capability := range r.GetVolumeCapabilities() {
		if kind := capability.GetMount().GetFsType(); kind != "" && kind != mountType {
			return nil, csidriver.Invalid("Volume fstype not supported: invalid fstype: %s", kind)
		}
	}
	w, err := readClass(r)
	if err != nil {
		return nil, err
	}
	if w.untagged && len(c.options.tags) > 0 {
		return nil, csidriver.Invalid("enableTagging is false but the driver is configured with --tags; set " +
			"enableTagging=true or remove the --tags flag")
	}
	if w.fileSystem, err = readFileSystem(ctx, r.GetParameters(), c.kubernetes); err != nil {
		return nil, err
	}
	a, err := c.accountOf(r.GetSecrets())
	if err != nil {
		return nil, err
	}
	end, err := c.working.Begin(w.token)
	if err != nil {
		return nil, err
	}
	defer end()
	point, err := c.accessPoint(ctx, a, w)
	if err != nil {
		return nil, err
	}
	attributes, err := a.attributes(ctx, w)
	if err != nil {
		return nil, err
	}
	topology, err := a.topology(ctx, w)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "efs:" + w.fileSystem + "::" + point,
		CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), VolumeContext: attributes,
		AccessibleTopology: topology}}, nil
}

// accessPoint returns the access point of a volume.
func (c *controller) accessPoint(ctx context.Context, a account, w wanted) (id string, err error) {
	if w.reuse {
		if id, err := a.existing(ctx, w); id != "" || err != nil {
			return id, err
		}
	}
	id, err = c.createAccessPoint(ctx, a, w)
	if !csidriver.HasCode(err, "AccessPointAlreadyExists") {
		return id, err
	}
	if id, err = a.existing(ctx, w); id == "" && err == nil {
		err = status.Errorf(codes.Internal, "No access point for client token %s was returned", w.token)
	}
	return id, err
}

// existing returns the access point that the token of a volume has made; none when there is none.
func (a account) existing(ctx context.Context, w wanted) (id string, err error) {
	point, err := findAccessPoint(ctx, a, w.fileSystem, w.token)
	if err != nil {
		return "", failure(err, "Failed to find access point")
	}
	if point == nil {
		return "", nil
	}
	if err := w.check(point); err != nil {
		return "", status.Errorf(codes.AlreadyExists, "Invalid existing access point: %v", err)
	}
	return aws.ToString(point.AccessPointId), nil
}

// createAccessPoint creates an access point. The error of one that is there is EFS's.
func (c *controller) createAccessPoint(ctx context.Context, a account, w wanted) (id string, err error) {
	uid, gid := w.uid, w.gid
	if uid == nil || gid == nil {
		c.choosing.Lock()
		defer c.choosing.Unlock()
		points, err := listAccessPoints(ctx, a, w.fileSystem)
		if err != nil {
			return "", failure(err, "Failed to fetch Access Points or Describe File System")
		}
		free, ok := w.freeID(points)
		if !ok {
			return "", status.Errorf(codes.Internal, "Failed to locate a free GID for given file system: %v. Please create "+
				"a new storage class with a new file-system", w.fileSystem)
		}
		if uid == nil {
			uid = &free
		}
		if gid == nil {
			gid = &free
		}
	}
	in := &efs.CreateAccessPointInput{ClientToken: &w.token, FileSystemId: &w.fileSystem,
		PosixUser: &types.PosixUser{Uid: uid, Gid: gid},
		RootDirectory: &types.RootDirectory{Path: &w.directory, CreationInfo: &types.CreationInfo{OwnerUid: uid,
			OwnerGid: gid, Permissions: &w.permissions}}}
	if !w.untagged {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(tagDriver), Value: aws.String("true")})
		for key, value := range c.options.tags {
			if key != tagDriver {
				in.Tags = append(in.Tags, types.Tag{Key: &key, Value: &value})
			}
		}
	}
	out, err := a.CreateAccessPoint(ctx, in)
	switch {
	case csidriver.HasCode(err, "AccessPointAlreadyExists"):
		return "", err
	case isDenied(err):
		return "", failure(err, "")
	case err != nil:
		return "", status.Errorf(codes.Internal, "Failed to create Access point in File System %v : %v", w.fileSystem, err)
	}
	return aws.ToString(out.AccessPointId), nil
}

// attributes returns what nodes have to know of a volume: of another account, where its mount targets are.
func (a account) attributes(ctx context.Context, w wanted) (map[string]string, error) {
	if !a.other {
		return map[string]string{}, nil
	}
	if a.named {
		return map[string]string{attributeCrossAccount: "true"}, nil
	}
	addresses, err := mountTargets(ctx, a, w.fileSystem)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Failed to describe mount targets for file system %v: %v", w.fileSystem,
			err)
	}
	if w.zone != "" {
		return map[string]string{attributeAddress: pickAddress(addresses, w.zone)}, nil
	}
	text, err := json.Marshal(addresses)
	return map[string]string{attributeAddresses: string(text)}, err
}

// topology returns the zone of a One Zone file system, where the class asks for it.
func (a account) topology(ctx context.Context, w wanted) ([]*csi.Topology, error) {
	if !w.zoneAffinity {
		return nil, nil
	}
	out, err := a.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &w.fileSystem})
	if err != nil {
		return nil, failure(err, "Failed to describe file system for one zone AZ discovery")
	}
	if len(out.FileSystems) != 1 {
		return nil, status.Errorf(codes.Internal, "Failed to describe file system for one zone AZ discovery: there are %d",
			len(out.FileSystems))
	}
	if zone := aws.ToString(out.FileSystems[0].AvailabilityZoneName); zone != "" {
		return []*csi.Topology{{Segments: map[string]string{zoneKey: zone}}}, nil
	}
	return nil, nil
}

// DeleteVolume deletes the access point of a volume, if it is there; and what it has, if the driver is told to. A
// volume that is no access point is left alone.
func (c *controller) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	a, err := c.accountOf(r.GetSecrets())
	if err != nil {
		return nil, err
	}
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	v, err := parseVolume(r.GetVolumeId())
	if err != nil || v.accessPoint == "" {
		return &csi.DeleteVolumeResponse{}, nil //nolint:nilerr // there is no such volume
	}
	end, err := c.working.Begin(v.accessPoint)
	if err != nil {
		return nil, err
	}
	defer end()
	if c.options.deleteRoot {
		point, err := describeAccessPoint(ctx, a, v.fileSystem, v.accessPoint)
		if errors.Is(err, errNotFound) {
			return &csi.DeleteVolumeResponse{}, nil
		}
		if err != nil {
			return nil, failure(err, "Could not get describe Access Point: %v , error", v.accessPoint)
		}
		if err := c.deleteRoot(ctx, a, v, point); err != nil {
			return nil, status.Errorf(codes.Internal, "Could not delete access point root directory: %v", err)
		}
	}
	_, err = a.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: &v.accessPoint})
	switch {
	case err == nil, csidriver.HasCode(err, "AccessPointNotFound"), isDenied(err) && a.isGone(ctx, v):
		return &csi.DeleteVolumeResponse{}, nil
	case isDenied(err):
		return nil, failure(err, "")
	}
	return nil, status.Errorf(codes.Internal, "Failed to Delete volume %v: %v", r.GetVolumeId(), err)
}

// isGone reports whether an access point that may not be deleted is not there: a role that may delete those with a tag
// is refused one that has no tags any more.
func (a account) isGone(ctx context.Context, v volume) bool {
	_, err := describeAccessPoint(ctx, a, v.fileSystem, v.accessPoint)
	return errors.Is(err, errNotFound)
}

// ValidateVolumeCapabilities answers whether a volume can be used in a way.
func (*controller) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (
	*csi.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, csidriver.Invalid("Volume ID not provided")
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, csidriver.Invalid("Volume capabilities not provided")
	}
	if _, err := parseVolume(r.GetVolumeId()); err != nil {
		return nil, status.Errorf(codes.NotFound, "Volume not found, err: %v", err)
	}
	answer := &csi.ValidateVolumeCapabilitiesResponse{}
	if checkCapabilities(r.GetVolumeCapabilities()) == nil {
		answer.Confirmed = &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: r.GetVolumeCapabilities()}
	}
	return answer, nil
}
