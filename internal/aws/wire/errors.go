package wire

import (
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"
)

// Error is an AWS error without a modeled type. Handlers return it, or an exception of the SDK's types packages
// (*ekstypes.ResourceNotFoundException), or a [*Denied]; any other error is answered as InternalFailure and logged.
type Error struct {
	Code    string // as on the wire: InvalidVpcID.NotFound
	Message string
	Status  int   // HTTP status; 0 means what the service's model says for Code, else 400
	Err     error // the cause; logged, never shown
}

// Errorf returns an error with a formatted message and the usual status of its code.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return e.Code + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// ErrorCode returns the code that the caller sees. With ErrorMessage and ErrorFault it makes Error a smithy.APIError.
func (e *Error) ErrorCode() string { return e.Code }

// ErrorMessage returns the message that the caller sees.
func (e *Error) ErrorMessage() string { return e.Message }

// ErrorFault returns whether the client or the server caused the error, by its status.
func (e *Error) ErrorFault() smithy.ErrorFault {
	if e.Status >= http.StatusInternalServerError {
		return smithy.FaultServer
	}
	return smithy.FaultClient
}

var _ smithy.APIError = (*Error)(nil)
