// Package demo takes the guided tour, as a newcomer does.
package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/test/harness"
)

// tour returns the output of the tour, which must succeed.
func tour(t *testing.T, d *harness.Daemon, bundles string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := d.Command(ctx, "", "coracle", "demo", "--data-dir", d.Dir, "--bundles", bundles).CombinedOutput()
	if err != nil {
		t.Fatalf("coracle demo: %v\n%s", err, out)
	}
	return string(out)
}

// TestTheTourEndsWell takes the tour where two versions of Kubernetes are built, and, of all tests, where one is.
func TestTheTourEndsWell(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	all, one := filepath.Join(testenv.Root(), "bin/bundles"), t.TempDir()
	version := "v" + kubernetes.Default
	if err := os.Symlink(filepath.Join(all, version), filepath.Join(one, version)); err != nil {
		t.Fatal(err)
	}
	t.Run("two versions", func(t *testing.T) {
		takeTour(t, d, all, "Server Version: v1.36.", "Successful after")
	})
	t.Run("one version", func(t *testing.T) {
		testenv.NeedsAll(t, "it is a part of the other tour")
		takeTour(t, d, one, "is not built yet, so this tour shows no upgrade")
	})
	var clusters struct{ Clusters []string }
	d.AWS(&clusters, "eks", "list-clusters")
	if len(clusters.Clusters) > 0 {
		t.Errorf("the tour left %v", clusters.Clusters)
	}
	var groups struct {
		LogGroups []struct{ LogGroupName string }
	}
	d.AWS(&groups, "logs", "describe-log-groups")
	if len(groups.LogGroups) > 0 {
		t.Errorf("the tour left %v", groups.LogGroups)
	}
	var roles struct{ Roles []struct{ RoleName string } }
	d.AWS(&roles, "iam", "list-roles")
	for _, r := range roles.Roles {
		if strings.HasPrefix(r.RoleName, "demo-") {
			t.Errorf("the tour left the role %s", r.RoleName)
		}
	}
}

// takeTour takes the tour, and finds in it what each shows, and what this one shows as well.
func takeTour(t *testing.T, d *harness.Daemon, bundles string, also ...string) {
	t.Helper()
	out := tour(t, d, bundles)
	for _, want := range append([]string{
		"arn:aws:iam::111122223333:root",
		"ACTIVE after",
		"configmap/crew",
		"   hands", // the node group, a label of the nodes
		"deployment/lookout",
		`User "arn:aws:sts::111122223333:assumed-role/demo-reader/ishmael" cannot delete resource "configmaps"`,
		"403 delete arn:aws:sts::111122223333:assumed-role/demo-reader/ishmael",
		"aws eks delete-cluster --name demo",
	}, also...) {
		if !strings.Contains(out, want) {
			t.Errorf("the tour does not show %q:\n%s", want, out)
		}
	}
}
