package fluentbit

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/coracle-eks/coracle/internal/regexsize"
)

// The largest programs of regular expressions, in instructions: of one, and of all of a configuration.
const (
	maxRegex   = 4000
	maxRegexes = 20000
)

// Regex is a regular expression. Fluent Bit has Onigmo's, with Ruby's syntax; this has those that run in linear time.
type Regex struct{ *regexp.Regexp }

// regexBudget counts the instructions of the expressions of a configuration.
type regexBudget struct{ used int }

// regex compiles the expression of a property.
func (s *section) regex(p *property, text string) *Regex {
	re, err := compile(text, s.budget)
	if err != nil {
		s.recordError(p, fmt.Sprintf("%s has an invalid regular expression: %v", p.key, err), "correct the expression")
		return &Regex{regexp.MustCompile(`\z\A.`)}
	}
	return re
}

// compile compiles an expression in Ruby's syntax.
func compile(text string, budget *regexBudget) (*Regex, error) {
	translated, err := translate(text)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(translated, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			return nil, fmt.Errorf("%s: %.60q", e.Code, e.Expr)
		}
		return nil, err
	}
	size := regexsize.Estimate(tree)
	if size > maxRegex {
		return nil, fmt.Errorf("the expression is too large: about %d instructions, at most %d are allowed", size, maxRegex)
	}
	if budget != nil {
		if budget.used += size; budget.used > maxRegexes {
			return nil, errors.New("the expressions of the ConfigMap are too large together")
		}
	}
	re, err := regexp.Compile(translated)
	if err != nil {
		return nil, err
	}
	return &Regex{re}, nil
}

// translate returns an expression in Ruby's syntax in Go's.
//
// In Ruby's, ^ and $ are the beginning and end of lines, (?m) lets the dot match newlines, and groups without a name
// are not captured if there are some with one. The whole may stand between slashes, with flags behind.
func translate(text string) (string, error) {
	flags := "m" // Go's: ^ and $ match at lines
	if rest, ok := strings.CutPrefix(text, "/"); ok {
		if i := strings.LastIndexByte(rest, '/'); i >= 0 && strings.Trim(rest[i+1:], "imxo") == "" {
			if strings.Contains(rest[i+1:], "x") {
				return "", errors.New("the flag x is not supported")
			}
			if strings.Contains(rest[i+1:], "i") {
				flags += "i"
			}
			if strings.Contains(rest[i+1:], "m") {
				flags += "s"
			}
			rest = rest[:i]
		}
		text = rest
	}
	named := hasNamedGroup(text)
	var b strings.Builder
	b.WriteString("(?" + flags + ")")
	for i := 0; i < len(text); i++ {
		c := text[i]
		rest := text[i:]
		switch {
		case c == '\\':
			if i+1 == len(text) {
				return "", errors.New("it ends with a backslash")
			}
			i++
			out, err := translateEscape(text[i], false)
			if err != nil {
				return "", err
			}
			b.WriteString(out)
		case c == '[':
			n, out, err := translateClass(rest)
			if err != nil {
				return "", err
			}
			b.WriteString(out)
			i += n - 1
		case strings.HasPrefix(rest, "(?<=") || strings.HasPrefix(rest, "(?<!") ||
			strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!"):
			return "", errors.New("look-ahead and look-behind are not supported")
		case strings.HasPrefix(rest, "(?>"):
			return "", errors.New("atomic groups are not supported")
		case strings.HasPrefix(rest, "(?<"), strings.HasPrefix(rest, "(?'"):
			end := strings.IndexByte(rest[3:], map[byte]byte{'<': '>', '\'': '\''}[rest[2]])
			if end <= 0 || strings.Trim(rest[3:3+end],
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
				return "", fmt.Errorf("%.40q does not begin a named group: names have letters, digits and underscores",
					rest)
			}
			b.WriteString("(?P<" + rest[3:3+end] + ">")
			i += 3 + end
		case strings.HasPrefix(rest, "(?"):
			n, out, err := translateFlags(rest)
			if err != nil {
				return "", err
			}
			b.WriteString(out)
			i += n - 1
		case c == '(' && named:
			b.WriteString("(?:")
		case strings.HasPrefix(rest, "{,"):
			b.WriteString("{0,")
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func hasNamedGroup(text string) bool {
	for i := 0; i+3 < len(text); i++ {
		switch rest := text[i:]; {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(rest, "(?<") && rest[3] != '=' && rest[3] != '!', strings.HasPrefix(rest, "(?'"):
			return true
		}
	}
	return false
}

// translateFlags returns a group that begins with (? and is not a named one: (?:, (?i), (?m-i:.
func translateFlags(rest string) (n int, out string, err error) {
	b := []byte("(?")
	for n = 2; n < len(rest); n++ {
		switch c := rest[n]; c {
		case ':', ')':
			return n + 1, string(append(b, c)), nil
		case 'm':
			b = append(b, 's')
		case 'i', '-':
			b = append(b, c)
		default:
			return 0, "", fmt.Errorf("the group %.20q is not supported", rest)
		}
	}
	return 0, "", errors.New("missing closing )")
}

func translateEscape(c byte, inClass bool) (string, error) {
	switch c {
	case 'h':
		if inClass {
			return "0-9a-fA-F", nil
		}
		return "[0-9a-fA-F]", nil
	case 'H':
		if inClass {
			return "", errors.New(`\H in brackets is not supported`)
		}
		return "[^0-9a-fA-F]", nil
	case 'e':
		return `\x1b`, nil
	case 'Z':
		return `(?:\n?\z)`, nil
	case 'R':
		return `(?:\r\n|[\n-\r])`, nil
	case 'k', 'g', 'K', 'G', 'X', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return "", fmt.Errorf(`\%c is not supported`, c)
	}
	if c >= 0x80 || c == '_' {
		return string([]byte{c}), nil
	}
	return `\` + string([]byte{c}), nil
}

// translateClass returns the characters in brackets at the beginning of rest, and how many bytes of it they are.
func translateClass(rest string) (n int, out string, err error) {
	var b strings.Builder
	b.WriteByte('[')
	n = 1
	if strings.HasPrefix(rest[n:], "^") {
		b.WriteByte('^')
		n++
	}
	for first := true; n < len(rest); first = false {
		switch c := rest[n]; {
		case c == ']' && !first:
			b.WriteByte(']')
			return n + 1, b.String(), nil
		case c == '\\' && n+1 < len(rest):
			out, err := translateEscape(rest[n+1], true)
			if err != nil {
				return 0, "", err
			}
			b.WriteString(out)
			n += 2
		case strings.HasPrefix(rest[n:], "[:"):
			end := strings.Index(rest[n:], ":]")
			if end < 0 {
				return 0, "", errors.New("missing closing :]")
			}
			b.WriteString(rest[n : n+end+2])
			n += end + 2
		case c == '[':
			return 0, "", errors.New(`brackets in brackets are not supported: write \[ for the character`)
		case strings.HasPrefix(rest[n:], "&&"):
			return 0, "", errors.New("intersections (&&) of brackets are not supported")
		default:
			b.WriteByte(c)
			n++
		}
	}
	return 0, "", errors.New("missing closing ]")
}
