package addon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/outbound"
)

// kubectl speaks to an API server as that program does. What it asks and how it names itself is seen in the audit log.
type kubectl struct {
	host      string
	client    *http.Client
	userAgent string
}

// newKubectl has connections of its own: client-go would keep them, and their certificate, for ever.
func newKubectl(config *rest.Config) (*kubectl, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
	if config.Dial != nil {
		transport.DialContext = config.Dial
	}
	return &kubectl{host: strings.TrimSuffix(config.Host, "/"), client: &http.Client{Transport: transport, CheckRedirect: outbound.NoRedirects}}, nil
}

// introduce finds the user agent: EKS uses the kubectl of the API server's version, "kubectl/v1.35.4 (linux/amd64) kubernetes/dade57b".
func (k *kubectl) introduce(ctx context.Context) error {
	k.userAgent = "kubectl (linux/amd64) kubernetes"
	status, body, err := k.send(ctx, http.MethodGet, "/version", nil)
	if err != nil {
		return err
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
		GitCommit  string `json:"gitCommit"`
	}
	if err := json.Unmarshal(body, &version); err != nil || status != http.StatusOK {
		return fmt.Errorf("the API server's version: %d %s", status, firstLine(body))
	}
	upstream, _, _ := strings.Cut(version.GitVersion, "-")
	k.userAgent = fmt.Sprintf("kubectl/%s (linux/amd64) kubernetes/%.7s", upstream, version.GitCommit)
	return nil
}

// resources are the resource names of the kinds that are applied.
var resources = map[string]string{
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "ConfigMap": "configmaps", "CustomResourceDefinition": "customresourcedefinitions",
	"DaemonSet": "daemonsets", "Deployment": "deployments", "PodDisruptionBudget": "poddisruptionbudgets", "Service": "services", "ServiceAccount": "serviceaccounts",
}

// lastApplied is where kubectl notes what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// apply asks for the object and creates it when it is missing. One that exists is left as it is: it is from an attempt that was
// interrupted, or its user's.
func (k *kubectl) apply(ctx context.Context, o *unstructured.Unstructured) error {
	collection := "/apis/" + o.GetAPIVersion()
	if o.GetAPIVersion() == "v1" {
		collection = "/api/v1"
	}
	if namespace := o.GetNamespace(); namespace != "" {
		collection += "/namespaces/" + namespace
	}
	collection += "/" + resources[o.GetKind()]
	status, answer, err := k.send(ctx, http.MethodGet, collection+"/"+url.PathEscape(o.GetName()), nil)
	if err != nil {
		return err
	}
	if status == http.StatusOK {
		return nil
	}
	if status != http.StatusNotFound {
		return fmt.Errorf("look for %s %s: %d %s", o.GetKind(), o.GetName(), status, firstLine(answer))
	}
	body, err := annotated(o)
	if err != nil {
		return err
	}
	status, answer, err = k.send(ctx, http.MethodPost, collection+"?fieldManager=kubectl-client-side-apply&fieldValidation=Strict", body)
	if err != nil {
		return err
	}
	if status != http.StatusCreated && status != http.StatusConflict {
		return fmt.Errorf("create %s %s: %d %s", o.GetKind(), o.GetName(), status, firstLine(answer))
	}
	return nil
}

// annotated is the object with kubectl's note of itself, in JSON.
func annotated(o *unstructured.Unstructured) ([]byte, error) {
	noted := o.DeepCopy()
	annotations := noted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
		// kubectl notes an object without annotations as one with none.
		if err := unstructured.SetNestedMap(noted.Object, map[string]any{}, "metadata", "annotations"); err != nil {
			return nil, err
		}
	}
	note, err := noted.MarshalJSON() // ends with a line feed, as kubectl's does
	if err != nil {
		return nil, err
	}
	annotations[lastApplied] = string(note)
	noted.SetAnnotations(annotations)
	return noted.MarshalJSON()
}

func (k *kubectl) send(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, k.host+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", k.userAgent)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := k.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, answer, err
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}
