package autoscaling

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// What needs a service that is not here is refused when it is asked for, and there is none of it when it is looked for,
// so that tools that list all properties of a group find a group without it.

// noConfigurations returns what AWS says to accounts made since October 2024, which this one is.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-configurations.html
func noConfigurations(parameter string) error {
	what := ""
	if parameter != "" {
		what = " (" + parameter + " makes one)"
	}
	return validation(
		"The Launch Configuration creation operation is not available in your account%s. Use launch templates to "+
			"create configuration templates for your Auto Scaling groups.", what)
}

// unservedHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) unservedHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateLaunchConfiguration, func(
			ctx context.Context, action string, in *autoscaling.CreateLaunchConfigurationInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{instance: in.InstanceId})
		}),
		wire.Handle(s.DescribeLaunchConfigurations, wire.OnAll),
		wire.Handle(s.DeleteLaunchConfiguration, wire.OnAll),
		wire.Handle(s.PutNotificationConfiguration, func(
			ctx context.Context, action string, in *autoscaling.PutNotificationConfigurationInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DeleteNotificationConfiguration, func(
			ctx context.Context, action string, in *autoscaling.DeleteNotificationConfigurationInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName})
		}),
		wire.Handle(s.DescribeNotificationConfigurations, wire.OnAll),
		wire.Handle(s.DescribeAutoScalingNotificationTypes, wire.OnAll),
	}
}

// CreateLaunchConfiguration returns an error that refers to launch templates.
func (s *Service) CreateLaunchConfiguration(context.Context, *autoscaling.CreateLaunchConfigurationInput) (
	*autoscaling.CreateLaunchConfigurationOutput, error) {
	return nil, noConfigurations("")
}

// DescribeLaunchConfigurations finds none.
func (s *Service) DescribeLaunchConfigurations(ctx context.Context,
	in *autoscaling.DescribeLaunchConfigurationsInput) (*autoscaling.DescribeLaunchConfigurationsOutput, error) {
	none, _, err := paginate(ctx, []types.LaunchConfiguration{}, pagesOf50Or100, in.MaxRecords, in.NextToken,
		func(c types.LaunchConfiguration) string { return *c.LaunchConfigurationName })
	return &autoscaling.DescribeLaunchConfigurationsOutput{LaunchConfigurations: none}, err
}

// DeleteLaunchConfiguration finds none.
func (s *Service) DeleteLaunchConfiguration(_ context.Context, in *autoscaling.DeleteLaunchConfigurationInput) (
	*autoscaling.DeleteLaunchConfigurationOutput, error) {
	return nil, validation("Launch configuration name not found - Launch configuration %s not found",
		*in.LaunchConfigurationName)
}

// checkGroupExists returns an error unless the group of a request is there.
func (s *Service) checkGroupExists(ctx context.Context, name *string) error {
	_, err := s.getGroup(ctx, name)
	return err
}

// PutNotificationConfiguration refuses: nobody would be notified.
func (s *Service) PutNotificationConfiguration(ctx context.Context, in *autoscaling.PutNotificationConfigurationInput) (
	*autoscaling.PutNotificationConfigurationOutput, error) {
	if err := s.checkGroupExists(ctx, in.AutoScalingGroupName); err != nil {
		return nil, err
	}
	return nil,
		validation(
			"Unable to publish test notification message to notification target %s: coracle does not serve Amazon "+
				"SNS. Scaling activities tell what a notification would.", *in.TopicARN)
}

// DeleteNotificationConfiguration finds none.
func (s *Service) DeleteNotificationConfiguration(ctx context.Context,
	in *autoscaling.DeleteNotificationConfigurationInput) (*autoscaling.DeleteNotificationConfigurationOutput, error) {
	if err := s.checkGroupExists(ctx, in.AutoScalingGroupName); err != nil {
		return nil, err
	}
	return nil, validation("Topic Not Found - Notification configuration for topic %s does not exist", *in.TopicARN)
}

// DescribeNotificationConfigurations finds none.
func (s *Service) DescribeNotificationConfigurations(ctx context.Context,
	in *autoscaling.DescribeNotificationConfigurationsInput) (
	*autoscaling.DescribeNotificationConfigurationsOutput, error) {
	for _, name := range in.AutoScalingGroupNames {
		if err := s.checkGroupExists(ctx, &name); err != nil {
			return nil, err
		}
	}
	none, _, err := paginate(ctx, []types.NotificationConfiguration{}, pagesOf50Or100, in.MaxRecords, in.NextToken,
		func(c types.NotificationConfiguration) string {
			return *c.AutoScalingGroupName + " " + *c.NotificationType
		})
	return &autoscaling.DescribeNotificationConfigurationsOutput{NotificationConfigurations: none}, err
}

// DescribeAutoScalingNotificationTypes lists what AWS notifies of.
func (s *Service) DescribeAutoScalingNotificationTypes(context.Context,
	*autoscaling.DescribeAutoScalingNotificationTypesInput) (
	*autoscaling.DescribeAutoScalingNotificationTypesOutput, error) {
	return &autoscaling.DescribeAutoScalingNotificationTypesOutput{AutoScalingNotificationTypes: strings.Fields(
		"autoscaling:EC2_INSTANCE_LAUNCH autoscaling:EC2_INSTANCE_LAUNCH_ERROR autoscaling:EC2_INSTANCE_TERMINATE " +
			"autoscaling:EC2_INSTANCE_TERMINATE_ERROR autoscaling:TEST_NOTIFICATION")}, nil
}
