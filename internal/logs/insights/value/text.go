package value

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html#CWL_QuerySyntax-string-functions
//
// Numbers, booleans and moments are the text they are shown as.
var texts = []Function{
	{Name: "isempty", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		s, _ := stringArgument(a[0])
		return Bool(s == "")
	}},
	{Name: "isblank", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		s, _ := stringArgument(a[0])
		return Bool(strings.TrimSpace(s) == "")
	}},
	{Name: "concat", Min: 1, Max: -1, Call: func(_ *Env, a []Value) Value { return concatStrings(a) }},
	{Name: "ltrim", Min: 1, Max: 2, Call: trimFunction(strings.TrimLeftFunc)},
	{Name: "rtrim", Min: 1, Max: 2, Call: trimFunction(strings.TrimRightFunc)},
	{Name: "trim", Min: 1, Max: 2, Call: trimFunction(strings.TrimFunc)},
	{Name: "strlen", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value {
		s, ok := stringArgument(a[0])
		if !ok {
			return Value{}
		}
		return Int(int64(utf8.RuneCountInString(s)))
	}},
	{Name: "toupper", Min: 1, Max: 1, Call: stringFunction(strings.ToUpper)},
	{Name: "tolower", Min: 1, Max: 1, Call: stringFunction(strings.ToLower)},
	{Name: "substr", Min: 2, Max: 3, Call: func(_ *Env, a []Value) Value { return substring(a) }},
	{Name: "replace", Min: 3, Max: 3, Call: func(_ *Env, a []Value) Value { return replace(a) }},
	{Name: "regexReplace", Min: 3, Max: 3, Patterns: []int{1}, Call: regexReplace},
	{Name: "strcontains", Min: 2, Max: 3, Call: func(_ *Env, a []Value) Value {
		if len(a) == 3 && a[2].Truth() {
			return testStrings(a, func(s, part string) bool {
				return strings.Contains(strings.ToLower(s), strings.ToLower(part))
			})
		}
		return testStrings(a, strings.Contains)
	}},
	{Name: "startsWith", Min: 2, Max: 2,
		Call: func(_ *Env, a []Value) Value { return testStrings(a, strings.HasPrefix) }},
	{Name: "endsWith", Min: 2, Max: 2, Call: func(_ *Env, a []Value) Value {
		return testStrings(a,
			strings.HasSuffix)
	}},
	{Name: "urlencode", Min: 1, Max: 1, Call: stringFunction(url.QueryEscape)},
	{Name: "urldecode", Min: 1, Max: 1, Call: partial(url.QueryUnescape)},
	{Name: "base64encode", Min: 1, Max: 1,
		Call: stringFunction(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
	{Name: "base64decode", Min: 1, Max: 1, Call: partial(func(s string) (string, error) {
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
		return string(b), err
	})},
	{Name: "split", Min: 2, Max: 2, Call: func(_ *Env, a []Value) Value { return splitString(a) }},
	{Name: "hexToAscii", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value { return hexToAscii(a[0]) }},
	{Name: "hexToDec", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value { return hexToDec(a[0]) }},
	{Name: "decToHex", Min: 1, Max: 1, Call: func(_ *Env, a []Value) Value { return decToHex(a[0]) }},
}

func stringFunction(f func(string) string) func(*Env, []Value) Value {
	return partial(func(s string) (string, error) { return f(s), nil })
}

// partial returns a function that not every text has a result for. What isn't UTF-8 is no text.
func partial(f func(string) (string, error)) func(*Env, []Value) Value {
	return func(_ *Env, a []Value) Value {
		s, ok := stringArgument(a[0])
		if !ok {
			return Value{}
		}
		r, err := f(s)
		if err != nil || !utf8.ValidString(r) && utf8.ValidString(s) {
			return Value{}
		}
		return limited(r)
	}
}

// testStrings returns a condition on two texts; it does not hold if one is absent (strcontains: "and 0 otherwise").
func testStrings(a []Value, f func(s, part string) bool) Value {
	s, ok1 := stringArgument(a[0])
	part, ok2 := stringArgument(a[1])
	return Bool(ok1 && ok2 && f(s, part))
}

func concatStrings(a []Value) Value {
	size := 0
	for _, v := range a {
		s, ok := stringArgument(v)
		if size += len(s); !ok || size > maxText {
			return Value{}
		}
	}
	b := make([]byte, 0, size)
	for _, v := range a {
		b = v.Append(b)
	}
	return String(string(b))
}

// trimFunction removes white space, or the characters of a second argument, with one of strings.Trim...Func.
func trimFunction(f func(string, func(rune) bool) string) func(*Env, []Value) Value {
	return func(_ *Env, a []Value) Value {
		s, ok := stringArgument(a[0])
		if !ok {
			return Value{}
		}
		if len(a) == 1 {
			return String(f(s, unicode.IsSpace))
		}
		chars, ok := stringArgument(a[1])
		if !ok {
			return Value{}
		}
		return String(f(s, runeSet(chars)))
	}
}

// runeSet returns a function that reports whether a rune is among those of a text, which may be long.
func runeSet(text string) func(rune) bool {
	if len(text) <= 32 {
		return func(r rune) bool { return strings.ContainsRune(text, r) }
	}
	set := make([]uint64, unicode.MaxRune/64+1)
	for _, r := range text {
		set[r/64] |= 1 << (r % 64)
	}
	return func(r rune) bool { return set[r/64]&(1<<(r%64)) != 0 }
}

// substring counts code points from 0. An index or a length below 0 makes it Null; beyond the end there is nothing.
func substring(a []Value) Value {
	s, ok := stringArgument(a[0])
	if !ok {
		return Value{}
	}
	var at [2]int
	at[1] = len(s)
	for i, v := range a[1:] {
		f, ok := v.AsNumber()
		if f = math.Trunc(f); !ok || f < 0 {
			return Value{}
		}
		at[i] = int(min(f, float64(len(s))))
	}
	s = s[prefixLength(s, at[0]):]
	return String(s[:prefixLength(s, at[1])])
}

// prefixLength returns how many bytes the first n code points of s take.
func prefixLength(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// replace replaces every occurrence; an empty search value occurs nowhere.
func replace(a []Value) Value {
	s, ok1 := stringArgument(a[0])
	old, ok2 := stringArgument(a[1])
	with, ok3 := stringArgument(a[2])
	if !ok1 || !ok2 || !ok3 {
		return Value{}
	}
	if old == "" {
		return String(s)
	}
	if grows := len(with) - len(old); grows > 0 && len(s)+strings.Count(s, old)*grows > maxText {
		return Value{}
	}
	return limited(strings.ReplaceAll(s, old, with))
}

// How many expressions an Env keeps compiled, and how many steps they have together. They are constants in most
// queries.
const (
	maxRegexes    = 64
	maxRegexSteps = 10_000
)

// regexReplace replaces every match. In the replacement $1 or \1 is the text of a group, ${name} that of a
// named one, $$ a dollar and \\ a backslash; a group that isn't there is empty.
func regexReplace(env *Env, a []Value) Value {
	s, ok1 := stringArgument(a[0])
	pattern, ok2 := stringArgument(a[1])
	with, ok3 := stringArgument(a[2])
	if !ok1 || !ok2 || !ok3 {
		return Value{}
	}
	re := env.regex(pattern)
	if re == nil {
		return Value{}
	}
	replacement, ok := re.parseReplacement(with)
	if !ok {
		return Value{}
	}
	var b []byte
	last, replaced := 0, false
	re.forEachMatch(s, env.Done, func(at []int) bool {
		b, replaced = append(b, s[last:at[0]]...), true
		b, ok = replacement.append(b, s, at, env.Done)
		last = at[1]
		return ok
	})
	switch {
	case !ok:
		return Value{}
	case !replaced:
		return String(s)
	}
	return limited(string(append(b, s[last:]...)))
}

// regex returns a compiled expression; nil for what is none. Whoever compiles the query checks constants.
func (e *Env) regex(pattern string) *Regex {
	if len(pattern) > maxPattern {
		return nil
	}
	re, ok := e.regexes[pattern]
	if ok {
		return re
	}
	pattern = strings.Clone(pattern)
	re, _ = CompileRegex(pattern)
	steps := 1
	if re != nil {
		steps = re.steps
	}
	if e.regexes == nil || len(e.regexes) >= maxRegexes || e.regexSteps+steps > maxRegexSteps {
		e.regexes, e.regexSteps = map[string]*Regex{}, 0
	}
	e.regexes[pattern], e.regexSteps = re, e.regexSteps+steps
	return re
}

// DropRegexes forgets the expressions that were compiled if they have more steps together than the given ones: for one
// of many environments.
func (e *Env) DropRegexes(steps int) {
	if e.regexSteps > steps {
		e.regexes, e.regexSteps = nil, 0
	}
}

// maxReplacement limits the pieces of a replacement: groups, and texts between them. A query has at most as
// many characters.
const maxReplacement = 10_000

// replacement is the third argument of regexReplace.
type replacement []replacementPiece

// replacementPiece is the text of a group, or a literal.
type replacementPiece struct {
	group   int // -1: literal
	literal string
}

// parseReplacement reads a replacement for matches of r; false if it has too many pieces.
func (r *Regex) parseReplacement(with string) (all replacement, ok bool) {
	groups := r.re.NumSubexp() + 1
	braces := strings.LastIndexByte(with, '}')
	start := 0 // of the literal at hand
	literal := func(end int) {
		if start < end {
			all = append(all, replacementPiece{-1, with[start:end]})
		}
	}
	for i := 0; i < len(with); i++ {
		if len(all) > maxReplacement {
			return nil, false
		}
		c := with[i]
		if c != '$' && c != '\\' || i+1 == len(with) {
			continue
		}
		rest := with[i+1:]
		group, length := -1, 0
		switch digits := countDigits(rest[:min(len(rest), 9)]); {
		case rest[0] == c: // one of the two
			literal(i + 1)
			i++
			start = i + 1
			continue
		case digits > 0:
			length = digits
			// As many digits as name a group: $10 is the first group and a 0 if there are nine.
			for group, _ = strconv.Atoi(rest[:length]); length > 1 && group >= groups; {
				length--
				group, _ = strconv.Atoi(rest[:length])
			}
		case c == '$' && rest[0] == '{' && i < braces:
			end := strings.IndexByte(rest, '}')
			name := rest[1:end]
			if group = r.re.SubexpIndex(name); countDigits(name) == len(name) && name != "" {
				group, _ = strconv.Atoi(name)
			}
			length = end + 1
		default:
			continue
		}
		literal(i)
		if group >= 0 && group < groups {
			all = append(all, replacementPiece{group: group})
		}
		i += length
		start = i + 1
	}
	literal(len(with))
	return all, len(all) <= maxReplacement
}

// append appends the replacement for the match of s at at; false if the text becomes longer than maxText, or when done
// is closed.
func (r replacement) append(b []byte, s string, at []int, done <-chan struct{}) ([]byte, bool) {
	for i, piece := range r {
		text := piece.literal
		if g := piece.group; g >= 0 && at[2*g] >= 0 {
			text = s[at[2*g]:at[2*g+1]]
		}
		if len(b)+len(text) > maxText || i%1024 == 1023 && isClosed(done) {
			return nil, false
		}
		b = append(b, text...)
	}
	return b, len(b) <= maxText
}

// splitString gives a list of strings; an empty delimiter divides into code points.
func splitString(a []Value) Value {
	s, ok1 := stringArgument(a[0])
	by, ok2 := stringArgument(a[1])
	if !ok1 || !ok2 {
		return Value{}
	}
	b := []byte{'['}
	for part := range strings.SplitSeq(s, by) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		if b = appendQuoted(b, part); len(b) > maxText {
			return Value{}
		}
	}
	return Value{kind: ListKind, text: string(append(b, ']'))}
}

// hexDigits returns the text of v without 0x.
func hexDigits(v Value) (string, bool) {
	s, ok := stringArgument(v)
	if len(s) > 1 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	return s, ok && s != ""
}

// hexToAscii takes whole bytes of ASCII.
func hexToAscii(v Value) Value {
	s, ok := hexDigits(v)
	b, err := hex.DecodeString(s)
	if !ok || err != nil {
		return Value{}
	}
	for _, c := range b {
		if c >= 0x80 {
			return Value{}
		}
	}
	return String(string(b))
}

// hexToDec takes up to 64 bits, with or without 0x, and a sign as decToHex gives it.
func hexToDec(v Value) Value {
	s, ok := stringArgument(v)
	rest, negative := strings.CutPrefix(s, "-")
	digits, _ := hexDigits(String(rest))
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || negative && n > 1<<63 {
		return Value{}
	}
	if negative {
		return Int(-int64(n))
	}
	return literal(strconv.FormatUint(n, 10))
}

// decToHex truncates towards zero; beyond 64 bits it is Null.
func decToHex(v Value) Value {
	n, ok := truncation(64)(nil, []Value{v}).AsInt()
	if !ok {
		return Value{}
	}
	sign := ""
	if n < 0 {
		sign = "-"
	}
	return String(sign + "0x" + strconv.FormatUint(magnitude(n), 16))
}
