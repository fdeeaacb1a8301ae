package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// BenchmarkFargate measures pods on Fargate, from their creation on, and what their machines take.
func BenchmarkFargate(b *testing.B) {
	const samples, many = 5, 20
	s := clustertest.Empty(b, "fargate", version)
	kube := fargateCluster(b, s.Daemon, "fargate", s.SubnetIDs, true)
	fargatePods(b, kube, "warm", 1) // unpacks the image
	var took []time.Duration
	for i := range samples {
		took = append(took, fargatePods(b, kube, fmt.Sprintf("one-%d", i), 1))
	}
	median := quantile(took, 0.5)
	b.ReportMetric(median.Seconds(), "s/pod")
	report(row{fmt.Sprintf("Fargate pod created to Running, image present (median of %d)", samples), seconds(median),
		"5 s", "EKS: 30 to 60 s"})

	// Memory of one machine, once what starting allocated is collected, without what runs in the pod.
	<-time.After(30 * time.Second)
	beyond := float64(beyondPod(b, s)) / (1 << 20)
	b.ReportMetric(beyond, "MiB/machine")
	report(row{"memory (PSS) of a Fargate machine beyond its pod", fmt.Sprintf("%.0f MiB", beyond), "110 MiB",
		"managed node: 225 MiB"})

	// Those that idle would take part.
	if err := kube.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(b.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
	eventually.Nil(b, "nodes go with their pods", func() error {
		list, err := kube.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
	together := fargatePods(b, kube, "many", many)
	b.ReportMetric(together.Seconds(), "s/20pods")
	report(row{fmt.Sprintf("%d Fargate pods created at once, all Running", many), seconds(together), "40 s", ""})
}

// BenchmarkSimulatedFargate measures many pods on simulated machines of Fargate.
func BenchmarkSimulatedFargate(b *testing.B) {
	const pods = 500
	d := harness.Start(b, "CORACLE_MACHINES=simulated")
	subnets := d.Subnets()
	d.CreateCluster("fargate", version, d.ClusterRole(), subnets)
	d.AwaitStatus("fargate", "ACTIVE")
	kube := fargateCluster(b, d, "fargate", subnets, false)
	took := fargatePods(b, kube, "many", pods)
	b.ReportMetric(took.Seconds(), "s/500pods")
	report(row{fmt.Sprintf("%d Fargate pods created at once on simulated machines, all Running", pods), seconds(took),
		"60 s", ""})
}

// fargateCluster makes a profile for the namespace default of a cluster.
func fargateCluster(b *testing.B, d *harness.Daemon, cluster string, subnets []string, nat bool) *kubernetes.Clientset {
	b.Helper()
	d.FargateProfile(cluster, "default", d.PodExecutionRole(cluster), d.PrivateSubnets(subnets, nat), "namespace=default")
	kube, _ := kubernetesClient(b, d, cluster)
	return kube
}

// fargatePods creates pods, and returns how long it took until all were Running.
func fargatePods(b *testing.B, kube *kubernetes.Clientset, name string, n int) time.Duration {
	b.Helper()
	pods := kube.CoreV1().Pods(metav1.NamespaceDefault)
	began := time.Now()
	for i := range n {
		if _, err := pods.Create(b.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + strconv.Itoa(i), Labels: map[string]string{"of": name}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "registry.k8s.io/e2e-test-images/agnhost:2.53", Args: []string{"pause"},
			}}},
		}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := eventually.Try(50*time.Millisecond, func() error {
		list, err := pods.List(b.Context(), metav1.ListOptions{LabelSelector: "of=" + name, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		running := 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running < n {
			return fmt.Errorf("%d of %d pods are running", running, n)
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// beyondPod returns the memory of a machine without that of its pod, in bytes.
func beyondPod(b *testing.B, s *clustertest.Fixture) int64 {
	b.Helper()
	var status struct {
		Instances []struct {
			ID          string
			MemoryBytes int64
		}
	}
	text := s.Run("", "coracle", "status", "--data-dir", s.Dir, "-o", "json")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		b.Fatal(err)
	}
	if len(status.Instances) == 0 {
		b.Fatal(errors.New("there is no machine"))
	}
	i := status.Instances[0]
	pod := s.In(i.ID, "/bin/sh", "-c", `for p in /proc/[0-9]*; do case "$(tr '\0' ' ' < $p/cmdline)" in `+
		`"/agnhost pause "*) sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' $p/smaps_rollup;; esac; done`)
	kib, err := strconv.ParseInt(strings.TrimSpace(pod), 10, 64)
	if err != nil {
		b.Fatalf("the memory of the pod is %q: %v", pod, err)
	}
	return i.MemoryBytes - kib<<10
}
