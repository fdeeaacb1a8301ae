package controlplane

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/sourcegraph/conc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
)

//go:embed rbac.yaml
var rbacManifests string

//go:embed flowcontrol.yaml
var flowControlManifests string

// standard returns the objects that every cluster gets. They are parsed when the first cluster needs them: commands
// that run the same program do not.
var standard = sync.OnceValue(func() []*unstructured.Unstructured { return parseManifests(rbacManifests) })

// IsStandard reports whether every cluster gets an object without a namespace, of any version of its API group.
func IsStandard(apiVersion, kind, name string) bool {
	group := func(version string) string { g, _, _ := strings.Cut(version, "/"); return g }
	return slices.ContainsFunc(standard(), func(o *unstructured.Unstructured) bool {
		return o.GetNamespace() == "" && o.GetKind() == kind && o.GetName() == name &&
			group(o.GetAPIVersion()) == group(apiVersion)
	})
}

// flowControl returns the objects of API priority and fairness that every cluster gets.
var flowControl = sync.OnceValue(func() []*unstructured.Unstructured { return parseManifests(flowControlManifests) })

// flowControlManager is the field manager with which EKS applies those.
const flowControlManager = "eks-internal"

func parseManifests(text string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			panic(fmt.Sprintf("controlplane: built-in manifest: %v\n%s", err, document))
		}
		all = append(all, &unstructured.Unstructured{Object: o})
	}
	return all
}

// bootstrap applies the objects that EKS creates in every cluster, as eks:cluster-bootstrap, unless they have been
// applied. As on AWS it does not revert what users change or delete: only an upgrade, or a change of the objects,
// applies them again.
func (c *Controller) bootstrap(ctx context.Context, p plane) error {
	hooks, err := c.webhooks(p)
	if err != nil {
		return err
	}
	objects := slices.Concat(standard(), kubernetesEndpoints(p), hooks.Configurations)
	metrics := c.metricsService(p)
	fingerprint, err := fingerprint(p.minor, slices.Concat(objects, flowControl(), metrics))
	if err != nil {
		return err
	}
	row, err := c.planes.Get(ctx, p.cluster.Key())
	if err != nil || row.Value.Bootstrapped == fingerprint {
		return err
	}

	clients, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer clients.Close()
	// A webhook of the cluster's users may refuse the objects for as long as they like.
	within, cancel := context.WithTimeoutCause(ctx, c.o.StartTimeout, errTimeout)
	defer cancel()
	group := recovery.Group(within).WithMaxGoroutines(16)
	for _, o := range objects {
		group.Go(func(ctx context.Context) error { return applyObject(ctx, clients.Objects, o) })
	}
	for _, o := range flowControl() {
		group.Go(func(ctx context.Context) error {
			_, err := client.BuiltIn(clients.Objects, o).Apply(ctx, o.GetName(), o,
				metav1.ApplyOptions{FieldManager: flowControlManager, Force: true})
			if err != nil {
				return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			return nil
		})
	}
	if len(metrics) > 0 {
		group.Go(func(ctx context.Context) error { return c.aggregateMetrics(ctx, clients, p, metrics) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("put EKS's objects into the cluster: %w", err)
	}
	crashBootstrapped.Here()
	return c.observe(ctx, p.cluster, func(o *record.ControlPlane) { o.Bootstrapped = fingerprint })
}

// metricsService returns the service of the API of control plane metrics with its endpoint, and the APIService, in this
// order. There are none where an API server cannot reach it.
func (c *Controller) metricsService(p plane) []*unstructured.Unstructured {
	if socket, _ := c.egressSockets(p.cluster.ID); socket == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(p.cluster.ID))
	suffix := utilrand.SafeEncodeString(hex.EncodeToString(sum[:])[:5])
	return append(extensionmetrics.Backend(suffix), extensionmetrics.APIService(p.keys.trusted.bundle()))
}

// aggregateMetrics applies the objects of the API of control plane metrics one after the other, and waits until it
// answers: an API group that does not is in the way of whoever asks for all of them.
func (c *Controller) aggregateMetrics(
	ctx context.Context, clients *client.Client, p plane, objects []*unstructured.Unstructured,
) error {
	for _, o := range objects {
		if err := applyObject(ctx, clients.Objects, o); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(4 * poll)
	defer ticker.Stop()
	for {
		_, err := getHealth(ctx, clients.HTTP, p.serverURL()+"/apis/"+extensionmetrics.Group+"/"+extensionmetrics.Version)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the API %s: %w: %w", extensionmetrics.Group, context.Cause(ctx), err)
		}
	}
}

func fingerprint(minor string, objects []*unstructured.Unstructured) (string, error) {
	b, err := json.Marshal([]any{minor, objects})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}

// kubernetesEndpoints returns the addresses behind the service "kubernetes": the cluster's network interfaces, as on
// EKS. An API server would enter itself, and take itself out again when it makes way for another.
func kubernetesEndpoints(p plane) []*unstructured.Unstructured {
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
		endpoints = append(endpoints, map[string]any{
			"addresses": []any{ip.String()}, "conditions": map[string]any{"ready": true},
		})
	}
	if len(ips) == 0 {
		return nil
	}
	port := map[string]any{"name": "https", "port": int64(443), "protocol": "TCP"}
	return []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Endpoints",
			"metadata": map[string]any{
				"name": "kubernetes", "namespace": "default",
				"labels": map[string]any{"endpointslice.kubernetes.io/skip-mirror": "true"},
			},
			"subsets": []any{map[string]any{"addresses": addresses, "ports": []any{port}}},
		}},
		{Object: map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata": map[string]any{
				"name": "kubernetes", "namespace": "default",
				"labels": map[string]any{"kubernetes.io/service-name": "kubernetes"},
			},
			"addressType": family,
			"endpoints":   endpoints,
			"ports":       []any{port},
		}},
	}
}

// applyObject applies an object as kubectl does; see [client.Apply]. It waits for the namespaces of a new API server,
// which makes default and kube-system a moment after it is ready.
func applyObject(ctx context.Context, objects dynamic.Interface, o *unstructured.Unstructured) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := client.Apply(ctx, objects, o)
		if !namespaceMissing(err) && !apierrors.IsTooManyRequests(err) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

func namespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// awaitDefaultServiceAccount waits for the service account that the controller manager gives the
// namespace default: with it, the cluster takes pods.
func (c *Controller) awaitDefaultServiceAccount(ctx context.Context, p plane, controllerManager string) error {
	clients, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer clients.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.StartTimeout, errTimeout)
	failed := make(chan error, 1)
	var watching conc.WaitGroup
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
	err = awaitFirst(ctx, clients.Core.ServiceAccounts(metav1.NamespaceDefault), "default")
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

// awaitFirst returns once a service account of that name exists.
func awaitFirst(ctx context.Context, accounts corev1client.ServiceAccountInterface, name string) error {
	watching, err := accounts.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer watching.Stop()
	event, open := <-watching.ResultChan()
	switch {
	case !open && ctx.Err() != nil:
		return context.Cause(ctx)
	case !open:
		return errors.New("watch: the API server has ended it")
	case event.Type != watch.Added && event.Type != watch.Modified:
		return fmt.Errorf("watch: %s: %w", event.Type, client.EventError(event.Object))
	}
	return nil
}

// serverVersion returns the version of the API server: "v1.35.4-eks-...".
func (c *Controller) serverVersion(ctx context.Context, p plane) (string, error) {
	clients, err := c.bootstrapClient(p)
	if err != nil {
		return "", err
	}
	defer clients.Close()
	version, err := clients.ServerVersion(ctx)
	return version.GitVersion, err
}
