//go:build linux

package volumes

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// classes are a user's: upstream's class for gp3 volumes, and one of snapshots. The class gp2 is EKS's.
const classes = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
parameters:
  type: gp3
  csi.storage.k8s.io/fstype: xfs
  tagSpecification_1: "team={{ .PVCNamespace }}"
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: ebs}
driver: ebs.csi.aws.com
deletionPolicy: Delete
`

// stateful is a StatefulSet of one pod with two volumes, on the node of a name: gp3, and gp2 by Kubernetes' migration
// of the in-tree driver.
const stateful = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  template:
    metadata: {labels: {app: db}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %s}
      terminationGracePeriodSeconds: 1
      securityContext: {fsGroup: 2000}
      containers:
        - name: db
          image: ` + harness.Agnhost + `
          command: [sleep, infinity]
          securityContext: {runAsUser: 1000}
          volumeMounts: [{name: data, mountPath: /data}, {name: old, mountPath: /old}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 1Gi}}}
    - metadata: {name: old}
      spec: {accessModes: [ReadWriteOnce], storageClassName: gp2, resources: {requests: {storage: 1Gi}}}
`

// restored is a pod with a volume from a snapshot, larger than it, and one that is a copy of another.
const restored = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: restored, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: gp3
  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: before}
  resources: {requests: {storage: 4Gi}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: copied, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: gp3
  dataSource: {kind: PersistentVolumeClaim, name: data-db-0}
  resources: {requests: {storage: 2Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: restored, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: db
      image: ` + harness.Agnhost + `
      command: [sleep, infinity]
      volumeMounts: [{name: data, mountPath: /data}, {name: copy, mountPath: /copy}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: restored}}
    - {name: copy, persistentVolumeClaim: {claimName: copied}}
`

const snapshot = `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: before, namespace: default}
spec: {volumeSnapshotClassName: ebs, source: {persistentVolumeClaimName: data-db-0}}
`

// raw is a pod with a raw volume, and the claim of that. It adds a line to what the volume has.
const raw = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: raw, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: Block
  storageClassName: gp3
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: raw, namespace: default}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  terminationGracePeriodSeconds: 1
  containers:
    - name: raw
      image: ` + harness.Agnhost + `
      command: [sleep, infinity]
      volumeDevices: [{name: data, devicePath: /dev/nvme1n1}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: raw}}
`

// pods is a cluster with the add-on.
type pods struct {
	*clustertest.Fixture
	t   *testing.T
	ec2 *ec2.Client
}

// TestVolumesOfPods takes the volumes of a StatefulSet through their life, as the add-on aws-ebs-csi-driver makes them.
func TestVolumesOfPods(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	testenv.NeedsAll(t, "the side-cars of the driver take minutes to build")
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("this host has no loop devices")
	}
	f := clustertest.New(t, "volumes", "1.35")
	p := &pods{f, t, ec2.NewFromConfig(f.Daemon.Config())}
	nodes := f.RunInstances(2, f.AL2023("1.35"), f.SubnetIDs[0], f.NodeConfig())
	p.install()
	var names []string
	for _, n := range f.AwaitNodes(nodes...) {
		names = append(names, n.Metadata.Labels["kubernetes.io/hostname"])
	}
	for _, addon := range []string{"snapshot-controller", "aws-ebs-csi-driver"} {
		p.until(addon+" is active", func() error {
			var out struct{ Addon struct{ Status string } }
			p.AWS(&out, "eks", "describe-addon", "--cluster-name", p.Cluster, "--addon-name", addon)
			if out.Addon.Status != "ACTIVE" {
				return fmt.Errorf("it is %s", out.Addon.Status)
			}
			return nil
		})
	}
	p.Apply(classes)

	// They are made where the pod is, and are the user's of the pod.
	p.Apply(fmt.Sprintf(stateful, names[0]))
	p.until("there is a pod", func() error {
		_, errs, err := p.Try(p.Config, "kubectl", "get", "pod", "db-0")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, errs)
		}
		return err
	})
	p.Await("condition=Ready", "pod/db-0")
	p.sh("echo data > /data/file; echo old > /old/file; busybox sync")
	p.tagged(nodes[0])

	// They grow while they are used.
	p.kubectl("patch", "pvc", "data-db-0", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	p.until("the file system has grown", func() error {
		out := p.sh("busybox df -m /data | busybox tail -1 | busybox awk '{print $2}'")
		if len(out) < 4 || out < "1900" {
			return fmt.Errorf("it has %s MiB", out)
		}
		return nil
	})

	// A snapshot keeps what was.
	p.Apply(snapshot)
	p.Await("jsonpath={.status.readyToUse}=true", "volumesnapshot/before")

	// They move to another node.
	p.kubectl("patch", "statefulset", "db", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"`+names[1]+`"}}}}}`)
	p.until("the pod has moved", func() error {
		node := p.kubectl("get", "pod", "db-0", "--ignore-not-found", "-o",
			"jsonpath={.spec.nodeName} {.status.conditions[?(@.type=='Ready')].status}")
		if node != names[1]+" True" {
			return fmt.Errorf("it is %q, not on %s", node, names[1])
		}
		return nil
	})
	if got := p.sh("cat /data/file /old/file"); got != "data\nold" {
		t.Errorf("moved, the files have %q", got)
	}
	p.sh("echo later > /data/file; busybox sync")
	p.Apply(restored)
	p.Await("condition=Ready", "pod/restored")
	got := p.kubectl("exec", "restored", "--", "sh", "-c",
		"cat /data/file /copy/file; busybox df -m /data | busybox tail -1 | busybox awk '{print ($2 > 3900)}'")
	if got != "data\nlater\n1" {
		t.Errorf("restored and copied, the volumes have %q", got)
	}

	// Raw ones are devices of pods, by names that may be those of other devices of the node, and move as well.
	for i, node := range []string{names[1], names[0]} {
		p.Apply(fmt.Sprintf(raw, node))
		p.Await("condition=Ready", "pod/raw")
		got := p.kubectl("exec", "raw", "--", "sh", "-c", fmt.Sprintf("test -b /dev/nvme1n1 && dd if=/dev/nvme1n1 bs=512 "+
			"count=1 2>/dev/null | busybox head -n %[1]d && printf '%%-511s\\n' 'raw %[1]d' | dd of=/dev/nvme1n1 bs=512 "+
			"conv=notrunc,fsync 2>/dev/null", i))
		if want := []string{"", "raw 0"}[i]; got != want {
			t.Errorf("on %s the raw volume has %q, want %q", node, got, want)
		}
		p.kubectl("delete", "pod/raw", "--timeout="+eventually.Limit.String())
	}

	// They go with their claims.
	p.kubectl("delete", "pod/restored", "pvc/raw", "pvc/restored", "pvc/copied", "volumesnapshot/before", "statefulset/db",
		"--timeout="+eventually.Limit.String())
	p.until("volumes and snapshots are gone", p.gone)
}

// install installs the add-ons, with a role of EKS Pod Identity for the controller.
func (p *pods) install() {
	p.t.Helper()
	p.AWS(nil, "iam", "create-role", "--role-name", "ebs", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},
		"Action":["sts:AssumeRole","sts:TagSession"]}]}`)
	p.AWS(nil, "iam", "attach-role-policy", "--role-name", "ebs", "--policy-arn",
		"arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy")
	for _, addon := range [][]string{{"eks-pod-identity-agent"}, {"snapshot-controller", "--addon-version",
		"v8.6.0-eksbuild.1"}, {"aws-ebs-csi-driver", "--pod-identity-associations",
		"serviceAccount=ebs-csi-controller-sa,roleArn=" + clustertest.RoleARN("ebs")}} {
		p.AWS(nil, append([]string{"eks", "create-addon", "--cluster-name", p.Cluster, "--addon-name"}, addon...)...)
	}
}

