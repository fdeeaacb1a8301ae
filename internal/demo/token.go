package demo

import (
	"context"
	"encoding/base64"

	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// bearerToken returns a token of the caller of client for one cluster, as "aws eks get-token" does: a presigned
// GetCallerIdentity, with the cluster's name among the signed headers, and the time for which it may be used.
// https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
func bearerToken(ctx context.Context, client *sts.Client, cluster string) (string, error) {
	presigner := sts.NewPresignClient(client, sts.WithPresignClientFromClientOptions(sts.WithAPIOptions(
		smithyhttp.SetHeaderValue("X-K8s-Aws-Id", cluster),
		smithyhttp.SetHeaderValue("X-Amz-Expires", "60"),
	)))
	request, err := presigner.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(request.URL)), nil
}
