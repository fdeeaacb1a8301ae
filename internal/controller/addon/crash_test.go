package addon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// TestMortalAddons runs the engine in a process of its own, which other tests start and kill.
func TestMortalAddons(t *testing.T) {
	endpoint, prefix := os.Getenv("MORTAL_ETCD"), os.Getenv("MORTAL_PREFIX")
	if endpoint == "" {
		t.Skip("runs as a process of other tests")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: eventually.Limit})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), client, store.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	e := New(Options{Store: s, Config: func(context.Context, record.Cluster, string, ...string) (*rest.Config, error) {
		return clientcmd.BuildConfigFromFlags("", os.Getenv("MORTAL_KUBECONFIG"))
	}}).engine
	e.render = renderTestAddon
	if err := reconcile.Run(t.Context(), slog.Default(), e.controller()); err != nil {
		t.Fatal(err)
	}
}

// mortal gives back what starts the engine in a process of its own, again and again, to die at one point after the
// other.
func (w *fixture) mortal(visited map[string]bool) (die func(points ...string)) {
	w.Helper()
	kubeconfig := filepath.Join(w.TempDir(), "kubeconfig")
	w.must(os.WriteFile(kubeconfig, w.server.Kubeconfig(User), 0o600))
	etcd := storetest.Client(w).Endpoints()[0]
	return func(points ...string) {
		w.Helper()
		for _, point := range points {
			visited["addon/"+point] = true
			ctx, cancel := context.WithTimeout(w.Context(), eventually.Limit)
			mortal := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMortalAddons$")
			mortal.Env = append(os.Environ(), crash.Environment+"=addon/"+point, "MORTAL_ETCD="+etcd, "MORTAL_PREFIX="+
				w.prefix, "MORTAL_KUBECONFIG="+kubeconfig)
			out, err := mortal.CombinedOutput()
			timedOut := ctx.Err() != nil
			cancel()
			var exit *exec.ExitError
			if timedOut || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				w.Fatalf("at %s it did not die: %v\n%s", point, err, out[max(0, len(out)-4000):])
			}
		}
	}
}

// TestTheEngineMayDieAnywhere kills the engine at every instruction at which it has just done something. What follows
// finishes what it began, and an add-on is never called ACTIVE, nor its update Successful, while its objects are half
// old and half new.
func TestTheEngineMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t, Options{}, 1)
	visited := map[string]bool{}
	die := w.mortal(visited)
	w.stop()

	w.create("agent", record.AddonConfig{Version: "v1"})
	die("applying-recorded", "object-applied", "objects-applied", "configuration-recorded")
	w.start()
	w.becomes("agent", ekstypes.AddonStatusActive)
	w.stop()

	whole := func(version string) {
		t.Helper()
		role, err := w.kube.RbacV1().ClusterRoles().Get(t.Context(), "agent", metav1.GetOptions{})
		w.must(err)
		_, old := w.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "agent-old", metav1.GetOptions{})
		image := w.ds("agent").Spec.Template.Spec.Containers[0].Image
		if new := version == "v2"; image != "registry/agent:"+version[1:] || slices.Contains(role.Rules[0].Verbs,
			"watch") != new || (old != nil) != new {
			t.Errorf("%s has image %s, rules %v, and %v", version, image, role.Rules, old)
		}
	}
	for _, version := range []string{"v2", "v1"} {
		u := w.update("agent", ekstypes.ResolveConflictsNone, func(c *record.AddonConfig) { c.Version = version })
		die("applying-recorded", "object-applied")
		if status, _ := w.status("agent"); status != ekstypes.AddonStatusUpdating {
			t.Errorf("half old, half new, it is %s", status)
		}
		die("objects-applied")
		if version == "v2" {
			die("object-pruned")
		}
		die("configuration-recorded", "update-ended")
		w.start()
		if u := w.ended(u); u.Status != ekstypes.UpdateStatusSuccessful {
			t.Errorf("%+v", u)
		}
		w.becomes("agent", ekstypes.AddonStatusActive)
		whole(version)
		w.stop()
	}

	w.edit("agent", "kubectl-edit", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "mine" })
	die("object-taken-back")
	w.start()
	eventually.Nil(w, "it is taken back", func() error {
		if image := w.ds("agent").Spec.Template.Spec.Containers[0].Image; image != "registry/agent:1" {
			return errors.New(image)
		}
		return nil
	})
	w.becomes("agent", ekstypes.AddonStatusActive)
	w.stop()

	w.delete("agent", true)
	die("object-given-up", "rows-left")
	w.start()
	w.gone("agent")
	w.ds("agent")
	w.create("agent", record.AddonConfig{Version: "v1"})
	w.becomes("agent", ekstypes.AddonStatusActive)
	w.stop()
	w.delete("agent", false)
	die("object-deleted")
	w.start()
	w.gone("agent")

	for _, point := range crash.Points() {
		if strings.HasPrefix(point, "addon/") && !visited[point] {
			t.Errorf("nobody died at %s", point)
		}
	}
}
