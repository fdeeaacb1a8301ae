//go:build linux

package podidentityagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/eksauth"
	"github.com/aws/aws-sdk-go-v2/service/eksauth/types"
	"github.com/aws/smithy-go"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// Times of credentials in memory; upstream's.
const (
	leastLeft     = 15 * time.Second // credentials that are good for less are not given out
	renewInterval = time.Minute      // how often those are looked for that are to be renewed
	retryInterval = time.Minute      // before credentials that could not be renewed are tried again
	retryJitter   = time.Minute      // which is added to it
	renewTime     = time.Minute      // for the renewal of one

	// passedOn and passedOnBurst limit the requests of pods that are passed on to EKS Auth, per second.
	passedOn, passedOnBurst = 50, 500
	// ofPod and ofPodBurst are the part of it that the requests of one address may have, sources the number of addresses
	// that are remembered: a node has fewer pods.
	ofPod, ofPodBurst, sources = 5, 50, 4096
)

// auth is EKS Auth.
type auth interface {
	AssumeRoleForPodIdentity(context.Context, *eksauth.AssumeRoleForPodIdentityInput, ...func(*eksauth.Options)) (
		*eksauth.AssumeRoleForPodIdentityOutput, error)
}

type agentOptions struct {
	cluster string
	auth    auth
	log     *slog.Logger
	metrics *metrics
	// renewal is the longest time before credentials are renewed, size the number of them; nothing is kept if one is 0.
	renewal  time.Duration
	size     int
	renewals int // per second
}

// agent gets credentials for tokens, keeps them, and renews them before they expire.
type agent struct {
	o       agentOptions
	now     func() time.Time
	kept    *lru.Cache[string, kept] // by token; nil when nothing is kept
	passing *rate.Limiter
	sources *lru.Cache[string, *rate.Limiter] // by the address of a pod
	renewed *rate.Limiter
	calls   singleflight.Group
}

// kept are credentials in memory.
type kept struct {
	*credentials
	renewAt time.Time
}

func newAgent(o agentOptions) *agent {
	a := &agent{o: o, now: time.Now, passing: rate.NewLimiter(passedOn, passedOnBurst),
		renewed: rate.NewLimiter(rate.Limit(max(o.renewals, 1)), max(o.renewals, 1))}
	a.sources, _ = lru.New[string, *rate.Limiter](sources) // fails for sizes below 1 alone
	if o.size > 0 && o.renewal > 0 {
		a.kept, _ = lru.New[string, kept](o.size) // fails for sizes below 1 alone
	}
	return a
}

// credentialsOf returns the credentials for a token, from memory if they are there. Requests for one token at the same
// time are one request of EKS Auth.
func (a *agent) credentialsOf(ctx context.Context, source, token string) (*credentials, error) {
	if a.kept != nil {
		if k, ok := a.kept.Get(token); ok && k.Expiration.Sub(a.now()) > leastLeft {
			return k.credentials, nil
		}
	}
	result := a.calls.DoChan(token, func() (any, error) {
		// A token is verified by EKS Auth only: a pod that makes up tokens takes nothing from the others of its node.
		if !a.sourceOf(source).Allow() || !a.passing.Allow() {
			return nil, &refusal{http.StatusTooManyRequests, "Too Many Requests"}
		}
		a.o.metrics.cache.WithLabelValues("miss").Inc()
		return a.request(context.WithoutCancel(ctx), token)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*credentials), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sourceOf returns the limiter of an address.
func (a *agent) sourceOf(address string) *rate.Limiter {
	limiter := rate.NewLimiter(ofPod, ofPodBurst)
	if known, ok, _ := a.sources.PeekOrAdd(address, limiter); ok {
		a.sources.Get(address) // it is in use
		return known
	}
	return limiter
}

// request asks EKS Auth for the credentials for a token, and keeps them.
func (a *agent) request(ctx context.Context, token string) (*credentials, error) {
	out, err := a.o.auth.AssumeRoleForPodIdentity(ctx, &eksauth.AssumeRoleForPodIdentityInput{
		ClusterName: &a.o.cluster, Token: &token})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch credentials from EKS Auth: %w", err)
	}
	if out.Credentials == nil || out.AssumedRoleUser == nil {
		return nil, errors.New("invalid response from server: credentials or assumed role empty")
	}
	role, err := arn.Parse(*out.AssumedRoleUser.Arn)
	if err != nil {
		return nil, fmt.Errorf("the ARN of the assumed role: %w", err)
	}
	c := &credentials{AccessKeyID: *out.Credentials.AccessKeyId, SecretAccessKey: *out.Credentials.SecretAccessKey,
		Token: *out.Credentials.SessionToken, AccountID: role.AccountID, Expiration: *out.Credentials.Expiration}
	left := c.Expiration.Sub(a.now())
	if left <= leastLeft {
		return nil, fmt.Errorf("fetched credentials are expired or will expire within the next %.0f seconds",
			left.Seconds())
	}
	if a.kept != nil {
		a.kept.Add(token, kept{c, a.now().Add(min(left, a.o.renewal))})
	}
	a.o.log.Info("fetched credentials from EKS Auth", "role", *out.AssumedRoleUser.Arn)
	return c, nil
}

// renewUntilDone renews credentials until the context ends.
func (a *agent) renewUntilDone(ctx context.Context) error {
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.renew(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// renew renews the credentials whose time has come, and drops those that are of no use. While EKS Auth is away, those
// that are good still are kept.
func (a *agent) renew(ctx context.Context) {
	if a.kept == nil {
		return
	}
	for _, token := range a.kept.Keys() {
		k, ok := a.kept.Peek(token)
		if !ok || a.now().Before(k.renewAt) {
			continue
		}
		if checkToken(token, a.now()) != nil || a.renewed.Wait(ctx) != nil {
			// A token that has expired gets no more credentials; its pod has another one.
			a.dropExpired(token, k)
			continue
		}
		call, cancel := context.WithTimeout(ctx, renewTime)
		_, err := a.request(call, token)
		cancel()
		var api smithy.APIError
		switch {
		case err == nil:
			a.o.metrics.cache.WithLabelValues("hit").Inc()
		case isFinal(err):
			errors.As(err, &api)
			a.o.metrics.errors.WithLabelValues("NonRecoverable", api.ErrorCode()).Inc()
			a.o.log.Info("credentials are dropped", "error", err)
			a.kept.Remove(token)
		default:
			code := "Unknown"
			if errors.As(err, &api) {
				code = api.ErrorCode()
			}
			a.o.metrics.errors.WithLabelValues("Recoverable", code).Inc()
			a.o.log.Info("credentials cannot be renewed now, and are kept", "until", k.Expiration, "error", err)
			if !a.dropExpired(token, k) {
				k.renewAt = a.now().Add(retryInterval + rand.N(retryJitter))
				a.kept.Add(token, k)
			}
		}
	}
}

// dropExpired drops credentials that are not given out any more.
func (a *agent) dropExpired(token string, k kept) bool {
	if k.Expiration.Sub(a.now()) > leastLeft {
		return false
	}
	a.o.metrics.cache.WithLabelValues("evicted").Inc()
	a.kept.Remove(token)
	return true
}

// isFinal reports whether EKS Auth will not give credentials for the token again.
func isFinal(err error) bool {
	var (
		missing *types.ResourceNotFoundException
		expired *types.ExpiredTokenException
		invalid *types.InvalidTokenException
		denied  *types.AccessDeniedException
	)
	return errors.As(err, &missing) || errors.As(err, &expired) || errors.As(err, &invalid) || errors.As(err, &denied)
}
