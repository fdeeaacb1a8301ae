package template

import (
	"context"
	"slices"
)

// Rules check parameters against each other.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html

// readRules checks the form of the Rules section.
func (t *Template) readRules() (err error) {
	if t.rules, err = t.section("Rules", maxConditions); err != nil {
		return err
	}
	for _, name := range sortedKeys(t.rules) {
		if !isAlphanumeric(name) {
			return errorf("Template format error: Rule name %s is non alphanumeric.", name)
		}
		rule, ok := t.rules[name].(map[string]any)
		if !ok {
			return errorf("Template format error: Any Rules member must be an object.")
		}
		for _, member := range sortedKeys(rule) {
			if member != "RuleCondition" && member != "Assertions" {
				return errorf("Invalid template rule property '%s'", member)
			}
		}
		if condition, ok := rule["RuleCondition"]; ok {
			if err := t.checkRule(name, condition); err != nil {
				return err
			}
		}
		assertions, ok := rule["Assertions"].([]any)
		if !ok || len(assertions) == 0 {
			return errorf("Template format error: Rule %s must contain a list of Assertions.", name)
		}
		for _, item := range assertions {
			assertion, _ := item.(map[string]any)
			if _, ok := assertion["Assert"]; !ok {
				return errorf("Template format error: Every assertion of rule %s must contain an Assert member.", name)
			}
			for _, member := range sortedKeys(assertion) {
				if member != "Assert" && member != "AssertDescription" {
					return errorf("Invalid template rule property '%s'", member)
				}
			}
			if _, _, err := readText(assertion, "AssertDescription"); err != nil {
				return err
			}
			if err := t.checkRule(name, assertion["Assert"]); err != nil {
				return err
			}
		}
	}
	return nil
}

// booleanRules are the functions of rules that return a bool, with the number of their arguments.
var booleanRules = map[string][2]int{"Fn::And": {2, 10}, "Fn::Or": {2, 10}, "Fn::Not": {1, 1}, "Fn::Equals": {2, 2},
	"Fn::Contains": {2, 2}, "Fn::EachMemberEquals": {2, 2}, "Fn::EachMemberIn": {2, 2}}

// checkRule checks the form of a function that returns a bool.
func (t *Template) checkRule(rule string, value any) error {
	object, ok := value.(map[string]any)
	if !ok || len(object) != 1 {
		return errNotRule(rule)
	}
	for name, argument := range object {
		count, ok := booleanRules[name]
		list, isList := argument.([]any)
		switch {
		case !ok:
			return errNotRule(rule)
		case !isList || len(list) < count[0] || len(list) > count[1]:
			return errRuleArguments(name)
		case name == "Fn::And" || name == "Fn::Or" || name == "Fn::Not":
			for _, item := range list {
				if err := t.checkRule(rule, item); err != nil {
					return err
				}
			}
		default:
			return t.checkRuleValues(rule, list)
		}
	}
	return nil
}

// checkRuleValues checks the functions that return what rules compare.
func (t *Template) checkRuleValues(rule string, list []any) (err error) {
	visitFunctions(list, func(name string, argument any) {
		if err != nil {
			return
		}
		arguments, _ := argument.([]any)
		switch name {
		case "Ref":
			if text, ok := argument.(string); !ok || t.parameters[text] == nil && !slices.Contains(pseudoParameters, text) {
				err = errorf("Template format error: Unresolved dependencies [%v]. Cannot reference resources in the Rules "+
					"block of the template", argument)
			}
		case "Fn::RefAll":
			if !isString(argument) {
				err = errRuleArguments(name)
			}
		case "Fn::ValueOf", "Fn::ValueOfAll":
			if len(arguments) != 2 || !isString(arguments[0]) || !isString(arguments[1]) {
				err = errRuleArguments(name)
			} else if name == "Fn::ValueOf" && t.parameters[arguments[0].(string)] == nil {
				err = errorf("Template format error: Unresolved dependencies [%v]. Cannot reference resources in the Rules "+
					"block of the template", arguments[0])
			}
		case "Fn::FindInMap", "Fn::Join", "Fn::Select", "Fn::Split", "Fn::Sub":
		default:
			err = errNotRule(rule)
		}
	})
	return err
}

func errNotRule(rule string) error {
	return errorf("Template format error: Rule %s can only have rule-specific intrinsic functions that return true or "+
		"false", rule)
}

func errRuleArguments(name string) error {
	return errorf("Template error: every %s object of the Rules block has a wrong number or type of parameters", name)
}

// checkRules evaluates the assertions of rules whose condition holds.
func (b *Bound) checkRules(ctx context.Context) error {
	e := &evaluator{ctx: ctx, bound: b, trial: true}
	for _, name := range sortedKeys(b.template.rules) {
		rule := b.template.rules[name].(map[string]any)
		if condition, ok := rule["RuleCondition"]; ok {
			holds, err := e.evaluateRule(condition)
			if err != nil {
				return err
			}
			if !holds {
				continue
			}
		}
		for _, item := range rule["Assertions"].([]any) {
			assertion := item.(map[string]any)
			holds, err := e.evaluateRule(assertion["Assert"])
			if err != nil {
				return err
			}
			if holds {
				continue
			}
			if text, _, _ := readText(assertion, "AssertDescription"); text != "" {
				return errorf("%s", text)
			}
			return errorf("Template error: an assertion of rule %s does not hold", name)
		}
	}
	return nil
}

