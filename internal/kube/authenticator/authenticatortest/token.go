// Package authenticatortest makes bearer tokens for tests, as `aws eks get-token` does.
package authenticatortest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Token returns a token of the holder of config's credentials for a cluster, given its name. It is signed as of now;
// two tokens of one second are the same.
func Token(ctx context.Context, config aws.Config, cluster string) (string, error) {
	return TokenAt(ctx, config, cluster, time.Now())
}

// TokenAt returns a token that is signed as of another time.
func TokenAt(ctx context.Context, config aws.Config, cluster string, at time.Time) (string, error) {
	presigner := sts.NewPresignClient(sts.NewFromConfig(config, sts.WithAPIOptions(
		smithyhttp.SetHeaderValue("x-k8s-aws-id", cluster),
		// What the command asks for; STS gives 15 minutes in any case.
		smithyhttp.SetHeaderValue("X-Amz-Expires", "60"),
	)))
	request, err := presigner.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}, func(o *sts.PresignOptions) {
		o.Presigner = signer{o.Presigner, at}
	})
	if err != nil {
		return "", fmt.Errorf("presign a token for cluster %s: %w", cluster, err)
	}
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(request.URL)), nil
}

// signer signs as of a time of its own.
type signer struct {
	sts.HTTPPresignerV4
	at time.Time
}

func (s signer) PresignHTTP(ctx context.Context, credentials aws.Credentials, r *http.Request, payloadHash, service,
	region string, _ time.Time, options ...func(*v4.SignerOptions)) (string, http.Header, error) {
	return s.HTTPPresignerV4.PresignHTTP(ctx, credentials, r, payloadHash, service, region, s.at, options...)
}
