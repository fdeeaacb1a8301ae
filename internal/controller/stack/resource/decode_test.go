package resource_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

func TestPropertiesBecomeMembersOfTheSameName(t *testing.T) {
	t.Parallel()
	properties := map[string]any{
		"LaunchTemplateName": "nodes", "VersionDescription": json.Number("7"), "Unknown": "left to others",
		"LaunchTemplateData": map[string]any{
			"ImageId": "ami-1", "InstanceType": "m5.large", "EbsOptimized": "true",
			"MetadataOptions": map[string]any{"HttpPutResponseHopLimit": "2"},
			"NetworkInterfaces": []any{map[string]any{
				"DeviceIndex": json.Number("0"), "Groups": []any{"sg-1"}, "AssociatePublicIpAddress": false,
			}},
		},
	}
	var got ec2.CreateLaunchTemplateInput
	if err := resource.Decode(properties, &got, nil); err != nil {
		t.Fatal(err)
	}
	want := ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: new("nodes"), VersionDescription: new("7"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId: new("ami-1"), InstanceType: "m5.large", EbsOptimized: new(true),
			MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpPutResponseHopLimit: new(int32(2))},
			NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
				DeviceIndex: new(int32(0)), Groups: []string{"sg-1"}, AssociatePublicIpAddress: new(false)}},
		},
	}
	ignore := cmpopts.IgnoreUnexported(want, *want.LaunchTemplateData, *want.LaunchTemplateData.MetadataOptions,
		want.LaunchTemplateData.NetworkInterfaces[0])
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{
		"LaunchTemplateName": "nodes", "VersionDescription": "7",
		"LaunchTemplateData": map[string]any{
			"ImageId": "ami-1", "InstanceType": "m5.large", "EbsOptimized": true,
			"MetadataOptions": map[string]any{"HttpPutResponseHopLimit": json.Number("2")},
			"NetworkInterfaces": []any{map[string]any{
				"DeviceIndex": json.Number("0"), "Groups": []any{"sg-1"}, "AssociatePublicIpAddress": false,
			}},
		},
	}, resource.Encode(got, nil)); diff != "" {
		t.Errorf("back: -want +got:\n%s", diff)
	}
}

func TestPropertiesBecomeMembersOfOtherNames(t *testing.T) {
	t.Parallel()
	members := resource.Members{"GroupDescription": "Description", "VpcId": resource.Left}
	var group ec2.CreateSecurityGroupInput
	if err := resource.Decode(map[string]any{"GroupDescription": "for nodes", "VpcId": "vpc-1"}, &group,
		members); err != nil {
		t.Fatal(err)
	}
	if group.Description == nil || *group.Description != "for nodes" || group.VpcId != nil {
		t.Errorf("got %+v", group)
	}
	if got := resource.Encode(&group, members); !cmp.Equal(got, map[string]any{"GroupDescription": "for nodes"}) {
		t.Errorf("got %v", got)
	}
	var role iam.CreateRoleInput
	if err := resource.Decode(map[string]any{
		"AssumeRolePolicyDocument": map[string]any{"Version": "2012-10-17"},
	}, &role, nil); err != nil {
		t.Fatal(err)
	}
	if *role.AssumeRolePolicyDocument != `{"Version":"2012-10-17"}` {
		t.Errorf("got %s", *role.AssumeRolePolicyDocument)
	}
	var action autoscaling.PutScheduledUpdateGroupActionInput
	if err := resource.Decode(map[string]any{"StartTime": "2026-11-24T10:00:00Z"}, &action, nil); err != nil {
		t.Fatal(err)
	}
	if !action.StartTime.Equal(time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("got %s", action.StartTime)
	}
}

func TestPropertiesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		properties map[string]any
		want       string
	}{
		{map[string]any{"LaunchTemplateData": map[string]any{"Color": "red"}},
			"property LaunchTemplateData.Color is not supported by coracle"},
		{map[string]any{"LaunchTemplateData": "red"}, "property LaunchTemplateData must be an object, not red"},
		{map[string]any{"LaunchTemplateData": map[string]any{"EbsOptimized": "maybe"}},
			"property LaunchTemplateData.EbsOptimized must be a Boolean, not maybe"},
		{map[string]any{"LaunchTemplateData": map[string]any{"CpuOptions": map[string]any{"CoreCount": "3000000000"}}},
			"property LaunchTemplateData.CpuOptions.CoreCount must be an integer, not 3000000000"},
	} {
		err := resource.Decode(row.properties, &ec2.CreateLaunchTemplateInput{}, nil)
		if err == nil || err.Error() != row.want || resource.Classify(err) != resource.InvalidRequest {
			t.Errorf("got %v, want %s", err, row.want)
		}
	}
}

func TestTagsOfAResourceStandOverThoseOfItsStack(t *testing.T) {
	t.Parallel()
	list := func(pairs ...string) []any {
		var tags []any
		for i := 0; i < len(pairs); i += 2 {
			tags = append(tags, map[string]any{"Key": pairs[i], "Value": pairs[i+1]})
		}
		return tags
	}
	r := &resource.Request{
		Tags:         map[string]string{resource.TagLogicalID: "VPC", "team": "stack", "new": "1"},
		PreviousTags: map[string]string{resource.TagLogicalID: "VPC", "team": "stack", "old": "1"},
		Properties:   map[string]any{"Tags": list("team", "own", "a", "2", resource.TagLogicalID, "forged")},
		Previous:     map[string]any{"Tags": list("team", "own", "a", "1", "b", "1")},
	}
	want := map[string]string{resource.TagLogicalID: "VPC", "team": "own", "new": "1", "a": "2"}
	if diff := cmp.Diff(want, r.Wanted("Tags")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	set, removed := r.TagChanges("Tags")
	if !cmp.Equal(set, map[string]string{"a": "2", "new": "1"}) || !cmp.Equal(removed, []string{"b", "old"}) {
		t.Errorf("set %v, removed %v", set, removed)
	}
	if got := resource.OwnTags(map[string]any{"x": json.Number("1")}); !cmp.Equal(got, map[string]string{"x": "1"}) {
		t.Errorf("got %v", got)
	}
}

func TestCreateRefusesWhatNobodyTakes(t *testing.T) {
	t.Parallel()
	called := false
	handler := resource.Handle(resource.Table[int, int]{
		Client: func(aws.Config) int { return 0 },
		Create: resource.Create(func(_ int, _ context.Context, in *ec2.CreateVpcInput,
			_ ...func(*int)) (*ec2.CreateVpcOutput, error) {
			called = true
			return &ec2.CreateVpcOutput{Vpc: &types.Vpc{VpcId: in.CidrBlock}}, nil
		}, resource.Members{"Prepared": resource.Left}, func(out *ec2.CreateVpcOutput) *string { return out.Vpc.VpcId }),
		Configure: []resource.Step[int]{{Properties: []string{"EnableDnsSupport"}}},
	})
	known := map[string]any{"CidrBlock": "10.0.0.0/16", "Prepared": "1", "EnableDnsSupport": true}
	if result, err := handler.Create(t.Context(), &resource.Request{Properties: known}); err != nil ||
		result.PhysicalID != "10.0.0.0/16" {
		t.Errorf("got %+v, %v", result, err)
	}
	called = false
	known["Color"] = "red"
	_, err := handler.Create(t.Context(), &resource.Request{Properties: known})
	if err == nil || err.Error() != "property Color is not supported by coracle" || called {
		t.Errorf("got %v, called %t", err, called)
	}
}
