package template

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The functions of the language, beside Ref.
var (
	valueFunctions = []string{"Fn::Base64", "Fn::Cidr", "Fn::FindInMap", "Fn::GetAZs", "Fn::GetAtt",
		"Fn::GetStackOutput", "Fn::If",
		"Fn::ImportValue", "Fn::Join", "Fn::Select", "Fn::Split", "Fn::Sub"}
	conditionFunctions = []string{"Fn::And", "Fn::Equals", "Fn::Not", "Fn::Or"}
	ruleFunctions      = []string{"Fn::Contains", "Fn::EachMemberEquals", "Fn::EachMemberIn", "Fn::RefAll",
		"Fn::ValueOf", "Fn::ValueOfAll"}
	extensionFunctions = []string{"Fn::Length", "Fn::ToJsonString"}
)

// supported is the list in the error of unknown functions, in the order that CloudFormation has.
const supported = "[Fn::Base64, Fn::GetAtt, Fn::GetAZs, Fn::ImportValue, Fn::Join, Fn::Split, Fn::FindInMap, " +
	"Fn::Select, Ref, Fn::Equals, Fn::If, Fn::Not, Condition, Fn::And, Fn::Or, Fn::Contains, Fn::EachMemberEquals, " +
	"Fn::EachMemberIn, Fn::ValueOf, Fn::ValueOfAll, Fn::RefAll, Fn::Sub, Fn::Cidr]"

// functionOf returns the name and argument of the function that an object is, "" when it is none.
func functionOf(object map[string]any) (name string, argument any) {
	if len(object) != 1 {
		return "", nil
	}
	for key, value := range object {
		if key == "Ref" || len(key) > 4 && strings.EqualFold(key[:4], "Fn::") {
			return key, value
		}
	}
	return "", nil
}

func isFunctionObject(object map[string]any) bool {
	name, _ := functionOf(object)
	return name != ""
}

func errUnsupported(name string) error {
	return errorf("Template Error: Encountered unsupported function: %s Supported functions are: %s", name, supported)
}

