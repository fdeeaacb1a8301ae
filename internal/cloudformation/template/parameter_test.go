package template

import (
	"strings"
	"testing"
	"time"
)

func TestInvalidParameters(t *testing.T) {
	t.Parallel()
	declared := func(text string) string { return "Parameters:\n  P: " + text + "\n" + gateway }
	checkInvalid(t, map[string][2]string{
		"name":                                  {"Parameters: {a-b: {Type: String}}\n" + gateway, "Template format error: Parameter name a-b is non alphanumeric."},
		"not an object":                         {declared("x"), "Template format error: Any Parameters member must be an object."},
		"unknown member":                        {declared("{Type: String, Foo: x}"), "Invalid template parameter property 'Foo'"},
		"no type":                               {declared("{Default: x}"), "Template format error: Every Parameters object must contain a Type member."},
		"unknown type":                          {declared("{Type: Strin}"), "Template format error: Unrecognized parameter type: Strin"},
		"list of unknown":                       {declared("{Type: List<Foo>}"), "Template format error: Unrecognized parameter type: List<Foo>"},
		"SSM value of number":                   {declared("{Type: 'AWS::SSM::Parameter::Value<Number>'}"), "Template format error: Unrecognized parameter type: AWS::SSM::Parameter::Value<Number>"},
		"SSM value, no end":                     {declared("{Type: 'AWS::SSM::Parameter::Value<String'}"), "Template format error: Unrecognized parameter type: AWS::SSM::Parameter::Value<String"},
		"default":                               {declared("{Type: String, Default: {a: b}}"), "Template format error: Every Default member must be a string."},
		"allowed values":                        {declared("{Type: String, AllowedValues: x}"), "Template format error: Every AllowedValues member must be a list."},
		"allowed value":                         {declared("{Type: String, AllowedValues: [{a: b}]}"), "Template format error: Every AllowedValues value must be a string."},
		"NoEcho":                                {declared("{Type: String, NoEcho: maybe}"), "Template format error: Every NoEcho member must be a boolean."},
		"pattern":                               {declared("{Type: String, AllowedPattern: '('}"), "Template format error: Parameter 'P' AllowedPattern must be a valid regular expression."},
		"pattern of a number":                   {declared("{Type: Number, AllowedPattern: a}"), "Template error: Parameter 'P' AllowedPattern must be on a parameter of type String"},
		"length of a number":                    {declared("{Type: Number, MinLength: 1}"), "Template error: Parameter 'P' MinLength must be on a parameter of type String"},
		"value of a string":                     {declared("{Type: String, MaxValue: 1}"), "Template error: Parameter 'P' MaxValue must be on a parameter of type Number"},
		"MinLength":                             {declared("{Type: String, MinLength: x}"), "Template format error: Every MinLength member must be a non-negative integer."},
		"MinValue":                              {declared("{Type: Number, MinValue: x}"), "Template format error: Every MinValue member must be a number."},
		"lengths":                               {declared("{Type: String, MinLength: 2, MaxLength: 1}"), "Template error: Parameter 'P' MinLength must be less than MaxLength."},
		"values":                                {declared("{Type: Number, MinValue: 2, MaxValue: 1}"), "Template error: Parameter 'P' MinValue must be less than MaxValue."},
		"no value":                              {declared("{Type: String}"), "Parameters: [P] must have values"},
		"no values":                             {"Parameters: {P: {Type: String}, A: {Type: String}}\n" + gateway, "Parameters: [A, P] must have values"},
		"a default that the constraints forbid": {declared("{Type: String, Default: x, AllowedValues: [y]}"), "Parameter 'P' must be one of AllowedValues"},
	})
}

