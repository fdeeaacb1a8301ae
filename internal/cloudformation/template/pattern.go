package template

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/coracle-eks/coracle/internal/regexsize"
)

// maxPattern is the size of the largest AllowedPattern, in instructions of its program.
const maxPattern = 50_000

// pattern is an AllowedPattern, which a value matches as a whole.
type pattern struct {
	text    string
	program *regexp.Regexp
}

var errPattern = errors.New("not a regular expression")

func compilePattern(text string) (*pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil || regexsize.Estimate(parsed) > maxPattern {
		return nil, errPattern
	}
	program, err := regexp.Compile(`^(?:` + text + `)$`)
	if err != nil {
		return nil, errPattern
	}
	return &pattern{text, program}, nil
}

func (p *pattern) matches(value string) bool { return p.program.MatchString(value) }
