package value

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/regexsize"
)

// Bounds on regular expressions: on their text, and on the instructions of the compiled program (an expression that
// repeats what it repeats grows as their product). Matching takes time in proportion to the program and the text: the
// largest program needs some ten seconds for a message of 1 MiB, at worst; what queries have is ten to a hundred times
// smaller. All matches in a text may take time in proportion to the square of its length.
const (
	maxPattern = 4096
	maxProgram = 1000
	// uninterrupted is up to how many steps, of a program for a text, are not worth it to look whether they shall end:
	// they take about a second.
	uninterrupted = 1 << 26
)

// Regex is a compiled regular expression of a query. It matches in time linear in the text, and is safe for use by many
// goroutines.
type Regex struct {
	pattern string
	re      *regexp.Regexp
	steps   int // of its program, about
	// behind gives, in a text that begins with a character that is not to be matched, the match as its first group
	behind   func() *regexp.Regexp
	literals []string
	// the expression is one of these texts and nothing else, so that it matches what contains one; nil: it is more
	needles []needle
}

// CompileRegex compiles what a query has between the slashes of /.../ (or in a string, where a command takes the
// expression as one). Errors say what is wrong and what to write instead.
//
// The syntax is that of https://golang.org/s/re2syntax, as on AWS for regexReplace. `\/` is a slash, (?<name>...) names
// a group, and what other dialects (Java's, in many queries found on the web) write differently is translated where the
// meaning stays: \Z, \h, \R, \e and \uXXXX; possessive quantifiers, atomic groups, lookaround and backreferences are
// refused.
func CompileRegex(pattern string) (*Regex, error) {
	if len(pattern) > maxPattern {
		return nil,
			fmt.Errorf(
				"the regular expression is %d bytes long; at most %d are allowed: split it into several conditions",
				len(pattern), maxPattern)
	}
	translated, err := translate(pattern)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(translated, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			switch e.Code {
			case syntax.ErrInvalidRepeatSize, syntax.ErrLarge:
				return nil,
					fmt.Errorf(
						"the regular expression repeats too much (%s): a count can be 1000 at most, also when "+
							"repetitions are nested", e.Expr)
			case syntax.ErrNestingDepth:
				return nil, errNesting
			}
			return nil, fmt.Errorf("the regular expression is not valid: %s: %s", e.Code, e.Expr)
		}
		return nil, fmt.Errorf("the regular expression is not valid: %w", err)
	}
	r := &Regex{pattern: pattern, needles: needles(tree)}
	if nesting(tree) > maxProgram/2 {
		return nil, errNesting
	}
	n := regexsize.Estimate(tree)
	r.steps = max(n, 1)
	if n > maxProgram && r.needles == nil {
		return nil,
			fmt.Errorf(
				"the regular expression is too large (about %d steps, at most %d are allowed): use smaller counts in {...}", n, maxProgram)
	}
	re, err := regexp.Compile(translated)
	if err != nil {
		return nil, fmt.Errorf("the regular expression is not valid: %w", err)
	}
	r.re, r.literals = re, literals(tree.Simplify())
	r.behind = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s:\A.)(?s:.*?)(` + translated + `)`)
	})
	return r, nil
}

// Steps returns about how many instructions its program has.
func (r *Regex) Steps() int { return r.steps }

// stoppable reads a text until done is closed.
type stoppable struct {
	text string
	read int
	done <-chan struct{}
}

// ReadRune implements [io.RuneReader].
func (s *stoppable) ReadRune() (r rune, size int, err error) {
	if s.read++; s.read%4096 == 0 && isClosed(s.done) || s.text == "" {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(s.text)
	s.text = s.text[size:]
	return r, size, nil
}

// find returns the leftmost match in s and its groups, as package regexp does. When done is closed it ends early.
func (r *Regex) find(s string, done <-chan struct{}) []int {
	if len(s)*r.steps <= uninterrupted {
		return r.re.FindStringSubmatchIndex(s)
	}
	return r.re.FindReaderSubmatchIndex(&stoppable{text: s, done: done})
}

// forEachMatch calls yield with all matches in s, as package regexp finds them, until yield returns false or done is
// closed. It holds one match at a time.
func (r *Regex) forEachMatch(s string, done <-chan struct{}, yield func(at []int) bool) {
	if len(s)*len(s)*r.steps <= uninterrupted {
		for _, at := range r.re.FindAllStringSubmatchIndex(s, -1) {
			if !yield(at) {
				return
			}
		}
		return
	}
	for pos, last := 0, -1; pos <= len(s) && !isClosed(done); {
		at := r.findFrom(s, pos, done)
		if at == nil {
			return
		}
		if empty := at[1] == pos; (!empty || at[0] != last) && !yield(at) { // there is no empty one behind another
			return
		}
		pos, last = r.behindMatch(s, pos, at), at[1]
	}
}

// behindMatch returns where the search goes on behind a match that was searched from pos.
func (r *Regex) behindMatch(s string, pos int, at []int) int {
	if at[1] != pos {
		return at[1]
	}
	_, size := utf8.DecodeRuneInString(s[pos:])
	return pos + max(size, 1)
}

// findFrom is like find, for matches that begin at pos or behind it.
func (r *Regex) findFrom(s string, pos int, done <-chan struct{}) []int {
	if pos == 0 {
		return r.re.FindReaderSubmatchIndex(&stoppable{text: s, done: done})
	}
	_, size := utf8.DecodeLastRuneInString(s[:pos])
	start := pos - size
	at := r.behind().FindReaderSubmatchIndex(&stoppable{text: s[start:], done: done})
	if at == nil {
		return nil
	}
	for i := range at {
		if at[i] >= 0 {
			at[i] += start
		}
	}
	return at[2:]
}

var errNesting = errors.New("the regular expression is nested too deeply")

// nesting returns how deeply expressions stand inside of re, itself included.
func nesting(re *syntax.Regexp) int {
	deepest := 0
	for _, sub := range re.Sub {
		deepest = max(deepest, nesting(sub))
	}
	return deepest + 1
}

// translate rewrites what queries write and Go's syntax lacks.
func translate(pattern string) (string, error) {
	var b strings.Builder
	class := 0          // > 0: inside [...]
	quantified := false // the last thing was a quantifier
	refuse := func(what, instead string) error {
		return fmt.Errorf(
			"the regular expression uses %s, which Logs Insights does not support (it matches in linear time, with "+
				"RE2): %s", what, instead)
	}
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		rest := pattern[i:]
		if c == '\\' && i+1 < len(pattern) {
			i++
			switch e := pattern[i]; {
			case e == '/':
				b.WriteByte('/')
			case e == 'e':
				b.WriteString(`\x1b`)
			case e == 'u' && len(rest) >= 6 && hexValue(rest[2]) >= 0 && hexValue(rest[3]) >= 0 &&
				hexValue(rest[4]) >= 0 &&
				hexValue(rest[5]) >= 0:
				b.WriteString(`\x{` + rest[2:6] + `}`)
				i += 4
			case e == 'h' && class == 0:
				b.WriteString(`[\t ]`)
			case e == 'h':
				b.WriteString(`\t `)
			case e == 'R' && class == 0:
				b.WriteString(`(?:\r\n|[\n\r])`)
			case e == 'Z' && class == 0:
				b.WriteString(`(?:\n?\z)`)
			case '1' <= e && e <= '9' && class == 0:
				return "", refuse(`the backreference \`+string(e),
					"write the text out, or compare two fields in a filter")
			case e == 'k' && class == 0:
				return "", refuse(`a backreference \k`, "write the text out, or compare two fields in a filter")
			case e == 'Q':
				end := strings.Index(rest, `\E`)
				if end < 0 {
					end = len(rest)
				}
				b.WriteString(regexp.QuoteMeta(strings.TrimPrefix(rest[:end], `\Q`)))
				i += min(end+2, len(rest)) - 2
			case isPunctuation(e):
				b.WriteByte('\\')
				b.WriteByte(e)
			case e >= 0x80 || e == ' ':
				b.WriteByte(e)
			default:
				b.WriteByte('\\')
				b.WriteByte(e)
			}
			quantified = false
			continue
		}
		if class > 0 {
			switch {
			case c == ']':
				class = 0
			case strings.HasPrefix(rest, "[:") && strings.Contains(rest, ":]"):
				end := strings.Index(rest, ":]") + 2
				b.WriteString(rest[:end])
				i += end - 1
				continue
			case c == '&' && strings.HasPrefix(rest, "&&"):
				return "", refuse("an intersection of character classes (&&)", "list the characters")
			case c == '[':
				b.WriteString(`\[`)
				continue
			}
			b.WriteByte(c)
			continue
		}
		switch c {
		case '[':
			class = 1
			b.WriteByte(c)
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				i++
				b.WriteByte('^')
			}
			if i+1 < len(pattern) && pattern[i+1] == ']' {
				i++
				b.WriteString(`\]`)
			}
			quantified = false
			continue
		case '(':
			for _, l := range []struct{ open, what, instead string }{
				{"(?=", "lookahead (?=...)", "use two conditions joined by `and`"},
				{"(?!", "negative lookahead (?!...)", "add a condition with `not like`"},
				{"(?<=", "lookbehind (?<=...)",
					"put the text before it into the expression and take the part you want with a group"},
				{"(?<!", "negative lookbehind (?<!...)", "add a condition with `not like`"},
				{"(?>", "an atomic group (?>...)", "use an ordinary group (?:...)"},
			} {
				if strings.HasPrefix(rest, l.open) {
					return "", refuse(l.what, l.instead)
				}
			}
		case '+':
			if quantified {
				return "", refuse("a possessive quantifier ("+pattern[max(0, i-1):i+1]+")", "leave out the second +")
			}
		}
		quantified = c == '*' || c == '?' || c == '+' || c == '}' && counted(pattern[:i+1])
		b.WriteByte(c)
	}
	return b.String(), nil
}

// counted reports whether s ends in a count such as {2,3}.
func counted(s string) bool {
	open := strings.LastIndexByte(s, '{')
	if open < 0 {
		return false
	}
	inner := s[open+1 : len(s)-1]
	return inner != "" && inner[0] != ',' && strings.Trim(inner, "0123456789,") == ""
}

func isPunctuation(c byte) bool {
	return strings.IndexByte("!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~", c) >= 0
}

// Match reports whether s contains a match. What it returns after done was closed says nothing.
func (r *Regex) Match(s string, done <-chan struct{}) bool {
	if r.needles != nil {
		unsure := false
		for _, n := range r.needles {
			if n.isFoundIn(s, done) {
				return true
			}
			unsure = unsure || n.odd
		}
		return unsure && strings.ContainsAny(s, "\u017f\u212a") && r.match(s, done)
	}
	for _, l := range r.literals {
		if !strings.Contains(s, l) {
			return false
		}
	}
	return r.match(s, done)
}

func (r *Regex) match(s string, done <-chan struct{}) bool {
	if len(s)*r.steps <= uninterrupted {
		return r.re.MatchString(s)
	}
	return r.re.MatchReader(&stoppable{text: s, done: done})
}

// needle is a literal text to search for. Most queries have expressions such as /Exception/, /(?i)exception/ and
// /(?i)(error|failure)/, and searching for literals is some ten times faster than the automaton of regexp.
type needle struct {
	text   string // in lower case if fold
	fold   bool   // case does not matter; the text is ASCII
	anchor int    // if fold: the index of its rarest letter
	odd    bool   // if fold: it has a k or an s, which also match the Kelvin sign and the long s
}

// needles returns what an expression is that matches texts and nothing else; nil for all others.
func needles(re *syntax.Regexp) []needle {
	switch re.Op {
	case syntax.OpCapture:
		return needles(re.Sub[0])
	case syntax.OpAlternate:
		var all []needle
		for _, sub := range re.Sub {
			n := needles(sub)
			if n == nil || len(all) > 16 {
				return nil
			}
			all = append(all, n...)
		}
		return all
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, utf8.RuneError) { // matches any byte that is no UTF-8, too
			return nil
		}
		n := needle{text: string(re.Rune)}
		if re.Flags&syntax.FoldCase == 0 || !caseMatters(re.Rune) {
			return []needle{n}
		}
		if len(n.text) != len(re.Rune) { // not ASCII
			return nil
		}
		n.text, n.fold = strings.ToLower(n.text), true
		n.odd = strings.ContainsAny(n.text, "ks")
		const rarest = "zqxjkvbpygfwmucldrhsnioate 0123456789"
		best := len(rarest)
		for i := range len(n.text) {
			if at := strings.IndexByte(rarest, n.text[i]); at >= 0 && at < best {
				best, n.anchor = at, i
			}
		}
		return []needle{n}
	}
	return nil
}

func (n needle) isFoundIn(s string, done <-chan struct{}) bool {
	if !n.fold {
		return strings.Contains(s, n.text)
	}
	c := n.text[n.anchor]
	lower, upper := indexFrom(s, 0, c), indexFrom(s, 0, upperCase(c))
	for tries := 1; lower < len(s) || upper < len(s); tries++ {
		if tries%4096 == 0 && isClosed(done) {
			return false
		}
		at := min(lower, upper)
		if start := at - n.anchor; start >= 0 && start+len(n.text) <= len(s) &&
			sameFold(s[start:start+len(n.text)], n.text) {
			return true
		}
		if at == lower {
			lower = indexFrom(s, at+1, c)
		}
		if at == upper {
			upper = indexFrom(s, at+1, upperCase(c))
		}
	}
	return false
}

// indexFrom returns the index of c in s, from i on; len(s) if there is none.
func indexFrom(s string, i int, c byte) int {
	if at := strings.IndexByte(s[i:], c); at >= 0 {
		return i + at
	}
	return len(s)
}

func upperCase(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// sameFold compares s with text in lower case, in ASCII.
func sameFold(s, lower string) bool {
	for i := range len(lower) {
		if s[i] != lower[i] && s[i] != upperCase(lower[i]) {
			return false
		}
	}
	return true
}

// Groups returns the names of the capturing groups, in order; "" for one without a name.
func (r *Regex) Groups() []string { return r.re.SubexpNames()[1:] }

// Find appends to dst the text of each capturing group of the leftmost match in s (Null for a
// group that took no part in it) and reports whether there was a match. What it returns after done was closed says
// nothing.
func (r *Regex) Find(dst []Value, s string, done <-chan struct{}) ([]Value, bool) {
	for _, l := range r.literals {
		if !strings.Contains(s, l) {
			return dst, false
		}
	}
	at := r.find(s, done)
	if at == nil {
		return dst, false
	}
	for i := 2; i < len(at); i += 2 {
		if at[i] < 0 {
			dst = append(dst, Value{})
		} else {
			dst = append(dst, String(s[at[i]:at[i+1]]))
		}
	}
	return dst, true
}

// Literals returns substrings that every match contains, so that whoever skips data may skip what
// lacks one of them. There may be none; parts that ignore case give none.
func (r *Regex) Literals() []string { return r.literals }

// String returns the pattern as the query has it.
func (r *Regex) String() string { return r.pattern }

// literals returns what every text that re matches contains. It keeps what is certain and gives up on the rest.
func literals(re *syntax.Regexp) []string {
	var found []string
	var text strings.Builder // what the last parts matched, one right behind the other
	flush := func() {
		if text.Len() > 0 && !slices.Contains(found, text.String()) {
			found = append(found, text.String())
		}
		text.Reset()
	}
	var walk func(re *syntax.Regexp)
	walk = func(re *syntax.Regexp) {
		switch re.Op {
		case syntax.OpLiteral:
			if re.Flags&syntax.FoldCase != 0 && caseMatters(re.Rune) {
				flush()
				return
			}
			for _, r := range re.Rune {
				if r == utf8.RuneError { // matches any byte that is no UTF-8, too
					flush()
					continue
				}
				text.WriteRune(r)
			}
		case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
			syntax.OpWordBoundary, syntax.OpNoWordBoundary:
			// They match the empty text: what is before them and behind them touches.
		case syntax.OpConcat:
			for _, sub := range re.Sub {
				walk(sub)
			}
		case syntax.OpCapture:
			walk(re.Sub[0])
		case syntax.OpPlus: // one and perhaps more of them
			flush()
			walk(re.Sub[0])
			flush()
		case syntax.OpRepeat:
			flush()
			if re.Min > 0 {
				walk(re.Sub[0])
			}
			flush()
		default:
			flush()
		}
	}
	walk(re)
	flush()
	// One inside another says nothing more.
	return slices.DeleteFunc(found, func(s string) bool {
		return slices.ContainsFunc(found, func(t string) bool { return len(t) > len(s) && strings.Contains(t, s) })
	})
}

// caseMatters reports whether one of the runes has another case.
func caseMatters(runes []rune) bool {
	return slices.ContainsFunc(runes, func(r rune) bool {
		return syntax.IsWordChar(r) && !('0' <= r && r <= '9') &&
			r != '_' || r >= 0x80
	})
}
