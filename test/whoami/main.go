// Command whoami prints the ARN of who it is, by the AWS SDK for Go with its default configuration. The tests' pods run
// it beside the SDK for Python.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

func main() {
	ctx := context.Background()
	c, err := config.LoadDefaultConfig(ctx)
	if err == nil {
		var out *sts.GetCallerIdentityOutput
		if out, err = sts.NewFromConfig(c).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}); err == nil {
			fmt.Println(*out.Arn)
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
