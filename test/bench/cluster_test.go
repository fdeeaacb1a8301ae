package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

const version = "1.35"

func bundle(b testing.TB, minor string) string {
	b.Helper()
	path := filepath.Join(testenv.Root(), "bin", "bundles", "v"+minor, "kube")
	if _, err := os.Stat(path); err != nil {
		b.Fatalf("the bundle is not built: %v", err)
	}
	return path
}

// kubernetesClient returns a client for the cluster with a token of `aws eks get-token`.
func kubernetesClient(b testing.TB, d *harness.Daemon, cluster string) (*kubernetes.Clientset, *rest.Config) {
	b.Helper()
	path := d.Kubeconfig(cluster)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		b.Fatal(err)
	}
	d.KeepToken(path) // it may be the kubeconfig of a fixture, which is used by other clients
	// The exec plugin would run in this process's environment: take its answer instead.
	config.ExecProvider = nil
	config.BearerToken = d.Token(cluster)
	config.QPS, config.Burst = 1000, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return client, config
}

func defaultServiceAccount(b testing.TB, client *kubernetes.Clientset) {
	b.Helper()
	eventually.Nil(b, "the default ServiceAccount answers", func() error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(b.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// BenchmarkCreateCluster times CreateCluster to ACTIVE with the default ServiceAccount answering.
func BenchmarkCreateCluster(b *testing.B) {
	const samples = 5
	var ours, theirs []time.Duration
	d := harness.Start(b)
	role, subnets := d.ClusterRole(), d.Subnets()
	for i := range samples + 1 { // the first warms the page cache
		start := time.Now()
		h := startByHand(b, bundle(b, version))
		h.defaultServiceAccount(b)
		if i > 0 {
			theirs = append(theirs, time.Since(start))
		}
		h.stop()

		name := fmt.Sprintf("create-%d", i)
		start = time.Now()
		d.CreateCluster(name, version, role, subnets)
		d.AwaitStatus(name, ekstypes.ClusterStatusActive)
		active := time.Since(start)
		client, _ := kubernetesClient(b, d, name) // runs the aws command line twice: not the cluster's time
		start = time.Now()
		defaultServiceAccount(b, client)
		if i > 0 {
			ours = append(ours, active+time.Since(start))
		}
		_, err := eks.NewFromConfig(d.Config()).DeleteCluster(b.Context(),
			&eks.DeleteClusterInput{Name: aws.String(name)})
		if err != nil {
			b.Fatal(err)
		}
		d.AwaitGone(name)
	}
	median, hand := quantile(ours, 0.5), quantile(theirs, 0.5)
	b.ReportMetric(median.Seconds(), "s/cluster")
	report(row{"CreateCluster to ACTIVE, default ServiceAccount answering (median of " + strconv.Itoa(samples) + ")",
		seconds(median), "3 s",
		fmt.Sprintf("by hand %s: %.2f times", seconds(hand), median.Seconds()/hand.Seconds())})
}

// BenchmarkMemory weighs one more idle cluster.
func BenchmarkMemory(b *testing.B) {
	const startupTime = 30 * time.Second // what a component allocates at start is collected by then
	d := harness.Start(b)
	role, subnets := d.ClusterRole(), d.Subnets()
	weigh := func() int64 {
		<-time.After(startupTime)
		var pids []int
		for _, p := range d.Processes() {
			pid, err := strconv.Atoi(strings.Fields(p)[0])
			if err != nil {
				b.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pss(b, pids...)
	}
	create := func(name string) {
		d.CreateCluster(name, version, role, subnets)
		d.AwaitStatus(name, ekstypes.ClusterStatusActive)
	}
	create("first")
	create("second")
	before := weigh()
	const more = 3
	for i := range more {
		create(fmt.Sprintf("more-%d", i))
	}
	each := float64(weigh()-before) / more / (1 << 20)

	startByHand(b, bundle(b, version)).defaultServiceAccount(b)
	h := startByHand(b, bundle(b, version))
	h.defaultServiceAccount(b)
	<-time.After(startupTime)
	hand := float64(pss(b, h.pids()...)) / (1 << 20)
	b.ReportMetric(each, "MiB/cluster")
	report(row{"memory (PSS) of one more idle cluster", fmt.Sprintf("%.0f MiB", each), "280 MiB",
		fmt.Sprintf("by hand with an etcd each %.0f MiB", hand)})
}

// BenchmarkTenClusters creates ten clusters at once, then times the start of a daemon that adopts them.
func BenchmarkTenClusters(b *testing.B) {
	d := harness.Start(b)
	role, subnets := d.ClusterRole(), d.Subnets()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() { d.CreateCluster(fmt.Sprintf("ten-%d", i), version, role, subnets) })
	}
	wg.Wait()
	for i := range 10 {
		d.AwaitStatus(fmt.Sprintf("ten-%d", i), ekstypes.ClusterStatusActive)
	}
	all := time.Since(start)
	b.ReportMetric(all.Seconds(), "s/10clusters")
	report(row{"10 clusters created at once, all ACTIVE", seconds(all), "25 s",
		"Kamaji publishes 100 in 7.5 min on a cloud: 45 s for 10"})

	var starts []time.Duration
	for range 5 {
		d.Kill()
		start := time.Now()
		d.Serve()
		starts = append(starts, time.Since(start))
	}
	median := quantile(starts, 0.5)
	b.ReportMetric(median.Seconds(), "s/start")
	report(row{"daemon start to /healthz with 10 clusters (median of 5)", seconds(median), "1 s", ""})
}

// BenchmarkUpgrade asks the API server every few milliseconds while the cluster goes to the next minor version.
func BenchmarkUpgrade(b *testing.B) {
	d := harness.Start(b)
	d.CreateCluster("upgrade", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("upgrade", ekstypes.ClusterStatusActive)
	_, config := kubernetesClient(b, d, "upgrade")

	ctx, cancel := context.WithCancel(b.Context())
	type result struct{ longest, outage time.Duration }
	done := make(chan result)
	go func() {
		// A connection for each request, as a new client has: a kept one would hide a refused dial.
		client := &http.Client{Timeout: time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		var r result
		var since time.Time // the first failure of the outage that lasts
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/default", nil)
			if err != nil {
				panic(err)
			}
			req.Header.Set("Authorization", "Bearer "+config.BearerToken)
			start := time.Now()
			resp, err := client.Do(req)
			ok := err == nil && resp.StatusCode == http.StatusOK
			if err == nil {
				resp.Body.Close()
			}
			switch {
			case ctx.Err() != nil:
			case ok:
				r.longest = max(r.longest, time.Since(start))
				if !since.IsZero() {
					r.outage += time.Since(since)
					since = time.Time{}
				}
			case since.IsZero():
				since = start
			}
			<-time.After(5 * time.Millisecond)
		}
		done <- r
	}()
	start := time.Now()
	_, err := eks.NewFromConfig(d.Config()).UpdateClusterVersion(b.Context(), &eks.UpdateClusterVersionInput{
		Name: aws.String("upgrade"), Version: aws.String("1.36"),
	})
	if err != nil {
		b.Fatal(err)
	}
	d.AwaitStatus("upgrade", ekstypes.ClusterStatusActive)
	took := time.Since(start)
	cancel()
	r := <-done
	b.ReportMetric(r.outage.Seconds(), "s/outage")
	report(row{"API server outage in an upgrade 1.35 to 1.36, " + seconds(took) + " in all", seconds(r.outage) +
		" (slowest answer " + seconds(r.longest) + ")", "3 s",
		"EKS: none seen through its load balancer"})
}
