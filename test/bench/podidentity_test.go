package bench

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/test/harness"
)

// BenchmarkPodCreation measures what the admission webhook for roles of pods adds to the creation of a pod with a role,
// by the API server's own histogram of its calls of the webhook. The difference between the creation of such pods and
// of others, in turn, whose label keeps the webhook out, says nothing at the 99th percentile: either is several times
// the webhook's part there. They are created as dry runs: admission is the same, and neither the disk nor a scheduler
// with thousands of pods is measured.
func BenchmarkPodCreation(b *testing.B) {
	const pods = 2000
	// Of those before, the cluster's own start is a part: its controllers come up meanwhile.
	const before = 2000
	// The goal is the second bound of the histogram's buckets.
	const goal = 5 * time.Millisecond
	d := harness.Start(b)
	d.CreateCluster("roles", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("roles", ekstypes.ClusterStatusActive)
	client, _ := kubernetesClient(b, d, "roles")
	ctx := b.Context()
	_, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: "app", Annotations: map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/app"},
	}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	took := map[bool][]time.Duration{}
	var within, all uint64
	for i := range before + 2*pods {
		if i == before {
			within, all = webhookCalls(b, client, goal)
		}
		withRole := i%2 == 0
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{}},
			Spec: corev1.PodSpec{ServiceAccountName: "app", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if !withRole {
			pod.Labels["eks.amazonaws.com/skip-pod-identity-webhook"] = "true"
		}
		start := time.Now()
		made, err := client.CoreV1().Pods("default").Create(ctx, pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			b.Fatal(err)
		}
		if i >= before {
			took[withRole] = append(took[withRole], time.Since(start))
		}
		if got := len(made.Spec.Containers[0].Env) > 0; got != withRole {
			b.Fatalf("pod %s has a role: %t", pod.Name, got)
		}
	}
	withinNow, allNow := webhookCalls(b, client, goal)
	share := 100 * float64(withinNow-within) / float64(allNow-all)
	milliseconds := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", 1e3*d.Seconds()) }
	b.ReportMetric(share, "%")
	report(row{"calls of the webhook that take at most " + goal.String(), fmt.Sprintf("%.1f %%", share), "99 %",
		fmt.Sprintf("creation of a pod with it median %s, p99 %s; without it %s, %s",
			milliseconds(quantile(took[true], 0.5)), milliseconds(quantile(took[true], 0.99)),
			milliseconds(quantile(took[false], 0.5)), milliseconds(quantile(took[false], 0.99)))})
}

// webhookCalls returns how many calls of the webhook took at most the bound, and how many there were, as the API server
// counts them: https://kubernetes.io/docs/reference/instrumentation/metrics/.
func webhookCalls(b *testing.B, client kubernetes.Interface, bound time.Duration) (within, all uint64) {
	b.Helper()
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	const family = "apiserver_admission_webhook_admission_duration_seconds"
	for _, metric := range families[family].GetMetric() {
		if labels(metric)["name"] != "iam-for-pods.amazonaws.com" {
			continue
		}
		all += metric.Histogram.GetSampleCount()
		for _, bucket := range metric.Histogram.Bucket {
			if bucket.GetUpperBound() == bound.Seconds() {
				within += bucket.GetCumulativeCount()
			}
		}
	}
	return within, all
}

func labels(metric *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range metric.Label {
		all[l.GetName()] = l.GetValue()
	}
	return all
}
