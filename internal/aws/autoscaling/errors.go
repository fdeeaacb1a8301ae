package autoscaling

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func validation(format string, args ...any) error {
	return wire.Errorf("ValidationError", format, args...)
}

func noGroup(name string) error {
	return validation("AutoScalingGroup name not found - AutoScalingGroup '%s' not found", name)
}

func deleting(name string) error {
	return validation("AutoScalingGroup '%s' is being deleted", name)
}

func noInstance(id string) error {
	return validation("Instance Id not found - No managed instance found for instance ID: %s", id)
}

func alreadyExists(format string, args ...any) error {
	return &types.AlreadyExistsFault{Message: new(fmt.Sprintf(format, args...))}
}

func limitExceeded(format string, args ...any) error {
	return &types.LimitExceededFault{Message: new(fmt.Sprintf(format, args...))}
}

func resourceInUse(format string, args ...any) error {
	return &types.ResourceInUseFault{Message: new(fmt.Sprintf(format, args...))}
}

func activityInProgress(format string, args ...any) error {
	return &types.ScalingActivityInProgressFault{Message: new(fmt.Sprintf(format, args...))}
}

// unserved returns the error about a parameter that AWS has and coracle does not act upon.
func unserved(parameter, why string) error {
	return validation("The parameter %s is not supported by coracle: %s.", parameter, why)
}
