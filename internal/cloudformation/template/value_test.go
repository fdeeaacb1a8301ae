package template

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// evaluateText evaluates a value of the Metadata of a resource, in a template with parameters, mappings and
// conditions.
func evaluateText(t testing.TB, value string, inputs Inputs, state State) (string, error) {
	t.Helper()
	b, err := bindText(t, `
Transform: AWS::LanguageExtensions
Parameters:
  Text: {Type: String, Default: text}
  Number: {Type: Number, Default: 3}
  List: {Type: CommaDelimitedList, Default: "a, b,c"}
  Ports: {Type: List<Number>, Default: "80,443"}
  Empty: {Type: CommaDelimitedList, Default: ""}
Mappings:
  Map: {us-west-2: {Name: west, List: [x, y], Count: 2, Ref: !Ref Text}}
Conditions:
  Holds: !Equals [!Ref Text, text]
  Fails: !Not [!Condition Holds]
  Both: !And [!Condition Holds, !Or [!Condition Fails, !Equals ["3", !Ref Number]]]
  NoValue: !Equals [!Ref AWS::NoValue, ""]
Resources:
  VPC: {Type: AWS::EC2::VPC}
  Stack: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: x}}
  Skipped: {Type: AWS::EC2::VPC, Condition: Fails}
  Subject:
    Type: AWS::EC2::InternetGateway
    Metadata:
      Value: `+value+"\n", inputs)
	if err != nil {
		return "", err
	}
	evaluated, err := b.Metadata(context.Background(), "Subject", state)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(evaluated.(map[string]any)["Value"])
	return string(text), err
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	inputs := platformInputs(nil)
	inputs.StackOutput = func(_ context.Context, o StackOutput) (string, error) {
		return o.StackName + "/" + o.OutputName + "/" + o.Region + "/" + o.RoleARN, nil
	}
	for value, want := range map[string]string{
		`!Ref Text`:                                                 `"text"`,
		`!Ref Number`:                                               `"3"`,
		`!Ref List`:                                                 `["a","b","c"]`,
		`!Ref Ports`:                                                `["80","443"]`,
		`!Ref Empty`:                                                `[]`,
		`!Ref VPC`:                                                  `"ref-VPC"`,
		`!Ref AWS::AccountId`:                                       `"111122223333"`,
		`!Ref AWS::URLSuffix`:                                       `"amazonaws.com"`,
		`!Ref AWS::NoValue`:                                         `null`,
		`[a, !Ref AWS::NoValue, b]`:                                 `["a","b"]`,
		`{a: !Ref AWS::NoValue, b: c}`:                              `{"b":"c"}`,
		`{Ref: VPC, And: more}`:                                     `{"And":"more","Ref":"VPC"}`,
		`!GetAtt VPC.CidrBlock`:                                     `"att-VPC-CidrBlock"`,
		`!GetAtt [VPC, CidrBlock]`:                                  `"att-VPC-CidrBlock"`,
		`!GetAtt [VPC, !Sub CidrBlock]`:                             `"att-VPC-CidrBlock"`,
		`!GetAtt Stack.Outputs.A`:                                   `"att-Stack-Outputs.A"`,
		`!GetAtt [Stack, Outputs, A]`:                               `"att-Stack-Outputs.A"`,
		`!Sub 'a${Text}b${!Text}c'`:                                 `"atextb${Text}c"`,
		`!Sub '${ Text }'`:                                          `"text"`,
		`!Sub '$Text ${'`:                                           `"$Text ${"`,
		`!Sub ['${a}-${Text}', {a: 1}]`:                             `"1-text"`,
		`!Sub ['${Text}', {Text: over}]`:                            `"over"`,
		`!Sub '${VPC.CidrBlock}/${Number}'`:                         `"att-VPC-CidrBlock/3"`,
		`!Join [',', [a, 1, true, !Ref VPC]]`:                       `"a,1,true,ref-VPC"`,
		`!Join ['', []]`:                                            `""`,
		`!Join ['-', !Ref List]`:                                    `"a-b-c"`,
		`!Split [',', 'a,,b']`:                                      `["a","","b"]`,
		`!Split ['::', !Sub 'x::${Text}']`:                          `["x","text"]`,
		`!Select [1, !Ref List]`:                                    `"b"`,
		`!Select ['0', [a]]`:                                        `"a"`,
		`!Select [!Ref Number, [a, b, c, d]]`:                       `"d"`,
		`!Select [0, !GetAZs '']`:                                   `"us-west-2a"`,
		`{'Fn::GetAZs': !Sub eu-central-1}`:                         `["eu-central-1a","eu-central-1b"]`,
		`!Base64 'hello'`:                                           `"aGVsbG8="`,
		`!FindInMap [Map, !Ref AWS::Region, Name]`:                  `"west"`,
		`!FindInMap [Map, us-west-2, List]`:                         `["x","y"]`,
		`!FindInMap [Map, us-west-2, Count]`:                        `2`,
		`!FindInMap [Map, us-west-2, Ref]`:                          `"text"`,
		`!FindInMap [!Sub Map, us-west-2, !Join ['', [Na, me]]]`:    `"west"`,
		`!FindInMap [Map, nope, Name, {DefaultValue: !Ref Text}]`:   `"text"`,
		`!FindInMap [Nope, nope, Name, {DefaultValue: none}]`:       `"none"`,
		`!If [Holds, yes it is, no]`:                                `"yes it is"`,
		`!If [Fails, !Ref Skipped, b]`:                              `"b"`,
		`!If [Both, !If [NoValue, x, y], z]`:                        `"x"`,
		`!Cidr [10.0.7.9/16, 2, 8]`:                                 `["10.0.0.0/24","10.0.1.0/24"]`,
		`!Cidr ['10.0.0.0/24', '2']`:                                `null`,
		`!Cidr ['2001:db8::/56', 2, 64]`:                            `["2001:db8::/64","2001:db8:0:1::/64"]`,
		`!Cidr ['2001:db8::/56', 1]`:                                `["2001:db8::/64"]`,
		`!Select [255, !Cidr [0.0.0.0/0, 256, 24]]`:                 `"255.0.0.0/8"`,
		`!ImportValue platform-description`:                         `"imported"`,
		`{'Fn::ImportValue': !Sub '${AWS::StackName}-description'}`: `"imported"`,
		`!GetStackOutput {StackName: s, OutputName: o}`:             `"s/o/us-west-2/"`,
		`{'Fn::GetStackOutput': {StackName: !Ref Text, OutputName: o, Region: eu-west-1, RoleArn: r}}`: `"text/o/eu-west-1/r"`,
		`{'Fn::Length': !Ref List}`:                           `3`,
		`{'Fn::Length': [a, !Ref AWS::NoValue]}`:              `1`,
		`{'Fn::ToJsonString': {b: [1, "2", true], a: <&>}}`:   `"{\"a\":\"\u003c\u0026\u003e\",\"b\":[1,\"2\",true]}"`,
		`{'Fn::ToJsonString': [!Ref VPC, !GetAtt VPC.VpcId]}`: `"[\"ref-VPC\",\"att-VPC-VpcId\"]"`,
		`{Condition: {StringEquals: {a: b}}}`:                 `{"Condition":{"StringEquals":{"a":"b"}}}`,
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			got, err := evaluateText(t, value, inputs, made{})
			if want == "null" && strings.HasPrefix(value, "!Cidr") {
				if err == nil {
					t.Errorf("two blocks of a block: %s", got)
				}
				return
			}
			if err != nil || got != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		})
	}
}

