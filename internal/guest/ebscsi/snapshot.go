//go:build linux

package ebscsi

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// CreateSnapshot takes a snapshot of a volume. One of the same name is the same snapshot.
func (c *controller) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (
	*csi.CreateSnapshotResponse, error) {
	name, volume := r.GetName(), r.GetSourceVolumeId()
	if name == "" {
		return nil, csidriver.Invalid("Snapshot name not provided")
	}
	if volume == "" {
		return nil, csidriver.Invalid("Snapshot volume source ID not provided")
	}
	end, err := c.working.Begin(name)
	if err != nil {
		return nil, err
	}
	defer end()
	tags, err := c.options.readSnapshotClass(r)
	if err != nil {
		return nil, err
	}
	found, err := c.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{Filters: []types.Filter{
		{Name: aws.String("tag:" + tagSnapshotName), Values: []string{name}}}})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not look for snapshot %q: %v", name, err)
	}
	if len(found.Snapshots) > 0 {
		s := found.Snapshots[0]
		if of := aws.ToString(s.VolumeId); of != volume {
			return nil, status.Errorf(codes.AlreadyExists, "Snapshot %s already exists for different volume (%s)", name, of)
		}
		if s.State == types.SnapshotStateError {
			// It is not deleted: the content of the VolumeSnapshot keeps the first ID that it got, and is deleted by it.
			return nil, status.Errorf(codes.Internal, "Could not create snapshot %q: %s failed: %s", name,
				aws.ToString(s.SnapshotId), aws.ToString(s.StateMessage))
		}
		return &csi.CreateSnapshotResponse{Snapshot: describeSnapshot(s)}, nil
	}
	out, err := c.ec2.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &volume,
		TagSpecifications: specifyTags(types.ResourceTypeSnapshot, tags),
		Description:       aws.String("Created by AWS EBS CSI driver for volume " + volume)})
	switch {
	case csidriver.HasCode(err, "SnapshotLimitExceeded"):
		return nil, status.Errorf(codes.ResourceExhausted, "Could not create snapshot (resource exhausted) %q: %v", name,
			err)
	case err != nil:
		return nil, status.Errorf(codes.Internal, "Could not create snapshot %q: %v", name, err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: describeSnapshot(types.Snapshot{SnapshotId: out.SnapshotId,
		VolumeId: out.VolumeId, VolumeSize: out.VolumeSize, StartTime: out.StartTime, State: out.State})}, nil
}

// readSnapshotClass reads the parameters of a request for a snapshot, and returns its tags.
func (o options) readSnapshotClass(r *csi.CreateSnapshotRequest) (map[string]string, error) {
	var templates []string
	var of volumeSnapshot
	for key, value := range r.GetParameters() {
		switch lower := strings.ToLower(key); lower {
		case "csi.storage.k8s.io/volumesnapshot/name":
			of.VolumeSnapshotName = value
		case "csi.storage.k8s.io/volumesnapshot/namespace":
			of.VolumeSnapshotNamespace = value
		case "csi.storage.k8s.io/volumesnapshotcontent/name":
			of.VolumeSnapshotContentName = value
		case "fastsnapshotrestoreavailabilityzones", "lockmode", "lockduration", "lockexpirationdate",
			"lockcooloffperiod", "outpostarn":
			return nil, csidriver.Invalid(
				"Parameter %s: this EC2 has no fast snapshot restores, locks of snapshots or Outposts", key)
		default:
			if !strings.HasPrefix(key, "tagSpecification") {
				return nil, csidriver.Invalid("Invalid parameter key %s for CreateSnapshot", key)
			}
			templates = append(templates, value)
		}
	}
	own, err := evaluateTags(templates, of, o.warnTags)
	if err != nil {
		return nil, csidriver.Invalid("Invalid tag value: %v", err)
	}
	tags := map[string]string{tagSnapshotName: r.GetName(), tagDriver: "true"}
	o.addClusterTags(tags, r.GetName(), false)
	maps.Copy(tags, o.tags)
	maps.Copy(tags, own)
	return tags, nil
}

