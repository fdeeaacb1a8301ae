package ec2

import (
	"errors"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
)

// mustRead is what was read of the store while a resource is shown; nothing when there is no such row. The one other
// reason for which a read of the mirror can fail is a row that cannot be decoded, and then a view would be wrong: the
// panic becomes wire's InternalFailure.
func mustRead[T any](read T, err error) T {
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		panic(err)
	}
	return read
}

// errDryRun is the answer to a request with DryRun set that would have succeeded.
var errDryRun = &wire.Error{Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set.",
	Status: 412}

func missing(parameter string) error {
	return wire.Errorf("MissingParameter", "The request must contain the parameter %s", parameter)
}

func invalid(format string, args ...any) error {
	return wire.Errorf("InvalidParameterValue", format, args...)
}

// invalidValue is the error about a value that a parameter cannot have; why may be empty.
func invalidValue(value any, parameter, why string) error {
	if why != "" {
		why = " " + why
	}
	return invalid("Value (%v) for parameter %s is invalid.%s", value, parameter, why)
}

// unsupported is the error about a parameter that AWS has and coracle does not serve.
func unsupported(parameter string) error {
	return wire.Errorf("UnsupportedOperation", "The parameter %s is not supported by coracle.", parameter)
}

func dependency(noun, id string) error {
	return wire.Errorf("DependencyViolation", "The %s '%s' has dependencies and cannot be deleted.", noun, id)
}
