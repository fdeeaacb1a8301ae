package value

import "strings"

// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-json-functions
var structures = []Function{
	{Name: "jsonParse", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value { return structure(a[0]) }},
	{Name: "jsonStringify", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		if a[0].kind != ListKind && a[0].kind != MapKind {
			return Value{}
		}
		return String(a[0].text)
	}},
	{Name: "jsonArraySize", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		list := structure(a[0])
		if list.kind != ListKind {
			return Value{}
		}
		n := int64(0)
		for range list.Elements {
			n++
		}
		return Int(n)
	}},
	{Name: "jsonArrayContains", Min: 2, Max: 2, Call: func(env *Env, a []Value) Value {
		list := structure(a[0])
		if list.kind != ListKind {
			return Bool(false)
		}
		for _, e := range list.Elements {
			if Equal(e, a[1]) {
				return Bool(true)
			}
			if len(a[1].text) > longest && env.Stopped() { // a long number is read for each element
				break
			}
		}
		return Bool(false)
	}},
}

// structure returns the list or map that v is or, if it is a string, spells. Other JSON is Null.
func structure(v Value) Value {
	switch v.kind {
	case ListKind, MapKind:
		return v
	case StringKind:
		s := strings.TrimLeft(v.text, " \t\r\n")
		if s == "" || s[0] != '{' && s[0] != '[' {
			return Value{}
		}
		return FromJSON([]byte(s))
	}
	return Value{}
}
