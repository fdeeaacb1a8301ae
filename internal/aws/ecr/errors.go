package ecr

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/host/image"
)

func message(format string, args ...any) *string { return new(fmt.Sprintf(format, args...)) }

func invalidParameter(format string, args ...any) error {
	return &types.InvalidParameterException{Message: message(format, args...)}
}

// readOnly refuses to change what is in EKS's own registries.
func readOnly() error { return invalidParameter("The images of Amazon EKS are read-only") }

func repositoryNotFound(at registry, name string) error {
	return &types.RepositoryNotFoundException{
		Message: message("The repository with name '%s' does not exist in the registry with id '%s'", name, at.account)}
}

// limitExceeded converts errors of the registry about exhausted space or uploads; it returns other errors unchanged.
func limitExceeded(err error) error {
	if errors.Is(err, image.ErrFull) || errors.Is(err, image.ErrTooManyUploads) || errors.Is(err, image.ErrQuota) {
		return &types.LimitExceededException{Message: aws.String(err.Error())}
	}
	return err
}

// notScanned refuses what would have to look for vulnerabilities.
func notScanned() error {
	return &types.ValidationException{Message: message(
		"coracle does not scan images: leave scanOnPush false, and run a scanner such as Trivy against the registry")}
}
