package wire

import (
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// parsers parse bodies. A value that one has parsed is good until it parses the next.
var parsers fastjson.ParserPool

// maxPooledBody is the largest body whose parser is used again, with all its memory, and maxPooledValues is how many
// values it may have: a full batch of log events.
const maxPooledBody, maxPooledValues = 4 << 20, 40_000

// decodeJSONBody sets v from a body that is one JSON value.
func decodeJSONBody(pl *plan, body []byte, v reflect.Value) error {
	if err := CheckValues(body); err != nil {
		return err
	}
	p := parsers.Get()
	if len(body) <= maxPooledBody && (len(body) <= maxPooledValues || countValues(body) <= maxPooledValues) {
		defer parsers.Put(p)
	}
	value, err := p.ParseBytes(body)
	if err == nil {
		// the parser bounds the depth but lets other mistakes pass, the validator does the reverse
		err = fastjson.ValidateBytes(body)
	}
	if err != nil {
		return serialization(malformedf("The request body is not JSON: %v", err))
	}
	return serialization(decodeJSON(pl, formatDefault, value, v))
}

// CheckValues refuses a JSON text of more values than a request may have.
func CheckValues(body []byte) error {
	if !fewValues(body) {
		return serialization(malformedf("The request body has more than %d values", maxNodes))
	}
	return nil
}

// fewValues reports whether a JSON text has at most maxNodes values, by the separators outside of its strings. Each
// takes a hundred bytes to parse and may become a structure of several hundred, so that a body of the largest size
// would become gigabytes, before it is known what its sender may do. The largest honest request, a batch of log events,
// has some ten thousand.
func fewValues(body []byte) bool {
	return len(body) <= maxNodes || countValues(body) <= maxNodes
}

// countValues returns how many values a JSON text has within others at most, and no more than maxNodes+1.
func countValues(body []byte) int {
	values, text := 0, false
	for i := 0; i < len(body) && values <= maxNodes; i++ {
		switch c := body[i]; {
		case c == '"':
			text = !text
		case c == '\\' && text:
			i++
		case (c == ',' || c == '[' || c == '{') && !text:
			values++
		}
	}
	return values
}

// decodeJSON sets v from a parsed JSON value, of which nothing is kept. Members that the schema does not know are
// ignored, as AWS does; of a member that is there twice the last one counts.
func decodeJSON(pl *plan, format timeFormat, value *fastjson.Value, v reflect.Value) error {
	if value.Type() == fastjson.TypeNull {
		return nil
	}
	switch pl.kind {
	case kindStruct:
		object, err := value.Object()
		if err != nil {
			return unexpected(value, "a structure")
		}
		v = settable(v)
		var failed error
		object.Visit(func(name []byte, member *fastjson.Value) {
			f := pl.byName[string(name)]
			if f == nil || f.bind != inBody || failed != nil {
				return
			}
			at := v.Field(f.index)
			at.SetZero()
			failed = decodeJSON(f.plan, f.format, member, at)
		})
		return failed
	case kindList:
		array, err := value.Array()
		if err != nil {
			return unexpected(value, "a list")
		}
		list := reflect.MakeSlice(v.Type(), len(array), len(array))
		for i, element := range array {
			if err := decodeJSON(pl.elem, pl.elem.format, element, list.Index(i)); err != nil {
				return err
			}
		}
		v.Set(list)
		return nil
	case kindMap:
		object, err := value.Object()
		if err != nil {
			return unexpected(value, "a map")
		}
		m := reflect.MakeMapWithSize(v.Type(), object.Len())
		var failed error
		object.Visit(func(key []byte, element *fastjson.Value) {
			if failed != nil {
				return
			}
			e := reflect.New(v.Type().Elem()).Elem()
			failed = decodeJSON(pl.elem, pl.elem.format, element, e)
			m.SetMapIndex(reflect.ValueOf(jsonText(key)).Convert(v.Type().Key()), e)
		})
		v.Set(m)
		return failed
	case kindUnion:
		object, err := value.Object()
		if err != nil {
			return unexpected(value, "a union")
		}
		for _, variant := range pl.variants {
			member := object.Get(variant.json)
			if member == nil || member.Type() == fastjson.TypeNull {
				continue
			}
			if !v.IsNil() {
				return malformedf("A union has exactly one member; found more")
			}
			u := reflect.New(variant.typ)
			if err := decodeJSON(variant.plan, variant.plan.format, member, u.Elem().FieldByName("Value")); err != nil {
				return err
			}
			v.Set(u)
		}
		return nil
	case kindBool:
		b, err := value.Bool()
		if err != nil {
			return unexpected(value, "a boolean")
		}
		settable(v).SetBool(b)
		return nil
	case kindInt:
		if value.Type() != fastjson.TypeNumber {
			return unexpected(value, "an integer")
		}
		v = settable(v)
		i, err := value.Int64()
		if err != nil {
			// 1e3 and 1.0 are integers too.
			f, ferr := value.Float64()
			if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return malformedf("%s is not an integer", value)
			}
			i = int64(f)
		}
		if v.OverflowInt(i) {
			return malformedf("%s is too large for a %d-bit integer", value, v.Type().Bits())
		}
		v.SetInt(i)
		return nil
	case kindFloat:
		if value.Type() != fastjson.TypeNumber {
			return unexpected(value, "a number")
		}
		return parseText(pl, format, value.String(), v)
	case kindTime:
		switch value.Type() {
		case fastjson.TypeNumber:
			f, err := strconv.ParseFloat(value.String(), 64)
			if err != nil {
				return malformedf("Invalid timestamp %s", value)
			}
			t, err := epochTime(f)
			if err != nil {
				return err
			}
			settable(v).Set(reflect.ValueOf(t))
			return nil
		case fastjson.TypeString:
			return parseText(pl, format, jsonText(value.GetStringBytes()), v)
		}
		return unexpected(value, "a timestamp")
	case kindEventStream:
		return nil
	}
	text, err := value.StringBytes()
	if err != nil {
		return unexpected(value, "a string")
	}
	return parseText(pl, format, jsonText(text), v)
}

