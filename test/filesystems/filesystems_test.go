// Package filesystems tests EFS file systems against a running daemon, with the real clients.
package filesystems

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// A file system outlives the daemon's death; backup says that it is left out, restore that it is not there, and reset
// what it deletes.
func TestAFileSystemOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	ctx, client := t.Context(), efs.NewFromConfig(d.Config())
	coracle := func(args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, err := d.Try("", "coracle", append(args, "--data-dir", d.Dir)...)
		if err != nil {
			t.Fatalf("coracle %s: %v\n%s", strings.Join(args, " "), err, stderr)
		}
		return stdout, stderr
	}
	var made struct{ FileSystemId string }
	d.AWS(&made, "efs", "create-file-system", "--tags", "Key=Name,Value=shared")
	id := made.FileSystemId
	await := func(state types.LifeCycleState) {
		t.Helper()
		if err := eventually.Try(100*time.Millisecond, func() error {
			out, err := client.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id})
			if err == nil && out.FileSystems[0].LifeCycleState != state {
				err = fmt.Errorf("it is %s", out.FileSystems[0].LifeCycleState)
			}
			return err
		}); err != nil {
			t.Fatalf("the file system is not %s: %v", state, err)
		}
	}
	await(types.LifeCycleStateAvailable)
	root := filepath.Join(d.Dir, "filesystems", id, "root")
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	subnet := d.Subnets()[0]
	target, err := client.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: &id, SubnetId: &subnet})
	if err != nil {
		t.Fatal(err)
	}

	d.Kill()
	d.Serve()
	await(types.LifeCycleStateAvailable)
	if text, err := os.ReadFile(filepath.Join(root, "file")); err != nil || string(text) != "precious" {
		t.Errorf("after the death of the daemon the file has %q, %v", text, err)
	}
	if out, _ := coracle("status"); !strings.Contains(out, id) || !strings.Contains(out, *target.IpAddress) {
		t.Errorf("status says:\n%s", out)
	}
	archive := filepath.Join(t.TempDir(), "ark.coracle")
	if _, said := coracle("backup", archive); !strings.Contains(said, id) {
		t.Errorf("backup says: %s", said)
	}
	if _, said := coracle("reset", "--yes"); !strings.Contains(said, id) {
		t.Errorf("reset says: %s", said)
	}
	coracle("restore", archive)
	d.Serve()
	client = efs.NewFromConfig(d.Config())
	await(types.LifeCycleStateError)
	if out, _ := coracle("status"); !strings.Contains(out, "its content is not on this host") {
		t.Errorf("status says:\n%s", out)
	}

	// What is not there can be deleted.
	_, err = client.DeleteMountTarget(ctx, &efs.DeleteMountTargetInput{MountTargetId: target.MountTargetId})
	if err != nil {
		t.Fatal(err)
	}
	if err := eventually.Try(100*time.Millisecond, func() error {
		_, err := client.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := eventually.Try(100*time.Millisecond, func() error {
		out, err := client.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{})
		if err == nil && len(out.FileSystems) > 0 {
			err = fmt.Errorf("there is %s", *out.FileSystems[0].FileSystemId)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
