//go:build !linux

package fargate

import "errors"

func replaceNamespace(string, string) error { return errors.ErrUnsupported }

func isSameFile(string, string) (bool, error) { return false, errors.ErrUnsupported }
