package template

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoops(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b, err := bindText(t, `
Transform: [AWS::LanguageExtensions]
Parameters:
  Names: {Type: CommaDelimitedList, Default: "alpha, be-ta"}
Mappings:
  Zones: {alpha: {Zone: a}, be-ta: {Zone: b}}
Conditions:
  Fn::ForEach::Conditions:
    - Name
    - !Ref Names
    - Is&{Name}: !Equals [!Ref Name, alpha]
Resources:
  Fn::ForEach::Networks:
    - Name
    - !Ref Names
    - V&{Name}:
        Type: AWS::EC2::VPC
        DeletionPolicy: !If ["Is&{Name}", Retain, Delete]
        UpdateReplacePolicy: !FindInMap [Nope, a, b, {DefaultValue: Retain}]
        Properties:
          CidrBlock: 10.0.0.0/16
          Tags:
            - {Key: Name, Value: !Ref Name}
            - {Key: Sub, Value: !Sub "${Name}-${AWS::Region}"}
            - {Key: Map, Value: !Sub ["${Name}", {Name: over}]}
            - {Key: Plain, Value: "${Name} &{Name}"}
            - {Key: Zone, Value: !FindInMap [Zones, !Ref Name, Zone]}
            - {Key: JSON, Value: {"Fn::ToJsonString": {all: !Ref Names, one: !Ref Name}}}
            - {Key: Count, Value: {"Fn::Length": !Ref Names}}
      Fn::ForEach::Subnets:
        - Number
        - ["1", "2"]
        - S&{Name}${Number}:
            Type: AWS::EC2::Subnet
            DependsOn: V&{Name}
            Properties: {VpcId: {Ref: !Sub "Valpha"}, CidrBlock: !Sub "10.0.${Number}.0/24"}
      Fn::ForEach::Attributes:
        - Attribute
        - [CidrBlock]
        - G&{Name}${Attribute}:
            Type: AWS::EC2::InternetGateway
            Metadata: {a: !GetAtt "Valpha.${Attribute}", b: !GetAtt [Valpha, !Ref Attribute]}
  Group:
    Type: AWS::EKS::PodIdentityAssociation
    Properties:
      ClusterName: c
      Namespace: n
      Fn::ForEach::Properties:
        - Property
        - [ServiceAccount, RoleArn]
        - ${Property}: !Sub "x-${Property}"
Outputs:
  Fn::ForEach::Outputs:
    - Name
    - [Valpha]
    - Id${Name}: {Value: !Ref "${Name}"}
      Cidr${Name}: {Value: !GetAtt "${Name}.CidrBlock"}
`, Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GalphaCidrBlock", "GbetaCidrBlock", "Group", "Salpha1", "Salpha2", "Sbeta1", "Sbeta2",
		"Valpha", "Vbeta"}, b.LogicalIDs()); diff != "" {
		t.Error(diff)
	}
	if a, b := b.Resource("Valpha"), b.Resource("Vbeta"); a.DeletionPolicy != "Retain" || b.DeletionPolicy != "Delete" ||
		a.UpdateReplacePolicy != "Retain" {
		t.Errorf("policies are %+v, %+v", a, b)
	}
	properties, err := b.Properties(ctx, "Vbeta", nil)
	if err != nil {
		t.Fatal(err)
	}
	tags := make(map[string]string)
	for _, tag := range properties["Tags"].([]any) {
		pair := tag.(map[string]any)
		tags[pair["Key"].(string)] = pair["Value"].(string)
	}
	if diff := cmp.Diff(map[string]string{"Name": "be-ta", "Sub": "be-ta-us-west-2", "Map": "over",
		"Plain": "${Name} &{Name}", "Zone": "b", "JSON": `{"all":["alpha","be-ta"],"one":"be-ta"}`, "Count": "2"}, tags); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(b.Dependencies("Sbeta2"), []string{"Valpha", "Vbeta"}) {
		t.Errorf("dependencies are %v", b.Dependencies("Sbeta2"))
	}
	metadata, err := b.Metadata(ctx, "GbetaCidrBlock", made{})
	if diff := cmp.Diff(map[string]any{"a": "att-Valpha-CidrBlock", "b": "att-Valpha-CidrBlock"}, metadata); err != nil ||
		diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	properties, err = b.Properties(ctx, "Group", nil)
	if err != nil || properties["RoleArn"] != "x-RoleArn" {
		t.Errorf("a loop of properties: %v, %v", properties, err)
	}
	outputs, err := b.Outputs(ctx, made{})
	if diff := cmp.Diff([]Output{{Key: "CidrValpha", Value: "att-Valpha-CidrBlock"},
		{Key: "IdValpha", Value: "ref-Valpha"}}, outputs); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	text, err := b.Processed()
	if err != nil {
		t.Fatal(err)
	}
	var processed map[string]any
	if err := json.Unmarshal([]byte(text), &processed); err != nil {
		t.Fatal(err)
	}
	if _, ok := processed["Transform"]; ok || strings.Contains(text, "ForEach") || !strings.Contains(text, `"Salpha1"`) {
		t.Errorf("the processed template is %s", text)
	}
	if _, err := Parse(text); err == nil {
		t.Error("the extensions that are left need no transform")
	}
}

