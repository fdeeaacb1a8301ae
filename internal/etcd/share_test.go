package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/freeport"
)

// withQuota returns the directory of an etcd that is full at a size.
func withQuota(t *testing.T, bytes int) string {
	t.Helper()
	free, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	settings := fmt.Appendf(nil, `{"port":%d,"quotaBytes":%d}`, free, bytes)
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// admit adds the user of a cluster of an account of its own, and returns its client.
func admit(t *testing.T, c *etcd.Connection, cluster string) *clientv3.Client {
	t.Helper()
	return admitOf(t, c, "of-"+cluster, cluster)
}

// admitOf adds the user of a cluster of an account, as the control-plane controller does, and returns its client.
func admitOf(t *testing.T, c *etcd.Connection, account, cluster string) *clientv3.Client {
	t.Helper()
	addUser(t, c, account, cluster)
	pair, err := c.IssueClient("cluster-" + cluster)
	if err != nil {
		t.Fatal(err)
	}
	return as(t, c, pair)
}

func addUser(t *testing.T, c *etcd.Connection, account, cluster string) {
	t.Helper()
	ctx, name, prefix := t.Context(), "cluster-"+cluster, "/clusters/"+cluster+"/"
	if _, err := c.Client.RoleAdd(ctx, name); err != nil {
		t.Fatal(err)
	}
	end := clientv3.GetPrefixRangeEnd(prefix)
	if _, err := c.Client.RoleGrantPermission(ctx, name, prefix, end,
		clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	role := etcd.AccountRole(account)
	if _, err := c.Client.RoleAdd(ctx, role); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		t.Fatal(err)
	}
	for _, each := range []string{role, name} {
		if _, err := c.Client.UserGrantRole(ctx, name, each); err != nil {
			t.Fatal(err)
		}
	}
}

// flood writes until etcd refuses, as kube-apiserver writes, and returns how many bytes it took.
func flood(t *testing.T, client *clientv3.Client, limit int, key func(i int) string) (written int) {
	t.Helper()
	value := strings.Repeat("x", 100_000)
	for i := 0; written < limit; i++ {
		_, err := client.Txn(t.Context()).Then(clientv3.OpPut(key(i), value)).Commit()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return written
		}
		if err != nil {
			t.Fatal(err)
		}
		written += len(value)
	}
	return written
}

func compact(t *testing.T, c *etcd.Connection) {
	t.Helper()
	now, err := c.Client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

func TestAFloodingClusterFillsItsShareOnly(t *testing.T) {
	t.Parallel()
	const quota = 32 << 20
	for name, key := range map[string]func(prefix string, i int) string{
		"many objects":          func(prefix string, i int) string { return fmt.Sprintf("%sevents/%d", prefix, i) },
		"history of one object": func(prefix string, _ int) string { return prefix + "configmaps/a" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			c, _ := serve(t, withQuota(t, quota))
			evil, good := admit(t, c, "evil"), admit(t, c, "good")
			object := func(i int) string { return key("/clusters/evil/", i) }

			if n := flood(t, evil, 2*quota, object); n < quota/8 || n > quota/4 {
				t.Errorf("a cluster wrote %d MiB into a database of %d MiB, want at most a quarter", n>>20, quota>>20)
			}
			if _, err := good.Put(ctx, "/clusters/good/pods/a", "1"); err != nil {
				t.Errorf("another cluster may not write: %v", err)
			}
			if _, err := c.Client.Put(ctx, "/coracle/t/a", "1"); err != nil {
				t.Errorf("the daemon may not write: %v", err)
			}
			if n := flood(t, good, 3<<20, func(i int) string {
				return fmt.Sprintf("/clusters/good/%d",
					i)
			}); n < 3<<20 {
				t.Errorf("another cluster wrote only %d MiB", n>>20)
			}
			if _, err := evil.Get(ctx, "/clusters/evil/", clientv3.WithPrefix(), clientv3.WithKeysOnly()); err != nil {
				t.Errorf("a full cluster may not read: %v", err)
			}
			if _, err := evil.Compact(ctx, 1); !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("a cluster compacts the history of all: %v, want permission denied", err)
			}
			// A deletion as kube-apiserver's.
			deletion, err := evil.Txn(ctx).If(clientv3.Compare(clientv3.Version(object(0)), ">", 0)).
				Then(clientv3.OpDelete("/clusters/evil/", clientv3.WithPrefix())).Else(
				clientv3.OpGet(object(0))).Commit()
			if err != nil || !deletion.Succeeded {
				t.Fatalf("a full cluster may not delete: %v", err)
			}
			_, err = evil.Put(ctx, "/clusters/evil/a", strings.Repeat("x", 100_000))
			if !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Errorf("a cluster whose history is still there writes: %v, want no space", err)
			}
			compact(t, c)
			if n := flood(t, evil, 2<<20, object); n < 2<<20 {
				t.Errorf("after its objects were deleted and compacted a cluster wrote only %d bytes", n)
			}
			alarms, err := c.Client.AlarmList(ctx)
			if err != nil || len(alarms.Alarms) != 0 {
				t.Errorf("alarms are %v, %v", alarms, err)
			}
		})
	}
}

