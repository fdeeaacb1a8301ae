package bench

import (
	"fmt"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/test/harness"
)

// BenchmarkPodCreation measures what the admission webhook for roles of pods adds to the creation of a pod with a role.
// Beside it are pods of the same API server, created in turn, whose label keeps the webhook out. They are created as
// dry runs: admission is the same, and neither the disk nor a scheduler with thousands of pods is measured.
func BenchmarkPodCreation(b *testing.B) {
	const pods = 1000
	// Of those before, the cluster's own start is a part: its controllers come up meanwhile.
	const before = 2000
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
	for i := range before + 2*pods {
		withRole := i%2 == 0
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{}},
			Spec: corev1.PodSpec{ServiceAccountName: "app", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if !withRole {
			pod.Labels["eks.amazonaws.com/skip-pod-identity-webhook"] = "true"
		}
		start := time.Now()
		made, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
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
	milliseconds := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", 1e3*d.Seconds()) }
	cost := quantile(took[true], 0.99) - quantile(took[false], 0.99)
	b.ReportMetric(1e3*cost.Seconds(), "ms")
	report(row{"what the webhook adds to the creation of a pod (p99)", milliseconds(cost), "5 ms",
		fmt.Sprintf("with it median %s, p99 %s; without it %s, %s", milliseconds(quantile(took[true], 0.5)),
			milliseconds(quantile(took[true], 0.99)), milliseconds(quantile(took[false], 0.5)),
			milliseconds(quantile(took[false], 0.99)))})
}
