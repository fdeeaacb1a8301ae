package events

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Which paths of JSON messages become columns. What is left out is still found, by reading messages.
const (
	columnDepth     = 4    // keys and indexes in a path: user.extra.arn.0
	columnElements  = 8    // of an array, from its beginning
	columnPaths     = 1024 // different paths that are looked at in one block
	columnsPerBlock = 160
	columnValue     = 1024     // bytes of one value
	columnValues    = 4096     // different ones in a column
	columnBytes     = 64 << 10 // of its different values, and
	columnShare     = 64       // this part of the messages, 1/columnShare
)

// excludedPaths are the objects of audit events that hold what was sent and answered: too many paths, and
// their values are rarely asked for.
var excludedPaths = map[string]bool{"requestObject": true, "responseObject": true}

// An extractor collects the columns of one block, message by message.
//
// A column must be exactly what any reader of JSON sees in every row. So whatever readers may disagree
// about spoils the paths that it touches: an object whose keys repeat, are written with escapes, or
// could be mistaken for another path (the keys a and a.b in one object); and a message that looks like
// JSON but is not spoils the block. Spoiled paths are not offered, and the messages are read instead.
type extractor struct {
	scanner
	row           int // of the message being read, from 0
	root          *node
	nodes         int
	exhausted     bool       // there were more than columnPaths paths
	reusableCodes [][]uint16 // codes of columns of earlier blocks
}

// node is a path in the tree of all messages.
type node struct {
	name   string // the path, keys joined by dots
	key    string // its last part
	dotted bool   // a key of a child has a dot
	below  bool   // its own key has one, or one on the way here
	depth  int

	children []*node // in the order they were first seen
	index    map[string]*node
	at       int // its index among the children of its parent
	next     int // the child that is expected next, because messages resemble each other

	last      int  // row in which it was seen last, plus 1
	rows      int  // how many have a scalar here
	container bool // some row has an object or an array here
	spoiled   bool // it is no column
	closed    bool // nothing below it is a column

	values []string
	codes  []uint16
	latest uint16 // the code set last
	byText map[string]uint16
	size   int // bytes of values
}

func newExtractor() *extractor {
	x := &extractor{}
	x.reset()
	return x
}

// reset begins a new block. What columns returned for the one before is no longer valid.
func (x *extractor) reset() {
	spare := x.reusableCodes
	var visit func(n *node)
	visit = func(n *node) {
		if cap(n.codes) > 0 {
			spare = append(spare, n.codes[:0])
		}
		for _, c := range n.children {
			visit(c)
		}
	}
	if x.root != nil {
		visit(x.root)
	}
	*x = extractor{root: &node{index: map[string]*node{}}, reusableCodes: spare[:min(len(spare), 2*columnsPerBlock)]}
}

// add reads the message of the next row.
func (x *extractor) add(message []byte) {
	x.b, x.i = message, 0
	x.skipSpace()
	if x.root.closed {
		// It stays so: nothing more to learn.
	} else if x.i < len(x.b) && x.b[x.i] == '{' {
		x.root.last = x.row + 1
		if !x.scanObject(x.root) {
			x.root.closed = true
		} else if x.skipSpace(); x.i < len(x.b) {
			x.root.closed = true
		}
	} else if bytes.IndexByte(message, '{') >= 0 {
		x.root.closed = true // a reader may take the object out of the text around it
	}
	x.row++
}

// scanValue reads one JSON value at a node; n is nil where nothing is collected.
func (x *extractor) scanValue(n *node) bool {
	if x.i >= len(x.b) {
		return false
	}
	if n != nil {
		if n.last == x.row+1 { // a key that repeats: readers differ in which they take
			n.spoiled, n.closed = true, true
		}
		n.last = x.row + 1
	}
	switch c := x.b[x.i]; {
	case c != '{' && c != '[':
		start := x.i
		if !x.scanScalar() {
			return false
		}
		if n != nil {
			if n.codes == nil && len(x.reusableCodes) > 0 {
				n.codes, x.reusableCodes = x.reusableCodes[len(x.reusableCodes)-1], x.reusableCodes[:len(x.reusableCodes)-1]
			}
			n.setValue(x.row, x.b[start:x.i])
		}
		return true
	case n == nil || n.closed:
		if n != nil {
			n.container = true
		}
		return x.skipValue()
	case n.depth >= columnDepth || n.depth == 1 && excludedPaths[n.key]:
		n.container, n.closed = true, true
		return x.skipValue()
	case c == '{':
		n.container = true
		return x.scanObject(n)
	default:
		n.container = true
		return x.scanArray(n)
	}
}

func (x *extractor) scanObject(n *node) bool {
	x.i++ // {
	x.skipSpace()
	if x.i < len(x.b) && x.b[x.i] == '}' {
		x.i++
		return true
	}
	n.next = 0
	for {
		if x.i >= len(x.b) || x.b[x.i] != '"' {
			return false
		}
		start := x.i + 1
		if !x.scanString() {
			return false
		}
		key := x.b[start : x.i-1]
		x.skipSpace()
		if x.i >= len(x.b) || x.b[x.i] != ':' {
			return false
		}
		x.i++
		x.skipSpace()
		if !x.scanValue(childOf(x, n, key)) {
			return false
		}
		x.skipSpace()
		if x.i >= len(x.b) {
			return false
		}
		switch x.b[x.i] {
		case ',':
			x.i++
			x.skipSpace()
		case '}':
			x.i++
			return true
		default:
			return false
		}
	}
}

const indexes = "01234567"

