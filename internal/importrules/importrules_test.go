package importrules

import (
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

func TestEveryPackageImportsWhatItMay(t *testing.T) {
	t.Parallel()
	all, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports, Dir: "../.."}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages were found", len(all))
	}
	used := map[string]bool{}
	for _, p := range all {
		dir := strings.TrimPrefix(p.PkgPath, Module)
		rule, found := Of(dir)
		if !found {
			t.Errorf("%s has no rule: give it a line in internal/importrules, and a word in ARCHITECTURE.md", dir)
			continue
		}
		used[rule.Dir] = true
		for path := range p.Imports {
			own, other := ControllerOf(dir), ControllerOf(strings.TrimPrefix(path, Module))
			if own != "" && other != "" && own != other {
				t.Errorf("%s imports the controller %s: move what they share into a package that reconciles nothing",
					dir, other)
			}
			if !rule.Allows(path) {
				t.Errorf("%s imports %s, which %s may not: %s", dir, strings.TrimPrefix(path, Module), rule.Dir,
					rule.Why)
			}
		}
	}
	for _, r := range Rules {
		if !used[r.Dir] {
			t.Errorf("the table has a rule for %s, but no package is there", r.Dir)
		}
	}
}

func TestTheTableMeansWhatItSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir, imports string
		allowed      bool
	}{
		{"internal/aws/eks", "os/exec", false},
		{"internal/aws/eks", "k8s.io/client-go/kubernetes", false},
		{"internal/aws/eks", Module + "internal/controller/controlplane", false},
		{"internal/aws/eks", Module + "internal/daemon", false},
		{"internal/aws/eks", Module + "internal/record", true},
		{"internal/aws/eks", Module + "internal/aws/iam/identity", true},
		{"internal/aws/eks", Module + "internal/aws/eks/addon", true},
		{"internal/aws/eks/addon", Module + "internal/aws/eks/resource", true},
		{"internal/aws/eks/addon", Module + "internal/aws/eks/podidentity", false},
		{"internal/aws/eks/resource", Module + "internal/aws/eks/cluster", false},
		{"internal/aws/wire/sigv4", Module + "internal/store", false},
		{"internal/aws/wire", Module + "internal/aws/wire/model", true},
		{"internal/store", Module + "internal/record", false},
		{"internal/record", Module + "internal/store", true},
		{"internal/aws/ec2", Module + "internal/controller/instance", false},
		{"internal/aws/logs", Module + "internal/controller/logquery", false},
		{"internal/aws/eks", Module + "internal/host/image", false},
		{"internal/aws/ecr", Module + "internal/host/image", true},
		{"internal/kube/authenticator", Module + "internal/controller/controlplane", false},
		{"internal/host/machine", Module + "internal/controller/instance", false},
		{"internal/reconcile", Module + "internal/controller/instance", false},
		{"internal/controller/controlplane", Module + "internal/aws/eks", false},
		{"internal/controller/instance", Module + "internal/aws/ec2", false},
		{"internal/controller/addon", Module + "internal/process", false},
		{"internal/controller/nodegroup", Module + "internal/controller/nodegroup/drain", true},
		{"internal/controller/controlplane", "k8s.io/client-go/kubernetes", true},
		{"cmd/coracle", Module + "internal/aws/eks", false},
		{"internal/daemon", Module + "internal/aws/eks", true},
		{"internal/daemon", Module + "internal/controller/controlplane", true},
		{"internal/daemon", Module + "internal/eventually", false},
		{"internal/store", Module + "internal/eventually", false},
		{"internal/store/storetest", Module + "internal/eventually", true},
	} {
		rule, found := Of(c.dir)
		if !found {
			t.Errorf("%s has no rule", c.dir)
		} else if got := rule.Allows(c.imports); got != c.allowed {
			t.Errorf("%s imports %s: allowed is %v, want %v", c.dir, c.imports, got, c.allowed)
		}
	}
	for dir, want := range map[string]string{
		"internal/controller/nodegroup/drain": "nodegroup", "internal/controller/addon": "addon",
		"internal/controller": "",
		"internal/aws/eks":    "",
	} {
		if got := ControllerOf(dir); got != want {
			t.Errorf("%s belongs to the controller %q, want %q", dir, got, want)
		}
	}
	if _, found := Of("internal/util"); found {
		t.Error("a package nobody planned has a rule")
	}
}
