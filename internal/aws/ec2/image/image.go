package image

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// IsAlias reports whether an image is named by a Systems Manager parameter.
func IsAlias(imageID string) bool { return strings.HasPrefix(imageID, "resolve:ssm:") }

// Requested returns the image with that ID, or that a public Systems Manager parameter names
// ("resolve:ssm:/aws/service/...").
//
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html#use-an-ssm-parameter-instead-of-an-ami-id
func Requested(sc resource.Scope, asked *string) (ami.Image, error) {
	id := aws.ToString(asked)
	if id == "" {
		return ami.Image{}, resource.MissingParameter("ImageId")
	}
	if path, ok := strings.CutPrefix(id, "resolve:ssm:"); ok {
		value, ok := ami.Parameters(sc.Region)[path]
		if !ok {
			return ami.Image{}, resource.Invalid(
				"Unable to resolve SSM parameter '%s'. Only the public parameters of Amazon's images can be resolved.",
				path)
		}
		id = value
	}
	if err := imageNames.Validate(id); err != nil {
		return ami.Image{}, err
	}
	image, ok := ami.Get(sc.Region, id)
	if !ok {
		return image, wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	return image, nil
}

var imageNames = resource.Naming{Resource: types.ResourceTypeImage, Prefix: "ami-", Parameter: "ImageId",
	Malformed: "InvalidAMIID.Malformed", NotFound: "InvalidAMIID.NotFound"}

func viewImage(i ami.Image) types.Image {
	v := types.Image{
		Architecture: types.ArchitectureValues(i.Architecture), BlockDeviceMappings: BlockDevices(i),
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

// imageHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) imageHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeImages, resource.OnRegion),
	}
}

// DescribeImages lists Amazon's images. Nobody has images of his own: coracle makes none.
func (s *Service) DescribeImages(ctx context.Context, in *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error) {
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeImages", DryRun: in.DryRun, IDs: in.ImageIds, Filters: in.Filters,
		Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	var images []ami.Image
	if len(in.ImageIds) == 0 {
		images = ami.All(sc.Region)
	}
	var unknown []string
	for _, id := range in.ImageIds {
		if err := imageNames.Validate(id); err != nil {
			return nil, err
		}
		if i, ok := ami.Get(sc.Region, id); ok {
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
	var items []resource.Item[types.Image]
	for _, i := range slices.CompactFunc(images, func(a, b ami.Image) bool { return a.ID == b.ID }) {
		owned := len(in.Owners) == 0 || slices.Contains(in.Owners, i.Owner) || slices.Contains(in.Owners, i.OwnerAlias)
		executable := len(in.ExecutableUsers) == 0 || slices.Contains(in.ExecutableUsers, "all")
		if owned && executable {
			items = append(items, resource.Item[types.Image]{ID: i.ID, View: viewImage(i)})
		}
	}
	found, next, err := resource.DescribeItems(
		ctx, query, items, imageFilters, func(x types.Image) []types.Tag { return x.Tags },
	)
	if found == nil {
		found = []types.Image{}
	}
	return &ec2.DescribeImagesOutput{Images: found, NextToken: next}, err
}

// imageFilters are the filters of DescribeImages.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
var imageFilters = func() resource.Filters[types.Image] {
	type v = types.Image
	none := func(v) []string { return nil }
	return resource.MergeFilters(resource.Filters[v]{
		"architecture":              resource.EnumFilter(func(x v) types.ArchitectureValues { return x.Architecture }),
		"creation-date":             resource.StringFilter(func(x v) *string { return x.CreationDate }),
		"description":               resource.StringFilter(func(x v) *string { return x.Description }),
		"ena-support":               resource.BoolFilter(func(x v) *bool { return x.EnaSupport }),
		"free-tier-eligible":        resource.BoolFilter(func(x v) *bool { return x.FreeTierEligible }),
		"hypervisor":                resource.EnumFilter(func(x v) types.HypervisorType { return x.Hypervisor }),
		"image-allowed":             resource.BoolFilter(func(x v) *bool { return x.ImageAllowed }),
		"image-id":                  resource.StringFilter(func(x v) *string { return x.ImageId }),
		"image-type":                resource.EnumFilter(func(x v) types.ImageTypeValues { return x.ImageType }),
		"is-public":                 resource.BoolFilter(func(x v) *bool { return x.Public }),
		"kernel-id":                 none,
		"manifest-location":         resource.StringFilter(func(x v) *string { return x.ImageLocation }),
		"name":                      resource.StringFilter(func(x v) *string { return x.Name }),
		"owner-alias":               resource.StringFilter(func(x v) *string { return x.ImageOwnerAlias }),
		"owner-id":                  resource.StringFilter(func(x v) *string { return x.OwnerId }),
		"platform":                  none,
		"platform-details":          resource.StringFilter(func(x v) *string { return x.PlatformDetails }),
		"product-code":              none,
		"product-code.type":         none,
		"ramdisk-id":                none,
		"root-device-name":          resource.StringFilter(func(x v) *string { return x.RootDeviceName }),
		"root-device-type":          resource.EnumFilter(func(x v) types.DeviceType { return x.RootDeviceType }),
		"source-image-id":           none,
		"source-image-region":       none,
		"source-instance-id":        none,
		"sriov-net-support":         resource.StringFilter(func(x v) *string { return x.SriovNetSupport }),
		"state":                     resource.EnumFilter(func(x v) types.ImageState { return x.State }),
		"state-reason-code":         none,
		"state-reason-message":      none,
		"usage-operation":           resource.StringFilter(func(x v) *string { return x.UsageOperation }),
		"virtualization-type":       resource.EnumFilter(func(x v) types.VirtualizationType { return x.VirtualizationType }),
		"imds-support":              resource.EnumFilter(func(x v) types.ImdsSupportValues { return x.ImdsSupport }),
		"boot-mode":                 resource.EnumFilter(func(x v) types.BootModeValues { return x.BootMode }),
		"tpm-support":               none,
		"deregistration-protection": resource.StringFilter(func(x v) *string { return x.DeregistrationProtection }),
	}, resource.ElementFilters("block-device-mapping.", func(x v) []types.BlockDeviceMapping {
		return x.BlockDeviceMappings
	},
		resource.Filters[types.BlockDeviceMapping]{
			"delete-on-termination": resource.BoolFilter(
				func(b types.BlockDeviceMapping) *bool { return b.Ebs.DeleteOnTermination }),
			"device-name": resource.StringFilter(func(b types.BlockDeviceMapping) *string { return b.DeviceName }),
			"encrypted":   resource.BoolFilter(func(b types.BlockDeviceMapping) *bool { return b.Ebs.Encrypted }),
			"snapshot-id": resource.StringFilter(func(b types.BlockDeviceMapping) *string { return b.Ebs.SnapshotId }),
			"volume-size": resource.IntFilter(func(b types.BlockDeviceMapping) *int32 { return b.Ebs.VolumeSize }),
			"volume-type": resource.EnumFilter(
				func(b types.BlockDeviceMapping) types.VolumeType { return b.Ebs.VolumeType }),
		}))
}()

// BlockDevices returns the block devices of an image, as DescribeImages shows them.
func BlockDevices(i ami.Image) []types.BlockDeviceMapping {
	kind := types.VolumeTypeGp3
	if i.Family == ami.AL2 {
		kind = types.VolumeTypeGp2
	}
	device := func(name, snapshot string, size int) types.BlockDeviceMapping {
		return types.BlockDeviceMapping{DeviceName: aws.String(name), Ebs: &types.EbsBlockDevice{
			DeleteOnTermination: aws.Bool(true), Encrypted: aws.Bool(false), SnapshotId: resource.OrNil(snapshot),
			VolumeSize: aws.Int32(int32(size)), VolumeType: kind,
		}}
	}
	devices := []types.BlockDeviceMapping{device(i.RootDeviceName, i.RootSnapshotID, i.RootVolumeGiB)}
	if i.DataVolumeGiB > 0 {
		devices = append(devices, device(ami.DataDeviceName, "", i.DataVolumeGiB))
	}
	if kind == types.VolumeTypeGp3 {
		for _, d := range devices {
			d.Ebs.Iops, d.Ebs.Throughput = aws.Int32(3000), aws.Int32(125)
		}
	}
	return devices
}
