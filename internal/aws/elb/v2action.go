package elb

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

func invalidAction(format string, args ...any) error {
	return wire.Errorf("InvalidLoadBalancerAction", format, args...)
}

// maxActions is the quota of the actions of a rule.
const maxActions = 2

// parseActions returns the actions of a listener or of a rule of it that a request describes. Those that there were
// before tell client secrets that the request leaves out.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Action.html
func (s V2) parseActions(c *resource.Change, b record.LoadBalancer, l record.Listener, list []types.Action,
	before []record.ListenerAction) (all []record.ListenerAction, err error) {
	most := maxActions
	if b.Kind == record.NetworkLoadBalancer {
		most = 1
	}
	switch {
	case len(list) == 0:
		return nil, invalid("At least one action must be specified")
	case len(list) > most:
		return nil, wire.Errorf("TooManyActions", "The maximum number of actions, %d, was exceeded", most)
	}
	for _, in := range list {
		a, err := s.parseAction(c, b, l, in, before)
		if err != nil {
			return nil, err
		}
		if a.Order = aws.ToInt32(in.Order); in.Order != nil {
			if err := checkRange("Action order", a.Order, 1, maxPriority); err != nil {
				return nil, err
			}
		}
		all = append(all, a)
	}
	if len(all) > 1 {
		if all[0].Order == 0 || all[1].Order == 0 {
			return nil, invalid("An order must be specified for each of several actions")
		}
		if all[0].Order == all[1].Order {
			return nil, invalid("The order of each action must be unique")
		}
		slices.SortFunc(all, func(x, y record.ListenerAction) int { return cmp.Compare(x.Order, y.Order) })
	}
	for i, a := range all {
		if last := i == len(all)-1; last == (a.Type == record.ActionAuthenticateOIDC) {
			return nil, invalidAction("A rule must have exactly one action of the type 'forward', 'redirect' or " +
				"'fixed-response', and it must be the last to be performed")
		}
	}
	return all, nil
}

func (s V2) parseAction(c *resource.Change, b record.LoadBalancer, l record.Listener, in types.Action,
	before []record.ListenerAction) (a record.ListenerAction, err error) {
	a.Type = string(in.Type)
	given := map[types.ActionTypeEnum]bool{
		types.ActionTypeEnumForward:             in.ForwardConfig != nil || in.TargetGroupArn != nil,
		types.ActionTypeEnumRedirect:            in.RedirectConfig != nil,
		types.ActionTypeEnumFixedResponse:       in.FixedResponseConfig != nil,
		types.ActionTypeEnumAuthenticateOidc:    in.AuthenticateOidcConfig != nil,
		types.ActionTypeEnumAuthenticateCognito: in.AuthenticateCognitoConfig != nil,
		types.ActionTypeEnumJwtValidation:       in.JwtValidationConfig != nil,
	}
	if _, known := given[in.Type]; !known {
		return a, invalid("Action type '%s' must be one of: forward, authenticate-oidc, authenticate-cognito, redirect, "+
			"fixed-response, jwt-validation", in.Type)
	}
	if b.Kind == record.NetworkLoadBalancer && in.Type != types.ActionTypeEnumForward {
		return a, invalidAction("The default action of a listener of a Network Load Balancer must be of the type "+
			"'forward', and is '%s'", in.Type)
	}
	for kind, there := range given {
		if there != (kind == in.Type) {
			return a, invalidAction("An action of the type '%s' must have the configuration of its type, and no other",
				in.Type)
		}
	}
	switch in.Type {
	case types.ActionTypeEnumForward:
		err = s.parseForward(c, b, l, in, &a)
	case types.ActionTypeEnumRedirect:
		a.Redirect, err = parseRedirect(l, *in.RedirectConfig)
	case types.ActionTypeEnumFixedResponse:
		a.Fixed, err = parseFixedResponse(*in.FixedResponseConfig)
	case types.ActionTypeEnumAuthenticateOidc:
		a.OIDC, err = parseOIDC(l, *in.AuthenticateOidcConfig, before)
	default:
		err = invalidAction("coracle has no actions of the type '%s': authenticate users with 'authenticate-oidc'", in.Type)
	}
	return a, err
}

