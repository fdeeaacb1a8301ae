package template

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// parameter is a declaration of the Parameters section.
type parameter struct {
	name, declared string // the type as declared: "AWS::SSM::Parameter::Value<String>"
	value          string // the type of its value: "String", "Number", "CommaDelimitedList", "AWS::EC2::VPC::Id"
	list           bool   // a list of that
	stored         bool   // the value is the name of an SSM parameter that has it

	description, constraint string
	hasDescription          bool
	byDefault               *string
	noEcho                  bool
	allowed                 []string
	pattern                 *pattern
	minLength, maxLength    *int
	minValue, maxValue      *big.Rat
}

// parameterMembers are the members of a declaration.
var parameterMembers = []string{"AllowedPattern", "AllowedValues", "ConstraintDescription", "Default", "Description",
	"MaxLength", "MaxValue", "MinLength", "MinValue", "NoEcho", "Type"}

// existingTypes are the types of parameters whose values name something that must exist.
var existingTypes = []string{"AWS::EC2::AvailabilityZone::Name", "AWS::EC2::Image::Id", "AWS::EC2::Instance::Id",
	"AWS::EC2::KeyPair::KeyName", "AWS::EC2::SecurityGroup::GroupName", "AWS::EC2::SecurityGroup::Id",
	"AWS::EC2::Subnet::Id", "AWS::EC2::VPC::Id", "AWS::EC2::Volume::Id", "AWS::Route53::HostedZone::Id"}

const storedName = "AWS::SSM::Parameter::Name"

func (t *Template) readParameters() error {
	declared, err := t.section("Parameters", maxParameters)
	if err != nil {
		return err
	}
	t.parameters = make(map[string]*parameter, len(declared))
	patterns := maxPattern
	for _, name := range sortedKeys(declared) {
		if !isAlphanumeric(name) {
			return errorf("Template format error: Parameter name %s is non alphanumeric.", name)
		}
		object, ok := declared[name].(map[string]any)
		if !ok {
			return errorf("Template format error: Any Parameters member must be an object.")
		}
		if t.parameters[name], err = readParameter(name, object, &patterns); err != nil {
			return err
		}
	}
	return nil
}

func readParameter(name string, object map[string]any, patterns *int) (*parameter, error) {
	p := &parameter{name: name}
	for _, member := range sortedKeys(object) {
		if !slices.Contains(parameterMembers, member) {
			return nil, errorf("Invalid template parameter property '%s'", member)
		}
	}
	declared, ok := object["Type"]
	if !ok {
		return nil, errorf("Template format error: Every Parameters object must contain a Type member.")
	}
	if p.declared, ok = declared.(string); !ok {
		return nil, errorf("Template format error: Every Type member must be a string.")
	}
	if !p.readType() {
		return nil, errorf("Template format error: Unrecognized parameter type: %s", p.declared)
	}
	for member, into := range map[string]*string{"Description": &p.description, "ConstraintDescription": &p.constraint} {
		text, given, err := readText(object, member)
		if err != nil {
			return nil, err
		}
		if len(text) > 4000 {
			return nil, errorf("Template format error: %s must be no longer than 4000 characters.", member)
		}
		*into = text
		p.hasDescription = p.hasDescription || given && member == "Description"
	}
	if text, given, err := readText(object, "Default"); err != nil {
		return nil, err
	} else if given {
		p.byDefault = &text
	}
	switch text, given, err := readText(object, "NoEcho"); {
	case err != nil:
		return nil, err
	case given && !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false"):
		return nil, errorf("Template format error: Every NoEcho member must be a boolean.")
	default:
		p.noEcho = strings.EqualFold(text, "true")
	}
	if err := p.readConstraints(object, patterns); err != nil {
		return nil, err
	}
	return p, p.checkDefaultReferences()
}

// readType reads the declared type, and reports whether there is such a type.
func (p *parameter) readType() bool {
	inner := p.declared
	if stored, ok := strings.CutPrefix(inner, "AWS::SSM::Parameter::Value<"); ok {
		inner, ok = strings.CutSuffix(stored, ">")
		if !ok {
			return false
		}
		p.stored = true
	}
	switch {
	case inner == "String", inner == "Number" && !p.stored, slices.Contains(existingTypes, inner):
		p.value = inner
	case inner == storedName && !p.stored:
		p.value = inner
	case inner == "CommaDelimitedList", inner == "List<String>":
		p.value, p.list = "String", true
	case strings.HasPrefix(inner, "List<") && strings.HasSuffix(inner, ">"):
		p.value, p.list = inner[len("List<"):len(inner)-1], true
		return p.value == "Number" && !p.stored || slices.Contains(existingTypes, p.value)
	default:
		return false
	}
	return true
}

