//go:build linux

package ebscsi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTaintGoesOnceKubeletKnowsTheDriver(t *testing.T) {
	t.Parallel()
	taint := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute} }
	count := int32(25)
	known := []storagev1.CSINodeDriver{{Name: DriverName, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}
	for name, x := range map[string]struct {
		taints  []corev1.Taint
		drivers []storagev1.CSINodeDriver
		patch   string // contains
		fails   bool
	}{
		"none":      {taints: []corev1.Taint{taint("other")}, drivers: known},
		"known":     {taints: []corev1.Taint{taint("other"), taint(taintKey)}, drivers: known, patch: `"op":"replace"`},
		"not known": {taints: []corev1.Taint{taint(taintKey)}, fails: true},
		"not yet told": {taints: []corev1.Taint{taint(taintKey)}, drivers: []storagev1.CSINodeDriver{{Name: DriverName}},
			fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var patch string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var answer any
				switch {
				case r.Method == http.MethodPatch:
					content, _ := io.ReadAll(r.Body)
					patch = string(content)
				case r.URL.Path == "/api/v1/nodes/n":
					answer = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: x.taints}}
				case r.URL.Path == "/apis/storage.k8s.io/v1/csinodes/n":
					answer = storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: x.drivers}}
				}
				_ = json.NewEncoder(w).Encode(answer)
			}))
			defer server.Close()
			err := (&kubernetes{server.URL, server.Client()}).untaint(t.Context(), "n")
			if (err != nil) != x.fails || !strings.Contains(patch, x.patch) || (patch == "") != (x.patch == "") {
				t.Errorf("%v, with the patch %q", err, patch)
			}
		})
	}
}
