package instance

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/ec2/launchtemplate"
	"github.com/coracle-eks/coracle/internal/aws/ec2/networkinterface"
	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/ec2/volume"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// instanceAttributeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) instanceAttributeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeInstanceAttribute, resource.Touching[ec2.DescribeInstanceAttributeInput](s.Records)),
		wire.Handle(s.ModifyInstanceAttribute, resource.Touching[ec2.ModifyInstanceAttributeInput](s.Records)),
		wire.Handle(s.ResetInstanceAttribute, resource.Touching[ec2.ResetInstanceAttributeInput](s.Records)),
		wire.Handle(s.ModifyInstanceMetadataOptions, resource.Touching[ec2.ModifyInstanceMetadataOptionsInput](s.Records)),
		wire.Handle(s.ModifyPrivateDnsNameOptions, resource.Touching[ec2.ModifyPrivateDnsNameOptionsInput](s.Records)),
		wire.Handle(
			s.ModifyInstanceMaintenanceOptions,
			resource.Touching[ec2.ModifyInstanceMaintenanceOptionsInput](s.Records),
		),
		wire.Handle(s.DescribeInstanceCreditSpecifications, resource.OnRegion),
	}
}

// DescribeInstanceAttribute shows one attribute of an instance.
func (s *Service) DescribeInstanceAttribute(ctx context.Context, in *ec2.DescribeInstanceAttributeInput) (
	*ec2.DescribeInstanceAttributeOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Instances.GetRecord(sc, in.InstanceId)
	if err != nil {
		return nil, err
	}
	related, err := s.loadRelated(sc, []record.Instance{r})
	if err != nil {
		return nil, err
	}
	v := s.viewInstance(sc, r, related)
	out := &ec2.DescribeInstanceAttributeOutput{InstanceId: in.InstanceId}
	switch in.Attribute {
	case types.InstanceAttributeNameInstanceType:
		out.InstanceType = &types.AttributeValue{Value: aws.String(string(r.InstanceType))}
	case types.InstanceAttributeNameKernel:
		out.KernelId = &types.AttributeValue{}
	case types.InstanceAttributeNameRamdisk:
		out.RamdiskId = &types.AttributeValue{}
	case types.InstanceAttributeNameUserData:
		out.UserData = &types.AttributeValue{}
		if len(r.UserData) > 0 {
			out.UserData.Value = resource.Base64(r.UserData)
		}
	case types.InstanceAttributeNameDisableApiTermination:
		out.DisableApiTermination = resource.BooleanAttribute(r.DisableAPITermination)
	case types.InstanceAttributeNameDisableApiStop:
		out.DisableApiStop = resource.BooleanAttribute(r.DisableAPIStop)
	case types.InstanceAttributeNameInstanceInitiatedShutdownBehavior:
		out.InstanceInitiatedShutdownBehavior = &types.AttributeValue{Value: aws.String(string(r.ShutdownBehavior))}
	case types.InstanceAttributeNameRootDeviceName:
		out.RootDeviceName = &types.AttributeValue{Value: v.RootDeviceName}
	case types.InstanceAttributeNameBlockDeviceMapping:
		out.BlockDeviceMappings = v.BlockDeviceMappings
	case types.InstanceAttributeNameProductCodes:
		out.ProductCodes = v.ProductCodes
	case types.InstanceAttributeNameSourceDestCheck:
		out.SourceDestCheck = resource.BooleanAttribute(aws.ToBool(v.SourceDestCheck))
	case types.InstanceAttributeNameGroupSet:
		out.Groups = v.SecurityGroups
	case types.InstanceAttributeNameEbsOptimized:
		out.EbsOptimized = resource.BooleanAttribute(r.EBSOptimized)
	case types.InstanceAttributeNameSriovNetSupport:
		out.SriovNetSupport = &types.AttributeValue{Value: aws.String("simple")}
	case types.InstanceAttributeNameEnaSupport:
		out.EnaSupport = resource.BooleanAttribute(true)
	case types.InstanceAttributeNameEnclaveOptions:
		out.EnclaveOptions = v.EnclaveOptions
	case "":
		return nil, resource.MissingParameter("attribute")
	default:
		return nil, resource.InvalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	if aws.ToBool(in.DryRun) {
		return nil, resource.ErrDryRun
	}
	return out, nil
}

// ModifyInstanceAttribute changes one attribute of an instance: with the member that it has of its own, or with
// Attribute and Value.
func (s *Service) ModifyInstanceAttribute(ctx context.Context, in *ec2.ModifyInstanceAttributeInput) (
	*ec2.ModifyInstanceAttributeOutput, error) {
	return &ec2.ModifyInstanceAttributeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return eachInstance(c, []string{aws.ToString(in.InstanceId)},
			func(r *record.Instance, state types.InstanceStateName) error {
				if state == types.InstanceStateNameShuttingDown || state == types.InstanceStateNameTerminated {
					return resource.IncorrectInstanceState(r.ID, state)
				}
				return editInstanceAttribute(c, r, state, in)
			})
	})
}

