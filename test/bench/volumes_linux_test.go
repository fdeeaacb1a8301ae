package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// classes are of volumes that are made for a pod, of those that are made at once, and of fast ones: gp3 reads 125 MiB/s
// otherwise.
const classes = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
parameters: {type: gp3}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: at-once}
provisioner: ebs.csi.aws.com
volumeBindingMode: Immediate
parameters: {type: gp3}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
parameters: {type: gp3, iops: "80000", throughput: "2000", csi.storage.k8s.io/fstype: xfs}
`

// claimed is a pod with a claim, by name, class and size.
const claimed = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: %[2]s, resources: {requests: {storage: %[3]s}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
    - name: c
      image: ` + harness.Agnhost + `
      args: [pause]
      volumeMounts: [{name: data, mountPath: /data}, {name: program, mountPath: /program}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: %[1]s}}
    - {name: program, hostPath: {path: /opt/program}}
`

// besides is a pod with two fast volumes: one with a file system, and one as the block device that it is, a loop
// device.
const besides = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: fast, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 160Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: block, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, volumeMode: Block, resources: {requests: {storage: 160Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: fast, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
    - name: c
      image: ` + harness.Agnhost + `
      args: [pause]
      volumeMounts: [{name: data, mountPath: /data}, {name: program, mountPath: /program}]
      volumeDevices: [{name: block, devicePath: /dev/block}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: fast}}
    - {name: block, persistentVolumeClaim: {claimName: block}}
    - {name: program, hostPath: {path: /opt/program}}
`

// volumes is a cluster with two nodes and the add-on.
type volumes struct {
	*clustertest.Fixture
	b     *testing.B
	kube  *kubernetes.Clientset
	ec2   *ec2.Client
	nodes []string // instances
}

// BenchmarkVolumes measures EBS volumes as pods and users of EC2 have them, each number beside the loop device and the
// host's own files.
func BenchmarkVolumes(b *testing.B) {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		b.Skip("this host has no loop devices")
	}
	f := clustertest.New(b, "volumes", version)
	kube, _ := kubernetesClient(b, f.Daemon, "volumes")
	v := &volumes{Fixture: f, b: b, kube: kube, ec2: ec2.NewFromConfig(f.Daemon.Config())}
	v.nodes = f.RunInstances(2, f.AL2023(version), f.SubnetIDs[0], f.NodeConfig())
	v.install()
	f.AwaitNodes(v.nodes...)
	v.Apply(classes)
	v.measureClaims()
	v.measureMove()
	v.measureThroughput()
	v.measureSnapshot()
	v.measureMany()
}

// install installs the add-on, and the program that pods run.
func (v *volumes) install() {
	v.b.Helper()
	v.AWS(nil, "iam", "create-role", "--role-name", "ebs", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},
		"Action":["sts:AssumeRole","sts:TagSession"]}]}`)
	v.AWS(nil, "iam", "attach-role-policy", "--role-name", "ebs", "--policy-arn",
		"arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy")
	for _, addon := range [][]string{{"eks-pod-identity-agent"}, {"aws-ebs-csi-driver", "--pod-identity-associations",
		"serviceAccount=ebs-csi-controller-sa,roleArn=" + clustertest.RoleARN("ebs")}} {
		v.AWS(nil, append([]string{"eks", "create-addon", "--cluster-name", v.Cluster, "--addon-name"}, addon...)...)
	}
	eventually.Nil(v.b, "the add-on is active", func() error {
		var out struct{ Addon struct{ Status string } }
		v.AWS(&out, "eks", "describe-addon", "--cluster-name", v.Cluster, "--addon-name", "aws-ebs-csi-driver")
		if out.Addon.Status != "ACTIVE" {
			return fmt.Errorf("it is %s", out.Addon.Status)
		}
		return nil
	})
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		v.b.Fatal(err)
	}
	for _, id := range v.nodes {
		ctx, cancel := context.WithTimeout(v.b.Context(), eventually.Limit)
		cmd := v.Command(ctx, "", "coracle", "exec", "--stdin", "--data-dir", v.Dir, id, "--", "/bin/sh", "-c",
			"mkdir -p /opt/program && cat > /opt/program/disk && chmod 755 /opt/program/disk")
		cmd.Stdin = bytes.NewReader(self)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			v.b.Fatalf("copy the program: %v: %s", err, out)
		}
	}
}

// awaitPod creates a pod with its claim and returns how long it took to be Ready.
func (v *volumes) awaitPod(name, class, size string) time.Duration {
	v.b.Helper()
	began := time.Now()
	v.Apply(fmt.Sprintf(claimed, name, class, size))
	eventually.Nil(v.b, name+" is ready", func() error { return podReady(v.b.Context(), v.kube, name) })
	return time.Since(began)
}

func (v *volumes) remove(name string) {
	v.b.Helper()
	v.Run(v.Config, "kubectl", "delete", "pod/"+name, "pvc/"+name, "--timeout="+eventually.Limit.String())
}