// What functions say of arguments that are wrong.
var (
	errRef    = errorf("Template error: All References must be of type string")
	errGetAtt = errorf("Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name " +
		"and the resource attribute")
	errJoin = errorf("Template error: every Fn::Join object requires two parameters, (1) a string delimiter and (2) a " +
		"list of strings to be joined or a function that returns a list of strings (such as Fn::GetAZs) to be joined.")
	errSplit = errorf("Template error: every Fn::Split object requires two parameters, (1) a string delimiter and (2) " +
		"a string to be split or a function that returns a string to be split.")
	errSelect = errorf("Template error: Fn::Select requires a list argument with two elements: an integer index and a " +
		"list")
	errFindInMap = errorf("Template error: every Fn::FindInMap object requires three parameters, the map name, map key " +
		"and the attribute for return value")
	errBase64 = errorf("Template error: every Fn::Base64 object must have a String-typed value.")
	errGetAZs = errorf("Template error: every Fn::GetAZs object must have a String-typed value.")
	errSub    = errorf("Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. " +
		"Specify a string as first argument, and an optional second argument to specify a mapping of values to replace " +
		"in the string")
	errSubName = errorf("Template error: variable names in Fn::Sub syntax must contain only alphanumeric characters, " +
		"underscores, periods, and colons")
	errSubKey = errorf("Template error: every key of the context object of every Fn::Sub object must contain only " +
		"alphanumeric characters and underscores")
	errSubValue = errorf("Template error: every value of the context object of every Fn::Sub object must be a string or " +
		"a function that returns a string")
	errIf       = errorf("Template error: Fn::If requires a list argument with three elements")
	errIfName   = errorf("Template error: Fn::If requires a list argument with the first element being a condition")
	errEquals   = errorf("Template error: every Fn::Equals object requires a list of 2 string parameters.")
	errNot      = errorf("Template error: every Fn::Not object requires one boolean parameter.")
	errAnd      = errorf("Template error: every Fn::And object requires a list of at least 2 and at most 10 boolean parameters.")
	errOr       = errorf("Template error: every Fn::Or object requires a list of at least 2 and at most 10 boolean parameters.")
	errImport   = errorf("Template error: the attribute in Fn::ImportValue must be a string or a function that returns a string")
	errImported = errorf("Template error: the attribute in Fn::ImportValue must not depend on any resources, imported " +
		"values, or Fn::GetAZs")
	errStackOutput = errorf("Template error: every Fn::GetStackOutput object requires a StackName and an OutputName, and " +
		"optionally a Region and a RoleArn, which must be strings or functions that return strings")
	errCIDR = errorf("Template error: every Fn::Cidr object requires two or three parameters, (1) a CIDR block, (2) the " +
		"number of CIDR blocks to generate, from 1 to 256, and (3) the number of subnet bits of the CIDR blocks.")
	errLength = errorf("Transform AWS::LanguageExtensions failed with: Fn::Length layout is incorrect. Fn::Length " +
		"expects only an array as an input")
	errJSON = errorf("Transform AWS::LanguageExtensions failed with: Fn::ToJsonString layout is incorrect. " +
		"Fn::ToJsonString expects an object or an array as an input")
	errTooLarge    = errorf("Template error: the values of functions are larger than maximum allowed, %d bytes", maxEvaluation)
	errAllTooLarge = errorf("Template error: the values of all functions are larger than maximum allowed, %d bytes",
		maxBound)
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func itoa(n int) string { return strconv.Itoa(n) }

// substitution is a part of the text of Fn::Sub: text, then a variable unless it is "".
type substitution struct{ text, variable string }

// parseSub splits the text of Fn::Sub. ${!Literal} is the text ${Literal}.
func parseSub(text string) ([]substitution, error) {
	var parts []substitution
	var literal strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		literal.WriteString(before)
		if !found {
			return append(parts, substitution{text: literal.String()}), nil
		}
		inner, rest, closed := strings.Cut(after, "}")
		if !closed {
			literal.WriteString("${" + after)
			return append(parts, substitution{text: literal.String()}), nil
		}
		text = rest
		if kept, ok := strings.CutPrefix(inner, "!"); ok {
			literal.WriteString("${" + kept + "}")
			continue
		}
		name := strings.TrimSpace(inner)
		if !isVariable(name) {
			return nil, errSubName
		}
		parts = append(parts, substitution{literal.String(), name})
		literal.Reset()
	}
}

func isVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' && c != '.' && c != ':' {
			return false
		}
	}
	return name != ""
}

// splitSub returns the text and the variables of the argument of Fn::Sub.
func splitSub(argument any) (text string, variables map[string]any, err error) {
	if text, ok := argument.(string); ok {
		return text, nil, nil
	}
	list, ok := argument.([]any)
	if !ok || len(list) != 2 {
		return "", nil, errSub
	}
	text, isText := list[0].(string)
	variables, isObject := list[1].(map[string]any)
	if !isText || !isObject {
		return "", nil, errSub
	}
	return text, variables, nil
}

// splitGetAtt returns the arguments of Fn::GetAtt, of which the attribute may be a function.
func splitGetAtt(argument any) (resource string, attribute any, err error) {
	if text, ok := argument.(string); ok {
		argument = splitAttribute(text)
	}
	list, ok := argument.([]any)
	if !ok || len(list) < 2 {
		return "", nil, errGetAtt
	}
	if resource, ok = list[0].(string); !ok || resource == "" {
		return "", nil, errGetAtt
	}
	if len(list) > 2 { // !GetAtt [Stack, Outputs, Name]
		var names []string
		for _, item := range list[1:] {
			name, isText := item.(string)
			if !isText {
				return "", nil, errGetAtt
			}
			names = append(names, name)
		}
		return resource, strings.Join(names, "."), nil
	}
	switch a := list[1].(type) {
	case string:
		if a == "" {
			return "", nil, errGetAtt
		}
	case map[string]any:
		if !isFunctionObject(a) {
			return "", nil, errGetAtt
		}
	default:
		return "", nil, errGetAtt
	}
	return resource, list[1], nil
}
