//go:build linux

package efscsi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

// The parameters of storage classes, and what the provisioner adds to them.
const (
	parameterAZ           = "az"
	parameterBasePath     = "basePath"
	parameterConfigRef    = "fileSystemIdConfigRef"
	parameterFileSystem   = "fileSystemId"
	parameterGID          = "gid"
	parameterGIDFirst     = "gidRangeStart"
	parameterGIDLast      = "gidRangeEnd"
	parameterMode         = "provisioningMode"
	parameterPermissions  = "directoryPerms"
	parameterReuse        = "reuseAccessPoint"
	parameterSecretRef    = "fileSystemIdSecretRef"
	parameterSubPath      = "subPathPattern"
	parameterTagging      = "enableTagging"
	parameterUID          = "uid"
	parameterUnique       = "ensureUniqueDirectory"
	parameterZoneAffinity = "enforceZoneAffinity"

	pvName       = "csi.storage.k8s.io/pv/name"
	pvcName      = "csi.storage.k8s.io/pvc/name"
	pvcNamespace = "csi.storage.k8s.io/pvc/namespace"
)

// modeAccessPoint is the provisioning mode of volumes that are access points.
const modeAccessPoint = "efs-ap"

// The groups that volumes get, where their class says none.
const (
	firstGID        = 50000
	maxAccessPoints = 10000 // of a file system
)

// wanted is what a storage class says of a volume.
type wanted struct {
	fileSystem, zone              string
	token                         string // of the client, which makes one access point
	reuse, zoneAffinity, untagged bool
	permissions                   string
	basePath, directory           string
	uid, gid                      *int64 // nil: of the range
	first, last                   int64  // the range of groups
}

// readClass reads the parameters of a request for a volume, but for the file system.
func readClass(r *csi.CreateVolumeRequest) (w wanted, err error) {
	p := r.GetParameters()
	w = wanted{token: r.GetName(), zone: p[parameterAZ], permissions: p[parameterPermissions],
		basePath: p[parameterBasePath]}
	tagged := true
	for name, into := range map[string]*bool{parameterReuse: &w.reuse, parameterZoneAffinity: &w.zoneAffinity,
		parameterTagging: &tagged} {
		if value, ok := p[name]; ok {
			if *into, err = strconv.ParseBool(value); err != nil {
				return w, csidriver.Invalid("Invalid value for %s parameter", name)
			}
		}
	}
	w.untagged = !tagged
	if w.reuse { // by a claim of the same name, of whatever cluster
		sum := sha256.Sum256([]byte(p[pvcName]))
		w.token = hex.EncodeToString(sum[:])
	}
	switch mode, ok := p[parameterMode]; {
	case !ok:
		return w, csidriver.Invalid("Missing %v parameter", parameterMode)
	case mode != modeAccessPoint:
		return w, csidriver.Invalid("Provisioning mode %s is not supported. Only Access point provisioning '%s' is "+
			"supported", mode, modeAccessPoint)
	}
	if w.uid, err = readID(p, parameterUID); err != nil {
		return w, err
	}
	if w.gid, err = readID(p, parameterGID); err != nil {
		return w, err
	}
	if err := w.readRange(p); err != nil {
		return w, err
	}
	w.directory, err = readDirectory(r.GetName(), p)
	return w, err
}

// readID reads the ID of a user or group; nil when there is none.
func readID(p map[string]string, name string) (*int64, error) {
	value, ok := p[name]
	if !ok {
		return nil, nil
	}
	id, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, csidriver.Invalid("Failed to parse invalid %v: %v", name, err)
	}
	if id < 0 {
		return nil, csidriver.Invalid("%v must be greater or equal than 0", name)
	}
	return &id, nil
}

// readRange reads the range of groups.
func (w *wanted) readRange(p map[string]string) error {
	first, err := readID(p, parameterGIDFirst)
	if err != nil {
		return err
	}
	last, err := readID(p, parameterGIDLast)
	switch {
	case err != nil:
		return err
	case first == nil && last == nil:
		w.first, w.last = firstGID, firstGID+maxAccessPoints
		return nil
	case first == nil:
		return csidriver.Invalid("Missing %v parameter", parameterGIDFirst)
	case *first == 0:
		return csidriver.Invalid("%v must be greater than 0", parameterGIDFirst)
	case last == nil:
		return csidriver.Invalid("Missing %v parameter", parameterGIDLast)
	case *last <= *first:
		return csidriver.Invalid("%v must be greater than %v", parameterGIDLast, parameterGIDFirst)
	}
	w.first, w.last = *first, *last
	return nil
}

