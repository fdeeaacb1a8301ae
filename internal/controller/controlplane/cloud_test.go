package controlplane

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

func TestCloudControllerManager(t *testing.T) {
	needBundle(t, "1.35")
	aws := httptest.NewServer(http.NotFoundHandler()) // without nodes and services it asks for nothing
	t.Cleanup(aws.Close)
	dir, owner := newDataDirectory(t)
	d := start(t, dir, owner, func(o *Options) {
		o.CloudProvider = func(record.Cluster) (CloudProvider, error) {
			return CloudProvider{Endpoint: aws.URL, Env: []string{"AWS_ACCESS_KEY_ID=AKIA",
				"AWS_SECRET_ACCESS_KEY=secret"}}, nil
		}
	})
	c := d.create(newCluster("cloudy", "1.35"))
	d.until("ready", func() bool { return d.plane(c).Ready })
	port, err := recordedPort(d.plane(c))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := client.New(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAData: d.plane(c).CertificateAuthority}}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clients.Close)
	for _, component := range []string{kubeControllerManager, kubeScheduler, cloudControllerManager} {
		d.until(component+" to be healthy", func() bool {
			_, err := getHealth(t.Context(), clients.HTTP, healthURL(plane{port: port}, component))
			return err == nil
		})
	}
	// Its controllers use service accounts, which it may make.
	admin, host := d.client(c, "admin", "system:masters")
	d.until("its service account", func() bool {
		_, err := getHealth(t.Context(), admin, host+"/api/v1/namespaces/kube-system/serviceaccounts/node-controller")
		return err == nil
	})
	if deaths := d.processes.List(c.ID + "/" + cloudControllerManager); len(deaths) != 1 || deaths[0].Deaths != 0 {
		t.Errorf("%+v", deaths)
	}
}
