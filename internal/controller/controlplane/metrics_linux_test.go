package controlplane

import (
	"net/http"
	"strings"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/record"
)

// metrics reads the metrics of the scheduler and the controller manager through the API server, as those who may, and
// as those who may not.
func (v *vpc) metrics(c record.Cluster) {
	v.Helper()
	admin, server := v.daemon.client(c, "admin", "system:masters")
	prometheus, _ := v.daemon.client(c, "prometheus")
	base := server + "/apis/" + extensionmetrics.Group + "/v1"
	for name, metric := range map[string]string{
		"ksh": "\nscheduler_pending_pods{queue=\"active\"}", "kcm": "\nworkqueue_depth{name=\"deployment\"}",
	} {
		text, err := getHealth(v.Context(), admin, base+"/"+name+"/container/metrics")
		if err != nil || !strings.Contains(string(text), metric) {
			v.Errorf("%s: %d bytes without %q, %v", name, len(text), metric, err)
		}
	}
	refused := func(what, status string, client *http.Client, url string) {
		v.Helper()
		if _, err := getHealth(v.Context(), client, url); err == nil || !strings.Contains(err.Error(), status) {
			v.Errorf("%s: %v, want %s", what, err, status)
		}
	}
	refused("of a component that there is not", "404", admin, base+"/etcd/container/metrics")
	refused("without permission", "403", prometheus, base+"/ksh/container/metrics")
	// The API server shows its certificate on no other way there.
	refused("by the proxy for services", " 50", admin, server+"/api/v1/namespaces/kube-system/services/https:"+
		extensionmetrics.Service+":metrics-api/proxy/apis/"+extensionmetrics.Group+"/v1/ksh/container/metrics")

	for path, body := range map[string]string{
		"clusterroles": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"p"},` +
			`"rules":[{"apiGroups":["metrics.eks.amazonaws.com"],"resources":["kcm/metrics","ksh/metrics"],` +
			`"verbs":["get"]}]}`,
		"clusterrolebindings": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",` +
			`"metadata":{"name":"p"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"p"},` +
			`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"prometheus"}]}`,
	} {
		response, err := admin.Post(server+"/apis/rbac.authorization.k8s.io/v1/"+path, "application/json",
			strings.NewReader(body))
		if err != nil {
			v.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusCreated {
			v.Fatalf("%s: %s", path, response.Status)
		}
	}
	eventually.Nil(v, "the role of the user guide lets a user read", func() error {
		_, err := getHealth(v.Context(), prometheus, base+"/ksh/container/metrics")
		return err
	})
}
