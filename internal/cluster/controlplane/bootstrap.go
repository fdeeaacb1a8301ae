package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/record"
)

//go:embed rbac.yaml
var rbacManifests string

// standard are the objects that every cluster gets.
var standard = parseManifests(rbacManifests)

// object is a Kubernetes object in JSON's terms.
type object map[string]any

func (o object) metadata() map[string]any { return o["metadata"].(map[string]any) }

func parseManifests(text string) []object {
	var all []object
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			panic(fmt.Sprintf("controlplane: built-in manifest: %v\n%s", err, document))
		}
		all = append(all, o)
	}
	return all
}

// bootstrap puts what EKS puts into a cluster there, as eks:cluster-bootstrap, unless that was done before.
// As on AWS it is not repeated when a user changes or deletes something: only an upgrade, or
// something else to put there, makes it all new.
func (c *Controller) bootstrap(ctx context.Context, p plane) error {
	objects := append(slices.Clone(standard), kubernetesEndpoints(p)...)
	configMap := p.cluster.AuthenticationMode != ekstypes.AuthenticationModeApi
	fingerprint, err := fingerprint(p.minor, configMap, objects)
	if err != nil {
		return err
	}
	row, err := c.planes.Get(ctx, p.cluster.Key())
	if err != nil || row.Value.Bootstrapped == fingerprint {
		return err
	}

	config, client, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, o := range objects {
		group.Go(func() error { return apply(working, client, config.Host, config.UserAgent, o, true) })
	}
	if configMap {
		group.Go(func() error { return apply(working, client, config.Host, config.UserAgent, awsAuth(), false) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("put EKS's objects into the cluster: %w", err)
	}
	crashBootstrapped.Here()
	return c.observe(ctx, p.cluster, func(o *record.ControlPlane) { o.Bootstrapped = fingerprint })
}

func fingerprint(minor string, configMap bool, objects []object) (string, error) {
	b, err := json.Marshal([]any{minor, configMap, objects})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}

// awsAuth maps nobody. On AWS the first node group creates it; what is in it is its users'.
func awsAuth() object {
	return object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "aws-auth", "namespace": "kube-system"},
		"data":     map[string]any{"mapRoles": "[]\n"},
	}
}

// kubernetesEndpoints are the addresses behind the service "kubernetes": the cluster's network
// interfaces, as on EKS. An API server would enter itself, and take itself out again when it
// makes way for another.
func kubernetesEndpoints(p plane) []object {
	ipv6 := p.cluster.IPFamily == ekstypes.IpFamilyIpv6
	var ips []net.IP
	for _, ip := range p.network.addresses() {
		if (ip.To4() == nil) == ipv6 {
			ips = append(ips, ip)
		}
	}
	family := "IPv4"
	if ipv6 {
		family = "IPv6"
	}
	var addresses, endpoints []any
	for _, ip := range ips {
		addresses = append(addresses, map[string]any{"ip": ip.String()})
		endpoints = append(endpoints, map[string]any{"addresses": []any{ip.String()}, "conditions": map[string]any{"ready": true}})
	}
	if len(ips) == 0 {
		return nil
	}
	port := map[string]any{"name": "https", "port": 443, "protocol": "TCP"}
	return []object{
		{
			"apiVersion": "v1", "kind": "Endpoints",
			"metadata": map[string]any{"name": "kubernetes", "namespace": "default", "labels": map[string]any{"endpointslice.kubernetes.io/skip-mirror": "true"}},
			"subsets":  []any{map[string]any{"addresses": addresses, "ports": []any{port}}},
		},
		{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata":    map[string]any{"name": "kubernetes", "namespace": "default", "labels": map[string]any{"kubernetes.io/service-name": "kubernetes"}},
			"addressType": family,
			"endpoints":   endpoints,
			"ports":       []any{port},
		},
	}
}

// resources are the resource names of the kinds that we apply.
var resources = map[string]string{
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
	"ConfigMap": "configmaps", "StorageClass": "storageclasses", "Endpoints": "endpoints", "EndpointSlice": "endpointslices",
}

