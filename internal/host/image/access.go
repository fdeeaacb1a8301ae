package image

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Access authorizes requests to ECR's registries. internal/aws/ecr implements it.
type Access interface {
	// Allow returns nil, or the reason why a request is refused: a *Refusal, which is sent to the client, or an
	// internal error.
	Allow(ctx context.Context, r Request) error
	// Exists reports whether an account has a repository.
	Exists(ctx context.Context, account, region, repository string) (bool, error)
	// Upstream returns the repository of another registry ("docker.io/library/nginx") of which a repository is a cache;
	// empty for one that is not.
	Upstream(ctx context.Context, account, region, repository string) (string, error)
}

// Request is a request of a client of the registry API.
type Request struct {
	// HTTP is the request as it came: policies may ask where from, and whether over TLS.
	HTTP *http.Request
	// Password is the authorization token that the client gave for the user AWS; empty without one.
	Password string
	// LayerToken is instead of a Password in the URL of Layer, when that is read.
	LayerToken string
	// Account and Region are whose registry it is, RequestedRegion is the one in the name under which the client
	// reached it.
	Account, Region, RequestedRegion string
	// Repository is empty when the client only wants to know whether its token is good.
	Repository string
	// Actions are IAM actions on the repository, all of which it takes: "ecr:BatchGetImage".
	Actions []string
	// Tag is the tag to put a manifest under; empty for a digest, and when no manifest is put.
	Tag string
	// Digest is of the manifest that is to be put under Tag.
	Digest string
	// Layer is the digest of the layer that is to be read; empty for all else.
	Layer string
}

// Refusal is an error of the registry's protocol.
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes
type Refusal struct {
	Status        int // of HTTP
	Code, Message string
}

func (r *Refusal) Error() string { return r.Message }

// The refusals that ECR has.
var (
	// Unauthenticated is for a request without a token, or with one that is none.
	Unauthenticated = &Refusal{http.StatusUnauthorized, "UNAUTHORIZED", "Not Authorized"}
	// Expired is for a token that was good once.
	Expired = &Refusal{http.StatusForbidden, "DENIED",
		"Your authorization token has expired. Reauthenticate and try again."}
)

// UnknownRepository returns the refusal for a repository that does not exist.
func UnknownRepository(account, repository string) *Refusal {
	return &Refusal{http.StatusNotFound, "NAME_UNKNOWN",
		fmt.Sprintf("The repository with name '%s' does not exist in the registry with id '%s'", repository, account)}
}

// Denied returns the refusal of an action that the caller is not allowed to perform.
func Denied(message string) *Refusal { return &Refusal{http.StatusForbidden, "DENIED", message} }

// writeResponse answers with the refusal.
func (r *Refusal) writeResponse(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	if r.Status == http.StatusUnauthorized {
		scheme := "https"
		if request.TLS == nil {
			scheme = "http"
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Basic realm="%s://%s/",service="ecr.amazonaws.com"`, scheme,
			request.Host))
	}
	type failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(map[string][]failure{"errors": {{r.Code, r.Message}}})
	if err != nil {
		panic(err) // strings
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(r.Status)
	if request.Method != http.MethodHead {
		w.Write(body) //nolint:errcheck // the client has gone
	}
}

// password returns the password that the request sends for the user AWS; empty when it sends none.
func password(r *http.Request) string {
	user, password, ok := r.BasicAuth()
	if !ok || user != "AWS" {
		return ""
	}
	return strings.TrimSpace(password)
}

// layerParameter is the parameter with a token in the URL of a layer.
const layerParameter = "layer-token"

// LayerQuery returns the query of a layer's URL, with a token with which clients that send no password may read it.
func LayerQuery(token string) string { return url.Values{layerParameter: {token}}.Encode() }