// jsonText is a copy of a text. Bytes that are not UTF-8 become U+FFFD. (Half a pair of surrogate escapes, which is no
// character either, stays as it is written.)
func jsonText(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

func unexpected(value *fastjson.Value, want string) error {
	found := "a structure"
	switch value.Type() {
	case fastjson.TypeString:
		found = "a string"
	case fastjson.TypeTrue, fastjson.TypeFalse:
		found = "a boolean"
	case fastjson.TypeNumber:
		found = "a number"
	case fastjson.TypeArray:
		found = "a list"
	}
	return malformedf("Expected %s where the request has %s", want, found)
}

// appendJSON writes a value. Members without a value are left out; a nil list inside a list is null.
func appendJSON(b []byte, pl *plan, format timeFormat, v reflect.Value) []byte {
	v, ok := indirect(v)
	if !ok && v.Kind() != reflect.String {
		return append(b, "null"...)
	}
	switch pl.kind {
	case kindStruct:
		b = append(b, '{')
		b, _ = appendJSONMembers(b, pl, v, false, nil)
		return append(b, '}')
	case kindList:
		return appendJSONList(b, pl, v, nil)
	case kindMap:
		b = append(b, '{')
		for i, key := range sortedKeys(v) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSONString(b, key.String())
			b = append(b, ':')
			b = appendJSON(b, pl.elem, pl.elem.format, v.MapIndex(key))
		}
		return append(b, '}')
	case kindUnion:
		b = append(b, '{')
		if variant, value := pl.variantOf(v); variant != nil {
			b = appendJSONString(b, variant.json)
			b = append(b, ':')
			b = appendJSON(b, variant.plan, variant.plan.format, value)
		}
		return append(b, '}')
	case kindString:
		return appendJSONString(b, v.String())
	case kindFloat:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, '"')
			b = appendFloat(b, f, 64)
			return append(b, '"')
		}
		return appendFloat(b, v.Float(), v.Type().Bits())
	case kindBlob:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, v.Bytes())
		return append(b, '"')
	case kindTime:
		t := v.Interface().(time.Time)
		if format == formatDefault || format == formatEpoch {
			return appendEpoch(b, t)
		}
		b = append(b, '"')
		b = appendTime(b, t, format)
		return append(b, '"')
	}
	return appendText(b, pl, format, v)
}

// large is the number of bytes of a response that are sent before the rest is written.
const large = freeAnswer

// appendJSONList writes a list. What has become large goes to spill, if there is one, which gives back an empty buffer.
func appendJSONList(b []byte, pl *plan, v reflect.Value, spill func([]byte) []byte) []byte {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSON(b, pl.elem, pl.elem.format, v.Index(i))
		if spill != nil && len(b) >= large {
			b = spill(b)
		}
	}
	return append(b, ']')
}

// appendJSONMembers writes the members of a structure that belong in the body, and reports whether there were any. With
// lists, nil lists are written as empty ones. Long lists among them go to spill, as in appendJSONList.
func appendJSONMembers(b []byte, pl *plan, v reflect.Value, lists bool, spill func([]byte) []byte) (
	_ []byte, some bool) {
	for _, f := range pl.fields {
		if f.bind != inBody || f.plan.kind == kindEventStream {
			continue
		}
		value := v.Field(f.index)
		held, ok := indirect(value)
		if !ok {
			if !lists || f.plan.kind != kindList {
				continue
			}
			if some {
				b = append(b, ',')
			}
			some = true
			b = appendJSONString(b, f.json)
			b = append(b, ":[]"...)
			continue
		}
		if some {
			b = append(b, ',')
		}
		some = true
		b = appendJSONString(b, f.json)
		b = append(b, ':')
		if f.plan.kind == kindList {
			b = appendJSONList(b, f.plan, held, spill)
			continue
		}
		b = appendJSON(b, f.plan, f.format, value)
	}
	return b, some
}

// variantOf returns which member a union holds, and its value.
func (pl *plan) variantOf(v reflect.Value) (*variant, reflect.Value) {
	held := v.Elem()
	if held.Kind() == reflect.Pointer {
		held = held.Elem()
	}
	for _, variant := range pl.variants {
		if held.IsValid() && held.Type() == variant.typ {
			return variant, held.FieldByName("Value")
		}
	}
	return nil, reflect.Value{}
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		switch x, y := a.String(), b.String(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return keys
}

const hexDigits = "0123456789abcdef"

// appendJSONString quotes s as JSON. Bytes that are not UTF-8 become U+FFFD, as encoding/json has it.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\ufffd"...)
				i += size
				start = i
				continue
			}
			i += size
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendJSONField writes ,"name":"value" or the first member without its comma.
func appendJSONField(b []byte, name, value string) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' {
		b = append(b, ',')
	}
	b = strconv.AppendQuote(b, name)
	b = append(b, ':')
	return appendJSONString(b, value)
}