// tagged checks the volume of the StatefulSet in EC2: its tags, and that the instance has it.
func (p *pods) tagged(instance string) {
	p.t.Helper()
	out, err := p.ec2.DescribeVolumes(p.t.Context(), &ec2.DescribeVolumesInput{Filters: []types.Filter{
		{Name: aws.String("tag:kubernetes.io/created-for/pvc/name"), Values: []string{"data-db-0"}},
		{Name: aws.String("tag:ebs.csi.aws.com/cluster"), Values: []string{"true"}},
		{Name: aws.String("tag:team"), Values: []string{"default"}}}})
	if err != nil {
		p.t.Fatal(err)
	}
	if len(out.Volumes) != 1 || len(out.Volumes[0].Attachments) != 1 ||
		*out.Volumes[0].Attachments[0].InstanceId != instance {
		p.t.Errorf("the volumes of the claim data-db-0 are %s, want one of %s", harness.Text(out.Volumes), instance)
	}
}

// gone is an error while there are volumes or snapshots of the driver.
func (p *pods) gone() error {
	volumes, err := p.ec2.DescribeVolumes(p.t.Context(), &ec2.DescribeVolumesInput{Filters: []types.Filter{
		{Name: aws.String("tag-key"), Values: []string{"CSIVolumeName"}}}})
	snapshots, snapshotErr := p.ec2.DescribeSnapshots(p.t.Context(), &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}})
	if err := errors.Join(err, snapshotErr); err != nil {
		return err
	}
	if len(volumes.Volumes) > 0 || len(snapshots.Snapshots) > 0 {
		return fmt.Errorf("there are %s %s", harness.Text(volumes.Volumes), harness.Text(snapshots.Snapshots))
	}
	return nil
}

func (p *pods) kubectl(args ...string) string {
	p.t.Helper()
	return strings.TrimSpace(p.Run(p.Config, "kubectl", args...))
}

// sh runs a script in the StatefulSet's pod.
func (p *pods) sh(script string) string {
	p.t.Helper()
	return p.kubectl("exec", "db-0", "--", "sh", "-c", script)
}

func (p *pods) until(what string, try func() error) {
	p.t.Helper()
	if err := eventually.Try(200*time.Millisecond, try); err != nil {
		state, _, _ := p.Try(p.Config, "kubectl", "get", "pods,pvc,pv,volumeattachments,volumesnapshots,events", "-A")
		p.t.Fatalf("%s: %v\n%s", what, err, state)
	}
}
