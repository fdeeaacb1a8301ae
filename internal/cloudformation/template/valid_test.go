package template

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readTestdata(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// made is a State in which all resources exist, but for those that are named.
type made struct{ not []string }

func (m made) Ref(id string) (string, bool) { return "ref-" + id, !slices.Contains(m.not, id) }

func (m made) Attribute(id, name string) (any, bool, error) {
	if name == "LatestVersionNumber" {
		return json.Number("7"), !slices.Contains(m.not, id), nil
	}
	return "att-" + id + "-" + name, !slices.Contains(m.not, id), nil
}

// platformInputs answers what the platform template asks.
func platformInputs(parameters map[string]ParameterInput) Inputs {
	return Inputs{Parameters: parameters, Pseudo: testPseudo,
		Zones: func(_ context.Context, region string) ([]string, error) {
			return []string{region + "a", region + "b"}, nil
		},
		Import: func(_ context.Context, name string) (string, error) {
			if name != "platform-description" {
				return "", ErrNotFound
			}
			return "imported", nil
		},
		Parameter: func(_ context.Context, name string, secure bool) (StoredParameter, error) {
			switch name {
			case "/aws/service/eks/image_id":
				return StoredParameter{Type: "String", Value: "ami-1"}, nil
			case "/platform/value:3":
				return StoredParameter{Type: "String", Value: "three"}, nil
			case "/platform/list":
				return StoredParameter{Type: "StringList", Value: "a,b, c ,d"}, nil
			case "/platform/secure", "/platform/secure:1":
				return StoredParameter{Type: "SecureString", Value: "hidden"}, nil
			}
			return StoredParameter{}, ErrNotFound
		},
		Exists: func(_ context.Context, kind string, ids []string) error {
			for _, id := range ids {
				if strings.HasSuffix(id, "gone") {
					return &MissingError{ID: id}
				}
			}
			return nil
		},
	}
}

func TestImpliedDependenciesMakeNoCycle(t *testing.T) {
	t.Parallel()
	b, err := bindText(t, `Resources:
  Attachment: {Type: AWS::EC2::VPCGatewayAttachment, Properties: {VpcId: vpc-1, InternetGatewayId: igw-1}}
  Gateway: {Type: AWS::EC2::NatGateway, Properties: {SubnetId: subnet-1}}
  Table: {Type: AWS::EC2::RouteTable, DependsOn: Gateway, Properties: {VpcId: vpc-2}}
  Late: {Type: AWS::EC2::VPCGatewayAttachment, DependsOn: Table, Properties: {VpcId: vpc-2, InternetGatewayId: igw-2}}
`, Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Dependencies("Gateway"); !slices.Equal(got, []string{"Attachment"}) {
		t.Errorf("the NAT gateway depends on %q", got)
	}
}

func TestClusterOfEksctl(t *testing.T) {
	t.Parallel()
	b, err := bindText(t, readTestdata(t, "cluster.json"), Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(b.LogicalIDs()); got != 26 {
		t.Errorf("%d resources", got)
	}
	for id, want := range map[string][]string{
		"VPC":               {},
		"PublicSubnetRoute": {"InternetGateway", "PublicRouteTable", "VPCGatewayAttachment"},
		"NATGateway":        {"NATIP", "SubnetPublicUSWEST2A", "VPCGatewayAttachment"},
		"ControlPlane": {"ControlPlaneSecurityGroup", "ServiceRole", "SubnetPrivateUSWEST2A", "SubnetPrivateUSWEST2B",
			"SubnetPublicUSWEST2A", "SubnetPublicUSWEST2B"},
		"IngressNodeToDefaultClusterSG": {"ClusterSharedNodeSecurityGroup", "ControlPlane"},
	} {
		if diff := cmp.Diff(want, append([]string{}, b.Dependencies(id)...)); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
	properties, err := b.Properties(context.Background(), "ControlPlane", made{})
	if err != nil {
		t.Fatal(err)
	}
	if properties["RoleArn"] != "att-ServiceRole-Arn" || properties["Version"] != "1.31" {
		t.Errorf("properties of the cluster: %v", properties)
	}
	properties, err = b.Properties(context.Background(), "ServiceRole", nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(properties["AssumeRolePolicyDocument"]); !strings.Contains(string(text),
		`"Service":["eks.amazonaws.com"]`) {
		t.Errorf("the trust policy is %s", text)
	}
	outputs, err := b.Outputs(context.Background(), made{})
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for _, o := range outputs {
		values[o.Key] = o.Value + " " + o.Export
	}
	for key, want := range map[string]string{
		"ARN": "att-ControlPlane-Arn platform::ARN", "FeaturePrivateNetworking": "false ",
		"SubnetsPublic": "ref-SubnetPublicUSWEST2A,ref-SubnetPublicUSWEST2B platform::SubnetsPublic",
	} {
		if values[key] != want {
			t.Errorf("output %s is %q, want %q", key, values[key], want)
		}
	}
	parsed, _ := Parse(readTestdata(t, "cluster.json"))
	capabilities, reason := parsed.Capabilities()
	if !slices.Equal(capabilities, []string{CapabilityIAM}) ||
		reason != "The following resource(s) require capabilities: [AWS::IAM::Role]" {
		t.Errorf("capabilities are %v: %s", capabilities, reason)
	}
}

func TestPlatform(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	body := readTestdata(t, "platform.yaml")
	b, err := bindText(t, body, platformInputs(given("VpcId", "vpc-1")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Group", "NodeRole", "Parameter", "Profile", "Subnet", "Template"},
		b.LogicalIDs()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]BoundParameter{
		{Key: "ClusterName", Value: "platform"}, {Key: "Environment", Value: "dev"},
		{Key: "ImageId", Value: "/aws/service/eks/image_id", ResolvedValue: "ami-1"}, {Key: "Nodes", Value: "2"},
		{Key: "Secret", Value: "xyz", NoEcho: true}, {Key: "Version", Value: "1.30"}, {Key: "VpcId", Value: "vpc-1"},
		{Key: "Zones", Value: "a, b"}}, b.Parameters()); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]string{
		"NodeRole":  `{"AssumeRolePolicyDocument":{"Statement":[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}],"Version":"2012-10-17"},"ManagedPolicyArns":["arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy","arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"]}`,
		"Subnet":    `{"AvailabilityZone":"us-west-2a","CidrBlock":"10.1.1.0/24","Tags":[{"Key":"Zone","Value":"b"},{"Key":"All","Value":"a|b"}],"VpcId":"vpc-1"}`,
		"Template":  `{"LaunchTemplateData":{"BlockDeviceMappings":[{"DeviceName":"/dev/xvda","Ebs":{"Encrypted":true,"VolumeSize":20}}],"IamInstanceProfile":{"Arn":"att-Profile-Arn"},"ImageId":"ami-1","InstanceType":"t3.medium","UserData":"IyEvYmluL2Jhc2gKL2V0Yy9la3MvYm9vdHN0cmFwLnNoIHBsYXRmb3JtIC0tbGFiZWwgYT1iLGM9ZAplY2hvICR7SE9NRX0ge3tub3QgYSByZWZlcmVuY2V9fQo="}}`,
		"Group":     `{"LaunchTemplate":{"LaunchTemplateId":"ref-Template","Version":"7"},"MaxSize":"10","MinSize":"2","Tags":[{"Key":"kubernetes.io/cluster/platform","PropagateAtLaunch":true,"Value":"owned"}],"VPCZoneIdentifier":["ref-Subnet"]}`,
		"Parameter": `{"Tags":{"a":"1"},"Type":"String","Value":"three of ${AWS::Region}"}`,
	} {
		properties, err := b.Properties(ctx, id, made{})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		got, _ := json.Marshal(properties)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
	_, policy, err := b.Policies(ctx, "Group", made{})
	if got, _ := json.Marshal(policy); err != nil || string(got) !=
		`{"AutoScalingRollingUpdate":{"MaxBatchSize":1,"MinInstancesInService":0,"PauseTime":"PT5M","WaitOnResourceSignals":true}}` {
		t.Errorf("UpdatePolicy is %s, %v", got, err)
	}
	outputs, err := b.Outputs(ctx, made{not: []string{"NodeRole"}})
	if diff := cmp.Diff([]Output{
		{Key: "Role", Value: "{{changeSet:KNOWN_AFTER_APPLY}}", Export: "platform-role"},
		{Key: "Topics", Value: strings.Join(testPseudo.NotificationARNs, " ")},
		{Key: "Types", Value: "t3.medium,t3a.medium", Description: "of instances"},
		{Key: "Zero", Value: "0012"}}, outputs); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if b.Resource("Subnet").DeletionPolicy != "Retain" {
		t.Error("the deletion policy is lost")
	}
	if text, err := b.Processed(); err != nil || text != body {
		t.Errorf("a template without transforms is processed: %v", err)
	}
}

func TestPlatformOfProduction(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b, err := bindText(t, readTestdata(t, "platform.yaml"),
		platformInputs(given("VpcId", "vpc-1", "Environment", "prod", "Nodes", "10")))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(b.LogicalIDs(), "Alias") || !slices.Equal(b.Dependencies("Alias"), []string{"Imported"}) {
		t.Errorf("resources are %v", b.LogicalIDs())
	}
	properties, err := b.Properties(ctx, "Imported", nil)
	if err != nil || properties["GroupDescription"] != "imported" {
		t.Errorf("an import is %v, %v", properties, err)
	}
	if properties, _ = b.Properties(ctx, "NodeRole", nil); len(properties["ManagedPolicyArns"].([]any)) != 1 {
		t.Errorf("AWS::NoValue is an element: %v", properties)
	}
	for name, test := range map[string]struct {
		parameters map[string]ParameterInput
		want       string
	}{
		"a rule":    {given("VpcId", "vpc-1", "Environment", "prod", "Nodes", "1"), "Production has two nodes or more"},
		"no VPC":    {given("VpcId", "vpc-gone"), "Parameter validation failed: parameter value vpc-gone for parameter name VpcId does not exist"},
		"lookahead": {given("VpcId", "vpc-1", "ClusterName", "eks-1"), "Parameter ClusterName failed to satisfy constraint: must begin with a letter, and not with eks"},
		"version":   {given("VpcId", "vpc-1", "Version", "1.3"), "Parameter 'Version' must be one of AllowedValues"},
		"no image":  {given("VpcId", "vpc-1", "ImageId", "/nope"), "Unable to fetch parameters [/nope] from parameter store for this account."},
	} {
		_, err := bindText(t, readTestdata(t, "platform.yaml"), platformInputs(test.parameters))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	failed := platformInputs(given("VpcId", "vpc-1"))
	failed.Parameter = func(context.Context, string, bool) (StoredParameter, error) {
		return StoredParameter{}, errors.New("throttled")
	}
	var fault *Error
	if _, err := bindText(t, readTestdata(t, "platform.yaml"), failed); err == nil || errors.As(err, &fault) {
		t.Errorf("an error that is not of the template is %v", err)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	parsed, err := Parse(readTestdata(t, "platform.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := parsed.Summary()
	if !slices.Contains(s.ResourceTypes, "AWS::KMS::Alias") ||
		!slices.Equal(s.LogicalIDs["AWS::EC2::Subnet"], []string{"Subnet"}) {
		t.Errorf("resource types are %v", s.ResourceTypes)
	}
	if s.Metadata == nil || s.Version != "2010-09-09" || !strings.HasPrefix(s.Description, "An EKS platform") {
		t.Errorf("the summary is %+v", s)
	}
	byKey := make(map[string]ParameterDeclaration)
	for _, p := range s.Parameters {
		byKey[p.Key] = p
	}
	if p := byKey["VpcId"]; p.Default != nil || p.Type != "AWS::EC2::VPC::Id" {
		t.Errorf("VpcId is declared as %+v", p)
	}
	if p := byKey["Version"]; p.Default == nil || *p.Default != "1.30" || !slices.Equal(p.AllowedValues, []string{"1.30", "1.31"}) {
		t.Errorf("Version is declared as %+v", p)
	}
	if !parsed.NoEcho("Secret") || parsed.NoEcho("Version") || len(parsed.Parameters()) != 8 {
		t.Error("NoEcho is wrong")
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body, reason string
		want         []string
	}{
		"none":  {gateway, "", nil},
		"named": {"Resources: {R: {Type: AWS::IAM::Role, Properties: {RoleName: a, AssumeRolePolicyDocument: {}}}, U: {Type: AWS::IAM::User}}\n", "The following resource(s) require capabilities: [AWS::IAM::Role, AWS::IAM::User]", []string{CapabilityNamedIAM}},
		"policy, which must have a name": {"Resources: {P: {Type: AWS::IAM::Policy, Properties: {PolicyName: a, PolicyDocument: {}}}}\n",
			"The following resource(s) require capabilities: [AWS::IAM::Policy]", []string{CapabilityIAM}},
		"in a loop": {extended("Resources: {'Fn::ForEach::L': [A, [b], {'R${A}': {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: {}}}}]}\n"),
			"The following resource(s) require capabilities: [AWS::IAM::Role], The following transform(s) require capabilities: [AWS::LanguageExtensions]",
			[]string{CapabilityIAM, CapabilityAutoExpand}},
	} {
		parsed, err := Parse(test.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, reason := parsed.Capabilities()
		if !slices.Equal(got, test.want) || reason != test.reason {
			t.Errorf("%s: %v, %s", name, got, reason)
		}
	}
}