// evaluateRule evaluates a function that returns a bool, whose form readRules has checked.
func (e *evaluator) evaluateRule(value any) (bool, error) {
	for name, argument := range value.(map[string]any) {
		list := argument.([]any)
		switch name {
		case "Fn::And", "Fn::Or":
			result := name == "Fn::And"
			for _, item := range list {
				holds, err := e.evaluateRule(item)
				if err != nil {
					return false, err
				}
				if holds != (name == "Fn::And") {
					result = holds
				}
			}
			return result, nil
		case "Fn::Not":
			holds, err := e.evaluateRule(list[0])
			return !holds, err
		default:
			return e.compareRule(name, list)
		}
	}
	return false, nil
}

// compareRule evaluates the functions that compare a list or text with another.
func (e *evaluator) compareRule(name string, list []any) (bool, error) {
	left, err := e.ruleValues(list[0])
	if err != nil {
		return false, err
	}
	right, err := e.ruleValues(list[1])
	if err != nil {
		return false, err
	}
	switch name {
	case "Fn::Equals":
		return slices.Equal(left, right), nil
	case "Fn::Contains":
		return len(right) > 0 && isSubset(right, left), nil
	case "Fn::EachMemberIn":
		return isSubset(left, right), nil
	}
	// Fn::EachMemberEquals
	return !slices.ContainsFunc(left, func(v string) bool { return !slices.Contains(right, v) || len(right) != 1 }), nil
}

func isSubset(list, of []string) bool {
	known := make(map[string]bool, len(of))
	for _, item := range of {
		known[item] = true
	}
	return !slices.ContainsFunc(list, func(item string) bool { return !known[item] })
}

// ruleValues evaluates a value of a rule, which is a text or a list of them.
func (e *evaluator) ruleValues(value any) ([]string, error) {
	if object, ok := value.(map[string]any); ok {
		switch name, argument := functionOf(object); name {
		case "Fn::RefAll":
			return e.refAll(argument.(string))
		case "Fn::ValueOf":
			arguments := argument.([]any)
			values, err := e.valueOf(arguments[0].(string), arguments[1].(string))
			if err != nil {
				return nil, err
			}
			return values, e.growTexts(values)
		case "Fn::ValueOfAll":
			arguments := argument.([]any)
			var all []string
			for _, name := range sortedKeys(e.bound.template.parameters) {
				if e.bound.template.parameters[name].declared == arguments[0] {
					values, err := e.valueOf(name, arguments[1].(string))
					if err != nil {
						return nil, err
					}
					all = append(all, values...)
				}
			}
			return all, e.growTexts(all)
		}
	}
	evaluated, err := e.evaluate(value)
	if err != nil {
		return nil, err
	}
	if text, ok := scalarText(evaluated); ok {
		return []string{text}, nil
	}
	list, _ := evaluated.([]any)
	texts := make([]string, 0, len(list))
	for _, item := range list {
		text, ok := scalarText(item)
		if !ok {
			return nil, errorf("Template error: values of rules must be strings or lists of strings")
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// refAll returns the values of all parameters of a type.
func (e *evaluator) refAll(kind string) ([]string, error) {
	var all []string
	for _, name := range sortedKeys(e.bound.template.parameters) {
		if p := e.bound.template.parameters[name]; p.declared == kind {
			all = append(all, e.bound.parameterValues(name)...)
		}
	}
	return all, e.growTexts(all)
}

// growTexts counts values from outside of the template.
func (e *evaluator) growTexts(texts []string) error {
	for _, text := range texts {
		if err := e.addSize(len(text)); err != nil {
			return err
		}
	}
	return nil
}

// parameterValues returns the values of a parameter: one, unless it is a list.
func (b *Bound) parameterValues(name string) []string {
	switch v := b.parameters[name].value.(type) {
	case string:
		return []string{v}
	case []any:
		values := make([]string, len(v))
		for i, item := range v {
			values[i] = item.(string)
		}
		return values
	}
	return nil
}

// valueOf returns an attribute, such as "VpcId", of what a parameter names.
func (e *evaluator) valueOf(name, attribute string) ([]string, error) {
	p := e.bound.template.parameters[name]
	if e.bound.inputs.ValueOf == nil || !slices.Contains(existingTypes, p.value) {
		return nil, errorf("Template error: parameters of type %s have no attribute %s for Fn::ValueOf", p.declared,
			attribute)
	}
	var all []string
	for _, id := range e.bound.parameterValues(name) {
		value, err := e.bound.inputs.ValueOf(e.ctx, p.value, id, attribute)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}
