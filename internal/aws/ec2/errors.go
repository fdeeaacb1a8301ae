package ec2

import "github.com/coracle-eks/coracle/internal/aws/wire"

// errDryRun is the answer to a request with DryRun set that would have succeeded.
var errDryRun = &wire.Error{Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set.", Status: 412}

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
