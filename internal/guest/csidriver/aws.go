//go:build linux

package csidriver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
)

// HasCode reports whether an error is one of AWS with one of the codes.
func HasCode(err error, codes ...string) bool {
	var e smithy.APIError
	return errors.As(err, &e) && slices.Contains(codes, e.ErrorCode())
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Poll asks until done says so or fails, with longer and longer pauses.
func Poll(ctx context.Context, done func() (bool, error)) error {
	pause := firstPause
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(pause*3/2, lastPause)
	}
}

// LoadConfig returns the settings of clients of AWS, with the credentials of the pod: those of its service account's
// role, or the node's. The region is that of the environment, or of the instance.
func LoadConfig(ctx context.Context, userAgent string, options ...func(*config.LoadOptions) error) (aws.Config, error) {
	loading, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := config.LoadDefaultConfig(loading, append(options, config.WithRetryMaxAttempts(8),
		config.WithEC2IMDSRegion())...)
	if err != nil {
		return c, fmt.Errorf("find region and credentials: %w", err)
	}
	c.APIOptions = append(c.APIOptions, middleware.AddUserAgentKey(userAgent))
	return c, nil
}
