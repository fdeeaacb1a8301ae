// Package apierror reads the errors of AWS APIs that SDK clients return.
package apierror

import (
	"errors"

	"github.com/aws/smithy-go"
)

// Code returns the error code of an error of an AWS API, or "" for any other error.
func Code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// Message returns the message of an error of an AWS API. For one without a message, and for any other error, it returns
// the text of the error.
func Message(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorMessage() != "" {
		return api.ErrorMessage()
	}
	return err.Error()
}
