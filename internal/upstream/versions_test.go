package upstream

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/node"
)

// apart are modules that have to differ: etcd's server in coracle is of another line than the client in CoreDNS, and
// containerd speaks a newer CRI than the kubelet. Of others, no two have a package in common.
var apart = map[string]bool{
	"go.etcd.io/etcd/api/v3": true, "go.etcd.io/etcd/client/pkg/v3": true, "go.etcd.io/etcd/client/v3": true,
	"k8s.io/cri-api": true, "k8s.io/cloud-provider-aws": true, "k8s.io/kubernetes": true,
}

// TestVersionsAreShared keeps a first build short: what coracle, the default version of Kubernetes and the programs of
// nodes have in common is compiled once only if all have one version of it. With -trimpath that is the version that is
// required as well as the one that replaces it, as compiled packages name their files by the former.
func TestVersionsAreShared(t *testing.T) {
	t.Parallel()
	ours, err := os.ReadFile(testenv.Root() + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	v, ok := kubernetes.Lookup(kubernetes.Default)
	if !ok {
		t.Fatal("the default version does not exist")
	}
	versions := map[string]map[string]string{} // by module, by go.mod
	for name, text := range map[string][]byte{
		"coracle": ours, "Kubernetes " + v.Minor: v.Source()["go.mod"], "nodes": node.Source()["go.mod"],
	} {
		mod, err := modfile.Parse(name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		add := func(module, version string) {
			if versions[module] == nil {
				versions[module] = map[string]string{}
			}
			versions[module][name] = version
		}
		for _, r := range mod.Require {
			add(r.Mod.Path, r.Mod.Version)
		}
		for _, r := range mod.Replace {
			if required := versions[r.Old.Path][name]; required != "" {
				add(r.Old.Path, required+" => "+r.New.Version)
			}
		}
	}
	for module, by := range versions {
		distinct := map[string]bool{}
		for _, version := range by {
			distinct[version] = true
		}
		if len(distinct) > 1 && !apart[module] {
			t.Errorf("%s has several versions: %v; make them one in go.mod, kubernetes/source and node/source", module, by)
		}
	}
}

// TestTagsLeaveTheStandardLibraryAlone: with other files of net, all that imports it is compiled again for nodes.
func TestTagsLeaveTheStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	list := func(tags []string) []string {
		cmd := exec.Command("go", "list", "-tags="+strings.Join(tags, ","), "-f", "{{.ImportPath}}: {{.GoFiles}}", "std")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(out), "\n")
	}
	if difference := cmp.Diff(list(nil), list(node.Tags())); difference != "" {
		t.Errorf("the tags %v change the standard library:\n%s", node.Tags(), difference)
	}
}