// TestUnknown evaluates before the VPC exists.
func TestUnknown(t *testing.T) {
	t.Parallel()
	const unknown = `"{{changeSet:KNOWN_AFTER_APPLY}}"`
	for value, want := range map[string]string{
		`!Ref VPC`:                             unknown,
		`!GetAtt VPC.CidrBlock`:                unknown,
		`!Sub 'a${VPC}b'`:                      unknown,
		`!Sub ['${a}', {a: !Ref VPC}]`:         unknown,
		`!Join ['', [a, !Ref VPC]]`:            unknown,
		`!Split [',', !Ref VPC]`:               unknown,
		`!Select [0, !Split [',', !Ref VPC]]`:  unknown,
		`!Select [0, [a, !Ref VPC]]`:           `"a"`,
		`!Select [1, [a, !Ref VPC]]`:           unknown,
		`{'Fn::Base64': !Ref VPC}`:             unknown,
		`!Cidr [!GetAtt VPC.CidrBlock, 2, 8]`:  unknown,
		`{'Fn::ToJsonString': {a: !Ref VPC}}`:  unknown,
		`{'Fn::Length': !Split [a, !Ref VPC]}`: unknown,
		`{a: [!Ref VPC, b]}`:                   `{"a":[` + unknown + `,"b"]}`,
		`!If [Holds, b, !Ref VPC]`:             `"b"`,
	} {
		got, err := evaluateText(t, value, platformInputs(nil), made{not: []string{"VPC"}})
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", value, got, err, want)
		}
	}
}