// readText returns a member that is a string, or a number or bool that stands for one, and whether it is there.
func readText(object map[string]any, member string) (string, bool, error) {
	value, ok := object[member]
	if !ok {
		return "", false, nil
	}
	text, ok := scalarText(value)
	if !ok {
		return "", false, errorf("Template format error: Every %s member must be a string.", member)
	}
	return text, true, nil
}

func (p *parameter) readConstraints(object map[string]any, patterns *int) error {
	if value, ok := object["AllowedValues"]; ok {
		list, isList := value.([]any)
		if !isList {
			return errorf("Template format error: Every AllowedValues member must be a list.")
		}
		for _, item := range list {
			text, isText := scalarText(item)
			if !isText {
				return errorf("Template format error: Every AllowedValues value must be a string.")
			}
			p.allowed = append(p.allowed, text)
		}
	}
	text, ok, err := readText(object, "AllowedPattern")
	if err != nil {
		return err
	}
	if ok {
		if p.value == "Number" {
			return p.misplaced("AllowedPattern", "String")
		}
		if p.pattern, err = compilePattern(text, patterns); err != nil {
			return errorf("Template format error: Parameter '%s' AllowedPattern must be a valid regular expression.",
				p.name)
		}
	}
	for member, into := range map[string]**int{"MinLength": &p.minLength, "MaxLength": &p.maxLength} {
		text, ok, err := readText(object, member)
		if err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		if p.value == "Number" {
			return p.misplaced(member, "String")
		}
		length, err := strconv.Atoi(text)
		if err != nil || length < 0 {
			return errorf("Template format error: Every %s member must be a non-negative integer.", member)
		}
		*into = &length
	}
	for member, into := range map[string]**big.Rat{"MinValue": &p.minValue, "MaxValue": &p.maxValue} {
		text, ok, err := readText(object, member)
		if err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		if p.value != "Number" {
			return p.misplaced(member, "Number")
		}
		number, ok := parseNumber(text)
		if !ok {
			return errorf("Template format error: Every %s member must be a number.", member)
		}
		*into = number
	}
	if p.minLength != nil && p.maxLength != nil && *p.minLength > *p.maxLength {
		return errorf("Template error: Parameter '%s' MinLength must be less than MaxLength.", p.name)
	}
	if p.minValue != nil && p.maxValue != nil && p.minValue.Cmp(p.maxValue) > 0 {
		return errorf("Template error: Parameter '%s' MinValue must be less than MaxValue.", p.name)
	}
	return nil
}

func (p *parameter) misplaced(member, kind string) error {
	return errorf("Template error: Parameter '%s' %s must be on a parameter of type %s", p.name, member, kind)
}

// parseNumber parses a decimal number. Its exponent is small, because numbers are exact here.
func parseNumber(text string) (*big.Rat, bool) {
	text = strings.TrimSpace(text)
	if len(text) > 64 || !jsonNumber.MatchString(strings.TrimPrefix(text, "+")) {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok {
		if e, err := strconv.Atoi(exponent); err != nil || e < -400 || e > 400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(strings.TrimPrefix(text, "+"))
}

// checkValue returns the error of a value that the constraints forbid.
func (p *parameter) checkValue(value string, m *matcher) error {
	if len(value) > maxParameterSize {
		return errorf("Parameter '%s' must be no longer than %d bytes.", p.name, maxParameterSize)
	}
	values := []string{value}
	if p.list && !p.stored {
		values = splitList(value)
	}
	for _, item := range values {
		if problem := p.problemOf(item, m); problem != "" {
			if p.constraint != "" {
				return errorf("Parameter %s failed to satisfy constraint: %s", p.name, p.constraint)
			}
			return errorf("Parameter '%s' %s", p.name, problem)
		}
	}
	return nil
}

func (p *parameter) problemOf(value string, m *matcher) string {
	if p.value == "Number" {
		number, ok := parseNumber(value)
		switch {
		case !ok:
			return "must be a number."
		case p.minValue != nil && number.Cmp(p.minValue) < 0:
			return "must be a number not less than " + numberText(p.minValue)
		case p.maxValue != nil && number.Cmp(p.maxValue) > 0:
			return "must be a number not greater than " + numberText(p.maxValue)
		}
	}
	length := len([]rune(value))
	switch {
	case p.allowed != nil && !slices.Contains(p.allowed, value):
		return "must be one of AllowedValues"
	case p.minLength != nil && length < *p.minLength:
		return fmt.Sprintf("must contain at least %d characters", *p.minLength)
	case p.maxLength != nil && length > *p.maxLength:
		return fmt.Sprintf("must contain at most %d characters", *p.maxLength)
	case p.pattern != nil && !m.matches(p.pattern, value):
		return "must match pattern " + p.pattern.text
	}
	return ""
}

func numberText(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	text, _ := n.Float64()
	return strconv.FormatFloat(text, 'g', -1, 64)
}

// splitList returns the elements of a list parameter, without the spaces around them.
func splitList(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	items := strings.Split(value, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
