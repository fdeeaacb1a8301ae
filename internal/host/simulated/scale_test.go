package simulated

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/cluster/apiservertest"
)

// BenchmarkFleet times a thousand nodes and ten thousand pods, or as many as CORACLE_NODES and CORACLE_PODS say, with an API
// server, controller manager and scheduler, but without AWS's side: test/simulated has all of it.
func BenchmarkFleet(b *testing.B) {
	nodes, pods := number(b, "CORACLE_NODES", 1000), number(b, "CORACLE_PODS", 10000)
	w := newWorld(b, apiservertest.Options{Controllers: []string{"*"}, Scheduler: true})
	admin := w.server.Admin()
	w.daemon()
	for b.Loop() {
		began := time.Now()
		for n := range nodes {
			w.launch(n+1, joins, nil)
		}
		launched := time.Since(began)
		initialised := initialise(b, admin, nodes)
		joined := time.Since(began)
		began = time.Now()
		const deployments = 10
		for n := range deployments {
			deploy(b, admin, fmt.Sprintf("app-%d", n), int32(pods/deployments))
		}
		b.Log(nodes, "nodes recorded after", launched, "and joined after", joined, "of which initialised", initialised)
		for count := 0; count < pods; time.Sleep(time.Second) {
			count = 0
			for n := range deployments {
				d, err := admin.AppsV1().Deployments("default").Get(b.Context(), fmt.Sprintf("app-%d", n), metav1.GetOptions{})
				if err != nil {
					b.Fatal(err)
				}
				count += int(d.Status.ReadyReplicas)
			}
			if time.Since(began) > 8*time.Minute {
				b.Fatalf("%d pods are ready after 8 minutes", count)
			}
		}
		b.Log(pods, "pods ready after", time.Since(began))
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		b.ReportMetric(joined.Seconds(), "s/nodes")
		b.ReportMetric(time.Since(began).Seconds(), "s/pods")
		b.ReportMetric(float64(memory.HeapAlloc)/1e6, "MB-heap")
		b.ReportMetric(float64(p99(b, admin).Milliseconds()), "ms-p99")
	}
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

// initialise does what the cloud controller manager does to so many nodes.
func initialise(b *testing.B, admin kubernetes.Interface, nodes int) int {
	done := map[string]bool{}
	for len(done) < nodes {
		list, err := admin.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		var group errgroup.Group
		group.SetLimit(20)
		for _, n := range list.Items {
			if done[n.Name] {
				continue
			}
			done[n.Name] = true
			taints := slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.cloudprovider") })
			group.Go(func() error {
				if taints != nil {
					_, err := admin.CoreV1().Nodes().Patch(b.Context(), n.Name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return len(done)
}

// p99 is how long 99 of 100 requests take at most, of those that users make: one object, a page of a list, a change.
func p99(b *testing.B, admin kubernetes.Interface) time.Duration {
	list, err := admin.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{Limit: 100})
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	var took []time.Duration
	var group errgroup.Group
	group.SetLimit(4)
	for i := range 1000 {
		group.Go(func() (err error) {
			pod := list.Items[i%len(list.Items)]
			began := time.Now()
			switch i % 3 {
			case 0:
				_, err = admin.CoreV1().Pods("default").Get(b.Context(), pod.Name, metav1.GetOptions{})
			case 1:
				_, err = admin.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{Limit: 500})
			default:
				_, err = admin.CoreV1().Pods("default").Patch(b.Context(), pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i), metav1.PatchOptions{})
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
