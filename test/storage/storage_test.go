//go:build linux

// Package storage runs Kubernetes' own tests of external storage drivers against what the add-ons aws-ebs-csi-driver
// and aws-efs-csi-driver install. What the drivers can do is in testdata.
package storage

import (
	"context"
	"encoding/json"
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
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// version is that of the cluster and of the tests.
const version = "1.35"

// images are those of Kubernetes 1.35 that the tests run: see k8s.io/kubernetes/test/utils/image. All they ask of them
// is a shell and its usual programs, and agnhost of theirs.
var images = []string{"agnhost:2.59", "agnhost:2.55", "busybox:1.37.0-1", "jessie-dnsutils:1.7", "nginx:1.14-4"}

// Tests that are not run: those that stop kubelets want SSH, one pulls images of programs that are not part of
// Kubernetes, and one looks for ext3 among the mounts, where machines have it as ext4.
const (
	labels  = "!Disruptive"
	skipped = `any volume data source|\(ext3\).* should store data`
)

// fixture is a cluster with both add-ons and a file system.
type fixture struct {
	*clustertest.Fixture
	t          *testing.T
	efs        *efs.Client
	fileSystem string
	dir        string // of programs and definitions
}

// TestExternalStorage runs the tests on a cluster with nodes in two zones.
func TestExternalStorage(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	testenv.NeedsAll(t, "Kubernetes' tests of two drivers take an hour")
	testenv.NeedsLoopDevices(t)
	if err := usernamespace.Check(t.TempDir()); err != nil {
		t.Skip("user namespaces:", err)
	}
	f := newFixture(t)
	f.buildSuite()
	f.run("External.Storage.*" + os.Getenv("CORACLE_STORAGE_FOCUS"))
}

// newFixture makes a cluster that is ready for the tests.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: clustertest.New(t, "storage", version), t: t, dir: t.TempDir()}
	f.efs = efs.NewFromConfig(f.Daemon.Config())
	nodes := slices.Concat(f.RunInstances(2, f.AL2023(version), f.SubnetIDs[0], f.NodeConfig()),
		f.RunInstances(1, f.AL2023(version), f.SubnetIDs[1], f.NodeConfig()))
	var references []string
	for _, image := range images {
		references = append(references, "registry.k8s.io/e2e-test-images/"+image)
	}
	f.Run("", "coracle", "images", "load", "--data-dir", f.Dir, harness.ToolsArchive(t, references...))
	// The snapshot-controller of this version is built of what the snapshotter of the EBS CSI driver is built of.
	f.install("snapshot-controller", "--addon-version", "v8.6.0-eksbuild.1")
	f.install("eks-pod-identity-agent")
	for service, addon := range map[string]string{"ebs": "aws-ebs-csi-driver", "efs": "aws-efs-csi-driver"} {
		f.createRole(service)
		f.install(addon, "--pod-identity-associations",
			"serviceAccount="+service+"-csi-controller-sa,roleArn="+clustertest.RoleARN(service))
	}
	f.createFileSystem()
	f.AwaitNodes(nodes...)
	for _, addon := range []string{"snapshot-controller", "aws-ebs-csi-driver", "aws-efs-csi-driver"} {
		eventually.Nil(t, addon+" is active", func() error {
			var out struct{ Addon struct{ Status string } }
			f.AWS(&out, "eks", "describe-addon", "--cluster-name", f.Cluster, "--addon-name", addon)
			if out.Addon.Status != "ACTIVE" {
				return fmt.Errorf("it is %s", out.Addon.Status)
			}
			return nil
		})
	}
	return f
}

