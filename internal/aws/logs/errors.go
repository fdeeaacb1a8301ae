package logs

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
)

func notFound(format string, args ...any) error {
	return &types.ResourceNotFoundException{Message: new(fmt.Sprintf(format, args...))}
}

func groupNotFound() error  { return notFound("The specified log group does not exist.") }
func streamNotFound() error { return notFound("The specified log stream does not exist.") }

func invalidParameter(format string, args ...any) error {
	return &types.InvalidParameterException{Message: new(fmt.Sprintf(format, args...))}
}

// invalidValue says of one member what wire says of those whose constraints the model knows.
func invalidValue(member string, value any, constraint string) error {
	return invalidParameter("1 validation error detected: Value '%v' at '%s' failed to satisfy constraint: %s", value, member, constraint)
}

func alreadyExists(format string, args ...any) error {
	return &types.ResourceAlreadyExistsException{Message: new(fmt.Sprintf(format, args...))}
}

func validation(format string, args ...any) error {
	return &types.ValidationException{Message: new(fmt.Sprintf(format, args...))}
}

func limitExceeded(format string, args ...any) error {
	return &types.LimitExceededException{Message: new(fmt.Sprintf(format, args...))}
}
