package acm

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func validation(format string, args ...any) error {
	return wire.Errorf("ValidationException", format, args...)
}

func invalidParameter(format string, args ...any) error {
	return &types.InvalidParameterException{Message: new(fmt.Sprintf(format, args...))}
}

func invalidARN(arn string) error {
	return &types.InvalidArnException{Message: new("The ARN " + arn + " is not that of a certificate, which is " +
		"arn:aws:acm:REGION:ACCOUNT:certificate/ID.")}
}

func invalidState(format string, args ...any) error {
	return &types.InvalidStateException{Message: new(fmt.Sprintf(format, args...))}
}

func notFound(arn string) error {
	return &types.ResourceNotFoundException{Message: new("Could not find certificate " + arn + ".")}
}

func limitExceeded(format string, args ...any) error {
	return &types.LimitExceededException{Message: new(fmt.Sprintf(format, args...))}
}

func invalidTag(format string, args ...any) error {
	return &types.InvalidTagException{Message: new(fmt.Sprintf(format, args...))}
}

func invalidDomainValidation(format string, args ...any) error {
	return &types.InvalidDomainValidationOptionsException{Message: new(fmt.Sprintf(format, args...))}
}
