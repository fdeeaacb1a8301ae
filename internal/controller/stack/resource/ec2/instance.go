package ec2

import (
	"context"
	"encoding/base64"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

var instances = kind[types.Instance]{
	resource: types.ResourceTypeInstance,
	list: func(ctx context.Context, c *ec2.Client, ids []string, filters []types.Filter) ([]types.Instance, error) {
		out, err := c.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids, Filters: filters})
		if err != nil {
			return nil, err
		}
		var all []types.Instance
		for _, reservation := range out.Reservations {
			all = append(all, reservation.Instances...)
		}
		return all, nil
	},
	id: func(i *types.Instance) *string { return i.InstanceId },
	gone: func(i *types.Instance) bool {
		return i.State != nil && (i.State.Name == types.InstanceStateNameTerminated ||
			i.State.Name == types.InstanceStateNameShuttingDown)
	},
}

// instanceMembers are the members of RunInstances that have other names than the properties of instances.
var instanceMembers = resource.Members{
	"Affinity": resource.Left, "AvailabilityZone": resource.Left, "HostResourceGroupArn": resource.Left,
	"HostId": resource.Left, "IamInstanceProfile": resource.Left, "Monitoring": resource.Left,
	"PlacementGroupName": resource.Left, "PropagateTagsToVolumeOnCreation": resource.Left,
	"SourceDestCheck": resource.Left, "Tenancy": resource.Left,
	"CreditSpecification.CPUCredits": "CpuCredits", "NetworkInterfaces.GroupSet": "Groups",
}

// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-instance.html
var instance = resource.Type{
	Tagged:   true,
	Volatile: []string{"PrivateDnsName", "PublicDnsName", "PublicIp", "State"},
	Refused: []string{"Affinity", "ElasticGpuSpecifications", "ElasticInferenceAccelerators", "HostId",
		"HostResourceGroupArn", "KernelId", "LicenseSpecifications", "RamdiskId", "SsmAssociations", "Volumes"},
	Handler: resource.Handle(resource.Table[*ec2.Client, types.Instance]{
		Client: client,
		Create: resource.Create((*ec2.Client).RunInstances, instanceMembers,
			func(out *ec2.RunInstancesOutput) *string {
				if len(out.Instances) == 0 {
					return nil
				}
				return out.Instances[0].InstanceId
			}, completeLaunch),
		Find: instances.find,
		Describe: func(ctx context.Context, c *ec2.Client, r *resource.Request) (*types.Instance, error) {
			return only(instances.list(ctx, c, []string{r.PhysicalID}, nil))
		},
		State: func(i *types.Instance) (resource.State, error) {
			switch i.State.Name {
			case types.InstanceStateNamePending, types.InstanceStateNameStopping:
				return resource.Creating, nil
			case types.InstanceStateNameShuttingDown:
				return resource.Deleting, nil
			case types.InstanceStateNameTerminated:
				return resource.Gone, terminationReason(i)
			}
			return resource.Ready, nil
		},
		Configure: []resource.Step[*ec2.Client]{
			{Properties: []string{"SecurityGroupIds"}, Update: true, Run: replaceGroups},
			{Properties: []string{"InstanceType", "EbsOptimized", "UserData"}, Update: true, Run: modifyStopped},
			{Properties: []string{"SourceDestCheck"}, Run: modifyInstance(func(r *resource.Request,
				in *ec2.ModifyInstanceAttributeInput) {
				in.SourceDestCheck = flag(r, "SourceDestCheck", true)
			})},
			{Properties: []string{"DisableApiTermination"}, Update: true, Run: modifyInstance(func(r *resource.Request,
				in *ec2.ModifyInstanceAttributeInput) {
				in.DisableApiTermination = flag(r, "DisableApiTermination", false)
			})},
			{Properties: []string{"InstanceInitiatedShutdownBehavior"}, Update: true,
				Run: modifyInstance(func(r *resource.Request, in *ec2.ModifyInstanceAttributeInput) {
					behavior := r.Text("InstanceInitiatedShutdownBehavior")
					if behavior == "" {
						behavior = string(types.ShutdownBehaviorStop)
					}
					in.InstanceInitiatedShutdownBehavior = &types.AttributeValue{Value: &behavior}
				})},
			{Properties: []string{"IamInstanceProfile"}, Update: true, Run: replaceProfile},
			{Properties: []string{"Monitoring"}, Update: true, Run: setMonitoring},
			{Properties: []string{"MetadataOptions"}, Update: true,
				Run: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
					options, _ := r.Properties["MetadataOptions"].(map[string]any)
					in := &ec2.ModifyInstanceMetadataOptionsInput{}
					if err := resource.Decode(options, in, nil); err != nil {
						return err
					}
					in.InstanceId = &r.PhysicalID
					_, err := c.ModifyInstanceMetadataOptions(ctx, in)
					return err
				}},
			{Properties: []string{"PropagateTagsToVolumeOnCreation"}, Update: true}, // it is about the creation only
			retag,
		},
		Replace: []string{"AdditionalInfo", "BlockDeviceMappings", "CreditSpecification", "PrivateDnsNameOptions",
			"Tenancy"},
		Delete: func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
			_, err := c.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{r.PhysicalID}})
			return err
		},
		Slow: true,
		Attributes: func(_ *resource.Request, i *types.Instance) map[string]any {
			attributes := map[string]any{
				"InstanceId": aws.ToString(i.InstanceId), "VpcId": aws.ToString(i.VpcId),
				"PrivateDnsName": aws.ToString(i.PrivateDnsName), "PrivateIp": aws.ToString(i.PrivateIpAddress),
				"PublicDnsName": aws.ToString(i.PublicDnsName), "PublicIp": aws.ToString(i.PublicIpAddress),
				"State": resource.Encode(i.State, nil),
			}
			if i.Placement != nil {
				attributes["AvailabilityZone"] = aws.ToString(i.Placement.AvailabilityZone)
			}
			return attributes
		},
		Properties: describeInstanceProperties,
	}),
}

