package ssm

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func validation(format string, args ...any) error {
	return wire.Errorf("ValidationException", format, args...)
}

// notFound has no message, as that of Systems Manager.
func notFound() error { return &types.ParameterNotFound{Message: new("")} }

func versionNotFound(name, selector string) error {
	return &types.ParameterVersionNotFound{
		Message: new(fmt.Sprintf("Systems Manager could not find version %s of %s. Verify the version and try again.",
			selector, name))}
}

// invalidFilterKey and the two below have a message that the CLI shows, although the model gives these errors none.
func invalidFilterKey(format string, args ...any) error {
	return wire.Errorf("InvalidFilterKey", format, args...)
}

func invalidResourceID(id string) error {
	return wire.Errorf("InvalidResourceId", "The parameter %s does not exist.", id)
}

func invalidResourceType(kind types.ResourceTypeForTagging) error {
	return wire.Errorf("InvalidResourceType", "Resources of type %s do not exist here; coracle serves Parameter.", kind)
}
