// Package servicerole has the IAM roles as which those parts of EKS log in to clusters that do not belong to a control
// plane: the managers of node groups and of add-ons.
//
// Each has a role in the account of the service. It logs in as "aws eks get-token" does: by a presigned
// sts:GetCallerIdentity, which the authenticator of the cluster verifies ([Config]). The authenticator maps the roles
// to users by [UserOf], whatever access entries and aws-auth say. The audit log and the log of the authenticator thus
// show who EKS is in the same way as on AWS.
//
// Nobody but the service can have credentials of the roles: their trust policies name the service alone, and the
// account is Amazon's (package amazonaccount). The authenticator does not go by that: it demands that [Principal] is
// sealed into the session, which the daemon alone does.
package servicerole

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
)

const (
	// Account is the account of the service.
	Account = amazonaccount.EKS
	// Session is the name of the sessions of the roles.
	Session = "EKSAuthTokenSession"
	// Service is the service that the trust policies of the roles name.
	Service = "lambda.amazonaws.com"
	// Principal is what acts in the sessions of the roles. It is no principal of a policy: no role trusts it, and no
	// session on behalf of others, or under a role of theirs, is of it.
	Principal = "eks:own-role"

	// tokenLife is the time for which a token is used. STS verifies it for 15 minutes.
	tokenLife = 10 * time.Minute
)

// Role is a role of the service in its account.
type Role struct {
	// Name is the name of the role, and User that of its user in every cluster.
	Name, User string
}

// Roles are all roles.
var Roles = []Role{
	{"AWSWesleyClusterManagerLambda-NodeManagerRole-1K0R8ACLE7Q2W", "eks:node-manager"},
	{"AWSWesleyClusterManagerLambda-Add-AddonManagerRole-1K0R8ACLE7Q2W", "eks:addon-manager"},
}

// UserOf returns the user of a role, given its ARN and what acts in the session; false for any other role, and for
// everybody but [Principal].
func UserOf(roleARN, principal string) (user string, ok bool) {
	name, ok := strings.CutPrefix(roleARN, "arn:aws:iam::"+Account+":role/")
	if !ok || principal != Principal {
		return "", false
	}
	for _, r := range Roles {
		if r.Name == name {
			return r.User, true
		}
	}
	return "", false
}

// NameOf returns the name of the role of a user; false for a user who logs in otherwise.
func NameOf(user string) (name string, ok bool) {
	for _, r := range Roles {
		if r.User == user {
			return r.Name, true
		}
	}
	return "", false
}

// Config returns a copy of the configuration of a client of a cluster's API server that shows tokens of the bearer of
// credentials instead of a certificate. The tokens are for the cluster with that ID alone: names belong to clusters of
// several accounts.
func Config(config *rest.Config, clusterID, region string, credentials aws.CredentialsProvider) *rest.Config {
	config = rest.CopyConfig(config)
	config.CertData, config.KeyData = nil, nil
	tokens := &tokens{clusterID: clusterID, client: sts.NewPresignClient(sts.NewFromConfig(aws.Config{Region: region,
		Credentials: credentials, HTTPClient: noConnection{}}))}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next, tokens} })
	return config
}

// noConnection is the HTTP client of clients that only presign.
type noConnection struct{}

// Do implements [aws.HTTPClient].
func (noConnection) Do(*http.Request) (*http.Response, error) {
	return nil, errors.New("a client that only presigns sends nothing")
}

// tokens makes tokens for one cluster.
type tokens struct {
	clusterID string
	client    *sts.PresignClient

	mu    sync.Mutex
	last  string
	until time.Time
}

// get returns a token that the authenticator of the cluster takes.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.last != "" && now.Before(t.until) {
		return t.last, nil
	}
	request, err := t.client.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{},
		sts.WithPresignClientFromClientOptions(sts.WithAPIOptions(
			smithyhttp.SetHeaderValue("X-K8s-Aws-Id", t.clusterID),
			smithyhttp.SetHeaderValue("X-Amz-Expires", "60"), // as the command; STS gives more
		)))
	if err != nil {
		return "", fmt.Errorf("presign a token for cluster %s: %w", t.clusterID, err)
	}
	t.last = "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(request.URL))
	t.until = now.Add(tokenLife)
	return t.last, nil
}

// drop forgets a token that was refused.
func (t *tokens) drop(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == token {
		t.last = ""
	}
}

// transport shows tokens.
type transport struct {
	next   http.RoundTripper
	tokens *tokens
}

// WrappedRoundTripper lets the connections be closed.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := t.tokens.get(request.Context())
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := t.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		t.tokens.drop(token)
	}
	return response, err
}
