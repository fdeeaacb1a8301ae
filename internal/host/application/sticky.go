package application

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Cookies of stickiness.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html
const (
	cookieTarget = "AWSALB"
	cookieApp    = "AWSALBAPP-0"
	cookieGroup  = "AWSALBTG"
	cookieCORS   = "CORS"
)

// cookieLife is the time after which a client forgets a cookie of the load balancer. For how long it leads to a target
// is in it.
const cookieLife = 7 * 24 * time.Hour

// chooseGroup returns the target group of a forward action: that of the client's cookie with target group stickiness,
// else one by their weights. It is nil if there is none.
func (e *exchange) chooseGroup(f *Forward) *group {
	if len(f.Groups) == 1 {
		return e.state.groups[f.Groups[0].ID]
	}
	if f.StickySeconds > 0 {
		if id, ok := e.openCookie(cookieGroup, "", f.StickySeconds); ok && slices.ContainsFunc(f.Groups,
			func(g WeightedGroup) bool { return g.ID == id && g.Weight > 0 }) {
			return e.state.groups[id]
		}
	}
	total := 0
	for _, g := range f.Groups {
		total += g.Weight
	}
	if total == 0 {
		return nil
	}
	at := int(e.server.random() % uint64(total))
	for _, g := range f.Groups {
		if at -= g.Weight; at < 0 {
			return e.state.groups[g.ID]
		}
	}
	return nil
}

// findSticky finds the target that the client's cookies lead to.
func (e *exchange) findSticky() {
	s := e.group.spec.Stickiness
	if s == nil {
		return
	}
	name := cookieTarget
	if s.AppCookie != "" {
		if _, err := e.r.Cookie(s.AppCookie); err != nil {
			return
		}
		name = cookieApp
	}
	text, ok := e.openCookie(name, e.group.spec.ID, s.Seconds)
	if !ok {
		return
	}
	e.appCookie = s.AppCookie != ""
	if address, err := netip.ParseAddrPort(text); err == nil {
		e.sticky = e.group.findTarget(address)
	}
}

// openCookie returns what is in a cookie of the load balancer that is not older than so many seconds.
func (e *exchange) openCookie(name, bound string, seconds int) (string, bool) {
	for _, c := range append(e.r.CookiesNamed(name), e.r.CookiesNamed(name+cookieCORS)...) {
		plain, err := e.state.sticky.open(c.Value, name+" "+bound)
		if err != nil || len(plain) < 8 {
			continue
		}
		set := time.Unix(int64(binary.BigEndian.Uint64(plain)), 0)
		if age := e.server.o.now().Sub(set); age <= time.Duration(seconds)*time.Second {
			return string(plain[8:]), true
		}
	}
	return "", false
}

// addCookie adds a cookie of the load balancer to the headers of an answer, and with cors a second one for requests of
// other sites.
func (e *exchange) addCookie(h http.Header, name, bound, text string, cors bool) {
	now := e.server.o.now()
	plain := append(binary.BigEndian.AppendUint64(nil, uint64(now.Unix())), text...)
	value := e.state.sticky.seal(plain, name+" "+bound)
	tail := "; Expires=" + now.Add(cookieLife).UTC().Format(http.TimeFormat) + "; Path=/"
	h.Add("Set-Cookie", name+"="+value+tail)
	if cors {
		tail += "; SameSite=None"
		if e.state.https {
			tail += "; Secure"
		}
		h.Add("Set-Cookie", name+cookieCORS+"="+value+tail)
	}
}

// setStickiness adds the cookies of stickiness to an answer of a target.
func (e *exchange) setStickiness(r *http.Response) {
	if e.forward.StickySeconds > 0 && len(e.forward.Groups) > 1 {
		e.addCookie(r.Header, cookieGroup, "", e.group.spec.ID, true)
	}
	s := e.group.spec.Stickiness
	switch {
	case s == nil:
	case s.AppCookie == "":
		e.addCookie(r.Header, cookieTarget, e.group.spec.ID, e.target.host, true)
	case e.appCookie || setsCookie(r.Header, s.AppCookie):
		e.addCookie(r.Header, cookieApp, e.group.spec.ID, e.target.host, false)
	}
}

// setsCookie reports whether an answer sets a cookie.
func setsCookie(h http.Header, name string) bool {
	return slices.ContainsFunc(h["Set-Cookie"], func(line string) bool {
		have, _, _ := strings.Cut(line, "=")
		return strings.TrimSpace(have) == name
	})
}