func (x *extractor) scanArray(n *node) bool {
	x.i++ // [
	x.skipSpace()
	if x.i < len(x.b) && x.b[x.i] == ']' {
		x.i++
		return true
	}
	n.next = 0
	for i := 0; ; i++ {
		var element *node
		if i < columnElements {
			element = childOf(x, n, indexes[i:i+1])
		} else {
			n.closed = true
		}
		if !x.scanValue(element) {
			return false
		}
		x.skipSpace()
		if x.i >= len(x.b) {
			return false
		}
		switch x.b[x.i] {
		case ',':
			x.i++
			x.skipSpace()
		case ']':
			x.i++
			return true
		default:
			return false
		}
	}
}

// childOf returns the node below n with a key, nil when nothing is collected there.
func childOf[S string | []byte](x *extractor, n *node, key S) *node {
	if n.next < len(n.children) && n.children[n.next].key == string(key) {
		n.next++
		return n.children[n.next-1]
	}
	if c := n.index[string(key)]; c != nil {
		n.next = c.at + 1
		return c
	}
	return x.newChild(n, string(key))
}

func (x *extractor) newChild(n *node, key string) *node {
	isIndex := len(n.children) < columnElements && key == indexes[len(n.children):len(n.children)+1]
	if !isPlainKey(key) && !isIndex {
		n.closed = true
		return nil
	}
	if x.nodes >= columnPaths {
		x.exhausted = true
		return nil
	}
	// Keys that could be read as one another's beginning: {"a":{"b":1},"a.b":2}.
	dots := strings.Contains(key, ".")
	for i := range key {
		if key[i] == '.' && n.index[key[:i]] != nil {
			n.closed = true
		}
	}
	if n.dotted {
		for _, c := range n.children {
			if strings.HasPrefix(c.key, key) && c.key[len(key)] == '.' {
				n.closed = true
			}
		}
	}
	n.dotted = n.dotted || dots
	c := &node{
		name: key, key: key, below: n.below || dots, depth: n.depth + 1,
		at: len(n.children), index: map[string]*node{},
	}
	if n != x.root {
		c.name = n.name + "." + key
	}
	n.children = append(n.children, c)
	n.index[key] = c
	x.nodes++
	return c
}

// isPlainKey reports whether every reader takes a key of an object, written like this, for the same steps of a path: no
// escapes, no empty step, nothing that could be the index of an array.
func isPlainKey(key string) bool {
	if len(key) > columnValue {
		return false
	}
	for step := range strings.SplitSeq(key, ".") {
		if step == "" || '0' <= step[0] && step[0] <= '9' || step[0] == '+' || step[0] == '-' {
			return false
		}
	}
	for _, c := range []byte(key) {
		if c == '\\' || c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// setValue records the raw scalar of a row.
func (n *node) setValue(row int, raw []byte) {
	if n.spoiled {
		return
	}
	for len(n.codes) < row {
		n.codes = append(n.codes, NoValue)
	}
	if n.rows > 0 && n.values[n.latest] == string(raw) {
		n.codes = append(n.codes, n.latest)
		n.rows++
		return
	}
	code, known := n.byText[string(raw)]
	if !known {
		n.size += len(raw)
		if len(raw) > columnValue || len(n.values) == columnValues || n.size > columnBytes {
			n.spoiled, n.values, n.codes, n.byText = true, nil, n.codes[:0], nil
			return
		}
		if n.byText == nil {
			n.byText = map[string]uint16{}
		}
		code = uint16(len(n.values))
		n.values = append(n.values, string(raw))
		n.byText[n.values[code]] = code
	}
	n.codes = append(n.codes, code)
	n.latest = code
	n.rows++
}

// builtColumn is a column on its way into a block.
type builtColumn struct {
	path string
	Column
	rows int // that have a value
}

// opaquePath is a path that occurs in a block but is no column.
type opaquePath struct {
	path  string
	below bool // nothing is known of the paths that begin with it either
}

// columns returns what was collected from messages of so many bytes: the columns in the order of their paths, and the
// paths that occur beside them. When all is true, every other path is in no message.
func (x *extractor) columns(bytes int) (kept []builtColumn, opaque []opaquePath, all bool) {
	if x.root.closed {
		return nil, nil, false
	}
	var visit func(n *node)
	visit = func(n *node) {
		for _, c := range n.children {
			if c.container || c.spoiled || x.exhausted && c.below || !c.isWorthStoring(bytes) {
				opaque = append(opaque, opaquePath{c.name, c.closed})
			} else {
				for len(c.codes) < x.row {
					c.codes = append(c.codes, NoValue)
				}
				kept = append(kept, builtColumn{c.name, Column{c.values, c.codes}, c.rows})
			}
			if !c.closed {
				visit(c)
			}
		}
	}
	visit(x.root)
	if len(kept) > columnsPerBlock {
		slices.SortStableFunc(kept, func(a, b builtColumn) int { return cmp.Compare(b.rows, a.rows) })
		for _, k := range kept[columnsPerBlock:] {
			opaque = append(opaque, opaquePath{path: k.path})
		}
		kept = kept[:columnsPerBlock]
	}
	slices.SortFunc(kept, func(a, b builtColumn) int { return strings.Compare(a.path, b.path) })
	return kept, opaque, !x.exhausted
}

// isWorthStoring reports whether a column is worth its space on the disk: not when its values are many and long, like
// those that every event has for itself.
func (n *node) isWorthStoring(bytes int) bool {
	return len(n.values) <= 16 || n.size <= bytes/columnShare
}

// isAbsent reports whether no message of a block has a path that is none of its columns, when the paths that occur
// beside the columns are all known.
func isAbsent(path string, opaque []opaquePath) bool {
	if !isPlainKey(path) {
		return false
	}
	for _, o := range opaque {
		if path == o.path || o.below && strings.HasPrefix(path, o.path) && path[len(o.path)] == '.' {
			return false
		}
	}
	return true
}
