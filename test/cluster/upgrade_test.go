package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestAnUpgradeThatDoesNotComeUpIsTakenBack upgrades to a version whose API server does not start.
func TestAnUpgradeThatDoesNotComeUpIsTakenBack(t *testing.T) {
	t.Parallel()
	bundles := t.TempDir()
	if err := os.Symlink(filepath.Join(testenv.Root(), "bin", "bundles", "v1.35"),
		filepath.Join(bundles, "v1.35")); err != nil {
		t.Fatal(err)
	}
	real136 := filepath.Join(testenv.Root(), "bin", "bundles", "v1.36")
	files, err := os.ReadDir(real136)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(bundles, "v1.36")
	if err := os.Mkdir(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // what marks the bundle as current stays; the program itself is broken
		if f.Name() != "kube" && f.Type().IsRegular() {
			if err := os.Symlink(filepath.Join(real136, f.Name()), filepath.Join(broken, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(broken, "kube"),
		[]byte("#!/bin/sh\necho this version is broken >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	d := harness.Start(t, "CORACLE_BUNDLES="+bundles)
	d.CreateCluster("old", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("old", ekstypes.ClusterStatusActive)
	config := d.Login("old")
	d.Run(config, "kubectl", "create", "configmap", "kept")

	client := eks.NewFromConfig(d.Config())
	out, err := client.UpdateClusterVersion(t.Context(), &eks.UpdateClusterVersionInput{Name: aws.String("old"),
		Version: aws.String("1.36")})
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.UpdateClusterVersion(t.Context(), &eks.UpdateClusterVersionInput{Name: aws.String("old"),
		Version: aws.String("1.36")})
	var inUse *ekstypes.ResourceInUseException
	if !errors.As(err, &inUse) {
		t.Errorf("a second update at once: %s %v", harness.Text(again), err)
	}
	cluster := d.AwaitStatus("old", ekstypes.ClusterStatusActive)
	if *cluster.Version != "1.35" {
		t.Errorf("after a failed update the cluster has version %s", *cluster.Version)
	}
	update, err := client.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{Name: aws.String("old"),
		UpdateId: out.Update.Id})
	if err != nil {
		t.Fatal(err)
	}
	if update.Update.Status != ekstypes.UpdateStatusFailed || len(update.Update.Errors) == 0 ||
		!strings.Contains(*update.Update.Errors[0].ErrorMessage, "kube-apiserver") {
		t.Errorf("the failed update says %s", harness.Text(update.Update))
	}
	if v := serverVersion(t, d, config); !strings.HasPrefix(v, "v1.35.") {
		t.Errorf("the server is %s", v)
	}
	d.Run(config, "kubectl", "get", "configmap", "kept")
}
