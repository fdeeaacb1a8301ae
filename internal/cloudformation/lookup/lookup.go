// Package lookup finds what the template of a stack refers to outside of it: parameters of the SSM Parameter Store,
// Availability Zones, and whether what parameters name exists. It asks through the SDK, with the permissions under
// which the stack acts. The API layer of CloudFormation and the controller of stacks use it.
package lookup

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/cloudformation/template"
)

// Fill sets the functions of inputs that ask AWS.
func Fill(in *template.Inputs, c aws.Config) {
	in.Parameter = func(ctx context.Context, name string, secure bool) (template.StoredParameter, error) {
		return parameter(ctx, ssm.NewFromConfig(c), name, secure)
	}
	in.Zones = func(ctx context.Context, region string) ([]string, error) {
		return describeZones(ctx, ec2.NewFromConfig(c, func(o *ec2.Options) { o.Region = region }))
	}
	in.Exists = func(ctx context.Context, parameterType string, ids []string) error {
		return checkExists(ctx, ec2.NewFromConfig(c), parameterType, ids)
	}
}

func parameter(ctx context.Context, client *ssm.Client, name string, secure bool) (template.StoredParameter, error) {
	out, err := client.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: &secure})
	var missing *ssmtypes.ParameterNotFound
	var noVersion *ssmtypes.ParameterVersionNotFound
	if errors.As(err, &missing) || errors.As(err, &noVersion) {
		return template.StoredParameter{}, template.ErrNotFound
	}
	if err != nil {
		return template.StoredParameter{}, err
	}
	p := out.Parameter
	return template.StoredParameter{Type: string(p.Type), Value: aws.ToString(p.Value), Version: p.Version}, nil
}

// describeZones returns the zones in which the account has default subnets, or all if it has none, as Fn::GetAZs does.
func describeZones(ctx context.Context, client *ec2.Client) ([]string, error) {
	out, err := client.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{
		Filters: []ec2types.Filter{{Name: aws.String("zone-type"), Values: []string{"availability-zone"}}}})
	if err != nil {
		return nil, err
	}
	subnets, err := client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		Filters: []ec2types.Filter{{Name: aws.String("default-for-az"), Values: []string{"true"}}}})
	if err != nil {
		return nil, err
	}
	var all, withDefault []string
	for _, z := range out.AvailabilityZones {
		name := aws.ToString(z.ZoneName)
		all = append(all, name)
		if slices.ContainsFunc(subnets.Subnets, func(s ec2types.Subnet) bool {
			return aws.ToString(s.AvailabilityZone) == name
		}) {
			withDefault = append(withDefault, name)
		}
	}
	if len(withDefault) > 0 {
		all = withDefault
	}
	slices.Sort(all)
	return all, nil
}

// checkExists returns a *template.MissingError for the first identifier that names nothing.
func checkExists(ctx context.Context, client *ec2.Client, parameterType string, ids []string) error {
	for _, id := range ids {
		err := describe(ctx, client, parameterType, id)
		var api smithy.APIError
		if errors.As(err, &api) && (strings.HasSuffix(api.ErrorCode(), ".NotFound") ||
			strings.HasSuffix(api.ErrorCode(), ".Malformed") || api.ErrorCode() == "InvalidParameterValue") {
			return &template.MissingError{ID: id}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func describe(ctx context.Context, client *ec2.Client, parameterType, id string) (err error) {
	one := []string{id}
	switch parameterType {
	case "AWS::EC2::AvailabilityZone::Name":
		_, err = client.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{ZoneNames: one})
	case "AWS::EC2::Image::Id":
		_, err = client.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: one})
	case "AWS::EC2::Instance::Id":
		_, err = client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: one})
	case "AWS::EC2::KeyPair::KeyName":
		_, err = client.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{KeyNames: one})
	case "AWS::EC2::SecurityGroup::GroupName":
		var out *ec2.DescribeSecurityGroupsOutput
		out, err = client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
			Filters: []ec2types.Filter{{Name: aws.String("group-name"), Values: one}}})
		if err == nil && len(out.SecurityGroups) == 0 {
			return &template.MissingError{ID: id}
		}
	case "AWS::EC2::SecurityGroup::Id":
		_, err = client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: one})
	case "AWS::EC2::Subnet::Id":
		_, err = client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: one})
	case "AWS::EC2::VPC::Id":
		_, err = client.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: one})
	case "AWS::EC2::Volume::Id":
		_, err = client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: one})
	default:
		return &template.MissingError{ID: id}
	}
	return err
}
