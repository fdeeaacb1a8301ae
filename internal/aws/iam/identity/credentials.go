package identity

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/sizedcache"
	"github.com/coracle-eks/coracle/internal/store"
)

// bearer is the holder of one credential. It travels in wire.Caller.Session to the Authorizer.
type bearer struct {
	session  *Session // nil for a long-term key
	role     string   // key of the role, or
	user     string   // key of the user; neither for a root user
	id       string   // unique id that the role or user must still have
	account  string
	caller   wire.Caller
	secret   string // empty for the holder of a bearer token, who signs nothing
	revision int64  // of the row of a long-term key

	shown    credential // what it is remembered by; empty if it is not
	compiled atomic.Pointer[principal]
}

// credential is a credential that a client presents, with the purpose for which it does. Text that is valid for one
// purpose is found for no other.
type credential struct {
	purpose  Purpose
	resource string
	text     string
}

// bearers remembers the bearers of credentials that were used last.
type bearers struct {
	known *sizedcache.Cache[credential, *bearer]
}

// maxBearers is the memory of the bearers that are remembered, in bytes, with the policies of each.
const maxBearers = 64 << 20

func newBearers() bearers { return bearers{sizedcache.New[credential, *bearer](maxBearers)} }

func (b *bearers) get(c credential) *bearer {
	who, _ := b.known.Get(c)
	return who
}

func (b *bearers) remember(c credential, who *bearer) {
	who.shown = c
	b.known.Add(c, who, who.size())
}

// resize accounts for what a bearer has become, if it is still remembered.
func (b *bearers) resize(who *bearer) {
	if known, ok := b.known.Get(who.shown); ok && known == who {
		b.known.Add(who.shown, who, who.size())
	}
}

// size returns about how many bytes a bearer takes. Documents count for each bearer, though several may share them.
func (w *bearer) size() int64 {
	const own = 2 << 10
	size := int64(own + 3*len(w.shown.text)) // a sealed text is longer than the session in it
	if p := w.compiled.Load(); p != nil {
		for _, sources := range [][]policy.Source{p.policies.Identity, p.policies.Boundary, p.policies.Session} {
			for _, s := range sources {
				size += s.Size()
			}
		}
		for key, values := range p.keys {
			size += int64(len(key))
			for _, v := range values {
				size += int64(64 + len(v))
			}
		}
	}
	return size
}

// Lookup implements wire.Credentials. It identifies nobody: whoever calls it must verify a signature with the secret
// that it returns. What proves itself is opened with OpenBearer.
func (i *Identity) Lookup(ctx context.Context, accessKeyID, sessionToken string) (string, wire.Caller, error) {
	var who *bearer
	var err error
	if sessionToken != "" || strings.HasPrefix(accessKeyID, TemporaryKey) {
		who, err = i.temporary(ctx, accessKeyID, sessionToken)
	} else {
		who, err = i.longTerm(ctx, accessKeyID)
	}
	if err != nil {
		return "", wire.Caller{}, err
	}
	return who.secret, who.caller, nil
}

func (i *Identity) longTerm(ctx context.Context, accessKeyID string) (*bearer, error) {
	row, err := i.keys.Get(ctx, record.AccessKeyKey(accessKeyID))
	if errors.Is(err, store.ErrNotFound) || err == nil && (row.Value.Inactive || amazonaccount.Is(row.Value.Account)) {
		return nil, wire.ErrUnknownAccessKey
	}
	if err != nil {
		return nil, err
	}
	shown := credential{purpose: accessKey, text: accessKeyID}
	who := i.bearers.get(shown)
	if who != nil && who.revision == row.Revision {
		return who, nil
	}
	key := row.Value
	who = &bearer{id: key.UserID, account: key.Account, secret: key.Secret, revision: row.Revision}
	who.caller = wire.Caller{Account: key.Account, UserID: key.UserID, AccessKeyID: accessKeyID, Session: who}
	if key.User == "" {
		who.caller.ARN = "arn:aws:iam::" + key.Account + ":root"
	} else {
		who.user = record.UserKey(key.Account, key.User)
		user, err := i.users.Get(ctx, who.user)
		if errors.Is(err, store.ErrNotFound) || err == nil && user.Value.ID != key.UserID {
			return nil, wire.ErrUnknownAccessKey
		}
		if err != nil {
			return nil, err
		}
		who.caller.ARN = user.Value.ARN()
	}
	who.caller.PrincipalARN = who.caller.ARN
	i.bearers.remember(shown, who)
	return who, nil
}

