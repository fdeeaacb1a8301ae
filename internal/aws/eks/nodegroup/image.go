package nodegroup

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/kubernetes"
)

// nodeImage is which images an AMI type means.
type nodeImage struct {
	family                ami.Family
	architecture, variant string
}

// nodeImages are the AMI types that there are images of. Those of Amazon Linux 2 are of groups from before they were
// refused; see checkAMIType.
var nodeImages = map[types.AMITypes]nodeImage{
	types.AMITypesAl2X8664:                {ami.AL2, instancetype.X86_64, ami.Standard},
	types.AMITypesAl2X8664Gpu:             {ami.AL2, instancetype.X86_64, ami.Nvidia},
	types.AMITypesAl2Arm64:                {ami.AL2, instancetype.ARM64, ami.Standard},
	types.AMITypesAl2023X8664Standard:     {ami.AL2023, instancetype.X86_64, ami.Standard},
	types.AMITypesAl2023Arm64Standard:     {ami.AL2023, instancetype.ARM64, ami.Standard},
	types.AMITypesAl2023X8664Nvidia:       {ami.AL2023, instancetype.X86_64, ami.Nvidia},
	types.AMITypesAl2023Arm64Nvidia:       {ami.AL2023, instancetype.ARM64, ami.Nvidia},
	types.AMITypesBottlerocketX8664:       {ami.Bottlerocket, instancetype.X86_64, ami.Standard},
	types.AMITypesBottlerocketArm64:       {ami.Bottlerocket, instancetype.ARM64, ami.Standard},
	types.AMITypesBottlerocketX8664Nvidia: {ami.Bottlerocket, instancetype.X86_64, ami.Nvidia},
	types.AMITypesBottlerocketArm64Nvidia: {ami.Bottlerocket, instancetype.ARM64, ami.Nvidia},
}

// setImage decides what a new group's nodes run: the image of the user's launch template, or one of EKS's for the
// group's AMI type and version.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-custom-ami
func setImage(
	g exception.About, n *record.Nodegroup, c record.Cluster, template *usersTemplate, in *eks.CreateNodegroupInput,
) error {
	version, release := aws.ToString(in.Version), aws.ToString(in.ReleaseVersion)
	if image := template.image(); image != "" {
		if in.AmiType != "" && in.AmiType != types.AMITypesCustom {
			return g.InvalidParameter(
				"You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch " +
					"template.",
			)
		}
		if err := noVersions(g, version, release); err != nil {
			return err
		}
		n.AMIType = types.AMITypesCustom
		n.Template = record.NodegroupTemplate{ReleaseVersion: image, LaunchTemplate: &template.spec}
		return nil
	}
	var err error
	if n.AMIType, err = amiType(g, in.AmiType, template); err != nil {
		return err
	}
	if version == "" {
		version = c.Version
	}
	if err := nodeVersion(g, version, c.Version); err != nil {
		return err
	}
	if err := checkAMIType(g, n.AMIType, version); err != nil {
		return err
	}
	image, err := nodeRelease(g, n.Region, n.AMIType, version, release)
	n.Template = record.NodegroupTemplate{Version: version, ReleaseVersion: image.Release}
	if template != nil {
		n.Template.LaunchTemplate = &template.spec
	}
	return err
}

// noVersions refuses versions beside an image that the user chose.
func noVersions(g exception.About, version, release string) error {
	switch {
	case version != "":
		return g.InvalidParameter(
			"You cannot specify a kubernetes version to use when specifying an image id to use within the launch " +
				"template.",
		)
	case release != "":
		return g.InvalidParameter(
			"You cannot specify a release version to use when specifying an image id to use within the launch " +
				"template.",
		)
	}
	return nil
}

// amiType returns the AMI type of a group without an image of its own: as on EKS the standard image of Amazon Linux
// 2023 for x86 unless the request names another, whatever the instance types.
func amiType(g exception.About, asked types.AMITypes, template *usersTemplate) (types.AMITypes, error) {
	if asked == "" {
		return types.AMITypesAl2023X8664Standard, nil
	}
	if _, ok := nodeImages[asked]; ok {
		return asked, nil
	}
	switch {
	case asked == types.AMITypesCustom && template == nil:
		return "", g.InvalidParameter("Launch template details can't be null for Custom ami type node group")
	case asked == types.AMITypesCustom:
		return "", g.InvalidParameter(
			"You must specify an image id within the launch template when the AMI Type is CUSTOM.",
		)
	}
	return "", g.InvalidParameter(
		"amiType %s is not implemented by Coracle, which has no such images: use one of AL2023, or Bottlerocket "+
			"without FIPS",
		asked,
	)
}

// lastOfAL2 is the last minor version of Kubernetes for which EKS has images of Amazon Linux 2.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html
const lastOfAL2 = "1.32"

// checkAMIType refuses an AMI type that EKS does not offer for a version of Kubernetes.
func checkAMIType(g exception.About, kind types.AMITypes, version string) error {
	if nodeImages[kind].family == ami.AL2 && kubernetes.MinorNumber(version) > kubernetes.MinorNumber(lastOfAL2) {
		return g.InvalidParameter(
			"AMI Type %s is only supported for kubernetes versions %s or earlier", kind, lastOfAL2,
		)
	}
	return nil
}

// oldestNode is the number of minor versions that a kubelet may be behind its API server.
// https://kubernetes.io/releases/version-skew-policy/#kubelet
const oldestNode = 3

// nodeVersion checks a group's minor version against its cluster's.
func nodeVersion(g exception.About, version, cluster string) error {
	switch _, ok := kubernetes.Lookup(version); {
	case !ok:
		return g.InvalidParameter("unsupported Kubernetes version")
	case kubernetes.MinorNumber(version) > kubernetes.MinorNumber(cluster):
		return g.InvalidParameter(
			"The Kubernetes version of a nodegroup can't be newer than that of its cluster: %s was requested, and the "+
				"cluster has %s",
			version,
			cluster,
		)
	case kubernetes.MinorNumber(version) < kubernetes.MinorNumber(cluster)-oldestNode:
		return g.InvalidParameter(
			"The Kubernetes version of a nodegroup can't be more than %d minor versions older than that of its "+
				"cluster: %s was requested, and the cluster has %s",
			oldestNode,
			version,
			cluster,
		)
	}
	return nil
}

// releases returns the images of an AMI type for a version of Kubernetes, newest first.
func releases(region string, kind types.AMITypes, version string) []ami.Image {
	wanted := nodeImages[kind]
	var out []ami.Image
	for _, i := range ami.All(region) {
		if i.KubernetesVersion == version && (nodeImage{i.Family, i.Architecture, i.Variant}) == wanted {
			out = append(out, i)
		}
	}
	return out
}

// nodeRelease returns the image of a release; of the newest one unless a release is requested.
func nodeRelease(g exception.About, region string, kind types.AMITypes, version, release string) (ami.Image, error) {
	all := releases(region, kind, version)
	if release == "" && len(all) > 0 {
		return all[0], nil
	}
	for _, i := range all {
		if i.Release == release {
			return i, nil
		}
	}
	return ami.Image{}, g.InvalidParameter(
		"Requested release version %s is not valid for kubernetes version %s.", release, version,
	)
}