func describeSnapshot(s types.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: aws.ToString(s.SnapshotId), SourceVolumeId: aws.ToString(s.VolumeId),
		SizeBytes: int64(aws.ToInt32(s.VolumeSize)) * gib, CreationTime: timestamppb.New(aws.ToTime(s.StartTime)),
		ReadyToUse: s.State == types.SnapshotStateCompleted,
	}
}

// isMissingSnapshot reports whether an error says that there is no such snapshot.
func isMissingSnapshot(err error, id string) bool {
	return csidriver.HasCode(err, "InvalidSnapshot.NotFound") ||
		csidriver.HasCode(err, "InvalidParameterValue", "InvalidSnapshotID.Malformed") && !strings.HasPrefix(id, "snap-")
}

// DeleteSnapshot deletes a snapshot, if it is there.
func (c *controller) DeleteSnapshot(ctx context.Context, r *csi.DeleteSnapshotRequest) (
	*csi.DeleteSnapshotResponse, error) {
	id := r.GetSnapshotId()
	if id == "" {
		return nil, csidriver.Invalid("Snapshot ID not provided")
	}
	end, err := c.working.Begin(id)
	if err != nil {
		return nil, err
	}
	defer end()
	_, err = c.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id})
	if err != nil && !isMissingSnapshot(err, id) {
		_, missing := c.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
		if isMissingSnapshot(missing, id) { // as with volumes, see isGone
			return &csi.DeleteSnapshotResponse{}, nil
		}
		return nil, status.Errorf(codes.Internal, "Could not delete snapshot ID %q: %v", id, err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// leastPage is the size of EC2's smallest pages.
const leastPage = 5

// ListSnapshots lists one snapshot, those of a volume, or all of the account.
func (c *controller) ListSnapshots(ctx context.Context, r *csi.ListSnapshotsRequest) (
	*csi.ListSnapshotsResponse, error) {
	in := &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}
	most, skip := r.GetMaxEntries(), 0
	if id := r.GetSnapshotId(); id != "" {
		in = &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}}
	} else {
		if most > 0 {
			in.MaxResults = aws.Int32(max(most, leastPage))
		}
		// A token has how many of EC2's page were given already.
		if token := r.GetStartingToken(); token != "" {
			given, next, ok := strings.Cut(token, "/")
			n, err := strconv.Atoi(given)
			if !ok || err != nil || n < 0 {
				return nil, status.Errorf(codes.Aborted, "Could not list snapshots: %q is no token", token)
			}
			skip = n
			if next != "" {
				in.NextToken = &next
			}
		}
		if volume := r.GetSourceVolumeId(); volume != "" {
			in.Filters = []types.Filter{{Name: aws.String("volume-id"), Values: []string{volume}}}
		}
	}
	out, err := c.ec2.DescribeSnapshots(ctx, in)
	switch {
	case isMissingSnapshot(err, r.GetSnapshotId()) && r.GetSnapshotId() != "":
		return &csi.ListSnapshotsResponse{}, nil
	case csidriver.HasCode(err, "InvalidParameterValue", "InvalidNextToken") && r.GetStartingToken() != "":
		return nil, status.Errorf(codes.Aborted, "Could not list snapshots: %v", err)
	case err != nil:
		return nil, status.Errorf(codes.Internal, "Could not list snapshots: %v", err)
	}
	answer := &csi.ListSnapshotsResponse{}
	for i, s := range out.Snapshots {
		if i < skip {
			continue
		}
		if most > 0 && len(answer.Entries) == int(most) {
			answer.NextToken = fmt.Sprintf("%d/%s", i, aws.ToString(in.NextToken))
			return answer, nil
		}
		answer.Entries = append(answer.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: describeSnapshot(s)})
	}
	if next := aws.ToString(out.NextToken); next != "" {
		answer.NextToken = "0/" + next
	}
	return answer, nil
}
