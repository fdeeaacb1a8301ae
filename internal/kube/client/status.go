package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Bounds of what is kept of an error of an API server. Errors end in logs, health issues and metrics.
const (
	// MaxText is the maximum length of a text in bytes: EKS shows texts as API servers word them, and no longer ones.
	MaxText = 8 << 10
	// maxFailure is the largest answer that says why a request failed, in bytes. Beyond it, only the status code counts.
	maxFailure = 1 << 20
	// maxCauses is the maximum number of causes: a cause is a field, and the objects of add-ons have hundreds.
	maxCauses = 1000
	maxWord   = 256 // of reasons, types and names
	maxCause  = 1 << 10
)

// Cut returns the first MaxText bytes of a text that came from an API server.
func Cut(s string) string { return cut(s, MaxText) }

func cut(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + " ..."
}

// EventError returns the error that an event of type ERROR of a watch reports, with bounded texts.
func EventError(object runtime.Object) error {
	status, ok := object.(*metav1.Status)
	if !ok {
		return fmt.Errorf("the API server reports an error with an object of type %T", object)
	}
	cutStatus(status)
	return apierrors.FromObject(status)
}

// cutStatus cuts the texts of an error, and the number of its causes.
func cutStatus(status *metav1.Status) {
	status.ListMeta = metav1.ListMeta{}
	status.Status, status.Message = cut(status.Status, maxWord), Cut(status.Message)
	status.Reason = metav1.StatusReason(cut(string(status.Reason), maxWord))
	details := status.Details
	if details == nil {
		return
	}
	details.Name, details.Group = cut(details.Name, maxWord), cut(details.Group, maxWord)
	details.Kind, details.UID = cut(details.Kind, maxWord), ""
	// Cloned, so that the others are not held.
	details.Causes = append([]metav1.StatusCause(nil), details.Causes[:min(len(details.Causes), maxCauses)]...)
	for i, c := range details.Causes {
		details.Causes[i] = metav1.StatusCause{Type: metav1.CauseType(cut(string(c.Type), maxWord)),
			Message: cut(c.Message, maxCause), Field: cut(c.Field, maxCause)}
	}
}

// cutFailure replaces the body of an answer that says why a request failed by what is kept of it.
func cutFailure(response *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxFailure+1))
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	isJSON := !strings.HasPrefix(response.Header.Get("Content-Type"), "text/")
	var status metav1.Status
	switch {
	case errors.Is(err, ErrTooLarge), len(raw) > maxFailure:
		raw, isJSON = fmt.Appendf(nil, "%s: the reason is %v", http.StatusText(response.StatusCode), ErrTooLarge), false
	case err != nil:
		return err
	case isJSON && json.Unmarshal(raw, &status) == nil && (status.Kind == "" || status.Kind == "Status"):
		cutStatus(&status)
		if raw, err = json.Marshal(status); err != nil {
			return err
		}
	default:
		raw = []byte(Cut(string(raw)))
	}
	if !isJSON {
		response.Header.Set("Content-Type", "text/plain")
	}
	response.Header.Del("Content-Length")
	response.ContentLength = int64(len(raw))
	response.Body = io.NopCloser(bytes.NewReader(raw))
	return nil
}
