//go:build linux

package ebscsi

import (
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// The attributes of a volume that are formatting options of its file system; parameters of classes have the same names.
const (
	blockSize       = "blocksize"
	inodeSize       = "inodesize"
	bytesPerInode   = "bytesperinode"
	numberOfInodes  = "numberofinodes"
	ext4BigAlloc    = "ext4bigalloc"
	ext4ClusterSize = "ext4clustersize"
	ext4Encryption  = "ext4encryptionsupport"
)

// The other attributes of volumes.
const partitionAttribute = "partition"

// The file systems of volumes.
const (
	ext3 = "ext3"
	ext4 = "ext4"
	xfs  = "xfs"
)

// unsupported are the formatting options that a file system does not have.
var unsupported = map[string][]string{
	ext3: {ext4BigAlloc, ext4ClusterSize, ext4Encryption},
	ext4: nil,
	xfs:  {bytesPerInode, numberOfInodes, ext4BigAlloc, ext4ClusterSize, ext4Encryption},
}

// formatting are the formatting options, true for those that are on or off.
var formatting = map[string]bool{blockSize: false, inodeSize: false, bytesPerInode: false, numberOfInodes: false,
	ext4BigAlloc: true, ext4ClusterSize: false, ext4Encryption: true}

var alphanumeric = regexp.MustCompile(`^[a-zA-Z0-9]+$`)

// wanted is what a storage class and its attributes class say of a volume.
type wanted struct {
	kind                              string
	iops, iopsPerGB, throughput, rate int32
	moreIOPS                          bool // to the least that the type can have
	encrypted, plain                  bool // plain: the class says that it is not encrypted
	key                               string
	tags                              map[string]string
	attributes                        map[string]string
}

func parseInt32(what, value string) (int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, csidriver.Invalid("Could not parse invalid %s: %v", what, err)
	}
	return int32(n), nil
}

// readClass reads the parameters of a request for a volume.
func (o options) readClass(r *csi.CreateVolumeRequest) (wanted, error) {
	w := wanted{tags: map[string]string{}, attributes: map[string]string{}}
	var templates []string
	var of claim
	var err error
	for key, value := range r.GetParameters() {
		lower := strings.ToLower(key)
		isSwitch, formats := formatting[lower]
		switch {
		case formats && isSwitch:
			if value == "true" {
				w.attributes[lower] = value
			}
		case formats:
			if !alphanumeric.MatchString(value) {
				return w, csidriver.Invalid("Could not parse %s (%s)", key, value)
			}
			w.attributes[lower] = value
		case lower == "type":
			w.kind = value
		case lower == "iopspergb":
			w.iopsPerGB, err = parseInt32("iopsPerGB", value)
			w.tags[tagIOPSPerGB] = value
		case lower == "allowautoiopsincreaseonmodify":
			w.tags[tagMoreIOPS] = strconv.FormatBool(value == "true")
		case lower == "allowautoiopspergbincrease":
			w.moreIOPS = value == "true"
		case lower == "iops":
			w.iops, err = parseInt32("iops", value)
		case lower == "throughput":
			w.throughput, err = parseInt32("throughput", value)
		case lower == "volumeinitializationrate":
			w.rate, err = parseInt32("volumeInitializationRate", value)
		case lower == "encrypted":
			w.encrypted, w.plain = value == "true", value != "true"
		case lower == "kmskeyid":
			w.key = value
		case lower == "csi.storage.k8s.io/pvc/name":
			w.tags["kubernetes.io/created-for/pvc/name"], of.PVCName = value, value
		case lower == "csi.storage.k8s.io/pvc/namespace":
			w.tags["kubernetes.io/created-for/pvc/namespace"], of.PVCNamespace = value, value
		case lower == "csi.storage.k8s.io/pv/name":
			w.tags["kubernetes.io/created-for/pv/name"], of.PVName = value, value
		case lower == "fstype", lower == "blockexpress": // of earlier versions; the first is given with the capability
		case strings.HasPrefix(key, "tagSpecification"):
			templates = append(templates, value)
		default:
			return w, csidriver.Invalid("Invalid parameter key %s for CreateVolume", key)
		}
		if err != nil {
			return w, err
		}
	}
	m, err := readAttributesClass(r.GetMutableParameters())
	if err != nil {
		return w, err
	}
	if m.deletes != nil {
		return w, csidriver.Invalid("Invalid mutable parameter key: tagDeletion")
	}
	// Those of the attributes class come first.
	if m.iops != 0 {
		w.iops = m.iops
	}
	if m.throughput != 0 {
		w.throughput = m.throughput
	}
	if m.kind != "" {
		w.kind = m.kind
	}
	tags, err := evaluateTags(append(templates, m.templates...), of, o.warnTags)
	if err != nil {
		return w, csidriver.Invalid("Invalid tag value: %v", err)
	}
	w.tags[tagVolumeName], w.tags[tagDriver] = r.GetName(), "true"
	o.addClusterTags(w.tags, r.GetName(), true)
	maps.Copy(w.tags, o.tags)
	maps.Copy(w.tags, tags)
	return w, w.checkFormatting(r.GetVolumeCapabilities())
}

