package nodegroup

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/instancetype"
)

// maxInstanceTypes is the maximum number of instance types of a group.
const maxInstanceTypes = 20

// instanceTypes returns the instance types of a new group: those of the request, none where the user's launch template
// has one, or a default.
func instanceTypes(g exception.About, kind types.AMITypes, asked []string, template *usersTemplate) ([]string, error) {
	if own := template.instanceType(); own != "" {
		if len(asked) > 0 {
			return nil, g.InvalidRequest("Cannot specify instance types in launch template and API request")
		}
		return nil, checkInstanceTypes(g, kind, []string{own})
	}
	if len(asked) == 0 {
		asked = []string{"t3.medium"}
		if nodeImages[kind].architecture == instancetype.ARM64 {
			asked = []string{"t4g.medium"}
		}
	}
	return asked, checkInstanceTypes(g, kind, asked)
}

// checkInstanceTypes demands that instance types exist and can run the images of an AMI type.
func checkInstanceTypes(g exception.About, kind types.AMITypes, names []string) error {
	if len(names) > maxInstanceTypes {
		return g.InvalidParameter("instanceTypes can have up to %d members, but has %d", maxInstanceTypes, len(names))
	}
	var unknown, unfit []string
	architectures := map[string]string{} // the first type of each
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return g.InvalidParameter("Instance type %s is specified more than once", name)
		}
		t, ok := instancetype.Get(name)
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		if _, ok := architectures[t.Architecture]; !ok {
			architectures[t.Architecture] = name
		}
		if image, ok := nodeImages[kind]; ok &&
			(t.Architecture != image.architecture || image.variant == ami.Nvidia && t.GPUManufacturer != "NVIDIA") {
			unfit = append(unfit, name)
		}
	}
	switch {
	case unknown != nil:
		return g.InvalidParameter(
			"The following supplied instance types do not exist: [%s]", strings.Join(unknown, ", "),
		)
	case unfit != nil:
		return g.InvalidParameter(
			"[%s] is not a valid instance type for requested amiType %s", strings.Join(unfit, ", "), kind,
		)
	case len(architectures) > 1: // a custom image is of one architecture, whichever
		return g.InvalidParameter(
			"Instance types of different architectures can't be in one nodegroup: %s is of %s, and %s is of %s",
			architectures[instancetype.X86_64], instancetype.X86_64, architectures[instancetype.ARM64], instancetype.ARM64,
		)
	}
	return nil
}

const (
	defaultDiskSize = 20    // GiB
	biggestDisk     = 16384 // GiB, of a gp2 volume
)

// diskSize returns the size of a group's root volumes in GiB; 0 when the launch template determines it.
func diskSize(g exception.About, asked *int32, template *usersTemplate) (int32, error) {
	switch {
	case template != nil && asked != nil:
		return 0, g.InvalidParameter("Disk size must be specified within the launch template.")
	case template != nil:
		return 0, nil
	case asked == nil:
		return defaultDiskSize, nil
	case *asked < 1 || *asked > biggestDisk:
		return 0, g.InvalidParameter("diskSize %d is invalid: it must be between 1 and %d GiB", *asked, biggestDisk)
	}
	return *asked, nil
}