// lastApplied is where kubectl notes what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// apply does what "kubectl apply" does to a new object: it creates it with a note of what was
// applied. One that exists is changed if overwrite is set and left alone otherwise.
func apply(ctx context.Context, client *http.Client, host, userAgent string, o object, overwrite bool) error {
	noted, err := annotated(o)
	if err != nil {
		return err
	}
	metadata := o.metadata()
	name := metadata["name"].(string)
	path := "/apis/" + o["apiVersion"].(string)
	if o["apiVersion"] == "v1" {
		path = "/api/v1"
	}
	if namespace, ok := metadata["namespace"].(string); ok {
		path += "/namespaces/" + namespace
	}
	path += "/" + resources[o["kind"].(string)]
	const manager = "?fieldManager=kubectl-client-side-apply"
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		status, answer, err := send(ctx, client, http.MethodPost, host+path+manager, "application/json", userAgent, noted)
		if err != nil {
			return err
		}
		switch {
		case status == http.StatusCreated:
			return nil
		case status == http.StatusConflict && !overwrite:
			return nil
		case status == http.StatusConflict:
			status, answer, err = send(ctx, client, http.MethodPatch, host+path+"/"+url.PathEscape(name)+manager, "application/merge-patch+json", userAgent, noted)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("change %s %s: %d %s", o["kind"], name, status, firstLine(answer))
			}
			return err
		case status == http.StatusNotFound && bytes.Contains(answer, []byte(`"kind":"namespaces"`)), status == http.StatusTooManyRequests:
			// A new API server makes the namespaces default and kube-system a moment after it is ready.
		default:
			return fmt.Errorf("create %s %s: %d %s", o["kind"], name, status, firstLine(answer))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// annotated is the object with kubectl's note of itself, in JSON.
func annotated(o object) ([]byte, error) {
	plain := maps.Clone(o)
	metadata := maps.Clone(o.metadata())
	metadata["annotations"] = map[string]any{}
	plain["metadata"] = metadata
	note, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}
	metadata["annotations"] = map[string]any{lastApplied: string(note) + "\n"}
	return json.Marshal(plain)
}

func send(ctx context.Context, client *http.Client, method, url, contentType, userAgent string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", userAgent)
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, answer, err
}

// awaitDefaultServiceAccount waits for the service account that the controller manager gives the
// namespace default: with it, the cluster takes pods.
func (c *Controller) awaitDefaultServiceAccount(ctx context.Context, p plane, controllerManager string) error {
	config, client, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.StartTimeout, errTimeout)
	failed := make(chan error, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { // a watch does not tell that nobody is going to make it
		ticker := time.NewTicker(10 * poll)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if err := c.diedOften(controllerManager); err != nil {
					failed <- err
					cancel()
					return
				}
			}
		}
	})
	err = watchOne(ctx, client, config.Host+"/api/v1/namespaces/default/serviceaccounts?watch=true&fieldSelector=metadata.name%3Ddefault")
	select {
	case died := <-failed:
		return died
	default:
	}
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("the controller manager has not made the service account default within %v", c.o.StartTimeout)
	}
	return err
}

// watchOne returns with the first event of a watch.
func watchOne(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("watch: %s", response.Status)
	}
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.NewDecoder(response.Body).Decode(&event); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if event.Type != "ADDED" && event.Type != "MODIFIED" {
		return fmt.Errorf("watch: %s: %s", event.Type, firstLine(event.Object))
	}
	return nil
}

// serverVersion is what the API server says of itself: "v1.35.4-eks-...".
func (c *Controller) serverVersion(ctx context.Context, p plane) (string, error) {
	config, client, err := c.bootstrapClient(p)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	body, err := get(ctx, client, config.Host+"/version")
	if err != nil {
		return "", err
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &version); err != nil {
		return "", fmt.Errorf("the API server's version: %w", err)
	}
	return version.GitVersion, nil
}
