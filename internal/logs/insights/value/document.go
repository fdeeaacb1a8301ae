package value

import (
	"bytes"
	"strconv"
	"strings"
	"unsafe"
)

// Path names a field inside JSON: keys joined by dots, an index for an element of an array
// (objectRef.name, user.groups.0). A key may itself contain dots: at each level the longest key
// that leads to a value wins, so labels.app.kubernetes.io/name is found. A key that begins with @
// has one more @ in its name, to tell it from what Insights generates:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_AnalyzeLogData-discoverable-fields.html
type Path struct {
	name string // as the query has it
	keys string // the keys joined by dots
	dots []int  // where in keys a key may end: each dot, and the end. At most 64; see ParsePath
}

// ParsePath reads a field's name as queries write it, without backticks. A name of more than 64
// parts finds nothing.
func ParsePath(name string) *Path {
	p := &Path{name: name, keys: name}
	if strings.HasPrefix(name, "@@") {
		p.keys = name[1:]
	}
	for i := range len(p.keys) {
		if p.keys[i] == '.' {
			p.dots = append(p.dots, i)
		}
	}
	if p.dots = append(p.dots, len(p.keys)); len(p.dots) > 64 {
		p.dots = nil
	}
	return p
}

// String returns the name.
func (p *Path) String() string { return p.name }

// Document reads fields of JSON messages without building a tree. The zero Document is ready for
// Parse and Field; one made by NewDocument finds a fixed set of paths in the same pass that
// checks the message, which is what to use for many messages.
//
// Only a message that is one JSON object as a whole has fields; text before or behind it makes it
// text, from which `parse` extracts. (On AWS the exception are Lambda's logs.) Of a key that an
// object has twice the first counts. A field that is an object or array is its JSON text, a list
// or map; on AWS only what lies inside them are fields.
//
// A Document is reused from message to message, by one goroutine. Values are valid until the
// next Parse or until the message's memory is reused.
type Document struct {
	message []byte
	paths   []*Path
	found   []span
	stack   []candidate // of all levels the scan is inside of
	text    []byte      // strings that had escapes
	single  *Document   // Field's
}

// span is the position of a path's value in the message.
type span struct {
	start, end int
	// cuts marks the dots at which keys ended (the first dot is the highest bit), so that of two ways to read a path the
	// smaller number had the longer key first.
	cuts  uint64
	found bool
}

// candidate is a path whose keys so far led to the object or array being read.
type candidate struct {
	path int
	from int    // where in path.keys the next key begins
	dot  int    // index in path.dots of the first dot at or behind from
	cuts uint64 // as in span
	seen uint64 // the dots at which a key of this object ended: a second one like it is a duplicate
}

// NewDocument returns a Document that finds paths; At(i) then is the value of paths[i].
func NewDocument(paths ...*Path) *Document {
	return &Document{paths: paths, found: make([]span, len(paths))}
}

// Parse reports whether the whole message is one JSON object (else Insights discovers no fields in it).
func (d *Document) Parse(message []byte) bool {
	d.message, d.text = nil, d.text[:0]
	clear(d.found)
	i := skipSpace(message, 0)
	if i >= len(message) || message[i] != '{' {
		return false
	}
	if i = d.scanPaths(message, i); i < 0 || skipSpace(message, i) != len(message) {
		clear(d.found)
		return false
	}
	d.message = message
	return true
}

// scanPaths reads the object or array at i and notes where the paths are in it.
func (d *Document) scanPaths(b []byte, i int) int {
	d.stack = d.stack[:0]
	for n, p := range d.paths {
		if p.dots != nil {
			d.stack = append(d.stack, candidate{path: n})
		}
	}
	switch {
	case len(d.stack) == 0:
		return skipValue(b, i, 0)
	case b[i] == '{':
		return d.scanObject(b, i+1, 1, 0)
	default:
		return d.scanArray(b, i+1, 1, 0)
	}
}

