package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// upgrade upgrades a cluster, some time ago.
func upgrade(w *ekstest.Fixture, name, to string, ago time.Duration) {
	w.T.Helper()
	out, err := w.Client.UpdateClusterVersion(w.T.Context(),
		&eks.UpdateClusterVersionInput{Name: &name, Version: &to})
	if err != nil {
		w.T.Fatal(err)
	}
	w.Finish(name, *out.Update.Id, types.UpdateStatusSuccessful)
	key := record.UpdateKey(ekstest.Account, ekstest.Region, name, *out.Update.Id)
	_, err = record.Updates(w.Store).Modify(w.T.Context(), key, func(u *record.Update) error {
		u.CreatedAt = u.CreatedAt.Add(-ago)
		return nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.Ready(name)
}

func on(version string) func(*eks.CreateClusterInput) {
	return func(in *eks.CreateClusterInput) { in.Version = &version }
}

// A cluster returns to the version before its last upgrade, with an update object of its own type.
func TestVersionRollback(t *testing.T) {
	t.Parallel()
	w, ctx := ekstest.New(t), t.Context()
	w.Create("c", on("1.34"))
	upgrade(w, "c", "1.35", time.Hour)
	in := &eks.UpdateClusterVersionInput{
		Name: aws.String("c"), Version: aws.String("1.34"), ClientRequestToken: aws.String("once"),
		RollbackConfig: &types.RollbackConfig{TimeoutMinutes: aws.Int32(120)},
	}
	out, err := w.Client.UpdateClusterVersion(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	platform := ekstest.Params(out.Update)["PlatformVersion"]
	want := map[types.UpdateParamType]string{"Version": "1.34", "PlatformVersion": platform}
	if d := cmp.Diff(want, ekstest.Params(out.Update)); d != "" || out.Update.Type != types.UpdateTypeVersionRollback ||
		out.Update.Status != types.UpdateStatusInProgress {
		t.Errorf("update %+v: %s", out.Update, d)
	}
	if c := w.Describe("c"); aws.ToString(c.Version) != "1.35" || c.Status != types.ClusterStatusUpdating {
		t.Errorf("meanwhile: %s, %s", aws.ToString(c.Version), c.Status)
	}
	w.Finish("c", *out.Update.Id, types.UpdateStatusSuccessful)
	if c := w.Describe("c"); aws.ToString(c.Version) != "1.34" || c.Status != types.ClusterStatusActive {
		t.Errorf("afterwards: %s, %s", aws.ToString(c.Version), c.Status)
	}
	again, err := w.Client.UpdateClusterVersion(ctx, in)
	if err != nil || *again.Update.Id != *out.Update.Id {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	w.Refuses("further back", ekstest.UpdateVersion("c", "1.33"), "InvalidParameterException",
		"Unsupported Kubernetes minor version update from 1.34 to 1.33")
	upgrade(w, "c", "1.35", 0) // and on again
}

// A failed rollback leaves the cluster at the version that serves.
func TestFailedVersionRollback(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("c", on("1.34"))
	upgrade(w, "c", "1.35", time.Hour)
	out, err := w.Client.UpdateClusterVersion(t.Context(),
		&eks.UpdateClusterVersionInput{Name: aws.String("c"), Version: aws.String("1.34")})
	if err != nil {
		t.Fatal(err)
	}
	w.Finish("c", *out.Update.Id, types.UpdateStatusFailed)
	if c := w.Describe("c"); aws.ToString(c.Version) != "1.35" || c.Status != types.ClusterStatusActive {
		t.Errorf("got %s, %s", aws.ToString(c.Version), c.Status)
	}
	if err := ekstest.UpdateVersion("c", "1.34")(t.Context(), w.Client); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestVersionRollbackRefusals(t *testing.T) {
	t.Parallel()
	w := ekstest.New(t)
	w.Create("born", on("1.35"))
	w.Create("late", on("1.34"))
	upgrade(w, "late", "1.35", 8*24*time.Hour)
	w.Create("standard", on("1.33"))
	upgrade(w, "standard", "1.34", time.Hour)
	w.Config(&eks.UpdateClusterConfigInput{Name: aws.String("standard"),
		UpgradePolicy: &types.UpgradePolicyRequest{SupportType: types.SupportTypeStandard}})
	w.Create("nodes", on("1.34"))
	upgrade(w, "nodes", "1.35", time.Hour)
	_, err := w.Client.CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
		ClusterName: aws.String("nodes"), NodegroupName: aws.String("new"), NodeRole: aws.String(ekstest.NodeRole),
		Subnets: []string{"subnet-a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	timeout := func(minutes int32, to string) ekstest.Call {
		return func(ctx context.Context, c *eks.Client) error {
			_, err := c.UpdateClusterVersion(ctx, &eks.UpdateClusterVersionInput{
				Name: aws.String("born"), Version: &to, RollbackConfig: &types.RollbackConfig{TimeoutMinutes: &minutes},
			})
			return err
		}
	}
	w.Refuses("never upgraded", ekstest.UpdateVersion("born", "1.34"), "InvalidParameterException",
		"Unsupported Kubernetes minor version update from 1.35 to 1.34")
	w.Refuses("two back", ekstest.UpdateVersion("late", "1.33"), "InvalidParameterException",
		"Unsupported Kubernetes minor version update from 1.35 to 1.33")
	w.Refuses("too late", ekstest.UpdateVersion("late", "1.34"), "InvalidRequestException",
		"Cluster late can't be rolled back to version 1.34 because it was upgraded more than 7 days ago")
	w.Refuses("extended support", ekstest.UpdateVersion("standard", "1.33"), "InvalidParameterException",
		"Kubernetes version 1.33 is in extended support: set the cluster's upgradePolicy to EXTENDED first")
	w.Refuses("newer nodes", ekstest.UpdateVersion("nodes", "1.34"), "InvalidStateException",
		"Nodegroups new have a newer version than 1.34. Roll them back, or set force to override rollback-blocking "+
			"readiness checks.")
	w.Refuses("short timeout", timeout(119, "1.34"), "InvalidParameterException",
		"rollbackConfig.timeoutMinutes 119 is invalid: it must be between 120 and 10080")
	w.Refuses("an upgrade with a timeout", timeout(120, "1.36"), "InvalidParameterException",
		"rollbackConfig can only be specified for a version rollback")
	_, err = w.Client.UpdateClusterVersion(t.Context(), &eks.UpdateClusterVersionInput{
		Name: aws.String("nodes"), Version: aws.String("1.34"), Force: true,
	})
	if err != nil {
		t.Errorf("newer nodes, with force: %v", err)
	}
}