// terminationReason returns why an instance that was to run does not, if EC2 says so.
func terminationReason(i *types.Instance) error {
	if i.StateReason == nil || aws.ToString(i.StateReason.Code) == "Client.UserInitiatedShutdown" {
		return nil
	}
	return resource.Errorf(resource.NotStabilized,
		"Instance %s failed to stabilize. Current state: terminated. Reason: %s",
		aws.ToString(i.InstanceId), aws.ToString(i.StateReason.Message))
}

// completeLaunch adds to the request for an instance what its properties say in other forms.
func completeLaunch(r *resource.Request, in *ec2.RunInstancesInput) error {
	in.MinCount, in.MaxCount = new(int32(1)), new(int32(1))
	if profile := r.Pointer("IamInstanceProfile"); profile != nil {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: profile}
	}
	if monitoring := r.Flag("Monitoring"); monitoring != nil {
		in.Monitoring = &types.RunInstancesMonitoringEnabled{Enabled: monitoring}
	}
	placement := types.Placement{AvailabilityZone: r.Pointer("AvailabilityZone"),
		GroupName: r.Pointer("PlacementGroupName"), Tenancy: types.Tenancy(r.Text("Tenancy"))}
	if placement.AvailabilityZone != nil || placement.GroupName != nil || placement.Tenancy != "" {
		in.Placement = &placement
	}
	in.TagSpecifications = instances.tags(r)
	if aws.ToBool(r.Flag("PropagateTagsToVolumeOnCreation")) {
		in.TagSpecifications = append(in.TagSpecifications,
			tagSpecifications(types.ResourceTypeVolume, resource.OwnTags(r.Properties["Tags"]))...)
	}
	return nil
}

// modifyInstance returns the run of a step that sets one attribute of an instance.
func modifyInstance(set func(*resource.Request, *ec2.ModifyInstanceAttributeInput)) func(context.Context, *ec2.Client,
	*resource.Request) error {
	return func(ctx context.Context, c *ec2.Client, r *resource.Request) error {
		in := &ec2.ModifyInstanceAttributeInput{InstanceId: &r.PhysicalID}
		set(r, in)
		_, err := c.ModifyInstanceAttribute(ctx, in)
		return err
	}
}

// replaceGroups gives an instance other security groups. It cannot have none: those of its subnet's VPC, or of its
// launch template, are chosen at its launch.
func replaceGroups(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	groups := r.Texts("SecurityGroupIds")
	if len(groups) == 0 {
		return resource.ErrReplace
	}
	_, err := c.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: &r.PhysicalID, Groups: groups})
	return err
}

