package template

import "slices"

// readConditions checks the form of the Conditions section.
func (t *Template) readConditions() (err error) {
	if t.conditions, err = t.section("Conditions", maxConditions); err != nil {
		return err
	}
	for _, name := range sortedKeys(t.conditions) {
		if t.hasExtensions() && isLoop(name) {
			continue
		}
		if !isAlphanumeric(name) {
			return errorf("Template format error: Condition name %s is non alphanumeric.", name)
		}
		if !isCondition(t.conditions[name]) {
			return errNotCondition
		}
	}
	return nil
}

var errNotCondition = errorf("Template format error: Conditions can only be boolean operations on parameters and " +
	"other conditions")

// isCondition reports whether a value is a function that returns a bool.
func isCondition(value any) bool {
	object, ok := value.(map[string]any)
	if !ok || len(object) != 1 {
		return false
	}
	for name := range object {
		return name == "Condition" || slices.Contains(conditionFunctions, name)
	}
	return false
}

// condition evaluates a function that returns a bool.
func (e *evaluator) condition(value any) (bool, error) {
	object, ok := value.(map[string]any)
	if !ok || len(object) != 1 {
		return false, errNotCondition
	}
	for name, argument := range object {
		list, _ := argument.([]any)
		switch name {
		case "Condition":
			text, ok := argument.(string)
			if !ok {
				return false, errorf("Template error: All Conditions must be of type string")
			}
			return e.evaluateNamed(text, "Condition")
		case "Fn::Equals":
			return e.equals(list)
		case "Fn::Not":
			if len(list) != 1 {
				return false, errNot
			}
			result, err := e.condition(list[0])
			return !result, err
		case "Fn::And":
			return e.evaluateAndOr(list, true, errAnd)
		case "Fn::Or":
			return e.evaluateAndOr(list, false, errOr)
		}
	}
	return false, errNotCondition
}

// evaluateAndOr evaluates Fn::And and Fn::Or, which is its opposite. All of the list is evaluated, so that its errors
// do not depend on parameters.
func (e *evaluator) evaluateAndOr(list []any, and bool, wrong error) (bool, error) {
	if len(list) < 2 || len(list) > 10 {
		return false, wrong
	}
	result := and
	for _, item := range list {
		holds, err := e.condition(item)
		if err != nil {
			return false, err
		}
		if holds != and {
			result = !and
		}
	}
	return result, nil
}

func (e *evaluator) equals(list []any) (bool, error) {
	if len(list) != 2 {
		return false, errEquals
	}
	left, err := e.evaluate(list[0])
	if err != nil {
		return false, err
	}
	right, err := e.evaluate(list[1])
	if err != nil {
		return false, err
	}
	a, leftIsText := comparedText(left)
	b, rightIsText := comparedText(right)
	if !leftIsText || !rightIsText {
		return false, errEquals
	}
	return a == b, nil
}

// comparedText returns what Fn::Equals compares. Ref of AWS::NoValue is an empty text.
func comparedText(value any) (string, bool) {
	if value == (noValue{}) {
		return "", true
	}
	return scalarText(value)
}

// evaluateNamed returns whether a condition of the Conditions section holds.
func (e *evaluator) evaluateNamed(name, function string) (bool, error) {
	b := e.bound
	if holds, ok := b.conditions[name]; ok {
		return holds, nil
	}
	definition, ok := b.definitions[name]
	if !ok {
		return false, errorf("Template error: unresolved condition dependency %s in %s", name, function)
	}
	if b.evaluating[name] {
		return false, errorf("Template format error: Circular dependency between conditions: %s",
			inBrackets(sortedKeys(b.evaluating)))
	}
	b.evaluating[name] = true
	holds, err := e.condition(definition)
	delete(b.evaluating, name)
	if err == nil {
		b.conditions[name] = holds
	}
	return holds, err
}

// evaluateIf evaluates Fn::If, of which the branch that is not taken is not evaluated.
func (e *evaluator) evaluateIf(argument any) (any, error) {
	taken, err := e.selectBranch(argument)
	if err != nil {
		return nil, err
	}
	return e.evaluate(taken)
}

// selectBranch returns the branch that Fn::If takes.
func (e *evaluator) selectBranch(argument any) (any, error) {
	list, ok := argument.([]any)
	if !ok || len(list) == 0 {
		return nil, errIfName
	}
	name, ok := list[0].(string)
	if !ok {
		return nil, errIfName
	}
	if len(list) != 3 {
		return nil, errIf
	}
	holds, err := e.evaluateNamed(name, "Fn::If")
	if err != nil {
		return nil, err
	}
	if holds {
		return list[1], nil
	}
	return list[2], nil
}
