package sigv4

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
)

// The codes that an Error carries, as the query protocols spell them.
const (
	MissingAuthenticationToken = "MissingAuthenticationToken" // 403: nothing says who signed the request
	// 400: a part is missing or malformed; the message names it
	IncompleteSignature   = "IncompleteSignature"
	SignatureDoesNotMatch = "SignatureDoesNotMatch" // 403: wrong secret, altered request, or out of its time

	// Amazon S3 has codes of its own.
	AuthorizationQueryParametersError = "AuthorizationQueryParametersError" // 400
	XAmzContentSHA256Mismatch         = "XAmzContentSHA256Mismatch"         // 400
	NotImplemented                    = "NotImplemented"                    // 501: chunked uploads
)

// Error explains why a signature was refused, in AWS's words.
type Error struct {
	Code    string
	Message string
	Status  int // HTTP status in the query and REST-XML protocols
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// JSONCode returns the code under which the JSON protocols report the same refusal.
func (e *Error) JSONCode() string {
	switch e.Code {
	case SignatureDoesNotMatch:
		return "InvalidSignatureException"
	case IncompleteSignature, MissingAuthenticationToken:
		return e.Code + "Exception"
	}
	return e.Code
}

func incomplete(format string, args ...any) *Error {
	return &Error{Code: IncompleteSignature, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

func mismatch(format string, args ...any) *Error {
	return &Error{Code: SignatureDoesNotMatch, Message: fmt.Sprintf(format, args...), Status: http.StatusForbidden}
}

// InvalidRegion refuses a signature whose credential scope names a region that does not exist.
func InvalidRegion(region string) *Error {
	return mismatch("Credential should be scoped to a valid region, not '%s'.", region)
}

func queryError(service, message string) *Error {
	if service == "s3" {
		return &Error{Code: AuthorizationQueryParametersError, Message: message, Status: http.StatusBadRequest}
	}
	return incomplete("%s", message)
}

// headerDigest stands for an Authorization header in a message: AWS does not echo it, since it may hold a password.
func headerDigest(authorization string) string {
	sum := sha256.Sum256([]byte(authorization))
	return base64.StdEncoding.EncodeToString(sum[:])
}
