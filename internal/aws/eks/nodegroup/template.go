package nodegroup

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"mime"
	"net/mail"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EC2 is the part of the EC2 API that EKS needs: it launches nothing, but has to know whether the caller could.
type EC2 interface {
	RunInstances(context.Context, *ec2.RunInstancesInput) (*ec2.RunInstancesOutput, error)
}

// usersTemplate is the launch template that a user brings; nil for a group without.
type usersTemplate struct {
	spec types.LaunchTemplateSpecification // with ID, name and the number of the version
	data ec2types.RequestLaunchTemplateData
}

func (t *usersTemplate) image() string {
	if t == nil {
		return ""
	}
	return aws.ToString(t.data.ImageId)
}

func (t *usersTemplate) instanceType() string {
	if t == nil {
		return ""
	}
	return string(t.data.InstanceType)
}

// usersTemplate finds the launch template that a request names, which must have nothing in it that is EKS's to say. A
// version is a number from then on, even if "$Latest" was asked for.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-basics
func (s *Service) usersTemplate(
	ctx context.Context, g exception.About, asked *types.LaunchTemplateSpecification,
) (*usersTemplate, error) {
	if asked == nil {
		return nil, nil
	}
	at := resource.ScopeOf(ctx)
	id, name := aws.ToString(asked.Id), aws.ToString(asked.Name)
	if (id == "") == (name == "") {
		return nil, g.InvalidParameter("Either provide launch template ID or launch template name in the request.")
	}
	if id == "" {
		row, err := s.launchTemplateNames.Get(ctx, store.Key(at.Account, at.Region, name))
		if errors.Is(err, store.ErrNotFound) {
			return nil, g.EC2Failure(ctx, "The specified launch template, with template name %s, does not exist.", name)
		} else if err != nil {
			return nil, err
		}
		id = row.Value.TemplateID
	}
	row, err := s.launchTemplates.Get(ctx, record.EC2Key(at.Account, at.Region, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, g.EC2Failure(ctx, "The specified launch template, with template ID %s, does not exist.", id)
	} else if err != nil {
		return nil, err
	}
	number := row.Value.DefaultVersion
	switch version := aws.ToString(asked.Version); version {
	case "", "$Default":
	case "$Latest":
		number = row.Value.LatestVersion
	default:
		if number, err = strconv.ParseInt(version, 10, 64); err != nil || number < 1 {
			return nil, g.InvalidParameter(
				"Invalid launch template version: %s. Either '$Default', '$Latest', or a numeric version are allowed.",
				version,
			)
		}
	}
	v, err := s.launchTemplateVersions.Get(ctx, record.LaunchTemplateVersionKey(at.Account, at.Region, id, number))
	if errors.Is(err, store.ErrNotFound) {
		return nil, g.EC2Failure(
			ctx, "Could not find the specified version %d for the launch template with ID %s.", number, id,
		)
	} else if err != nil {
		return nil, err
	}
	t := &usersTemplate{
		spec: types.LaunchTemplateSpecification{
			Id:      &id,
			Name:    new(row.Value.Name),
			Version: new(strconv.FormatInt(number, 10)),
		},
		data: v.Value.Data,
	}
	return t, t.fault(g)
}

// fault returns an error when a launch template has settings that node groups refuse.
func (t *usersTemplate) fault(g exception.About) error {
	d := t.data
	switch {
	case d.IamInstanceProfile != nil:
		return g.InvalidParameter(
			"IAM instance profile is not supported with the launch template. Specify nodeRole in the request instead.",
		)
	case d.InstanceInitiatedShutdownBehavior != "":
		return g.InvalidParameter("Instance initiated shutdown behavior is not supported with the launch template.")
	case d.HibernationOptions != nil && aws.ToBool(d.HibernationOptions.Configured):
		return g.InvalidParameter("Hibernation options are not supported with the launch template.")
	case d.InstanceMarketOptions != nil:
		return g.InvalidParameter("Instance market options are not supported with the launch template.")
	case d.InstanceRequirements != nil:
		return g.InvalidParameter(
			"Instance requirements are not supported with the launch template. Specify instanceTypes in the request " +
				"instead.",
		)
	}
	for _, i := range d.NetworkInterfaces {
		if i.SubnetId != nil {
			return g.InvalidParameter(
				"Subnets are not supported in network interfaces of the launch template. Specify subnets in the " +
					"request instead.",
			)
		}
	}
	return nil
}

// checkUserData demands that EKS can add its own part to the template's user data, as it must when the image is EKS's.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
func (t *usersTemplate) checkUserData(g exception.About, kind types.AMITypes) error {
	if t == nil || aws.ToString(t.data.UserData) == "" || kind == types.AMITypesCustom {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(*t.data.UserData)
	if err != nil {
		return g.InvalidParameter("User data of the launch template is not valid base64: %v", err)
	}
	if nodeImages[kind].family == ami.Bottlerocket {
		return nil // TOML, which the one who merges it reads
	}
	message, err := mail.ReadMessage(bytes.NewReader(bytes.TrimLeft(text, "\r\n")))
	if err == nil {
		if media, _, err := mime.ParseMediaType(message.Header.Get("Content-Type")); err == nil &&
			strings.HasPrefix(media, "multipart/") {
			return nil
		}
	}
	return g.InvalidParameter("User data was not in the MIME multipart format.")
}

// checkLaunch refuses a launch template from which the caller could not launch a node themself, of every type and in
// every subnet, as AWS does by a dry run. Otherwise a node group would let its owner do what they may not.
func (s *Service) checkLaunch(ctx context.Context, g exception.About, n record.Nodegroup, t *usersTemplate) error {
	if t == nil {
		return nil
	}
	if err := t.checkUserData(g, n.AMIType); err != nil {
		return err
	}
	in := &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateId: t.spec.Id, Version: t.spec.Version},
	}
	if t.image() == "" {
		image, err := nodeRelease(g, n.Region, n.AMIType, n.Template.Version, n.Template.ReleaseVersion)
		if err != nil {
			return err
		}
		in.ImageId = &image.ID
	}
	if n.CapacityType == types.CapacityTypesSpot {
		in.InstanceMarketOptions = &ec2types.InstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeSpot}
	}
	kinds := n.InstanceTypes
	if len(kinds) == 0 {
		kinds = []string{""} // that of the template
	}
	for i := range n.SubnetIDs {
		if len(t.data.NetworkInterfaces) > 0 {
			in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{
				{DeviceIndex: aws.Int32(0), SubnetId: &n.SubnetIDs[i]},
			}
		} else {
			in.SubnetId = &n.SubnetIDs[i]
		}
		for _, kind := range kinds {
			in.InstanceType = ec2types.InstanceType(kind)
			if err := s.tryLaunch(ctx, g, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryLaunch makes a dry run of a launch, as the caller.
func (s *Service) tryLaunch(ctx context.Context, g exception.About, in *ec2.RunInstancesInput) error {
	_, err := s.ec2.RunInstances(wire.WithOperation(ctx, wire.EC2, "RunInstances", in), in)
	var denied *wire.Denied
	var api smithy.APIError
	switch {
	case err == nil:
		return errors.New("a dry run of RunInstances launched something")
	case errors.As(err, &denied):
		return &types.AccessDeniedException{
			Message: new("You are not authorized to launch instances with this launch template: " + denied.Error()),
		}
	case errors.As(err, &api) &&
		(api.ErrorCode() == "DryRunOperation" || api.ErrorCode() == "InsufficientFreeAddressesInSubnet"):
		return nil // how many addresses are free, launches will see
	case errors.As(err, &api):
		return g.EC2Failure(ctx, "%s", api.ErrorMessage())
	}
	return err
}
