package resource

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Keys uses KMS keys for a caller. kms.Service (internal/aws/kms) implements it.
type Keys interface {
	// ManagedKey returns the alias of the AWS managed key of a service in the caller's account and region, which it
	// creates unless it is there.
	ManagedKey(ctx context.Context, service string) (string, error)
	// KeyARN returns the ARN of the key that an ID, an alias or an ARN names; whether there is such a key.
	KeyARN(ctx context.Context, id string) (arn string, exists bool)
	// UseVia authorizes actions of the caller on a key through a service, such as "ec2", for content with an encryption
	// context. It returns the ARN of the key, which must be Enabled.
	UseVia(ctx context.Context, service, key string, content map[string]string, actions ...string) (string, error)
}

// ManagedKeyAlias is the alias of the AWS managed key of EBS.
const ManagedKeyAlias = "alias/aws/ebs"

// UseKey authorizes actions of the caller on the KMS key of a volume or snapshot, which the content's ID tells.
func (s *Records) UseKey(sc Scope, key, id string, actions ...string) (string, error) {
	if s.Keys == nil {
		return "", wire.Errorf("UnsupportedOperation", "Encryption is not supported without KMS.")
	}
	if key == ManagedKeyAlias {
		if _, exists := s.Keys.KeyARN(sc, key); !exists && sc.DryRun {
			return key, nil // its policy will let everybody who may use EC2
		}
		if _, err := s.Keys.ManagedKey(sc, "ebs"); err != nil {
			return "", err
		}
	}
	arn, err := s.Keys.UseVia(sc, "ec2", key, map[string]string{"aws:ebs:id": id}, actions...)
	return arn, keyError(err)
}

// keyError returns EC2's error about a key that KMS refuses. Denials stay as they are.
func keyError(err error) error {
	var denied *wire.Denied
	var api interface {
		error
		ErrorCode() string
		ErrorMessage() string
	}
	if errors.As(err, &denied) || !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "NotFoundException", "InvalidArnException":
		return wire.Errorf("InvalidKMSKey.NotFound", "The KMS key provided was not found: %s", api.ErrorMessage())
	case "DisabledException", "KMSInvalidStateException":
		return wire.Errorf("InvalidKMSKey.InvalidState", "The KMS key provided is in an incorrect state: %s",
			api.ErrorMessage())
	}
	return wire.Errorf("InvalidParameterValue", "The KMS key cannot be used: %s: %s", api.ErrorCode(),
		api.ErrorMessage())
}

// KeyARN returns the ARN of the key that a request names. Of a key that does not exist it returns what a key of that
// name would have, because policies ask about ARNs.
func (s *Records) KeyARN(sc Scope, key string) string {
	if key == "" {
		return ""
	}
	if s.Keys != nil {
		if arn, exists := s.Keys.KeyARN(sc, key); exists {
			return arn
		}
	}
	switch {
	case strings.HasPrefix(key, "arn:"):
		return key
	case strings.HasPrefix(key, "alias/"):
		return record.KMSAliasARN(sc.Account, sc.Region, key)
	}
	return record.KMSKeyARN(sc.Account, sc.Region, key)
}

// EBSDefaults returns the settings of EBS of the account in the region.
func (s *Records) EBSDefaults(sc Scope) (record.EBSSettings, error) {
	row, err := s.EBSSettings.Get(sc, store.Key(sc.Account, sc.Region))
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return row.Value, err
}

// HoldEBSDefaults demands that the settings of EBS, by which the change encrypts, are still the given ones.
func (c *Change) HoldEBSDefaults(used record.EBSSettings) error {
	key := store.Key(c.Account, c.Region)
	row, err := c.EBSSettings.Get(c, key)
	absent := errors.Is(err, store.ErrNotFound)
	switch {
	case err != nil && !absent:
		return err
	case row.Value != used:
		return &wire.Error{Code: "Unavailable", Status: http.StatusServiceUnavailable,
			Message: "The encryption settings of EBS have changed while the request was carried out. Try again."}
	}
	c.Add("ebssettings", func() store.Op {
		if absent {
			return c.EBSSettings.AbsentOp(key)
		}
		return c.EBSSettings.CheckOp(row)
	})
	return nil
}

// ObserveDisk returns what was observed of the disk of a volume, on which the change relies, and whether there is a
// record of it.
func (c *Change) ObserveDisk(id string) (record.VolumeDisk, bool, error) {
	key := c.Key(id)
	row, err := c.VolumeDisks.Get(c, key)
	if errors.Is(err, store.ErrNotFound) {
		c.Add("volumedisk/"+id, func() store.Op { return c.VolumeDisks.AbsentOp(key) })
		return row.Value, false, nil
	}
	if err == nil {
		c.Add("volumedisk/"+id, func() store.Op { return c.VolumeDisks.CheckOp(row) })
	}
	return row.Value, err == nil, err
}

