//go:build linux

package efscsi

import (
	"path"
	"regexp"
	"strings"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

var (
	fileSystemID  = regexp.MustCompile(`^fs-[0-9a-f]{8,40}$`)
	accessPointID = regexp.MustCompile(`^fsap-[0-9a-f]{8,40}$`)
)

// volume is what the ID of a volume says: "fs-...", "fs-...:/path", "fs-...::fsap-...", all with "efs:" before or not.
type volume struct {
	fileSystem, path, accessPoint string
}

// parseVolume reads the ID of a volume.
func parseVolume(id string) (v volume, err error) {
	fields, most := strings.Split(id, ":"), "three"
	switch fields[0] {
	case "efs":
		fields, most = fields[1:], "four"
	case "s3files":
		return v, csidriver.Invalid("volume ID '%s' is invalid: S3 Files file systems are not supported", id)
	}
	if len(fields) > 3 {
		return v, csidriver.Invalid("volume ID '%s' is invalid: Expected at most %s fields separated by ':'", id,
			most)
	}
	if len(fields) == 0 {
		return v, csidriver.Invalid("volume ID '%s' is invalid: Missing file system ID", id)
	}
	if v.fileSystem = fields[0]; !fileSystemID.MatchString(v.fileSystem) {
		return v, csidriver.Invalid(
			"volume ID '%s' is invalid: Expected a file system ID of the form 'fs-[0-9a-f]{8,40}'", id)
	}
	if len(fields) > 1 && fields[1] != "" {
		v.path = path.Clean(fields[1])
	}
	if len(fields) > 2 && fields[2] != "" {
		if v.accessPoint = fields[2]; !accessPointID.MatchString(v.accessPoint) {
			return v, csidriver.Invalid("volume ID '%s' has an invalid access point ID '%s': Expected it to be of the form "+
				"'fsap-[0-9a-f]{8,40}'", id, v.accessPoint)
		}
	}
	return v, nil
}
