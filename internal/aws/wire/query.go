package wire

import (
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A node is a parameter, or a group of parameters whose names share a beginning: Tags.member.1.Key is a path of four.
type node struct {
	path     string
	value    string
	hasValue bool
	children map[string]*node
	used     bool
}

// maxDepth bounds the dots in a parameter's name, and maxNodes the tree: a small form of long names must not become a
// large tree. maxNodes is also how many values a body of JSON may have. AWS's own limits are far lower.
const (
	maxDepth = 64
	maxNodes = 200_000
)

// parseQuery reads the parameters of a query request into a tree.
func parseQuery(values url.Values) (*node, error) {
	root, nodes := &node{}, 0
	for name, list := range values {
		if name == "" {
			continue
		}
		if strings.Count(name, ".") >= maxDepth {
			return nil, malformedf("The parameter %.100s... is nested too deeply", name)
		}
		n := root
		for end := 0; ; {
			part := name[end:]
			dot := strings.IndexByte(part, '.')
			if dot >= 0 {
				part = part[:dot]
			}
			end += len(part)
			child := n.children[part]
			if child == nil {
				if n.children == nil {
					n.children = map[string]*node{}
				}
				child = &node{path: name[:end]}
				n.children[part] = child
				if nodes++; nodes > maxNodes {
					return nil, malformedf("The request has more than %d parameters", maxNodes)
				}
			}
			n = child
			if dot < 0 {
				break
			}
			end++
		}
		n.value, n.hasValue = list[0], true
	}
	return root, nil
}

// takeChild returns the child with that name and notes that the schema knows it.
func (n *node) takeChild(name string) *node {
	c := n.children[name]
	if c != nil {
		c.used = true
	}
	return c
}

// firstUnused returns the name of a parameter that no member of the schema took, the first in order; "" when there is
// none.
func (n *node) firstUnused() string {
	var names []string
	for name := range n.children {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c := n.children[name]
		if !c.used {
			for len(c.children) > 0 && !c.hasValue {
				var first string
				for name := range c.children {
					if first == "" || name < first {
						first = name
					}
				}
				c = c.children[first]
			}
			return c.path
		}
		if p := c.firstUnused(); p != "" {
			return p
		}
	}
	return ""
}

// numbered returns the children called 1, 2, 3, ... in order. Gaps are closed, as AWS does.
func (n *node) numbered() []*node {
	type numberedNode struct {
		n    int
		node *node
	}
	list := make([]numberedNode, 0, len(n.children))
	for name, c := range n.children {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 {
			continue
		}
		c.used = true
		list = append(list, numberedNode{i, c})
	}
	slices.SortFunc(list, func(a, b numberedNode) int { return a.n - b.n })
	out := make([]*node, len(list))
	for i := range list {
		out[i] = list[i].node
	}
	return out
}

// isEmptyID reports whether a parameter is an ID without a value, which EC2 takes for one that is not there. What
// authorizes a request and what carries it out must not differ about that.
func isEmptyID(f *field, n *node) bool {
	return f.pointer && strings.HasSuffix(f.goName, "Id") && n.hasValue && n.value == ""
}

// decodeQuery sets v from the parameters below n. With flat, lists and maps have no level for their elements' name, as
// everywhere in ec2Query.
func decodeQuery(pl *plan, flat, ec2 bool, n *node, v reflect.Value) error {
	switch pl.kind {
	case kindStruct:
		v = settable(v)
		for _, f := range pl.fields {
			c := n.takeChild(f.query)
			if c == nil || ec2 && isEmptyID(f, c) {
				continue
			}
			if err := decodeQuery(f.plan, f.flat, ec2, c, v.Field(f.index)); err != nil {
				return err
			}
		}
		for _, name := range pl.hidden {
			n.takeChild(name)
		}
		return nil
	case kindUnion:
		for _, variant := range pl.variants {
			c := n.takeChild(variant.xml)
			if c == nil {
				continue
			}
			if !v.IsNil() {
				return malformedf("%s must have exactly one member", n.path)
			}
			u := reflect.New(variant.typ)
			if err := decodeQuery(variant.plan, variant.flat, ec2, c, u.Elem().FieldByName("Value")); err != nil {
				return err
			}
			v.Set(u)
		}
		return nil
	case kindList:
		holder := n
		if !flat && !ec2 {
			holder = n.takeChild(pl.item)
			if holder == nil {
				// Some old clients say member whatever the element is called.
				holder = n.takeChild("member")
			}
			if holder == nil {
				holder = &node{}
			}
		}
		elements := holder.numbered()
		if len(elements) == 0 && !n.hasValue {
			return nil
		}
		list := reflect.MakeSlice(v.Type(), len(elements), len(elements))
		for i, e := range elements {
			if err := decodeQuery(pl.elem, false, ec2, e, list.Index(i)); err != nil {
				return err
			}
		}
		v.Set(list)
		return nil
	case kindMap:
		holder := n
		if !flat {
			if holder = n.takeChild(pl.item); holder == nil {
				return nil
			}
		}
		entries := holder.numbered()
		m := reflect.MakeMapWithSize(v.Type(), len(entries))
		for _, e := range entries {
			key := e.takeChild(pl.key)
			if key == nil {
				return malformedf("%s.%s is missing", e.path, pl.key)
			}
			value := reflect.New(v.Type().Elem()).Elem()
			if c := e.takeChild(pl.val); c != nil {
				if err := decodeQuery(pl.elem, false, ec2, c, value); err != nil {
					return err
				}
			}
			m.SetMapIndex(reflect.ValueOf(key.value).Convert(v.Type().Key()), value)
		}
		v.Set(m)
		return nil
	}
	if !n.hasValue {
		return malformedf("The parameter %s has no value", n.path)
	}
	if err := parseText(pl, pl.format, n.value, v); err != nil {
		return malformedf("Invalid value for parameter %s: %v", n.path, err)
	}
	return nil
}

// addQuery writes the parameters of v under name: the client's side, for requests that tests send.
func addQuery(values url.Values, pl *plan, flat, ec2 bool, name string, v reflect.Value) {
	v, ok := indirect(v)
	if !ok {
		return
	}
	below := func(part string) string {
		if name == "" {
			return part
		}
		return name + "." + part
	}
	switch pl.kind {
	case kindStruct:
		for _, f := range pl.fields {
			addQuery(values, f.plan, f.flat, ec2, below(f.query), v.Field(f.index))
		}
	case kindUnion:
		if variant, value := pl.variantOf(v); variant != nil {
			addQuery(values, variant.plan, variant.flat, ec2, below(variant.xml), value)
		}
	case kindList:
		if v.Len() == 0 {
			values.Set(name, "")
			return
		}
		if !flat && !ec2 {
			name = below(pl.item)
		}
		for i := range v.Len() {
			element, before := name+"."+strconv.Itoa(i+1), len(values)
			addQuery(values, pl.elem, false, ec2, element, v.Index(i))
			if len(values) == before {
				values.Set(element, "") // keeps the place of an element without members
			}
		}
	case kindMap:
		if !flat {
			name = below(pl.item)
		}
		for i, key := range sortedKeys(v) {
			entry := name + "." + strconv.Itoa(i+1) + "."
			values.Set(entry+pl.key, key.String())
			addQuery(values, pl.elem, false, ec2, entry+pl.val, v.MapIndex(key))
		}
	default:
		values.Set(name, string(appendText(nil, pl, pl.format, v)))
	}
}