// measureClaims measures from the creation of a claim to its pod.
func (v *volumes) measureClaims() {
	const samples = 5
	var took []time.Duration
	for i := range samples + 1 {
		name := fmt.Sprintf("claim-%d", i)
		if d := v.awaitPod(name, "gp3", "10Gi"); i > 0 { // the first has images unpacked
			took = append(took, d)
		}
		v.remove(name)
	}
	median := quantile(took, 0.5)
	v.b.ReportMetric(median.Seconds(), "s/claim")
	report(row{fmt.Sprintf("PVC created to pod Ready, volume formatted and mounted (median of %d)", samples),
		seconds(median), "4 s", "EKS: 15 to 30 s"})
}

// create creates a volume, and returns it when it is available.
func (v *volumes) create(size int32) string {
	v.b.Helper()
	out, err := v.ec2.DescribeInstances(v.b.Context(), &ec2.DescribeInstancesInput{InstanceIds: v.nodes[:1]})
	if err != nil {
		v.b.Fatal(err)
	}
	made, err := v.ec2.CreateVolume(v.b.Context(), &ec2.CreateVolumeInput{Size: &size, VolumeType: types.VolumeTypeGp3,
		AvailabilityZone: out.Reservations[0].Instances[0].Placement.AvailabilityZone})
	if err != nil {
		v.b.Fatal(err)
	}
	v.await(*made.VolumeId, func(v types.Volume) bool { return v.State == types.VolumeStateAvailable })
	return *made.VolumeId
}

// await waits until a volume is as a function says.
func (v *volumes) await(id string, is func(types.Volume) bool) {
	v.b.Helper()
	if err := eventually.Try(5*time.Millisecond, func() error {
		out, err := v.ec2.DescribeVolumes(v.b.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
		if err == nil && !is(out.Volumes[0]) {
			err = fmt.Errorf("%s is %s with %+v", id, out.Volumes[0].State, out.Volumes[0].Attachments)
		}
		return err
	}); err != nil {
		v.b.Fatal(err)
	}
}

func (v *volumes) attach(id, instance string) {
	v.b.Helper()
	if _, err := v.ec2.AttachVolume(v.b.Context(), &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance,
		Device: aws.String("/dev/xvdba")}); err != nil {
		v.b.Fatal(err)
	}
	v.await(id, func(v types.Volume) bool {
		return len(v.Attachments) == 1 && v.Attachments[0].State == types.VolumeAttachmentStateAttached
	})
}

// measureMove measures from the detachment of a volume to its attachment to another instance.
func (v *volumes) measureMove() {
	const samples = 5
	id := v.create(1)
	v.attach(id, v.nodes[0])
	var took []time.Duration
	for i := range samples {
		began := time.Now()
		if _, err := v.ec2.DetachVolume(v.b.Context(), &ec2.DetachVolumeInput{VolumeId: &id}); err != nil {
			v.b.Fatal(err)
		}
		v.await(id, func(v types.Volume) bool { return v.State == types.VolumeStateAvailable })
		v.attach(id, v.nodes[(i+1)%2])
		took = append(took, time.Since(began))
	}
	median := quantile(took, 0.5)
	v.b.ReportMetric(median.Seconds(), "s/move")
	report(row{fmt.Sprintf("volume detached to attached on another node (median of %d)", samples), seconds(median), "1 s",
		""})
}

// throughputSize is what is written and read, in bytes.
const throughputSize = 1 << 30