// scanObject reads an object whose brace is at i-1; the candidates are those from first on.
func (d *Document) scanObject(b []byte, i, depth, first int) int {
	last := len(d.stack)
	var starts uint64 // the first bytes that a key of interest may have, modulo 64
	for _, c := range d.stack[first:last] {
		if keys := d.paths[c.path].keys; c.from < len(keys) {
			starts |= 1 << (keys[c.from] & 63)
		}
	}
	i = skipSpace(b, i)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return invalid
		}
		start := i + 1
		end, escaped := scanString(b, start)
		if end < 0 {
			return invalid
		}
		if i = end; i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		if i >= len(b) || b[i] != ':' {
			return invalid
		}
		if i++; i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		switch {
		case escaped:
			// The text stays in d.text until the next message: its size is bounded by the message's.
			n := len(d.text)
			d.text = unescape(d.text, b[start:end-1])
			i = d.scanMember(b, i, depth, first, last, d.text[n:])
		case starts&(1<<(b[start]&63)) != 0 || start == end-1: // the empty key may belong to any path
			i = d.scanMember(b, i, depth, first, last, b[start:end-1])
		default:
			i = skipValue(b, i, depth)
		}
		if i < 0 {
			return invalid
		}
		if i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
		if i >= len(b) {
			return invalid
		}
		if b[i] == '}' {
			return i + 1
		}
		if b[i] != ',' {
			return invalid
		}
		if i++; i < len(b) && b[i] <= ' ' {
			i = skipSpace(b, i)
		}
	}
}

// scanArray reads an array whose bracket is at i-1.
func (d *Document) scanArray(b []byte, i, depth, first int) int {
	last := len(d.stack)
	i = skipSpace(b, i)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	var index [20]byte
	for n := 0; ; n++ {
		i = d.scanMember(b, i, depth, first, last, strconv.AppendInt(index[:0], int64(n), 10))
		if i < 0 {
			return invalid
		}
		i = skipSpace(b, i)
		if i >= len(b) {
			return invalid
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return invalid
		}
		i = skipSpace(b, i+1)
	}
}

// scanMember reads the value at i that an object or array has under key, for the candidates first to last.
func (d *Document) scanMember(b []byte, i, depth, first, last int, key []byte) int {
	mark := len(d.stack)
	ended := false // a path ends here
	for n := first; n < last; n++ {
		c := &d.stack[n]
		p := d.paths[c.path]
		to := c.from + len(key)
		if to > len(p.keys) || to < len(p.keys) && p.keys[to] != '.' || p.keys[c.from:to] != string(key) {
			continue
		}
		dot := c.dot
		for p.dots[dot] < to {
			dot++
		}
		if c.seen&(1<<dot) != 0 {
			continue
		}
		c.seen |= 1 << dot
		cuts := c.cuts | 1<<(63-dot)
		d.stack = append(d.stack, candidate{path: c.path, from: to + 1, dot: dot + 1, cuts: cuts})
		ended = ended || to == len(p.keys)
	}
	if len(d.stack) == mark {
		return skipValue(b, i, depth)
	}
	// The candidates now on top are those that this key belongs to. The ones it completes get the
	// value, the others go on inside it.
	top := len(d.stack)
	if ended {
		next := mark
		for n := mark; n < top; n++ {
			c := d.stack[n]
			if c.from > len(d.paths[c.path].keys) {
				if s := &d.found[c.path]; !s.found || c.cuts < s.cuts {
					*s = span{start: i, end: invalid, cuts: c.cuts, found: true}
				}
				continue
			}
			d.stack[next] = c
			next++
		}
		d.stack = d.stack[:next]
	}
	end := invalid
	switch {
	case len(d.stack) == mark || i >= len(b):
		end = skipValue(b, i, depth)
	case b[i] == '{' && depth+1 < maxDepth:
		end = d.scanObject(b, i+1, depth+1, mark)
	case b[i] == '[' && depth+1 < maxDepth:
		end = d.scanArray(b, i+1, depth+1, mark)
	default:
		end = skipValue(b, i, depth)
	}
	d.stack = d.stack[:mark]
	if ended {
		for n := range d.found {
			if s := &d.found[n]; s.found && s.start == i {
				s.end = end
			}
		}
	}
	return end
}

