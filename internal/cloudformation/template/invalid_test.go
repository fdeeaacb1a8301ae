package template

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// bindText parses and binds a template as a stack of tests would.
func bindText(t testing.TB, body string, inputs Inputs) (*Bound, error) {
	t.Helper()
	parsed, err := Parse(body)
	if err != nil {
		return nil, err
	}
	if inputs.Pseudo.Region == "" {
		inputs.Pseudo = testPseudo
	}
	return parsed.Bind(context.Background(), inputs)
}

var testPseudo = Pseudo{AccountID: "111122223333", Region: "us-west-2", Partition: "aws", URLSuffix: "amazonaws.com",
	StackName: "platform", StackID: "arn:aws:cloudformation:us-west-2:111122223333:stack/platform/1",
	NotificationARNs: []string{"arn:aws:sns:us-west-2:111122223333:a", "arn:aws:sns:us-west-2:111122223333:b"}}

// given returns values of parameters.
func given(pairs ...string) map[string]ParameterInput {
	parameters := make(map[string]ParameterInput)
	for i := 0; i < len(pairs); i += 2 {
		parameters[pairs[i]] = ParameterInput{Value: pairs[i+1]}
	}
	return parameters
}

// gateway is a resource that needs nothing, for templates about something else.
const gateway = "Resources:\n  G: {Type: AWS::EC2::InternetGateway}\n"

// vpc returns a template with a VPC of which a property is a value.
func vpc(value string) string {
	return "Resources:\n  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: " + value + "}}\n"
}

// extended returns a template with AWS::LanguageExtensions.
func extended(body string) string { return "Transform: AWS::LanguageExtensions\n" + body }

func checkInvalid(t *testing.T, tests map[string][2]string) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := bindText(t, test[0], Inputs{Parameters: given()})
			var fault *Error
			if !errors.As(err, &fault) || fault.Message != test[1] {
				t.Errorf("got  %v\nwant %s", err, test[1])
			}
		})
	}
}

func TestInvalidDocuments(t *testing.T) {
	t.Parallel()
	checkInvalid(t, map[string][2]string{
		"empty":            {"", "Template format error: unsupported structure."},
		"spaces":           {" \n\t\n", "Template format error: unsupported structure."},
		"a comment":        {"# nothing\n", "Template format error: unsupported structure."},
		"a file name":      {"template.yaml", "Template format error: unsupported structure."},
		"a list":           {"- a\n", "Template format error: unsupported structure."},
		"a number":         {"1", "Template format error: unsupported structure."},
		"JSON without end": {`{"Resources": `, "Template format error: JSON not well-formed. (line 1, column 15)"},
		"JSON without a comma": {"{\"Resources\": {}\n \"Outputs\": {}}",
			"Template format error: JSON not well-formed. (line 2, column 2)"},
		"JSON and more": {"{}\n{}", "Template format error: JSON not well-formed. (line 2, column 1)"},
		"YAML": {"Resources:\n  G: {Type: x\nOutputs: y\n",
			"Template format error: YAML not well-formed. (line 1, column 1)"},
		"YAML with tabs":      {"Resources:\n\tG: x\n", "Template format error: YAML not well-formed. (line 2, column 1)"},
		"invalid UTF-8":       {"Description: a\n# \xff\n", "Template format error: YAML not well-formed. (line 2, column 3)"},
		"invalid UTF-8, JSON": {"{\"a\": \"\xc3\"}", "Template format error: JSON not well-formed. (line 1, column 8)"},
		"a zero byte":         {"a: \x00\n", "Template format error: YAML not well-formed. (line 1, column 4)"},
		"an unknown tag": {"Resources: !Foo {}\n",
			"Template format error: YAML not well-formed. (line 1, column 12)"},
		"aliases": {"Description: &a x\nResources: *a\n",
			"Template error: YAML aliases are not allowed in CloudFormation templates"},
		"a billion laughs": {"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
			"Template error: YAML aliases are not allowed in CloudFormation templates"},
		"an alias as a key": {"a: &a x\n*a : y\n",
			"Template error: YAML aliases are not allowed in CloudFormation templates"},
		"a merge": {"a: &a {b: c}\nd: {<<: *a}\n",
			"Template error: YAML aliases are not allowed in CloudFormation templates"},
		"a map as a key": {"Resources: {{a: b}: c}\n",
			"Template format error: [/Resources] map keys must be strings; received a map instead"},
		"a function as a key": {"Resources:\n  V: {!Sub 'x': y}\n",
			"Template format error: [/Resources/V] map keys must be strings; received a map instead"},
		"a number as a key": {"Mappings: {M: {123: {a: b}}}\n",
			"Template format error: [/Mappings/M] map keys must be strings; received numeric [123] instead"},
		"too deep": {`{"Metadata": ` + strings.Repeat(`[`, 100) + strings.Repeat("]", 100) + "}",
			"Template format error: Nesting depth is greater than maximum allowed, 100"},
		"too deep, YAML": {"Metadata: " + strings.Repeat("[", 101) + strings.Repeat("]", 101),
			"Template format error: Nesting depth is greater than maximum allowed, 100"},
		"too large": {strings.Repeat(" ", MaxBody+1), "Template may not exceed 1048576 bytes in size."},
	})
}