func (i *Identity) temporary(ctx context.Context, accessKeyID, token string) (*bearer, error) {
	shown := credential{purpose: sessionToken, text: token}
	who, err := i.resolveBearer(ctx, shown)
	if err != nil {
		return nil, err
	}
	if who.session.AccessKeyID != accessKeyID {
		return nil, wire.ErrUnknownAccessKey
	}
	// The sessions of EKS's own roles are of Amazon's account.
	if (who.session.Service != "" || amazonaccount.Is(who.account)) && !wire.IsInProcess(ctx) {
		return nil, wire.ErrUnknownAccessKey
	}
	return i.refreshBearer(ctx, shown, who)
}

// resolveBearer returns the bearer of a sealed token, who may have ceased to be one. A token that does not open for its
// purpose is ErrUnknownAccessKey.
func (i *Identity) resolveBearer(ctx context.Context, shown credential) (*bearer, error) {
	if who := i.bearers.get(shown); who != nil {
		return who, nil
	}
	session := &Session{}
	err := i.sealer.open(ctx, shown.purpose, shown.resource, shown.text, session)
	if errors.Is(err, errBadToken) {
		return nil, wire.ErrUnknownAccessKey
	}
	if err != nil {
		return nil, err
	}
	who := newBearer(session)
	i.bearers.remember(shown, who)
	return who, nil
}

// refreshBearer returns the bearer of a sealed token as it is now: ErrExpiredToken after its time, ErrUnknownAccessKey
// when its user or role is gone, or the access key of the caller on whose behalf a service acts.
func (i *Identity) refreshBearer(ctx context.Context, shown credential, who *bearer) (*bearer, error) {
	s := who.session
	if !i.now().Before(s.Expires) {
		return nil, wire.ErrExpiredToken
	}
	if s.Key != "" {
		key, err := i.keys.Get(ctx, record.AccessKeyKey(s.Key))
		if errors.Is(err, store.ErrNotFound) || err == nil && key.Value.Inactive {
			return nil, wire.ErrUnknownAccessKey
		}
		if err != nil {
			return nil, err
		}
	}
	arn, err := i.principalARN(ctx, who)
	if err != nil {
		return nil, err
	}
	if who.caller.PrincipalARN != arn { // first use, or the user's path changed
		fresh := newBearer(s)
		fresh.caller.PrincipalARN = arn
		path := strings.TrimSuffix(strings.TrimPrefix(arn, "arn:aws:iam::"+s.Account+":user"), s.User)
		fresh.caller.ARN = s.sessionARN(path)
		i.bearers.remember(shown, fresh)
		return fresh, nil
	}
	return who, nil
}

func newBearer(s *Session) *bearer {
	who := &bearer{session: s, id: s.PrincipalID, account: s.Account, secret: s.Secret}
	switch {
	case s.Role != "":
		who.role = record.RoleKey(s.Account, s.Role)
	case s.User != "":
		who.user = record.UserKey(s.Account, s.User)
	}
	who.caller = wire.Caller{Account: s.Account, UserID: s.sessionUserID(), AccessKeyID: s.AccessKeyID,
		SessionName: s.Name, Service: s.Service, Session: who}
	return who
}

// principalARN returns the ARN of the user or role behind a session. For one that was deleted, or deleted and created
// again, it returns ErrUnknownAccessKey.
func (i *Identity) principalARN(ctx context.Context, who *bearer) (arn string, err error) {
	var id string
	switch {
	case who.role != "":
		var row store.Row[record.Role]
		row, err = i.roles.Get(ctx, who.role)
		arn, id = row.Value.ARN(), row.Value.ID
	case who.user != "":
		var row store.Row[record.User]
		row, err = i.users.Get(ctx, who.user)
		arn, id = row.Value.ARN(), row.Value.ID
	default:
		_, err = i.accounts.Get(ctx, record.AccountKey(who.account))
		arn, id = "arn:aws:iam::"+who.account+":root", who.account
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && id != who.id {
		return "", wire.ErrUnknownAccessKey
	}
	return arn, err
}

// SessionOf returns the session of a caller; nil for a long-term key.
func SessionOf(caller wire.Caller) *Session {
	if who, ok := caller.Session.(*bearer); ok {
		return who.session
	}
	return nil
}