// measureThroughput compares a file of a volume in a pod with a loop device over a file, which is what a volume is, in
// the same pod and on the host, and with a file of the host. Each is measured in turn, several times, and the median
// counts.
func (v *volumes) measureThroughput() {
	v.Apply(besides)
	eventually.Nil(v.b, "the pod with volumes is ready", func() error { return podReady(v.b.Context(), v.kube, "fast") })
	size := strconv.Itoa(throughputSize)
	dir := v.b.TempDir()
	content, plain := filepath.Join(dir, "content"), filepath.Join(dir, "plain")
	if err := os.WriteFile(content, nil, 0o600); err != nil {
		v.b.Fatal(err)
	}
	if err := os.Truncate(content, 2*throughputSize); err != nil {
		v.b.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", content).Output()
	if err != nil {
		v.b.Fatalf("losetup: %v", err)
	}
	loop := strings.TrimSpace(string(out))
	v.b.Cleanup(func() { _ = exec.Command("losetup", "--detach", loop).Run() })
	on := func(file string) func(kind string) float64 {
		return func(kind string) float64 {
			out, err := exec.Command("/proc/self/exe", diskArgument, kind, file, size).CombinedOutput()
			return v.number(string(out), err)
		}
	}
	in := func(file string) func(kind string) float64 {
		return func(kind string) float64 {
			out, text, err := v.Try(v.Config, "kubectl", "exec", "fast", "--", "/program/disk", diskArgument, kind, file, size)
			return v.number(out+text, err)
		}
	}
	places := map[string]func(kind string) float64{
		"pod": in("/data/file"), "loop device there": in("/dev/block"), "loop device of the host": on(loop),
		"host's file": on(plain),
	}
	for _, m := range []struct {
		kind, what, unit, goal string
		samples                int
	}{
		{"write", "sequential write with fsync, 1 GiB, in a pod", "MiB/s", "-10 %, -25 %", 3},
		// Three medians of the same device differ by ten percent.
		{"read", "4k random read, 16 threads, in a pod", "reads/s", "-10 %", 9},
	} {
		measured := map[string][]float64{}
		for range m.samples {
			for place, measure := range places {
				measured[place] = append(measured[place], measure(m.kind))
			}
		}
		median := map[string]float64{}
		for place, all := range measured {
			slices.Sort(all)
			median[place] = all[len(all)/2]
		}
		var besides []string
		for _, place := range []string{"loop device there", "loop device of the host", "host's file"} {
			besides = append(besides, fmt.Sprintf("%s %.0f, %+.0f %%", place, median[place],
				100*(median["pod"]/median[place]-1)))
		}
		v.b.ReportMetric(median["pod"], m.unit)
		report(row{fmt.Sprintf("%s (median of %d)", m.what, m.samples), fmt.Sprintf("%.0f %s", median["pod"], m.unit), m.goal,
			strings.Join(besides, "; ")})
	}
	v.Run(v.Config, "kubectl", "delete", "pod/fast", "pvc/fast", "pvc/block", "--timeout="+eventually.Limit.String())
}

// number reads what the program has printed.
func (v *volumes) number(out string, err error) float64 {
	v.b.Helper()
	n, parseErr := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err != nil || parseErr != nil {
		v.b.Fatalf("measure a disk: %v: %s", err, out)
	}
	return n
}

// measureSnapshot measures the snapshot of a volume that is mounted.
func (v *volumes) measureSnapshot() {
	id := v.create(10)
	v.attach(id, v.nodes[0])
	v.In(v.nodes[0], "/bin/sh", "-c", "mkfs.xfs -q /dev/xvdba && mkdir -p /mnt/snapshot && "+
		"mount /dev/xvdba /mnt/snapshot && head -c 1073741824 /dev/urandom > /mnt/snapshot/file && sync")
	const samples = 3
	var took []time.Duration
	for range samples {
		began := time.Now()
		out, err := v.ec2.CreateSnapshot(v.b.Context(), &ec2.CreateSnapshotInput{VolumeId: &id})
		if err != nil {
			v.b.Fatal(err)
		}
		if err := eventually.Try(10*time.Millisecond, func() error {
			found, err := v.ec2.DescribeSnapshots(v.b.Context(), &ec2.DescribeSnapshotsInput{
				SnapshotIds: []string{*out.SnapshotId}})
			if err == nil && found.Snapshots[0].State != types.SnapshotStateCompleted {
				err = fmt.Errorf("it is %s: %s", found.Snapshots[0].State, aws.ToString(found.Snapshots[0].StateMessage))
			}
			return err
		}); err != nil {
			v.b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	median := quantile(took, 0.5)
	v.b.ReportMetric(median.Seconds(), "s/snapshot")
	report(row{fmt.Sprintf("snapshot of 10 GiB, 1 GiB used, mounted (median of %d)", samples), seconds(median), "2 s",
		"the data directory is on " + fileSystem(v.Dir)})
}

// fileSystem returns the type of the file system of a directory: some clone files.
func fileSystem(dir string) string {
	out, err := exec.Command("stat", "--file-system", "--format=%T", dir).Output()
	if err != nil {
		return "an unknown file system"
	}
	return strings.TrimSpace(string(out))
}

var oneGibibyte = resource.MustParse("1Gi")

// measureMany measures the creation of many volumes.
func (v *volumes) measureMany() {
	const claims = 200
	api := v.kube.CoreV1().PersistentVolumeClaims("default")
	began := time.Now()
	for i := range claims {
		var claim corev1.PersistentVolumeClaim
		claim.Name = fmt.Sprintf("many-%d", i)
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.StorageClassName = aws.String("at-once")
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: oneGibibyte}
		if _, err := api.Create(v.b.Context(), &claim, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			v.b.Fatal(err)
		}
	}
	if err := eventually.Try(200*time.Millisecond, func() error {
		list, err := api.List(v.b.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		bound := 0
		for _, c := range list.Items {
			if c.Status.Phase == corev1.ClaimBound {
				bound++
			}
		}
		if bound < claims {
			return fmt.Errorf("%d of %d claims are bound", bound, claims)
		}
		return nil
	}); err != nil {
		v.b.Fatal(err)
	}
	took := time.Since(began)
	v.b.ReportMetric(took.Seconds(), "s/200claims")
	report(row{fmt.Sprintf("%d PVCs created at once to Bound", claims), seconds(took), "60 s", ""})
}