func TestInvalidSections(t *testing.T) {
	t.Parallel()
	many := func(section, member string, count int) string {
		var b strings.Builder
		b.WriteString(section + ":\n")
		for i := range count {
			fmt.Fprintf(&b, "  N%d: %s\n", i, member)
		}
		return b.String()
	}
	checkInvalid(t, map[string][2]string{
		"unknown":       {gateway + "Foo: 1\nBar: 2\n", "Invalid template property or properties [Bar, Foo]"},
		"hooks":         {gateway + "Hooks: {}\n", "The Hooks section of templates is not supported by coracle"},
		"no resources":  {"Description: x\n", "Template format error: At least one Resources member must be defined."},
		"resources {}":  {"Resources: {}\n", "Template format error: At least one Resources member must be defined."},
		"resources []":  {"Resources: []\n", "Template format error: Resources must be an object."},
		"null":          {"Resources:\n", "[/Resources] 'null' values are not allowed in templates"},
		"null property": {vpc("~"), "[/Resources/V/Properties/CidrBlock] 'null' values are not allowed in templates"},
		"null output":   {gateway + "Outputs: {O: {Value: }}\n", "[/Outputs/O/Value] 'null' values are not allowed in templates"},
		"null in list":  {vpc("[a, ~]"), "[/Resources/V/Properties/CidrBlock/1] 'null' values are not allowed in templates"},
		"version": {gateway + "AWSTemplateFormatVersion: '2011-01-01'\n",
			"Template format error: unsupported value for AWSTemplateFormatVersion. No such version."},
		"description":      {gateway + "Description: [a]\n", "Template format error: Every Description member must be a string."},
		"long description": {gateway + "Description: " + strings.Repeat("x", 1025), "Template format error: 'Description' length is greater than 1024."},
		"metadata":         {gateway + "Metadata: x\n", "Template format error: Metadata must be an object."},
		"parameters":       {gateway + "Parameters: []\n", "Template format error: Parameters must be an object."},
		"too many resources": {many("Resources", "{Type: AWS::EC2::InternetGateway}", 501),
			"Template format error: Number of resources, 501, is greater than maximum allowed, 500"},
		"too many parameters": {gateway + many("Parameters", "{Type: String}", 201),
			"Template format error: Number of parameters, 201, is greater than maximum allowed, 200"},
		"too many outputs": {gateway + many("Outputs", "{Value: a}", 201),
			"Template format error: Number of outputs, 201, is greater than maximum allowed, 200"},
		"too many mappings": {gateway + many("Mappings", "{a: {b: c}}", 201),
			"Template format error: Number of mappings, 201, is greater than maximum allowed, 200"},
		"mapping name":  {gateway + "Mappings: {a-b: {c: {d: e}}}\n", "Template format error: Mappings name 'a-b' is non alphanumeric."},
		"mapping":       {gateway + "Mappings: {A: b}\n", "Template format error: Every Mappings member A must be a map"},
		"mapping key":   {gateway + "Mappings: {A: {b: c}}\n", "Template format error: Every Mappings member b must be a map"},
		"mapping value": {gateway + "Mappings: {A: {b: {c: {d: e}}}}\n", "Template format error: Every Mappings attribute must be a String or a List."},
		"mapping value in a list": {gateway + "Mappings: {A: {b: {c: [{d: e}]}}}\n",
			"Template format error: Every Mappings attribute must be a String or a List."},
		"mapping attribute": {gateway + "Mappings: {A: {b: {c_d: e}}}\n",
			"Template format error: Mappings attribute name 'c_d' must contain only alphanumeric characters."},
		"transform":         {gateway + "Transform: [{Parameters: {}}]\n", "Key Name of transform definition must be a string."},
		"unknown transform": {gateway + "Transform: AWS::Serverless-2016-10-31\n", "No transform named AWS::Serverless-2016-10-31 found. Coracle serves the transform AWS::LanguageExtensions only."},
		"include":           {vpc("{'Fn::Transform': {Name: 'AWS::Include', Parameters: {Location: s3}}}"), "No transform named AWS::Include found. Coracle serves the transform AWS::LanguageExtensions only."},
		"include in resources": {"Resources:\n  Fn::Transform: {Name: 'AWS::Include'}\n  G: {Type: AWS::EC2::InternetGateway}\n",
			"No transform named AWS::Include found. Coracle serves the transform AWS::LanguageExtensions only."},
		"include without a name": {vpc("!Transform {a: b}"), "Key Name of transform definition must be a string."},
	})
}