// VolumeConditions sets the condition keys of a volume that policies can use.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html#amazonec2-resources-for-iam-policies
func (s *Records) VolumeConditions(sc Scope, conditions map[string][]string, r record.Volume) {
	conditions["ec2:AvailabilityZone"] = []string{r.AvailabilityZone}
	if z, ok := sc.FindZone(r.AvailabilityZone); ok {
		conditions["ec2:AvailabilityZoneId"] = []string{z.ID}
	}
	conditions["ec2:Encrypted"] = []string{strconv.FormatBool(r.Encrypted)}
	conditions["ec2:VolumeSize"] = []string{Decimal(int(r.Size))}
	conditions["ec2:VolumeType"] = []string{string(r.Type)}
	conditions["ec2:VolumeIops"] = []string{Decimal(int(r.IOPS))}
	conditions["ec2:VolumeThroughput"] = []string{Decimal(int(r.Throughput))}
	if r.KMSKeyID != "" {
		conditions["ec2:KmsKeyId"] = []string{s.KeyARN(sc, r.KMSKeyID)}
	}
	if r.SnapshotID != "" {
		conditions["ec2:ParentSnapshot"] = []string{sc.ARN(types.ResourceTypeSnapshot, r.SnapshotID)}
	}
}

// addSnapshotConditions sets the condition keys of a snapshot that the caller may use.
func (s *Records) addSnapshotConditions(sc Scope, conditions map[string][]string, id string) {
	conditions["ec2:SnapshotID"] = []string{id}
	if row, err := s.UsableSnapshot(sc, id); err == nil {
		s.SnapshotConditions(sc, conditions, row.Value)
	}
}

// SnapshotConditions sets the condition keys of a snapshot that policies can use.
func (s *Records) SnapshotConditions(sc Scope, conditions map[string][]string, r record.Snapshot) {
	conditions["ec2:Encrypted"] = []string{strconv.FormatBool(r.Encrypted)}
	conditions["ec2:VolumeSize"] = []string{Decimal(int(r.VolumeSize))}
	conditions["ec2:SnapshotTime"] = []string{r.CreatedAt.UTC().Format(time.RFC3339)}
	owner := sc
	owner.Account, owner.Region = cmp.Or(r.Account, sc.Account), cmp.Or(r.Region, sc.Region)
	conditions["ec2:Owner"] = []string{owner.Account}
	if r.VolumeID != "" {
		conditions["ec2:ParentVolume"] = []string{owner.ARN(types.ResourceTypeVolume, r.VolumeID)}
	}
	if r.KMSKeyID != "" {
		conditions["ec2:KmsKeyId"] = []string{s.KeyARN(owner, r.KMSKeyID)}
	}
}

// MayUseSnapshot reports whether an account may make volumes of a snapshot: its owner, and those it is shared with.
func MayUseSnapshot(account string, r record.Snapshot) bool {
	return r.Account == account || r.Public || slices.Contains(r.SharedWith, account)
}

// UsableSnapshot returns the snapshot with an ID in the scope's region that the account may make volumes of, its own or
// another's, or AWS's error about one that does not exist: so do those of others that are private.
func (s *Records) UsableSnapshot(sc Scope, id string) (store.Row[record.Snapshot], error) {
	none := store.Row[record.Snapshot]{}
	if err := s.Snapshots.Validate(id); err != nil {
		return none, err
	}
	// The account's own is read by its key, so that the decision remembers it.
	row, err := s.Snapshots.Table.Get(sc, sc.Key(id))
	if err == nil && row.Value.Deleted.IsZero() {
		return row, nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return none, err
	}
	rows, err := s.snapshotsByID.List(sc, store.Key(sc.Region, id))
	if err != nil {
		return none, err
	}
	for _, row := range rows {
		if MayUseSnapshot(sc.Account, row.Value) && row.Value.Deleted.IsZero() {
			return row, nil
		}
	}
	return none, s.Snapshots.Missing(id)
}

// SharedSnapshots returns the snapshots of other accounts in the region that the account may make volumes of.
func (s *Records) SharedSnapshots(sc Scope) ([]record.Snapshot, error) {
	// The caller pays for what others have shared as well: it is in memory meanwhile. An account may not share much.
	rows, err := s.sharedSnapshots.List(sc, sc.Region)
	var found []record.Snapshot
	for _, row := range rows {
		if row.Value.Account != sc.Account && MayUseSnapshot(sc.Account, row.Value) {
			found = append(found, row.Value)
		}
	}
	return found, err
}

