// Package networkpolicy turns NetworkPolicy objects into PolicyEndpoint objects, and ClusterNetworkPolicy objects into
// ClusterPolicyEndpoint objects, which tell the agents on nodes what to enforce.
//
// The controller acts as the user eks:network-policy-controller, in every cluster whose ConfigMap amazon-vpc-cni has
// enable-network-policy-controller: "true", as the add-on vpc-cni writes it with enableNetworkPolicy. It follows the
// network policies of the cluster and the pods, namespaces and services that their selectors are about (watch.go,
// view.go), resolves the selectors and named ports to addresses and numbers (resolve.go, service.go), and writes what
// comes of it to the PolicyEndpoints of the policy, in parts of 200 entries (endpoints.go); cluster.go does the same
// for the policies of the whole cluster. A finalizer on the policy keeps it until they are deleted.
//
// Upstream's controller cannot be had as a Go module. This one keeps its contract: the user, the finalizer, the
// objects, and which addresses a selector resolves to.
// https://github.com/aws/amazon-network-policy-controller-k8s
//
// The package reads the tables of clusters and control planes, and writes nothing to the store: all state is in the
// cluster, so that nothing is lost when a daemon or an API server dies.
package networkpolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// user is the user name of EKS when it resolves policies, and userAgent its user agent in the audit log.
	user      = "eks:network-policy-controller"
	userAgent = "controller/v0.0.0 (linux/amd64) kubernetes/$Format"

	// finalizer keeps a policy until its PolicyEndpoints are deleted.
	finalizer = "networking.k8s.aws/resources"
)

// Options configures a Controller. All fields but Log must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	Log    *slog.Logger // slog.Default() when nil
}

// Controller resolves the network policies of all clusters.
type Controller struct {
	o       Options
	servers *apiserver.Connections[*client]
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{o, apiserver.New[*client](apiserver.Options{
		Store: o.Store, Config: o.Config, User: user, Agent: userAgent, What: "follow network policies", Log: o.Log,
	})}
}

// Controllers returns the controllers that reconcile.Run runs. A key is that of a cluster followed by the namespace and
// the name of a policy.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:       "networkpolicies",
		Reconcile:  c.Reconcile,
		Watches:    []reconcile.Watch{c.watch},
		Workers:    16,
		MaxBackoff: 10 * time.Second,

		AccountWorkers: 6, ClusterWorkers: 3, Timeout: time.Minute,
	}}
}

// Reconcile makes the PolicyEndpoints of one policy what the policy resolves to.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	gone := reconcile.Result{Gone: true}
	parts := store.Parts(key)
	k, connected := c.servers.Get(record.ClusterKey(parts[0], parts[1], parts[2]))
	if !connected {
		return gone, nil // the cluster is gone, or its watch begins anew and tells of the policy again
	}
	at := types.NamespacedName{Namespace: parts[3], Name: parts[4]}
	if err := c.reconcile(ctx, k, at); err != nil {
		return reconcile.Result{}, fmt.Errorf("network policy %s of cluster %s: %w", at, k.cluster.Name, err)
	}
	return gone, nil
}

// reconcile reconciles a policy. What cannot be written as it is becomes an event: a failure would hold the room of
// policies that can.
func (c *Controller) reconcile(ctx context.Context, k *client, at types.NamespacedName) error {
	err := k.reconcile(ctx, at)
	switch outcomeOf(err) {
	case failed:
		return err
	case refused:
		k.untold.retry(at)
		fallthrough
	case unresolvable:
		if err := k.warn(ctx, at, err); err != nil {
			c.o.Log.Debug("cannot record event for network policy", "cluster", k.cluster.Name, "policy", at.String(), "error",
				kubeclient.Cut(err.Error()))
		}
	}
	return nil
}

// reconcile reconciles a policy; one of the whole cluster has no namespace. What belongs to a policy that is gone is
// collected.
func (k *client) reconcile(ctx context.Context, at types.NamespacedName) error {
	if at.Namespace == "" {
		return k.reconcileCluster(ctx, at.Name)
	}
	policy := k.view.policy(at)
	switch {
	case policy == nil:
		return nil
	case policy.DeletionTimestamp != nil:
		return k.cleanUp(ctx, policy)
	case k.enabled:
		return k.resolve(ctx, policy)
	}
	return nil
}

// resolve writes the PolicyEndpoints of a policy.
func (k *client) resolve(ctx context.Context, policy *networkingv1.NetworkPolicy) error {
	if !slices.Contains(policy.Finalizers, finalizer) {
		if err := k.patchFinalizers(ctx, policy, append(slices.Clone(policy.Finalizers), finalizer)); err != nil {
			return fmt.Errorf("add the finalizer: %w", err)
		}
	}
	wanted, existing, err := k.view.resolve(ctx, policy)
	if outcomeOf(err) > unresolvable {
		return err
	}
	// What a policy comes to in part is written: its pods are isolated, and what is left out does not pass.
	all, wrong := plan(policy, wanted, existing)
	return together(err, wrong, k.apply(ctx, all))
}

// cleanUp deletes the PolicyEndpoints of a policy that is being deleted, and lets it go.
func (k *client) cleanUp(ctx context.Context, policy *networkingv1.NetworkPolicy) error {
	if !slices.Contains(policy.Finalizers, finalizer) {
		return nil
	}
	if err := k.apply(ctx, changes{remove: k.view.endpointsOf(policy)}); err != nil {
		return err
	}
	without := slices.DeleteFunc(slices.Clone(policy.Finalizers), func(f string) bool { return f == finalizer })
	if err := k.patchFinalizers(ctx, policy, without); err != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// patchFinalizers sets the finalizers of a policy, unless somebody has changed it meanwhile, or it has so many that
// others may not have been read.
func (k *client) patchFinalizers(ctx context.Context, policy *networkingv1.NetworkPolicy, all []string) error {
	if len(policy.Finalizers) >= kubeclient.MaxFinalizers {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": all, "resourceVersion": policy.ResourceVersion,
	}})
	if err != nil {
		return err
	}
	_, err = k.policies.NetworkPolicies(policy.Namespace).Patch(ctx, policy.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}
