package volume

import (
	"cmp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Spec is a volume as a request asks for it. Numbers are nil where it says nothing.
type Spec struct {
	Type                   types.VolumeType
	Size, IOPS, Throughput *int32
	SnapshotID             string
	Encrypted              *bool
	KMSKeyID               string
	MultiAttach            bool
}

// Draft is a volume that a request asks for, with the defaults of its type and of its source, before it is checked.
type Draft struct {
	Volume record.Volume // whose KMSKeyID may still be an alias
	spec   Spec
	// Snapshot is the one that the volume is made of; nil without one. Of the volume that it is a copy of, sourceKey and
	// least have the same.
	Snapshot  *store.Row[record.Snapshot]
	sourceKey string // KMS key of an encrypted source
	inherited string // the same, if the volume gets it unless the request names another
	least     int32  // size of the source
	defaults  record.EBSSettings
}

// limits are what a type of volume may have. Zeros are for what it cannot have.
type limits struct {
	least, most           int32 // GiB
	leastIOPS, mostIOPS   int32
	defaultIOPS           int32 // 0 where a request must say
	ratio                 int32 // IOPS per GiB
	defaultThroughput     int32 // MiB/s
	mostThroughput        int32
	iopsPerThroughputUnit int32 // each MiB/s needs that many IOPS
}

// volumeLimits are the limits by type.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
var volumeLimits = map[types.VolumeType]limits{
	types.VolumeTypeGp2: {least: 1, most: 16384},
	types.VolumeTypeGp3: {least: 1, most: 65536, leastIOPS: 3000, mostIOPS: 80000, defaultIOPS: 3000, ratio: 500,
		defaultThroughput: 125, mostThroughput: 2000, iopsPerThroughputUnit: 4},
	types.VolumeTypeIo1:      {least: 4, most: 16384, leastIOPS: 100, mostIOPS: 64000, ratio: 50},
	types.VolumeTypeIo2:      {least: 4, most: 65536, leastIOPS: 100, mostIOPS: 256000, ratio: 1000},
	types.VolumeTypeSt1:      {least: 125, most: 16384},
	types.VolumeTypeSc1:      {least: 125, most: 16384},
	types.VolumeTypeStandard: {least: 1, most: 1024},
}

// NewDraft fills in what a request leaves open. With an error it returns what can be said of the volume all the same,
// for condition keys.
func NewDraft(s *resource.Records, sc resource.Scope, spec Spec) (Draft, error) {
	d := Draft{spec: spec, Volume: record.Volume{SnapshotID: spec.SnapshotID}}
	var err error
	if spec.SnapshotID != "" {
		var row store.Row[record.Snapshot]
		if row, err = s.UsableSnapshot(sc, spec.SnapshotID); err == nil {
			d.Snapshot, d.least, d.sourceKey = &row, row.Value.VolumeSize, row.Value.KMSKeyID
			if row.Value.Account == sc.Account { // what is shared is encrypted again, under a key of the account
				d.inherited = row.Value.KMSKeyID
			}
		}
	}
	if fillErr := d.fill(s, sc); err == nil {
		err = fillErr
	}
	return d, err
}

// NewImageDraft returns the draft of a volume of an AMI, of at least so many GiB.
func NewImageDraft(s *resource.Records, sc resource.Scope, spec Spec, least int32, diskless bool) (Draft, error) {
	d := Draft{spec: spec, least: least,
		Volume: record.Volume{SnapshotID: spec.SnapshotID, OfImage: true, Diskless: diskless}}
	return d, d.fill(s, sc)
}

// fill sets what the request leaves open.
func (d *Draft) fill(s *resource.Records, sc resource.Scope) error {
	v, spec := &d.Volume, d.spec
	v.Type = cmp.Or(spec.Type, types.VolumeTypeGp2)
	v.Size = cmp.Or(aws.ToInt32(spec.Size), d.least)
	v.MultiAttach = spec.MultiAttach
	limit := volumeLimits[v.Type]
	v.IOPS = cmp.Or(aws.ToInt32(spec.IOPS), limit.defaultIOPS)
	v.Throughput = cmp.Or(aws.ToInt32(spec.Throughput), limit.defaultThroughput)
	if v.Type == types.VolumeTypeGp2 && spec.IOPS == nil {
		v.IOPS = gp2IOPS(v.Size)
	}
	defaults, err := s.EBSDefaults(sc)
	d.defaults = defaults
	v.Encrypted = aws.ToBool(spec.Encrypted) || d.sourceKey != "" || defaults.EncryptionByDefault
	if v.Encrypted {
		v.KMSKeyID = cmp.Or(spec.KMSKeyID, d.inherited, defaults.DefaultKMSKeyID, resource.ManagedKeyAlias)
	}
	return err
}

// CheckRoot refuses a type of volume that no instance can boot from, with the error that AWS has for it.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
func (d Draft) CheckRoot() error {
	if t := d.Volume.Type; t == types.VolumeTypeSt1 || t == types.VolumeTypeSc1 {
		return wire.Errorf("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", t)
	}
	return nil
}

// gp2IOPS returns the IOPS that a volume of type gp2 has.
func gp2IOPS(size int32) int32 { return min(16000, max(100, 3*min(size, 16384))) }

// Validate refuses a volume that AWS does. The code is that of the error about a size below the snapshot's.
func (d Draft) Validate(smaller string) error {
	v, spec := d.Volume, d.spec
	limit, known := volumeLimits[v.Type]
	switch {
	case !known:
		return wire.Errorf("UnknownVolumeType", "Unsupported volume type '%s' for volume creation.", v.Type)
	case d.Snapshot == nil && d.least == 0 && spec.Size == nil:
		return wire.Errorf("MissingParameter", "The request must contain the parameter size or snapshotId: "+
			"volumeSize of a block device")
	case d.least > 0 && v.Size < d.least:
		return wire.Errorf(smaller, "Volume of size %dGB is smaller than snapshot '%s', expect size>= %dGB", v.Size,
			v.SnapshotID, d.least)
	case spec.KMSKeyID != "" && !v.Encrypted:
		return wire.Errorf("InvalidParameterDependency",
			"The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	if err := checkSize(v.Type, limit, v.Size); err != nil {
		return err
	}
	if err := checkPerformance(v, limit, spec); err != nil {
		return err
	}
	if v.MultiAttach && v.Type != types.VolumeTypeIo1 && v.Type != types.VolumeTypeIo2 {
		return wire.Errorf("InvalidParameterCombination",
			"The parameter MultiAttachEnabled is not supported for %s volumes: use io1 or io2.", v.Type)
	}
	return nil
}

func checkSize(kind types.VolumeType, limit limits, size int32) error {
	switch {
	case size < limit.least:
		return resource.Invalid("Volume of %dGiB is too small for volume type %s; minimum is %dGiB.", size, kind,
			limit.least)
	case size > limit.most:
		return resource.Invalid("Volume of %dGiB is too large for volume type %s; maximum is %dGiB.", size, kind,
			limit.most)
	}
	return nil
}

// checkPerformance refuses IOPS and throughput that a volume cannot have. The maximum of IOPS comes before their ratio
// to the size: the EBS CSI driver asks for too many in a dry run, and reads the maximum from the message.
func checkPerformance(v record.Volume, limit limits, spec Spec) error {
	switch {
	case limit.mostIOPS == 0 && spec.IOPS != nil:
		return wire.Errorf("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", v.Type)
	case limit.mostThroughput == 0 && spec.Throughput != nil:
		return wire.Errorf("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.",
			v.Type)
	case limit.mostIOPS == 0:
		return nil
	case spec.IOPS == nil && v.IOPS == 0:
		return wire.Errorf("MissingParameter", "The parameter iops must be specified for %s volumes.", v.Type)
	case v.IOPS < limit.leastIOPS || spec.IOPS != nil && *spec.IOPS < limit.leastIOPS:
		return resource.Invalid("Volume iops of %d is too low; minimum is %d.", aws.ToInt32(spec.IOPS), limit.leastIOPS)
	case v.IOPS > limit.mostIOPS:
		return resource.Invalid("Volume iops of %d is too high; maximum is %d.", v.IOPS, limit.mostIOPS)
	case v.IOPS > limit.defaultIOPS && int64(v.IOPS) > int64(limit.ratio)*int64(v.Size):
		return resource.Invalid("Iops to volume size ratio of %f is too high; maximum is %d",
			float64(v.IOPS)/float64(v.Size), limit.ratio)
	case limit.mostThroughput == 0:
		return nil
	case v.Throughput < limit.defaultThroughput || spec.Throughput != nil && *spec.Throughput < limit.defaultThroughput:
		return resource.Invalid("Throughput of %d MiBps is too low; minimum is %d MiBps.",
			aws.ToInt32(spec.Throughput), limit.defaultThroughput)
	case v.Throughput > limit.mostThroughput:
		return resource.Invalid("Throughput of %d MiBps is too high; maximum is %d MiBps.", v.Throughput,
			limit.mostThroughput)
	case int64(v.Throughput)*int64(limit.iopsPerThroughputUnit) > int64(v.IOPS):
		return resource.Invalid("Throughput (MiBps) to iops ratio of %f is too high; maximum is %f MiBps per iops.",
			float64(v.Throughput)/float64(v.IOPS), 1/float64(limit.iopsPerThroughputUnit))
	}
	return nil
}

// UnknownVolume stands for the ID of a volume in the encryption context of what a launch is authorized for: its volumes
// have none yet.
const UnknownVolume = "vol-ffffffff"

// The actions on a key that who makes or attaches a volume needs.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html
var (
	ReadActions   = []string{"kms:Decrypt", "kms:ReEncryptFrom"} // on the key of the content that is copied
	MakeActions   = []string{"kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"}
	RemakeActions = append([]string{"kms:ReEncryptTo"}, MakeActions...) // of encrypted content
	AttachActions = []string{"kms:CreateGrant", "kms:Decrypt"}
)

// AuthorizeKeys demands that the caller may use the KMS keys of a new volume: that of an encrypted source, whatever key
// the volume gets, and that of the volume. It sets the ARN of the volume's key.
func (d *Draft) AuthorizeKeys(s *resource.Records, sc resource.Scope, id string, attach bool) error {
	v := &d.Volume
	if d.sourceKey != "" {
		source := v.SourceVolumeID
		if d.Snapshot != nil {
			source = d.Snapshot.Value.ID
		}
		if _, err := s.UseKey(sc, d.sourceKey, source, ReadActions...); err != nil {
			return err
		}
	}
	if !v.Encrypted {
		return nil
	}
	actions := MakeActions
	if d.sourceKey != "" {
		actions = RemakeActions
	}
	if attach {
		actions = append(actions[:len(actions):len(actions)], "kms:Decrypt")
	}
	arn, err := s.UseKey(sc, v.KMSKeyID, id, actions...)
	if err != nil {
		return err
	}
	v.KMSKeyID = arn
	return nil
}

// holdSnapshot holds the snapshot of a draft for the change, and refuses one that has no content yet.
func (d Draft) holdSnapshot(c *resource.Change) error {
	if d.Snapshot == nil {
		return nil
	}
	row, err := c.UsableSnapshot(c.Scope, d.Snapshot.Value.ID) // as it is now
	if err != nil {
		return err
	}
	if state := resource.SnapshotState(c.SnapshotDisk(c.Scope, row.Value)); state != types.SnapshotStateCompleted {
		return wire.Errorf("IncorrectState", "Snapshot is in invalid state - %s", state)
	}
	c.RequireSnapshot(row)
	return nil
}

// Create adds the volume of a draft to a change, with its quotas checked. The draft has been validated, and its keys
// have been authorized.
func (d Draft) Create(c *resource.Change, id string, token *string, zone string, edit func(*record.Volume)) (
	record.Volume, error) {
	v := d.Volume
	v.EC2Resource = c.NewResource(id, token)
	v.AvailabilityZone = zone
	if edit != nil {
		edit(&v)
	}
	if err := d.holdSnapshot(c); err != nil {
		return v, err
	}
	if err := c.HoldEBSDefaults(d.defaults); err != nil {
		return v, err
	}
	if !v.Diskless {
		if err := checkQuota(c, v.Type, v.Size, 1); err != nil {
			return v, err
		}
	}
	c.Volumes.CreateRecord(c, v)
	return v, nil
}

// Quotas of volumes that have disks, of an account in a region. AWS has one of storage for each type of volume.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html
const (
	maxVolumes = 5000
	maxStorage = 50 << 10 // GiB of a type
)

// checkQuota refuses more storage of a type than an account may have. A change of many volumes counts those that it has
// planned as well.
func checkQuota(c *resource.Change, kind types.VolumeType, more int32, volumes int) error {
	all, err := c.Volumes.List(c.Scope, func(v record.Volume) bool { return !v.Diskless })
	if err != nil {
		return err
	}
	planned := c.PlanVolume(kind, more, volumes)
	count, storage := len(all)+planned.Count, planned.Size
	for _, v := range all {
		if v.Type == kind {
			storage += int64(v.Size)
		}
	}
	switch {
	case count > maxVolumes:
		return wire.Errorf("VolumeLimitExceeded", "Maximum number of volumes, %d, exceeded.", maxVolumes)
	case storage > maxStorage:
		return wire.Errorf("VolumeLimitExceeded", "You have exceeded your maximum %s storage limit of %d GiB in this "+
			"region. Please contact AWS Support to request an Elastic Block Store service limit increase.", kind,
			maxStorage)
	}
	return nil
}

// zoneOf returns the zone that a request names, by its name or its ID.
func zoneOf(sc resource.Scope, name, id *string) (string, error) {
	switch {
	case aws.ToString(name) != "" && aws.ToString(id) != "":
		return "", wire.Errorf("InvalidParameterCombination",
			"The parameters AvailabilityZone and AvailabilityZoneId may not be specified together.")
	case aws.ToString(name) == "" && aws.ToString(id) == "":
		return "", wire.Errorf("MissingParameter",
			"The request must contain the parameter AvailabilityZone or AvailabilityZoneId")
	}
	asked := cmp.Or(aws.ToString(name), aws.ToString(id))
	z, ok := sc.FindZone(asked)
	if !ok || id != nil && *id != "" && z.ID != *id || name != nil && *name != "" && z.Name != *name {
		return "", wire.Errorf("InvalidZone.NotFound", "The zone '%s' does not exist.", asked)
	}
	return z.Name, nil
}
