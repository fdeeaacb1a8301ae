//go:build linux

package balancer

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/host/application"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// defaultSSLPolicy is the security policy of listeners without one: of Classic Load Balancers.
const defaultSSLPolicy = "ELBSecurityPolicy-2016-08"

// readTLS returns the end of TLS of a listener; nil where it has none. A certificate that is not there is left out.
func (c *Controller) readTLS(ctx context.Context, b record.LoadBalancer, l record.Listener) (*application.TLS, error) {
	if len(l.Certificates) == 0 {
		return nil, nil
	}
	name := l.SSLPolicy
	if name == "" {
		name = defaultSSLPolicy
	}
	policy, _ := balancing.SecurityPolicyNamed(name)
	secure := &application.TLS{Policy: application.SecurityPolicy{Name: name, Protocols: policy.Protocols,
		Ciphers: policy.Ciphers}}
	if l.ALPNPolicy != "None" {
		secure.ALPN = l.ALPNPolicy
	}
	for i, arn := range l.Certificates {
		if slices.Contains(l.Certificates[:i], arn) {
			continue
		}
		id := arn[strings.LastIndex(arn, "/")+1:]
		row, err := c.materials.Get(ctx, record.CertificateKey(b.Account, b.Region, id))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		chain := string(row.Value.Certificate)
		if !strings.HasSuffix(chain, "\n") {
			chain += "\n"
		}
		secure.Certificates = append(secure.Certificates, application.Certificate{ARN: arn,
			Chain: chain + string(row.Value.Chain), Key: string(row.Value.PrivateKey)})
	}
	return secure, nil
}

// application returns the configuration of a listener of an Application Load Balancer in a zone, without TLS, and after
// what time that changes by itself.
func (c *Controller) application(b record.LoadBalancer, route balancing.Route, zone string, now time.Time) (
	l *application.Listener, after time.Duration) {
	l = &application.Listener{
		LoadBalancer: b.ARN(), Log: "app/" + b.Name + "/" + b.ID, Port: uint16(route.Listener.Port),
		Attributes: applicationAttributes(b, route.Listener), Outbound: c.o.Outbound,
	}
	if b.Application != nil {
		l.Secret = b.Application.Seal
	}
	for _, r := range route.Listener.Rules {
		rule := application.Rule{Priority: strconv.Itoa(int(r.Priority)), Actions: actions(r.Actions)}
		for _, condition := range r.Conditions {
			next := application.Condition{Field: condition.Field, Header: condition.Header, Values: condition.Values,
				Regex: condition.Regex}
			for _, q := range condition.Query {
				value := application.QueryValue{Value: q.Value}
				if q.Key != "" {
					value.Key = &q.Key
				}
				next.Query = append(next.Query, value)
			}
			rule.Conditions = append(rule.Conditions, next)
		}
		if r.HostRewrite != nil {
			rule.HostRewrite = &application.Rewrite{Regex: r.HostRewrite.Regex, Replace: r.HostRewrite.Replace}
		}
		if r.URLRewrite != nil {
			rule.URLRewrite = &application.Rewrite{Regex: r.URLRewrite.Regex, Replace: r.URLRewrite.Replace}
		}
		l.Rules = append(l.Rules, rule)
	}
	l.Authenticates = authenticates(b)
	l.Rules = append(l.Rules, application.Rule{Priority: "default", Actions: actions(route.Listener.Actions)})
	if b.Application != nil && slices.ContainsFunc(l.Rules, func(r application.Rule) bool {
		return slices.ContainsFunc(r.Actions, func(a application.Action) bool { return a.OIDC != nil })
	}) {
		l.Identity = &application.Identity{KeyID: b.Application.SigningKeyID, Key: b.Application.SigningKey}
	}
	for _, g := range route.Groups {
		group, left := applicationGroup(b, g, zone, now)
		l.Groups = append(l.Groups, group)
		if left > 0 && (after == 0 || left < after) {
			after = left
		}
	}
	return l, after
}

// authenticates reports whether a listener of a load balancer logs in users.
func authenticates(b record.LoadBalancer) bool {
	logsIn := func(a record.ListenerAction) bool { return a.OIDC != nil }
	return slices.ContainsFunc(b.Listeners, func(l record.Listener) bool {
		return slices.ContainsFunc(l.Actions, logsIn) || slices.ContainsFunc(l.Rules, func(r record.ListenerRule) bool {
			return slices.ContainsFunc(r.Actions, logsIn)
		})
	})
}