func (s V2) parseForward(c *resource.Change, b record.LoadBalancer, l record.Listener, in types.Action,
	a *record.ListenerAction) error {
	tuples := []types.TargetGroupTuple{{TargetGroupArn: in.TargetGroupArn}}
	if f := in.ForwardConfig; f != nil {
		switch {
		case in.TargetGroupArn == nil:
			tuples = f.TargetGroups
		case len(f.TargetGroups) > 1 || len(f.TargetGroups) == 1 &&
			aws.ToString(f.TargetGroups[0].TargetGroupArn) != *in.TargetGroupArn:
			return invalid("The target group ARN and the forward configuration name different target groups")
		case len(f.TargetGroups) == 1:
			tuples = f.TargetGroups
		}
		if sticky := f.TargetGroupStickinessConfig; sticky != nil && aws.ToBool(sticky.Enabled) {
			a.BySource = b.Kind == record.NetworkLoadBalancer
			if a.Sticky = aws.ToInt32(sticky.DurationSeconds); !a.BySource || sticky.DurationSeconds != nil {
				if err := checkRange("Target group stickiness duration", a.Sticky, 1, 604800); err != nil {
					return err
				}
			}
		}
	}
	switch {
	case len(tuples) == 0:
		return invalid("At least one target group must be specified")
	case len(tuples) > maxGroupsPerAction:
		return wire.Errorf("TooManyTargetGroups", "The maximum number of target groups of an action, %d, was exceeded",
			maxGroupsPerAction)
	}
	for _, t := range tuples {
		if aws.ToString(t.TargetGroupArn) == "" {
			return invalid("A target group ARN must be specified")
		}
		name, err := s.checkGroup(c, b, l, *t.TargetGroupArn)
		if err != nil {
			return err
		}
		g := record.WeightedGroup{Name: name, Weight: 1}
		if t.Weight != nil {
			g.Weight = *t.Weight
		}
		if err := checkRange("Target group weight", g.Weight, 0, 999); err != nil {
			return err
		}
		if slices.ContainsFunc(a.Groups, func(other record.WeightedGroup) bool { return other.Name == g.Name }) {
			return invalid("The target group '%s' is given twice", *t.TargetGroupArn)
		}
		a.Groups = append(a.Groups, g)
	}
	return nil
}

// checkGroup returns the name of a target group to which a listener may lead.
func (s V2) checkGroup(c *resource.Change, b record.LoadBalancer, l record.Listener, arn string) (string, error) {
	row, err := s.getGroup(c, arn)
	if err != nil {
		return "", err
	}
	g := row.Value
	fits := g.Protocol == l.Protocol || l.Protocol == "TLS" && g.Protocol == "TCP"
	if b.Kind == record.ApplicationLoadBalancer {
		fits = isHTTP(g.Protocol)
	}
	switch {
	case g.TargetType == "alb" && l.Protocol != "TCP":
		return "", wire.Errorf("IncompatibleProtocols", "Listener protocol '%s' is not supported with target group '%s', "+
			"which has the target type 'alb': it must be TCP", l.Protocol, arn)
	case !fits:
		return "", wire.Errorf("IncompatibleProtocols", "The target group '%s' has the protocol %s, and the listener has %s",
			arn, g.Protocol, l.Protocol)
	case g.Version == "GRPC" && l.Protocol != "HTTPS":
		return "", invalidConfiguration("Listener protocol '%s' is not supported with a target group with the "+
			"protocol-version 'GRPC'", l.Protocol)
	case g.VPCID != b.VPCID:
		return "", invalidConfiguration("The target group '%s' is in another VPC than the load balancer", arn)
	case g.LoadBalancer != "" && g.LoadBalancer != b.Name:
		return "", wire.Errorf("TargetGroupAssociationLimit", "The target group '%s' cannot be associated with more than "+
			"one load balancer", arn)
	}
	return g.Name, nil
}

