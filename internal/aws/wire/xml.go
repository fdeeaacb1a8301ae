package wire

import (
	"reflect"
	"unicode/utf8"
)

// appendXMLMembers writes the members of a structure as elements. With lists, nil lists are written as empty ones. What
// has become large in a list goes to spill, if there is one, which gives back an empty buffer.
func appendXMLMembers(b []byte, pl *plan, v reflect.Value, lists bool, spill func([]byte) []byte) []byte {
	for _, f := range pl.fields {
		value := v.Field(f.index)
		held, ok := indirect(value)
		switch {
		case !ok && lists && f.plan.kind == kindList && !f.flat:
			b = append(b, '<')
			b = append(b, f.xml...)
			b = append(b, "/>"...)
		case !ok:
		case f.plan.kind == kindList:
			b = appendXMLList(b, f.plan, f.flat, f.xml, held, spill)
		default:
			b = appendXML(b, f.plan, f.flat, f.format, f.xml, value)
		}
	}
	return b
}

// appendXMLList writes a list: one element with those of its items, or only these for a flattened list.
func appendXMLList(b []byte, pl *plan, flat bool, name string, v reflect.Value, spill func([]byte) []byte) []byte {
	item := name
	if !flat {
		item = pl.item
		b = appendOpen(b, name)
	}
	for i := range v.Len() {
		b = appendXML(b, pl.elem, false, pl.elem.format, item, v.Index(i))
		if spill != nil && len(b) >= large {
			b = spill(b)
		}
	}
	if !flat {
		b = appendClose(b, name)
	}
	return b
}

// appendXML writes one element, or several for a flattened list or map.
func appendXML(b []byte, pl *plan, flat bool, format timeFormat, name string, v reflect.Value) []byte {
	v, ok := indirect(v)
	if !ok && pl.kind != kindString {
		return b
	}
	switch pl.kind {
	case kindList:
		return appendXMLList(b, pl, flat, name, v, nil)
	case kindMap:
		entry := pl.item
		if flat {
			entry = name
		} else {
			b = appendOpen(b, name)
		}
		for _, key := range sortedKeys(v) {
			b = appendOpen(b, entry)
			b = appendOpen(b, pl.key)
			b = appendXMLText(b, key.String())
			b = appendClose(b, pl.key)
			b = appendXML(b, pl.elem, false, pl.elem.format, pl.val, v.MapIndex(key))
			b = appendClose(b, entry)
		}
		if !flat {
			b = appendClose(b, name)
		}
		return b
	case kindEventStream:
		return b
	}
	b = appendOpen(b, name)
	switch pl.kind {
	case kindStruct:
		b = appendXMLMembers(b, pl, v, false, nil)
	case kindUnion:
		if variant, value := pl.variantOf(v); variant != nil {
			b = appendXML(b, variant.plan, variant.flat, variant.plan.format, variant.xml, value)
		}
	case kindString:
		b = appendXMLText(b, v.String())
	default:
		b = appendText(b, pl, format, v)
	}
	return appendClose(b, name)
}

func appendOpen(b []byte, name string) []byte {
	b = append(b, '<')
	b = append(b, name...)
	return append(b, '>')
}

func appendClose(b []byte, name string) []byte {
	b = append(b, '<', '/')
	b = append(b, name...)
	return append(b, '>')
}

func appendElement(b []byte, name, text string) []byte {
	b = appendOpen(b, name)
	b = appendXMLText(b, text)
	return appendClose(b, name)
}

// appendXMLText escapes text. A carriage return is written as a reference, since a parser would turn it into a line
// feed; what XML cannot hold at all becomes U+FFFD.
func appendXMLText(b []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		var with string
		switch {
		case r == '&':
			with = "&amp;"
		case r == '<':
			with = "&lt;"
		case r == '>':
			with = "&gt;"
		case r == '"':
			with = "&quot;"
		case r == '\'':
			with = "&#39;"
		case r == '\r':
			with = "&#xD;"
		case r == '\t' || r == '\n':
		case r < 0x20 || r == 0xFFFE || r == 0xFFFF || r == utf8.RuneError && size == 1:
			with = "\ufffd"
		}
		if with != "" {
			b = append(b, s[start:i]...)
			b = append(b, with...)
			start = i + size
		}
		i += size
	}
	return append(b, s[start:]...)
}
