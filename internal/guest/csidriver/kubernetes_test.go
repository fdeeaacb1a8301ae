//go:build linux

package csidriver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTaintGoesOnceTheDriverIsReady(t *testing.T) {
	t.Parallel()
	taint := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute} }
	for name, x := range map[string]struct {
		taints []corev1.Taint
		ready  error
		patch  string // contains
	}{
		"none": {taints: []corev1.Taint{taint("other")}, ready: errors.New("not asked")},
		"ready": {taints: []corev1.Taint{taint("other"), taint(driverName + "/agent-not-ready")},
			patch: `"op":"replace"`},
		"not ready": {taints: []corev1.Taint{taint(driverName + "/agent-not-ready")}, ready: errors.New("not yet")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var patch string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch {
					content, _ := io.ReadAll(r.Body)
					patch = string(content)
				}
				_ = json.NewEncoder(w).Encode(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
					Spec: corev1.NodeSpec{Taints: x.taints}})
			}))
			defer server.Close()
			of := Taint{Driver: driverName, Ready: func(context.Context, *Kubernetes, string) error { return x.ready }}
			err := of.removeFrom(t.Context(), &Kubernetes{server.URL, server.Client()}, "n")
			if (err != nil) != (name == "not ready") || !strings.Contains(patch, x.patch) || (patch == "") != (x.patch == "") {
				t.Errorf("%v, with the patch %q", err, patch)
			}
		})
	}
}