func editInstanceAttribute(c *resource.Change, r *record.Instance, state types.InstanceStateName,
	in *ec2.ModifyInstanceAttributeInput) error {
	request := *in
	if in.Attribute != "" {
		if in.Value == nil {
			return resource.MissingParameter("value")
		}
		if err := expandAttribute(&request); err != nil {
			return err
		}
	}
	flags := []resource.Setting{
		{
			Wanted: request.DisableApiTermination,
			Field:  &r.DisableAPITermination,
		}, {Wanted: request.DisableApiStop, Field: &r.DisableAPIStop},
		{Wanted: request.EbsOptimized, Field: &r.EBSOptimized},
	}
	given := len(slices.DeleteFunc(slices.Clone(flags), func(s resource.Setting) bool { return s.Wanted == nil }))
	for _, there := range []bool{
		request.InstanceType != nil, request.UserData != nil, request.InstanceInitiatedShutdownBehavior != nil,
		len(request.Groups) > 0,
		request.SourceDestCheck != nil, len(request.BlockDeviceMappings) > 0, request.EnaSupport != nil,
		request.SriovNetSupport != nil, request.Kernel != nil, request.Ramdisk != nil,
	} {
		if there {
			given++
		}
	}
	switch {
	case given == 0:
		return wire.Errorf("MissingParameter", "The request must contain an attribute to modify.")
	case given > 1:
		return wire.Errorf("InvalidParameterCombination",
			"Fields for multiple attribute types specified: a request may modify one attribute.")
	case request.Kernel != nil || request.Ramdisk != nil || request.SriovNetSupport != nil:
		return resource.Unsupported("Kernel, Ramdisk and SriovNetSupport")
	case request.InstanceType != nil, request.UserData != nil, request.EbsOptimized != nil, request.EnaSupport != nil:
		if state != types.InstanceStateNameStopped {
			return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.", r.ID)
		}
	}
	switch {
	case request.InstanceType != nil:
		name := aws.ToString(request.InstanceType.Value)
		kind, ok := instancetype.Get(name)
		if !ok {
			return resource.InvalidValue(name, "instanceType", "Invalid instance type.")
		}
		image, _ := ami.Get(r.Region, r.ImageID)
		if image.Architecture != "" && kind.Architecture != image.Architecture {
			return wire.Errorf("InvalidParameterCombination",
				"The instance configuration for this AWS Marketplace product or AMI is not supported: the "+
					"architecture '%s' of the instance type does not match the architecture '%s' of the AMI.",
				kind.Architecture, image.Architecture)
		}
		interfaces, err := c.InterfacesOf(c.Scope, r.ID)
		if err != nil {
			return err
		}
		if len(interfaces) > kind.MaxENIs {
			return networkinterface.InterfaceLimitExceeded(len(interfaces), name)
		}
		for _, ni := range interfaces {
			if err := networkinterface.CheckAddressLimit(ni, kind); err != nil {
				return err
			}
		}
		r.InstanceType = types.InstanceType(name)
		if err := volume.CheckAttachments(c, *r); err != nil {
			return err
		}
		switch {
		case !kind.Burstable:
			r.CPUCredits = ""
		case r.CPUCredits == "":
			r.CPUCredits = (&Launch{instanceType: kind}).cpuCredits()
		}
	case request.UserData != nil:
		// The SDK has decoded it.
		if len(request.UserData.Value) > launchtemplate.MaxUserData {
			return resource.Invalid("User data is limited to %d bytes", launchtemplate.MaxUserData)
		}
		r.UserData = request.UserData.Value
	case request.InstanceInitiatedShutdownBehavior != nil:
		behavior := types.ShutdownBehavior(aws.ToString(request.InstanceInitiatedShutdownBehavior.Value))
		if behavior == "" || resource.CheckEnum(behavior, "") != nil {
			return resource.InvalidValue(behavior, "instanceInitiatedShutdownBehavior", "")
		}
		r.ShutdownBehavior = behavior
	case len(request.Groups) > 0 || request.SourceDestCheck != nil:
		return editPrimaryInterface(c, r, func(ni *record.NetworkInterface) (err error) {
			if request.SourceDestCheck != nil {
				ni.SourceDestCheck = aws.ToBool(request.SourceDestCheck.Value)
				return nil
			}
			ni.SecurityGroupIDs, err = networkinterface.SecurityGroups(c, ni.VPCID, request.Groups)
			c.TouchVPC(ni.VPCID)
			return err
		})
	case len(request.BlockDeviceMappings) > 0:
		return editBlockDevices(r, request.BlockDeviceMappings)
	case request.EnaSupport != nil:
		if !aws.ToBool(request.EnaSupport.Value) {
			return resource.Unsupported("EnaSupport=false")
		}
	default:
		return resource.ApplySetting(flags...)
	}
	return nil
}

