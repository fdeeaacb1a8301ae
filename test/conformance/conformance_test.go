//go:build linux

package conformance

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// Variables of the environment: the versions whose tests are run, separated by spaces, "all" for all of them, and a
// regular expression for the names of the tests.
const (
	versionsVariable = "CORACLE_CONFORMANCE"
	focusVariable    = "CORACLE_CONFORMANCE_FOCUS"
)

// subset are the tests that "make test-all" runs, in some ten minutes: of everything that Coracle has a part in. The
// rest takes hours.
const subset = `ServiceAccountIssuerDiscovery|Services should (serve a basic endpoint|be able to change the type)|` +
	`DNS should provide DNS for (services|the cluster)|Networking Granular Checks: Pods|Aggregator|` +
	`AdmissionWebhook .* should be able to deny pod|Daemon set .* should run and stop simple daemon|` +
	`StatefulSet .* should perform canary updates|ServiceAccounts should mount|Secrets should be consumable .* volume|` +
	`Certificates API|Kubectl client Guestbook|Container Runtime .* should run with the expected status`

// serial marks the tests that are run one after the other, as certification does.
const serial = "[Serial]"

// TestConformance runs the certified conformance tests of the versions that are asked for.
func TestConformance(t *testing.T) {
	t.Parallel()
	asked := os.Getenv(versionsVariable)
	if asked == "" {
		testenv.NeedsAll(t, `"make conformance" runs all conformance tests of Kubernetes, which takes hours`)
	}
	testenv.NeedsRoot(t)
	focus := os.Getenv(focusVariable)
	versions := strings.Fields(asked)
	switch {
	case asked == "all":
		versions = nil
		for _, v := range kubernetes.Versions() {
			versions = append(versions, v.Minor)
		}
	case asked == "":
		versions, focus = []string{kubernetes.Default}, cmp.Or(focus, subset)
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { // one after the other: each takes the whole machine
			if _, ok := kubernetes.Lookup(version); !ok {
				t.Fatalf("%s: there is no Kubernetes %q", versionsVariable, version)
			}
			run(t, version, focus)
		})
	}
}

// fixture is a cluster with two nodes, and the tests of its version.
type fixture struct {
	*clustertest.Fixture
	t        *testing.T
	version  string
	dir      string // of reports
	programs string // the directory of what is built
}

func run(t *testing.T, version, focus string) {
	t.Helper()
	f := &fixture{t: t, version: version, dir: filepath.Join(testenv.Root(), "bin", "conformance", "v"+version)}
	f.programs = filepath.Join(f.dir, "programs")
	if err := os.MkdirAll(f.programs, 0o755); err != nil {
		t.Fatal(err)
	}
	f.build()
	names, err := readList(f.ask("-list-conformance-tests"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("exceptions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	exceptions, err := readExceptions(text)
	if err != nil {
		t.Fatal(err)
	}
	f.Fixture = clustertest.New(t, "conformance", version)
	nodes := slices.Concat(f.RunInstances(1, f.AL2023(version), f.SubnetIDs[0], f.NodeConfig()),
		f.RunInstances(1, f.AL2023(version), f.SubnetIDs[1], f.NodeConfig()))
	f.Run("", "coracle", "images", "load", "--data-dir", f.Dir, f.imageArchive())
	f.AwaitNodes(nodes...)
	f.Await("condition=Available", "deployment/coredns", "-n", "kube-system")

	selected, err := matching(names, focus)
	if err != nil {
		t.Fatal(err)
	}
	var reports []string
	for _, part := range []struct {
		name  string
		procs int
	}{{"parallel", 4}, {"serial", 1}} {
		if slices.ContainsFunc(selected, func(name string) bool {
			return strings.Contains(name, serial) == (part.name == "serial")
		}) {
			reports = append(reports, f.ginkgo(part.name, part.procs, focus))
		}
	}
	outcomes, err := readReports(reports...)
	if err != nil {
		t.Fatal(err)
	}
	passed, problems, err := compare(names, outcomes, exceptions, focus)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	t.Logf("Kubernetes %s: %d of %d conformance tests passed, %d were looked at; the reports are in %s", version, passed,
		len(names), len(selected), f.dir)
}

// ginkgo runs the conformance tests that match, and returns the report. What they wrote is beside it.
func (f *fixture) ginkgo(part string, procs int, focus string) (report string) {
	f.t.Helper()
	report = filepath.Join(f.dir, "junit_"+part+".xml")
	if err := os.RemoveAll(report); err != nil {
		f.t.Fatal(err)
	}
	// Tokens of the fixture's own kubeconfig last for some minutes.
	kubeconfig := filepath.Join(f.t.TempDir(), "kubeconfig")
	f.AWS(nil, "eks", "update-kubeconfig", "--name", f.Cluster, "--kubeconfig", kubeconfig)
	labels := "Conformance && !Serial"
	if part == "serial" {
		labels = "Conformance && Serial"
	}
	args := []string{fmt.Sprintf("--procs=%d", procs), "--no-color", "--timeout=12h", "--label-filter=" + labels,
		"--junit-report=" + filepath.Base(report), "--output-dir=" + f.dir}
	if focus != "" {
		args = append(args, "--focus="+focus)
	}
	args = append(args, filepath.Join(f.programs, "e2e.test"), "--", "-kubeconfig="+kubeconfig,
		"-provider=skeleton", "-num-nodes=2", "-non-blocking-taints=node-role.kubernetes.io/control-plane")
	cmd := f.Command(f.t.Context(), kubeconfig, filepath.Join(f.programs, "ginkgo"), args...)
	log, err := os.Create(filepath.Join(f.dir, "e2e_"+part+".log"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = "v"+f.version, log, log // where ginkgo finds its own version
	failed := cmd.Run()
	if _, err := os.Stat(report); err != nil {
		f.t.Fatalf("ginkgo made no report: %v, %v; see %s", failed, err, log.Name())
	}
	return report
}

// build builds e2e.test, ginkgo, which runs several tests at a time, and the programs of the images.
func (f *fixture) build() {
	f.t.Helper()
	f.goCommand("test", "-c", "-vet=off", "-ldflags=-w -s", "-o", filepath.Join(f.programs, "e2e.test"),
		"k8s.io/kubernetes/test/e2e")
	for name, path := range programs {
		f.goCommand("build", "-ldflags=-w -s", "-o", filepath.Join(f.programs, name), path)
	}
}

func (f *fixture) goCommand(args ...string) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "go", args...)
	cmd.Dir, cmd.Env = "v"+f.version, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// ask asks e2e.test.
func (f *fixture) ask(flag string) []byte {
	f.t.Helper()
	out, err := exec.CommandContext(f.t.Context(), filepath.Join(f.programs, "e2e.test"), flag).Output()
	if err != nil {
		f.t.Fatalf("e2e.test %s: %v", flag, err)
	}
	return out
}
