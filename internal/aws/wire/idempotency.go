package wire

import (
	"context"
	"fmt"
	"net/http"
)

// A request that carries a client token is carried out once, however often it is sent. The service records the
// token and the request's [Fingerprint] in the transaction that carries it out, so that no crash comes between
// the two, and asks [Repeated] when the token comes again.
// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html

// Fingerprint identifies what a request asks for, whichever attempt it is: input is the SDK's input structure, of
// which the client token does not count.
func Fingerprint(input any) string { return fingerprint(input, false) }

// Repeated reports whether a request with that client token and fingerprint is another attempt of the one that the
// recorded ones came with. The same token with another fingerprint is the service's mismatch error, such as
// IdempotentParameterMismatch. A request without a token repeats nothing.
func Repeated(ctx context.Context, token *string, fingerprint, recordedToken, recordedFingerprint string) (
	bool, error) {
	if token == nil || *token == "" || *token != recordedToken {
		return false, nil
	}
	if fingerprint == recordedFingerprint {
		return true, nil
	}
	code := "IdempotentParameterMismatch"
	if s := callFrom(ctx).service; s != nil {
		code = s.mismatch
	}
	return false, &Error{
		Code: code,
		Message: fmt.Sprintf(
			"The client token %s was used before by a request with other parameters. Use a new token for a different "+
				"request.", *token),
		Status: http.StatusBadRequest,
	}
}
