package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	said := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
			Message: message}}
	}
	denied := `admission webhook "policy.example.com" denied the request: no`
	for name, test := range map[string]struct {
		err             error
		refused, answer bool
	}{
		"no answer":            {errors.New("connection refused"), false, false},
		"forbidden":            {apierrors.NewForbidden(resource, "x", errors.New("no")), true, true},
		"invalid":              {apierrors.NewBadRequest("no"), true, true},
		"wrapped":              {fmt.Errorf("write: %w", apierrors.NewBadRequest("no")), true, true},
		"a conflict":           {apierrors.NewConflict(resource, "x", errors.New("no")), false, true},
		"gone":                 {apierrors.NewNotFound(resource, "x"), false, true},
		"too much at once":     {apierrors.NewTooManyRequests("later", 1), false, true},
		"out of order":         {apierrors.NewInternalError(errors.New("no")), false, true},
		"a webhook's 400":      {said(http.StatusBadRequest, "", denied), true, true},
		"a webhook's conflict": {said(http.StatusConflict, metav1.StatusReasonConflict, denied), true, true},
		"a webhook's 429":      {said(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, denied), true, true},
		"a webhook's 500":      {said(http.StatusInternalServerError, metav1.StatusReasonInternalError, denied), true, true},
		"a policy's 413": {said(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "configmaps "+
			"\"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"), true, true},
		"a webhook that is down": {apierrors.NewInternalError(errors.New(
			`failed calling webhook "policy.example.com": connection refused`)), true, true},
	} {
		if refused, answer := IsRefusal(test.err), IsAnswer(test.err); refused != test.refused || answer != test.answer {
			t.Errorf("%s: %t, %t", name, refused, answer)
		}
	}
}

// TestUnreachedIsToldFromTheRest has an API server that is not there, one that ends connections, and one that answers
// too much.
func TestUnreachedIsToldFromTheRest(t *testing.T) {
	t.Parallel()
	large := strings.Repeat(" ", MaxAnswer+1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/ends") {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, large)
	}))
	t.Cleanup(server.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, test := range []struct {
		url, name string
		unreached bool
	}{{gone.URL, "any", true}, {server.URL, "ends", false}, {server.URL, "large", false}} {
		config := &rest.Config{Host: test.url}
		connections, err := HTTP(config, "blue")
		if err != nil {
			t.Fatal(err)
		}
		core, err := corev1client.NewForConfigAndClient(config, connections)
		if err != nil {
			t.Fatal(err)
		}
		_, err = core.ConfigMaps("a").Get(t.Context(), test.name, metav1.GetOptions{})
		if err == nil || IsAnswer(err) || errors.Is(err, ErrUnreached) != test.unreached {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
