package kms_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	coracle "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// The grants of a deleted key are read and deleted a part at a time: no account is charged for what that holds.
func TestGrantsOfADeletedKey(t *testing.T) {
	t.Parallel()
	const many, size = 120, 8 << 10
	s, now := storetest.New(t), time.Now()
	key := record.KMSKeyKey(account, region, absent)
	if _, err := record.KMSKeys(s).Create(t.Context(), key, record.KMSKey{Account: account, Region: region, ID: absent,
		State: types.KeyStatePendingDeletion, DeleteAt: now.Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		g := record.KMSGrant{Account: account, Region: region, KeyID: absent, ID: fmt.Sprint(i),
			ContextEquals: map[string]string{"long": strings.Repeat("x", size)}}
		if _, err := record.KMSGrants(s).Create(t.Context(), g.Key(), g); err != nil {
			t.Fatal(err)
		}
	}
	var most int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { most = max(most, bytes); return nil })
	life := coracle.NewLifecycle(coracle.Options{Store: s, Now: func() time.Time { return now }})
	if _, gone, err := life.Reconcile(ctx, key); err != nil || !gone {
		t.Fatalf("gone %t, %v", gone, err)
	}
	if most < size || most > many*size/2 {
		t.Errorf("%d bytes were read at once", most)
	}
	if _, err := record.KMSKeys(s).Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the key: %v", err)
	}
	if n := record.KMSGrants(s).Count(""); n > 0 {
		t.Errorf("%d grants are left", n)
	}
}
