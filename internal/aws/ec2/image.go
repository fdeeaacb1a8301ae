package ec2

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// isAlias reports whether an image is named by a Systems Manager parameter.
func isAlias(imageID string) bool { return strings.HasPrefix(imageID, "resolve:ssm:") }

// imageAsked is the image with that ID, or that a public Systems Manager parameter names
// ("resolve:ssm:/aws/service/...").
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html#use-an-ssm-parameter-instead-of-an-ami-id
func imageAsked(in scope, asked *string) (ami.Image, error) {
	id := aws.ToString(asked)
	if id == "" {
		return ami.Image{}, missing("ImageId")
	}
	if path, ok := strings.CutPrefix(id, "resolve:ssm:"); ok {
		value, ok := ami.Parameters(in.region)[path]
		if !ok {
			return ami.Image{}, invalid(
				"Unable to resolve SSM parameter '%s'. Only the public parameters of Amazon's images can be resolved.",
				path)
		}
		id = value
	}
	if err := imageNames.validate(id); err != nil {
		return ami.Image{}, err
	}
	image, ok := ami.Get(in.region, id)
	if !ok {
		return image, wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	return image, nil
}

var imageNames = naming{resource: types.ResourceTypeImage, prefix: "ami-", param: "ImageId",
	malformed: "InvalidAMIID.Malformed", notFound: "InvalidAMIID.NotFound"}

func viewImage(i ami.Image) types.Image {
	v := types.Image{
		Architecture: types.ArchitectureValues(i.Architecture), BlockDeviceMappings: imageDevices(i),
		BootMode:                 types.BootModeValuesUefiPreferred,
		CreationDate:             aws.String(i.CreatedAt.Format("2006-01-02T15:04:05.000Z")),
		DeprecationTime:          aws.String(i.CreatedAt.AddDate(2, 0, 0).Format("2006-01-02T15:04:05.000Z")),
		DeregistrationProtection: aws.String("disabled"), Description: aws.String(i.Description),
		EnaSupport: aws.Bool(true), Hypervisor: types.HypervisorTypeXen,
		ImageAllowed: aws.Bool(true), ImageId: aws.String(i.ID), ImageLocation: aws.String("amazon/" + i.Name),
		ImageOwnerAlias: aws.String(i.OwnerAlias), ImageType: types.ImageTypeValuesMachine,
		Name: aws.String(i.Name), OwnerId: aws.String(i.Owner), PlatformDetails: aws.String("Linux/UNIX"),
		Public: aws.Bool(true), RootDeviceName: aws.String(i.RootDeviceName),
		RootDeviceType: types.DeviceTypeEbs, SriovNetSupport: aws.String("simple"), State: types.ImageStateAvailable,
		UsageOperation:     aws.String("RunInstances"),
		VirtualizationType: types.VirtualizationTypeHvm,
	}
	if i.Architecture == "arm64" {
		v.BootMode = types.BootModeValuesUefi
	}
	if i.Family == ami.AL2023 {
		v.ImdsSupport = types.ImdsSupportValuesV20
	}
	return v
}

// imageHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) imageHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeImages, onRegion),
	}
}

// DescribeImages lists Amazon's images. Nobody has images of his own: coracle makes none.
func (s *Service) DescribeImages(ctx context.Context, in *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error) {
	sc, err := scopeOf(ctx)
	if err != nil {
		return nil, err
	}
	var images []ami.Image
	if len(in.ImageIds) == 0 {
		images = ami.All(sc.region)
	}
	var unknown []string
	for _, id := range in.ImageIds {
		if err := imageNames.validate(id); err != nil {
			return nil, err
		}
		if i, ok := ami.Get(sc.region, id); ok {
			images = append(images, i)
		} else {
			unknown = append(unknown, id)
		}
	}
	switch len(unknown) {
	case 0:
	case 1:
		return nil, wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", unknown[0])
	default:
		return nil, wire.Errorf("InvalidAMIID.NotFound", "The image ids '[%s]' do not exist",
			strings.Join(unknown, ", "))
	}
	slices.SortFunc(images, func(a, b ami.Image) int { return cmp.Compare(a.ID, b.ID) })
	var items []item[types.Image]
	for _, i := range slices.CompactFunc(images, func(a, b ami.Image) bool { return a.ID == b.ID }) {
		owned := len(in.Owners) == 0 || slices.Contains(in.Owners, i.Owner) || slices.Contains(in.Owners, i.OwnerAlias)
		executable := len(in.ExecutableUsers) == 0 || slices.Contains(in.ExecutableUsers, "all")
		if owned && executable {
			items = append(items, item[types.Image]{i.ID, viewImage(i)})
		}
	}
	found, next, err := describeItems(ctx, query{in.DryRun, in.ImageIds, in.Filters, in.MaxResults, in.NextToken},
		"imageIds", items, imageFilters, func(x types.Image) []types.Tag { return x.Tags })
	if found == nil {
		found = []types.Image{}
	}
	return &ec2.DescribeImagesOutput{Images: found, NextToken: next}, err
}

