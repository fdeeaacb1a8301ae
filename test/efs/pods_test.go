//go:build linux

package efs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// shared is a class of a user's, with a claim of it.
const shared = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: efs}
provisioner: efs.csi.aws.com
mountOptions: [tls, iam]
parameters:
  provisioningMode: efs-ap
  fileSystemId: %s
  directoryPerms: "700"
  gidRangeStart: "1000"
  gidRangeEnd: "2000"
  basePath: /dynamic
  subPathPattern: ${.PVC.namespace}/${.PVC.name}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared, namespace: default}
spec: {accessModes: [ReadWriteMany], storageClassName: efs, resources: {requests: {storage: 5Gi}}}
`

// static is a volume that a user has made, with a claim of it.
const static = `apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  csi: {driver: efs.csi.aws.com, volumeHandle: "%[2]s", volumeAttributes: %[3]s}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s, namespace: default}
spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: %[1]s, resources: {requests: {storage: 5Gi}}}
`

// pod is a pod with a claim, on the nodes of a selector.
const pod = `---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  nodeSelector: %s
  terminationGracePeriodSeconds: 1
  containers:
    - name: sh
      image: ` + harness.Agnhost + `
      command: [sleep, infinity]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: %s}}]
`

// bad is a class with a parameter of a user's, and a claim of it that cannot be.
const bad = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: %[1]s}
provisioner: efs.csi.aws.com
parameters: {provisioningMode: efs-ap, fileSystemId: %[2]s, directoryPerms: "700", %[3]s}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s, namespace: default}
spec: {accessModes: [%[4]s], storageClassName: %[1]s, resources: {requests: {storage: 1Gi}}}
`

// pods is a cluster with the add-on and a file system.
type pods struct {
	*clustertest.Fixture
	t          *testing.T
	efs        *efs.Client
	fileSystem string
}

