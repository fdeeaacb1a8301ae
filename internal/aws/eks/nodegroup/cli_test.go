package nodegroup_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The unmodified aws CLI creates a node group, waits for it, changes it, and waits until it is gone.
func TestNodegroupCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	cli := awsclient.NewCLI(t, w.URL, ekstest.Region, "eks")
	on := func(command string, args ...string) []string {
		return append([]string{command, "--cluster-name", "c", "--nodegroup-name", "ng"}, args...)
	}
	// The controller works while the CLI waits: it makes and unmakes what it finds.
	controller := func(act func(record.Nodegroup) bool) (done func()) {
		var g sync.WaitGroup
		g.Go(func() {
			eventually.True(t, "the node group is as the controller likes it", func() bool {
				row, err := record.Nodegroups(w.Store).Get(t.Context(), record.NodegroupKey(ekstest.Account,
					ekstest.Region, "c", "ng"))
				return err == nil && act(row.Value)
			})
		})
		return g.Wait
	}
	var created struct {
		Nodegroup struct {
			Status         string
			ReleaseVersion string
		}
	}
	cli.Run(&created, on("create-nodegroup", "--node-role", ekstest.NodeRole, "--subnets", "subnet-a", "subnet-b",
		"--scaling-config", "minSize=1,maxSize=3,desiredSize=1",
		"--labels", "team=a", "--taints", "key=dedicated,value=gpu,effect=NO_SCHEDULE", "--update-config",
		"maxUnavailable=2")...)
	if created.Nodegroup.Status != "CREATING" || created.Nodegroup.ReleaseVersion == "" {
		t.Errorf("created %+v", created)
	}
	began := time.Now()
	done := controller(func(record.Nodegroup) bool {
		w.keepGroup("c", "ng", func(*record.NodegroupState) {})
		return true
	})
	cli.Run(nil, "wait", "nodegroup-active", "--cluster-name", "c", "--nodegroup-name", "ng")
	done()
	var update struct {
		Update struct{ ID, Status string }
	}
	cli.Run(&update, on("update-nodegroup-config", "--scaling-config", "desiredSize=2")...)
	cli.Refused("ResourceInUseException", "Cannot VersionUpdate because nodegroup ng currently has update "+
		update.Update.ID+" in progress", on("update-nodegroup-version")...)
	w.endGroupUpdate("c", "ng", types.UpdateStatusSuccessful)
	w.keepGroup("c", "ng", func(*record.NodegroupState) {})
	cli.Run(&update, "describe-update", "--name", "c", "--nodegroup-name", "ng", "--update-id", update.Update.ID)
	if update.Update.Status != "Successful" {
		t.Errorf("update %+v", update)
	}
	var listed struct{ Nodegroups []string }
	if cli.Run(&listed, "list-nodegroups", "--cluster-name", "c"); !slices.Equal(listed.Nodegroups, []string{"ng"}) {
		t.Errorf("listed %v", listed)
	}
	cli.Run(nil, on("delete-nodegroup")...)
	done = controller(func(n record.Nodegroup) bool {
		if n.Deleting {
			w.forget("c", "ng")
		}
		return n.Deleting
	})
	cli.Run(nil, "wait", "nodegroup-deleted", "--cluster-name", "c", "--nodegroup-name", "ng")
	done()
	t.Logf("the waiters waited %s", time.Since(began).Round(time.Millisecond))
	cli.Refused("ResourceNotFoundException", "No node group found for name: ng.", on("describe-nodegroup")...)
}
