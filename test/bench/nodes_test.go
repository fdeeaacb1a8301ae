//go:build linux

package bench

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// BenchmarkNodes times RunInstances to a Ready node and the creation of a pod to its readiness, and weighs a machine.
// Beside the times stand containerd and a kubelet by hand on the host, with the reference ptp plugin.
func BenchmarkNodes(b *testing.B) {
	const samples = 5
	s := clustertest.New(b, "nodes", version)
	client, _ := kubernetesClient(b, s.Daemon, "nodes")
	image := s.AL2023(version)
	launch := func() (id, node string, took time.Duration) {
		start := time.Now()
		id = runInstance(b, s, image)
		node = awaitReady(b, client, func(n corev1.Node) bool { return strings.HasSuffix(n.Spec.ProviderID, "/"+id) })
		return id, node, time.Since(start)
	}
	first, _, took := launch() // warms the page cache, and makes the AMI
	report(row{"RunInstances to node Ready, the first machine on a new data directory", seconds(took), "6 s", ""})
	var ours []time.Duration
	second := ""
	for i := range samples {
		id, name, took := launch()
		ours = append(ours, took)
		if i == samples-1 {
			second = id
			continue
		}
		s.AWS(nil, "ec2", "terminate-instances", "--instance-ids", id)
		s.Run("", "aws", "ec2", "wait", "instance-terminated", "--instance-ids", id)
		// Else it seems Ready until its lease ends, and gets pods.
		if err := client.CoreV1().Nodes().Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			b.Fatal(err)
		}
	}

	h := startByHand(b, bundle(b, version))
	h.defaultServiceAccount(b)
	hand, err := kubernetes.NewForConfig(&rest.Config{Host: h.url, BearerToken: byHandToken,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000})
	if err != nil {
		b.Fatal(err)
	}
	n := prepareHandNode(b, h)
	bare := handTimes(b, n, hand, samples)
	n.installNetwork(b, hand)
	installed := handTimes(b, n, hand, samples)
	n.start(b)
	awaitReady(b, hand, func(corev1.Node) bool { return true })
	median, beside := quantile(ours, 0.5), quantile(installed, 0.5)
	b.ReportMetric(median.Seconds(), "s/node")
	report(row{"RunInstances to node Ready, CNI up (median of " + strconv.Itoa(samples) + ")", seconds(median),
		"8 s, 2 times",
		fmt.Sprintf(
			"containerd and kubelet by hand, a CNI that a DaemonSet installs: %s, %.2f times; a CNI that lies there: "+
				"%s; EKS: 60 to 120 s",
			seconds(beside), median.Seconds()/beside.Seconds(), seconds(quantile(bare, 0.5)))})

	// Pods.
	pods, handPods := podTimes(b, client, 11), podTimes(b, hand, 11)
	n.stop()
	median, beside = quantile(pods, 0.5), quantile(handPods, 0.5)
	b.ReportMetric(median.Seconds(), "s/pod")
	report(row{"pod created to Ready on a warm node, image present (median of 10)", seconds(median), "1.5 s, 1.5 times",
		fmt.Sprintf("with the ptp plugin by hand %s: %.2f times", seconds(beside), median.Seconds()/beside.Seconds())})

	// Memory, once what starting allocated is collected.
	<-time.After(30 * time.Second)
	var status struct {
		Instances []struct {
			ID          string
			MemoryBytes int64
		}
	}
	if err := json.Unmarshal([]byte(s.Run("", "coracle", "status", "--data-dir", s.Dir, "-o", "json")),
		&status); err != nil {
		b.Fatal(err)
	}
	var sum int64
	for _, i := range status.Instances {
		if i.ID == first || i.ID == second {
			sum += i.MemoryBytes
		}
	}
	each := float64(sum) / 2 / (1 << 20)
	b.ReportMetric(each, "MiB/machine")
	report(row{"memory per machine (PSS: launcher, init, containerd, kubelet, aws-node, kube-proxy, half of CoreDNS)",
		fmt.Sprintf("%.0f MiB", each), "260 MiB", ""})
}

// runInstance runs a node.
func runInstance(b *testing.B, s *clustertest.Fixture, image string) string {
	b.Helper()
	out, err := ec2.NewFromConfig(s.Daemon.Config()).RunInstances(b.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(image), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId:         &s.SubnetIDs[0],
		SecurityGroupIds: []string{s.Group}, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{
			Name: aws.String("eks-node")},
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(s.NodeConfig()))),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance,
			Tags: []ec2types.Tag{{Key: aws.String("kubernetes.io/cluster/" + s.Cluster), Value: aws.String("owned")}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return *out.Instances[0].InstanceId
}

// handTimes starts a node by hand again and again and says how long it took to be Ready; the first is left out.
func handTimes(b *testing.B, n *handNode, client *kubernetes.Clientset, samples int) []time.Duration {
	b.Helper()
	var all []time.Duration
	for i := range samples + 1 {
		start := time.Now()
		n.start(b)
		awaitReady(b, client, func(corev1.Node) bool { return true })
		if i > 0 {
			all = append(all, time.Since(start))
		}
		n.stop()
		if err := n.endPods(); err != nil {
			b.Fatal(err)
		}
		if err := client.CoreV1().Nodes().Delete(b.Context(), "hand", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		if err := client.CoreV1().Pods("kube-system").DeleteCollection(b.Context(), now,
			metav1.ListOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	return all
}

// awaitReady waits until the node for which is true is Ready and has no taints; it answers its name.
func awaitReady(b *testing.B, client *kubernetes.Clientset, which func(corev1.Node) bool) (name string) {
	b.Helper()
	err := eventually.Try(20*time.Millisecond, func() error {
		list, err := client.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range list.Items {
			if !which(n) {
				continue
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0 {
					name = n.Name
					return nil
				}
			}
		}
		return fmt.Errorf("the node is not ready")
	})
	if err != nil {
		b.Fatal(err)
	}
	return name
}

// podTimes creates pods one after the other and says how long each took to be Ready; the first is left out.
func podTimes(b *testing.B, client *kubernetes.Clientset, count int) []time.Duration {
	b.Helper()
	var all []time.Duration
	pods := client.CoreV1().Pods("default")
	for i := range count {
		name := fmt.Sprintf("timed-%d", i)
		start := time.Now()
		_, err := pods.Create(b.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: aws.Bool(false), TerminationGracePeriodSeconds: aws.Int64(0),
				Containers: []corev1.Container{{Name: "c", Image: harness.Agnhost, Args: []string{"pause"},
					ImagePullPolicy: corev1.PullIfNotPresent}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		eventually.Nil(b, "the pod is ready", func() error { return podReady(b.Context(), client, name) })
		if i > 0 {
			all = append(all, time.Since(start))
		}
		if err := pods.Delete(b.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: aws.Int64(0)}); err != nil {
			b.Fatal(err)
		}
	}
	return all
}

func podReady(ctx context.Context, client *kubernetes.Clientset, name string) error {
	p, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("pod %s is %s", name, p.Status.Phase)
}