// TestFileSystemsOfPods takes volumes that are file systems through their life, as the add-on aws-efs-csi-driver makes
// them.
func TestFileSystemsOfPods(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	testenv.NeedsAll(t, "the side-car of the driver takes minutes to build")
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	f := clustertest.New(t, "filesystems", "1.35")
	p := &pods{Fixture: f, t: t, efs: efs.NewFromConfig(f.Daemon.Config())}
	nodes := slices.Concat(f.RunInstances(1, f.AL2023("1.35"), f.SubnetIDs[0], f.NodeConfig()),
		f.RunInstances(1, f.AL2023("1.35"), f.SubnetIDs[1], f.NodeConfig()))
	p.install()
	p.createFileSystem()
	var names []string
	for _, n := range f.AwaitNodes(nodes...) {
		names = append(names, n.Metadata.Labels["kubernetes.io/hostname"])
	}
	p.until("the add-on is active", func() error {
		var out struct{ Addon struct{ Status string } }
		p.AWS(&out, "eks", "describe-addon", "--cluster-name", p.Cluster, "--addon-name", "aws-efs-csi-driver")
		if out.Addon.Status != "ACTIVE" {
			return fmt.Errorf("it is %s", out.Addon.Status)
		}
		return nil
	})

	// A volume is an access point, and nodes in two zones share it as its user.
	p.Apply(fmt.Sprintf(shared, p.fileSystem))
	for i, name := range []string{"one", "two"} {
		p.Apply(fmt.Sprintf(pod, name, "{kubernetes.io/hostname: "+names[i]+"}", "shared"))
	}
	p.Await("condition=Ready", "pod/one", "pod/two")
	p.sh("one", "echo one > /data/file")
	p.until("the other node sees it", func() error {
		if got, err := p.try("two", "cat /data/file"); err != nil || got != "one" {
			return fmt.Errorf("%q, %w", got, err)
		}
		return nil
	})
	p.sh("two", "echo two >> /data/file")
	got := p.sh("one", "cat /data/file; busybox stat -c %u:%g /data/file /data")
	if want := "one\ntwo\n1000:1000\n1000:1000"; got != want {
		t.Errorf("the file has %q, want %q", got, want)
	}
	directory := p.accessPoint()
	if _, err := os.Stat(filepath.Join(p.root(), directory, "file")); err != nil {
		t.Error(err)
	}

	// Volumes that a user has made are file systems, and directories of them, with TLS or without.
	if err := errors.Join(os.Mkdir(filepath.Join(p.root(), "open"), 0o700),
		os.Chmod(filepath.Join(p.root(), "open"), 0o777)); err != nil { //nolint:gosec // open to others: users of machines
		t.Fatal(err)
	}
	p.static("path", p.fileSystem+":/open", "{}")
	p.static("whole", p.fileSystem, `{encryptInTransit: "false"}`)
	p.Await("condition=Ready", "pod/path", "pod/whole")
	p.sh("path", "echo static > /data/file")
	if got := p.sh("whole", "cat /data/open/file"); got != "static" {
		t.Errorf("the whole file system has %q", got)
	}

	// What cannot be says why, where users look.
	for _, x := range []struct{ name, parameter, mode, says string }{
		{"user", "uid: root", "ReadWriteMany", "Failed to parse invalid uid"},
		{"pattern", `subPathPattern: "${.PVC.uid}"`, "ReadWriteMany", "contains invalid elements"},
		{"range", `gidRangeStart: "7"`, "ReadWriteMany", "Missing gidRangeEnd parameter"},
		{"readers", `uid: "7"`, "ReadOnlyMany", "invalid access mode: MULTI_NODE_READER_ONLY"},
	} {
		p.Apply(fmt.Sprintf(bad, x.name, p.fileSystem, x.parameter, x.mode))
		p.says("PersistentVolumeClaim/"+x.name, x.says)
	}
	p.Apply(fmt.Sprintf(bad, "elsewhere", "fs-0123456789abcdef0", `uid: "7"`, "ReadWriteMany"))
	p.says("PersistentVolumeClaim/elsewhere", "File System does not exist")
	p.static("missing", p.fileSystem+"::fsap-0123456789abcdef0", "{}")
	p.says("Pod/missing", "access denied by server")

	// An access point goes with its claim, and what it has; volumes that a user has made stay.
	p.kubectl("delete", "pod/one", "pod/two", "pod/path", "pod/whole", "pod/missing", "pvc/shared", "pvc/path",
		"--timeout="+eventually.Limit.String())
	p.until("the access point is gone", func() error {
		out, err := p.efs.DescribeAccessPoints(t.Context(), &efs.DescribeAccessPointsInput{FileSystemId: &p.fileSystem})
		if err == nil && len(out.AccessPoints) > 0 {
			err = fmt.Errorf("there is %s", harness.Text(out.AccessPoints))
		}
		return err
	})
	if _, err := os.Stat(filepath.Join(p.root(), directory)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the access point: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(p.root(), "open/file")); string(content) != "static\n" {
		t.Errorf("the volume that a user has made has %q, %v", content, err)
	}
}

