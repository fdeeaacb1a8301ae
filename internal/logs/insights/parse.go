package insights

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxLimit is the most that the limit command, or StartQuery's limit, may ask for, in rows. It is the default, too.
const MaxLimit = 10_000

// maxDepth limits the nesting of conditions.
const maxDepth = 200

// parser is a recursive descent: a method per rule of the grammar in the package's documentation, in its order. The
// first error ends it: from then on the current token is tokenEnd, so that every rule returns.
type parser struct {
	lexer
	token    token
	previous span   // of the token before
	passed   []span // of all tokens before
	failed   *SyntaxError
	depth    int
}

func (p *parser) recordError(where span, format string, args ...any) {
	if p.failed == nil {
		p.failed = failure(p.text, where, format, args...)
	}
	p.token = token{kind: tokenEnd, span: span{len(p.text), len(p.text)}}
}

// unexpected refuses the current token, naming what would be right.
func (p *parser) unexpected(expected string) {
	if p.token.kind == tokenEnd {
		p.recordError(p.token.span, "unexpected end of the query\x00expected %s", expected)
		return
	}
	p.recordError(p.token.span, "unexpected symbol found %s\x00expected %s",
		p.text[p.token.span.start:p.token.span.end], expected)
}

func (p *parser) advance() {
	p.previous = p.token.span
	if p.failed != nil {
		return
	}
	p.passed = append(p.passed, p.previous)
	t, err := p.lexer.nextToken()
	if err != nil {
		p.failed = err
		t = token{kind: tokenEnd, span: span{len(p.text), len(p.text)}}
	}
	p.token = t
}

