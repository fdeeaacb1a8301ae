// Package identity knows who signs a request and what they may do.
//
// The API layer asks it about each request: [Identity] implements wire.Credentials (whose access key is this?) and
// wire.Authorizer (may they do that?). Package iam changes users, roles and policies; this package reads them, and
// compiles the policies of a principal once for as long as none of their rows changes. A decision takes a few
// microseconds.
//
// Temporary credentials have no row. Their session token is a sealed [Session]: whoever opens it knows the principal,
// the secret, the session policies and tags, and the time it ends. Tokens survive a restart; they end when their role
// or user is deleted, because they hold its unique id.
//
// A caller is established in two ways, which never mix. [Identity.Lookup] finds the secret of an access key, with which
// a signature must verify. [Identity.OpenBearer] opens a token that is a credential by itself, such as a password for a
// registry. Each sealed token has one [Purpose] and opens for no other.
//
// It writes SessionKeys, RoleUses and AccessKeyUses.
package identity

import (
	"context"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Identity answers who and whether. It is safe for concurrent use.
type Identity struct {
	accounts store.Table[record.Account]
	users    store.Table[record.User]
	groups   store.Table[record.Group]
	roles    store.Table[record.Role]
	policies store.Table[record.Policy]
	keys     store.Table[record.AccessKey]
	keyUses  store.Table[record.AccessKeyUse]
	roleUses store.Table[record.RoleUse]
	sealer   *sealer
	now      func() time.Time
	log      *slog.Logger
	bearers  bearers
	uses     uses
	denials  denials
}

var (
	_ wire.Credentials = (*Identity)(nil)
	_ wire.Authorizer  = (*Identity)(nil)
)

// Options adjust New.
type Options struct {
	Now func() time.Time // time.Now unless set
	Log *slog.Logger     // slog.Default() unless set
}

// New returns the identities of a store. The first New on a store makes the key that seals session tokens.
func New(ctx context.Context, s *store.Store, o Options) (*Identity, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	sealer, err := newSealer(ctx, record.SessionKeys(s), o.Now())
	if err != nil {
		return nil, err
	}
	return &Identity{
		accounts: record.Accounts(s), users: record.Users(s), groups: record.Groups(s), roles: record.Roles(s),
		policies: record.Policies(s),
		keys:     record.AccessKeys(s), keyUses: record.AccessKeyUses(s), roleUses: record.RoleUses(s),
		sealer: sealer, now: o.Now, log: o.Log, bearers: newBearers(),
		denials: denials{byAccount: map[string]*lru.Cache[DenialCause, *Denial]{}},
	}, nil
}
