package insights

import (
	"regexp"
	"strconv"
	"strings"
)

// The syntax tree. Every node prints itself (String) so that parsing what it prints gives an equal node; spans are of
// the query's text and don't count.

// statement is a command with its span in the query.
type statement struct {
	span
	command command
}

func (s statement) String() string { return s.command.String() }

// commandName returns the command's own name.
func (s statement) commandName() string {
	name, _, _ := strings.Cut(s.String(), " ")
	return name
}

// command is one command of a query.
type command interface{ String() string }

type (
	fieldsCommand struct {
		items   []item
		display bool
	}
	filterCommand struct {
		condition expression
		index     bool
	}
	statsCommand struct{ items, by []item }
	sortCommand  struct{ keys []sortKey }
	limitCommand struct{ count int }
	parseCommand struct {
		from    *nameExpression // nil: @message
		pattern expression      // stringExpression or regexExpression
		as      []nameExpression
	}
	dedupCommand   struct{ fields []nameExpression }
	patternCommand struct{ of expression }
	diffCommand    struct{ with string } // one of diffs
	anomalyCommand struct{}
	unnestCommand  struct{ list, into nameExpression }
	unmaskCommand  struct{ fields []nameExpression }
)

// item is an expression of fields, display, stats or by, and how its column is called.
type item struct {
	of   expression
	as   *nameExpression // nil: called by its text
	text string          // of what has no other name: as the query has it, white space and comments joined to one space
}

// columnName returns the name of the item's column.
func (i item) columnName() string {
	if i.as != nil {
		return i.as.text
	}
	if n, ok := i.of.(nameExpression); ok {
		return n.text
	}
	return i.text
}

type sortKey struct {
	item
	descending bool
}

func (s span) sourceSpan() span { return s }

// expression is a node of an expression.
type expression interface {
	String() string
	sourceSpan() span
}

type (
	nameExpression struct {
		span
		text string
	}
	numberExpression struct {
		span
		text string
	}
	periodExpression struct {
		span
		text string
	}
	stringExpression struct {
		span
		text string
	}
	regexExpression struct {
		span
		pattern string
	}
	boolExpression struct {
		span
		value bool
	}
	callExpression struct {
		span
		function string // as AWS writes it, or as the query does if there is no such function
		name     span   // of the function's name
		args     []expression
		star     bool // count(*)
	}
	// accessExpression resolves a path inside the result of a call.
	accessExpression struct {
		span
		of   expression
		path string
	}
	unaryExpression struct {
		span
		operator string // "not", "-"
		of       expression
	}
	binaryExpression struct {
		span
		operator    string // or and = != < <= > >= + - * / % ^; == is kept as =
		left, right expression
	}
	likeExpression struct {
		span
		of, match expression
		not       bool
		tilde     bool // =~
	}
	inExpression struct {
		span
		of   expression
		list []expression
		not  bool
	}
)

var (
	plainName = regexp.MustCompile(`^[\pL_@][\pL_@0-9]*(\.[\pL_@0-9]+)*$`)
	plainPath = regexp.MustCompile(`^[\pL_@0-9]+(\.[\pL_@0-9]+)*$`)
)

func (n nameExpression) String() string {
	if keywords[strings.ToLower(n.text)] || !plainName.MatchString(n.text) {
		return "`" + n.text + "`"
	}
	return n.text
}

func (n numberExpression) String() string { return n.text }
func (p periodExpression) String() string { return p.text }
func (r regexExpression) String() string  { return "/" + r.pattern + "/" }
func (b boolExpression) String() string   { return strconv.FormatBool(b.value) }

