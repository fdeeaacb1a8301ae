//go:build linux

package logrouter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// object is a map that keeps the order of its keys. Values are strings, json.Number, int64, float64, bool, nil, object
// and []any.
type object []pair

type pair struct {
	key   string
	value any
}

// record is a record on its way through the filters.
type record struct {
	time time.Time
	tag  string
	body object
	// emitter is the filter that has emitted the record under another tag, from 1; rewrites is how often that was done.
	emitter, rewrites int
}

func (o object) index(key string) int {
	return slices.IndexFunc(o, func(p pair) bool { return p.key == key })
}

func (o object) get(key string) (any, bool) {
	if i := o.index(key); i >= 0 {
		return o[i].value, true
	}
	return nil, false
}

func (o object) without(key string) object {
	return slices.DeleteFunc(slices.Clone(o), func(p pair) bool { return p.key == key })
}

// with returns the object with a value at its end, and no other with that key.
func (o object) with(key string, value any) object {
	return append(o.without(key), pair{key, value})
}

// merge returns the object with the pairs of another one, which take the place of those with the same keys.
func (o object) merge(other object) object {
	if len(other) == 0 {
		return o
	}
	keys := make(map[string]bool, len(other))
	for _, p := range other {
		keys[p.key] = true
	}
	merged := make(object, 0, len(o)+len(other))
	for _, p := range o {
		if !keys[p.key] {
			merged = append(merged, p)
		}
	}
	return append(merged, other...)
}

// value returns the value to which an accessor leads.
func (o object) value(a fluentbit.Accessor) (any, bool) {
	var v any = o
	for _, step := range a {
		switch at := v.(type) {
		case object:
			found, ok := at.get(step.Key)
			if step.List || !ok {
				return nil, false
			}
			v = found
		case []any:
			if !step.List || step.Index >= len(at) {
				return nil, false
			}
			v = at[step.Index]
		default:
			return nil, false
		}
	}
	return v, true
}

// text returns a scalar as text.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func sortedObject(m map[string]string) object {
	o := make(object, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		o = append(o, pair{key, m[key]})
	}
	return o
}

// The largest JSON texts that become objects: levels, and values in all.
const (
	maxDepth  = 32
	maxValues = 10000
)

var errNotObject = errors.New("it is not a JSON object")

// parseJSON returns the object that a text is, and nothing else.
func parseJSON(s string) (object, error) {
	s = strings.TrimSpace(s)
	if s == "" || s[0] != '{' {
		return nil, errNotObject
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	values := 0
	v, err := decode(d, 0, &values)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotObject
	}
	return v.(object), nil
}

func decode(d *json.Decoder, depth int, values *int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if *values++; *values > maxValues || depth > maxDepth {
		return nil, errors.New("the JSON object is too large or too deep")
	}
	delimiter, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	switch delimiter {
	case '{':
		o := object{}
		seen := map[string]int{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decode(d, depth+1, values)
			if err != nil {
				return nil, err
			}
			if i, ok := seen[key.(string)]; ok {
				o[i].value = v
				continue
			}
			seen[key.(string)] = len(o)
			o = append(o, pair{key.(string), v})
		}
		_, err := d.Token()
		return o, err
	default: // the decoder returns no other delimiter where a value stands
		list := []any{}
		for d.More() {
			v, err := decode(d, depth+1, values)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
}

// isLarger reports whether an object has more than a number of values, each counted as often as it would be written.
func isLarger(o object, most int) bool {
	var left func(v any, most int) int
	left = func(v any, most int) int {
		most--
		switch v := v.(type) {
		case object:
			for i := 0; i < len(v) && most >= 0; i++ {
				most = left(v[i].value, most)
			}
		case []any:
			for i := 0; i < len(v) && most >= 0; i++ {
				most = left(v[i], most)
			}
		}
		return most
	}
	return left(o, most+1) < 0 // the object itself is none of them
}

// appendJSON appends a value as JSON. It ends within a value of the end when the text has become larger than limit: the
// text is to be cut then, and is not JSON.
func appendJSON(b []byte, v any, limit int) []byte {
	if len(b) > limit {
		return b
	}
	switch v := v.(type) {
	case object:
		b = append(b, '{')
		for i, p := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if len(b) > limit {
				return b
			}
			b = appendQuoted(b, p.key)
			b = append(b, ':')
			b = appendJSON(b, p.value, limit)
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if len(b) > limit {
				return b
			}
			b = appendJSON(b, e, limit)
		}
		return append(b, ']')
	case string:
		return appendQuoted(b, v)
	case json.Number, int64, bool:
		s, _ := text(v)
		return append(b, s...)
	case float64:
		if out, err := json.Marshal(v); err == nil {
			return append(b, out...)
		}
	}
	return append(b, "null"...)
}

// appendQuoted appends a string. Bytes that are not UTF-8 become the replacement character.
func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}

// render returns the text of a template; ok is false when the record does not have all parts.
func render(t fluentbit.Template, r *record, groups []string) (string, bool) {
	var b bytes.Buffer
	ok := true
	for _, part := range t {
		switch {
		case part.Text != "":
			b.WriteString(part.Text)
		case part.Tag && part.TagPart < 0:
			b.WriteString(r.tag)
		case part.Tag:
			if parts := strings.Split(r.tag, "."); part.TagPart < len(parts) {
				b.WriteString(parts[part.TagPart])
			} else {
				ok = false
			}
		case part.Accessor != nil:
			v, found := r.body.value(part.Accessor)
			s, scalar := text(v)
			b.WriteString(s)
			ok = ok && found && scalar
		case part.Group >= 0 && part.Group < len(groups):
			b.WriteString(groups[part.Group])
		}
	}
	return b.String(), ok
}