// RequireSnapshot demands that a snapshot, of whichever account, is still as it was read: neither deleted nor no longer
// shared.
func (c *Change) RequireSnapshot(row store.Row[record.Snapshot]) {
	c.add("snapshot/"+row.Key, &pending{weak: true, op: func() store.Op { return c.Snapshots.Table.CheckOp(row) }})
}

// VolumeDisk returns what was observed of the disk of a volume; nothing yet of one for which nothing was done.
func (s *Records) VolumeDisk(sc Scope, id string) record.VolumeDisk {
	return MustRead(s.VolumeDisks.Get(sc, sc.Key(id))).Value
}

// SnapshotDisk returns what was observed of the content of a snapshot.
func (s *Records) SnapshotDisk(sc Scope, r record.Snapshot) record.SnapshotDisk {
	return MustRead(s.SnapshotDisks.Get(sc, r.Key())).Value
}

// VolumeState returns the state of a volume, which follows from what is wanted and what was observed.
func VolumeState(r record.Volume, d record.VolumeDisk) types.VolumeState {
	switch {
	case !r.Deleted.IsZero():
		return types.VolumeStateDeleting
	case !r.Diskless && d.Size == 0 && d.Failure != "":
		return types.VolumeStateError
	case !r.Diskless && d.Size == 0:
		return types.VolumeStateCreating
	case r.InstanceID != "":
		return types.VolumeStateInUse
	}
	return types.VolumeStateAvailable
}

// SnapshotState returns the state of a snapshot.
func SnapshotState(d record.SnapshotDisk) types.SnapshotState {
	switch {
	case d.Complete:
		return types.SnapshotStateCompleted
	case d.Failure != "":
		return types.SnapshotStateError
	}
	return types.SnapshotStatePending
}

// attachmentState returns the state of the attachment of a volume to an instance. What was attached before the machine
// started again stays attached, whether the disk has been seen in it by now or not.
func attachmentState(b record.InstanceBlockDevice, r record.Instance, diskless, restarted bool,
	d record.VolumeDisk) types.VolumeAttachmentState {
	i := slices.IndexFunc(d.Attachments, func(a record.DiskAttachment) bool { return a.InstanceID == r.ID })
	switch {
	case !b.Detaching.IsZero() && i >= 0 && d.Attachments[i].Busy:
		return types.VolumeAttachmentStateBusy
	case !b.Detaching.IsZero():
		return types.VolumeAttachmentStateDetaching
	case diskless || restarted || i >= 0 && !d.Attachments[i].Attaching():
		return types.VolumeAttachmentStateAttached
	}
	return types.VolumeAttachmentStateAttaching
}

// ShowAttachment returns an attachment as the API shows it, and whether there is one.
func (s *Records) ShowAttachment(sc Scope, r record.Instance, volume string) (types.VolumeAttachment, bool) {
	i := slices.IndexFunc(r.BlockDevices, func(b record.InstanceBlockDevice) bool { return b.VolumeID == volume })
	if i < 0 {
		return types.VolumeAttachment{}, false
	}
	b := r.BlockDevices[i]
	diskless := MustRead(s.Volumes.Table.Get(sc, sc.Key(volume))).Value.Diskless
	machine := s.Machine(sc, r)
	restarted := r.Boot > 1 && (machine.Boot < r.Boot || b.AttachedAt.Before(machine.LaunchedAt))
	switch record.InstanceState(r, machine) {
	case types.InstanceStateNameStopped, types.InstanceStateNameStopping, types.InstanceStateNameShuttingDown:
		restarted = true
	}
	return types.VolumeAttachment{
		AttachTime: aws.Time(b.AttachedAt), DeleteOnTermination: aws.Bool(b.DeleteOnTermination),
		Device: aws.String(b.DeviceName), InstanceId: aws.String(r.ID), VolumeId: aws.String(volume),
		State: attachmentState(b, r, diskless, restarted, s.VolumeDisk(sc, volume)),
	}, true
}

var hostPath = regexp.MustCompile(`(^|[\s"'(=:])/[^\s"':,)]*`)

// WithoutPaths returns what was observed of a disk without paths of the host, which are nobody's business.
func WithoutPaths(failure string) string {
	return hostPath.ReplaceAllString(failure, "${1}(a file of the host)")
}
