package efs

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func text(format string, args ...any) *string { return new(fmt.Sprintf(format, args...)) }

func badRequest(format string, args ...any) error {
	return &types.BadRequest{ErrorCode_: new("BadRequest"), Message: text(format, args...)}
}

// violation returns the error about a member that breaks a constraint which the model does not have.
func violation(value any, path, must string) error {
	return &types.ValidationException{ErrorCode_: new("ValidationException"), Message: text(
		"1 validation error detected: Value '%v' at '%s' failed to satisfy constraint: Member must %s", value, path, must)}
}

func fileSystemNotFound(id string) error {
	return &types.FileSystemNotFound{
		ErrorCode_: new("FileSystemNotFound"), Message: text("File system '%s' does not exist.", id)}
}

func mountTargetNotFound(id string) error {
	return &types.MountTargetNotFound{
		ErrorCode_: new("MountTargetNotFound"), Message: text("Mount target '%s' does not exist.", id)}
}

func accessPointNotFound(id string) error {
	return &types.AccessPointNotFound{
		ErrorCode_: new("AccessPointNotFound"), Message: text("Access point '%s' does not exist.", id)}
}

func policyNotFound(id string) error {
	return &types.PolicyNotFound{
		ErrorCode_: new("PolicyNotFound"), Message: text("The file system '%s' has no policy.", id)}
}

func incorrectState(id string, state types.LifeCycleState) error {
	return &types.IncorrectFileSystemLifeCycleState{
		ErrorCode_: new("IncorrectFileSystemLifeCycleState"), Message: text(
			"The file system '%s' is in the life cycle state '%s', in which this operation is not possible.", id, state)}
}

func incorrectMountTargetState(id string, state types.LifeCycleState) error {
	return &types.IncorrectMountTargetState{
		ErrorCode_: new("IncorrectMountTargetState"), Message: text(
			"The mount target '%s' is in the life cycle state '%s', in which this operation is not possible.", id, state)}
}

func mountTargetConflict(format string, args ...any) error {
	return &types.MountTargetConflict{ErrorCode_: new("MountTargetConflict"), Message: text(format, args...)}
}

func invalidPolicy(format string, args ...any) error {
	return &types.InvalidPolicyException{ErrorCode_: new("InvalidPolicyException"), Message: text(format, args...)}
}

func tooManySecurityGroups(most int) error {
	return &types.SecurityGroupLimitExceeded{
		ErrorCode_: new("SecurityGroupLimitExceeded"), Message: text("A mount target has %d security groups at most.",
			most)}
}

func securityGroupNotFound(message string) error {
	return &types.SecurityGroupNotFound{ErrorCode_: new("SecurityGroupNotFound"), Message: &message}
}

// networkError returns EFS's error about a network interface that EC2 refuses. Others stay as they are.
func networkError(err error) error {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		return err
	}
	message := &refused.Message
	switch refused.Code {
	case "InvalidSubnetID.NotFound", "InvalidSubnetId.Malformed", "InvalidSubnetID.Malformed":
		return &types.SubnetNotFound{ErrorCode_: new("SubnetNotFound"), Message: message}
	case "InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidSecurityGroupID.NotFound",
		"InvalidSecurityGroupId.Malformed":
		return securityGroupNotFound(refused.Message)
	case "InvalidParameter": // of groups of another VPC
		return securityGroupNotFound("A security group is not in the VPC of the mount target.")
	case "SecurityGroupsPerInterfaceLimitExceeded":
		return &types.SecurityGroupLimitExceeded{ErrorCode_: new("SecurityGroupLimitExceeded"), Message: message}
	case "InvalidIPAddress.InUse":
		return &types.IpAddressInUse{ErrorCode_: new("IpAddressInUse"), Message: message}
	case "InsufficientFreeAddressesInSubnet":
		return &types.NoFreeAddressesInSubnet{ErrorCode_: new("NoFreeAddressesInSubnet"), Message: message}
	case "NetworkInterfaceLimitExceeded":
		return &types.NetworkInterfaceLimitExceeded{
			ErrorCode_: new("NetworkInterfaceLimitExceeded"), Message: message}
	}
	return badRequest("%s", refused.Message)
}

// keyError returns EFS's error about a KMS key that KMS refuses. Denials stay as they are.
func keyError(err error) error {
	var denied *wire.Denied
	var api interface {
		error
		ErrorCode() string
		ErrorMessage() string
	}
	if errors.As(err, &denied) || !errors.As(err, &api) {
		return err
	}
	return badRequest("The KMS key cannot be used: %s: %s", api.ErrorCode(), api.ErrorMessage())
}
