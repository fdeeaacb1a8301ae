package kms

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func validation(format string, args ...any) error {
	return wire.Errorf("ValidationException", format, args...)
}

func notFound(format string, args ...any) error {
	return &types.NotFoundException{Message: new(fmt.Sprintf(format, args...))}
}

func invalidARN(format string, args ...any) error {
	return &types.InvalidArnException{Message: new(fmt.Sprintf(format, args...))}
}

func unsupported(format string, args ...any) error {
	return &types.UnsupportedOperationException{Message: new(fmt.Sprintf(format, args...))}
}

func limitExceeded(format string, args ...any) error {
	return &types.LimitExceededException{Message: new(fmt.Sprintf(format, args...))}
}

func malformedPolicy(format string, args ...any) error {
	return &types.MalformedPolicyDocumentException{Message: new(fmt.Sprintf(format, args...))}
}

// dryRun returns the answer to a request with DryRun that would have succeeded.
func dryRun() error {
	return &types.DryRunOperationException{
		Message: new("The request would have succeeded, but the DryRun option is set."),
	}
}

// invalidCiphertext has no message, as on AWS: it tells nothing of what is wrong.
func invalidCiphertext() error { return &types.InvalidCiphertextException{Message: new("")} }

// requireEnabled refuses to use a key that is not Enabled.
func requireEnabled(k record.KMSKey) error {
	switch k.State {
	case types.KeyStateEnabled:
		return nil
	case types.KeyStateDisabled:
		return &types.DisabledException{Message: new(k.ARN() + " is disabled.")}
	}
	return requireKept(k)
}

// requireKept refuses to change a key that is going to be deleted.
func requireKept(k record.KMSKey) error {
	if k.State == types.KeyStatePendingDeletion {
		return &types.KMSInvalidStateException{Message: new(k.ARN() + " is pending deletion.")}
	}
	return nil
}
