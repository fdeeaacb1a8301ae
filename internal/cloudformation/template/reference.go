package template

import (
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
)

// checker checks the functions of a part of the template without evaluating them, also in branches that are not taken.
type checker struct {
	template   *Template
	resources  map[string]string // types by logical ID
	conditions map[string]any
	mappings   map[string]any
	block      string // "Resources"

	unresolved []string
}

var pseudoParameters = []string{"AWS::AccountId", "AWS::NoValue", "AWS::NotificationARNs", "AWS::Partition",
	"AWS::Region", "AWS::StackId", "AWS::StackName", "AWS::URLSuffix"}

// errUnresolved returns the error of references to what does not exist.
func errUnresolved(names []string, block string) error {
	return errorf("Template format error: Unresolved resource dependencies %s in the %s block of the template",
		inBrackets(names), block)
}

// checkReferences checks a value with all within it.
func (c *checker) checkReferences(value any) error {
	switch v := value.(type) {
	case map[string]any:
		if name, argument := functionOf(v); name != "" {
			return c.checkFunction(name, argument)
		}
		for _, key := range sortedKeys(v) {
			if err := c.checkReferences(v[key]); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := c.checkReferences(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) checkFunction(name string, argument any) error {
	list, isList := argument.([]any)
	switch name {
	case "Ref":
		text, ok := argument.(string)
		if !ok {
			return errRef
		}
		c.reference(text)
		return nil
	case "Fn::GetAtt":
		return c.checkGetAtt(argument)
	case "Fn::Sub":
		return c.checkSub(argument)
	case "Fn::FindInMap":
		return c.checkFindInMap(argument)
	case "Fn::If":
		return c.checkIf(argument)
	case "Fn::Join":
		if !isList || len(list) != 2 || !isString(list[0]) || isScalar(list[1]) || isPlainObject(list[1]) {
			return errJoin
		}
	case "Fn::Split":
		if !isList || len(list) != 2 || !isString(list[0]) || list[0] == "" || !isScalar(list[1]) && !isFunction(list[1]) {
			return errSplit
		}
	case "Fn::Select":
		if !isList || len(list) != 2 || isScalar(list[1]) || isPlainObject(list[1]) || !isIndex(list[0]) {
			return errSelect
		}
	case "Fn::Base64":
		if !isScalar(argument) && !isFunction(argument) {
			return errBase64
		}
	case "Fn::GetAZs":
		if !isScalar(argument) && !isFunction(argument) {
			return errGetAZs
		}
	case "Fn::Cidr":
		if !isList || len(list) < 2 || len(list) > 3 {
			return errCIDR
		}
	case "Fn::ImportValue":
		return c.checkImport(argument)
	case "Fn::GetStackOutput":
		if c.block == "Conditions" {
			return errorf("Template error: Cannot use Fn::GetStackOutput in Conditions.")
		}
		if _, err := stackOutputMembers(argument); err != nil {
			return err
		}
	case "Fn::Length", "Fn::ToJsonString":
		if !c.template.hasExtensions() {
			return errUnsupported(name)
		}
	case "Fn::Equals", "Fn::And", "Fn::Or", "Fn::Not":
		return c.checkCondition(map[string]any{name: argument})
	case "Fn::Transform":
		return errTransform(argument)
	default:
		return errUnsupported(name)
	}
	return c.checkReferences(argument)
}

func isString(value any) bool { _, ok := value.(string); return ok }
func isScalar(value any) bool { _, ok := scalarText(value); return ok }

func isFunction(value any) bool {
	object, ok := value.(map[string]any)
	return ok && isFunctionObject(object)
}

func isPlainObject(value any) bool {
	object, ok := value.(map[string]any)
	return ok && !isFunctionObject(object)
}

func isIndex(value any) bool {
	if text, ok := scalarText(value); ok {
		_, err := parseCount(text)
		return err == nil
	}
	return isFunction(value)
}

// reference records a name that is neither a parameter nor a resource.
func (c *checker) reference(name string) {
	if _, ok := c.resources[name]; ok || c.template.parameters[name] != nil || slices.Contains(pseudoParameters, name) {
		return
	}
	c.unresolved = append(c.unresolved, name)
}

func (c *checker) checkGetAtt(argument any) error {
	resource, attribute, err := splitGetAtt(argument)
	if err != nil {
		return err
	}
	if _, ok := c.resources[resource]; !ok {
		return errorf("Template error: instance of Fn::GetAtt references undefined resource %s", resource)
	}
	if name, ok := attribute.(string); ok {
		return c.checkAttribute(resource, name)
	}
	return c.checkReferences(attribute)
}

// checkAttribute refuses attributes that the type of a resource does not have.
func (c *checker) checkAttribute(resource, name string) error {
	kind, ok := schema.Of(c.resources[resource])
	if !ok || kind.HasAttribute(name) {
		return nil
	}
	return errorf("Template error: resource %s does not support attribute type %s in Fn::GetAtt", resource, name)
}

func (c *checker) checkSub(argument any) error {
	text, variables, err := splitSub(argument)
	if err != nil {
		return err
	}
	parts, err := parseSub(text)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, given := variables[part.variable]; given || part.variable == "" {
			continue
		}
		resource, attribute, isAttribute := strings.Cut(part.variable, ".")
		if !isAttribute {
			c.reference(part.variable)
			continue
		}
		if _, ok := c.resources[resource]; !ok {
			return errorf("Template error: instance of Fn::Sub references invalid resource attribute %s", part.variable)
		}
		if err := c.checkAttribute(resource, attribute); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(variables) {
		if strings.ContainsAny(name, ".:") || !isVariable(name) {
			return errSubKey
		}
		if !isScalar(variables[name]) && !isFunction(variables[name]) {
			return errSubValue
		}
		if err := c.checkReferences(variables[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkIf(argument any) error {
	list, ok := argument.([]any)
	if !ok || len(list) == 0 || !isString(list[0]) {
		return errIfName
	}
	if len(list) != 3 {
		return errIf
	}
	if _, ok := c.conditions[list[0].(string)]; !ok {
		return errorf("Template error: unresolved condition dependency %s in Fn::If", list[0])
	}
	return c.checkReferences(list[1:])
}

// checkImport refuses names of exports that depend on what is known only once resources exist.
func (c *checker) checkImport(argument any) error {
	if c.block == "Conditions" {
		return errorf("Template error: Cannot use Fn::ImportValue in Conditions.")
	}
	if !isScalar(argument) && !isFunction(argument) {
		return errImport
	}
	if c.dependsOnOthers(argument) {
		return errImported
	}
	return c.checkReferences(argument)
}

// dependsOnOthers reports whether a value depends on more than parameters.
func (c *checker) dependsOnOthers(value any) bool {
	depends := false
	visitFunctions(value, func(name string, argument any) {
		switch name {
		case "Fn::GetAtt", "Fn::ImportValue", "Fn::GetStackOutput", "Fn::GetAZs":
			depends = true
		case "Ref":
			text, ok := argument.(string)
			depends = depends || ok && !c.isParameter(text)
		case "Fn::Sub":
			text, variables, err := splitSub(argument)
			parts, parseErr := parseSub(text)
			if err != nil || parseErr != nil {
				return
			}
			for _, part := range parts {
				if _, given := variables[part.variable]; part.variable != "" && !given && !c.isParameter(part.variable) {
					depends = true
				}
			}
		}
	})
	return depends
}

func (c *checker) isParameter(name string) bool {
	return c.template.parameters[name] != nil || slices.Contains(pseudoParameters, name)
}

// visitFunctions calls visit for each function in a value.
func visitFunctions(value any, visit func(name string, argument any)) {
	switch v := value.(type) {
	case map[string]any:
		if name, argument := functionOf(v); name != "" {
			visit(name, argument)
		}
		for _, key := range sortedKeys(v) {
			visitFunctions(v[key], visit)
		}
	case []any:
		for _, item := range v {
			visitFunctions(item, visit)
		}
	}
}

// checkCondition checks the form of a function that returns a bool.
func (c *checker) checkCondition(value any) error {
	object, ok := value.(map[string]any)
	if !ok || len(object) != 1 {
		return errNotCondition
	}
	for name, argument := range object {
		list, isList := argument.([]any)
		switch {
		case name == "Condition":
			text, ok := argument.(string)
			if !ok {
				return errorf("Template error: All Conditions must be of type string")
			}
			if _, ok := c.conditions[text]; !ok {
				return errorf("Template error: unresolved condition dependency %s in Condition", text)
			}
			return nil
		case name == "Fn::Equals":
			if !isList || len(list) != 2 || isPlainObject(list[0]) || isPlainObject(list[1]) {
				return errEquals
			}
			return c.checkReferences(list)
		case name == "Fn::Not" && (!isList || len(list) != 1 || !isCondition(list[0])):
			return errNot
		case name == "Fn::And" && (len(list) < 2 || len(list) > 10 || slices.ContainsFunc(list, isNotCondition)):
			return errAnd
		case name == "Fn::Or" && (len(list) < 2 || len(list) > 10 || slices.ContainsFunc(list, isNotCondition)):
			return errOr
		case !slices.Contains(conditionFunctions, name):
			return errNotCondition
		}
		for _, item := range list {
			if err := c.checkCondition(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func isNotCondition(value any) bool { return !isCondition(value) }
