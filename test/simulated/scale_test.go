package simulated

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"

	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// BenchmarkSimulated times a thousand simulated nodes and ten thousand pods in one cluster (or as many as CORACLE_NODES
// and CORACLE_PODS say), from RunInstances and the creation of Deployments on, and how the API server answers then.
// Beside it stands the same with kwok and a bare control plane: an API server, controller manager and scheduler of the
// same bundle, without authentication by IAM, cloud controller manager, add-ons, audit log, encryption or addresses
// from EC2.
func BenchmarkSimulated(b *testing.B) {
	nodes, pods := number(b, "CORACLE_NODES", 1000), number(b, "CORACLE_PODS", 10000)
	for b.Loop() {
		// Each is gone before the other begins.
		var ours, theirs result
		done := b.Run("coracle", func(b *testing.B) { ours = coracle(b, nodes, pods) }) &&
			b.Run("kwok", func(b *testing.B) { theirs = kwok(b, nodes, pods) })
		if !done {
			return
		}
		fmt.Printf("\n%d nodes and %d pods\n\n| | coracle | kwok, bare control plane |\n|---|---|---|\n", nodes, pods)
		for i, name := range []string{"nodes ready", "pods ready, after that", "together"} {
			fmt.Printf("| %s | %.0f s | %.0f s |\n", name, ours.times[i].Seconds(), theirs.times[i].Seconds())
		}
		fmt.Printf("| API p99 after | %d ms | %d ms |\n", ours.p99.Milliseconds(), theirs.p99.Milliseconds())
		fmt.Printf(
			"| memory of who simulates, PSS | %d MiB (all of the daemon, etcd and every API of AWS included) | %d "+
				"MiB |\n\n", ours.memory>>20, theirs.memory>>20)
		b.ReportMetric(ours.times[2].Seconds(), "s")
		b.ReportMetric(theirs.times[2].Seconds(), "s-kwok")
		b.ReportMetric(float64(ours.p99.Milliseconds()), "ms-p99")
		b.ReportMetric(float64(theirs.p99.Milliseconds()), "ms-p99-kwok")
	}
}

// result is one of the two.
type result struct {
	times  [3]time.Duration // nodes, pods, together
	p99    time.Duration
	memory int64 // bytes
}

