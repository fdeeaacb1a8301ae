package pattern

import "slices"

// expression is a condition about a T, or several joined by && or ||.
type expression[T any] struct {
	all, any []*expression[T] // one of them, or neither for a leaf
	holds    func(T) bool     // of a leaf
	literals []string         // of a leaf: what a text must have to fulfill it
	words    []string         // of a leaf: whole words that it must have
	steps    int              // of a leaf: of its regular expression
}

// parseExpression reads conditions, which leaf reads, with && before || and parentheses before both.
func parseExpression[T any](s *scanner, leaf func() (*expression[T], error)) (*expression[T], error) {
	return parseJoined(s, "||", func() (*expression[T], error) {
		return parseJoined(s, "&&", func() (*expression[T], error) {
			s.skipSpace()
			open := s.pos
			if !s.consume("(") {
				return leaf()
			}
			inner, err := parseExpression(s, leaf)
			if err != nil {
				return nil, err
			}
			if s.skipSpace(); !s.consume(")") {
				if s.isAtEnd() {
					return nil, s.errorAt(open, "this parenthesis is never closed")
				}
				return nil, s.invalid("&&, || or )")
			}
			return inner, nil
		})
	})
}

func parseJoined[T any](s *scanner, operator string, operand func() (*expression[T], error)) (*expression[T], error) {
	var operands []*expression[T]
	for {
		e, err := operand()
		if err != nil {
			return nil, err
		}
		operands = append(operands, e)
		if s.skipSpace(); !s.consume(operator) {
			break
		}
	}
	switch {
	case len(operands) == 1:
		return operands[0], nil
	case operator == "&&":
		return &expression[T]{all: operands}, nil
	}
	return &expression[T]{any: operands}, nil
}

func (e *expression[T]) evaluate(t T) bool {
	if e.holds != nil {
		return e.holds(t)
	}
	for _, one := range e.all {
		if !one.evaluate(t) {
			return false
		}
	}
	for _, one := range e.any {
		if one.evaluate(t) {
			return true
		}
	}
	return e.any == nil
}

// cost returns what the expression adds to [Pattern.Cost], in leaves and steps of regular expressions.
func (e *expression[T]) cost() int {
	n := 0
	if e.holds != nil {
		n = 1 + e.steps
	}
	for _, one := range slices.Concat(e.all, e.any) {
		n += one.cost()
	}
	return n
}

// collectRequired collects what every text that fulfills the expression has, from what of says about leaves.
func (e *expression[T]) collectRequired(of func(leaf *expression[T]) []string) []string {
	if e.holds != nil {
		return of(e)
	}
	var list []string
	for _, one := range e.all {
		list = append(list, one.collectRequired(of)...)
	}
	for i, one := range e.any {
		if i == 0 {
			list = one.collectRequired(of)
		} else {
			list = intersection(list, one.collectRequired(of))
		}
	}
	return list
}
