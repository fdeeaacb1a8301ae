package authenticator

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Identity is the signer of a token, according to STS.
type Identity struct {
	ARN          string // arn:aws:sts::111122223333:assumed-role/Admin/alice
	CanonicalARN string // arn:aws:iam::111122223333:role/Admin
	AccountID    string
	PrincipalID  string // AROA... or AIDA...; the account for its root user
	SessionName  string // empty unless a role was assumed
	AccessKeyID  string
	STSEndpoint  string // the host that the token names

	kind    kind
	service string // the AWS service that acts in the session; empty for everybody else
}

// stsError is an answer of STS other than an identity.
type stsError struct {
	status int
	code   string
	text   string
}

func (e *stsError) Error() string {
	return fmt.Sprintf("sts getCallerIdentity failed: error from AWS (expected 200, got %d). Body: %s", e.status,
		e.text)
}

// transient reports whether the same token may be good in a moment.
func (e *stsError) transient() bool {
	return e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests ||
		e.code == "Throttling"
}

// callerIdentity is the part of STS's answer that matters, in either of its two formats.
type callerIdentity struct {
	Account string
	Arn     string
	UserID  string `xml:"UserId" json:"UserId"`
}

// Caller returns who signed the text of a token for the cluster with a name, for a request that is sent on to the API
// server of the cluster, which authenticates it again. The error is about the token where refused is set.
func (a *Authenticator) Caller(ctx context.Context, text, clusterName string) (id Identity, refused bool, err error) {
	token, err := ParseToken(text, a.now(), a.own)
	if err != nil {
		return Identity{}, true, err
	}
	id, err = a.identify(ctx, token, clusterName)
	var answer *stsError
	return id, errors.As(err, &answer) && !answer.transient(), err
}

// identify asks STS who signed the token. A token carries the names of the signed headers but
// not their values; the signature is good only with the value it was made for. That is the
// cluster's name, or its ID in tokens of `aws eks get-token --cluster-id`.
func (a *Authenticator) identify(ctx context.Context, token Token, clusterNames ...string) (Identity, error) {
	var identity Identity
	err := errors.New("the cluster has no name")
	for _, name := range clusterNames {
		identity, err = a.fetchIdentity(ctx, token, name)
		var refused *stsError
		if !errors.As(err, &refused) || refused.code != "SignatureDoesNotMatch" {
			break
		}
	}
	return identity, err
}

func (a *Authenticator) fetchIdentity(ctx context.Context, token Token, clusterName string) (Identity, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, token.URL, nil)
	if err != nil {
		return Identity{}, malformed("the pre-signed URL makes no request")
	}
	req.Header.Set(clusterHeader, clusterName)
	req.Header.Set("User-Agent", userAgent)
	resp, err := a.sts.RoundTrip(req)
	if err != nil {
		return Identity{}, fmt.Errorf("sts getCallerIdentity failed: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return Identity{}, fmt.Errorf("sts getCallerIdentity failed: read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return Identity{}, &stsError{status: resp.StatusCode, code: errorCode(body), text: string(body)}
	}
	caller, err := decodeCaller(body)
	if err != nil {
		return Identity{}, fmt.Errorf("sts getCallerIdentity failed: decode the answer: %w", err)
	}
	id := Identity{ARN: caller.Arn, AccountID: caller.Account, AccessKeyID: token.AccessKeyID, STSEndpoint: token.Host,
		service: a.service(resp)}
	id.CanonicalARN, id.kind, err = canonicalize(caller.Arn)
	if err != nil {
		return Identity{}, fmt.Errorf("sts getCallerIdentity failed: %w", err)
	}
	// A federated user's ID is account:name; the account alone would be that of the root user.
	id.PrincipalID = caller.UserID
	if id.kind == assumedRole {
		role, session, ok := strings.Cut(caller.UserID, ":")
		if !ok {
			return Identity{}, fmt.Errorf("sts getCallerIdentity failed: malformed UserID %q", caller.UserID)
		}
		id.PrincipalID, id.SessionName = role, session
	}
	return id, nil
}

func decodeCaller(body []byte) (callerIdentity, error) {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		var answer struct {
			GetCallerIdentityResponse struct {
				GetCallerIdentityResult callerIdentity
			}
		}
		err := json.Unmarshal(body, &answer)
		return answer.GetCallerIdentityResponse.GetCallerIdentityResult, err
	}
	var answer struct {
		GetCallerIdentityResult callerIdentity
	}
	err := xml.Unmarshal(body, &answer)
	return answer.GetCallerIdentityResult, err
}

// errorCode returns the code of an error of STS in either format; empty if it has none.
func errorCode(body []byte) string {
	var answer struct {
		Error struct{ Code string }
	}
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		err = json.Unmarshal(body, &answer)
	} else {
		err = xml.Unmarshal(body, &answer)
	}
	if err != nil {
		return ""
	}
	return answer.Error.Code
}