func TestValuesOfParameters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ declared, value, want string }{
		{"Type: String", "", ""},
		{"Type: String, AllowedValues: [a, 1]", "1", ""},
		{"Type: String, AllowedValues: [a]", "b", "Parameter 'P' must be one of AllowedValues"},
		{"Type: String, AllowedPattern: '[a-z]+'", "abc", ""},
		{"Type: String, AllowedPattern: '[a-z]+'", "abc1", "Parameter 'P' must match pattern [a-z]+"},
		{"Type: String, AllowedPattern: 'a|b'", "bc", "Parameter 'P' must match pattern a|b"},
		{"Type: String, AllowedPattern: '(?=.*[0-9])(?=.*[a-z]).{8,}'", "abcdefg1", ""},
		{"Type: String, AllowedPattern: '(?=.*[0-9]).{8,}'", "abcdefgh", "Parameter 'P' must match pattern (?=.*[0-9]).{8,}"},
		{"Type: String, AllowedPattern: '[a-z0-9]{2,4}+'", "ab1", ""},
		{"Type: String, AllowedPattern: '[a-z0-9]{2,4}+'", "ab123", "Parameter 'P' must match pattern [a-z0-9]{2,4}+"},
		{`Type: String, AllowedPattern: '(a)\1'`, "aa", ""},
		{"Type: String, MinLength: 2", "a", "Parameter 'P' must contain at least 2 characters"},
		{"Type: String, MaxLength: 2", "äöü", "Parameter 'P' must contain at most 2 characters"},
		{"Type: String, MinLength: 3, MaxLength: '3'", "äöü", ""},
		{"Type: String, MinLength: 2, ConstraintDescription: must be longer", "a", "Parameter P failed to satisfy constraint: must be longer"},
		{"Type: String", strings.Repeat("x", 4097), "Parameter 'P' must be no longer than 4096 bytes."},
		{"Type: Number", "1.5", ""}, {"Type: Number", "-1e2", ""}, {"Type: Number", " 7 ", ""},
		{"Type: Number", "x", "Parameter 'P' must be a number."},
		{"Type: Number", "", "Parameter 'P' must be a number."},
		{"Type: Number", "1e999999999", "Parameter 'P' must be a number."},
		{"Type: Number, MinValue: 1", "0.5", "Parameter 'P' must be a number not less than 1"},
		{"Type: Number, MaxValue: 1.5", "2", "Parameter 'P' must be a number not greater than 1.5"},
		{"Type: Number, MinValue: 1, MaxValue: 65535", "65535", ""},
		{"Type: Number, AllowedValues: [1, 2]", "2", ""},
		{"Type: CommaDelimitedList, AllowedValues: [a, b]", "a, b,a", ""},
		{"Type: CommaDelimitedList, AllowedValues: [a, b]", "a,c", "Parameter 'P' must be one of AllowedValues"},
		{"Type: List<Number>", "1,2", ""},
		{"Type: List<Number>, MaxValue: 1", "1,2", "Parameter 'P' must be a number not greater than 1"},
		{"Type: List<Number>", "1,x", "Parameter 'P' must be a number."},
		{"Type: List<String>", "a,b", ""},
		{"Type: 'List<AWS::EC2::Subnet::Id>'", "subnet-1,subnet-2", ""},
		{"Type: 'List<AWS::EC2::Subnet::Id>'", "subnet-1,subnet-gone", "Parameter validation failed: parameter value subnet-gone for parameter name P does not exist"},
		{"Type: 'AWS::EC2::KeyPair::KeyName'", "gone", "Parameter validation failed: parameter value gone for parameter name P does not exist"},
		{"Type: 'AWS::SSM::Parameter::Value<String>'", "/platform/value:3", ""},
		{"Type: 'AWS::SSM::Parameter::Value<List<String>>'", "/platform/list", ""},
		{"Type: 'AWS::SSM::Parameter::Value<CommaDelimitedList>'", "/platform/list", ""},
		{"Type: 'AWS::SSM::Parameter::Value<List<String>>'", "/platform/value:3", "Types for SSM parameters [/platform/value:3] defined in CFN template and SSM are incompatible"},
		{"Type: 'AWS::SSM::Parameter::Value<String>'", "/platform/list", "Types for SSM parameters [/platform/list] defined in CFN template and SSM are incompatible"},
		{"Type: 'AWS::SSM::Parameter::Value<String>'", "/platform/secure", "Parameters [/platform/secure] referenced by template have types not supported by CloudFormation."},
		{"Type: 'AWS::SSM::Parameter::Value<String>'", "/nope", "Unable to fetch parameters [/nope] from parameter store for this account."},
		{"Type: 'AWS::SSM::Parameter::Value<String>', AllowedPattern: '/platform.*'", "/platform/value:3", ""},
		{"Type: 'AWS::SSM::Parameter::Value<String>', AllowedValues: [three]", "/platform/value:3", "Parameter 'P' must be one of AllowedValues"},
		{"Type: 'AWS::SSM::Parameter::Name'", "/platform/value:3", ""},
		{"Type: 'AWS::SSM::Parameter::Name'", "/nope", "Parameter validation failed: parameter value /nope for parameter name P does not exist"},
	} {
		_, err := bindText(t, "Parameters: {P: {"+test.declared+"}}\n"+gateway, platformInputs(given("P", test.value)))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s = %.20s: got %q, want %q", test.declared, test.value, got, test.want)
		}
	}
}