func TestInvalidResources(t *testing.T) {
	t.Parallel()
	checkInvalid(t, map[string][2]string{
		"name":          {"Resources: {my-vpc: {Type: AWS::EC2::VPC}}\n", "Template format error: Resource name my-vpc is non alphanumeric."},
		"pseudo name":   {"Resources: {'AWS::NoValue': {Type: a}}\n", "Template format error: Resource name AWS::NoValue is non alphanumeric."},
		"long name":     {"Resources: {" + strings.Repeat("x", 256) + ": {Type: a}}\n", "Template format error: Resource name " + strings.Repeat("x", 256) + " is non alphanumeric."},
		"not an object": {"Resources: {V: x}\n", "Template format error: Any Resources member must be an object."},
		"no type":       {"Resources: {V: {}}\n", "Template format error: [/Resources/V] Every Resources object must contain a Type member."},
		"type":          {"Resources: {V: {Type: [a]}}\n", "Template format error: [/Resources/V/Type] Every Type member must be a string."},
		"unknown type":  {"Resources: {V: {Type: AWS::EC2::NATGateway}, W: {Type: 'Custom::X'}}\n", "Template format error: Unrecognized resource types: [AWS::EC2::NATGateway, Custom::X]"},
		"unknown member": {"Resources: {V: {Type: AWS::EC2::VPC, CidrBlock: x}}\n",
			"Invalid template resource property 'CidrBlock'"},
		"name of a parameter": {"Parameters: {V: {Type: String, Default: a}}\n" + vpc("x"),
			"Template error: all resources and parameters must have unique names. Common name(s):[V]"},
		"properties":       {"Resources: {V: {Type: AWS::EC2::VPC, Properties: x}}\n", "Template format error: [/Resources/V/Properties] Every Properties member must be an object."},
		"condition":        {"Resources: {V: {Type: AWS::EC2::VPC, Condition: [a]}}\n", "Template format error: Every Condition member must be a string."},
		"no condition":     {"Resources: {V: {Type: AWS::EC2::VPC, Condition: A}}\n", "Template format error: Unresolved condition dependency A in the Resources block of the template"},
		"depends on":       {"Resources: {V: {Type: AWS::EC2::VPC, DependsOn: {a: b}}}\n", "Template format error: DependsOn must be a string or list of strings."},
		"depends on a map": {"Resources: {V: {Type: AWS::EC2::VPC, DependsOn: [{a: b}]}}\n", "Template format error: Every DependsOn value must be a string."},
		"depends on nothing": {"Resources: {V: {Type: AWS::EC2::VPC, DependsOn: W}}\n",
			"Template format error: Unresolved resource dependencies [W] in the Resources block of the template"},
		"deletion policy": {"Resources: {V: {Type: AWS::EC2::VPC, DeletionPolicy: Keep}}\n", "Template format error: Unrecognized DeletionPolicy Keep for resource V"},
		"a function":      {"Resources: {V: {Type: AWS::EC2::VPC, DeletionPolicy: !Ref AWS::Region}}\n", "Template format error: Every DeletionPolicy member must be a string."},
		"replace policy":  {"Resources: {V: {Type: AWS::EC2::VPC, UpdateReplacePolicy: RetainExceptOnCreate}}\n", "Template format error: Unrecognized UpdateReplacePolicy RetainExceptOnCreate for resource V"},
		"snapshot":        {"Resources: {V: {Type: AWS::EC2::VPC, DeletionPolicy: Snapshot}}\n", "Template error: resource type AWS::EC2::VPC does not support deletion policy Snapshot"},
		"a cycle":         {"Resources: {A: {Type: AWS::EC2::VPC, DependsOn: B}, B: {Type: AWS::EC2::VPC, DependsOn: A}}\n", "Circular dependency between resources: [A, B]"},
		"itself":          {"Resources: {A: {Type: AWS::EC2::VPC, Metadata: {x: !Ref A}}}\n", "Circular dependency between resources: [A]"},
		"a cycle of functions": {"Resources:\n  A: {Type: AWS::EC2::VPC, Properties: {CidrBlock: !Sub '${B.Arn}'}}\n" +
			"  B: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: {a: !GetAtt A.CidrBlock}}}\n" +
			"  C: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref A}}\n  D: {Type: AWS::EC2::InternetGateway}\n",
			"Circular dependency between resources: [A, B, C]"},
		"unknown property":    {"Resources: {V: {Type: AWS::EC2::VPC, Properties: {Cidr: x}}}\n", "Properties validation failed for resource V with message:\n#: extraneous key [Cidr] is not permitted"},
		"missing property":    {"Resources: {R: {Type: AWS::IAM::Role, Properties: {Foo: x}}}\n", "Properties validation failed for resource R with message:\n#: required key [AssumeRolePolicyDocument] not found\n#: extraneous key [Foo] is not permitted"},
		"no properties":       {"Resources: {R: {Type: AWS::IAM::Role}}\n", "Properties validation failed for resource R with message:\n#: required key [AssumeRolePolicyDocument] not found"},
		"wrong type":          {vpc("[a]"), "Properties validation failed for resource V with message:\n#/CidrBlock: expected type: String, found: JSONArray"},
		"wrong type by Split": {vpc("!Split [',', 'a,b']"), "Properties validation failed for resource V with message:\n#/CidrBlock: expected type: String, found: JSONArray"},
		"creation policy":     {"Resources: {V: {Type: AWS::EC2::VPC, CreationPolicy: {ResourceSignal: {Count: 1}}}}\n", "CreationPolicy is not supported for resource type AWS::EC2::VPC"},
		"timeout": {"Resources: {W: {Type: AWS::CloudFormation::WaitCondition, CreationPolicy: {ResourceSignal: {Timeout: 15m}}}}\n",
			"Value of property Timeout in CreationPolicy of resource W must be an ISO 8601 duration of at most PT12H"},
		"update policy":         {"Resources: {V: {Type: AWS::EC2::VPC, UpdatePolicy: {AutoScalingRollingUpdate: {}}}}\n", "UpdatePolicy is not supported for resource type AWS::EC2::VPC"},
		"unknown update policy": {"Resources: {V: {Type: AWS::AutoScaling::AutoScalingGroup, UpdatePolicy: {Rolling: {}}, Properties: {MinSize: 1, MaxSize: 1}}}\n", "Encountered unsupported property Rolling in UpdatePolicy of resource V"},
		"batch size":            {"Resources: {V: {Type: AWS::AutoScaling::AutoScalingGroup, UpdatePolicy: {AutoScalingRollingUpdate: {MaxBatchSize: x}}, Properties: {MinSize: 1, MaxSize: 1}}}\n", "Value of property MaxBatchSize in UpdatePolicy of resource V must be a non-negative integer"},
		"percent":               {"Resources: {V: {Type: AWS::AutoScaling::AutoScalingGroup, CreationPolicy: {AutoScalingCreationPolicy: {MinSuccessfulInstancesPercent: 101}}, Properties: {MinSize: 1, MaxSize: 1}}}\n", "Value of property MinSuccessfulInstancesPercent in CreationPolicy of resource V must be an integer from 0 to 100"},
		"secrets manager":       {vpc("'{{resolve:secretsmanager:a:SecretString:b}}'"), "Dynamic references to Secrets Manager are not supported by coracle: [{{resolve:secretsmanager:a:SecretString:b}}]"},
		"a label":               {vpc("'{{resolve:ssm:/a:prod}}'"), "Incorrect format is used in the following SSM reference: [{{resolve:ssm:/a:prod}}]"},
		"secure":                {vpc("'x{{resolve:ssm-secure:/a:1}}'"), "SSM Secure reference is not supported in: [AWS::EC2::VPC/Properties/CidrBlock]"},
	})
}

