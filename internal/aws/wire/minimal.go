package wire

import (
	"reflect"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// fillRequired gives every required member a value.
func fillRequired(pl *plan, v reflect.Value, depth int) {
	const deepest = 12 // a required member that contains itself cannot be satisfied; no API has one
	if depth > deepest {
		return
	}
	for _, f := range pl.fields {
		if f.limit == nil || !f.limit.Required {
			continue
		}
		fillValue(f.plan, f.limit, v.Field(f.index), depth+1)
	}
}

// simplest returns the first member of a structure that is a scalar, else the first that does not lead back to the
// structure: a statement of WAFv2 is a match, or a combination of statements.
func simplest(pl *plan) *field {
	for _, f := range pl.fields {
		if f.plan.kind <= kindTime {
			return f
		}
	}
	for _, f := range pl.fields {
		if !leadsTo(f.plan, pl, map[*plan]bool{}) {
			return f
		}
	}
	return pl.fields[0]
}

// leadsTo reports whether what a plan describes may contain what another does.
func leadsTo(from, to *plan, seen map[*plan]bool) bool {
	if from == nil || seen[from] {
		return false
	}
	seen[from] = true
	if from == to || leadsTo(from.elem, to, seen) {
		return true
	}
	for _, f := range from.fields {
		if leadsTo(f.plan, to, seen) {
			return true
		}
	}
	return false
}

func fillValue(pl *plan, limit *model.Constraint, v reflect.Value, depth int) {
	v = settable(v)
	least := 1
	if limit != nil && limit.Min != nil {
		least = max(int(*limit.Min), 1)
	}
	switch pl.kind {
	case kindString:
		v.SetString(exampleText(pl, limit, least))
	case kindBool:
		v.SetBool(true)
	case kindInt:
		v.SetInt(int64(least))
	case kindFloat:
		v.SetFloat(float64(least))
	case kindBlob:
		v.SetBytes([]byte(strings.Repeat("b", least)))
	case kindTime:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	case kindStruct:
		fillRequired(pl, v, depth)
		// A form cannot carry a structure without members.
		if len(pl.fields) > 0 && v.IsZero() {
			f := simplest(pl)
			fillValue(f.plan, f.limit, v.Field(f.index), depth+1)
		}
	case kindList:
		list := reflect.MakeSlice(v.Type(), least, least)
		for i := range least {
			fillValue(pl.elem, nil, list.Index(i), depth)
		}
		v.Set(list)
	case kindMap:
		m := reflect.MakeMap(v.Type())
		for i := range least {
			e := reflect.New(v.Type().Elem()).Elem()
			fillValue(pl.elem, nil, e, depth)
			m.SetMapIndex(reflect.ValueOf("key"+strings.Repeat("y", i)).Convert(v.Type().Key()), e)
		}
		v.Set(m)
	case kindUnion:
		variant := pl.variants[0]
		u := reflect.New(variant.typ)
		fillValue(variant.plan, nil, u.Elem().FieldByName("Value"), depth)
		v.Set(u)
	}
}

// exampleText returns a string that satisfies an enumeration or a pattern: one of the shapes that AWS's patterns
// describe.
func exampleText(pl *plan, limit *model.Constraint, least int) string {
	if len(pl.values) > 0 {
		return pl.values[0]
	}
	candidates := []string{"x", "a", "0", "1", "1234567890", "example", "arn:aws:iam::111122223333:role/example",
		"111122223333", "vpc-12345678", "https://example.com/", "/", "/x", "/x/", "{}"}
	for _, c := range candidates {
		if len(c) < least {
			c += strings.Repeat(c[len(c)-1:], least-len(c))
		}
		if limit == nil || (limit.Pattern == nil || limit.Pattern.MatchString(c)) &&
			(limit.Max == nil || float64(len(c)) <= *limit.Max) {
			return c
		}
	}
	return patternExample(limit.Source, least)
}

// patternExample makes a string of at least that length from a pattern: as little as each part allows, and more of what
// may repeat.
func patternExample(pattern string, least int) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return strings.Repeat("x", least)
	}
	var text string
	for more := range least + 1 {
		if text = generate(re.Simplify(), more); len(text) >= least {
			break
		}
	}
	return text
}

func generate(re *syntax.Regexp, more int) string {
	repeated := func(n int) string {
		return strings.Repeat(generate(re.Sub[0], 0), n)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			if low, high := re.Rune[i], re.Rune[i+1]; high >= 'a' && low <= 'a' {
				return "a"
			} else if low > ' ' && low < 0x7f {
				return string(low)
			}
		}
		return string(re.Rune[0])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpStar:
		return repeated(more)
	case syntax.OpPlus:
		return repeated(1 + more)
	case syntax.OpQuest:
		return repeated(min(more, 1))
	case syntax.OpAlternate:
		return generate(re.Sub[0], more)
	case syntax.OpCapture:
		return generate(re.Sub[0], more)
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(generate(sub, more))
		}
		return b.String()
	}
	return ""
}
