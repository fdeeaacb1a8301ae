package plan

import "strings"

// Cause is the reference by which a property changes.
type Cause struct {
	Source string // "ParameterReference", "ResourceReference", "ResourceAttribute" or "DirectModification"
	Entity string // the parameter, the resource, or the resource with its attribute
}

// CauseOf returns what made a property change: a parameter or a resource that its value in the template refers to and
// for which changed says so, or else the template itself.
func CauseOf(value any, changed func(name string) (parameter, resource bool)) Cause {
	cause := Cause{Source: "DirectModification"}
	visitReferences(value, func(name, attribute string) bool {
		parameter, resource := changed(name)
		switch {
		case parameter && attribute == "":
			cause = Cause{Source: "ParameterReference", Entity: name}
		case resource && attribute == "":
			cause = Cause{Source: "ResourceReference", Entity: name}
		case resource:
			cause = Cause{Source: "ResourceAttribute", Entity: name + "." + attribute}
		default:
			return true
		}
		return false
	})
	return cause
}

// visitReferences visits the references in a value until visit returns false.
func visitReferences(value any, visit func(name, attribute string) bool) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, argument := range v {
			switch key {
			case "Ref":
				if name, ok := argument.(string); ok && !visit(name, "") {
					return false
				}
				continue
			case "Fn::GetAtt":
				if name, attribute, ok := cutGetAtt(argument); ok && !visit(name, attribute) {
					return false
				}
				continue
			case "Fn::Sub":
				if !visitSub(argument, visit) {
					return false
				}
			}
			if !visitReferences(argument, visit) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !visitReferences(item, visit) {
				return false
			}
		}
	}
	return true
}

func cutGetAtt(argument any) (name, attribute string, ok bool) {
	switch v := argument.(type) {
	case string:
		return strings.Cut(v, ".")
	case []any:
		if len(v) == 2 {
			name, _ := v[0].(string)
			attribute, ok := v[1].(string)
			return name, attribute, ok
		}
	}
	return "", "", false
}

func visitSub(argument any, visit func(name, attribute string) bool) bool {
	text, ok := argument.(string)
	if list, isList := argument.([]any); isList && len(list) > 0 {
		text, ok = list[0].(string)
	}
	for ok {
		var name string
		if _, text, ok = strings.Cut(text, "${"); !ok {
			break
		}
		if name, text, ok = strings.Cut(text, "}"); !ok {
			break
		}
		name, attribute, _ := strings.Cut(name, ".")
		if !visit(name, attribute) {
			return false
		}
	}
	return true
}