// install installs the add-ons, with a role of EKS Pod Identity for the controller.
func (p *pods) install() {
	p.t.Helper()
	p.AWS(nil, "iam", "create-role", "--role-name", "efs", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},
		"Action":["sts:AssumeRole","sts:TagSession"]}]}`)
	p.AWS(nil, "iam", "attach-role-policy", "--role-name", "efs", "--policy-arn",
		"arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy")
	for _, addon := range [][]string{{"eks-pod-identity-agent"}, {"aws-efs-csi-driver", "--configuration-values",
		`{"controller":{"deleteAccessPointRootDir":true,"tags":{"team":"web"}}}`, "--pod-identity-associations",
		"serviceAccount=efs-csi-controller-sa,roleArn=" + clustertest.RoleARN("efs")}} {
		p.AWS(nil, append([]string{"eks", "create-addon", "--cluster-name", p.Cluster, "--addon-name"}, addon...)...)
	}
}

// createFileSystem makes a file system with a mount target in each of the cluster's subnets.
func (p *pods) createFileSystem() {
	p.t.Helper()
	out, err := p.efs.CreateFileSystem(p.t.Context(), &efs.CreateFileSystemInput{CreationToken: aws.String("shared")})
	if err != nil {
		p.t.Fatal(err)
	}
	p.fileSystem = *out.FileSystemId
	for _, subnet := range p.SubnetIDs {
		p.until("there is a mount target", func() error { // once the file system is available
			_, err := p.efs.CreateMountTarget(p.t.Context(), &efs.CreateMountTargetInput{FileSystemId: &p.fileSystem,
				SubnetId: &subnet, SecurityGroups: []string{p.Group}})
			return err
		})
	}
	p.until("the mount targets are available", func() error {
		out, err := p.efs.DescribeMountTargets(p.t.Context(), &efs.DescribeMountTargetsInput{FileSystemId: &p.fileSystem})
		if err != nil {
			return err
		}
		for _, m := range out.MountTargets {
			if m.LifeCycleState != types.LifeCycleStateAvailable {
				return fmt.Errorf("%s is %s", *m.MountTargetId, m.LifeCycleState)
			}
		}
		return nil
	})
}

// root returns the directory of the file system on the host.
func (p *pods) root() string { return filepath.Join(p.Dir, "filesystems", p.fileSystem, "root") }

// accessPoint checks the access point of the claim in EFS, and returns its root directory.
func (p *pods) accessPoint() string {
	p.t.Helper()
	out, err := p.efs.DescribeAccessPoints(p.t.Context(), &efs.DescribeAccessPointsInput{FileSystemId: &p.fileSystem})
	if err != nil {
		p.t.Fatal(err)
	}
	if len(out.AccessPoints) != 1 {
		p.t.Fatalf("the access points are %s, want one", harness.Text(out.AccessPoints))
	}
	point := out.AccessPoints[0]
	tags := make(map[string]string)
	for _, tag := range point.Tags {
		tags[*tag.Key] = *tag.Value
	}
	handle := p.kubectl("get", "pv", "-o", "jsonpath={.items[0].spec.csi.volumeHandle}")
	if want := "efs:" + p.fileSystem + "::" + *point.AccessPointId; handle != want || *point.PosixUser.Uid != 1000 ||
		!strings.HasPrefix(*point.RootDirectory.Path, "/dynamic/default/shared-") ||
		tags["efs.csi.aws.com/cluster"] != "true" || tags["team"] != "web" {
		p.t.Errorf("the volume %s is %s", handle, harness.Text(point))
	}
	return *point.RootDirectory.Path
}

// static makes a volume, with a claim and a pod.
func (p *pods) static(name, handle, attributes string) {
	p.t.Helper()
	p.Apply(fmt.Sprintf(static, name, handle, attributes) + fmt.Sprintf(pod, name, "{}", name))
}

func (p *pods) kubectl(args ...string) string {
	p.t.Helper()
	return strings.TrimSpace(p.Run(p.Config, "kubectl", args...))
}

// try runs a script in a pod.
func (p *pods) try(pod, script string) (string, error) {
	out, errs, err := p.Try(p.Config, "kubectl", "exec", pod, "--", "sh", "-c", script)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs)
	}
	return strings.TrimSpace(out), err
}

// sh runs a script in a pod, which must succeed.
func (p *pods) sh(pod, script string) string {
	p.t.Helper()
	return p.kubectl("exec", pod, "--", "sh", "-c", script)
}

// says waits until an event of an object has a text.
func (p *pods) says(object, text string) {
	p.t.Helper()
	kind, name, _ := strings.Cut(object, "/")
	p.until(object+" says why it cannot be", func() error {
		var events struct{ Items []struct{ Message string } }
		p.JSON(&events, "get", "events", "--field-selector", "involvedObject.kind="+kind+",involvedObject.name="+name)
		for _, e := range events.Items {
			if strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no event says %q: %s", text, harness.Text(events.Items))
	})
}

func (p *pods) until(what string, try func() error) {
	p.t.Helper()
	if err := eventually.Try(200*time.Millisecond, try); err != nil {
		state, _, _ := p.Try(p.Config, "kubectl", "get", "pods,pvc,pv,events", "-A")
		logs, _, _ := p.Try(p.Config, "kubectl", "logs", "-n", "kube-system", "--prefix", "--tail=40", "-l",
			"app.kubernetes.io/name=aws-efs-csi-driver", "--all-containers")
		p.t.Fatalf("%s: %v\n%s\n%s", what, err, state, logs)
	}
}