func number(b *testing.B, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// coracle measures a daemon with simulated machines.
func coracle(b *testing.B, nodes, pods int) (r result) {
	s := newFixture(b, (*harness.Daemon).RoomySubnets)
	s.letIn()
	config, err := clientcmd.BuildConfigFromFlags("", s.config)
	s.must(err)
	// The exec plugin would run in this process's environment, and its token ends after a quarter of an hour.
	config.ExecProvider = nil
	s.must(tokens(s, config))
	client, err := kubernetes.NewForConfig(config)
	s.must(err)

	began := time.Now()
	const at = 250 // instances a call
	var group errgroup.Group
	for n := 0; n < nodes; n += at {
		group.Go(func() error {
			s.run(min(at, nodes-n), s.subnet[n/at%len(s.subnet)])
			return nil
		})
	}
	s.must(group.Wait())
	b.Log("launched", nodes, "instances in", time.Since(began))
	r.times[0] = ready(b, client, nodes, began)
	r.measure(b, client, pods, began)
	r.memory = pss(s.PID())
	return r
}

func tokens(s *fixture, config *rest.Config) error {
	config.QPS, config.Burst = 1000, 1000
	config.BearerToken = s.Token(cluster)
	return nil
}

// kwok measures kwok's own program with a bare control plane.
func kwok(b *testing.B, nodes, pods int) (r result) {
	program := install(b, "sigs.k8s.io/kwok/cmd/kwok@v0.8.0")
	server := apiservertest.Start(b, apiservertest.Options{Controllers: []string{"*"}, Scheduler: true})
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.Kubeconfig("kwok", "system:masters"), 0o600); err != nil {
		b.Fatal(err)
	}
	stages := filepath.Join(b.TempDir(), "stages.yaml") // those that kwok's own manifests come with
	all := []string{nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease, podfast.DefaultPodReady,
		podfast.DefaultPodComplete, podfast.DefaultPodDelete}
	if err := os.WriteFile(stages, []byte(strings.Join(all, "\n---\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, "--config", stages, "--kubeconfig", kubeconfig, "--manage-all-nodes=true",
		"--node-lease-duration-seconds=40", "--cidr=10.0.0.0/16", "--server-address=127.0.0.1:0")
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && b.Failed() {
			b.Logf("kwok: ...%s", text[max(0, len(text)-2000):])
		}
	}()
	client := server.Admin()
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(16)
	for n := range nodes {
		group.Go(func() error {
			capacity := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"),
				"pods": resource.MustParse("29")}
			_, err := client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", n)},
				Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	r.times[0] = ready(b, client, nodes, began)
	r.measure(b, client, pods, began)
	r.memory = pss(cmd.Process.Pid)
	return r
}

// install builds a program of a module as its users do, once.
func install(b *testing.B, module string) string {
	dir := filepath.Join(testenv.Root(), "bin", "bench")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	name, _, _ := strings.Cut(filepath.Base(module), "@")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.Command("go", "install", module)
	cmd.Dir = b.TempDir() // outside of this module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go install %s: %v\n%s", module, err, out)
	}
	return path
}

// patience is the time that either may take before the benchmark gives up.
const patience = 15 * time.Minute

// ready waits until so many nodes take pods.
func ready(b *testing.B, client kubernetes.Interface, nodes int, began time.Time) time.Duration {
	for {
		list, err := client.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		count := 0
		for _, n := range list.Items {
			if len(n.Spec.Taints) == 0 && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				count++
			}
		}
		if count >= nodes {
			b.Log(nodes, "nodes are ready after", time.Since(began))
			return time.Since(began)
		}
		if time.Since(began) > patience/3 {
			b.Fatalf("%d of %d nodes are ready after %v", count, nodes, patience/3)
		}
		time.Sleep(time.Second)
	}
}

// measure creates pods, and asks the API server when all of them are ready.
func (r *result) measure(b *testing.B, client kubernetes.Interface, pods int, began time.Time) {
	start := time.Now()
	const deployments = 10
	for n := range deployments {
		name, replicas := fmt.Sprintf("app-%d", n), int32(pods/deployments)
		_, err := client.AppsV1().Deployments("default").Create(b.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
				ProgressDeadlineSeconds: new(int32(3600)),
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
	}
	for count := 0; count < pods; time.Sleep(time.Second) {
		list, err := client.AppsV1().Deployments("default").List(b.Context(), metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		count = 0
		for _, d := range list.Items {
			count += int(d.Status.ReadyReplicas)
		}
		if time.Since(start) > patience {
			b.Fatalf("%d of %d pods are ready after %v", count, pods, patience)
		}
	}
	r.times[1], r.times[2] = time.Since(start), time.Since(began)
	b.Log(pods, "pods are ready after", r.times[1])
	r.p99 = p99(b, client)
}

// p99 returns the maximum duration of 99 of 100 requests that users make one after the other: one object, a page of a
// list, a change.
func p99(b *testing.B, client kubernetes.Interface) time.Duration {
	list, err := client.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{Limit: 100})
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	var took []time.Duration
	var group errgroup.Group
	group.SetLimit(2)
	for i := range 1000 {
		group.Go(func() (err error) {
			pod := list.Items[i%len(list.Items)]
			began := time.Now()
			switch i % 3 {
			case 0:
				_, err = client.CoreV1().Pods("default").Get(b.Context(), pod.Name, metav1.GetOptions{})
			case 1:
				_, err = client.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{Limit: 500})
			default:
				_, err = client.CoreV1().Pods("default").Patch(b.Context(), pod.Name, types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i), metav1.PatchOptions{})
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// pss returns the proportional share of memory of a process, in bytes; 0 when it cannot be read.
func pss(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			// the kernel's own number
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
