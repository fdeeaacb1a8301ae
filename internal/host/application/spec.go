// Package application forwards the requests that come to a listener of an Application Load Balancer, and ends TLS for
// listeners of all load balancers.
//
// A [Listener] is the configuration: rules, target groups, certificates and attributes. A [Server] serves connections
// by it. Its configuration is replaced as a whole while it serves: a request is answered by the configuration that it
// came in by, and its connections stay. The package reads no records and writes nothing. It is part of the process
// "coracle endpoint", which gives it connections, and a way to targets, in the network namespace of a load balancer.
//
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/
package application

import (
	"net/netip"
	"time"

	"github.com/coracle-eks/coracle/internal/outbound"
)

// Listener configures a [Server]. The same records give the same Listener: what is not configured has AWS's default
// in it, except where a comment says otherwise.
type Listener struct {
	// LoadBalancer is the ARN of the load balancer, Log its name in access logs: "app/name/50dc6c495c0c9188".
	LoadBalancer string
	Log          string `json:",omitempty"`
	// AccessLog is set where access logs are enabled, ConnectionLog where connection logs are.
	AccessLog     bool `json:",omitempty"`
	ConnectionLog bool `json:",omitempty"`
	// Port is the port that the client connects to, which X-Forwarded-Port has.
	Port uint16
	// Secret has 32 random bytes of the load balancer, which are the same in all its listeners for as long as it exists:
	// what seals its cookies derives from them.
	Secret []byte
	// TLS is set on an HTTPS listener.
	TLS *TLS `json:",omitempty"`
	// Rules are in order of priority, with the default rule last.
	Rules []Rule
	// Groups are the target groups that rules name.
	Groups []TargetGroup `json:",omitempty"`
	// Attributes are those of the load balancer and of the listener.
	Attributes Attributes
	// Identity signs x-amzn-oidc-data. It is set where a rule has an action authenticate-oidc.
	Identity *Identity `json:",omitempty"`
	// Authenticates is set where a listener of the load balancer has an action authenticate-oidc.
	Authenticates bool `json:",omitempty"`
	// Outbound is the daemon's policy for addresses that users choose: token endpoints are at such.
	Outbound outbound.Policy `json:",omitzero"`
}

// Attributes are the attributes of a load balancer and of its listener that concern requests. Their zero values are
// not AWS's defaults; [DefaultAttributes] returns these.
type Attributes struct {
	Idle         int    // idle_timeout.timeout_seconds
	KeepAlive    int    // client_keep_alive.seconds
	HTTP2        bool   // routing.http2.enabled
	DropInvalid  bool   // routing.http.drop_invalid_header_fields.enabled
	Desync       string // routing.http.desync_mitigation_mode
	PreserveHost bool   // routing.http.preserve_host_header.enabled
	XFF          string // routing.http.xff_header_processing.mode
	XFFPort      bool   // routing.http.xff_client_port.enabled
	TLSHeaders   bool   // routing.http.x_amzn_tls_version_and_cipher_suite.enabled
	// ServerHeader is routing.http.response.server.enabled of the listener.
	ServerHeader bool
	// RequestNames are other names of headers that are added to requests, by their own in canonical form:
	// "X-Amzn-Tls-Version" of routing.http.request.x_amzn_tls_version.header_name.
	RequestNames map[string]string `json:",omitempty"`
	// ResponseHeaders replace headers of answers, by name: "Strict-Transport-Security" of
	// routing.http.response.strict_transport_security.header_value.
	ResponseHeaders map[string]string `json:",omitempty"`
}

// Values of Attributes.Desync.
const (
	DesyncMonitor   = "monitor"
	DesyncDefensive = "defensive"
	DesyncStrictest = "strictest"
)

// Values of Attributes.XFF.
const (
	XFFAppend   = "append"
	XFFPreserve = "preserve"
	XFFRemove   = "remove"
)

// DefaultAttributes returns the attributes of a load balancer, and of a listener, that has just been created.
func DefaultAttributes() Attributes {
	return Attributes{Idle: 60, KeepAlive: 3600, HTTP2: true, Desync: DesyncDefensive, XFF: XFFAppend, ServerHeader: true}
}

// TLS configures the end of TLS of a listener: of an Application, Network or Classic Load Balancer.
type TLS struct {
	// Certificates are those of the listener, the default certificate first.
	Certificates []Certificate
	Policy       SecurityPolicy
	// ALPN is the ALPN policy of a listener of a Network Load Balancer; empty for None. Those of Application Load
	// Balancers follow from Attributes.HTTP2.
	ALPN string `json:",omitempty"`
}

// Values of TLS.ALPN.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-listeners.html#alpn-policies
const (
	ALPNHTTP1Only      = "HTTP1Only"
	ALPNHTTP2Only      = "HTTP2Only"
	ALPNHTTP2Optional  = "HTTP2Optional"
	ALPNHTTP2Preferred = "HTTP2Preferred"
)

// Certificate is a certificate with its private key.
type Certificate struct {
	ARN   string
	Chain string // PEM, the certificate first
	Key   string // PEM
}

// SecurityPolicy is the security policy of a listener, with AWS's names of what it allows.
type SecurityPolicy struct {
	Name      string   // "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09"
	Protocols []string // "TLSv1.2", "TLSv1.3"; all that the program knows if empty
	Ciphers   []string // "ECDHE-RSA-AES128-GCM-SHA256"; those that the program does not know are left out
}

