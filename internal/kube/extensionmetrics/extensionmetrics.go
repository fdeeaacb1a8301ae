// Package extensionmetrics serves the API group metrics.eks.amazonaws.com: the Prometheus metrics of the scheduler
// (ksh) and the controller manager (kcm) of a cluster.
//
//	kubectl get --raw /apis/metrics.eks.amazonaws.com/v1/ksh/container/metrics
//
// The API server of the cluster aggregates the group. It finds the server by the service [Service], whose endpoint is
// [Address]; connections to that address end in the proxy through which the API server reaches its VPC, which gives
// them to [Serve]. The API server authenticates and authorizes every request (get of kcm/metrics or ksh/metrics of the
// group) before it sends it on, and shows the client certificate of its aggregation layer: nobody else gets an answer.
// The server asks the components as the user eks:extension-metrics-apiserver, whom they authorize at the API server.
//
// It keeps nothing: the certificates are files of the control plane, which are read again with each connection.
//
// https://docs.aws.amazon.com/eks/latest/userguide/view-raw-metrics.html
package extensionmetrics

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// Group is the API group.
	Group = "metrics.eks.amazonaws.com"
	// Version is the version of the API.
	Version = "v1"
	// Service is the name of the service that the API server aggregates.
	Service = "eks-extension-metrics-api"
	// Namespace is the namespace of the service.
	Namespace = "kube-system"
	// Address is the endpoint of the service.
	Address = address + ":10443"

	address = "172.0.32.0"
	port    = int64(10443)

	// User is the user as which the server asks the components.
	User = "eks:extension-metrics-apiserver"
	// ServerName is the name that the API server expects in the certificate of the server.
	ServerName = Service + "." + Namespace + ".svc"
	// Client is the common name of the client certificate of the API server's aggregation layer.
	Client = "front-proxy-client"

	// ServingCertificate is the name of the certificate of the server for ServerName, and of its key, in [Config.Dir],
	// without .crt and .key.
	ServingCertificate = "eks-extension-metrics-api"
	// ClientCertificate is that of the certificate of User.
	ClientCertificate = "extension-metrics-apiserver"

	// ControllerManager is the name of kube-controller-manager in the API.
	ControllerManager = "kcm"
	// Scheduler is the name of kube-scheduler in the API.
	Scheduler = "ksh"
)

// Config is what the server of one cluster needs.
type Config struct {
	// Dir has the certificates of the control plane: those above, ca.crt, which issued them and those of the components,
	// and front-proxy-ca.crt, which issued that of Client.
	Dir string
	// Components are the URLs of metrics by name: "ksh" is "https://127.80.1.1:10259/metrics".
	Components map[string]string
}

// Backend returns the service and its endpoint. The name of the slice ends with a suffix, as those that Kubernetes
// makes of Endpoints do.
func Backend(suffix string) []*unstructured.Unstructured {
	ports := map[string]any{"name": "metrics-api", "port": port, "protocol": "TCP"}
	return []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"name": Service, "namespace": Namespace},
			"spec": map[string]any{"ports": []any{map[string]any{"name": "metrics-api", "port": int64(443),
				"protocol": "TCP", "targetPort": port}}, "type": "ClusterIP"},
		}},
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Endpoints",
			"metadata": map[string]any{"name": Service, "namespace": Namespace,
				"labels": map[string]any{"endpointslice.kubernetes.io/skip-mirror": "true"}},
			"subsets": []any{map[string]any{"addresses": []any{map[string]any{"ip": address}}, "ports": []any{ports}}},
		}},
		{Object: map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata": map[string]any{"name": Service + "-" + suffix, "namespace": Namespace,
				"labels": map[string]any{"kubernetes.io/service-name": Service}},
			"addressType": "IPv4",
			"endpoints": []any{map[string]any{"addresses": []any{address},
				"conditions": map[string]any{"ready": true}}},
			"ports": []any{ports},
		}},
	}
}

// APIService returns the object by which an API server aggregates the group. authority is the PEM of the authority that
// issued the server's certificate.
func APIService(authority []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": Version + "." + Group},
		"spec": map[string]any{
			"group": Group, "version": Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"caBundle": base64.StdEncoding.EncodeToString(authority),
			"service":  map[string]any{"name": Service, "namespace": Namespace, "port": int64(443)},
		},
	}}
}