// Types and capabilities are those of the resources that loops make, whatever makes their types.
func TestTypesOfExpandedResources(t *testing.T) {
	t.Parallel()
	const policy = "AssumeRolePolicyDocument: {}"
	for name, test := range map[string]struct {
		body string
		want []string // types, and then capabilities
	}{
		"no loop": {gateway, []string{"AWS::EC2::InternetGateway"}},
		"a type of the loop": {
			extended("Resources: {'Fn::ForEach::L': [X, ['AWS::IAM::Role'], {R: {Type: !Ref X, Properties: {" + policy +
				"}}}]}"),
			[]string{"AWS::IAM::Role", CapabilityIAM, CapabilityAutoExpand},
		},
		"a name of a member": {
			extended("Resources: {'Fn::ForEach::L': [Y, [a], {R: {'Fn::ForEach::M': [X, [Type], {'${X}': AWS::IAM::Role}], " +
				"Properties: {RoleName: a, " + policy + "}}}]}"),
			[]string{"AWS::IAM::Role", CapabilityNamedIAM, CapabilityAutoExpand},
		},
		"a name of a property": {
			extended("Resources: {R: {Type: AWS::IAM::Role, Properties: {'Fn::ForEach::L': [X, [RoleName], {'${X}': a}], " +
				policy + "}}}"),
			[]string{"AWS::IAM::Role", CapabilityNamedIAM, CapabilityAutoExpand},
		},
		"a condition that does not hold": {
			extended("Conditions: {C: !Equals [a, b]}\nResources: {G: {Type: AWS::EC2::InternetGateway}, 'Fn::ForEach::L': " +
				"[X, ['AWS::IAM::Role'], {R: {Type: !Ref X, Condition: C, Properties: {" + policy + "}}}]}"),
			[]string{"AWS::EC2::InternetGateway", "AWS::IAM::Role", CapabilityIAM, CapabilityAutoExpand},
		},
		"properties that a function chooses": {
			"Conditions: {C: !Equals [a, a]}\nResources: {R: {Type: AWS::IAM::Role, Properties: !If [C, {RoleName: a, " +
				policy + "}, {" + policy + "}]}}",
			[]string{"AWS::IAM::Role", CapabilityNamedIAM},
		},
		"properties that a function makes": {
			extended("Mappings: {M: {a: {b: c}}}\nResources: {R: {Type: AWS::IAM::Role, Properties: " +
				"{'Fn::FindInMap': [M, a, x, {DefaultValue: {RoleName: a, " + policy + "}}]}}}"),
			[]string{"AWS::IAM::Role", CapabilityNamedIAM, CapabilityAutoExpand},
		},
	} {
		b, err := bindText(t, test.body, Inputs{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		capabilities, _ := b.Capabilities()
		if got := append(b.ResourceTypes(), capabilities...); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// What loops and policies are made of does not change between a request and its operation.
func TestLoopsDoNotAskForValues(t *testing.T) {
	t.Parallel()
	in := Inputs{Import: func(context.Context, string) (string, error) {
		t.Error("an export was asked for")
		return "AWS::EC2::VPC", nil
	}}
	for name, test := range map[string][2]string{
		"a collection": {
			"Resources: {'Fn::ForEach::L': [X, [!ImportValue e], {R: {Type: !Ref X}}]}",
			"Transform AWS::LanguageExtensions failed with: Fn::ForEach collection of Fn::ForEach::L must be a list of strings",
		},
		"a policy": {
			"Resources: {R: {Type: AWS::EC2::VPC, DeletionPolicy: !ImportValue e}}",
			"Template format error: Every DeletionPolicy member must be a string.",
		},
	} {
		if _, err := bindText(t, extended(test[0]), in); err == nil || err.Error() != test[1] {
			t.Errorf("%s: got %v, want %s", name, err, test[1])
		}
	}
}