// Rule is a rule of a listener.
type Rule struct {
	// Priority is a number, or "default".
	Priority string
	// Conditions must all hold. Those of the default rule are empty.
	Conditions []Condition `json:",omitempty"`
	// Actions are performed in order: authenticate-oidc, if there is any, then one of the others.
	Actions []Action
	// HostRewrite and URLRewrite are the transforms.
	HostRewrite *Rewrite `json:",omitempty"`
	URLRewrite  *Rewrite `json:",omitempty"`
}

// Condition is a condition of a rule. It holds if one of its values does.
type Condition struct {
	Field  string // one of the Field constants
	Header string `json:",omitempty"` // of http-header
	// Values are patterns of host-header, path-pattern and http-header, methods, or CIDR blocks.
	Values []string `json:",omitempty"`
	// Regex are regular expressions, of host-header, path-pattern and http-header.
	Regex []string     `json:",omitempty"`
	Query []QueryValue `json:",omitempty"` // of query-string
}

// QueryValue is a value of a condition on the query string, of all keys if Key is nil.
type QueryValue struct {
	Key   *string `json:",omitempty"`
	Value string
}

// Values of Condition.Field.
const (
	FieldHost   = "host-header"
	FieldPath   = "path-pattern"
	FieldHeader = "http-header"
	FieldMethod = "http-request-method"
	FieldQuery  = "query-string"
	FieldSource = "source-ip"
)

// Rewrite replaces what a regular expression matches. $1 to $9 stand for its groups.
type Rewrite struct{ Regex, Replace string }

// Action is an action of a rule: one of its members is set.
type Action struct {
	Forward       *Forward       `json:",omitempty"`
	Redirect      *Redirect      `json:",omitempty"`
	FixedResponse *FixedResponse `json:",omitempty"`
	OIDC          *OIDC          `json:",omitempty"`
}

// Forward forwards to one of several target groups.
type Forward struct {
	Groups []WeightedGroup
	// StickySeconds is the duration of target group stickiness; 0 where it is not enabled.
	StickySeconds int `json:",omitempty"`
}

// WeightedGroup is a target group with its share of the requests.
type WeightedGroup struct {
	ID     string // of the TargetGroup
	Weight int
}

// Redirect redirects, with the keywords #{protocol}, #{host}, #{port}, #{path} and #{query} in its parts. An empty
// part is its keyword: "/#{path}" of Path.
type Redirect struct {
	Protocol string  `json:",omitempty"`
	Host     string  `json:",omitempty"`
	Port     string  `json:",omitempty"`
	Path     string  `json:",omitempty"`
	Query    *string `json:",omitempty"` // which may be empty; nil is its keyword
	Status   int     // 301 or 302
}

// FixedResponse answers by itself.
type FixedResponse struct {
	Status      int
	ContentType string `json:",omitempty"`
	Body        string `json:",omitempty"`
}

// OIDC is an action authenticate-oidc.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
type OIDC struct {
	Issuer, AuthorizationEndpoint, TokenEndpoint, UserInfoEndpoint string
	ClientID, ClientSecret                                         string
	Scope                                                          string            // "openid"
	Cookie                                                         string            // SessionCookieName
	Timeout                                                        int64             // SessionTimeout, in seconds
	OnUnauthenticated                                              string            // deny, allow or authenticate
	ExtraParams                                                    map[string]string `json:",omitempty"`
}

// Values of OIDC.OnUnauthenticated.
const (
	UnauthenticatedDeny         = "deny"
	UnauthenticatedAllow        = "allow"
	UnauthenticatedAuthenticate = "authenticate"
)

// Identity is the key that signs what targets are told of an authenticated user.
type Identity struct {
	KeyID string
	Key   string // PEM of an ECDSA key on P-256
}

// TargetGroup is a target group.
type TargetGroup struct {
	// ID names it among those of the listener, and stays the same as long as it exists.
	ID        string
	ARN       string
	Protocol  string // HTTP or HTTPS, whose certificates are not verified
	Version   string // HTTP1, HTTP2 or GRPC
	Algorithm string // round_robin, least_outstanding_requests or weighted_random
	// SlowStart is the time in seconds in which a target gets to its full share; 0 for at once.
	SlowStart int `json:",omitempty"`
	// Stickiness is nil where it is not enabled.
	Stickiness *Stickiness `json:",omitempty"`
	// Targets get requests: those that are healthy, or all if none is. Without any, requests get 503.
	Targets []Target `json:",omitempty"`
	// Keeping are the further addresses whose open requests go on: of targets that are draining or have become
	// unhealthy. Requests to others end.
	Keeping []netip.AddrPort `json:",omitempty"`
}

// Target gets requests.
type Target struct {
	Address netip.AddrPort
	// Since is when it became healthy first, from which its slow start counts. It may be zero without slow start.
	Since time.Time `json:",omitzero"`
}

// Stickiness leads the requests of a client to the same target.
type Stickiness struct {
	// AppCookie is the name of the cookie of type app_cookie; empty for type lb_cookie.
	AppCookie string `json:",omitempty"`
	Seconds   int
}

// Values of TargetGroup.Algorithm.
const (
	RoundRobin       = "round_robin"
	LeastOutstanding = "least_outstanding_requests"
	WeightedRandom   = "weighted_random"
)

// Values of TargetGroup.Version.
const (
	HTTP1 = "HTTP1"
	HTTP2 = "HTTP2"
	GRPC  = "GRPC"
)
