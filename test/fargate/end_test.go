//go:build linux

package fargate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// workloadOfOne is a Deployment with one pod: name, namespace.
const workloadOfOne = `apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: %[1]s, image: "` + harness.Agnhost + `", args: [pause]}]
`

// only returns the pod of a workloadOfOne that is Ready.
func (w *fixture) only(namespace, app string) pod {
	w.t.Helper()
	w.rollout(namespace, "deployment/"+app)
	var found pod
	eventually.Nil(w.t, "there is one pod of "+app, func() error {
		all := slices.DeleteFunc(w.pods(namespace, "app="+app), func(p pod) bool {
			return p.Metadata.DeletionTimestamp != "" || p.Status.Phase != "Running"
		})
		if len(all) != 1 {
			return fmt.Errorf("there are %+v", all)
		}
		found = all[0]
		return nil
	})
	return found
}

// replaced waits until a Deployment has replaced a pod by another on another machine, and the first one's node and
// network interface are gone.
func (w *fixture) replaced(namespace, app string, first lease) {
	w.t.Helper()
	eventually.Nil(w.t, app+" is replaced", func() error {
		for _, p := range w.pods(namespace, "app="+app) {
			if p.Metadata.UID != first.pod.Metadata.UID && p.Status.Phase == "Running" {
				return nil
			}
		}
		return errors.New("no other pod runs")
	})
	second := w.lease(w.only(namespace, app))
	if second.machine == first.machine || second.eni == first.eni {
		w.t.Errorf("the pod of %s has been replaced on the same machine: %+v, %+v", app, first, second)
	}
	w.gone(first)
}

// lease is what a pod has of AWS.
type lease struct {
	pod          pod
	machine, eni string
}

func (w *fixture) lease(p pod) lease {
	w.t.Helper()
	return lease{pod: p, machine: w.machines()[p.Spec.NodeName], eni: w.networkInterface(p).NetworkInterfaceId}
}

// gone waits until what a pod had is.
func (w *fixture) gone(l lease) {
	w.t.Helper()
	eventually.Nil(w.t, "what "+l.pod.Metadata.Name+" had is gone", func() error {
		for _, id := range w.machines() {
			if id == l.machine {
				return fmt.Errorf("machine %s: %w", id, errStillThere)
			}
		}
		_, said, err := w.Try("", "aws", "ec2", "describe-network-interfaces", "--network-interface-ids", l.eni)
		if err == nil || !strings.Contains(said, "InvalidNetworkInterfaceID.NotFound") {
			return fmt.Errorf("network interface %s: %w: %w %s", l.eni, errStillThere, err, said)
		}
		return nil
	})
}

// machines returns the IDs of the machines of Fargate by the names of their nodes.
func (w *fixture) machines() map[string]string {
	w.t.Helper()
	var status struct {
		Instances []struct{ ID, Name, Type string }
	}
	out := w.Run("", "coracle", "status", "--data-dir", w.Dir, "-o", "json")
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]string{}
	for _, i := range status.Instances {
		if i.Type == "fargate" {
			all[i.Name] = i.ID
		}
	}
	return all
}

// tells waits until an event of a pod contains what is wanted.
func (w *fixture) tells(namespace, name, want string) {
	w.t.Helper()
	eventually.Nil(w.t, "an event of "+name, func() error {
		out, said, err := w.Try(w.Config, "kubectl", "-n", namespace, "get", "events", "--field-selector",
			"involvedObject.name="+name, "-o", `jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}`)
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		if !strings.Contains(out, want) {
			return fmt.Errorf("they lack %q:\n%s", want, out)
		}
		return nil
	})
}

