//go:build linux

package fargate

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// coreDNSPatch is what eksctl changes in the Deployment of CoreDNS to have its pods run on Fargate.
const coreDNSPatch = `{"spec":{"template":{"metadata":{"annotations":{"eks.amazonaws.com/compute-type":"fargate"}}}}}`

// adoptCoreDNS makes CoreDNS an add-on whose pods run on Fargate.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-getting-started.html
func (w *fixture) adoptCoreDNS() {
	w.AWS(nil, "eks", "create-addon", "--cluster-name", w.Cluster, "--addon-name", "coredns", "--configuration-values",
		`{"computeType":"Fargate"}`, "--resolve-conflicts", "OVERWRITE")
	eventually.Nil(w.t, "the add-on is active", func() error {
		var out struct {
			Addon struct {
				Status string
				Health struct {
					Issues []struct{ Code, Message string }
				}
			}
		}
		if w.AWS(&out, "eks", "describe-addon", "--cluster-name", w.Cluster, "--addon-name", "coredns"); out.Addon.Status !=
			"ACTIVE" {
			return fmt.Errorf("it is %+v", out.Addon)
		}
		return nil
	})
	w.rollout("kube-system", "deployment/coredns")
	running := 0
	for _, p := range w.pods("kube-system", "k8s-app=kube-dns") {
		if p.Metadata.DeletionTimestamp != "" {
			continue
		}
		running++
		if !strings.HasPrefix(p.Spec.NodeName, "fargate-") ||
			p.Metadata.Annotations["eks.amazonaws.com/compute-type"] != "Fargate" {
			w.t.Errorf("a pod of the add-on is %+v", p)
		}
	}
	if running != 2 {
		w.t.Errorf("the add-on has %d pods", running)
	}
}

// checkAudit checks whom the audit log names for what Fargate does in the cluster.
func (w *fixture) checkAudit(p pod) {
	w.t.Helper()
	audit := func(object, namespace string, wanted ...string) {
		w.t.Helper()
		args := []string{"audit", "--data-dir", w.Dir, "--cluster", w.Cluster, object, "-o", "wide"}
		if namespace != "" {
			args = append(args, "-n", namespace)
		}
		out := w.Run("", "coracle", args...)
		for _, want := range wanted {
			if !strings.Contains(out, want) {
				w.t.Errorf("the audit of %s lacks %s:\n%s", object, want, out)
			}
		}
	}
	const webhook = "0500-amazon-eks-fargate-mutation.amazonaws.com"
	audit("pod/"+p.Metadata.Name, "fargate", "eks:fargate-scheduler", webhook, "schedulerName", "system-node-critical",
		"CapacityProvisioned", p.Spec.NodeName)
	audit("configmap/aws-auth", "kube-system", "eks:fargate-manager")
	audit("mutatingwebhookconfiguration/"+webhook, "", "eks:cluster-bootstrap", "kubectl/v1.35")
}

// checkNode checks the node of a pod, and returns its zone.
func (w *fixture) checkNode(p pod) (zone string) {
	w.t.Helper()
	eventually.Nil(w.t, "node "+p.Spec.NodeName+" is that of Fargate", func() error { // others complete its labels
		var node clustertest.Node
		w.JSON(&node, "get", "node", p.Spec.NodeName)
		labels := node.Metadata.Labels
		zone = labels["topology.kubernetes.io/zone"]
		for label, want := range map[string]string{
			"eks.amazonaws.com/compute-type":           "fargate",
			"kubernetes.io/hostname":                   strings.TrimPrefix(p.Spec.NodeName, "fargate-"),
			"topology.kubernetes.io/region":            harness.Region,
			"failure-domain.beta.kubernetes.io/region": harness.Region,
			"failure-domain.beta.kubernetes.io/zone":   zone,
		} {
			if got := labels[label]; got != want || got == "" {
				return fmt.Errorf("label %s is %q, want %q", label, got, want)
			}
		}
		for _, label := range []string{"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"} {
			if got, ok := labels[label]; ok {
				return eventually.Never(fmt.Errorf("label %s is %q", label, got))
			}
		}
		// As on EKS, the cloud controller manager takes a node that is not Ready yet for one that is shut down.
		taint := clustertest.Taint{Key: "eks.amazonaws.com/compute-type", Value: "fargate", Effect: "NoSchedule"}
		if !slices.Contains(node.Spec.Taints, taint) {
			return fmt.Errorf("the taints are %v", node.Spec.Taints)
		}
		return nil
	})
	return zone
}

