package daemon

import (
	"context"
	"encoding/base64"

	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// presignFor makes a presigned GetCallerIdentity a token for one cluster, as "aws eks get-token"
// does: the cluster's name is among the signed headers, and so is the time it may be used.
// https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
func presignFor(cluster string) func(*sts.PresignOptions) {
	header := middleware.BuildMiddlewareFunc("ClusterOfToken", func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (middleware.BuildOutput, middleware.Metadata, error) {
		if request, ok := in.Request.(*smithyhttp.Request); ok {
			request.Header.Set("X-K8s-Aws-Id", cluster)
			query := request.URL.Query()
			query.Set("X-Amz-Expires", "60")
			request.URL.RawQuery = query.Encode()
		}
		return next.HandleBuild(ctx, in)
	})
	return func(o *sts.PresignOptions) {
		o.ClientOptions = append(o.ClientOptions, func(o *sts.Options) {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return stack.Build.Add(header, middleware.After) })
		})
	}
}

func encodeToken(url string) string {
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(url))
}
