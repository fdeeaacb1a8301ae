package fargate_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coracle-eks/coracle/internal/controller/fargate"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	rules "github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestControllerProcess runs the controller in a process of its own, which other tests start and kill.
func TestControllerProcess(t *testing.T) {
	endpoint := os.Getenv("MORTAL_ETCD")
	if endpoint == "" {
		t.Skip("runs as a process of other tests")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), client, store.Options{Prefix: os.Getenv("MORTAL_PREFIX")})
	if err != nil {
		t.Fatal(err)
	}
	controller := fargate.New(fargate.Options{
		Store: s, RetryFirst: 100 * time.Millisecond, Machines: amazon{s}, Trusts: amazon{s}.Trusts,
		Webhook: configuration,
		Config: func(_ context.Context, _ record.Cluster, user string, _ ...string) (*rest.Config, error) {
			return clientcmd.BuildConfigFromFlags("", kubeconfigOf(os.Getenv("MORTAL_KUBECONFIGS"), user))
		},
		EC2: func(string, string) fargate.EC2 { return amazon{s} },
		EKS: func(string, string) fargate.EKS { return amazon{s} },
	})
	if err := reconcile.Run(t.Context(), slog.Default(), controller.Controllers()...); err != nil {
		t.Fatal(err)
	}
}

func kubeconfigOf(dir, user string) string {
	return filepath.Join(dir, strings.ReplaceAll(user, ":", "-"))
}

// mortal returns what starts the controller in a process of its own, again and again, to die at one point after the
// other.
func (w *fixture) mortal() (die func(points ...string)) {
	w.t.Helper()
	dir := w.t.TempDir()
	for user, groups := range map[string][]string{rules.SchedulerUser: nil, rules.ManagerUser: nil,
		"eks:cluster-bootstrap": {"system:masters"}} {
		if err := os.WriteFile(kubeconfigOf(dir, user), w.server.Kubeconfig(user, groups...), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return func(points ...string) {
		w.t.Helper()
		for _, point := range points {
			ctx, cancel := context.WithTimeout(w.t.Context(), eventually.Limit)
			mortal := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestControllerProcess$")
			mortal.Env = append(os.Environ(), crash.Environment+"=fargate/"+point, "MORTAL_ETCD="+w.etcd.Endpoints()[0],
				"MORTAL_PREFIX="+w.prefix, "MORTAL_KUBECONFIGS="+dir)
			out, err := mortal.CombinedOutput()
			timedOut := ctx.Err() != nil
			cancel()
			var exit *exec.ExitError
			if timedOut || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				w.t.Fatalf("at %s it did not die: %v\n%s", point, err, out[max(0, len(out)-4000):])
			}
		}
	}
}

// TestCrashPoints kills the controller at every instruction at which it has just done something. What
// follows finishes what it began: no pod has two machines, and nothing is left behind.
func TestCrashPoints(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t)
	w.stop()
	mortal, visited := w.mortal(), map[string]bool{}
	dies := func(points ...string) {
		t.Helper()
		for _, point := range points {
			visited["fargate/"+point] = true
		}
		mortal(points...)
	}
	machines := func(want int) {
		t.Helper()
		if n := len(must(record.Instances(w.store).List(t.Context(), ""))(t)); n != want {
			t.Errorf("%d machines were made, want %d", n, want)
		}
	}

	must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(), func(c *record.Cluster) error {
		c.AuthenticationMode = ekstypes.AuthenticationModeApiAndConfigMap
		return nil
	}))(t)
	p := w.profile("fargate")
	dies("access-entry-created", "role-mapped", "webhook-applied")
	w.start()
	w.becomes(p, ekstypes.FargateProfileStatusActive)
	if n := strings.Count(w.awsAuth(), role); n != 1 {
		t.Errorf("the role is mapped %d times", n)
	}

	w.stop()
	pod := w.pod("fargate", "web")
	dies("capacity-recorded", "logging-reported", "pod-annotated", "subnet-chosen", "machine-launched",
		"machine-recorded", "pod-bound", "binding-recorded")
	w.start()
	w.runs(pod)
	w.tells(pod, "LoggingDisabled: ")
	machines(1)

	// A machine that does not become a node.
	w.stop()
	w.faulty(func(record.FargateMachine) record.Machine {
		return record.Machine{State: ec2types.InstanceStateNameTerminated, Failure: "Server.InternalError"}
	})
	second := w.pod("fargate", "second")
	dies("machine-retired", "node-deleted", "machine-terminated", "capacity-renewed")
	w.faulty(nil)
	w.start()
	w.runs(second)
	w.tells(second, "FailedScheduling: Server.InternalError")

	// One that was launched when the pod was deleted.
	w.stop()
	third := w.pod("fargate", "third")
	dies("machine-launched")
	w.deletePod(third)
	w.start()
	w.until("nothing of it is left", func() error {
		if row := w.row(third); row.UID != "" {
			return errors.New("its row is")
		}
		if n := len(must(record.NetworkInterfaces(w.store).List(t.Context(), ""))(t)); n != 2 {
			return errors.New("its network interface is")
		}
		return nil
	})

	// A pod that a budget keeps is to be patched.
	must(w.kube.PolicyV1().PodDisruptionBudgets("fargate").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &intstr.IntOrString{IntVal: 1},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "second"}}},
	}, metav1.CreateOptions{}))(t)
	w.stop()
	must(record.FargatePods(w.store).Modify(t.Context(), w.row(second).Key(), func(p *record.FargatePod) error {
		p.Patch = &record.FargatePatch{Since: time.Now(), Deadline: time.Now().Add(time.Hour)}
		return nil
	}))(t)
	dies("termination-announced", "eviction-refused")
	w.tells(second, "ScheduledTermination: ")
	if r := w.row(second); r.Patch.Refused == "" {
		t.Errorf("it has %+v", r)
	}

	// A machine that dies under its pod.
	_, row := w.runs(second)
	w.kubelet.Silence(row.NodeName)
	if err := w.endMachine(t.Context(), record.EC2Key(account, region, row.InstanceID), "killed"); err != nil {
		t.Fatal(err)
	}
	dies("ending-recorded", "pod-failed")
	w.start()
	w.until("the pod is gone", func() error {
		_, err := w.kube.CoreV1().Pods("fargate").Get(t.Context(), "second", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.New("it is there")
		}
		return nil
	})

	// A pod that ends, and a profile that is deleted.
	w.until("its row is gone", func() error {
		if row := w.row(second); row.UID != "" {
			return errors.New("it is there")
		}
		return nil
	})
	w.stop()
	w.deletePod(pod)
	w.until("the pod is gone", func() error {
		_, err := w.kube.CoreV1().Pods("fargate").Get(t.Context(), "web", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.New("it is there")
		}
		return nil
	})
	dies("ending-recorded", "node-deleted", "machine-terminated", "pod-row-deleted")
	w.remove(p)
	dies("access-revoked")
	w.start()
	w.gone(p)
	w.empty()
	for _, point := range crash.Points() {
		if strings.HasPrefix(point, "fargate/") && !visited[point] {
			t.Errorf("nobody died at %s", point)
		}
	}
}