// freeID returns the first ID of the range that no access point has.
func (w *wanted) freeID(points []types.AccessPointDescription) (int64, bool) {
	used := make(map[int64]bool)
	for _, p := range points {
		if p.PosixUser != nil {
			used[aws.ToInt64(p.PosixUser.Gid)] = true
		}
	}
	for id := w.first; id <= min(w.last, w.first+maxAccessPoints); id++ {
		if !used[id] {
			return id, true
		}
	}
	return 0, false
}

// readDirectory returns the root directory of the access point of a volume.
func readDirectory(name string, p map[string]string) (string, error) {
	if pattern, ok := p[parameterSubPath]; ok {
		name = strings.NewReplacer("${.PVC.name}", p[pvcName], "${.PVC.namespace}", p[pvcNamespace],
			"${.PV.name}", p[pvName]).Replace(pattern)
		if strings.Contains(name, "${") || strings.Contains(name, "}") {
			return "", csidriver.Invalid("Path specified %q contains invalid elements. Can only contain %v", pattern,
				[]string{".PV.name", ".PVC.name", ".PVC.namespace"})
		}
		if unique, err := strconv.ParseBool(p[parameterUnique]); err != nil || unique {
			name += "-" + uuid.NewString()
		}
	}
	directory := path.Join("/", p[parameterBasePath], name)
	if len(directory) > 100 {
		return "", csidriver.Invalid("Proposed path '%s' exceeds file system limit of 100 characters", directory)
	}
	if strings.Count(directory, "/") > 5 {
		return "", csidriver.Invalid("Proposed path '%s' file system limit of 4 subdirectories", directory)
	}
	return directory, nil
}

// check returns why an access point that is there is not that of the volume.
func (w *wanted) check(p *types.AccessPointDescription) error {
	var root string
	if p.RootDirectory != nil {
		root = aws.ToString(p.RootDirectory.Path)
	}
	within := func(id *int64, want *int64) bool {
		if want != nil {
			return aws.ToInt64(id) == *want
		}
		return aws.ToInt64(id) >= w.first && aws.ToInt64(id) <= w.last
	}
	switch {
	case !strings.HasPrefix(strings.TrimPrefix(root, "/"), strings.TrimPrefix(w.basePath, "/")):
		return errors.New("Access point found but has different base path than what's specified in storage class")
	case p.PosixUser == nil:
		return errors.New("Access point found but PosixUser is nil")
	case !within(p.PosixUser.Gid, w.gid):
		return errors.New("Access point found but its GID is incorrect, or outside the specified range")
	case !within(p.PosixUser.Uid, w.uid):
		return errors.New("Access point found but its UID is incorrect, or outside the specified range")
	}
	return nil
}

// readFileSystem returns the file system of a class: its ID, or that in a ConfigMap or Secret.
func readFileSystem(ctx context.Context, p map[string]string, api func() (*csidriver.Kubernetes, error)) (
	string, error) {
	fail := func(format string, args ...any) (string, error) {
		return "", csidriver.Invalid("Failed to resolve filesystem Id %v", fmt.Errorf(format, args...))
	}
	var given []string
	for _, name := range []string{parameterFileSystem, parameterConfigRef, parameterSecretRef} {
		if strings.TrimSpace(p[name]) != "" {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 0:
		return fail("one of fileSystemId, fileSystemIdConfigRef, or fileSystemIdSecretRef must be specified")
	case len(given) > 1:
		return fail("only one of fileSystemId, fileSystemIdConfigRef, or fileSystemIdSecretRef can be specified")
	case given[0] == parameterFileSystem:
		return strings.TrimSpace(p[parameterFileSystem]), nil
	}
	reference := strings.Split(p[given[0]], "/")
	for i := range reference {
		reference[i] = strings.TrimSpace(reference[i])
	}
	if len(reference) != 3 || slices.Contains(reference, "") {
		return fail("invalid %s reference: invalid reference format, expected namespace/name/key, got: %s", given[0],
			p[given[0]])
	}
	k, err := api()
	if err != nil {
		return fail("%w", err)
	}
	namespace, name, key := url.PathEscape(reference[0]), url.PathEscape(reference[1]), reference[2]
	of := "/api/v1/namespaces/" + namespace
	var id string
	if given[0] == parameterConfigRef {
		var m corev1.ConfigMap
		err = k.Get(ctx, of+"/configmaps/"+name, &m)
		id = m.Data[key]
	} else {
		var s corev1.Secret
		err = k.Get(ctx, of+"/secrets/"+name, &s)
		id = string(s.Data[key])
	}
	if err != nil {
		return fail("failed to get %s %s/%s: %w", given[0], namespace, name, err)
	}
	if id = strings.TrimSpace(id); id == "" {
		return fail("key %s not found or empty in %s %s/%s", key, given[0], namespace, name)
	}
	return id, nil
}