// At returns the value of the i-th path given to NewDocument in the message last parsed.
func (d *Document) At(i int) Value {
	s := d.found[i]
	if !s.found {
		return Value{}
	}
	return decodeValue(d.message[s.start:s.end], &d.text)
}

// Field returns the value of any path in the message last parsed. It reads the message once more: see NewDocument.
func (d *Document) Field(path *Path) Value {
	if d.message == nil {
		return Value{}
	}
	if d.single == nil {
		d.single = NewDocument(nil)
	}
	return d.single.findPath(d.message, path, &d.text)
}

// findPath returns the value of path in the object or array b, which has been checked. Text that had escapes is put
// behind text.
func (d *Document) findPath(b []byte, path *Path, text *[]byte) Value {
	d.paths[0], d.found[0], d.text = path, span{}, d.text[:0]
	d.scanPaths(b, skipSpace(b, 0))
	s := d.found[0]
	if !s.found {
		return Value{}
	}
	return decodeValue(b[s.start:s.end], text)
}

// decodeValue returns the value of a JSON text that has been checked. Text that had escapes is put behind text.
func decodeValue(raw []byte, text *[]byte) Value {
	switch raw[0] {
	case '"':
		raw = raw[1 : len(raw)-1]
		if bytes.IndexByte(raw, '\\') < 0 {
			return String(unsafeString(raw))
		}
		n := len(*text)
		*text = unescape(*text, raw)
		return String(unsafeString((*text)[n:]))
	case '{':
		return Value{kind: MapKind, text: unsafeString(raw)}
	case '[':
		return Value{kind: ListKind, text: unsafeString(raw)}
	case 't', 'f':
		return Bool(raw[0] == 't')
	case 'n':
		return Value{}
	}
	return literal(unsafeString(raw))
}

// unsafeString returns b as a string, without a copy: b must not change while the string is in use.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// MaxDiscovered is the number of fields of one event that AWS extracts, the first ones in the message. It
// bounds what GetLogGroupFields and GetLogRecord list. Queries here reach any path all the same.
const MaxDiscovered = 200

// MaxPath is the length of a path up to which what lies there is a field that is discovered, in bytes. A message may
// have a long key above many values.
const MaxPath = 1024

// Each calls yield with every scalar field of the message last parsed, in order, until yield returns
// false: discovery. JSON's null, empty objects and empty arrays are no fields. Paths are such
// that ParsePath finds a field of that name again, and may repeat (duplicate keys, or keys with dots).
func (d *Document) Each(yield func(path string, v Value) bool) {
	if d.message == nil {
		return
	}
	forEachLeaf(nil, true, d.message, skipSpace(d.message, 0), &d.text, yield)
}

// forEachLeaf yields what lies in the value at i, which has been checked.
func forEachLeaf(name []byte, root bool, b []byte, i int, text *[]byte, yield func(string, Value) bool) (
	end int, more bool) {
	if len(name) > MaxPath {
		return skipValue(b, i, 0), true
	}
	if b[i] != '{' && b[i] != '[' {
		end = scanScalar(b, i)
		if v := decodeValue(b[i:end], text); !v.IsNull() {
			return end, yield(string(name), v)
		}
		return end, true
	}
	object := b[i] == '{'
	if i = skipSpace(b, i+1); b[i] == '}' || b[i] == ']' {
		return i + 1, true
	}
	at := len(name)
	for n := 0; ; n++ {
		if !root {
			name = append(name, '.')
		}
		if object {
			start := i + 1
			i, _ = scanString(b, start)
			key := len(name)
			if name = unescape(name, b[start:i-1]); root && key < len(name) && name[key] == '@' {
				name = append(append(name[:key:key], '@'), name[key:]...)
			}
			i = skipSpace(b, skipSpace(b, i)+1)
		} else {
			name = strconv.AppendInt(name, int64(n), 10)
		}
		if i, more = forEachLeaf(name, false, b, i, text, yield); !more {
			return i, false
		}
		name = name[:at]
		if i = skipSpace(b, i); b[i] != ',' {
			return i + 1, true
		}
		i = skipSpace(b, i+1)
	}
}
