package nodegroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
)

// TestTheControllerMayDieAnywhereInAnUpdate kills the controller at every instruction at which it has just done
// something: in all phases of an update, of one that fails, in scaling in and in a repair. What follows finishes what
// it began, and drains nothing twice.
func TestTheControllerMayDieAnywhereInAnUpdate(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t, nodegroup.Options{DrainTimeout: eventually.Limit})
	mortal, visited := w.mortal(), map[string]bool{}
	dies := func(drain time.Duration, points ...string) {
		t.Helper()
		for _, point := range points {
			visited["nodegroup/"+point] = true
		}
		mortal(drain, points...)
	}

	w.create("ng", 3, repaired)
	w.web("web", "ng", 6, 1)
	least := w.least("web")
	w.halt()
	id := w.update("ng", "1.36", false)
	dies(eventually.Limit, "update-begun", "update-phase-begun", "scaled-up", "cordons-recorded", "suspension-recorded",
		"leaving-recorded", "node-drained", "termination-recorded", "leaving-recorded",
		"node-drained", "termination-recorded", "update-phase-begun", "scaled-down", "update-ended")
	w.start()
	w.succeeded(w.ended(id))
	w.waitForNodes("ng", 4, map[string]int{"1.36": 3})
	w.available("web", 6)
	if n := least(); n < 5 {
		t.Errorf("only %d pods served at one time", n)
	}
	if drained, desired := w.seen("ng"); drained != 1 || desired != 7 {
		t.Errorf("%d nodes were drained at once, %d desired", drained, desired)
	}

	// An update that fails, by the one pod that there is: on a busy machine others would take as long.
	w.scale("web", 0)
	w.pod("stuck", "ng", "example.com/never")
	w.halt()
	id = w.update("ng", "1.35", false)
	dies(2*time.Second, "cordons-recorded", "leaving-recorded", "update-failing", "update-phase-begun", "scaled-down",
		"update-ended")
	w.start()
	w.failed(w.ended(id), ekstypes.ErrorCodePodEvictionFailure, "default/stuck")
	w.until("it is over", func() error {
		if s := w.state("ng"); s.RollingUpdate != nil || len(s.Draining) > 0 {
			return fmt.Errorf("the state is %+v", s)
		}
		return nil
	})
	if _, cordoned := w.nodes("ng"); len(cordoned) > 0 {
		t.Errorf("cordoned: %v", cordoned)
	}

	must(w.kube.CoreV1().Pods("default").Patch(t.Context(), "stuck", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))(t)
	w.scale("web", 6)

	// Scaling in, and a repair.
	w.halt()
	w.desire("ng", 2)
	dies(eventually.Limit, "departure-drained")
	w.start()
	w.serve("ng", 2)
	ill := w.members("ng")[0]
	w.halt()
	w.condition(ill, "AcceleratedHardwareReady", corev1.ConditionFalse, "NvidiaXID13Error", time.Hour)
	dies(eventually.Limit, "reboot-recorded")
	w.condition(ill, "AcceleratedHardwareReady", corev1.ConditionTrue, "AcceleratedHardwareIsReady", 0)
	w.start()
	w.until("it takes pods again", func() error {
		if _, cordoned := w.nodes("ng"); len(cordoned) > 0 || len(w.state("ng").Unhealthy) > 0 {
			return fmt.Errorf("cordoned: %v", cordoned)
		}
		return nil
	})

	for _, point := range crash.Points() {
		if strings.HasPrefix(point, "nodegroup/") && !visited[point] && !slices.Contains(elsewhere, point) {
			t.Errorf("nobody died at %s", point)
		}
	}
}

// elsewhere are the points that TestTheControllerMayDieAfterEachThingItMakes visits.
var elsewhere = []string{
	"nodegroup/access-entry-created", "nodegroup/role-mapped", "nodegroup/instance-profile-created",
	"nodegroup/remote-access-created",
	"nodegroup/launch-template-created", "nodegroup/launch-template-version-created", "nodegroup/scaling-group-created",
	"nodegroup/launch-template-used",
	"nodegroup/resized", "nodegroup/nodes-marked", "nodegroup/scaling-group-emptied", "nodegroup/scaling-group-deleted",
	"nodegroup/something-removed", "nodegroup/rows-left",
}