// expandAttribute moves Attribute and Value to the attribute's own member.
func expandAttribute(in *ec2.ModifyInstanceAttributeInput) error {
	value := &types.AttributeValue{Value: in.Value}
	flag := func() (*types.AttributeBooleanValue, error) {
		on, err := strconv.ParseBool(*in.Value)
		if err != nil {
			return nil, resource.InvalidValue(*in.Value, "value", "Expecting true or false.")
		}
		return resource.BooleanAttribute(on), nil
	}
	var err error
	switch in.Attribute {
	case types.InstanceAttributeNameInstanceType:
		in.InstanceType = value
	case types.InstanceAttributeNameInstanceInitiatedShutdownBehavior:
		in.InstanceInitiatedShutdownBehavior = value
	case types.InstanceAttributeNameUserData:
		data, err := launchtemplate.DecodeUserData(in.Value)
		if err != nil {
			return err
		}
		in.UserData = &types.SecureBlobAttributeValue{Value: data}
	case types.InstanceAttributeNameDisableApiTermination:
		in.DisableApiTermination, err = flag()
	case types.InstanceAttributeNameDisableApiStop:
		in.DisableApiStop, err = flag()
	case types.InstanceAttributeNameEbsOptimized:
		in.EbsOptimized, err = flag()
	case types.InstanceAttributeNameSourceDestCheck:
		in.SourceDestCheck, err = flag()
	case types.InstanceAttributeNameGroupSet:
		in.Groups = []string{*in.Value}
	default:
		return resource.InvalidValue(in.Attribute, "attribute", "Unknown attribute, or one that cannot be modified.")
	}
	return err
}

// editPrimaryInterface changes the one interface of an instance.
func editPrimaryInterface(c *resource.Change, r *record.Instance, edit func(*record.NetworkInterface) error) error {
	interfaces, err := c.InterfacesOf(c.Scope, r.ID)
	if err != nil {
		return err
	}
	if len(interfaces) != 1 {
		return wire.Errorf("InvalidInstanceID",
			"There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the "+
				"operation instead.", r.ID)
	}
	return networkinterface.Edit(c, &interfaces[0].ID, edit)
}

func editBlockDevices(r *record.Instance, wanted []types.InstanceBlockDeviceMappingSpecification) error {
	for _, w := range wanted {
		i := slices.IndexFunc(r.BlockDevices,
			func(b record.InstanceBlockDevice) bool { return b.DeviceName == aws.ToString(w.DeviceName) })
		if i < 0 {
			return wire.Errorf("InvalidInstanceAttributeValue", "No device is currently mapped at %s",
				aws.ToString(w.DeviceName))
		}
		if w.Ebs != nil && w.Ebs.DeleteOnTermination != nil {
			r.BlockDevices[i].DeleteOnTermination = *w.Ebs.DeleteOnTermination
		}
	}
	return nil
}

// ResetInstanceAttribute turns the source/destination check on again.
func (s *Service) ResetInstanceAttribute(ctx context.Context, in *ec2.ResetInstanceAttributeInput) (
	*ec2.ResetInstanceAttributeOutput, error) {
	return &ec2.ResetInstanceAttributeOutput{}, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		if in.Attribute != types.InstanceAttributeNameSourceDestCheck {
			return resource.InvalidValue(in.Attribute, "attribute", "The attribute cannot be reset.")
		}
		return eachInstance(c, []string{aws.ToString(in.InstanceId)},
			func(r *record.Instance, _ types.InstanceStateName) error {
				return editPrimaryInterface(c, r, func(ni *record.NetworkInterface) error {
					ni.SourceDestCheck = true
					return nil
				})
			})
	})
}

// ModifyInstanceMetadataOptions changes how an instance's metadata may be asked for.
func (s *Service) ModifyInstanceMetadataOptions(ctx context.Context, in *ec2.ModifyInstanceMetadataOptionsInput) (
	*ec2.ModifyInstanceMetadataOptionsOutput, error) {
	out := &ec2.ModifyInstanceMetadataOptionsOutput{InstanceId: in.InstanceId}
	return out, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		return eachInstance(c, []string{aws.ToString(in.InstanceId)},
			func(r *record.Instance, state types.InstanceStateName) error {
				if state == types.InstanceStateNameShuttingDown || state == types.InstanceStateNameTerminated {
					return resource.IncorrectInstanceState(r.ID, state)
				}
				err := launchtemplate.EditMetadataOptions(&r.Metadata, in.HttpEndpoint, in.HttpTokens, in.HttpPutResponseHopLimit,
					in.InstanceMetadataTags, in.HttpProtocolIpv6)
				out.InstanceMetadataOptions = viewMetadataOptions(r.Metadata, types.InstanceMetadataOptionsStatePending)
				return err
			})
	})
}