func TestInvalidOutputs(t *testing.T) {
	t.Parallel()
	checkInvalid(t, map[string][2]string{
		"name":           {gateway + "Outputs: {a-b: {Value: x}}\n", "Template format error: Output name a-b is non alphanumeric."},
		"not an object":  {gateway + "Outputs: {O: x}\n", "Template format error: Any Outputs member must be an object."},
		"no value":       {gateway + "Outputs: {O: {Description: x}}\n", "Template format error: Every Outputs member must contain a Value object"},
		"unknown member": {gateway + "Outputs: {O: {Value: x, Name: y}}\n", "Invalid template output property 'Name'"},
		"a list":         {gateway + "Outputs: {O: {Value: [x]}}\n", "Template format error: The Value field of every Outputs member must evaluate to a String and not a List."},
		"a map":          {gateway + "Outputs: {O: {Value: {x: y, z: a}}}\n", "Template format error: The Value field of every Outputs member must evaluate to a String and not a Map."},
		"a list of a function": {gateway + "Outputs: {O: {Value: !Split [a, bac]}}\n",
			"Template format error: Every Value member must be a string."},
		"undefined":       {gateway + "Outputs: {O: {Value: !Ref X}}\n", "Template format error: Unresolved resource dependencies [X] in the Outputs block of the template"},
		"no resource":     {gateway + "Outputs: {O: {Value: !GetAtt X.Arn}}\n", "Template error: instance of Fn::GetAtt references undefined resource X"},
		"condition":       {gateway + "Outputs: {O: {Value: x, Condition: [a]}}\n", "Template format error: Every Condition member must be a string."},
		"no condition":    {gateway + "Outputs: {O: {Value: x, Condition: A}}\n", "Template format error: Unresolved condition dependency A in the Outputs block of the template"},
		"export":          {gateway + "Outputs: {O: {Value: x, Export: y}}\n", "Template format error: Output O is malformed. The Export field must contain a Name member."},
		"name of export":  {gateway + "Outputs: {O: {Value: x, Export: {Name: 'a b'}}}\n", "Template format error: Output O has an export name with characters other than letters, digits, colons and hyphens"},
		"the same export": {gateway + "Outputs: {O: {Value: x, Export: {Name: a}}, P: {Value: x, Export: {Name: !Sub a}}}\n", "Template format error: Output O and P have the same Export name a"},
		"skipped": {"Conditions: {No: !Equals [a, b]}\nResources: {G: {Type: AWS::EC2::InternetGateway}, H: {Type: AWS::EC2::InternetGateway, Condition: 'No'}}\n" +
			"Outputs: {O: {Value: !Ref H}}\n",
			"Unresolved resource dependencies [H] in the Outputs block of the template"},
	})
}