// acceptSymbol passes a symbol if it is next.
func (p *parser) acceptSymbol(text string) bool {
	if p.token.kind != tokenSymbol || p.token.text != text {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expectSymbol(symbol, expected string) {
	if !p.acceptSymbol(symbol) {
		p.unexpected(expected)
	}
}

// isNextWord reports whether a keyword or command is next.
func (p *parser) isNextWord(word string) bool {
	return p.token.kind == tokenName && !p.token.quoted && strings.EqualFold(p.token.text, word)
}

// acceptWord passes a keyword if it is next.
func (p *parser) acceptWord(word string) bool {
	if !p.isNextWord(word) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) parseQuery() *Query {
	p.advance()
	q := &Query{text: p.text}
	leading := p.acceptSymbol("|")
	if p.isNextWord("source") && !leading {
		q.source = p.parseSource()
		if p.token.kind == tokenEnd && p.text[p.previous.start] != '|' {
			return q
		}
	} else if p.token.kind == tokenEnd && p.failed == nil {
		p.unexpected("a command (" + strings.Join(commandNames(), ", ") + ")")
	}
	for p.failed == nil {
		q.statements = append(q.statements, p.parseCommand())
		if p.failed != nil || p.token.kind == tokenEnd {
			return q
		}
		if !p.acceptSymbol("|") {
			p.unexpected(continuation(q.statements[len(q.statements)-1].command))
		}
	}
	return q
}

// continuation describes what could have followed a complete command.
func continuation(c command) string {
	switch c.(type) {
	case filterCommand:
		return "and, or, an operator (=, !=, <, <=, >, >=, like, not like, =~, in, not in, +, -, *, /, %, ^), | or " +
			"the end of the query"
	case fieldsCommand, statsCommand, sortCommand:
		return "an operator, a comma, | or the end of the query"
	}
	return "| or the end of the query"
}

func (p *parser) parseSource() *Source {
	s := new(Source)
	for p.failed == nil && p.acceptWord("source") {
		if s.All && p.token.kind == tokenString || s.Names != nil && p.isNextWord("logGroups") {
			p.recordError(p.token.span,
				"SOURCE names log groups and chooses others by logGroups(...)\x00do one of the two")
			return s
		}
		switch {
		case p.token.kind == tokenString:
			s.Names = append(s.Names, p.token.text)
			p.advance()
		case p.isNextWord("logGroups") && !s.All:
			p.parseLogGroups(s)
		default:
			p.unexpected("logGroups(...) or the name of a log group in quotes")
		}
		if p.token.kind != tokenEnd {
			p.expectSymbol("|", "| and a command")
		}
	}
	return s
}

func (p *parser) parseLogGroups(s *Source) {
	p.advance()
	s.All = true
	p.expectSymbol("(", "(")
	if p.acceptSymbol(")") {
		return
	}
	for p.failed == nil {
		where := p.token.span
		var values *[]string
		most := 0
		switch {
		case p.isNextWord("namePrefix"):
			values, most = &s.Prefixes, 5
		case p.isNextWord("class"):
			values, most = &s.Classes, 2
		case p.isNextWord("accountIdentifiers"), p.isNextWord("accountIdentifier"):
			values, most = &s.Accounts, 20
		default:
			p.unexpected("namePrefix, class or accountIdentifiers")
			return
		}
		selector := p.token.text
		if len(*values) > 0 {
			p.recordError(where, "%s is given twice", selector)
			return
		}
		p.advance()
		p.expectSymbol(":", ":")
		p.expectSymbol("[", "[ and a list of texts in quotes")
		for p.failed == nil {
			if p.token.kind != tokenString {
				p.unexpected("a text in quotes")
				return
			}
			if values == &s.Classes && p.token.text != "STANDARD" && p.token.text != "INFREQUENT_ACCESS" {
				p.recordError(p.token.span, "unknown log class %s\x00expected 'STANDARD' or 'INFREQUENT_ACCESS'",
					p.token.text)
				return
			}
			if len(*values) == most {
				p.recordError(p.token.span, "%s has more than %d values", selector, most)
				return
			}
			*values = append(*values, p.token.text)
			p.advance()
			if p.acceptSymbol("]") {
				break
			}
			p.expectSymbol(",", ", or ]")
		}
		if p.acceptSymbol(")") {
			return
		}
		p.expectSymbol(",", ", or )")
	}
}

// commands are the commands of the language by their names in lower case, and how each is parsed. Filled in by init:
// the rules refer to it.
var commands map[string]commandSyntax

type commandSyntax struct {
	name  string
	parse func(p *parser) command
}

func init() {
	commands = make(map[string]commandSyntax)
	for name, parse := range map[string]func(*parser) command{
		"fields":      func(p *parser) command { return p.parseFields(false) },
		"display":     func(p *parser) command { return p.parseFields(true) },
		"filter":      func(p *parser) command { return p.parseFilter(false) },
		"filterIndex": func(p *parser) command { return p.parseFilter(true) },
		"stats":       (*parser).parseStats,
		"sort":        (*parser).parseSort,
		"limit":       (*parser).parseLimit,
		"parse":       (*parser).parseParse,
		"dedup":       (*parser).parseDedup,
		"pattern":     (*parser).parsePattern,
		"diff":        (*parser).parseDiff,
		"anomaly":     func(*parser) command { return anomalyCommand{} },
		"unnest":      (*parser).parseUnnest,
		"unmask":      (*parser).parseUnmask,
	} {
		commands[strings.ToLower(name)] = commandSyntax{name, parse}
	}
}

func commandNames() []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return names
}

// elsewhere are commands of AWS that are not part of this language, and what to do instead.
var elsewhere = map[string]string{
	"head":       "use sort and limit",
	"tail":       "use sort and limit",
	"order":      "use sort",
	"where":      "use filter",
	"search":     "use filter @message like",
	"join":       "Coracle doesn't serve it",
	"lookup":     "Coracle doesn't serve it",
	"addtotals":  "Coracle doesn't serve it",
	"logcompare": "use pattern and diff",
}

func (p *parser) parseCommand() statement {
	if p.token.kind != tokenName || p.token.quoted {
		p.unexpected("a command (" + strings.Join(commandNames(), ", ") + ")")
		return statement{}
	}
	start := p.token
	syntax, ok := commands[strings.ToLower(start.text)]
	if !ok {
		hint := "expected " + strings.Join(commandNames(), ", ")
		if strings.EqualFold(start.text, "source") {
			hint = "SOURCE must be the first command"
		} else if instead := elsewhere[strings.ToLower(start.text)]; instead != "" {
			hint = instead
		} else if near := nearest(start.text, commandNames()); near != "" {
			hint = "did you mean " + near + "?"
		}
		p.recordError(start.span, "unknown command %s\x00%s", start.text, hint)
		return statement{}
	}
	p.advance()
	c := syntax.parse(p)
	return statement{start.span.extendTo(p.previous), c}
}

func (p *parser) parseFields(display bool) command {
	return fieldsCommand{items: p.parseItems(), display: display}
}

func (p *parser) parseFilter(index bool) command {
	return filterCommand{condition: p.parseCondition(), index: index}
}

func (p *parser) parseStats() command {
	c := statsCommand{items: p.parseItems()}
	if p.acceptWord("by") {
		c.by = p.parseItems()
	}
	return c
}

func (p *parser) parseSort() command {
	var c sortCommand
	for p.failed == nil {
		key := sortKey{item: p.parseItem()}
		if p.acceptWord("desc") {
			key.descending = true
		} else {
			p.acceptWord("asc")
		}
		c.keys = append(c.keys, key)
		if !p.acceptSymbol(",") {
			break
		}
	}
	return c
}

func (p *parser) parseLimit() command {
	count, err := strconv.Atoi(p.token.text)
	switch {
	case p.token.kind != tokenNumber:
		p.unexpected(fmt.Sprintf("a whole number from 1 to %d", MaxLimit))
	case err != nil || count < 1 || count > MaxLimit:
		p.recordError(p.token.span, "limit %s is out of range\x00expected a whole number from 1 to %d", p.token.text,
			MaxLimit)
	}
	p.advance()
	return limitCommand{count: count}
}

func (p *parser) parseParse() command {
	var c parseCommand
	if p.token.kind == tokenName {
		from := p.parseName()
		c.from = &from
	}
	switch {
	case p.token.kind == tokenString:
		c.pattern = stringExpression{p.token.span, p.token.text}
		p.advance()
	case p.isSlash():
		c.pattern = p.parseRegex()
	default:
		p.unexpected("a text with * in quotes or a /regular expression/")
	}
	if p.acceptWord("as") {
		c.as = p.parseNames()
	}
	return c
}

func (p *parser) parseDedup() command   { return dedupCommand{fields: p.parseNames()} }
func (p *parser) parsePattern() command { return patternCommand{of: p.parseSum()} }

// diffs are the periods that diff compares with; the first is the default.
var diffs = []string{"previousTime", "previousDay", "previousWeek", "previousMonth"}

func (p *parser) parseDiff() command {
	if p.token.kind != tokenName {
		return diffCommand{with: diffs[0]}
	}
	for _, with := range diffs {
		if p.acceptWord(with) {
			return diffCommand{with: with}
		}
	}
	p.unexpected(strings.Join(diffs, ", ") + " or nothing")
	return diffCommand{}
}

func (p *parser) parseUnnest() command {
	c := unnestCommand{list: p.parseName()}
	if !p.acceptWord("into") {
		p.unexpected("into and a name")
	}
	c.into = p.parseName()
	return c
}

func (p *parser) parseUnmask() command { return unmaskCommand{fields: p.parseNames()} }

func (p *parser) parseItems() []item {
	var items []item
	for p.failed == nil {
		items = append(items, p.parseItem())
		if !p.acceptSymbol(",") {
			break
		}
	}
	return items
}

func (p *parser) parseItem() item {
	first := len(p.passed)
	i := item{of: p.parseCondition()}
	passed := p.passed[first:]
	if p.acceptWord("as") {
		as := p.parseName()
		i.as = &as
	} else if _, isName := i.of.(nameExpression); !isName && p.failed == nil {
		i.text = p.oneLine(passed)
	}
	return i
}

// oneLine returns the text of some tokens, with what the query has between them (newlines and comments included) joined
// to one space.
func (p *parser) oneLine(tokens []span) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 && t.start > tokens[i-1].end {
			b.WriteByte(' ')
		}
		b.WriteString(p.text[t.start:t.end])
	}
	return b.String()
}

func (p *parser) parseNames() []nameExpression {
	var names []nameExpression
	for p.failed == nil {
		names = append(names, p.parseName())
		if !p.acceptSymbol(",") {
			break
		}
	}
	return names
}

func (p *parser) parseName() nameExpression {
	if p.token.kind != tokenName || !p.token.quoted && keywords[strings.ToLower(p.token.text)] {
		p.unexpected("the name of a field")
		return nameExpression{}
	}
	n := nameExpression{p.token.span, p.token.text}
	p.advance()
	return n
}
