// Package backup tests that a cluster comes back from a backup, with the real clients.
package backup

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

func TestAClusterComesBackFromABackup(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	coracle := func(args ...string) string {
		t.Helper()
		return d.Run("", "coracle", append(args, "--data-dir", d.Dir)...)
	}
	d.CreateCluster("ark", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("ark", ekstypes.ClusterStatusActive)
	config := d.Login("ark")
	d.Run(config, "kubectl", "create", "namespace", "before")
	d.Run(config, "kubectl", "-n", "before", "create", "secret", "generic", "s", "--from-literal=a=precious")

	archive := filepath.Join(t.TempDir(), "ark.coracle")
	coracle("backup", archive)
	d.Run(config, "kubectl", "create", "namespace", "after")

	// The worst case: nothing is left but the archive.
	coracle("reset", "--yes")
	if left := d.Processes(); len(left) > 0 {
		t.Fatalf("reset left %v", left)
	}
	coracle("restore", archive)
	d.Serve()

	var names string
	err := eventually.Try(100*time.Millisecond, func() error {
		out, errs, err := d.Try(config, "kubectl", "get", "ns", "-o", "name")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		names = out
		return nil
	})
	if err != nil {
		t.Fatalf("the cluster does not answer after a restore: %v", err)
	}
	if !strings.Contains(names, "namespace/before\n") || strings.Contains(names, "namespace/after\n") {
		t.Errorf("after a restore there are:\n%s", names)
	}
	secret := d.Run(config, "kubectl", "-n", "before", "get", "secret", "s", "-o", "jsonpath={.data.a}")
	if secret != "cHJlY2lvdXM=" {
		t.Errorf("the secret reads %q", secret)
	}
	// It is alive, not only readable: controllers act.
	d.Run(config, "kubectl", "create", "namespace", "new")
	err = eventually.Try(100*time.Millisecond, func() error {
		_, errs, err := d.Try(config, "kubectl", "-n", "new", "get", "serviceaccount", "default")
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
	if err != nil {
		t.Errorf("the controller manager does not act: %v", err)
	}
}