// modifyStopped changes what an instance has only while it is stopped: it is stopped, changed and started again. Each
// call does one of these, and says that the instance is not stable yet.
func modifyStopped(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	i, err := only(instances.list(ctx, c, []string{r.PhysicalID}, nil))
	if err != nil {
		return err
	}
	switch i.State.Name {
	case types.InstanceStateNameRunning:
		done, err := hasStoppedAttributes(ctx, c, r, i)
		if done || err != nil {
			return err
		}
		if _, err := c.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{r.PhysicalID}}); err != nil {
			return err
		}
		return resource.ErrPending
	case types.InstanceStateNameStopped:
	default:
		return resource.ErrPending
	}
	data, err := base64.StdEncoding.DecodeString(r.Text("UserData"))
	if err != nil {
		return resource.Errorf(resource.InvalidRequest, "Invalid BASE64 encoding of user data.")
	}
	for property, in := range map[string]*ec2.ModifyInstanceAttributeInput{
		"InstanceType": {InstanceType: &types.AttributeValue{Value: r.Pointer("InstanceType")}},
		"EbsOptimized": {EbsOptimized: flag(r, "EbsOptimized", false)},
		"UserData":     {UserData: &types.SecureBlobAttributeValue{Value: data}},
	} {
		if !r.Changed(property) {
			continue
		}
		in.InstanceId = &r.PhysicalID
		if _, err := c.ModifyInstanceAttribute(ctx, in); err != nil {
			return err
		}
	}
	_, err = c.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{r.PhysicalID}})
	return err
}

// hasStoppedAttributes reports whether a running instance has what modifyStopped changes.
func hasStoppedAttributes(ctx context.Context, c *ec2.Client, r *resource.Request, i *types.Instance) (bool, error) {
	if r.Changed("InstanceType") && string(i.InstanceType) != r.Text("InstanceType") ||
		r.Changed("EbsOptimized") && aws.ToBool(i.EbsOptimized) != aws.ToBool(flag(r, "EbsOptimized", false).Value) {
		return false, nil
	}
	if !r.Changed("UserData") {
		return true, nil
	}
	out, err := c.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: &r.PhysicalID,
		Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		return false, err
	}
	return out.UserData != nil && aws.ToString(out.UserData.Value) == r.Text("UserData") ||
		out.UserData == nil && r.Text("UserData") == "", nil
}

// replaceProfile gives an instance another instance profile, or none.
func replaceProfile(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	out, err := c.DescribeIamInstanceProfileAssociations(ctx, &ec2.DescribeIamInstanceProfileAssociationsInput{
		Filters: []types.Filter{filter("instance-id", r.PhysicalID)}})
	if err != nil {
		return err
	}
	profile := &types.IamInstanceProfileSpecification{Name: r.Pointer("IamInstanceProfile")}
	for _, a := range out.IamInstanceProfileAssociations {
		if a.State != types.IamInstanceProfileAssociationStateAssociated &&
			a.State != types.IamInstanceProfileAssociationStateAssociating {
			continue
		}
		if profile.Name == nil {
			_, err = c.DisassociateIamInstanceProfile(ctx,
				&ec2.DisassociateIamInstanceProfileInput{AssociationId: a.AssociationId})
			return err
		}
		_, err = c.ReplaceIamInstanceProfileAssociation(ctx, &ec2.ReplaceIamInstanceProfileAssociationInput{
			AssociationId: a.AssociationId, IamInstanceProfile: profile})
		return err
	}
	if profile.Name == nil {
		return nil
	}
	_, err = c.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{InstanceId: &r.PhysicalID,
		IamInstanceProfile: profile})
	return err
}

func setMonitoring(ctx context.Context, c *ec2.Client, r *resource.Request) error {
	var err error
	if aws.ToBool(r.Flag("Monitoring")) {
		_, err = c.MonitorInstances(ctx, &ec2.MonitorInstancesInput{InstanceIds: []string{r.PhysicalID}})
	} else {
		_, err = c.UnmonitorInstances(ctx, &ec2.UnmonitorInstancesInput{InstanceIds: []string{r.PhysicalID}})
	}
	return err
}

func describeInstanceProperties(_ context.Context, _ *ec2.Client, _ *resource.Request, i *types.Instance) (
	map[string]any, error) {
	others := map[string]any{"Monitoring": i.Monitoring != nil && i.Monitoring.State == types.MonitoringStateEnabled,
		"BlockDeviceMappings": nil, "NetworkInterfaces": nil, "SecurityGroups": nil, "IamInstanceProfile": nil}
	var groups []string
	for _, g := range i.SecurityGroups {
		groups = append(groups, aws.ToString(g.GroupId))
	}
	if len(groups) > 0 {
		others["SecurityGroupIds"] = anyList(groups)
	}
	if i.Placement != nil {
		others["AvailabilityZone"] = aws.ToString(i.Placement.AvailabilityZone)
		others["Tenancy"] = string(i.Placement.Tenancy)
		if i.Placement.GroupName != nil {
			others["PlacementGroupName"] = *i.Placement.GroupName
		}
	}
	if i.IamInstanceProfile != nil {
		others["IamInstanceProfile"] = nameOfARN(aws.ToString(i.IamInstanceProfile.Arn))
	}
	return encode(i, nil, i.Tags, others), nil
}