func isHTTP(protocol string) bool { return protocol == "HTTP" || protocol == "HTTPS" }

// planUses records which target groups a load balancer leads to, as it was and as it is to be.
func (s V2) planUses(c *resource.Change, b record.LoadBalancer, before []string) error {
	now := b.TargetGroups()
	if b.Kind == record.ApplicationLoadBalancer && len(now) > maxGroupsPerBalancer && len(now) > len(before) {
		return wire.Errorf("TooManyUniqueTargetGroupsPerLoadBalancer", "The maximum number of target groups of a load "+
			"balancer, %d, has been reached", maxGroupsPerBalancer)
	}
	for _, name := range now {
		if !slices.Contains(before, name) {
			if err := s.planUse(c, b, name, b.Name); err != nil {
				return err
			}
		}
	}
	for _, name := range before {
		if !slices.Contains(now, name) {
			if err := s.planUse(c, b, name, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// redirectKeyword is what parts of a redirect are made of beside text.
var redirectKeyword = regexp.MustCompile(`#\{[^}]*\}`)

func parseRedirect(l record.Listener, in types.RedirectActionConfig) (*record.RedirectAction, error) {
	part := func(given *string, otherwise string) string {
		if given == nil {
			return otherwise
		}
		return *given
	}
	r := &record.RedirectAction{Protocol: part(in.Protocol, "#{protocol}"), Host: part(in.Host, "#{host}"),
		Port: part(in.Port, "#{port}"), Path: part(in.Path, "/#{path}"), Query: part(in.Query, "#{query}")}
	switch in.StatusCode {
	case types.RedirectActionStatusCodeEnumHttp301:
		r.Status = 301
	case types.RedirectActionStatusCodeEnumHttp302:
		r.Status = 302
	default:
		return nil, invalid("Redirect status code '%s' must be one of: HTTP_301, HTTP_302", in.StatusCode)
	}
	if !slices.Contains([]string{"HTTP", "HTTPS", "#{protocol}"}, r.Protocol) {
		return nil, invalid("Redirect protocol '%s' must be one of: HTTP, HTTPS, #{protocol}", r.Protocol)
	}
	if l.Protocol == "HTTPS" && r.Protocol == "HTTP" {
		return nil, invalidAction("You cannot redirect from HTTPS to HTTP")
	}
	if n, err := strconv.Atoi(r.Port); r.Port != "#{port}" && (err != nil || n < 1 || n > 65535) {
		return nil, invalid("Redirect port '%s' must be between 1 and 65535, or #{port}", r.Port)
	}
	for _, p := range []struct {
		what, text string
		least      int
		keywords   string
	}{
		{"host", r.Host, 1, "#{host}"}, {"path", r.Path, 1, "#{host} #{path} #{port}"},
		{"query", r.Query, 0, "#{protocol} #{host} #{port} #{path} #{query}"},
	} {
		if len(p.text) < p.least || len(p.text) > 128 {
			return nil, invalid("Redirect %s '%s' must have %d to 128 characters", p.what, p.text, p.least)
		}
		for _, k := range redirectKeyword.FindAllString(p.text, -1) {
			if !strings.Contains(p.keywords, k) {
				return nil, invalid("Redirect %s '%s' can have the keywords %s, not %s", p.what, p.text, p.keywords, k)
			}
		}
	}
	if !strings.HasPrefix(r.Path, "/") {
		return nil, invalid("Redirect path '%s' must begin with a '/'", r.Path)
	}
	if r.Host == "#{host}" && r.Port == "#{port}" && r.Path == "/#{path}" &&
		(r.Protocol == "#{protocol}" || r.Protocol == l.Protocol) {
		return nil, invalidAction("The RedirectConfig values are not valid because they create a loop: change the " +
			"protocol, the host, the port or the path")
	}
	return r, nil
}

var fixedResponseStatus = regexp.MustCompile(`^[245]\d\d$`)

func parseFixedResponse(in types.FixedResponseActionConfig) (*record.FixedResponseAction, error) {
	status := aws.ToString(in.StatusCode)
	f := &record.FixedResponseAction{ContentType: aws.ToString(in.ContentType), Body: aws.ToString(in.MessageBody)}
	contents := []string{"text/plain", "text/css", "text/html", "application/javascript", "application/json"}
	switch {
	case !fixedResponseStatus.MatchString(status):
		return nil, invalid("Fixed response status code '%s' must be of the form 2XX, 4XX or 5XX", status)
	case in.ContentType != nil && !slices.Contains(contents, f.ContentType):
		return nil, invalid("Fixed response content type '%s' must be one of: %s", f.ContentType,
			strings.Join(contents, ", "))
	case len(f.Body) > 1024:
		return nil, invalid("Fixed response message body cannot be longer than '1024' characters")
	}
	n, err := strconv.ParseInt(status, 10, 32)
	f.Status = int32(n)
	return f, err
}

func parseOIDC(l record.Listener, in types.AuthenticateOidcActionConfig, before []record.ListenerAction) (
	*record.OIDCAction, error) {
	if l.Protocol != "HTTPS" {
		return nil, invalidAction("Actions of the type 'authenticate-oidc' are for HTTPS listeners")
	}
	o := &record.OIDCAction{Issuer: aws.ToString(in.Issuer), AuthorizationEndpoint: aws.ToString(in.AuthorizationEndpoint),
		TokenEndpoint: aws.ToString(in.TokenEndpoint), UserInfoEndpoint: aws.ToString(in.UserInfoEndpoint),
		ClientID: aws.ToString(in.ClientId), ClientSecret: aws.ToString(in.ClientSecret), Scope: aws.ToString(in.Scope),
		Cookie: aws.ToString(in.SessionCookieName), SessionTimeout: aws.ToInt64(in.SessionTimeout),
		OnUnauthenticated: string(in.OnUnauthenticatedRequest), Parameters: in.AuthenticationRequestExtraParams}
	o.Scope = cmp.Or(o.Scope, "openid")
	o.Cookie = cmp.Or(o.Cookie, "AWSELBAuthSessionCookie")
	o.OnUnauthenticated = cmp.Or(o.OnUnauthenticated, "authenticate")
	if in.SessionTimeout == nil {
		o.SessionTimeout = 604800
	}
	for _, e := range []struct{ what, url string }{
		{"Issuer", o.Issuer}, {"AuthorizationEndpoint", o.AuthorizationEndpoint}, {"TokenEndpoint", o.TokenEndpoint},
		{"UserInfoEndpoint", o.UserInfoEndpoint},
	} {
		if u, err := url.Parse(e.url); err != nil || u.Scheme != "https" || u.Host == "" || len(e.url) > 1024 {
			return nil, invalid("%s '%s' must be a full URL, with the protocol HTTPS", e.what, e.url)
		}
	}
	if aws.ToBool(in.UseExistingClientSecret) {
		if o.ClientSecret != "" {
			return nil, invalid("A client secret cannot be specified together with UseExistingClientSecret")
		}
		for _, a := range before {
			if a.OIDC == nil {
				continue
			}
			// Who may change the rule learns neither the secret nor what users get for it by a server of their own.
			if a.OIDC.TokenEndpoint != o.TokenEndpoint || a.OIDC.UserInfoEndpoint != o.UserInfoEndpoint {
				return nil, invalid("The existing client secret is for the endpoints '%s' and '%s': specify the client secret "+
					"for others", a.OIDC.TokenEndpoint, a.OIDC.UserInfoEndpoint)
			}
			o.ClientSecret = a.OIDC.ClientSecret
		}
	}
	switch {
	case o.ClientID == "":
		return nil, invalid("A client ID must be specified")
	case o.ClientSecret == "":
		return nil, invalid("A client secret must be specified")
	case o.SessionTimeout < 1 || o.SessionTimeout > 604800:
		return nil, invalid("Session timeout must be between '1' and '604800', and is '%d'", o.SessionTimeout)
	case !slices.Contains(in.OnUnauthenticatedRequest.Values(),
		types.AuthenticateOidcActionConditionalBehaviorEnum(o.OnUnauthenticated)):
		return nil, invalid("OnUnauthenticatedRequest '%s' must be one of: deny, allow, authenticate", o.OnUnauthenticated)
	case len(o.Parameters) > 10:
		return nil, invalid("At most 10 extra parameters can be specified")
	}
	for _, reserved := range []string{"client_id", "redirect_uri", "response_type", "scope", "state"} {
		if _, there := o.Parameters[reserved]; there {
			return nil, invalid("The extra parameter '%s' is set by the load balancer", reserved)
		}
	}
	return o, nil
}

// actionsOf returns the default actions of a listener: that of a Network Load Balancer forwards.
func actionsOf(l record.Listener) []record.ListenerAction {
	if l.TargetGroup == "" {
		return l.Actions
	}
	return []record.ListenerAction{{Type: record.ActionForward,
		Groups: []record.WeightedGroup{{Name: l.TargetGroup, Weight: 1}}}}
}

// describeActions returns actions as the API shows them.
func (s V2) describeActions(arns map[string]string, list []record.ListenerAction) (all []types.Action) {
	for _, a := range list {
		d := types.Action{Type: types.ActionTypeEnum(a.Type)}
		if a.Order > 0 {
			d.Order = &a.Order
		}
		switch {
		case a.Type == record.ActionForward:
			d.ForwardConfig = &types.ForwardActionConfig{TargetGroupStickinessConfig: &types.TargetGroupStickinessConfig{
				Enabled: aws.Bool(a.Sticky > 0 || a.BySource)}}
			if a.Sticky > 0 {
				d.ForwardConfig.TargetGroupStickinessConfig.DurationSeconds = &a.Sticky
			}
			for _, g := range a.Groups {
				tuple := types.TargetGroupTuple{TargetGroupArn: aws.String(arns[g.Name]), Weight: &g.Weight}
				if len(a.Groups) == 1 {
					d.TargetGroupArn = tuple.TargetGroupArn
				}
				d.ForwardConfig.TargetGroups = append(d.ForwardConfig.TargetGroups, tuple)
			}
		case a.Redirect != nil:
			r := a.Redirect
			d.RedirectConfig = &types.RedirectActionConfig{Protocol: &r.Protocol, Host: &r.Host, Port: &r.Port,
				Path: &r.Path, Query: &r.Query,
				StatusCode: types.RedirectActionStatusCodeEnum("HTTP_" + strconv.Itoa(int(r.Status)))}
		case a.Fixed != nil:
			d.FixedResponseConfig = &types.FixedResponseActionConfig{
				StatusCode: aws.String(strconv.Itoa(int(a.Fixed.Status)))}
			if a.Fixed.ContentType != "" {
				d.FixedResponseConfig.ContentType = &a.Fixed.ContentType
			}
			if a.Fixed.Body != "" {
				d.FixedResponseConfig.MessageBody = &a.Fixed.Body
			}
		case a.OIDC != nil: // its client secret is not shown
			o := a.OIDC
			d.AuthenticateOidcConfig = &types.AuthenticateOidcActionConfig{Issuer: &o.Issuer,
				AuthorizationEndpoint: &o.AuthorizationEndpoint, TokenEndpoint: &o.TokenEndpoint,
				UserInfoEndpoint: &o.UserInfoEndpoint, ClientId: &o.ClientID, Scope: &o.Scope, SessionCookieName: &o.Cookie,
				SessionTimeout:                   &o.SessionTimeout,
				AuthenticationRequestExtraParams: maps.Clone(o.Parameters),
				OnUnauthenticatedRequest:         types.AuthenticateOidcActionConditionalBehaviorEnum(o.OnUnauthenticated)}
		}
		all = append(all, d)
	}
	return all
}