func TestScalarsOfYAML(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`1.10`: `1.10`, `1`: `1`, `-5`: `-5`, `1e3`: `1e3`, `0x1F`: `31`, `1_000`: `1000`, `+7`: `7`,
		`012345678901`: `"012345678901"`, `0644`: `"0644"`, `.5`: `".5"`, `.inf`: `".inf"`, `1.`: `"1."`,
		`true`: `true`, `False`: `false`, `yes`: `true`, `No`: `false`, `ON`: `true`, `"yes"`: `"yes"`, `!!str yes`: `"yes"`,
		`2012-10-17`: `"2012-10-17"`, `2001-12-14t21:59:43.10-05:00`: `"2001-12-14t21:59:43.10-05:00"`, `'1'`: `"1"`,
		`y`: `"y"`, `yEs`: `"yEs"`, `a b`: `"a b"`, `"a\nb"`: `"a\nb"`, `!!binary aGk=`: `"aGk="`, `1:30`: `"1:30"`,
	} {
		got, err := evaluateText(t, value, Inputs{}, made{})
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", value, got, err, want)
		}
	}
	long := strings.Repeat("f", 100) // to write such a number in decimal takes time in proportion to its square
	if got, err := evaluateText(t, "0x"+long+" ", Inputs{}, made{}); err != nil || got != `"0x`+long+`"` {
		t.Errorf("a long number: got %s, %v", got, err)
	}
	if got, err := evaluateText(t, "!!int 0x"+long, Inputs{}, made{}); err != nil || got != `"0x`+long+`"` {
		t.Errorf("a long number: got %s, %v", got, err)
	}
}

func TestDynamicReferences(t *testing.T) {
	t.Parallel()
	bind := func(value string) (*Bound, error) {
		return bindText(t, "Parameters: {P: {Type: String, Default: 'x{{resolve:ssm:/platform/value:3}}'}}\n"+
			"Resources:\n  P1: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: "+value+"}}\n"+
			"  U: {Type: AWS::IAM::User, Properties: {LoginProfile: {Password: '{{resolve:ssm-secure:/platform/secure:1}}'}}}\n"+
			"Outputs: {O: {Value: 'a {{resolve:ssm:/platform/value:3}}'}, P: {Value: !Ref P}}\n", platformInputs(nil))
	}
	for value, want := range map[string]string{
		`'{{resolve:ssm:/platform/value:3}}'`:                                  "three",
		`'a{{resolve:ssm:/platform/value:3}}b{{resolve:ssm:/platform/list}}c'`: "athreeba,b, c ,dc",
		`!Sub '${AWS::Region} {{resolve:ssm:/platform/value:3}}'`:              "us-west-2 three",
		`!Join ['', ['{{resolve:ssm:', '/platform/value', ':3}}']]`:            "three",
		`'{{resolve:other:x}} {{resolve:ssm:/platform/value:3'`:                "{{resolve:other:x}} {{resolve:ssm:/platform/value:3",
		`!Ref P`: "xthree",
	} {
		b, err := bind(value)
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		properties, err := b.Properties(context.Background(), "P1", nil)
		if err != nil || properties["Value"] != want {
			t.Errorf("%s: got %v, %v, want %s", value, properties["Value"], err, want)
		}
	}
	for value, want := range map[string]string{
		`'{{resolve:ssm:/nope}}'`:            "Unable to fetch parameters [/nope] from parameter store for this account.",
		`'{{resolve:ssm:/platform/secure}}'`: "Non-secure ssm prefix was used for secure parameter /platform/secure",
	} {
		b, err := bind(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Properties(context.Background(), "P1", nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", value, err, want)
		}
	}
	b, err := bind("x")
	if err != nil {
		t.Fatal(err)
	}
	properties, err := b.Properties(context.Background(), "U", nil)
	if err != nil || properties["LoginProfile"].(map[string]any)["Password"] != "hidden" {
		t.Errorf("a secure reference: %v, %v", properties, err)
	}
	outputs, err := b.Outputs(context.Background(), nil)
	if err != nil || outputs[0].Value != "a {{resolve:ssm:/platform/value:3}}" || outputs[1].Value != "xthree" {
		t.Errorf("outputs are %v, %v", outputs, err)
	}
	if _, err := Parse("Parameters: {P: {Type: String, Default: '{{resolve:ssm:/a}}'}}\n" + gateway); err == nil ||
		err.Error() != "Template error: parameter P should not contain ssm versionless resolver" {
		t.Errorf("a default without a version: %v", err)
	}
}
