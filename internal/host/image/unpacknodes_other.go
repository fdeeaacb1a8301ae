//go:build !linux

package image

import (
	"context"
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// unpackImages returns an error: only machines have unpacked images in their cache.
func (r *Registry) unpackImages(context.Context, string, map[string]v1.Image) error {
	return errors.New("machines need Linux: run the daemon with --machines simulated")
}