func actions(list []record.ListenerAction) (all []application.Action) {
	for _, a := range list {
		var next application.Action
		switch {
		case a.Type == record.ActionForward:
			next.Forward = &application.Forward{StickySeconds: int(a.Sticky)}
			for _, g := range a.Groups {
				next.Forward.Groups = append(next.Forward.Groups, application.WeightedGroup{ID: g.Name,
					Weight: int(g.Weight)})
			}
		case a.Redirect != nil:
			next.Redirect = &application.Redirect{Protocol: a.Redirect.Protocol, Host: a.Redirect.Host,
				Port: a.Redirect.Port, Path: a.Redirect.Path, Query: &a.Redirect.Query, Status: int(a.Redirect.Status)}
		case a.Fixed != nil:
			next.FixedResponse = &application.FixedResponse{Status: int(a.Fixed.Status),
				ContentType: a.Fixed.ContentType, Body: a.Fixed.Body}
		case a.OIDC != nil:
			o := a.OIDC
			next.OIDC = &application.OIDC{Issuer: o.Issuer, AuthorizationEndpoint: o.AuthorizationEndpoint,
				TokenEndpoint: o.TokenEndpoint, UserInfoEndpoint: o.UserInfoEndpoint, ClientID: o.ClientID,
				ClientSecret: o.ClientSecret, Scope: o.Scope, Cookie: o.Cookie, Timeout: o.SessionTimeout,
				OnUnauthenticated: o.OnUnauthenticated, ExtraParams: o.Parameters}
		}
		all = append(all, next)
	}
	return all
}

// applicationAttributes returns the attributes of a load balancer and its listener. Those that were not set have their
// defaults.
func applicationAttributes(b record.LoadBalancer, l record.Listener) application.Attributes {
	a := application.DefaultAttributes()
	setNumber(&a.Idle, b.Attributes["idle_timeout.timeout_seconds"])
	setNumber(&a.KeepAlive, b.Attributes["client_keep_alive.seconds"])
	a.HTTP2 = b.Attribute("routing.http2.enabled", "true") == "true"
	a.DropInvalid = b.Attribute("routing.http.drop_invalid_header_fields.enabled", "false") == "true"
	a.Desync = b.Attribute("routing.http.desync_mitigation_mode", a.Desync)
	a.PreserveHost = b.Attribute("routing.http.preserve_host_header.enabled", "false") == "true"
	a.XFF = b.Attribute("routing.http.xff_header_processing.mode", a.XFF)
	a.XFFPort = b.Attribute("routing.http.xff_client_port.enabled", "false") == "true"
	a.TLSHeaders = b.Attribute("routing.http.x_amzn_tls_version_and_cipher_suite.enabled", "false") == "true"
	a.ServerHeader = l.Attributes["routing.http.response.server.enabled"] != "false"
	for name, header := range balancing.RequestHeaders() {
		if value := l.Attributes[name]; value != "" {
			if a.RequestNames == nil {
				a.RequestNames = map[string]string{}
			}
			a.RequestNames[header] = value
		}
	}
	for name, header := range balancing.ResponseHeaders() {
		if value := l.Attributes[name]; value != "" {
			if a.ResponseHeaders == nil {
				a.ResponseHeaders = map[string]string{}
			}
			a.ResponseHeaders[header] = value
		}
	}
	return a
}

func setNumber(to *int, text string) {
	if n, err := strconv.Atoi(text); err == nil {
		*to = n
	}
}

// applicationGroup returns a target group as the listeners in a zone have it, and after what time it changes by itself:
// when the deregistration delay of a target has passed.
func applicationGroup(b record.LoadBalancer, g balancing.Group, zone string, now time.Time) (
	group application.TargetGroup, after time.Duration) {
	group = application.TargetGroup{ID: g.Name, ARN: g.ARN(), Protocol: g.Protocol, Version: g.Version,
		Algorithm: g.Attribute("load_balancing.algorithm.type", application.RoundRobin)}
	setNumber(&group.SlowStart, g.Attributes["slow_start.duration_seconds"])
	if g.Attribute("stickiness.enabled", "false") == "true" {
		group.Stickiness = &application.Stickiness{Seconds: 86400}
		kind := g.Attribute("stickiness.type", "lb_cookie")
		if kind == "app_cookie" {
			group.Stickiness.AppCookie = g.Attributes["stickiness.app_cookie.cookie_name"]
		}
		setNumber(&group.Stickiness.Seconds, g.Attributes["stickiness."+kind+".duration_seconds"])
	}
	serving := map[netip.AddrPort]bool{}
	for _, m := range g.Pool.ServingMembers(zone, balancing.CrossZone(b, g.TargetGroup)) {
		if serving[m.Address] {
			continue
		}
		serving[m.Address] = true
		t := application.Target{Address: m.Address}
		if group.SlowStart > 0 {
			t.Since = m.HealthySince
		}
		group.Targets = append(group.Targets, t)
	}
	delay := 300
	setNumber(&delay, g.Attributes["deregistration_delay.timeout_seconds"])
	for _, m := range g.Pool.Members {
		if !m.Address.IsValid() || serving[m.Address] || slices.Contains(group.Keeping, m.Address) {
			continue
		}
		if !m.Deregistered.IsZero() {
			left := m.Deregistered.Add(time.Duration(delay) * time.Second).Sub(now)
			if left <= 0 {
				continue
			}
			if after == 0 || left < after {
				after = left
			}
		}
		group.Keeping = append(group.Keeping, m.Address)
	}
	slices.SortFunc(group.Keeping, netip.AddrPort.Compare)
	return group, after
}