// createRole makes a role for EKS Pod Identity, with AWS's policy for the driver of a service.
func (f *fixture) createRole(service string) {
	f.t.Helper()
	f.AWS(nil, "iam", "create-role", "--role-name", service, "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},
		"Action":["sts:AssumeRole","sts:TagSession"]}]}`)
	f.AWS(nil, "iam", "attach-role-policy", "--role-name", service, "--policy-arn",
		"arn:aws:iam::aws:policy/service-role/Amazon"+strings.ToUpper(service)+"CSIDriverPolicy")
}

// install installs an add-on.
func (f *fixture) install(addon string, args ...string) {
	f.t.Helper()
	f.AWS(nil, append([]string{"eks", "create-addon", "--cluster-name", f.Cluster, "--addon-name", addon}, args...)...)
}

// createFileSystem makes a file system with a mount target in each of the cluster's subnets.
func (f *fixture) createFileSystem() {
	f.t.Helper()
	out, err := f.efs.CreateFileSystem(f.t.Context(), &efs.CreateFileSystemInput{CreationToken: aws.String("storage")})
	if err != nil {
		f.t.Fatal(err)
	}
	f.fileSystem = *out.FileSystemId
	for _, subnet := range f.SubnetIDs {
		eventually.Nil(f.t, "create a mount target, once the file system is available", func() error {
			_, err := f.efs.CreateMountTarget(f.t.Context(), &efs.CreateMountTargetInput{FileSystemId: &f.fileSystem,
				SubnetId: &subnet, SecurityGroups: []string{f.Group}})
			return err
		})
	}
	eventually.Nil(f.t, "the mount targets are available", func() error {
		out, err := f.efs.DescribeMountTargets(f.t.Context(), &efs.DescribeMountTargetsInput{FileSystemId: &f.fileSystem})
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

// buildSuite builds the tests, and ginkgo, which runs several at a time.
func (f *fixture) buildSuite() {
	f.t.Helper()
	for _, args := range [][]string{
		{"test", "-c", "-vet=off", "-o", filepath.Join(f.dir, "storage.test"), "."},
		{"build", "-o", filepath.Join(f.dir, "ginkgo"), "github.com/onsi/ginkgo/v2/ginkgo"},
	} {
		cmd := exec.CommandContext(f.t.Context(), "go", args...)
		cmd.Dir, cmd.Env = filepath.Join(testenv.Root(), "test", "storage", "suite"), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			f.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// define writes the definitions of the drivers, and returns the flags that name them.
func (f *fixture) define() (flags []string) {
	f.t.Helper()
	files, err := os.ReadDir("testdata")
	if err != nil {
		f.t.Fatal(err)
	}
	replacer := strings.NewReplacer("DIRECTORY", f.dir, "FILESYSTEM", f.fileSystem, "FORMAT", f.format())
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("testdata", file.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(f.dir, file.Name()), []byte(replacer.Replace(string(text))), 0o600)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return []string{"-storage.testdriver=" + filepath.Join(f.dir, "ebs.yaml"), "-storage.testdriver=" +
		filepath.Join(f.dir, "efs.yaml")}
}

// format returns the file system of EBS volumes of which the tests say none: what EKS has, unless its volumes cannot
// grow here while they are mounted.
func (f *fixture) format() string {
	f.t.Helper()
	const resource = 24 // CAP_SYS_RESOURCE
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		f.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nCapEff:")
	effective, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]), 16, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	if effective&(1<<resource) == 0 {
		return "xfs"
	}
	return "ext4"
}

// report is what ginkgo reports, as far as it is read.
type report struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeText, State     string
		RunTime                 time.Duration
		Failure                 struct {
			Message  string
			Location struct {
				FileName   string
				LineNumber int
			}
		}
	}
}

// run runs the tests that a regular expression names, and fails for each that fails.
func (f *fixture) run(focus string) {
	f.t.Helper()
	// Tokens of the fixture's own kubeconfig last for some minutes.
	kubeconfig := filepath.Join(f.dir, "kubeconfig")
	f.AWS(nil, "eks", "update-kubeconfig", "--name", f.Cluster, "--kubeconfig", kubeconfig)
	args := []string{"--procs=2", "--no-color", "--timeout=100m", "--label-filter=" + labels, "--skip=" + skipped,
		"--focus=" + focus, "--json-report=report.json", "--output-dir=" + f.dir, filepath.Join(f.dir, "storage.test"), "--",
		"-kubeconfig=" + kubeconfig, "-provider=skeleton", "-num-nodes=3"}
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	cmd := f.Command(ctx, kubeconfig, filepath.Join(f.dir, "ginkgo"), append(args, f.define()...)...)
	cmd.Dir = f.dir
	log := filepath.Join(testenv.Root(), "bin", "test", "external-storage.log")
	out, err := os.Create(log)
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	failed := cmd.Run()
	var reports []report
	text, err := os.ReadFile(filepath.Join(f.dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(text, &reports)
	}
	if err != nil {
		f.t.Fatalf("ginkgo made no report: %v, %v; see %s", failed, err, log)
	}
	count := map[string]int{}
	for _, r := range reports {
		for _, s := range r.SpecReports {
			count[s.State]++
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			if !slices.Contains([]string{"passed", "skipped", "pending"}, s.State) {
				f.t.Errorf("%s: %s\n%s:%s: %s", s.State, name, s.Failure.Location.FileName,
					strconv.Itoa(s.Failure.Location.LineNumber), s.Failure.Message)
			}
		}
	}
	f.t.Logf("Kubernetes' tests of external storage: %v; see %s", count, log)
	if failed != nil && !f.t.Failed() {
		f.t.Error(failed)
	}
}
