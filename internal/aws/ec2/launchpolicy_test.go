package ec2_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// launchPolicies have the form of AWS's examples about launch templates.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ExamplePolicies_EC2.html#iam-example-runinstances-launch-templates
var launchPolicies = map[string]string{
	"one template, and any override": `{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "*", "Condition": {
		"ArnLike": {"ec2:LaunchTemplate": "ARN:launch-template/ID"}}}`,
	"no override": `{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "*", "Condition": {
		"ArnLike": {"ec2:LaunchTemplate": "ARN:launch-template/*"},
		"Bool": {"ec2:IsLaunchTemplateResource": "true"}}}`,
	"no subnet and interface": `{"Effect": "Allow", "Action": "ec2:RunInstances",
		"NotResource": ["ARN:subnet/*", "ARN:network-interface/*"],
		"Condition": {"ArnLike": {"ec2:LaunchTemplate": "ARN:launch-template/*"}}},
		{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": ["ARN:subnet/*", "ARN:network-interface/*"],
		"Condition": {"ArnLike": {"ec2:LaunchTemplate": "ARN:launch-template/*"},
		"Bool": {"ec2:IsLaunchTemplateResource": "true"}}}`,
	"no override, with a tag": `{"Effect": "Allow", "Action": "ec2:RunInstances", "NotResource": "ARN:launch-template/*",
		"Condition": {"ArnLike": {"ec2:LaunchTemplate": "ARN:launch-template/*"},
		"Bool": {"ec2:IsLaunchTemplateResource": "true"}}},
		{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "ARN:launch-template/*",
		"Condition": {"StringEquals": {"ec2:ResourceTag/Purpose": "Webservers"}}}`,
	"no override, and tags": `{"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "*", "Condition": {
		"ArnLike": {"ec2:LaunchTemplate": "ARN:launch-template/ID"}, "Bool": {"ec2:IsLaunchTemplateResource": "true"}}},
		{"Effect": "Allow", "Action": ["ec2:CreateTags"], "Resource": "ARN:instance/*",
		"Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}}}`,
	"denied without a template": `{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"},
		{"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*",
		"Condition": {"Bool": {"ec2:IsLaunchTemplateResource": "false"}}}`,
}

// TestPoliciesAboutLaunchTemplates carries out launches by policies that AWS documents.
func TestPoliciesAboutLaunchTemplates(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	s, zero, one := aws.String, aws.Int32(0), aws.Int32(1)
	vpc := w.VPC("10.0.0.0/16")
	subnet, otherSubnet := w.Subnet(vpc, "10.0.0.0/24", "a"), w.Subnet(vpc, "10.0.1.0/24", "a")
	group, x86 := w.SecurityGroup(vpc, "web"), image(t, "x86_64")
	data := types.RequestLaunchTemplateData{ImageId: &x86, InstanceType: "m5.large",
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			{DeviceIndex: zero, SubnetId: &subnet, Groups: []string{group}}}}
	web := createLaunchTemplate(w, "web", data)
	awstest.Must[any](t)(w.CreateTags(w.Context(), &ec2.CreateTagsInput{Resources: []string{web},
		Tags: []types.Tag{{Key: s("Purpose"), Value: s("Webservers")}}}))
	createLaunchTemplate(w, "other", data)

	documents := map[string]*policy.Document{}
	fill := strings.NewReplacer("ARN", "arn:aws:ec2:"+ec2test.Region+":"+ec2test.Account, "ID", web)
	for name, statements := range launchPolicies {
		text := `{"Version": "2012-10-17", "Statement": [` + fill.Replace(statements) + `]}`
		documents[name] = awstest.Must[*policy.Document](t)(policy.Parse(policy.Identity, text))
	}
	const anything, noOverride, noNetwork = "one template, and any override", "no override", "no subnet and interface"
	const tagged, tagging, denied = "no override, with a tag", "no override, and tags", "denied without a template"
	tags := []types.TagSpecification{{ResourceType: types.ResourceTypeInstance,
		Tags: []types.Tag{{Key: s("a"), Value: s("b")}}}}
	for _, test := range []struct {
		name     string
		template string // "web" when empty
		request  ec2.RunInstancesInput
		allowed  []string // by which of the policies
	}{
		{name: "nothing", allowed: []string{anything, noOverride, noNetwork, tagged, tagging, denied}},
		{name: "another template", template: "other", allowed: []string{noOverride, noNetwork, denied}},
		{name: "no template", template: "none", request: ec2.RunInstancesInput{ImageId: &x86, InstanceType: "m5.large",
			SubnetId: &subnet}, allowed: []string{denied}},
		{name: "tags", request: ec2.RunInstancesInput{TagSpecifications: tags}, allowed: []string{tagging, denied}},
		{name: "the type", request: ec2.RunInstancesInput{InstanceType: "m5.xlarge"}, allowed: []string{anything, noNetwork}},
		{name: "the image", request: ec2.RunInstancesInput{ImageId: &x86}, allowed: []string{anything, noNetwork}},
		{name: "the user data", request: ec2.RunInstancesInput{UserData: s("eA==")}, allowed: []string{anything, noNetwork}},
		{name: "the metadata options", request: ec2.RunInstancesInput{MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpTokens: "optional"}}, allowed: []string{anything, noNetwork}},
		{name: "a volume", request: ec2.RunInstancesInput{BlockDeviceMappings: []types.BlockDeviceMapping{
			{DeviceName: s("/dev/sdf"), Ebs: &types.EbsBlockDevice{VolumeSize: aws.Int32(10)}}}},
			allowed: []string{anything, noNetwork}},
		{name: "the subnet", request: ec2.RunInstancesInput{
			NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: zero, SubnetId: &otherSubnet}}},
			allowed: []string{anything}},
		{name: "one more interface", request: ec2.RunInstancesInput{
			NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: one, SubnetId: &subnet}}},
			allowed: []string{anything}},
	} {
		in := test.request
		in.MinCount, in.MaxCount, in.DryRun = one, one, aws.Bool(true)
		switch test.template {
		case "":
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: s("web")}
		case "other":
			in.LaunchTemplate = &types.LaunchTemplateSpecification{LaunchTemplateName: s("other")}
		}
		w.Mu.Lock()
		w.Asked = nil
		w.Mu.Unlock()
		if _, err := w.RunInstances(w.Context(), &in); awstest.Code(err) != "DryRunOperation" {
			t.Errorf("override %s: %v", test.name, err)
			continue
		}
		asked := append(w.Targets("ec2:RunInstances"), w.Targets("ec2:CreateTags")...)
		want := map[string]bool{}
		for _, name := range test.allowed {
			want[name] = true
		}
		for name, document := range documents {
			refused := refusedTarget(document, asked)
			if (refused == "") != want[name] {
				t.Errorf("override %s, with the policy %q: refused is %q, allowed should be %t", test.name, name, refused,
					want[name])
			}
		}
	}
}

// refusedTarget returns the first target that an identity-based policy does not allow; empty if it allows all.
func refusedTarget(document *policy.Document, asked []wire.Target) string {
	for _, target := range asked {
		if d := policy.Evaluate(&policy.Request{Action: target.Action, Resource: target.Resource,
			Principal: policy.Principal{Type: policy.User, Account: ec2test.Account}, Keys: policy.Context(target.Conditions),
		}, &policy.Policies{Identity: []policy.Source{{Document: document}}}); !d.Allowed() {
			return target.Action + " " + target.Resource
		}
	}
	return ""
}
