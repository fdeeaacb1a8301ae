package insights

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// MaxLimit is the most that the limit command, or StartQuery's limit, may ask for, in rows. It is the default, too.
const MaxLimit = 10_000

// maxDepth is how deep conditions may be nested.
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

// isNextWord says whether a keyword or command is next.
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

// continuation says what could have followed a complete command.
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

// diffs are the periods that diff compares with; the first is what it takes when none is given.
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

// oneLine is the text of some tokens, with what the query has between them (newlines and comments included) joined to
// one space.
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

func (p *parser) parseCondition() expression {
	return p.parseLeft([]string{"or"}, p.parseConjunction)
}

func (p *parser) parseConjunction() expression {
	return p.parseLeft([]string{"and"}, p.parseNegation)
}

func (p *parser) parseSum() expression { return p.parseLeft([]string{"+", "-"}, p.parseProduct) }

func (p *parser) parseProduct() expression {
	return p.parseLeft([]string{"*", "/", "%"}, p.parseSign)
}

// parseLeft reads operands joined by operators of one precedence, to the left.
func (p *parser) parseLeft(operators []string, operand func() expression) expression {
	left := operand()
	for p.failed == nil {
		at := slices.IndexFunc(operators, func(o string) bool {
			return p.token.kind == tokenSymbol && p.token.text == o || p.isNextWord(o)
		})
		if at < 0 {
			break
		}
		p.advance()
		right := operand()
		if p.failed != nil {
			break
		}
		left = binaryExpression{left.sourceSpan().extendTo(right.sourceSpan()), operators[at], left, right}
	}
	return left
}

// enterNested guards against conditions so deep that the stack would suffer.
func (p *parser) enterNested() func() {
	p.depth++
	if p.depth > maxDepth {
		p.recordError(p.token.span, "the condition is nested more than %d deep", maxDepth)
	}
	return func() { p.depth-- }
}

func (p *parser) parseNegation() expression {
	defer p.enterNested()()
	start := p.token.span
	if !p.acceptWord("not") {
		return p.parseComparison()
	}
	of := p.parseNegation()
	return unaryExpression{start.extendTo(p.previous), "not", of}
}

func (p *parser) parseComparison() expression {
	left := p.parseSum()
	if p.failed != nil {
		return left
	}
	whole := func() span { return left.sourceSpan().extendTo(p.previous) }
	if p.token.kind == tokenSymbol {
		switch operator := p.token.text; operator {
		case "=", "==", "!=", "<", "<=", ">", ">=":
			p.advance()
			if operator == "==" {
				operator = "="
			}
			right := p.parseSum()
			return binaryExpression{whole(), operator, left, right}
		case "=~":
			p.advance()
			match := p.parseMatch()
			return likeExpression{span: whole(), of: left, match: match, tilde: true}
		}
		return left
	}
	not := p.acceptWord("not")
	switch {
	case p.acceptWord("like"):
		match := p.parseMatch()
		return likeExpression{span: whole(), of: left, match: match, not: not}
	case p.isNextWord("in"):
		p.advance()
		p.expectSymbol("[", "[ and a list of values")
		var list []expression
		for p.failed == nil {
			list = append(list, p.parseSum())
			if p.acceptSymbol("]") {
				break
			}
			p.expectSymbol(",", ", or ]")
		}
		return inExpression{whole(), left, list, not}
	case not:
		p.unexpected("like or in")
	}
	return left
}

func (p *parser) parseMatch() expression {
	t := p.token
	switch {
	case p.isSlash():
		return p.parseRegex()
	case t.kind == tokenString:
		p.advance()
		return stringExpression{t.span, t.text}
	}
	p.unexpected("a text in quotes or a /regular expression/")
	return stringExpression{}
}

func (p *parser) parseSign() expression {
	defer p.enterNested()()
	start := p.token.span
	if !p.acceptSymbol("-") {
		return p.parsePower()
	}
	of := p.parseSign()
	return unaryExpression{start.extendTo(p.previous), "-", of}
}

func (p *parser) parsePower() expression {
	left := p.parseOperand()
	if p.failed != nil || !p.acceptSymbol("^") {
		return left
	}
	right := p.parseSign()
	return binaryExpression{left.sourceSpan().extendTo(p.previous), "^", left, right}
}

func (p *parser) isSlash() bool { return p.token.kind == tokenSymbol && p.token.text == "/" }

// parseRegex reads again, as a regular expression, what begins with the current slash.
func (p *parser) parseRegex() expression {
	t, err := p.lexer.scanRegex(p.token.span.start)
	if err != nil {
		p.failed = err
		p.recordError(span{}, "")
		return regexExpression{}
	}
	p.token = t
	p.advance()
	return regexExpression{t.span, t.text}
}

func (p *parser) parseOperand() expression {
	const expected = "a field, a value or a function"
	t := p.token
	switch {
	case t.kind == tokenNumber:
		p.advance()
		return numberExpression{t.span, t.text}
	case t.kind == tokenPeriod:
		p.advance()
		return periodExpression{t.span, t.text}
	case t.kind == tokenString:
		p.advance()
		return stringExpression{t.span, t.text}
	case p.isNextWord("true"), p.isNextWord("false"):
		p.advance()
		return boolExpression{t.span, strings.EqualFold(t.text, "true")}
	case t.kind == tokenName && (t.quoted || !keywords[strings.ToLower(t.text)]):
		p.advance()
		if !t.quoted && p.token.kind == tokenSymbol && p.token.text == "(" {
			return p.parseCall(t)
		}
		return nameExpression{t.span, t.text}
	case p.acceptSymbol("("):
		of := p.parseCondition()
		p.expectSymbol(")", "an operator or )")
		return of
	}
	p.unexpected(expected)
	return nameExpression{}
}

func (p *parser) parseCall(name token) expression {
	defer p.enterNested()()
	p.advance()
	c := callExpression{function: name.text, name: name.span}
	if f, ok := value.LookupFunction(name.text); ok {
		c.function = f.Name
	} else if a, ok := value.LookupAggregate(name.text); ok {
		c.function = a.Name
	}
	switch {
	case p.acceptSymbol(")"):
	case p.acceptSymbol("*"):
		c.star = true
		p.expectSymbol(")", ")")
	default:
		for p.failed == nil {
			c.args = append(c.args, p.parseCondition())
			if p.acceptSymbol(")") {
				break
			}
			p.expectSymbol(",", "an operator, a comma or )")
		}
	}
	c.span = name.span.extendTo(p.previous)
	var path []string
	for p.failed == nil && p.token.span.start == p.previous.end {
		if p.token.kind == tokenPath {
			path = append(path, p.token.text)
			p.advance()
		} else if p.acceptSymbol("[") {
			if p.token.kind != tokenNumber || strings.Trim(p.token.text, "0123456789") != "" {
				p.unexpected("the index of an element")
			}
			path = append(path, p.token.text)
			p.advance()
			p.expectSymbol("]", "]")
		} else {
			break
		}
	}
	if path != nil {
		return accessExpression{c.span.extendTo(p.previous), c, strings.Join(path, ".")}
	}
	return c
}

// nearest is the word of a list that someone who wrote another most likely meant; empty if there is none.
func nearest(written string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		if d := distance(strings.ToLower(written), strings.ToLower(w)); d < least && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// distance is how many letters must be inserted, deleted or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
