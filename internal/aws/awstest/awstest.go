// Package awstest has what the tests of the AWS services share: who calls, what they may, and how errors are read.
package awstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Where tests call from, and as whom, unless they say otherwise.
const (
	Account = "111122223333"
	Region  = "eu-west-1"
	RootARN = "arn:aws:iam::" + Account + ":root"
)

// Root returns the root user of the account.
func Root() wire.Caller {
	return wire.Caller{Account: Account, ARN: RootARN, PrincipalARN: RootARN, UserID: Account, AccessKeyID: "AKIAROOT"}
}

// Judge is the credentials and the authorizer of a [wire.Mux]: it knows who calls and what they may, and records what
// it was asked. All keys have the secret "secret".
type Judge struct {
	Mu       sync.Mutex                          // guards what follows while requests are served
	Caller   wire.Caller                         // of all keys but those of Sessions
	Sessions map[string]wire.Caller              // by access key ID
	Deny     func(wire.Caller, wire.Target) bool // what is denied; nil for nothing
	Asked    []wire.Target
}

// NewJudge returns a judge for whom the root user calls, who may do everything.
func NewJudge() *Judge { return &Judge{Caller: Root()} }

// Lookup returns the caller of a key.
func (j *Judge) Lookup(_ context.Context, key, _ string) (string, wire.Caller, error) {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	if c, ok := j.Sessions[key]; ok {
		return "secret", c, nil
	}
	return "secret", j.Caller, nil
}

// Authorize records what is asked, and refuses what is denied.
func (j *Judge) Authorize(_ context.Context, caller wire.Caller, targets []wire.Target) error {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	j.Asked = append(j.Asked, targets...)
	for _, t := range targets {
		if j.Deny != nil && j.Deny(caller, t) {
			return &wire.Denied{Action: t.Action, Resource: t.Resource,
				Reason: "because no identity-based policy allows the " + t.Action + " action"}
		}
	}
	return nil
}

// As makes every further call that of another caller.
func (j *Judge) As(c wire.Caller) {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	j.Caller = c
}

// Targets returns what was asked about an action.
func (j *Judge) Targets(action string) []wire.Target {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	return slices.DeleteFunc(slices.Clone(j.Asked), func(t wire.Target) bool { return t.Action != action })
}

// Must returns the answer of a call that must succeed.
func Must[T any](t testing.TB) func(T, error) T {
	return func(out T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// Code returns the AWS error code of err; its text, when it is none of AWS's.
func Code(err error) string {
	if code, _, _ := Failure(err); code != "" {
		return code
	}
	return fmt.Sprint(err)
}

// Failure returns the AWS error code of err, its message and its HTTP status; nothing when it is none of AWS's.
func Failure(err error) (code, message string, status int) {
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if errors.As(err, &api) {
		code, message = api.ErrorCode(), api.ErrorMessage()
	}
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	return code, message, status
}

// WantCode fails the test unless err is an AWS error of that code.
func WantCode(t testing.TB, err error, want string) {
	t.Helper()
	if got, message, _ := Failure(err); got != want {
		t.Fatalf("got error %q (%s, %v), want %s", got, message, err, want)
	}
}
