package template

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/coracle-eks/coracle/internal/regexsize"
)

const (
	maxPattern     = 50_000                 // instructions of the programs of all AllowedPatterns of a template
	maxPatternText = 4000                   // bytes of the text of one
	maxSteps       = 1 << 26                // instructions times bytes of all values and their patterns
	matchTime      = 100 * time.Millisecond // of a value and a pattern that needs backtracking
	maxMatching    = time.Second            // of all of them
)

// pattern is an AllowedPattern, which a value matches as a whole. CloudFormation has the expressions of Java. Go's
// matcher, whose time is in proportion to the value, has all of them but lookaround, backreferences and possessive
// quantifiers. Patterns with those have a matcher that backtracks, with a limit of its time.
type pattern struct {
	text         string
	size         int // instructions of the linear program
	linear       *regexp.Regexp
	backtracking *regexp2.Regexp // nil when linear is not
}

var errPattern = errors.New("not a regular expression")

// compilePattern compiles an AllowedPattern, and takes what its program needs from what is left of maxPattern.
func compilePattern(text string, left *int) (*pattern, error) {
	if len(text) > maxPatternText {
		return nil, errPattern
	}
	if parsed, err := syntax.Parse(text, syntax.Perl); err == nil {
		size := regexsize.Estimate(parsed)
		if size > *left {
			return nil, errPattern
		}
		*left -= size
		program, err := regexp.Compile(`^(?:` + text + `)$`)
		if err != nil {
			return nil, errPattern
		}
		return &pattern{text: text, size: size, linear: program}, nil
	}
	program, err := regexp2.Compile(`^(?:`+text+`)\z`, regexp2.None)
	if err != nil {
		program, err = regexp2.Compile(`^(?:`+makeGreedy(text)+`)\z`, regexp2.None)
	}
	if err != nil {
		return nil, errPattern
	}
	program.MatchTimeout = matchTime
	return &pattern{text: text, backtracking: program}, nil
}

// matcher matches values, with a limit of the time that all of them take together.
type matcher struct {
	steps int
	spent time.Duration
}

// matches reports whether a value matches. One that takes too long does not.
func (m *matcher) matches(p *pattern, value string) bool {
	if p.linear != nil {
		m.steps += p.size * (1 + len(value))
		return m.steps <= maxSteps && p.linear.MatchString(value)
	}
	if m.spent > maxMatching {
		return false
	}
	start := time.Now()
	matched, err := p.backtracking.MatchString(value)
	m.spent += time.Since(start)
	return err == nil && matched
}

// makeGreedy returns a pattern of which possessive quantifiers, such as a++, are greedy ones. It matches what the
// pattern matches, and what it would match if it gave back characters.
func makeGreedy(text string) string {
	var b strings.Builder
	inClass, quantified := false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' && i+1 < len(text) {
			b.WriteString(text[i : i+2])
			i++
			quantified = false
			continue
		}
		if c == '+' && quantified && !inClass {
			quantified = false
			continue
		}
		quantified = !inClass && strings.ContainsRune("+*?}", rune(c))
		switch c {
		case '[':
			inClass = true
		case ']':
			inClass = false
		}
		b.WriteByte(c)
	}
	return b.String()
}