// ModifyPrivateDnsNameOptions changes the names of an instance; the kind of its hostname only while it is stopped.
func (s *Service) ModifyPrivateDnsNameOptions(ctx context.Context, in *ec2.ModifyPrivateDnsNameOptionsInput) (
	*ec2.ModifyPrivateDnsNameOptionsOutput, error) {
	return &ec2.ModifyPrivateDnsNameOptionsOutput{Return: aws.Bool(true)}, s.ApplyChange(ctx, in.DryRun,
		func(c *resource.Change) error {
			return eachInstance(c, []string{aws.ToString(in.InstanceId)},
				func(r *record.Instance, state types.InstanceStateName) error {
					if err := resource.CheckEnum(in.PrivateDnsHostnameType, "privateDnsHostnameType"); err != nil {
						return err
					}
					if t := in.PrivateDnsHostnameType; t != "" && t != r.HostnameType &&
						state != types.InstanceStateNameStopped {
						return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.",
							r.ID)
					}
					r.HostnameType = cmp.Or(in.PrivateDnsHostnameType, r.HostnameType)
					if in.EnableResourceNameDnsARecord != nil {
						r.EnableResourceNameDNSARecord = *in.EnableResourceNameDnsARecord
					}
					if in.EnableResourceNameDnsAAAARecord != nil {
						r.EnableResourceNameDNSAAAARecord = *in.EnableResourceNameDnsAAAARecord
					}
					return nil
				})
		})
}

// ModifyInstanceMaintenanceOptions changes whether an instance is recovered.
func (s *Service) ModifyInstanceMaintenanceOptions(ctx context.Context, in *ec2.ModifyInstanceMaintenanceOptionsInput) (
	*ec2.ModifyInstanceMaintenanceOptionsOutput, error) {
	return &ec2.ModifyInstanceMaintenanceOptionsOutput{InstanceId: in.InstanceId, AutoRecovery: in.AutoRecovery},
		s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
			if err := resource.CheckEnum(in.AutoRecovery, "autoRecovery"); err != nil {
				return err
			}
			if in.RebootMigration != "" {
				return resource.Unsupported("RebootMigration")
			}
			return eachInstance(c, []string{aws.ToString(in.InstanceId)},
				func(r *record.Instance, _ types.InstanceStateName) error {
					r.AutoRecovery = cmp.Or(in.AutoRecovery, r.AutoRecovery)
					return nil
				})
		})
}

// DescribeInstanceCreditSpecifications lists how burstable instances pay for their CPU.
func (s *Service) DescribeInstanceCreditSpecifications(ctx context.Context,
	in *ec2.DescribeInstanceCreditSpecificationsInput) (*ec2.DescribeInstanceCreditSpecificationsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	query := resource.Query{Operation: "DescribeInstanceCreditSpecifications", DryRun: in.DryRun, IDs: in.InstanceIds,
		Filters: in.Filters, Max: in.MaxResults, Token: in.NextToken}
	if err := query.CheckPage(); err != nil {
		return nil, err
	}
	rows, err := s.Instances.ListByID(sc, in.InstanceIds)
	if err != nil {
		return nil, err
	}
	var items []resource.Item[types.InstanceCreditSpecification]
	for _, r := range rows {
		switch {
		case r.CPUCredits != "" && (len(in.InstanceIds) > 0 || r.CPUCredits == "unlimited"):
			items = append(items, resource.Item[types.InstanceCreditSpecification]{ID: r.ID,
				View: types.InstanceCreditSpecification{InstanceId: aws.String(r.ID), CpuCredits: aws.String(r.CPUCredits)}})
		case len(in.InstanceIds) > 0:
			return nil, wire.Errorf("InvalidParameterCombination",
				"The instance '%s' of type %s does not support credit specifications.", r.ID, r.InstanceType)
		}
	}
	found, next, err := resource.DescribeItems(
		ctx,
		query,
		items,
		resource.Filters[types.InstanceCreditSpecification]{
			"instance-id": resource.StringFilter(func(x types.InstanceCreditSpecification) *string { return x.InstanceId }),
		},
		nil,
	)
	if found == nil {
		found = []types.InstanceCreditSpecification{}
	}
	return &ec2.DescribeInstanceCreditSpecificationsOutput{InstanceCreditSpecifications: found, NextToken: next}, err
}