// patch has two pods leave for a patch, of which a budget keeps one until it allows a disruption.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-patching.html
func (w *fixture) patch() {
	w.Apply(fmt.Sprintf(workloadOfOne, "free", "patched") + "---\n" + fmt.Sprintf(workloadOfOne, "kept", "patched") + `---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: kept, namespace: patched}
spec: {minAvailable: 1, selector: {matchLabels: {app: kept}}}
`)
	free, kept := w.lease(w.only("patched", "free")), w.lease(w.only("patched", "kept"))
	w.Await("jsonpath={.status.currentHealthy}=1", "-n", "patched", "pdb/kept")
	if out := w.Run("", "coracle", "patch", "fargate", "--data-dir", w.Dir, "--cluster", w.Cluster, "--profile", "patched",
		"--deadline", "1h"); !strings.Contains(out, "2 pods of cluster "+w.Cluster+" are evicted") {
		w.t.Errorf("coracle patch fargate says %q", out)
	}
	w.replaced("patched", "free", free)
	name := kept.pod.Metadata.Name
	w.tells("patched", name, `ScheduledTermination: EKS Fargate Pod Scheduled Termination: {"clusterName":"`+w.Cluster+
		`","fargateProfileName":"patched","podName":"`+name+`","podNamespace":"patched","evictErrorMessage":`+
		`"Cannot evict pod as it would violate the pod's disruption budget.`)
	w.tells("patched", name, `Z[UTC]"}`)
	if now := w.only("patched", "kept"); now.Metadata.UID != kept.pod.Metadata.UID {
		w.t.Errorf("the budget has not kept %s: %+v", name, now)
	}
	w.Run(w.Config, "kubectl", "-n", "patched", "patch", "pdb", "kept", "--type=merge", "-p",
		`{"spec":{"minAvailable":0}}`)
	w.replaced("patched", "kept", kept)
	eventually.Nil(w.t, "the audit log has the evictions", func() error {
		out := w.Run("", "coracle", "audit", "--data-dir", w.Dir, "--cluster", w.Cluster, "pods", "-n", "patched", "--verb",
			"evict")
		if strings.Contains(out, name) && strings.Contains(out, free.pod.Metadata.Name) &&
			strings.Contains(out, "eks:fargate-manager") {
			return nil
		}
		return errors.New(out)
	})
	w.Run(w.Config, "kubectl", "-n", "patched", "delete", "deployment", "free", "kept", "--wait=false")
}

// killMachine kills the machine of a pod. A finalizer keeps the pod to be looked at.
func (w *fixture) killMachine() {
	w.Apply(fmt.Sprintf(workloadOfOne, "mortal", "fargate"))
	first := w.lease(w.only("fargate", "mortal"))
	name := first.pod.Metadata.Name
	var node clustertest.Node
	w.JSON(&node, "get", "node", first.pod.Spec.NodeName)
	w.Run(w.Config, "kubectl", "-n", "fargate", "patch", "pod", name, "--type=merge", "-p",
		`{"metadata":{"finalizers":["example.com/look"]}}`)
	killed := 0
	for _, p := range w.Processes() {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil && strings.Contains(p, " launch ") && strings.Contains(p, first.machine) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				w.t.Fatal(err)
			}
			killed++
		}
	}
	if killed != 1 {
		w.t.Fatalf("machine %s has %d processes among:\n%s", first.machine, killed, strings.Join(w.Processes(), "\n"))
	}
	w.replaced("fargate", "mortal", first)
	w.tells("fargate", name, "FargateMachineTerminated: The Fargate machine of the pod has ended")
	var dead pod
	w.JSON(&dead, "get", "pod", "-n", "fargate", name)
	if dead.Status.Phase != "Failed" || dead.Metadata.DeletionTimestamp == "" || !slices.Contains(dead.Status.Conditions,
		condition{"DisruptionTarget", "True", "FargateMachineTerminated"}) {
		w.t.Errorf("the pod of the machine is %+v", dead)
	}
	for _, n := range w.Nodes() {
		if n.Metadata.UID == node.Metadata.UID {
			w.t.Errorf("node %s: %v", n.Metadata.Name, errStillThere)
		}
	}
	w.Run(w.Config, "kubectl", "-n", "fargate", "patch", "pod", name, "--type=merge", "-p",
		`{"metadata":{"finalizers":null}}`)
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "deployment", "mortal", "--wait=false")
}
