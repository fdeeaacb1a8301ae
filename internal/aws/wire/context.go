package wire

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Caller is the principal that signed a request.
type Caller struct {
	Account string // twelve digits
	// arn:aws:iam::111122223333:user/x, arn:aws:sts::111122223333:assumed-role/R/session,
	// arn:aws:iam::111122223333:root
	ARN          string
	UserID       string // AIDA..., AROA...:session, or the account number for root
	AccessKeyID  string
	SessionName  string // the session of an assumed role; else empty
	PrincipalARN string // the IAM user or role whose policies apply (not the session)
	// Service is the AWS service that acts with the credentials, such as cloudformation.amazonaws.com: on behalf of the
	// principal, under a role that was passed to it, or under one of its own. It is empty for everybody else.
	Service string
	// what the Credentials implementation wants its Authorizer to know (session policies, session tags); wire does not
	// look
	Session any
}

// call holds what wire knows of the current request. It travels in the context and is never changed once there.
type call struct {
	caller    Caller
	region    string
	requestID string
	sourceIP  string
	vpcSource *VPCSource // nil outside of VPCs
	userAgent string
	token     string
	secure    bool
	time      time.Time
	authorize Authorizer

	service   *Service
	operation string
	input     any
	answer    *answer // nil: nobody counts
}

// setConnection sets what the condition keys say of an HTTP request: its source address, user agent, and whether it
// uses TLS. Every request that is authorized goes through it, whatever its protocol.
func (c *call) setConnection(r *http.Request) {
	c.userAgent, c.token = r.UserAgent(), r.Header.Get(ClientTokenHeader)
	c.secure = r.TLS != nil || IsInProcess(r.Context()) // never by the URL, which the client writes
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		c.sourceIP = host
	}
	if s, ok := r.Context().Value(vpcSourceKey{}).(VPCSource); ok {
		c.vpcSource = &s
	}
}

// conditions returns the condition keys that every request has.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
func (c *call) conditions() map[string][]string {
	at := c.time
	if at.IsZero() {
		at = time.Now()
	}
	keys := map[string][]string{
		"aws:CurrentTime":     {at.UTC().Format(time.RFC3339)},
		"aws:EpochTime":       {strconv.FormatInt(at.Unix(), 10)},
		"aws:SecureTransport": {strconv.FormatBool(c.secure)},
	}
	if c.vpcSource != nil {
		c.vpcSource.conditions(keys)
	} else if c.sourceIP != "" {
		keys["aws:SourceIp"] = []string{c.sourceIP}
	}
	if c.userAgent != "" {
		keys["aws:UserAgent"] = []string{c.userAgent}
	}
	if c.region != "" {
		keys["aws:RequestedRegion"] = []string{c.region}
	}
	return keys
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// withCall returns ctx with a changed copy of its call.
func withCall(ctx context.Context, change func(*call)) context.Context {
	c := *callFrom(ctx)
	change(&c)
	return context.WithValue(ctx, callKey{}, &c)
}

// NewContext returns a context in which [Authorize] decides about an HTTP request that no [Mux] serves, such as one of
// the registry's protocol, with the same condition keys. caller is whom the credential in the request names, region the
// one that the request is for.
func NewContext(r *http.Request, caller Caller, region string, authorizer Authorizer, now time.Time) context.Context {
	c := &call{caller: caller, region: region, authorize: authorizer, time: now}
	c.setConnection(r)
	return context.WithValue(r.Context(), callKey{}, c)
}

// GlobalConditions returns the condition keys that every request has, for an [Authorizer] and for decisions that do not
// go through [Authorize].
func GlobalConditions(ctx context.Context) map[string][]string { return callFrom(ctx).conditions() }

// CallerFrom returns who signed the request; the zero Caller for an unsigned operation.
func CallerFrom(ctx context.Context) Caller { return callFrom(ctx).caller }

// CalledVia returns the AWS service that makes the request on behalf of a principal, or under a role that was passed to
// it, such as "cloudformation.amazonaws.com"; empty for a request of the principal's own.
func CalledVia(ctx context.Context) string { return callFrom(ctx).caller.Service }

// ClientTokenHeader has the client token of an AWS service whose request is an operation without a parameter for one.
const ClientTokenHeader = "X-Coracle-Client-Token" //nolint:gosec // no credential

// ClientTokenFrom returns the token by which an AWS service finds what an earlier request of its own has made, whose
// answer may have been lost; empty for a request of a principal's own.
func ClientTokenFrom(ctx context.Context) string {
	if CalledVia(ctx) == "" {
		return ""
	}
	return callFrom(ctx).token
}

// CloudFormationPrincipal is the name of CloudFormation as the principal of policies, and in [CalledVia].
const CloudFormationPrincipal = "cloudformation.amazonaws.com"

// IsReservedTag reports whether the key of a tag is for AWS services only.
func IsReservedTag(key string) bool { return len(key) >= 4 && strings.EqualFold(key[:4], "aws:") }

// MaySetTag reports whether the caller may add or remove a tag with that key: one that is not reserved, or one of the
// service that makes the request.
func MaySetTag(ctx context.Context, key string) bool {
	return !IsReservedTag(key) ||
		CalledVia(ctx) == CloudFormationPrincipal && strings.HasPrefix(key, "aws:cloudformation:")
}

// CountTags returns how many of the keys of tags count for the quota of a resource: those that are not reserved.
func CountTags[T any](tags map[string]T) (n int) {
	for key := range tags {
		if !IsReservedTag(key) {
			n++
		}
	}
	return n
}

// RegionFrom returns the region of the credential scope, or the default region of the [Mux] for an unsigned request.
func RegionFrom(ctx context.Context) string { return callFrom(ctx).region }

// RequestIDFrom returns the request id that the response carries.
func RequestIDFrom(ctx context.Context) string { return callFrom(ctx).requestID }

// SourceIPFrom returns the client's address without its port; empty for an in-process client.
func SourceIPFrom(ctx context.Context) string { return callFrom(ctx).sourceIP }

// UserAgentFrom returns the User-Agent header.
func UserAgentFrom(ctx context.Context) string { return callFrom(ctx).userAgent }

// OperationFrom returns the service and the name of the operation in hand; (nil, "") outside a request.
func OperationFrom(ctx context.Context) (*Service, string) {
	c := callFrom(ctx)
	return c.service, c.operation
}

// WithCaller returns a context with that caller, for tests and for work done on someone's behalf.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return withCall(ctx, func(c *call) { c.caller = caller })
}

// WithRegion returns a context with that region.
func WithRegion(ctx context.Context, region string) context.Context {
	return withCall(ctx, func(c *call) { c.region = region })
}

// WithRequestID returns a context with that request id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return withCall(ctx, func(c *call) { c.requestID = id })
}

// WithSourceIP returns a context with that client address.
func WithSourceIP(ctx context.Context, ip string) context.Context {
	return withCall(ctx, func(c *call) { c.sourceIP = ip })
}

// WithUserAgent returns a context with that User-Agent.
func WithUserAgent(ctx context.Context, agent string) context.Context {
	return withCall(ctx, func(c *call) { c.userAgent = agent })
}

// WithAuthorizer returns a context in which [Authorize] asks a.
func WithAuthorizer(ctx context.Context, a Authorizer) context.Context {
	return withCall(ctx, func(c *call) { c.authorize = a })
}

// WithOperation returns a context as inside a request for that operation with that input, for tests of handlers that
// use [Page] or [Idempotent].
func WithOperation(ctx context.Context, service *Service, operation string, input any) context.Context {
	return withCall(ctx, func(c *call) { c.service, c.operation, c.input = service, operation, input })
}
