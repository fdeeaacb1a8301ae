package schema

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryNamedTypeHasASchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("names.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("types.json.gz is not of names.txt, or that is not sorted: %s", cmp.Diff(want, got))
	}
}

func TestTypesAreComplete(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		kind, ok := Of(name)
		if !ok {
			t.Fatalf("%s is named and unknown", name)
		}
		for _, id := range kind.PrimaryIdentifier {
			_, isProperty := kind.Properties[id]
			if _, isAttribute := kind.Attributes[id]; !isProperty && !isAttribute {
				t.Errorf("%s: identifier %s is neither a property nor an attribute", name, id)
			}
		}
		if kind.TagProperty != "" && kind.Properties[kind.TagProperty] == nil {
			t.Errorf("%s: there is no property %s", name, kind.TagProperty)
		}
		for _, path := range kind.WriteOnly {
			first, _, _ := strings.Cut(path, "/")
			if kind.Properties[first] == nil {
				t.Errorf("%s: write-only property %s is unknown", name, path)
			}
		}
	}
	for name := range writeOnly {
		if _, ok := Of(name); !ok {
			t.Errorf("write-only properties of %s, which has no schema", name)
		}
	}
	if _, ok := Of("AWS::EC2::Vpc"); ok {
		t.Error("names are compared without their case")
	}
}

