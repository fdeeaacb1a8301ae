package kmskey_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/controller/kmskey"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

func TestKeysAreDeletedAndRotatedWhenDue(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	keys, materials := record.KMSKeys(s), record.KMSKeyMaterials(s)
	ctx := t.Context()
	past, future := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	all := map[string]record.KMSKey{
		"due":     {State: kmstypes.KeyStatePendingDeletion, DeleteAt: past},
		"waiting": {State: kmstypes.KeyStatePendingDeletion, DeleteAt: future},
		"rotates": {State: kmstypes.KeyStateEnabled, RotationPeriod: 90, RotateAt: past},
		"later":   {State: kmstypes.KeyStateEnabled, RotationPeriod: 90, RotateAt: future},
		"asleep":  {State: kmstypes.KeyStateDisabled, RotationPeriod: 90, RotateAt: past},
	}
	for id, k := range all {
		k.Account, k.Region, k.ID, k.Material, k.MaterialID = "111122223333", "eu-west-1", id, 1, "first"
		if _, err := keys.Create(ctx, k.Key(), k); err != nil {
			t.Fatal(err)
		}
		if _, err := materials.Create(ctx, record.KMSKeyMaterialKey(k.Account, k.Region, id, 1),
			record.KMSKeyMaterial{ID: "first", Secret: make([]byte, 32)}); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]func() error{
		"an alias": func() error {
			_, err := record.KMSAliases(s).Create(ctx, record.KMSAliasKey("111122223333", "eu-west-1", "alias/due"),
				record.KMSAlias{Account: "111122223333", Region: "eu-west-1", Name: "alias/due", KeyID: "due"})
			return err
		},
		"a grant": func() error {
			g := record.KMSGrant{Account: "111122223333", Region: "eu-west-1", KeyID: "due", ID: "g"}
			_, err := record.KMSGrants(s).Create(ctx, g.Key(), g)
			return err
		},
	} {
		if err := row(); err != nil {
			t.Fatal(name, err)
		}
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	controller := kmskey.New(kmskey.Options{Store: s, KMS: kms.NewLifecycle(kms.Options{Store: s})})
	go func() {
		ended <- reconcile.Run(running, slog.New(slog.DiscardHandler), controller.Controllers()...)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})

	key := func(id string) string { return record.KMSKeyKey("111122223333", "eu-west-1", id) }
	eventually.True(t, "the deletion and the rotation that are due", func() bool {
		_, err := keys.Get(ctx, key("due"))
		rotated, _ := keys.Get(ctx, key("rotates"))
		return err != nil && rotated.Value.Material == 2
	})
	for _, left := range []int{
		materials.Count(store.Prefix("111122223333", "eu-west-1", "due")), record.KMSAliases(s).Count(""),
		record.KMSGrants(s).Count(""),
	} {
		if left != 0 {
			t.Errorf("%d records are left of the deleted key", left)
		}
	}
	rotated, err := keys.Get(ctx, key("rotates"))
	if err != nil || rotated.Value.MaterialID == "first" || !rotated.Value.RotateAt.After(future) ||
		materials.Count(store.Prefix("111122223333", "eu-west-1", "rotates")) != 2 {
		t.Errorf("rotated: %+v, %v", rotated.Value, err)
	}
	for _, id := range []string{"waiting", "later", "asleep"} {
		if row, err := keys.Get(ctx, key(id)); err != nil || row.Value.Material != 1 {
			t.Errorf("%s: %+v, %v", id, row.Value, err)
		}
	}
}
