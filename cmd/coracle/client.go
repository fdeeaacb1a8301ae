package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/datadir"
)

// clientConfig returns the configuration of a command's AWS clients: those of the root user of the data directory's
// first account. With environment, the variables that "coracle env" prints take precedence, if all that are needed are
// set, so that a command can act as a user of IAM. The error says when the daemon is not running.
func clientConfig(dir datadir.Dir, environment bool) (aws.Config, error) {
	endpoint := os.Getenv("AWS_ENDPOINT_URL")
	id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	if environment && endpoint != "" && id != "" && secret != "" {
		region := os.Getenv("AWS_REGION")
		if region == "" {
			region = os.Getenv("AWS_DEFAULT_REGION")
		}
		if region == "" {
			return aws.Config{}, errors.New(
				"AWS_ENDPOINT_URL and keys are set, but no AWS_REGION: set it, or unset AWS_ENDPOINT_URL",
			)
		}
		return aws.Config{Region: region, BaseEndpoint: &endpoint,
			Credentials: credentials.NewStaticCredentialsProvider(id, secret, os.Getenv("AWS_SESSION_TOKEN"))}, nil
	}
	s, err := dir.ReadSettings()
	if errors.Is(err, fs.ErrNotExist) {
		return aws.Config{}, notRunning(dir)
	}
	if err != nil {
		return aws.Config{}, err
	}
	if _, held, err := dir.Holder(); err != nil {
		return aws.Config{}, err
	} else if !held {
		return aws.Config{}, notRunning(dir)
	}
	all, err := dir.ReadCredentials()
	if err != nil {
		return aws.Config{}, err
	}
	root := all[s.Account]
	endpoint = daemon.EndpointURL(s.Listen)
	return aws.Config{Region: s.Region, BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(root.AccessKeyID, root.SecretAccessKey, "")}, nil
}