// TestFacts holds what the handlers and the engine rely on against the documentation of CloudFormation.
func TestFacts(t *testing.T) {
	t.Parallel()
	for _, fact := range []struct {
		kind, property string
		required       bool
		recreation     Recreation
	}{
		{"AWS::EC2::VPC", "CidrBlock", false, Always},
		{"AWS::EC2::VPC", "InstanceTenancy", false, Conditionally},
		{"AWS::EC2::VPC", "EnableDnsSupport", false, Never},
		{"AWS::EC2::SecurityGroup", "GroupDescription", true, Always},
		{"AWS::EKS::Cluster", "RoleArn", true, Always},
		{"AWS::EKS::Cluster", "Version", false, Never},
		{"AWS::EKS::Nodegroup", "NodeRole", true, Always},
		{"AWS::IAM::Role", "RoleName", false, Always},
		{"AWS::IAM::Role", "AssumeRolePolicyDocument", true, Never},
	} {
		kind, _ := Of(fact.kind)
		p := kind.Properties[fact.property]
		if p == nil {
			t.Errorf("%s has no property %s", fact.kind, fact.property)
			continue
		}
		if p.Required != fact.required || p.RequiresRecreation != fact.recreation {
			t.Errorf("%s/%s: required %v, recreation %s", fact.kind, fact.property, p.Required, p.RequiresRecreation)
		}
	}
	for kind, attributes := range map[string][]string{
		"AWS::EKS::Cluster":          {"Arn", "Endpoint", "CertificateAuthorityData", "ClusterSecurityGroupId"},
		"AWS::IAM::Role":             {"Arn"},
		"AWS::EC2::EIP":              {"AllocationId"},
		"AWS::EC2::VPC":              {"CidrBlock", "Ipv6CidrBlocks"},
		"AWS::EC2::LaunchTemplate":   {"LatestVersionNumber"},
		"AWS::CloudFormation::Stack": {"Outputs.VpcId"},
	} {
		for _, attribute := range attributes {
			if k, _ := Of(kind); !k.HasAttribute(attribute) {
				t.Errorf("%s has no attribute %s", kind, attribute)
			}
		}
	}
	if k, _ := Of("AWS::EC2::VPC"); k.HasAttribute("Outputs.X") || k.HasAttribute("Tags") {
		t.Error("a VPC has attributes that it has not")
	}
	if k, _ := Of("AWS::EC2::EIP"); !slices.Equal(k.Ref, []string{"PublicIp"}) {
		t.Errorf("Ref of an EIP is %v", k.Ref)
	}
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, properties string
		want             []string
	}{
		"nothing":  {"AWS::EC2::InternetGateway", `{}`, nil},
		"required": {"AWS::EC2::SecurityGroup", `{}`, []string{"#: required key [GroupDescription] not found"}},
		"unknown":  {"AWS::EC2::VPC", `{"Cidr": "x"}`, []string{"#: extraneous key [Cidr] is not permitted"}},
		"required and unknown": {"AWS::EC2::SecurityGroup", `{"Name": "x"}`, []string{
			"#: required key [GroupDescription] not found", "#: extraneous key [Name] is not permitted"}},
		"list for string": {"AWS::EC2::VPC", `{"CidrBlock": ["x"]}`, []string{
			"#/CidrBlock: expected type: String, found: JSONArray"}},
		"string for list": {"AWS::EC2::Instance", `{"SecurityGroupIds": "sg-1"}`, []string{
			"#/SecurityGroupIds: expected type: JSONArray, found: String"}},
		"object for string": {"AWS::EC2::VPC", `{"CidrBlock": {"a": 1}}`, []string{
			"#/CidrBlock: expected type: String, found: JSONObject"}},
		"number for string":  {"AWS::EKS::Cluster", `{"RoleArn": "r", "ResourcesVpcConfig": {"SubnetIds": []}, "Version": 1.31}`, nil},
		"string for bool":    {"AWS::EC2::VPC", `{"EnableDnsSupport": "true"}`, nil},
		"word for bool":      {"AWS::EC2::VPC", `{"EnableDnsSupport": "yes"}`, []string{"#/EnableDnsSupport: expected type: Boolean, found: String"}},
		"string for integer": {"AWS::EC2::Volume", `{"AvailabilityZone": "a", "Size": "10"}`, nil},
		"fraction": {"AWS::EC2::Volume", `{"AvailabilityZone": "a", "Size": 1.5}`, []string{
			"#/Size: expected type: Integer, found: Number"}},
		"integer with a point": {"AWS::EC2::Volume", `{"AvailabilityZone": "a", "Size": 10.0}`, nil},
		"huge exponent": {"AWS::EC2::Volume", `{"AvailabilityZone": "a", "Size": 1e999999999}`, []string{
			"#/Size: expected type: Integer, found: Number"}},
		"word for integer": {"AWS::EC2::Volume", `{"AvailabilityZone": "a", "Size": "ten"}`, []string{
			"#/Size: expected type: Integer, found: String"}},
		"tag without value": {"AWS::EC2::VPC", `{"Tags": [{"Key": "a"}]}`, []string{
			"#/Tags/0: required key [Value] not found"}},
		"tags as a map": {"AWS::EC2::VPC", `{"Tags": {"a": "b"}}`, []string{
			"#/Tags: expected type: JSONArray, found: JSONObject"}},
		"map of tags":   {"AWS::EKS::Nodegroup", `{"ClusterName":"c","NodeRole":"r","Subnets":["s"],"Tags":{"a":1}}`, nil},
		"policy object": {"AWS::IAM::Role", `{"AssumeRolePolicyDocument": {"Version": "2012-10-17"}}`, nil},
		"policy text":   {"AWS::IAM::Role", `{"AssumeRolePolicyDocument": "{}"}`, nil},
		"policy number": {"AWS::IAM::ManagedPolicy", `{"PolicyDocument": 1}`, nil},
		"nested": {"AWS::EC2::Instance", `{"BlockDeviceMappings": [{"DeviceName": "a", "Ebs": {"Size": 1}}]}`, []string{
			"#/BlockDeviceMappings/0/Ebs: extraneous key [Size] is not permitted"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _ := Of(test.kind)
			var got []string
			properties := object(t, test.properties)
			for _, err := range kind.Validate(properties) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if len(got) == 0 {
				for _, err := range kind.Validate(kind.Coerce(properties)) {
					t.Errorf("coerced: %v", err)
				}
			}
		})
	}
}

