package identity

import (
	"context"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// endsWithCredentials reports whether a token of the purpose is good for as long as the credentials that it was got
// with, as AWS has it for presigned URLs. Otherwise it outlives a session and an access key, and ends with the user or
// role alone: so does an authorization token of ECR, which is good for twelve hours whatever becomes of the key.
//
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
func (p Purpose) endsWithCredentials() bool { return p == LayerURL }

// SealBearer returns a token whose holder is taken for the caller, for one purpose, and unless resource is empty for
// that resource only. What the holder may do is decided by the caller's policies at the time. It is good for the given
// life at most.
func (i *Identity) SealBearer(ctx context.Context, caller wire.Caller, purpose Purpose, resource string,
	life time.Duration) (token string, expires time.Time, err error) {
	session := &Session{Account: caller.Account, PrincipalID: caller.UserID}
	expires = i.now().UTC().Truncate(time.Second).Add(life)
	if from := SessionOf(caller); from != nil {
		*session = *from
		if purpose.endsWithCredentials() && from.Expires.Before(expires) {
			expires = from.Expires
		}
	} else if _, user, ok := strings.Cut(caller.ARN, ":user/"); ok {
		session.User = user[strings.LastIndexByte(user, '/')+1:]
	}
	session.AccessKeyID, session.Secret, session.Expires = caller.AccessKeyID, "", expires
	session.Service, session.Forwarded = "", false // whoever holds the token acts, not the service
	token, err = i.sealer.seal(ctx, purpose, resource, session)
	return token, expires, err
}

// OpenBearer returns whom the holder of a token is taken for, if it was sealed for that purpose and resource. Any other
// token is ErrUnknownAccessKey, as is that of a user or role that is gone; one that is over is ErrExpiredToken.
func (i *Identity) OpenBearer(ctx context.Context, purpose Purpose, resource, token string) (wire.Caller, error) {
	shown := credential{purpose: purpose, resource: resource, text: token}
	who, err := i.resolveBearer(ctx, shown)
	if err != nil {
		return wire.Caller{}, err
	}
	if amazonaccount.Is(who.account) {
		return wire.Caller{}, wire.ErrUnknownAccessKey
	}
	if purpose.endsWithCredentials() && strings.HasPrefix(who.session.AccessKeyID, LongTermKey) {
		if _, err := i.longTerm(ctx, who.session.AccessKeyID); err != nil {
			return wire.Caller{}, err
		}
	}
	if who, err = i.refreshBearer(ctx, shown, who); err != nil {
		return wire.Caller{}, err
	}
	return who.caller, nil
}
