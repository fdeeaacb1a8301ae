package addon

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/kube/client"
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
		Store: s, Config: server.ConfigFor, Catalog: entries(t),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))
	admin := server.Admin()
	system := admin.AppsV1().DaemonSets("kube-system")

	// Not before the control plane is ready.
	c := cluster()
	create(t, record.Clusters(s), c.Key(), c)
	create(t, record.ControlPlanes(s), c.Key(), record.ControlPlane{ClusterID: c.ID, Endpoint: server.Host,
		Version: "1.35"})
	bare := cluster()
	bare.Name, bare.ID, bare.BootstrapSelfManagedAddons = "bare", "FFFF", false
	create(t, record.Clusters(s), bare.Key(), bare)
	create(t, record.ControlPlanes(s), bare.Key(), record.ControlPlane{ClusterID: bare.ID,
		Endpoint: "https://127.0.0.1:1", Version: "1.35", Ready: true})
	if _, err := record.ControlPlanes(s).Modify(t.Context(), c.Key(),
		func(p *record.ControlPlane) error { p.Ready = true; return nil }); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the add-ons are recorded", func() bool {
		row, err := record.SelfManagedAddonsTable(s).Get(t.Context(), c.Key())
		return err == nil && row.Value.ClusterID == c.ID && row.Value.Version == "1.35"
	})
	for _, name := range []string{"aws-node", "kube-proxy"} {
		ds, err := system.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if m := ds.ManagedFields; len(m) != 1 || m[0].Manager != "kubectl-client-side-apply" ||
			m[0].Operation != metav1.ManagedFieldsOperationUpdate {
			t.Errorf("%s is managed by %+v", name, m)
		}
		if ds.Annotations[client.LastApplied] == "" {
			t.Errorf("%s has no note of what was applied", name)
		}
	}
	if _, err := admin.CoreV1().Services("kube-system").Get(t.Context(), "kube-dns", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for _, resource := range []string{"eniconfigs", "policyendpoints"} {
		groups := map[string]string{"eniconfigs": "crd.k8s.amazonaws.com/v1alpha1",
			"policyendpoints": "networking.k8s.aws/v1alpha1"}
		eventually.True(t, resource+" are served", func() bool { return serves(admin, groups[resource], resource) })
	}

	// What its user deletes or changes stays so: after an upgrade of the cluster, and in another daemon.
	if err := system.Delete(t.Context(), "kube-proxy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := record.ControlPlanes(s).Modify(t.Context(), c.Key(),
		func(p *record.ControlPlane) error { p.Version = "1.36"; return nil }); err != nil {
		t.Fatal(err)
	}
	again := New(Options{Store: s, Config: server.ConfigFor, Catalog: entries(t)})
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
	eventually.True(t, "the record has gone", func() bool {
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
	create(t, record.ControlPlanes(s), c.Key(), record.ControlPlane{ClusterID: c.ID, Endpoint: server.Host,
		Version: "1.35", Ready: true})
	controller := New(Options{Store: s, Config: server.ConfigFor, Catalog: entries(t)})
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
	if _, err := server.Admin().AppsV1().Deployments("kube-system").Get(t.Context(), "coredns",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func serves(client *kubernetes.Clientset, group, resource string) bool {
	list, err := client.Discovery().ServerResourcesForGroupVersion(group)
	return err == nil && slices.ContainsFunc(list.APIResources,
		func(r metav1.APIResource) bool { return r.Name == resource })
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

const endpoint = "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com"

func cluster() record.Cluster {
	return record.Cluster{
		Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "0123456789ABCDEF0123456789ABCDEF",
		Version: "1.35", VPCID: "vpc-1",
		IPFamily: ekstypes.IpFamilyIpv4, ServiceIPv4CIDR: "10.100.0.0/16", BootstrapSelfManagedAddons: true,
	}
}

func entries(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSelfManaged(t *testing.T) {
	t.Parallel()
	six := cluster()
	six.IPFamily, six.ServiceIPv4CIDR, six.ServiceIPv6CIDR = ekstypes.IpFamilyIpv6, "", "fd30:1c53:5f8a::/108"
	for name, c := range map[string]struct {
		cluster              record.Cluster
		dns, bind            string
		ipv4, ipv6, prefixes string
	}{
		"IPv4": {cluster(), "10.100.0.10", "bindAddress: 0.0.0.0", "true", "false", "false"},
		"IPv6": {six, "fd30:1c53:5f8a::a", `bindAddress: "::"`, "false", "true", "true"},
	} {
		images := image.References("eu-west-1", "1.35")
		objects, err := selfManaged(entries(t), c.cluster, record.ControlPlane{Endpoint: endpoint, Version: "1.35"})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := get[corev1.Service](t, objects, "Service", "kube-dns").Spec.ClusterIP; got != c.dns {
			t.Errorf("%s: DNS address %s, want %s", name, got, c.dns)
		}
		if got := get[corev1.ConfigMap](t, objects, "ConfigMap", "kube-proxy-config").Data["config"]; !strings.Contains(
			got, c.bind+"\n") {
			t.Errorf("%s: kube-proxy's configuration is\n%s", name, got)
		}
		if got := get[corev1.ConfigMap](t, objects, "ConfigMap", "kube-proxy").Data["kubeconfig"]; !strings.Contains(
			got, "server: "+strings.ToLower(endpoint)+"\n") {
			t.Errorf("%s: kube-proxy's kubeconfig is\n%s", name, got)
		}
		node := get[appsv1.DaemonSet](t, objects, "DaemonSet", "aws-node").Spec.Template.Spec
		env := map[string]string{}
		for _, e := range node.Containers[0].Env {
			env[e.Name] = e.Value
		}
		for k, want := range map[string]string{
			"ENABLE_IPv4": c.ipv4, "ENABLE_IPv6": c.ipv6, "ENABLE_PREFIX_DELEGATION": c.prefixes,
			"WARM_ENI_TARGET": "1",
			"VPC_ID":          "vpc-1", "CLUSTER_NAME": "demo",
			"VPC_CNI_VERSION": node.Containers[0].Image[strings.LastIndex(node.Containers[0].Image, ":")+
				1 : len(node.Containers[0].Image)-len("-eksbuild.1")],
			"ANNOTATE_POD_IP": "false", "NETWORK_POLICY_ENFORCING_MODE": "standard",
		} {
			if env[k] != want {
				t.Errorf("%s: %s is %q, want %q", name, k, env[k], want)
			}
		}
		// The images that the nodes of these versions have.
		for _, c := range []struct{ what, got, want string }{
			{"aws-vpc-cni-init", node.InitContainers[0].Image, images[image.VPCCNIInit]},
			{"aws-node", node.Containers[0].Image, images[image.VPCCNI]},
			{"aws-eks-nodeagent", node.Containers[1].Image, images[image.NetworkPolicyAgent]},
			{"kube-proxy", get[appsv1.DaemonSet](t, objects, "DaemonSet",
				"kube-proxy").Spec.Template.Spec.Containers[0].Image, images[image.KubeProxy]},
			{"coredns", get[appsv1.Deployment](t, objects, "Deployment",
				"coredns").Spec.Template.Spec.Containers[0].Image, images[image.CoreDNS]},
		} {
			if c.got != c.want {
				t.Errorf("%s: image of %s is %s, want %s", name, c.what, c.got, c.want)
			}
		}
	}
	if _, err := selfManaged(entries(t), cluster(), record.ControlPlane{Endpoint: endpoint,
		Version: "1.2"}); err == nil || !strings.Contains(err.Error(), "Kubernetes 1.2") {
		t.Errorf("of a version that nobody knows: %v", err)
	}
}

// get returns an object in its Go type, which must know each of the object's fields.
func get[T any](t *testing.T, objects []catalog.Object, kind, name string) T {
	t.Helper()
	var out T
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &out,
				true); err != nil {
				t.Fatalf("%s %s: %v", kind, name, err)
			}
			return out
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return out
}
