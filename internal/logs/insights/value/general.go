package value

// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-general-functions
var general = []Function{
	{Name: "ispresent", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value { return Bool(!a[0].IsNull()) }},
	{Name: "coalesce", Min: 1, Max: -1, Call: func(_ *Env, a []Value) Value {
		for _, v := range a {
			if !v.IsNull() {
				return v
			}
		}
		return Value{}
	}},
	{Name: "case", Min: 2, Max: 21, Call: func(_ *Env, a []Value) Value { // ten branches and a default
		for ; len(a) > 1; a = a[2:] {
			if a[0].Truth() {
				return a[1]
			}
		}
		if len(a) == 1 {
			return a[0]
		}
		return Value{}
	}},
	{Name: "if", Min: 3, Max: 3, Call: func(_ *Env, a []Value) Value {
		if a[0].Truth() {
			return a[1]
		}
		return a[2]
	}},
	{Name: "isNumeric", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		_, ok := a[0].AsNumber()
		return Bool(ok && a[0].kind != BoolKind)
	}},
	{Name: "messageSize", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		s, ok := stringArgument(a[0])
		if !ok {
			return Value{}
		}
		return Int(int64(len(s)))
	}},
	{Name: "queryStartTime", Call: func(env *Env, _ []Value) Value { return Int(env.Start) }},
	{Name: "queryEndTime", Call: func(env *Env, _ []Value) Value { return Int(env.End) }},
	{Name: "queryTimeRange", Call: func(env *Env, _ []Value) Value { return Int(env.End - env.Start) }},
}
