package iam

import (
	"errors"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func noSuchEntity(format string, args ...any) error {
	return wire.Errorf("NoSuchEntity", format, args...)
}

func alreadyExists(format string, args ...any) error {
	return wire.Errorf("EntityAlreadyExists", format, args...)
}

func deleteConflict(format string, args ...any) error {
	return wire.Errorf("DeleteConflict", format, args...)
}

func limitExceeded(format string, args ...any) error {
	return wire.Errorf("LimitExceeded", format, args...)
}

func invalidInput(format string, args ...any) error {
	return wire.Errorf("InvalidInput", format, args...)
}

func validation(format string, args ...any) error {
	return wire.Errorf("ValidationError", format, args...)
}

// parsePolicy reads a policy document that a user gave.
func parsePolicy(kind policy.Kind, text string) (*policy.Document, error) {
	d, err := policy.Parse(kind, text)
	var m *policy.MalformedError
	if errors.As(err, &m) {
		return nil, wire.Errorf("MalformedPolicyDocument", "%s", m.Message)
	}
	return d, err
}
