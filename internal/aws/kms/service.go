// Package kms serves AWS Key Management Service: symmetric keys, their policies, grants and aliases, and encryption
// with them.
//
// A key is a row (record.KMSKey); each generation of its key material is one more (record.KMSKeyMaterial), which only
// ciphertext.go reads. Rotation adds material and keeps the old: ciphertext names the key and the material that made
// it. Aliases and grants are rows of their own.
//
// Whoever uses a key must be let by its policy, in its own account, too, or by a grant (targets.go, matchgrant.go). The
// policy of a key that nobody gave one lets the account, whose IAM policies then decide.
//
// The [Lifecycle] carries out what is due: it rotates keys, and deletes those whose waiting period has ended.
//
// https://docs.aws.amazon.com/kms/latest/developerguide/overview.html
package kms

import (
	"context"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Service.
type Options struct {
	Store *store.Store
	Now   func() time.Time // time.Now unless set
}

// Service serves the KMS API. It is safe for concurrent use.
type Service struct {
	store     *store.Store
	keys      store.Table[record.KMSKey]
	materials store.Table[record.KMSKeyMaterial]
	aliases   store.Table[record.KMSAlias]
	grants    store.Table[record.KMSGrant]
	named     *identity.Named

	aliasesOf  store.Index[record.KMSAlias] // by keyed
	grantsTo   store.Index[record.KMSGrant] // by granted
	retirables store.Index[record.KMSGrant] // by the principal that may retire them
	now        func() time.Time
}

// New returns the service over the tables of o.Store.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{
		store: o.Store, keys: record.KMSKeys(o.Store), materials: record.KMSKeyMaterials(o.Store),
		aliases: record.KMSAliases(o.Store), grants: record.KMSGrants(o.Store),
		named: identity.NewNamed(o.Store), now: o.Now,
	}
	s.aliasesOf = store.NewIndex(s.aliases, "key", func(a record.KMSAlias) string {
		return record.KMSKeyKey(a.Account, a.Region, a.KeyID)
	})
	s.grantsTo = store.NewIndex(s.grants, "grantee", func(g record.KMSGrant) string {
		return granteeIndex(record.KMSKeyKey(g.Account, g.Region, g.KeyID), g.Grantee)
	})
	s.retirables = store.NewIndex(s.grants, "retirer", func(g record.KMSGrant) string {
		if g.Retirer == "" {
			return ""
		}
		return store.Key(g.Region, g.Retirer)
	})
	return s
}

// granteeIndex returns what the grants of a key to a principal are found by.
func granteeIndex(key, grantee string) string { return key + " " + grantee }

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awskeymanagementservice.html
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.aliasHandlers(),
		s.cryptoHandlers(),
		s.dataKeyHandlers(),
		s.deletionHandlers(),
		s.grantHandlers(),
		s.keyHandlers(),
		s.policyHandlers(),
		s.retireHandlers(),
		s.rotationHandlers(),
		s.tagHandlers(),
	} {
		mux.Register(wire.KMS, handlers...)
	}
}

// place is the account and region of a request.
type place struct{ account, region string }

func placeOf(ctx context.Context) place {
	return place{account: wire.CallerFrom(ctx).Account, region: wire.RegionFrom(ctx)}
}

// timestamp returns the time of now as the API has it.
func (s *Service) timestamp() time.Time { return s.now().UTC().Truncate(time.Millisecond) }