// checkFormatting refuses formatting options that the file system does not have.
func (w wanted) checkFormatting(capabilities []*csi.VolumeCapability) error {
	for option := range w.attributes {
		for _, c := range capabilities {
			if c.GetBlock() != nil {
				return csidriver.Invalid("Cannot use %s with block volume", option)
			}
			if kind := fileSystem(c); !supports(kind, option) {
				return csidriver.Invalid("Cannot use %s with fstype %s", option, kind)
			}
		}
	}
	if w.attributes[ext4ClusterSize] != "" && w.attributes[ext4BigAlloc] == "" {
		return csidriver.Invalid("Cannot set ext4BigAllocClusterSize when ext4BigAlloc is false")
	}
	return nil
}

// fileSystem returns the file system of a capability.
func fileSystem(c *csi.VolumeCapability) string {
	if kind := c.GetMount().GetFsType(); kind != "" {
		return strings.ToLower(kind)
	}
	return ext4
}

// supports reports whether a file system has a formatting option.
func supports(kind, option string) bool {
	for _, no := range unsupported[kind] {
		if no == option {
			return false
		}
	}
	return true
}

// change is what an attributes class says of a volume.
type change struct {
	kind             string
	iops, throughput int32
	iopsPerGB        int32
	moreIOPS         bool
	templates        []string
	tags             map[string]string // of the driver's own
	deletes          []string
	of               claim
}

// readAttributesClass reads the parameters of a VolumeAttributesClass.
func readAttributesClass(parameters map[string]string) (change, error) {
	c := change{tags: map[string]string{}}
	var err error
	for key, value := range parameters {
		switch {
		case key == "iops":
			c.iops, err = parseInt32(key, value)
		case key == "throughput":
			c.throughput, err = parseInt32(key, value)
		case key == "type":
			c.kind = value
		case key == "volumeType": // its earlier name
			if parameters["type"] == "" {
				c.kind = value
			}
		case key == "iopspergb":
			c.iopsPerGB, err = parseInt32("iopsPerGB", value)
			c.tags[tagIOPSPerGB] = value
		case key == "allowautoiopsincreaseonmodify":
			c.moreIOPS = value == "true"
			c.tags[tagMoreIOPS] = strconv.FormatBool(c.moreIOPS)
		case key == "csi.storage.k8s.io/pvc/name":
			c.of.PVCName = value
		case key == "csi.storage.k8s.io/pvc/namespace":
			c.of.PVCNamespace = value
		case key == "csi.storage.k8s.io/pv/name":
			c.of.PVName = value
		case strings.HasPrefix(key, "tagSpecification"):
			c.templates = append(c.templates, value)
		case strings.HasPrefix(key, "tagDeletion"):
			if err = checkTags(map[string]string{value: ""}); err != nil {
				err = csidriver.Invalid("Cannot delete reserved tag: %v", err)
			}
			c.deletes = append(c.deletes, value)
		default:
			return c, csidriver.Invalid("Invalid mutable parameter key: %s", key)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// limits are those of the IOPS of a type: least, most, and most for each GiB.
var limits = map[string][3]int64{"gp3": {3000, 80000, 500}, "io1": {100, 64000, 50}, "io2": {100, 256000, 1000}}

// boundIOPS returns the IOPS that a volume of a type and size can have of those that are wished for. EC2 refuses fewer
// than the least, unless raise is true; and 0, which is its default.
func boundIOPS(kind string, size int32, iops int64, raise bool) int32 {
	l, known := limits[strings.ToLower(kind)]
	if iops <= 0 || !known {
		return int32(min(iops, 1<<30))
	}
	if raise {
		iops = max(iops, l[0])
	}
	iops = min(iops, l[1])
	if ratio := l[2] * int64(size); ratio >= l[0] {
		iops = min(iops, ratio)
	}
	return int32(iops)
}

// checkCapability refuses access modes that EBS does not have.
func checkCapability(c *csi.VolumeCapability) bool {
	switch c.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:
		return true
	case csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return c.GetBlock() != nil
	}
	return false
}

func checkCapabilities(all []*csi.VolumeCapability) bool {
	for _, c := range all {
		if !checkCapability(c) {
			return false
		}
	}
	return true
}

const gib = 1 << 30

// roundSize returns the size in GiB that satisfies a range.
func roundSize(r *csi.CapacityRange, otherwise int64) (int32, error) {
	size := otherwise
	if r != nil {
		size = (r.GetRequiredBytes() + gib - 1) / gib
		if limit := r.GetLimitBytes(); limit > 0 && limit < size*gib {
			return 0, csidriver.Invalid("After round-up, volume size exceeds the limit specified")
		}
	}
	if size < 0 || size > 1<<30 {
		return 0, csidriver.Invalid("the size of %d bytes is no size of a volume", r.GetRequiredBytes())
	}
	return int32(size), nil
}
