package nodegroup_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestTheUsersLaunchTemplateIsCarriedOver shows what becomes of the fields of a launch template of the user's in EKS's
// own.
func TestTheUsersLaunchTemplateIsCarriedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nodegroup.Options{})
	own := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: " +
		"text/x-shellscript\n\n#!/bin/sh\necho mine\n--B--\n"
	security := must(w.ec2.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{VpcId: &w.cluster.VPCID,
		GroupName: aws.String("mine"), Description: aws.String("mine")}))(t).GroupId
	for name, c := range map[string]struct {
		kind  ekstypes.AMITypes
		image string
		check func(t *testing.T, data *ec2types.ResponseLaunchTemplateData, userData string)
	}{
		"merged": {ekstypes.AMITypesAl2023X8664Standard, "",
			func(t *testing.T, data *ec2types.ResponseLaunchTemplateData, userData string) {
				mine, eks := strings.Index(userData, "echo mine"), strings.Index(userData, "kind: NodeConfig")
				if mine < 0 || eks < mine || *data.ImageId != imageID(t, "1.35") {
					t.Errorf("image %s with user data\n%s", *data.ImageId, userData)
				}
				if !strings.Contains(userData, "eks.amazonaws.com/sourceLaunchTemplateVersion=1,team=a") ||
					!strings.Contains(userData, "sourceLaunchTemplateId=lt-") {
					t.Errorf("labels in\n%s", userData)
				}
			}},
		"custom": {ekstypes.AMITypesCustom, imageID(t, "1.34"),
			func(t *testing.T, data *ec2types.ResponseLaunchTemplateData, userData string) {
				if userData != own || *data.ImageId != imageID(t, "1.34") {
					t.Errorf("image %s with user data\n%s", *data.ImageId, userData)
				}
			}},
	} {
		request := &ec2types.RequestLaunchTemplateData{
			UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(own))), SecurityGroupIds: []string{*security},
			InstanceType: "m5.large",
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{
				{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{
					VolumeSize: aws.Int32(77), VolumeType: ec2types.VolumeTypeGp3, Iops: aws.Int32(4000),
					Encrypted: aws.Bool(true),
				}}},
			Monitoring: &ec2types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpPutResponseHopLimit: aws.Int32(
				3), HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{
				{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{
					{Key: aws.String("cost"), Value: aws.String("me")}, {Key: aws.String("eks:nodegroup-name"),
						Value: aws.String("no")},
				}}},
		}
		if c.image != "" {
			request.ImageId = &c.image
		}
		users := must(w.ec2.CreateLaunchTemplate(t.Context(),
			&ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("of-" + name),
				LaunchTemplateData: request}))(t).LaunchTemplate
		w.create(name, 0, func(n *record.Nodegroup) {
			n.AMIType, n.InstanceTypes, n.DiskSize, n.Labels = c.kind, nil, 0, map[string]string{"team": "a"}
			n.Template.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Id: users.LaunchTemplateId,
				Name: users.LaunchTemplateName, Version: aws.String("1")}
			if c.image != "" {
				n.Template.Version, n.Template.ReleaseVersion = "", c.image
			}
		})
		state := w.state(name)
		if state.LaunchTemplateVersion != "1" {
			t.Errorf("%s: nodes are of version %s", name, state.LaunchTemplateVersion)
		}
		data := must(w.ec2.DescribeLaunchTemplateVersions(t.Context(),
			&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &state.LaunchTemplateID,
				Versions: []string{"1"}}))(t).LaunchTemplateVersions[0].LaunchTemplateData
		text := must(base64.StdEncoding.DecodeString(*data.UserData))(t)
		c.check(t, data, string(text))
		ebs := data.BlockDeviceMappings[0].Ebs
		if *ebs.VolumeSize != 77 || *ebs.Iops != 4000 || !*ebs.Encrypted || !*data.Monitoring.Enabled ||
			*data.MetadataOptions.HttpPutResponseHopLimit != 3 ||
			data.InstanceType != "m5.large" || !slices.Equal(data.SecurityGroupIds, []string{*security}) ||
			*data.IamInstanceProfile.Name != state.InstanceProfile {
			t.Errorf("%s: %+v", name, data)
		}
		tags := map[string]string{}
		for _, s := range data.TagSpecifications {
			for _, tag := range s.Tags {
				tags[string(s.ResourceType)+" "+*tag.Key] = *tag.Value
			}
		}
		if tags["instance cost"] != "me" || tags["instance eks:nodegroup-name"] != name ||
			tags["volume eks:cluster-name"] != "demo" {
			t.Errorf("%s: tags %v", name, tags)
		}
		if p := w.asg(name).MixedInstancesPolicy; len(p.LaunchTemplate.Overrides) != 0 {
			t.Errorf("%s: overrides %v", name, p.LaunchTemplate.Overrides)
		}
		w.delete(name)
	}
	w.nothingLeft()
}