// TestManyClustersOfOneAccountTakeNothingOfOthers makes users of many clusters that write nothing: a cluster of another
// account still writes its part, and a few MiB are left for each of them.
func TestManyClustersOfOneAccountTakeNothingOfOthers(t *testing.T) {
	t.Parallel()
	const quota = 64 << 20
	c, _ := serve(t, withQuota(t, quota))
	good := admit(t, c, "good")
	for i := range 40 {
		addUser(t, c, "evil", fmt.Sprintf("evil-%d", i))
	}
	evil := admitOf(t, c, "evil", "evil-40")
	object := func(cluster string) func(i int) string {
		return func(i int) string { return fmt.Sprintf("/clusters/%s/%d", cluster, i) }
	}
	if n := flood(t, evil, quota, object("evil-40")); n > quota/40 {
		t.Errorf("one of 41 clusters of an account wrote %d KiB", n>>10)
	}
	if n := flood(t, good, quota/5, object("good")); n < quota/5 {
		t.Errorf("the cluster of another account wrote only %d KiB of its quarter of %d", n>>10, quota>>10)
	}
}

func TestARestartKeepsShares(t *testing.T) {
	t.Parallel()
	const quota = 32 << 20
	dir := withQuota(t, quota)
	c, stop := serve(t, dir)
	object := func(i int) string { return fmt.Sprintf("/clusters/evil/%d", i) }
	first := flood(t, admit(t, c, "evil"), 2*quota, object)
	stop()
	c, _ = serve(t, dir)
	pair, err := c.IssueClient("cluster-evil")
	if err != nil {
		t.Fatal(err)
	}
	evil := as(t, c, pair)
	// The database is counted within moments of the start.
	written := 0
	eventually.True(t, "the cluster is full again", func() bool {
		_, err := evil.Put(t.Context(), object(0), strings.Repeat("x", 200_000))
		if err == nil {
			written += 200_000
		}
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
	if written > quota/8 {
		t.Errorf("after a restart a cluster wrote %d MiB beyond the %d MiB that it had", written>>20, first>>20)
	}
}

func TestAFullEtcdIsRepairedAtStart(t *testing.T) {
	t.Parallel()
	dir := withQuota(t, 16<<20)
	c, stop := serve(t, dir)
	n := flood(t, c.Client, 32<<20, func(int) string { return "/coracle/t/a" }) // history
	if n >= 32<<20 {
		t.Fatal("root's history did not fill etcd")
	}
	alarms, err := c.Client.AlarmList(t.Context())
	if err != nil || len(alarms.Alarms) != 1 {
		t.Fatalf("alarms of a full etcd are %v, %v", alarms, err)
	}
	if problem := c.Problem(t.Context()); !strings.Contains(problem, "full") {
		t.Errorf("the problem of a full etcd is %q", problem)
	}
	stop()

	c, _ = serve(t, dir)
	if _, err := c.Client.Put(t.Context(), "/coracle/t/b", "1"); err != nil {
		t.Errorf("after a start etcd may not be written: %v", err)
	}
	if problem := c.Problem(t.Context()); problem != "" {
		t.Errorf("after a start the problem is %q", problem)
	}
	if _, file, err := c.Size(t.Context()); err != nil || file > 4<<20 {
		t.Errorf("after the repair the file has %d bytes, %v", file, err)
	}
}

func TestAFullEtcdIsRepairedWhileItRuns(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, withQuota(t, 16<<20))
	if n := flood(t, c.Client, 32<<20, func(int) string { return "/coracle/t/a" }); n >= 32<<20 {
		t.Fatal("root's history did not fill etcd")
	}
	ctx, cancel := context.WithCancel(t.Context())
	checks := make(chan time.Time)
	ended := make(chan struct{})
	go func() { defer close(ended); etcd.RepairOn(c, ctx, checks) }()
	checks <- time.Time{}
	checks <- time.Time{} // taken when the first is done
	if _, err := c.Client.Put(t.Context(), "/coracle/t/b", "1"); err != nil {
		t.Errorf("after the repair etcd may not be written: %v", err)
	}
	cancel()
	<-ended
}
