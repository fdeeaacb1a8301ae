package insights

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	tokenEnd kind = iota
	tokenName
	tokenPath
	tokenNumber
	tokenPeriod
	tokenString
	tokenRegex
	tokenSymbol
)

// token is one token of a query. Its text is what it means (a string without its quotes, a name without backticks);
// symbols and words are as written.
type token struct {
	kind   kind
	text   string
	quoted bool // a name with backticks: never a keyword
	span   span
}

// span is a part of a query's text, in bytes.
type span struct{ start, end int }

func (s span) extendTo(end span) span { return span{s.start, end.end} }

// lexer cuts a query into tokens, one at a time: whether "/" divides or begins a regular expression only the parser
// knows.
type lexer struct {
	text string
	at   int
}

// keywords are words that stand for themselves wherever an operand may be.
var keywords = map[string]bool{"and": true, "or": true, "not": true, "in": true, "like": true, "as": true, "by": true,
	"true": true, "false": true}

// symbols of more than one character come first.
var symbols = []string{"==", "!=", "<=", ">=", "=~", "=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", "[", "]",
	",", "|", ":"}

// nextToken gives the next token.
func (l *lexer) nextToken() (token, *SyntaxError) {
	l.skipSpace()
	start := l.at
	if start >= len(l.text) {
		return token{kind: tokenEnd, span: span{start, start}}, nil
	}
	switch c := l.runeAtOffset(start); {
	case c == '`' || isLetter(c):
		return l.scanName()
	case c == '.' && start+1 < len(l.text) && (l.text[start+1] == '`' || isLetter(l.runeAtOffset(start+1)) ||
		isDigit(l.runeAtOffset(start+1))):
		l.at++
		t, err := l.scanName()
		t.kind, t.span.start = tokenPath, start
		return t, err
	case isDigit(c):
		return l.scanNumber()
	case c == '\'' || c == '"':
		return l.scanString(byte(c))
	}
	for _, s := range symbols {
		if strings.HasPrefix(l.text[start:], s) {
			l.at += len(s)
			return token{kind: tokenSymbol, text: s, span: span{start, l.at}}, nil
		}
	}
	_, size := utf8.DecodeRuneInString(l.text[start:])
	where := span{start, start + size}
	return token{}, l.syntaxErrorAt(where, "unexpected symbol found %s", l.text[start:where.end])
}

// skipSpace passes white space and comments.
func (l *lexer) skipSpace() {
	for l.at < len(l.text) {
		c, size := utf8.DecodeRuneInString(l.text[l.at:])
		switch {
		case unicode.IsSpace(c) || c == '\ufeff':
			l.at += size
		case c == '#':
			if end := strings.IndexByte(l.text[l.at:], '\n'); end >= 0 {
				l.at += end
			} else {
				l.at = len(l.text)
			}
		default:
			return
		}
	}
}

func (l *lexer) runeAtOffset(at int) rune {
	c, _ := utf8.DecodeRuneInString(l.text[at:])
	return c
}

func isLetter(c rune) bool {
	return c == '_' || c == '@' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c > utf8.RuneSelf &&
		c != utf8.RuneError && unicode.IsLetter(c)
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }

// scanName reads a name: parts joined by dots, quoted ones among them, and indexes in brackets, which mean the same as
// a part.
func (l *lexer) scanName() (token, *SyntaxError) {
	start := l.at
	var text strings.Builder
	quoted := false
	for {
		if l.at < len(l.text) && l.text[l.at] == '`' {
			end := strings.IndexByte(l.text[l.at+1:], '`')
			if end < 0 {
				return token{}, l.syntaxErrorAt(span{l.at, len(l.text)}, "the name that begins with ` has no closing `")
			}
			if end == 0 {
				return token{}, l.syntaxErrorAt(span{l.at, l.at + 2}, "the name between the backticks is empty")
			}
			text.WriteString(l.text[l.at+1 : l.at+1+end])
			l.at += end + 2
			quoted = true
		} else {
			from := l.at
			for l.at < len(l.text) {
				c, size := utf8.DecodeRuneInString(l.text[l.at:])
				if !isLetter(c) && !isDigit(c) {
					break
				}
				l.at += size
			}
			if l.at == from {
				return token{}, l.syntaxErrorAt(span{start, l.at}, "the name %s ends with a dot", l.text[start:l.at])
			}
			text.WriteString(l.text[from:l.at])
		}
		for l.at < len(l.text) && l.text[l.at] == '[' {
			digits := l.at + 1
			for digits < len(l.text) && isDigit(rune(l.text[digits])) {
				digits++
			}
			if digits == l.at+1 || digits == len(l.text) || l.text[digits] != ']' {
				break // not an index; `in[1,2]` has no space
			}
			if !quoted && keywords[strings.ToLower(text.String())] {
				break
			}
			text.WriteByte('.')
			text.WriteString(l.text[l.at+1 : digits])
			l.at = digits + 1
		}
		if l.at >= len(l.text) || l.text[l.at] != '.' {
			return token{kind: tokenName, text: text.String(), quoted: quoted, span: span{start, l.at}}, nil
		}
		l.at++
		text.WriteByte('.')
	}
}