func TestUnknownHasEveryType(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		kind, _ := Of(name)
		properties := make(map[string]any)
		for property := range kind.Properties {
			properties[property] = Unknown
		}
		for _, err := range kind.Validate(properties) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(properties, kind.Coerce(properties)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	properties := make(map[string]any)
	for i := range 1000 {
		properties[strings.Repeat("x", i+1)] = true
	}
	kind, _ := Of("AWS::EC2::VPC")
	if got := len(kind.Validate(properties)); got != maxProblems {
		t.Errorf("%d problems are listed", got)
	}
}

func TestCoerce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, properties, want string }{
		"string": {"AWS::EKS::Cluster", `{"Version": 1.30}`, `{"Version": "1.30"}`},
		"bool for string": {"AWS::EC2::VPC", `{"Tags": [{"Key": 1, "Value": true}]}`,
			`{"Tags": [{"Key": "1", "Value": "true"}]}`},
		"bool":                 {"AWS::EC2::VPC", `{"EnableDnsSupport": "TRUE"}`, `{"EnableDnsSupport": true}`},
		"not a bool":           {"AWS::EC2::VPC", `{"EnableDnsSupport": "yes"}`, `{"EnableDnsSupport": "yes"}`},
		"integer":              {"AWS::EC2::Volume", `{"Size": " 10"}`, `{"Size": 10}`},
		"integer with point":   {"AWS::EC2::Volume", `{"Size": "1e2"}`, `{"Size": 100}`},
		"unknown property":     {"AWS::EC2::VPC", `{"X": 1}`, `{"X": 1}`},
		"policy text":          {"AWS::IAM::Role", `{"AssumeRolePolicyDocument": " {\"a\": 1} "}`, `{"AssumeRolePolicyDocument": {"a": 1}}`},
		"text that is no JSON": {"AWS::IAM::Role", `{"AssumeRolePolicyDocument": "{a"}`, `{"AssumeRolePolicyDocument": "{a"}`},
		"nested": {"AWS::EC2::Instance", `{"BlockDeviceMappings": [{"DeviceName": 1, "Ebs": {"VolumeSize": "8"}}]}`,
			`{"BlockDeviceMappings": [{"DeviceName": "1", "Ebs": {"VolumeSize": 8}}]}`},
		"sizes of groups": {"AWS::AutoScaling::AutoScalingGroup", `{"MinSize": 1, "MaxSize": "2"}`,
			`{"MinSize": "1", "MaxSize": "2"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _ := Of(test.kind)
			if diff := cmp.Diff(object(t, test.want), kind.Coerce(object(t, test.properties))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, before, after string
		want                []string
	}{
		"equal":   {"AWS::EC2::VPC", `{"CidrBlock": "a"}`, `{"CidrBlock": "a"}`, nil},
		"replace": {"AWS::EC2::VPC", `{"CidrBlock": "a"}`, `{"CidrBlock": "b"}`, []string{"/Properties/CidrBlock Always"}},
		"in place": {"AWS::EC2::VPC", `{"EnableDnsSupport": true}`, `{}`,
			[]string{"/Properties/EnableDnsSupport Never removed"}},
		"added":         {"AWS::EC2::VPC", `{}`, `{"InstanceTenancy": "x"}`, []string{"/Properties/InstanceTenancy Conditionally added"}},
		"a policy":      {"AWS::IAM::Role", `{"AssumeRolePolicyDocument": {"a": 1}}`, `{"AssumeRolePolicyDocument": {"a": 2}}`, []string{"/Properties/AssumeRolePolicyDocument Never"}},
		"within object": {"AWS::EKS::Nodegroup", `{"ScalingConfig": {"MinSize": 1, "MaxSize": 2}}`, `{"ScalingConfig": {"MinSize": 1, "MaxSize": 3}}`, []string{"/Properties/ScalingConfig/MaxSize Never"}},
		"object that replaces": {"AWS::EKS::Nodegroup", `{"RemoteAccess": {"Ec2SshKey": "a"}}`,
			`{"RemoteAccess": {"Ec2SshKey": "b"}}`, []string{"/Properties/RemoteAccess/Ec2SshKey Always"}},
		"lists of another length": {"AWS::EKS::Nodegroup", `{"Taints": [{"Key": "a"}]}`, `{"Taints": []}`,
			[]string{"/Properties/Taints Never"}},
		"several, sorted": {"AWS::EC2::VPC", `{"EnableDnsSupport": true, "CidrBlock": "a"}`,
			`{"EnableDnsSupport": false, "CidrBlock": "b"}`,
			[]string{"/Properties/CidrBlock Always", "/Properties/EnableDnsSupport Never"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _ := Of(test.kind)
			var got []string
			for _, c := range kind.Diff(object(t, test.before), object(t, test.after)) {
				text := c.Path + " " + string(c.RequiresRecreation)
				if c.Added {
					text += " added"
				}
				if c.Removed {
					text += " removed"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	kind, _ := Of("AWS::EC2::Subnet")
	changes := kind.Diff(map[string]any{"VpcId": "vpc-1"}, map[string]any{"VpcId": Unknown})
	if len(changes) != 1 || !changes[0].Dynamic || changes[0].RequiresRecreation != Always {
		t.Errorf("a value that is not known yet: %+v", changes)
	}
}
