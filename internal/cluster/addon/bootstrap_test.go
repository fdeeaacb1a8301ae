package addon

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/cluster/apiservertest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

func TestNewClusterGetsItsAddonsOnce(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{})
	s := storetest.New(t)
	run(t, New(Options{
		Store: s, Config: server.ConfigFor, Images: func(string, string) map[string]string { return images },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))
	admin := server.Admin()
	system := admin.AppsV1().DaemonSets("kube-system")

	// Not before the control plane is ready.
	c := cluster()
	create(t, record.Clusters(s), c.Key(), c)
	create(t, record.ControlPlanes(s), c.Key(), record.ControlPlane{ClusterID: c.ID, Endpoint: server.Host, Version: "1.35"})
	bare := cluster()
	bare.Name, bare.ID, bare.BootstrapSelfManagedAddons = "bare", "FFFF", false
	create(t, record.Clusters(s), bare.Key(), bare)
	create(t, record.ControlPlanes(s), bare.Key(), record.ControlPlane{ClusterID: bare.ID, Endpoint: "https://127.0.0.1:1", Version: "1.35", Ready: true})
	if _, err := record.ControlPlanes(s).Modify(t.Context(), c.Key(), func(p *record.ControlPlane) error { p.Ready = true; return nil }); err != nil {
		t.Fatal(err)
	}
	until(t, "the add-ons are recorded", func() bool {
		row, err := record.SelfManagedAddonsTable(s).Get(t.Context(), c.Key())
		return err == nil && row.Value.ClusterID == c.ID && row.Value.Version == "1.35"
	})
	for _, name := range []string{"aws-node", "kube-proxy"} {
		ds, err := system.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if m := ds.ManagedFields; len(m) != 1 || m[0].Manager != "kubectl-client-side-apply" || m[0].Operation != metav1.ManagedFieldsOperationUpdate {
			t.Errorf("%s is managed by %+v", name, m)
		}
		if ds.Annotations[lastApplied] == "" {
			t.Errorf("%s has no note of what was applied", name)
		}
	}
	if _, err := admin.CoreV1().Services("kube-system").Get(t.Context(), "kube-dns", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for _, resource := range []string{"eniconfigs", "cninodes", "securitygrouppolicies", "policyendpoints"} {
		groups := map[string]string{"eniconfigs": "crd.k8s.amazonaws.com/v1alpha1", "cninodes": "vpcresources.k8s.aws/v1alpha1", "securitygrouppolicies": "vpcresources.k8s.aws/v1beta1", "policyendpoints": "networking.k8s.aws/v1alpha1"}
		until(t, resource+" are served", func() bool { return serves(admin, groups[resource], resource) })
	}

	// What its user deletes or changes stays so: after an upgrade of the cluster, and in another daemon.
	if err := system.Delete(t.Context(), "kube-proxy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := record.ControlPlanes(s).Modify(t.Context(), c.Key(), func(p *record.ControlPlane) error { p.Version = "1.36"; return nil }); err != nil {
		t.Fatal(err)
	}
	again := New(Options{Store: s, Config: server.ConfigFor, Images: func(string, string) map[string]string { return images }})
	if _, err := again.bootstrap.Reconcile(t.Context(), c.Key()); err != nil {
		t.Fatal(err)
	}
	if _, err := system.Get(t.Context(), "kube-proxy", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("kube-proxy came back: %v", err)
	}
	if _, err := record.SelfManagedAddonsTable(s).Get(t.Context(), bare.Key()); err == nil {
		t.Error("a cluster that wants no add-ons got some")
	}

	// The record goes with the cluster.
	row, err := record.Clusters(s).Get(t.Context(), c.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Clusters(s).Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	until(t, "the record has gone", func() bool {
		_, err := record.SelfManagedAddonsTable(s).Get(t.Context(), c.Key())
		return err != nil
	})
}

func TestInterruptedApplyIsCompleted(t *testing.T) {
	t.Parallel()
	server := apiservertest.Start(t, apiservertest.Options{})
	s := storetest.New(t)
	c := cluster()
	create(t, record.Clusters(s), c.Key(), c)
	create(t, record.ControlPlanes(s), c.Key(), record.ControlPlane{ClusterID: c.ID, Endpoint: server.Host, Version: "1.35", Ready: true})
	controller := New(Options{Store: s, Config: server.ConfigFor, Images: func(string, string) map[string]string { return images }})
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := controller.bootstrap.Reconcile(interrupted, c.Key()); err == nil {
		t.Fatal("nothing was interrupted")
	}
	for range 2 {
		if _, err := controller.bootstrap.Reconcile(t.Context(), c.Key()); err != nil {
			t.Fatal(err)
		}
		// As if the daemon had died before it recorded what it did.
		row, err := record.SelfManagedAddonsTable(s).Get(t.Context(), c.Key())
		if err != nil {
			t.Fatal(err)
		}
		if err := record.SelfManagedAddonsTable(s).Delete(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.Admin().AppsV1().Deployments("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func serves(client *kubernetes.Clientset, group, resource string) bool {
	list, err := client.Discovery().ServerResourcesForGroupVersion(group)
	return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}

func run(t *testing.T, c *Controller) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.Run(ctx, c.log, c.Controllers()...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func create[T any](t *testing.T, table store.Table[T], key string, v T) {
	t.Helper()
	if _, err := table.Create(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
