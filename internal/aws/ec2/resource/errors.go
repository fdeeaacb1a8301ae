package resource

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// MustRead returns what was read of the store while a resource is shown; nothing when there is no such row. The one
// other
// reason for which a read of the mirror can fail is a row that cannot be decoded, and then a view would be wrong: the
// panic becomes wire's InternalFailure.
func MustRead[T any](read T, err error) T {
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		panic(err)
	}
	return read
}

// ErrDryRun is the answer to a request with DryRun set that would have succeeded.
var ErrDryRun = &wire.Error{Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set.",
	Status: 412}

// IsRefusal reports whether an error tells the caller what is wrong with a request.
func IsRefusal(err error) bool {
	var refused *wire.Error
	return errors.As(err, &refused)
}

// MissingParameter returns the error about a parameter that a request must have.
func MissingParameter(parameter string) error {
	return wire.Errorf("MissingParameter", "The request must contain the parameter %s", parameter)
}

// Invalid returns an InvalidParameterValue error.
func Invalid(format string, args ...any) error {
	return wire.Errorf("InvalidParameterValue", format, args...)
}

// InvalidValue returns the error about a value that a parameter cannot have; why may be empty.
func InvalidValue(value any, parameter, why string) error {
	if why != "" {
		why = " " + why
	}
	return Invalid("Value (%v) for parameter %s is invalid.%s", value, parameter, why)
}

// Unsupported returns the error about a parameter that AWS has and coracle does not serve.
func Unsupported(parameter string) error {
	return wire.Errorf("UnsupportedOperation", "The parameter %s is not supported by coracle.", parameter)
}

// DependencyViolation returns the error about a resource that others use.
func DependencyViolation(noun, id string) error {
	return wire.Errorf("DependencyViolation", "The %s '%s' has dependencies and cannot be deleted.", noun, id)
}

// IncorrectInstanceState returns the error about an instance in whose state an operation makes no sense.
func IncorrectInstanceState(id string, state types.InstanceStateName) error {
	return wire.Errorf("IncorrectInstanceState",
		"The instance '%s' is in the state '%s', in which this operation is not possible.", id, state)
}
