// Package apierror reads the errors of AWS APIs that SDK clients return.
package apierror

import (
	"errors"
	"strings"

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

// maxMessage is the maximum length of a message in bytes. Those of our services are shorter; to others, requests are
// forwarded.
const maxMessage = 8 << 10

// Message returns the message of an error of an AWS API. For one without a message, and for any other error, it returns
// the text of the error. Messages end in records: of a long one it returns the beginning.
func Message(err error) string {
	text := err.Error()
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorMessage() != "" {
		text = api.ErrorMessage()
	}
	if len(text) > maxMessage {
		const more = " ..."
		text = strings.ToValidUTF8(text[:maxMessage-len(more)], "") + more
	}
	return text
}
