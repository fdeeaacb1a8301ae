package client

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// byUsers are what errors say of requests that something of the cluster's users refuses, a webhook or a policy. It
// chooses the code, so that says nothing.
var byUsers = []string{"denied the request: ", "denied request: ", "failed calling webhook"}

// IsRefusal reports whether an API server does not do what EKS asks because somebody has taken its powers away, or a
// webhook or policy of the cluster's is against it, or cannot be asked.
func IsRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	for _, text := range byUsers {
		if strings.Contains(s.Message, text) {
			return true
		}
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err),
		apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return false
	}
	return s.Code >= http.StatusBadRequest && s.Code < http.StatusInternalServerError
}

// ErrUnreached is an error of requests for which there was no connection to the API server. Whatever else is wrong, a
// cluster can choose, such as an answer that is too large, or none in time.
var ErrUnreached = errors.New("the cluster's API server cannot be reached")

// unreached is an error of such a request.
type unreached struct{ error }

func (e unreached) Unwrap() error { return e.error }

func (unreached) Is(target error) bool { return target == ErrUnreached }

// IsAnswer reports whether an error is the answer of an API server, rather than that it could not be asked.
func IsAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
