package nodegroup

import (
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/record"
)

// imageKind is the image that an AMI type stands for.
type imageKind struct {
	family       ami.Family
	architecture string
	variant      string
}

// resolveImageKind returns what an AMI type stands for; false for CUSTOM and for types of which there are no images.
func resolveImageKind(t ekstypes.AMITypes) (imageKind, bool) {
	name := string(t)
	k := imageKind{architecture: "x86_64", variant: ami.Standard}
	switch {
	case strings.HasPrefix(name, "AL2023_"):
		k.family = ami.AL2023
	case strings.HasPrefix(name, "AL2_"):
		k.family = ami.AL2
	case strings.HasPrefix(name, "BOTTLEROCKET_"):
		k.family = ami.Bottlerocket
	default:
		return k, false
	}
	if strings.Contains(name, "ARM_64") {
		k.architecture = "arm64"
	}
	if strings.HasSuffix(name, "_GPU") || strings.Contains(name, "_NVIDIA") {
		k.variant = ami.Nvidia
	}
	return k, !strings.HasSuffix(name, "_NEURON")
}

// findImage returns the EKS-optimized image of a template.
func (g *group) findImage(want record.NodegroupTemplate) (ami.Image, error) {
	kind, ok := resolveImageKind(g.row.AMIType)
	if ok {
		for _, i := range ami.All(g.row.Region) {
			if i.Family == kind.family && i.Architecture == kind.architecture && i.Variant == kind.variant &&
				i.KubernetesVersion == want.Version && i.Release == want.ReleaseVersion {
				return i, nil
			}
		}
	}
	return ami.Image{}, &problem{ekstypes.Issue{
		Code: ekstypes.NodegroupIssueCodeAmiIdNotFound,
		Message: ptr(fmt.Sprintf("There is no AMI of the type %s with the release version %s for Kubernetes %s.",
			g.row.AMIType, want.ReleaseVersion, want.Version)),
		ResourceIds: []string{g.row.Name},
	}}
}

// isCustomAMI reports whether the nodes' image is the user's own.
func (g *group) isCustomAMI() bool { return g.row.AMIType == ekstypes.AMITypesCustom }

// isSpotCapacity reports whether the nodes are spot instances.
func (g *group) isSpotCapacity() bool { return g.row.CapacityType == ekstypes.CapacityTypesSpot }
