package record

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Types of the actions of listeners and rules, as Elastic Load Balancing v2 has them.
const (
	ActionForward          = "forward"
	ActionRedirect         = "redirect"
	ActionFixedResponse    = "fixed-response"
	ActionAuthenticateOIDC = "authenticate-oidc"
)

// ListenerRule is a rule of a listener of an Application Load Balancer. The default rule is none: it is the default
// actions of the listener.
type ListenerRule struct {
	ID         string // 16 hexadecimal digits
	Priority   int32  // rules are evaluated in its order; unique among the rules of a listener
	Conditions []RuleCondition
	Actions    []ListenerAction
	// HostRewrite and URLRewrite are its transforms.
	HostRewrite *Rewrite          `json:",omitempty"`
	URLRewrite  *Rewrite          `json:",omitempty"`
	Tags        map[string]string `json:",omitempty"`
}

// Rewrite replaces what a regular expression matches.
type Rewrite struct{ Regex, Replace string }

// ApplicationSecrets are what the listeners of an Application Load Balancer need for as long as it exists.
type ApplicationSecrets struct {
	Seal []byte // 32 bytes, from which the keys of its cookies derive
	// SigningKey signs what targets are told of authenticated users: a PEM private key on P-256, with its ID.
	SigningKeyID string
	SigningKey   string
}

// RuleCondition is met where a part of a request has one of the values.
type RuleCondition struct {
	// Field is "host-header", "path-pattern", "http-header", "http-request-method", "query-string" or "source-ip".
	Field  string
	Header string       `json:",omitempty"` // name of the header; of "http-header"
	Values []string     `json:",omitempty"` // with the wildcards * and ? where the field has them
	Regex  []string     `json:",omitempty"` // regular expressions in place of Values
	Query  []QueryValue `json:",omitempty"` // of "query-string"
}

// QueryValue is a parameter of a query string. Without a key it is met by each that has the value.
type QueryValue struct {
	Key   string `json:",omitempty"`
	Value string
}

// ListenerAction is an action of a listener or of a rule of it. The one that answers the request is the last.
type ListenerAction struct {
	Type  string // ActionForward, ...
	Order int32  `json:",omitempty"`
	// Groups are those of ActionForward, and Sticky is for how many seconds a client stays with one of them; 0 for not.
	Groups []WeightedGroup `json:",omitempty"`
	Sticky int32           `json:",omitempty"`
	// BySource is set where all connections of a client go to one of Groups, by its address, at a Network Load Balancer.
	BySource bool `json:",omitempty"`
	// The others are set for the action of their type alone.
	Redirect *RedirectAction      `json:",omitempty"`
	Fixed    *FixedResponseAction `json:",omitempty"`
	OIDC     *OIDCAction          `json:",omitempty"`
}

// WeightedGroup is a target group of a forward action.
type WeightedGroup struct {
	Name   string // of a target group of the same account and region
	Weight int32  // 0 to 999; how many requests it gets beside those of the others
}

// RedirectAction redirects the client. Its texts may have the keywords "#{protocol}", "#{host}", "#{port}", "#{path}"
// and "#{query}".
type RedirectAction struct {
	Status   int32 // 301 or 302
	Protocol string
	Host     string
	Port     string
	Path     string
	Query    string
}

// FixedResponseAction answers a request.
type FixedResponseAction struct {
	Status      int32
	ContentType string `json:",omitempty"`
	Body        string `json:",omitempty"`
}

// OIDCAction authenticates users with their OpenID Connect provider.
type OIDCAction struct {
	Issuer, AuthorizationEndpoint, TokenEndpoint, UserInfoEndpoint string
	ClientID, ClientSecret                                         string
	Scope, Cookie                                                  string
	SessionTimeout                                                 int64             // seconds
	OnUnauthenticated                                              string            // "deny", "allow" or "authenticate"
	Parameters                                                     map[string]string `json:",omitempty"`
}

// DefaultRuleID returns the ID of the listener's default rule.
func (l Listener) DefaultRuleID() string {
	sum := sha256.Sum256([]byte("default rule of " + l.ID))
	return hex.EncodeToString(sum[:8])
}

// TargetGroups returns the names of the target groups to which a listener leads, by itself or by its rules, each once.
func (l Listener) TargetGroups() (all []string) {
	if l.TargetGroup != "" {
		all = append(all, l.TargetGroup)
	}
	actions := slices.Clone(l.Actions)
	for _, r := range l.Rules {
		actions = append(actions, r.Actions...)
	}
	for _, a := range actions {
		for _, g := range a.Groups {
			all = append(all, g.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TargetGroups returns the names of the target groups to which a load balancer leads, each once.
func (b LoadBalancer) TargetGroups() (all []string) {
	for _, l := range b.Listeners {
		all = append(all, l.TargetGroups()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// RuleARN returns the Amazon Resource Name of a rule of a listener.
func (b LoadBalancer) RuleARN(listener, id string) string {
	return LoadBalancingARN(b.Account, b.Region, "listener-rule/"+b.path()+"/"+listener+"/"+id)
}
