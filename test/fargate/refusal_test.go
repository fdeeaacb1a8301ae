//go:build linux

package fargate

import (
	"fmt"
	"strings"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/test/harness"
)

// single is a pod: name, namespace, image.
const single = `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "%s", args: [pause]}]
`

// fillSubnet has a pod wait for an address, and frees one.
func (w *fixture) fillSubnet() {
	w.Apply(fmt.Sprintf(single, "late", "small", harness.Agnhost))
	w.tells("small", "late", "FailedScheduling: The specified subnet does not have enough free addresses to satisfy the "+
		"request.")
	w.AWS(nil, "ec2", "unassign-private-ip-addresses", "--network-interface-id", w.filler.NetworkInterfaceId,
		"--private-ip-addresses", w.filler.PrivateIpAddresses[1].PrivateIpAddress)
	w.Await("condition=Ready", "-n", "small", "pod/late")
	var late pod
	if w.JSON(&late, "get", "pod", "-n", "small", "late"); late.Status.PodIP !=
		w.filler.PrivateIpAddresses[1].PrivateIpAddress {
		w.t.Errorf("the pod has the address %s, and %s was free", late.Status.PodIP,
			w.filler.PrivateIpAddresses[1].PrivateIpAddress)
	}
}

// refuseImage has a pod execution role without permissions pull an image of ECR, and then with them.
func (w *fixture) refuseImage() {
	const image = "111122223333.dkr.ecr." + harness.Region + ".amazonaws.com/private:v1"
	w.AWS(nil, "ecr", "create-repository", "--repository-name", "private")
	w.Run("", "coracle", "images", "load", "--data-dir", w.Dir, harness.PauseArchive(w.t, image))
	w.Apply(fmt.Sprintf(single, "private", "bare", image))
	w.tells("bare", "private", "Failed: Failed to pull image \""+image+"\": ")
	w.tells("bare", "private", "pull access denied, repository does not exist or may require authorization: "+
		"authorization failed: no basic auth credentials")
	w.AWS(nil, "iam", "attach-role-policy", "--role-name", bareRole, "--policy-arn", harness.PodExecutionPolicy)
	w.Await("condition=Ready", "-n", "bare", "pod/private")
}

// foreign is a pod that no scheduler knows.
const foreign = `apiVersion: v1
kind: Pod
metadata: {name: foreign, namespace: default}
spec:
  schedulerName: nobody
  tolerations: [{operator: Exists}]
  containers: [{name: foreign, image: "` + harness.Agnhost + `", args: [pause]}]
`

// bindForeignPod binds another pod to the node of a Fargate pod, as an administrator of the cluster can.
func (w *fixture) bindForeignPod() {
	before := w.pods("fargate", "app=web")[0]
	w.Apply(foreign)
	w.Run(w.Config, "kubectl", "create", "--raw", "/api/v1/namespaces/default/pods/foreign/binding", "-f", w.file(
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"foreign"},"target":{"apiVersion":"v1","kind":"Node",`+
			`"name":"`+before.Spec.NodeName+`"}}`))
	eventually.Nil(w.t, "the node refuses the pod", func() error {
		var p pod
		if w.JSON(&p, "get", "pod", "foreign"); p.Status.Phase != "Failed" || p.Status.Reason != "OutOfpods" {
			return fmt.Errorf("it is %+v", p.Status)
		}
		return nil
	})
	var now pod
	if w.JSON(&now, "get", "pod", "-n", "fargate", before.Metadata.Name); now.Metadata.UID != before.Metadata.UID ||
		now.Status.Phase != "Running" {
		w.t.Errorf("the pod of the node was %+v, and is %+v", before, now)
	}
	w.Run(w.Config, "kubectl", "delete", "pod", "foreign", "--wait=false")
}

// fillDisk has a pod write more than it may have. It is not evicted: pods on Fargate are critical.
func (w *fixture) fillDisk() {
	if err := rootvolume.Check(); err != nil {
		w.t.Skip(err)
	}
	w.Apply(fmt.Sprintf(single, "writer", "fargate", harness.Agnhost))
	w.Await("condition=Ready", "-n", "fargate", "pod/writer")
	allocate := func(bytes, file string) (string, error) {
		out, said, err := w.Try(w.Config, "kubectl", "-n", "fargate", "exec", "writer", "--", "busybox", "fallocate", "-l",
			bytes, file)
		return out + said, err
	}
	if out, err := allocate("18000000000", "/tmp/most"); err != nil {
		w.t.Errorf("18 GB on a disk of 20 GiB: %v: %s", err, out)
	}
	if out, err := allocate("6000000000", "/tmp/beyond"); err == nil || !strings.Contains(out,
		"No space left on device") {
		w.t.Errorf("24 GB on a disk of 20 GiB, and 2 GiB for the system: %v: %s", err, out)
	}
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "pod", "writer", "--wait=false")
}
