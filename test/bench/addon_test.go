package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/controller/addon"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// BenchmarkCreateAddon times CreateAddon of CoreDNS to ACTIVE, in a cluster that has none and a node that runs its
// image.
func BenchmarkCreateAddon(b *testing.B) {
	const samples = 5
	s := clustertest.New(b, "addons", version)
	client := eks.NewFromConfig(s.Daemon.Config())
	kube, _ := kubernetesClient(b, s.Daemon, s.Cluster)
	s.AwaitNodes(s.RunInstances(1, s.AL2023(version), s.SubnetIDs[0], s.NodeConfig())...)
	s.Await("condition=Available", "deployment/coredns", "-n", "kube-system")
	name := aws.String("coredns")
	var all []time.Duration
	for i := range samples + 1 { // the first adopts what is there
		start := time.Now()
		if _, err := client.CreateAddon(b.Context(), &eks.CreateAddonInput{ClusterName: &s.Cluster,
			AddonName: name}); err != nil {
			b.Fatal(err)
		}
		eventually.Nil(b, "the add-on is ACTIVE", func() error {
			out, err := client.DescribeAddon(b.Context(), &eks.DescribeAddonInput{ClusterName: &s.Cluster,
				AddonName: name})
			if err == nil && out.Addon.Status != ekstypes.AddonStatusActive {
				err = fmt.Errorf("it is %s: %s", out.Addon.Status, harness.Text(out.Addon.Health))
			}
			return err
		})
		if i > 0 {
			all = append(all, time.Since(start))
		}
		d, err := kube.AppsV1().Deployments("kube-system").Get(b.Context(), "coredns", metav1.GetOptions{})
		if err != nil || d.Status.ReadyReplicas != *d.Spec.Replicas {
			b.Fatalf("ACTIVE with %s, %v", harness.Text(d), err)
		}
		if _, err := client.DeleteAddon(b.Context(), &eks.DeleteAddonInput{ClusterName: &s.Cluster,
			AddonName: name}); err != nil {
			b.Fatal(err)
		}
		eventually.Nil(b, "the add-on is gone", func() error { // not measured
			_, err := client.DescribeAddon(b.Context(), &eks.DescribeAddonInput{ClusterName: &s.Cluster,
				AddonName: name})
			var gone *ekstypes.ResourceNotFoundException
			if errors.As(err, &gone) {
				return nil
			}
			return fmt.Errorf("it is still described: %v", err)
		})
	}
	median := quantile(all, 0.5)
	b.ReportMetric(median.Seconds(), "s/addon")
	report(row{"CreateAddon coredns to ACTIVE, pods ready on a warm node (median of " + strconv.Itoa(samples) + ")",
		seconds(median), "5 s", "EKS: 15 to 60 s"})
}