// scanNumber reads a number or a period.
func (l *lexer) scanNumber() (token, *SyntaxError) {
	start := l.at
	digits := func() {
		for l.at < len(l.text) && isDigit(rune(l.text[l.at])) {
			l.at++
		}
	}
	digits()
	isPeriod := true
	if l.at+1 < len(l.text) && l.text[l.at] == '.' && isDigit(rune(l.text[l.at+1])) {
		isPeriod = false
		l.at++
		digits()
	}
	if rest := l.text[l.at:]; rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		exponent := strings.TrimLeft(rest[1:], "+-")
		if len(rest)-1-len(exponent) <= 1 && exponent != "" && isDigit(rune(exponent[0])) {
			isPeriod = false
			l.at += len(rest) - len(exponent)
			digits()
		}
	}
	end := l.at
	for l.at < len(l.text) {
		c, size := utf8.DecodeRuneInString(l.text[l.at:])
		if !isLetter(c) && !isDigit(c) {
			break
		}
		l.at += size
	}
	where := span{start, l.at}
	switch {
	case l.at == end:
		return token{kind: tokenNumber, text: l.text[start:end], span: where}, nil
	case isPeriod:
		return token{kind: tokenPeriod, text: l.text[start:l.at], span: where}, nil
	}
	return token{}, l.syntaxErrorAt(where,
		"unexpected symbol found %s\x00a field whose name begins with a digit needs backticks", l.text[start:l.at])
}

// scanString reads a text in quotes.
func (l *lexer) scanString(quote byte) (token, *SyntaxError) {
	start := l.at
	var text strings.Builder
	for i := start + 1; i < len(l.text); i++ {
		switch c := l.text[i]; {
		case c == quote:
			l.at = i + 1
			return token{kind: tokenString, text: text.String(), span: span{start, l.at}}, nil
		case c == '\\' && i+1 < len(l.text):
			i++
			switch escaped := l.text[i]; escaped {
			case '\\', '\'', '"':
				text.WriteByte(escaped)
			case 'n':
				text.WriteByte('\n')
			case 't':
				text.WriteByte('\t')
			case 'r':
				text.WriteByte('\r')
			default:
				text.WriteByte('\\')
				text.WriteByte(escaped)
			}
		default:
			text.WriteByte(c)
		}
	}
	return token{}, l.syntaxErrorAt(span{start, len(l.text)}, "the text that begins with %c has no closing %c", quote,
		quote)
}

// scanRegex reads a regular expression whose opening slash is at an offset.
func (l *lexer) scanRegex(start int) (token, *SyntaxError) {
	for i := start + 1; i < len(l.text); i++ {
		switch l.text[i] {
		case '\\':
			i++
		case '\n':
			return token{}, l.syntaxErrorAt(span{start, i}, "the regular expression has no closing / on its line")
		case '/':
			if i == start+1 {
				return token{}, l.syntaxErrorAt(span{start, i + 1}, "the regular expression is empty")
			}
			l.at = i + 1
			return token{kind: tokenRegex, text: l.text[start+1 : i], span: span{start, l.at}}, nil
		}
	}
	return token{}, l.syntaxErrorAt(span{start, len(l.text)}, "the regular expression has no closing /")
}

// syntaxErrorAt returns the error for a span of the query. The message ends with the position, as AWS writes it.
func (l *lexer) syntaxErrorAt(where span, format string, args ...any) *SyntaxError {
	return failure(l.text, where, format, args...)
}

func failure(text string, where span, format string, args ...any) *SyntaxError {
	e := &SyntaxError{
		Start: utf8.RuneCountInString(text[:where.start]),
		End:   utf8.RuneCountInString(text[:where.end]),
		Line:  1 + strings.Count(text[:where.start], "\n"),
	}
	line := text[strings.LastIndexByte(text[:where.start], '\n')+1 : where.start]
	e.Column = 1 + utf8.RuneCountInString(line)
	what, hint, found := strings.Cut(fmt.Sprintf(format, args...), hintMark)
	e.Message = fmt.Sprintf("%s at line %d and position %d", what, e.Line, e.Column)
	if found {
		e.Message += ": " + hint
	}
	return e
}

// hintMark parts what is wrong from what would be right in the formats given to fail: the position is written between
// the two.
const hintMark = "\x00"
