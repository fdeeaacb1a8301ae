package application

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// secretSize is the size of the secret of a load balancer.
const secretSize = 32

// state is a Listener in the form in which requests need it. It does not change.
type state struct {
	spec   Listener
	https  bool
	port   string
	rules  []*rule
	groups map[string]*group
	pools  map[*pool]*group
	front  *front
	tls    *tls.Config // nil without TLS
	certs  *certificates
	idle   time.Duration
	seal   *sealer  // of logins and sessions
	sticky *sealer  // of stickiness
	logins []*login // the actions authenticate-oidc
	signer *signer

	account string // of the load balancer
	weight  int    // of the conditions
	// matchesHeaders is set if a condition is about headers.
	matchesHeaders bool
}

// rule is a Rule in the form in which requests need it.
type rule struct {
	spec       Rule
	conditions []condition
	login      *login
	hostRegex  *rewrite
	urlRegex   *rewrite
}

// matches reports whether a request matches the rule.
func (r *rule) matches(e *exchange) bool {
	for _, c := range r.conditions {
		if !c(e) {
			return false
		}
	}
	return true
}

// compile returns the state of a Listener without what is broken, and why that is left out. mu is held.
func (s *Server) compile(listener Listener) (*state, error) {
	if listener.Attributes.Idle <= 0 {
		listener.Attributes.Idle = DefaultAttributes().Idle
	}
	st := &state{spec: listener, https: listener.TLS != nil, port: fmt.Sprint(listener.Port), groups: map[string]*group{},
		pools: map[*pool]*group{}, idle: time.Duration(listener.Attributes.Idle) * time.Second}
	if fields := strings.Split(listener.LoadBalancer, ":"); len(fields) > 4 {
		st.account = fields[4]
	}
	var failures []error
	if len(listener.Secret) < secretSize {
		failures = append(failures, errors.New("the load balancer has no secret: its cookies end with this process"))
		listener.Secret = s.secret[:]
	}
	st.seal, st.sticky = newSealer(listener.Secret, sealsLogins), newSealer(listener.Secret, sealsStickiness)
	var err error
	if listener.Identity != nil {
		if st.signer, err = newSigner(*listener.Identity); err != nil {
			failures = append(failures, err)
		}
	}
	if before := s.state.Load(); before != nil && before.tls != nil && listener.TLS != nil &&
		reflect.DeepEqual(before.spec.TLS, listener.TLS) && before.spec.Attributes.HTTP2 == listener.Attributes.HTTP2 {
		st.certs, st.tls = before.certs, before.tls // with the keys of its session tickets
	} else if listener.TLS != nil {
		var protocols []string
		if listener.Attributes.HTTP2 {
			protocols = append(protocols, "h2")
		}
		st.certs, err = parseCertificates(listener.TLS.Certificates)
		failures = append(failures, err)
		st.tls = newTLSConfig(*listener.TLS, st.certs, append(protocols, "http/1.1"))
	}
	for _, spec := range listener.Groups {
		g := s.newGroup(spec, st.idle)
		st.groups[spec.ID], st.pools[g.pool] = g, g
	}
	for _, spec := range listener.Rules {
		r, err := s.compileRule(st, spec)
		if err != nil {
			failures = append(failures, fmt.Errorf("rule %s: %w", spec.Priority, err))
			// Its requests must not come to the next rules, which may ask less of them.
			r = &rule{spec: Rule{Priority: spec.Priority, Actions: []Action{{FixedResponse: &FixedResponse{
				Status: http.StatusInternalServerError}}}}, conditions: r.conditions}
		}
		st.rules = append(st.rules, r)
	}
	st.front = s.frontFor(listener.Attributes)
	return st, errors.Join(failures...)
}

// compileRule returns a rule. With an error, it has the conditions that are not broken.
func (s *Server) compileRule(st *state, spec Rule) (*rule, error) {
	r := &rule{spec: spec}
	var failures []error
	for _, c := range spec.Conditions {
		compiled, err := compileCondition(c)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		r.conditions = append(r.conditions, compiled)
		st.weight += c.weight()
		st.matchesHeaders = st.matchesHeaders || c.Field == FieldHeader
	}
	for _, a := range spec.Actions {
		if a.OIDC != nil {
			r.login = newLogin(*a.OIDC, s.providerFor(st.spec.Outbound))
			st.logins = append(st.logins, r.login)
		}
	}
	var err error
	r.hostRegex, err = newRewrite(spec.HostRewrite)
	failures = append(failures, err)
	r.urlRegex, err = newRewrite(spec.URLRewrite)
	return r, errors.Join(append(failures, err)...)
}

// matchRule returns the first rule that a request matches; nil if there is none.
func (st *state) matchRule(e *exchange) *rule {
	release, ok := e.takeTurn(st.steps(e))
	if !ok {
		e.abort()
	}
	defer release()
	for _, r := range st.rules {
		if r.matches(e) {
			return r
		}
	}
	return nil
}

// protocol returns the protocol of the listener, as URLs have it.
func (st *state) protocol() string {
	if st.https {
		return "https"
	}
	return "http"
}