// BenchmarkAddonDryRun times the dry run of all objects of the vpc-cni add-on, as it precedes each of its changes, and
// kubectl's of the same.
func BenchmarkAddonDryRun(b *testing.B) {
	const samples = 21
	server := apiservertest.Start(b, apiservertest.Options{Minor: version})
	c, err := catalog.Open(catalog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	entry, ok := c.Addon("vpc-cni")
	if !ok {
		b.Fatal("there is no vpc-cni")
	}
	v, _ := entry.Default(version)
	objects, err := v.Render(catalog.RenderOptions{
		Cluster: record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "dev",
			ID: "0123456789ABCDEF0123456789ABCDEF", VPCID: "vpc-1", IPFamily: ekstypes.IpFamilyIpv4,
			ServiceIPv4CIDR: "10.100.0.0/16"},
		Endpoint: server.Host, Minor: version, Config: record.AddonConfig{Version: v.Version,
			Namespace: entry.DefaultNamespace},
	})
	if err != nil {
		b.Fatal(err)
	}
	var manifest bytes.Buffer
	for _, o := range objects {
		text, err := json.Marshal(o.Object)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&manifest, "---\n%s\n", text)
	}
	dir := b.TempDir()
	file, kubeconfig := filepath.Join(dir, "vpc-cni.yaml"), filepath.Join(dir, "kubeconfig")
	for path, content := range map[string][]byte{file: manifest.Bytes(), kubeconfig: server.Kubeconfig("admin",
		"system:masters")} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	kubectl := func(args ...string) {
		b.Helper()
		cmd := exec.Command("kubectl", append([]string{"apply", "--server-side", "-f", file}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
	}
	if err := eventually.Try(50*time.Millisecond, func() error { // some objects are of kinds that others define
		cmd := exec.Command("kubectl", "apply", "--server-side", "-f", file)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	config := server.Config(addon.User, "system:masters")
	var ours, theirs []time.Duration
	for i := range samples + 1 { // the first warms both
		start := time.Now()
		changes, err := addon.Plan(b.Context(), config, "bench", objects, nil, ekstypes.ResolveConflictsNone)
		if err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		for _, x := range changes {
			if x.Refused != nil || len(x.Conflicts) > 0 || x.Action == addon.Create {
				b.Fatalf("the dry run says %s", harness.Text(x))
			}
		}
		start = time.Now()
		kubectl("--dry-run=server")
		if i > 0 {
			ours, theirs = append(ours, took), append(theirs, time.Since(start))
		}
	}
	median, hand := quantile(ours, 0.5), quantile(theirs, 0.5)
	b.ReportMetric(float64(median.Milliseconds()), "ms/dryrun")
	report(row{fmt.Sprintf("dry run of the vpc-cni add-on, %d objects (median of %d)", len(objects), samples),
		fmt.Sprintf("%d ms", median.Milliseconds()), "150 ms",
		fmt.Sprintf("kubectl apply --server-side --dry-run=server %d ms", hand.Milliseconds())})
}

// BenchmarkIdleAddons measures what the controller does when there is nothing to do: 200 clusters, which are rows over
// one API server, with five add-ons each.
func BenchmarkIdleAddons(b *testing.B) {
	const clusters, addons, window = 200, 5, 60 * time.Second
	server := apiservertest.Start(b, apiservertest.Options{Minor: version, Controllers: []string{"daemonset"}})
	// What EKS puts into each cluster is here once.
	_, err := server.Admin().RbacV1().ClusterRoleBindings().Create(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eks:addon-cluster-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: addon.User}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	for i := range addons {
		entry := filepath.Join(dir, fmt.Sprintf("agent-%d", i))
		files := map[string]string{
			"addon.yaml": fmt.Sprintf(
				"name: agent-%d\ntype: observability\npublisher: bench\nowner: bench\nnamespace: bench\nkubernetes: "+
					"[%q]\nmanifests: [agent.yaml]\nversions:\n  - {version: v1.0.0, default: [%q]}\n", i, version,
				version),
			"agent.yaml": fmt.Sprintf(agent, i),
		}
		if err := os.MkdirAll(entry, 0o755); err != nil {
			b.Fatal(err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(entry, name), []byte(content), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	c, err := catalog.Open(catalog.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	s := storetest.New(b)
	controller := addon.New(addon.Options{Store: s, Config: server.ConfigFor, Catalog: c,
		Log: slog.New(slog.DiscardHandler)})
	for i := range clusters {
		cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: fmt.Sprintf("cluster-%d", i),
			ID: fmt.Sprintf("%032X", i), Version: version, IPFamily: ekstypes.IpFamilyIpv4,
			ServiceIPv4CIDR: "10.100.0.0/16"}
		if _, err := record.Clusters(s).Create(b.Context(), cluster.Key(), cluster); err != nil {
			b.Fatal(err)
		}
		plane := record.ControlPlane{ClusterID: cluster.ID, Endpoint: server.Host, Version: version, Ready: true}
		if _, err := record.ControlPlanes(s).Create(b.Context(), cluster.Key(), plane); err != nil {
			b.Fatal(err)
		}
		for j := range addons {
			a := record.Addon{
				Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name, ClusterID: cluster.ID,
				Name: fmt.Sprintf("agent-%d", j), ID: fmt.Sprintf("%d-%d", i, j), CreatedAt: time.Now(), Change: 1,
				Wanted: record.AddonConfig{Version: "v1.0.0", Namespace: cluster.Name,
					Conflicts: ekstypes.ResolveConflictsNone},
			}
			if _, err := record.Addons(s).Create(b.Context(), a.Key(), a); err != nil {
				b.Fatal(err)
			}
		}
	}
	measure := func() float64 {
		before := processor(b)
		<-time.After(window)
		return (processor(b) - before).Seconds() / window.Seconds() * 100
	}
	alone := measure()
	run := b.Context()
	ended := make(chan error, 1)
	go func() { ended <- reconcile.Run(run, slog.New(slog.DiscardHandler), controller.Controllers()...) }()
	b.Cleanup(func() { // the context of b has ended then
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	start := time.Now()
	if err := eventually.Try(time.Second, func() error {
		rows, err := record.AddonStates(s).List(b.Context(), "")
		if err != nil {
			return err
		}
		made := 0
		for _, r := range rows {
			if r.Value.Created && len(r.Value.Issues) == 0 {
				made++
			}
		}
		if made < clusters*addons {
			return fmt.Errorf("%d of %d add-ons are there", made, clusters*addons)
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	idle := measure() - alone
	b.ReportMetric(idle, "%core")
	report(row{fmt.Sprintf("%d clusters with %d add-ons each, idle for %s: what the controller takes", clusters, addons,
		window), fmt.Sprintf("%.1f %% of a core", idle), "2 %",
		fmt.Sprintf("the store and etcd without it %.1f %%; all made in %s", alone, seconds(took))})
}

// agent is an add-on in a namespace of its cluster's name.
const agent = `apiVersion: v1
kind: ServiceAccount
metadata: {name: agent-%[1]d, namespace: {{.Namespace}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: agent-%[1]d, namespace: {{.Namespace}}}
data: {config: "level: info"}
---
apiVersion: v1
kind: Service
metadata: {name: agent-%[1]d, namespace: {{.Namespace}}}
spec:
  clusterIP: None
  selector: {app: agent-%[1]d}
  ports: [{name: metrics, port: 9100}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent-%[1]d, namespace: {{.Namespace}}}
spec:
  selector: {matchLabels: {app: agent-%[1]d}}
  template:
    metadata: {labels: {app: agent-%[1]d}}
    spec:
      serviceAccountName: agent-%[1]d
      containers: [{name: agent, image: registry.example.com/agent:v1}]
`

// processor returns the processor time of this process.
func processor(b testing.TB) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