func (s stringExpression) String() string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s.text) {
		switch c := s.text[i]; c {
		case '\\', '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (c callExpression) String() string   { return printWithin(c, 0) }
func (a accessExpression) String() string { return printWithin(a, 0) }
func (u unaryExpression) String() string  { return printWithin(u, 0) }
func (b binaryExpression) String() string { return printWithin(b, 0) }
func (l likeExpression) String() string   { return printWithin(l, 0) }
func (i inExpression) String() string     { return printWithin(i, 0) }

// How tightly the parts of an expression hold, in the order of the grammar's rules.
const (
	conditionLevel = iota
	conjunctionLevel
	negationLevel
	comparisonLevel
	sumLevel
	productLevel
	signLevel
	powerLevel
	operandLevel
)

func operatorLevel(operator string) int {
	switch operator {
	case "or":
		return conditionLevel
	case "and":
		return conjunctionLevel
	case "+", "-":
		return sumLevel
	case "*", "/", "%":
		return productLevel
	case "^":
		return powerLevel
	}
	return comparisonLevel
}

// printWithin prints an expression for a position where the grammar has the rule of the level least, in parentheses
// only where they are needed.
func printWithin(e expression, least int) string {
	text, own := "", operandLevel
	switch e := e.(type) {
	case callExpression:
		if e.star {
			return e.function + "(*)"
		}
		return e.function + "(" + joinStrings(e.args) + ")"
	case accessExpression:
		if plainPath.MatchString(e.path) {
			return printWithin(e.of, operandLevel) + "." + e.path
		}
		return printWithin(e.of, operandLevel) + ".`" + e.path + "`"
	case unaryExpression:
		own, text = signLevel, "-"
		if e.operator == "not" {
			own, text = negationLevel, "not "
		}
		text += printWithin(e.of, own)
	case binaryExpression:
		own = operatorLevel(e.operator)
		left, right := own, own+1
		switch own {
		case comparisonLevel:
			left = sumLevel
		case powerLevel:
			left, right = operandLevel, signLevel
		}
		text = printWithin(e.left, left) + " " + e.operator + " " + printWithin(e.right, right)
	case likeExpression:
		own = comparisonLevel
		operator := " like "
		switch {
		case e.tilde:
			operator = " =~ "
		case e.not:
			operator = " not like "
		}
		text = printWithin(e.of, sumLevel) + operator + printWithin(e.match, sumLevel)
	case inExpression:
		own = comparisonLevel
		operator := " in ["
		if e.not {
			operator = " not in ["
		}
		var list []string
		for _, v := range e.list {
			list = append(list, printWithin(v, sumLevel))
		}
		text = printWithin(e.of, sumLevel) + operator + strings.Join(list, ", ") + "]"
	default:
		return e.String()
	}
	if own < least {
		return "(" + text + ")"
	}
	return text
}

func joinStrings[T interface{ String() string }](of []T) string {
	var texts []string
	for _, e := range of {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, ", ")
}

// String prints an unnamed item as the query has it: its text is its column's name.
func (i item) String() string {
	if i.as != nil {
		return i.of.String() + " as " + i.as.String()
	}
	if n, ok := i.of.(nameExpression); ok {
		return n.String()
	}
	return i.text
}

func (k sortKey) String() string {
	if k.descending {
		return k.item.String() + " desc"
	}
	return k.item.String() + " asc"
}

func (c fieldsCommand) String() string {
	if c.display {
		return "display " + joinStrings(c.items)
	}
	return "fields " + joinStrings(c.items)
}

func (c filterCommand) String() string {
	if c.index {
		return "filterIndex " + c.condition.String()
	}
	return "filter " + c.condition.String()
}

func (c statsCommand) String() string {
	if len(c.by) == 0 {
		return "stats " + joinStrings(c.items)
	}
	return "stats " + joinStrings(c.items) + " by " + joinStrings(c.by)
}

func (c sortCommand) String() string  { return "sort " + joinStrings(c.keys) }
func (c limitCommand) String() string { return "limit " + strconv.Itoa(c.count) }

func (c parseCommand) String() string {
	text := "parse "
	if c.from != nil {
		text += c.from.String() + " "
	}
	text += c.pattern.String()
	if len(c.as) > 0 {
		text += " as " + joinStrings(c.as)
	}
	return text
}

func (c dedupCommand) String() string   { return "dedup " + joinStrings(c.fields) }
func (c patternCommand) String() string { return "pattern " + printWithin(c.of, sumLevel) }
func (c diffCommand) String() string    { return "diff " + c.with }
func (c anomalyCommand) String() string { return "anomaly" }
func (c unnestCommand) String() string {
	return "unnest " + c.list.String() + " into " + c.into.String()
}
func (c unmaskCommand) String() string { return "unmask " + joinStrings(c.fields) }

// String writes the query so that Parse gives the same one again, one command a line.
func (q *Query) String() string {
	var parts []string
	if s := q.source; s != nil {
		for _, name := range s.Names {
			parts = append(parts, "SOURCE "+stringExpression{text: name}.String())
		}
		if s.All {
			var selectors []string
			for _, selector := range []struct {
				name   string
				values []string
			}{{"namePrefix", s.Prefixes}, {"class", s.Classes}, {"accountIdentifiers", s.Accounts}} {
				if len(selector.values) == 0 {
					continue
				}
				var texts []stringExpression
				for _, v := range selector.values {
					texts = append(texts, stringExpression{text: v})
				}
				selectors = append(selectors, selector.name+": ["+joinStrings(texts)+"]")
			}
			parts = append(parts, "SOURCE logGroups("+strings.Join(selectors, ", ")+")")
		}
	}
	for _, c := range q.statements {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, "\n| ")
}
