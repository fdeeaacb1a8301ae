//go:build linux

package ebscsi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
)

func TestKubeletKnowsTheDriver(t *testing.T) {
	t.Parallel()
	count := int32(25)
	for name, x := range map[string]struct {
		drivers []storagev1.CSINodeDriver
		known   bool
	}{
		"known": {[]storagev1.CSINodeDriver{{Name: DriverName,
			Allocatable: &storagev1.VolumeNodeResources{Count: &count}}}, true},
		"not known":    {},
		"not yet told": {drivers: []storagev1.CSINodeDriver{{Name: DriverName}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/storage.k8s.io/v1/csinodes/n" {
					t.Errorf("%s is asked for", r.URL.Path)
				}
				_ = json.NewEncoder(w).Encode(storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: x.drivers}})
			}))
			defer server.Close()
			err := isRegistered(t.Context(), &csidriver.Kubernetes{Host: server.URL, Client: server.Client()}, "n")
			if (err == nil) != x.known {
				t.Error(err)
			}
		})
	}
}
