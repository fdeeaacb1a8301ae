package nodegroup_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/cluster/nodegroup"
)

func TestVersionUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nodegroup.Options{})
	w.create("ng", 3)
	w.web("web", "ng", 6, 1)
	least := w.least("web")
	u := w.ended(w.update("ng", "1.36", false))
	if u.Status != ekstypes.UpdateStatusSuccessful || len(u.Errors) > 0 {
		t.Errorf("the update is %s: %+v", u.Status, u.Errors)
	}
	w.available("web", 6)
	if n := least(); n < 5 {
		t.Errorf("only %d pods served at one time", n)
	}
	if versions, cordoned := w.nodes("ng"); versions["1.36"] != 3 || len(versions) != 1 || len(cordoned) > 0 {
		t.Errorf("nodes by version: %v, cordoned: %v", versions, cordoned)
	}
	if g := w.asg("ng"); aws.ToInt32(g.DesiredCapacity) != 3 || aws.ToInt32(g.MaxSize) != 4 || aws.ToInt32(g.MinSize) != 0 {
		t.Errorf("the group is of %d, %d at most", *g.DesiredCapacity, *g.MaxSize)
	}
	if s := w.state("ng"); s.Roll != nil || len(s.Leaving) > 0 || len(s.Issues) > 0 {
		t.Errorf("the state after it is %+v", s)
	}
	if w.most["ng"] != 1 {
		t.Errorf("%d nodes were drained at once", w.most["ng"])
	}
}
