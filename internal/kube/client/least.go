package client

import (
	"bytes"
	"slices"
	"strings"
)

// maxToken is the largest size of a text or number that is read of an object in any case, and maxMembers the number of
// them in its spec and in its status. leastValues is more than it has values then, but for finalizers.
const maxToken, maxMembers, leastValues = 1 << 10, 64, 32 + 2*(maxMembers+1)

// least reads of an object what Kubernetes bounds, however large the rest is.
type least struct {
	isEvent bool // the object is in an event

	text  scanner
	keys  [5]string // of the members that are open, by depth; none in arrays
	token []byte    // the text or number that is read

	event, typeMeta, metadata []byte // members
	finalizers                [][]byte
	spec, status              state
}

// state has members of a spec or a status.
type state struct {
	members []byte
	n       int
}

func (l *least) add(text []byte) {
	for _, c := range text {
		l.addByte(c)
	}
}

func (l *least) addByte(c byte) {
	before := l.text
	l.text.add(c)
	switch {
	case before.depth >= len(l.keys):
	case before.inString, c == '"':
		l.addToToken(c)
	case c == ':':
		l.keys[before.depth], l.token = string(bytes.Trim(l.token, `"`)), l.token[:0]
	case c == '{', c == '[':
		if l.token = l.token[:0]; l.text.depth < len(l.keys) {
			l.keys[l.text.depth] = ""
		}
	case c == ',', c == '}', c == ']':
		if len(l.token) > 0 && len(l.token) <= maxToken {
			l.keep(l.keys[1 : before.depth+1])
		}
		l.token = l.token[:0]
	case c > ' ':
		l.addToToken(c)
	}
}

func (l *least) addToToken(c byte) {
	if len(l.token) <= maxToken {
		l.token = append(l.token, c)
	}
}

// keep keeps the token at a path, if it is to be.
func (l *least) keep(path []string) {
	last := path[len(path)-1]
	switch {
	case l.isEvent && len(path) == 1 && last == "type":
		l.event = l.member(l.event, last)
		return
	case l.isEvent && path[0] == "object":
		path = path[1:]
	case l.isEvent:
		return
	}
	switch {
	case len(path) == 2 && path[0] == "spec":
		l.spec.add(last, l.token)
	case len(path) == 2 && path[0] == "status":
		l.status.add(last, l.token)
	case len(path) == 1 && (last == "kind" || last == "apiVersion"):
		l.typeMeta = l.member(l.typeMeta, last)
	case len(path) < 2 || path[0] != "metadata":
	case len(path) == 2 && slices.Contains([]string{"name", "namespace", "uid", "resourceVersion", "deletionTimestamp"},
		last):
		l.metadata = l.member(l.metadata, last)
	case len(path) == 3 && path[1] == "finalizers" && len(l.finalizers) < MaxFinalizers:
		l.finalizers = append(l.finalizers, bytes.Clone(l.token))
	}
}

func (s *state) add(key string, token []byte) {
	isName := key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
	if s.n == maxMembers || !isName {
		return
	}
	s.n++
	s.members = slices.Concat(s.members, []byte(`"`+key+`":`), token, []byte(","))
}

// member returns it as a member of an object; nothing where it has none itself.
func (s *state) member(key string) []byte {
	if s.n == 0 {
		return nil
	}
	return slices.Concat([]byte(`"`+key+`":{`), bytes.TrimSuffix(s.members, []byte(",")), []byte("},"))
}

// member adds the token as a member.
func (l *least) member(to []byte, key string) []byte {
	if len(to) > 16*maxToken { // no API server names a member twice
		return to
	}
	return slices.Concat(to, []byte(`"`+key+`":`), l.token, []byte(","))
}

// object returns the object.
func (l *least) object() []byte {
	out := slices.Concat([]byte("{"), l.typeMeta, l.spec.member("spec"), l.status.member("status"),
		[]byte(`"metadata":{`), l.metadata, []byte(`"finalizers":[`), bytes.Join(l.finalizers, []byte(",")),
		[]byte(`],"selfLink":"`+bareLink+`"}}`))
	if l.isEvent {
		out = slices.Concat([]byte("{"), l.event, []byte(`"object":`), out, []byte("}"))
	}
	return out
}