// imageFilters are the filters of DescribeImages.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
var imageFilters = func() filters[types.Image] {
	type v = types.Image
	none := func(v) []string { return nil }
	return mergeFilters(filters[v]{
		"architecture":              enumFilter(func(x v) types.ArchitectureValues { return x.Architecture }),
		"creation-date":             stringFilter(func(x v) *string { return x.CreationDate }),
		"description":               stringFilter(func(x v) *string { return x.Description }),
		"ena-support":               boolFilter(func(x v) *bool { return x.EnaSupport }),
		"free-tier-eligible":        boolFilter(func(x v) *bool { return x.FreeTierEligible }),
		"hypervisor":                enumFilter(func(x v) types.HypervisorType { return x.Hypervisor }),
		"image-allowed":             boolFilter(func(x v) *bool { return x.ImageAllowed }),
		"image-id":                  stringFilter(func(x v) *string { return x.ImageId }),
		"image-type":                enumFilter(func(x v) types.ImageTypeValues { return x.ImageType }),
		"is-public":                 boolFilter(func(x v) *bool { return x.Public }),
		"kernel-id":                 none,
		"manifest-location":         stringFilter(func(x v) *string { return x.ImageLocation }),
		"name":                      stringFilter(func(x v) *string { return x.Name }),
		"owner-alias":               stringFilter(func(x v) *string { return x.ImageOwnerAlias }),
		"owner-id":                  stringFilter(func(x v) *string { return x.OwnerId }),
		"platform":                  none,
		"platform-details":          stringFilter(func(x v) *string { return x.PlatformDetails }),
		"product-code":              none,
		"product-code.type":         none,
		"ramdisk-id":                none,
		"root-device-name":          stringFilter(func(x v) *string { return x.RootDeviceName }),
		"root-device-type":          enumFilter(func(x v) types.DeviceType { return x.RootDeviceType }),
		"source-image-id":           none,
		"source-image-region":       none,
		"source-instance-id":        none,
		"sriov-net-support":         stringFilter(func(x v) *string { return x.SriovNetSupport }),
		"state":                     enumFilter(func(x v) types.ImageState { return x.State }),
		"state-reason-code":         none,
		"state-reason-message":      none,
		"usage-operation":           stringFilter(func(x v) *string { return x.UsageOperation }),
		"virtualization-type":       enumFilter(func(x v) types.VirtualizationType { return x.VirtualizationType }),
		"imds-support":              enumFilter(func(x v) types.ImdsSupportValues { return x.ImdsSupport }),
		"boot-mode":                 enumFilter(func(x v) types.BootModeValues { return x.BootMode }),
		"tpm-support":               none,
		"deregistration-protection": stringFilter(func(x v) *string { return x.DeregistrationProtection }),
	}, prefixed("block-device-mapping.", func(x v) []types.BlockDeviceMapping { return x.BlockDeviceMappings },
		filters[types.BlockDeviceMapping]{
			"delete-on-termination": boolFilter(
				func(b types.BlockDeviceMapping) *bool { return b.Ebs.DeleteOnTermination }),
			"device-name": stringFilter(func(b types.BlockDeviceMapping) *string { return b.DeviceName }),
			"encrypted":   boolFilter(func(b types.BlockDeviceMapping) *bool { return b.Ebs.Encrypted }),
			"snapshot-id": stringFilter(func(b types.BlockDeviceMapping) *string { return b.Ebs.SnapshotId }),
			"volume-size": intFilter(func(b types.BlockDeviceMapping) *int32 { return b.Ebs.VolumeSize }),
			"volume-type": enumFilter(
				func(b types.BlockDeviceMapping) types.VolumeType { return b.Ebs.VolumeType }),
		}))
}()