func TestPreviousValues(t *testing.T) {
	t.Parallel()
	const body = "Parameters: {P: {Type: String}, S: {Type: 'AWS::SSM::Parameter::Value<String>', Default: /platform/value:3}}\n" + gateway
	before, resolved := "before", "at the beginning"
	b, err := bindText(t, body, platformInputs(map[string]ParameterInput{"P": {UsePrevious: true, Previous: &before},
		"S": {Value: "/gone", Resolved: &resolved}}))
	if err != nil {
		t.Fatal(err)
	}
	if p := b.Parameters(); p[0].Value != before || p[1].Value != "/gone" || p[1].ResolvedValue != resolved {
		t.Errorf("parameters are %v", p)
	}
	_, err = bindText(t, body, platformInputs(map[string]ParameterInput{"P": {UsePrevious: true}}))
	if err == nil || err.Error() != "Parameters: [P] must have values" {
		t.Errorf("no previous value: %v", err)
	}
	_, err = bindText(t, body, platformInputs(given("P", "a", "Q", "b", "R", "c")))
	if err == nil || err.Error() != "Parameters: [Q, R] do not exist in the template" {
		t.Errorf("unknown parameters: %v", err)
	}
}

// TestPatternsThatBacktrackAreBounded gives patterns that take exponential time to a matcher that backtracks: without a
// limit, the test would take years.
func TestPatternsThatBacktrackAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	values := make(map[string]ParameterInput)
	b.WriteString("Parameters:\n")
	for i := range maxParameters {
		b.WriteString("  P" + itoa(i) + ": {Type: CommaDelimitedList, AllowedPattern: '(?=a)(a+a+)+b|.*'}\n")
		values["P"+itoa(i)] = ParameterInput{Value: strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 30)+",", 100), ",")}
	}
	_, err := bindText(t, b.String()+gateway, Inputs{Parameters: values})
	if err == nil || !strings.HasPrefix(err.Error(), "Parameter 'P") {
		t.Errorf("the patterns match: %v", err)
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"PT5M": 5 * time.Minute, "PT1H30M": 90 * time.Minute,
		"PT12H": 12 * time.Hour,
		"PT0S":  0, "PT1H2M3S": time.Hour + 2*time.Minute + 3*time.Second} {
		if got, ok := ParseDuration(text); !ok || got != want {
			t.Errorf("%s is %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "PT", "P1D", "5M", "PT13H", "PT5", "PT1M1H", "PT999999999999H"} {
		if got, ok := ParseDuration(text); ok {
			t.Errorf("%s is %v", text, got)
		}
	}
}
