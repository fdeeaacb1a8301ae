package insights

import (
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

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

// nearest returns the word of a list that someone who wrote another most likely meant; empty if there is none.
func nearest(written string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		if d := distance(strings.ToLower(written), strings.ToLower(w)); d < least && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete or replace to get b from a.
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
