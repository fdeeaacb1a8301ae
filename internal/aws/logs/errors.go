package logs

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/logs/events"
)

func notFound(format string, args ...any) error {
	return &types.ResourceNotFoundException{Message: new(fmt.Sprintf(format, args...))}
}

func groupNotFound() error  { return notFound("The specified log group does not exist.") }
func streamNotFound() error { return notFound("The specified log stream does not exist.") }

func invalidParameter(format string, args ...any) error {
	return &types.InvalidParameterException{Message: new(fmt.Sprintf(format, args...))}
}

// invalidValue returns the error that wire returns for members whose constraints the model knows, for another member.
func invalidValue(member string, value any, constraint string) error {
	return invalidParameter("1 validation error detected: Value '%v' at '%s' failed to satisfy constraint: %s", value,
		member, constraint)
}

// checkPageSize returns the error that wire returns for a number of items outside of a range, for a member whose
// range the model does not know.
func checkPageSize(member string, n *int32, least, most int32) error {
	switch {
	case n == nil:
		return nil
	case *n < least:
		return invalidValue(member, *n, fmt.Sprintf("Member must have value greater than or equal to %d", least))
	case *n > most:
		return invalidValue(member, *n, fmt.Sprintf("Member must have value less than or equal to %d", most))
	}
	return nil
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

// heldBack returns an error of the store of log events, said of a log group. What passes by itself, or when somebody
// makes room on the disk, is a ServiceUnavailableException, which the SDKs try again.
func heldBack(err error, attempt, group string) error {
	err = fmt.Errorf("%s log group %s: %w", attempt, group, err)
	switch {
	case errors.Is(err, events.ErrFull):
		return &wire.Error{
			Code: "ServiceUnavailableException", Status: http.StatusServiceUnavailable, Err: err,
			Message: "The disk of the data directory is full, and nothing was stored: free some space, or shorten " +
				"the retention of log groups.",
		}
	case errors.Is(err, events.ErrClosed):
		return &wire.Error{Code: "ServiceUnavailableException", Status: http.StatusServiceUnavailable, Err: err,
			Message: "Coracle is being stopped."}
	}
	return err
}