// administrator returns the path of a kubeconfig with a token of a service account: nobody logs in by IAM while the
// daemon is down.
func (w *fixture) administrator() string {
	w.t.Helper()
	w.Run(w.Config, "kubectl", "-n", "default", "create", "serviceaccount", "administrator")
	w.Run(w.Config, "kubectl", "create", "clusterrolebinding", "administrator", "--clusterrole=cluster-admin",
		"--serviceaccount=default:administrator")
	token := strings.TrimSpace(w.Run(w.Config, "kubectl", "-n", "default", "create", "token", "administrator"))
	config, err := clientcmd.LoadFromFile(w.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo] = &clientcmdapi.AuthInfo{Token: token}
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// missWebhook creates a pod while nobody answers for the webhook: the failure policy leaves it as it is.
func (w *fixture) missWebhook(kubeconfig string) {
	w.t.Helper()
	w.Run(kubeconfig, "kubectl", "create", "-f", w.file(fmt.Sprintf(single, "missed", "fargate", harness.Agnhost)))
	scheduler := w.Run(kubeconfig, "kubectl", "-n", "fargate", "get", "pod", "missed", "-o",
		`jsonpath={.spec.schedulerName} {.metadata.labels}`)
	if strings.TrimSpace(scheduler) != "default-scheduler" {
		w.t.Errorf("a pod that the webhook has not seen has the scheduler and labels %q", scheduler)
	}
	w.Run(kubeconfig, "kubectl", "-n", "fargate", "delete", "pod", "missed", "--wait=false")
}

// hungry is a pod that takes 700 MiB once it is told to, and waits otherwise.
const hungry = `apiVersion: v1
kind: Pod
metadata: {name: hungry, namespace: fargate}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: hungry
    image: ` + harness.Agnhost + `
    command: [sh, -c, "while [ ! -e /tmp/eat ]; do sleep 0.1; done; exec busybox dd if=/dev/zero of=/dev/null bs=700M"]
`

// fillMemory has a pod take more memory than its machine of 0.5 GB has: its container is killed, and restarted there. A
// kubelet hears why (OOMKilled) with cgroup v2 alone, as it was not the container's own limit.
func (w *fixture) fillMemory() {
	w.Apply(hungry)
	w.Await("condition=Ready", "-n", "fargate", "pod/hungry")
	var p pod
	w.JSON(&p, "get", "pod", "-n", "fargate", "hungry")
	before := w.lease(p)
	_, _, _ = w.Try(w.Config, "kubectl", "-n", "fargate", "exec", "hungry", "--", "touch", "/tmp/eat") // it may be killed
	const size, killed = 512 << 20, 128 + int(syscall.SIGKILL)
	eventually.Nil(w.t, "the container is killed and restarted", func() error {
		var now struct {
			Status struct {
				ContainerStatuses []struct {
					RestartCount int
					LastState    struct{ Terminated struct{ ExitCode int } }
					State        struct{ Running struct{ StartedAt string } }
				}
			}
		}
		w.JSON(&now, "get", "pod", "-n", "fargate", "hungry")
		if len(now.Status.ContainerStatuses) != 1 {
			return errors.New("it has no status")
		}
		c := now.Status.ContainerStatuses[0]
		if c.RestartCount == 0 || c.LastState.Terminated.ExitCode != killed || c.State.Running.StartedAt == "" {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	w.JSON(&p, "get", "pod", "-n", "fargate", "hungry")
	if after := w.lease(p); after.machine != before.machine || after.eni != before.eni ||
		after.pod.Spec.NodeName != before.pod.Spec.NodeName || after.machine == "" {
		w.t.Errorf("the pod was on %+v, and is on %+v", before, after)
	}
	peak := w.In(before.machine, "sh", "-c",
		"cd /sys/fs/cgroup; cat memory/memory.max_usage_in_bytes 2>/dev/null || cat memory.peak")
	if most, err := strconv.Atoi(strings.TrimSpace(peak)); err != nil || most > size || most < size-size/16 {
		w.t.Errorf("the machine of 0.5 GB has had %q bytes: %v", peak, err)
	}
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "pod", "hungry", "--wait=false")
}
