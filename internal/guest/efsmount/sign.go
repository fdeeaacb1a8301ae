package efsmount

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// sign returns the query of a presigned request that identifies a client to a file system. That of amazon-efs-utils is
// in the certificate of its connection and has the hash of the key; here there is no certificate, and the number is
// random.
func sign(ctx context.Context, c aws.Credentials, region, fileSystem string, now time.Time) (string, error) {
	number := make([]byte, 20)
	_, _ = rand.Read(number) // never fails
	query := url.Values{"Action": {"Connect"}, "PublicKeyHash": {hex.EncodeToString(number)}, "X-Amz-Expires": {"300"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+fileSystem+"/?"+query.Encode(), nil)
	if err != nil {
		return "", err
	}
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, c, request, hex.EncodeToString(empty[:]), "elasticfilesystem",
		region, now)
	if err != nil {
		return "", fmt.Errorf("sign the request to connect to %s: %w", fileSystem, err)
	}
	u, err := url.Parse(signed)
	if err != nil {
		return "", err
	}
	return u.RawQuery, nil
}
