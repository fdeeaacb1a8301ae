package escalation

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// passAdmin lets mallory pass the role that may do everything.
func passAdmin() statement { return allow("iam:PassRole").on(adminARN) }

// launches launches an instance, as mallory.
func launches(edit func(*fixture, *ec2.RunInstancesInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := w.running()
		edit(w, in)
		return failed(w.me.ec2.RunInstances(w.t.Context(), in))
	}
}

func withProfile(_ *fixture, in *ec2.RunInstancesInput) {
	in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: p("admin-profile")}
}

// fromTemplate changes a launch to one from a version of the launch template.
func fromTemplate(version string) func(*fixture, *ec2.RunInstancesInput) {
	return func(w *fixture, in *ec2.RunInstancesInput) {
		in.ImageId, in.InstanceType = nil, ""
		in.LaunchTemplate = &ec2types.LaunchTemplateSpecification{LaunchTemplateId: &w.template, Version: &version}
	}
}

func ownedBy(resource ec2types.ResourceType) func(*fixture, *ec2.RunInstancesInput) {
	return func(_ *fixture, in *ec2.RunInstancesInput) {
		in.TagSpecifications = []ec2types.TagSpecification{
			{ResourceType: resource, Tags: []ec2types.Tag{{Key: p("team"), Value: p("crew")}}},
		}
	}
}

// setDefault makes the version with the role that may do everything the default of the launch template, as mallory.
func setDefault(w *fixture) error {
	return failed(
		w.me.ec2.ModifyLaunchTemplate(
			w.t.Context(),
			&ec2.ModifyLaunchTemplateInput{LaunchTemplateId: &w.template, DefaultVersion: p("2")},
		),
	)
}

// addVersion adds a version with the role that may do everything to the launch template, as mallory.
func addVersion(w *fixture) error {
	return failed(w.me.ec2.CreateLaunchTemplateVersion(w.t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &w.template, LaunchTemplateData: launched("admin-profile"),
	}))
}

func ec2ARN(resource string) string { return "arn:aws:ec2:" + region + ":" + account + ":" + resource }

func adminProfile() *ec2types.IamInstanceProfileSpecification {
	return &ec2types.IamInstanceProfileSpecification{Name: p("admin-profile")}
}

// associates gives the instance the profile of the role that may do everything, as mallory.
func associates(w *fixture) error {
	return failed(w.me.ec2.AssociateIamInstanceProfile(w.t.Context(), &ec2.AssociateIamInstanceProfileInput{
		InstanceId: &w.instance, IamInstanceProfile: adminProfile(),
	}))
}

// weakInstance creates an instance with the profile of the weak role.
func weakInstance(w *fixture) {
	w.instances()
	out, err := w.root.ec2.AssociateIamInstanceProfile(w.t.Context(), &ec2.AssociateIamInstanceProfileInput{
		InstanceId: &w.instance, IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: p("weak-profile")},
	})
	w.do(nil, err)
	w.id = *out.IamInstanceProfileAssociation.AssociationId
}

// replaces replaces the profile of the instance, as mallory.
func replaces(w *fixture) error {
	return failed(
		w.me.ec2.ReplaceIamInstanceProfileAssociation(w.t.Context(), &ec2.ReplaceIamInstanceProfileAssociationInput{
			AssociationId: &w.id, IamInstanceProfile: adminProfile(),
		}),
	)
}

var ec2Paths = []path{
	{
		name: "ec2: DescribeInstanceAttribute of another's user data", given: (*fixture).instances,
		needs: []statement{allow("ec2:DescribeInstanceAttribute").on(ec2ARN("instance/i-00000000000000000"))},
		stops: []statement{allow("ec2:DescribeInstanceAttribute").on(ec2ARN("instance/*"))},
		try: func(w *fixture) error {
			return failed(w.me.ec2.DescribeInstanceAttribute(w.t.Context(), &ec2.DescribeInstanceAttributeInput{
				InstanceId: &w.instance, Attribute: ec2types.InstanceAttributeNameUserData,
			}))
		},
	}, {
		name: "ec2: GetConsoleOutput of a denied instance", given: (*fixture).instances,
		needs: []statement{allow("ec2:*")}, hinders: []statement{deny("ec2:*").on(ec2ARN("instance/*"))},
		try: func(w *fixture) error {
			return failed(w.me.ec2.GetConsoleOutput(w.t.Context(), &ec2.GetConsoleOutputInput{InstanceId: &w.instance}))
		},
	},
	{
		name:  "ec2: ModifyLaunchTemplate of a denied launch template, by name beside an empty ID",
		given: (*fixture).network,
		needs: []statement{allow("ec2:*")}, hinders: []statement{deny("ec2:*").on(ec2ARN("launch-template/lt-*"))},
		try: func(w *fixture) error {
			return failed(w.me.ec2.ModifyLaunchTemplate(w.t.Context(), &ec2.ModifyLaunchTemplateInput{
				LaunchTemplateId: p(""), LaunchTemplateName: p("plain"), DefaultVersion: p("2"),
			}))
		},
	}, {
		name:  "ec2: CreateLaunchTemplateVersion of a denied launch template, by name beside an empty ID",
		given: (*fixture).network,
		needs: []statement{allow("ec2:*")}, hinders: []statement{deny("ec2:*").on(ec2ARN("launch-template/lt-*"))},
		try: func(w *fixture) error {
			return failed(w.me.ec2.CreateLaunchTemplateVersion(w.t.Context(), &ec2.CreateLaunchTemplateVersionInput{
				LaunchTemplateId: p(""), LaunchTemplateName: p("plain"), LaunchTemplateData: launched(""),
			}))
		},
	},
	{
		name: "ec2: RunInstances with a profile, without PassRole", given: (*fixture).network,
		needs: []statement{allow("ec2:*")},
		stops: []statement{passAdmin()}, try: launches(withProfile),
	},
	{
		name: "ec2: RunInstances with the ARN of a profile, with PassRole of another role", given: (*fixture).network,
		needs: []statement{allow("ec2:*"), allow("iam:PassRole").on(weakARN)}, stops: []statement{passAdmin()},
		try: launches(func(_ *fixture, in *ec2.RunInstancesInput) {
			in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{
				Arn: p(prefix + "instance-profile/admin-profile"),
			}
		}),
	},
	{
		name: "ec2: RunInstances with PassRole to another service", given: (*fixture).network,
		needs: []statement{
			allow("ec2:*"),
			passAdmin().when("StringEquals", "iam:PassedToService", "eks.amazonaws.com"),
		},
		stops: []statement{
			passAdmin().when("StringEquals", "iam:PassedToService", "ec2.amazonaws.com"),
		}, try: launches(withProfile),
	},
	{
		name: "ec2: RunInstances with PassRole for other resources", given: (*fixture).network,
		needs: []statement{
			allow("ec2:*"),
			passAdmin().when("ArnLike", "iam:AssociatedResourceArn", "arn:aws:eks:*:*:*"),
		},
		stops: []statement{
			passAdmin().when("ArnLike", "iam:AssociatedResourceArn", "arn:aws:ec2:*:*:instance/*"),
		}, try: launches(withProfile),
	},
	{
		name: "ec2: RunInstances of a profile that is denied", given: (*fixture).network,
		needs: []statement{allow("ec2:*", "iam:PassRole")},
		hinders: []statement{
			deny("ec2:RunInstances").when("ArnEquals", "ec2:InstanceProfile", prefix+"instance-profile/admin-profile"),
		},
		try: launches(withProfile),
	},
	{
		name: "ec2: RunInstances with PassRole alone", given: (*fixture).network,
		needs: []statement{passAdmin(), allow("ec2:RunInstances").except(ec2ARN("instance/*"))},
		stops: []statement{allow("ec2:RunInstances").on(ec2ARN("instance/*"))}, try: launches(withProfile),
	},
	{
		name: "ec2: RunInstances from a launch template with a profile", given: (*fixture).network,
		needs: []statement{allow("ec2:*")},
		stops: []statement{passAdmin()}, try: launches(fromTemplate("2")),
	},
	{
		name: "ec2: RunInstances from the latest version of a launch template", given: (*fixture).network,
		needs: []statement{allow("ec2:*")},
		stops: []statement{passAdmin()}, try: launches(fromTemplate("$Latest")),
	},
	{
		name: "ec2: RunInstances from a launch template whose default version is changed", given: (*fixture).network,
		needs: []statement{allow("ec2:ModifyLaunchTemplate", "ec2:RunInstances")}, stops: []statement{passAdmin()},
		try: func(w *fixture) error {
			if err := setDefault(w); err != nil {
				return err
			}
			return launches(fromTemplate("$Default"))(w)
		},
		changes: []string{"launchtemplates"},
	},
	{
		name: "ec2: RunInstances from a launch template that one may not use", given: (*fixture).network,
		needs: []statement{allow("ec2:RunInstances").except(ec2ARN("launch-template/*")), passAdmin()},
		stops: []statement{allow("ec2:RunInstances").on(ec2ARN("launch-template/*"))}, try: launches(fromTemplate("2")),
	},
	{
		name: "ec2: RunInstances into a subnet of others", given: (*fixture).network,
		needs: []statement{allow("ec2:RunInstances").except(ec2ARN("subnet/*"))},
		stops: []statement{
			allow("ec2:RunInstances").on(ec2ARN("subnet/*")),
		}, try: launches(func(*fixture, *ec2.RunInstancesInput) {}),
	},
	{
		name: "ec2: RunInstances of a type that may not be launched", given: (*fixture).network,
		needs: []statement{
			allow("ec2:RunInstances").except(ec2ARN("instance/*")),
			allow("ec2:RunInstances").on(ec2ARN("instance/*")).when("StringEquals", "ec2:InstanceType", "t3.micro"),
		},
		stops: []statement{
			allow("ec2:RunInstances").on(ec2ARN("instance/*")).when("StringEquals", "ec2:InstanceType", "m5.large"),
		},
		try: launches(func(*fixture, *ec2.RunInstancesInput) {}),
	},
	{
		name: "ec2: RunInstances with tags, without CreateTags", given: (*fixture).network,
		needs: []statement{allow("ec2:RunInstances")},
		stops: []statement{allow("ec2:CreateTags").when("StringEquals", "ec2:CreateAction", "RunInstances")},
		try:   launches(ownedBy(ec2types.ResourceTypeInstance)),
	},
	{
		name: "ec2: RunInstances with tags of volumes, without CreateTags", given: (*fixture).network,
		needs: []statement{allow("ec2:RunInstances"), allow("ec2:CreateTags").on(ec2ARN("instance/*"))},
		stops: []statement{
			allow("ec2:CreateTags").on(ec2ARN("volume/*")),
		}, try: launches(ownedBy(ec2types.ResourceTypeVolume)),
	},
	{
		name: "ec2: CreateTags on an instance of others, then what the tag allows", given: (*fixture).instances,
		needs: []statement{
			onlyMine("ec2:TerminateInstances"),
			allow("ec2:CreateTags").when("StringEquals", "ec2:CreateAction", "RunInstances"),
		},
		stops: []statement{allow("ec2:CreateTags").on(ec2ARN("instance/*"))},
		try: func(w *fixture) error {
			if _, err := w.me.ec2.CreateTags(w.t.Context(), &ec2.CreateTagsInput{
				Resources: []string{w.instance}, Tags: []ec2types.Tag{{Key: p("team"), Value: p("crew")}},
			}); err != nil {
				return err
			}
			return failed(
				w.me.ec2.TerminateInstances(
					w.t.Context(),
					&ec2.TerminateInstancesInput{InstanceIds: []string{w.instance}},
				),
			)
		},
	},
	{
		name: "ec2: RequestSpotInstances with a profile, without PassRole", given: (*fixture).network,
		needs: []statement{allow("ec2:*")},
		stops: []statement{passAdmin()}, try: requestsSpot, changes: []string{"spotrequests"},
	},
	{
		name: "ec2: RequestSpotInstances with permission for RunInstances", given: (*fixture).network,
		needs: []statement{
			allow("ec2:RunInstances"),
			passAdmin(),
		}, stops: []statement{allow("ec2:RequestSpotInstances")}, try: requestsSpot,
	},
	{
		name: "ec2: AssociateIamInstanceProfile without PassRole", given: (*fixture).instances,
		needs: []statement{allow("ec2:*")},
		stops: []statement{passAdmin()}, try: associates,
	},
	{
		name: "ec2: AssociateIamInstanceProfile with PassRole to another service", given: (*fixture).instances,
		needs: []statement{allow("ec2:*"), passAdmin().when("StringLike", "iam:PassedToService", "eks*.amazonaws.com")},
		stops: []statement{
			passAdmin().when("StringLike", "iam:PassedToService", "ec2*.amazonaws.com"),
		}, try: associates,
	},
	{
		name: "ec2: AssociateIamInstanceProfile with an instance of others", given: (*fixture).instances,
		needs: []statement{passAdmin(), onlyMine("ec2:AssociateIamInstanceProfile")},
		stops: []statement{allow("ec2:AssociateIamInstanceProfile")}, try: associates,
	},
	{
		name: "ec2: ReplaceIamInstanceProfileAssociation without PassRole", given: weakInstance,
		needs: []statement{allow("ec2:*")},
		stops: []statement{passAdmin()}, try: replaces,
	},
	{
		name: "ec2: ReplaceIamInstanceProfileAssociation with an instance of others", given: weakInstance,
		needs: []statement{passAdmin(), onlyMine("ec2:ReplaceIamInstanceProfileAssociation")},
		stops: []statement{allow("ec2:ReplaceIamInstanceProfileAssociation")}, try: replaces,
	},
	{
		name: "ec2: ModifyInstanceAttribute of the user data of an instance", given: weakInstance,
		needs: []statement{allow("ec2:StartInstances", "ec2:StopInstances"), onlyMine("ec2:ModifyInstanceAttribute")},
		stops: []statement{allow("ec2:ModifyInstanceAttribute").on(ec2ARN("instance/*"))},
		try: func(w *fixture) error {
			return failed(w.me.ec2.ModifyInstanceAttribute(w.t.Context(), &ec2.ModifyInstanceAttributeInput{
				InstanceId: &w.instance, UserData: &ec2types.SecureBlobAttributeValue{Value: []byte("#!/bin/sh")},
			}))
		},
	},
	{
		name: "ec2: ModifyInstanceAttribute with a security group of others as a value", given: (*fixture).instances,
		needs: []statement{allow("ec2:ModifyInstanceAttribute").on(ec2ARN("instance/*"))},
		stops: []statement{allow("ec2:ModifyInstanceAttribute").on(ec2ARN("security-group/*"))},
		try: func(w *fixture) error {
			groups, err := w.root.ec2.DescribeSecurityGroups(w.t.Context(), &ec2.DescribeSecurityGroupsInput{
				Filters: []ec2types.Filter{{Name: p("vpc-id"), Values: []string{w.vpc}}},
			})
			w.do(nil, err)
			return failed(w.me.ec2.ModifyInstanceAttribute(w.t.Context(), &ec2.ModifyInstanceAttributeInput{
				InstanceId: &w.instance, Attribute: ec2types.InstanceAttributeNameGroupSet,
				Value: groups.SecurityGroups[0].GroupId,
			}))
		},
	},
	{
		name: "ec2: DescribeInstanceAttribute of user data, which may hold secrets", given: (*fixture).instances,
		needs: []statement{allow("ec2:DescribeInstances")}, stops: []statement{allow("ec2:DescribeInstanceAttribute")},
		try: func(w *fixture) error {
			return failed(w.me.ec2.DescribeInstanceAttribute(w.t.Context(), &ec2.DescribeInstanceAttributeInput{
				InstanceId: &w.instance, Attribute: ec2types.InstanceAttributeNameUserData,
			}))
		},
	},
	{
		name: "ec2: ModifyInstanceMetadataOptions to let IMDSv1 in", given: (*fixture).instances,
		needs: []statement{allow("ec2:ModifyInstanceAttribute")},
		stops: []statement{allow("ec2:ModifyInstanceMetadataOptions")},
		try: func(w *fixture) error {
			return failed(w.me.ec2.ModifyInstanceMetadataOptions(w.t.Context(), &ec2.ModifyInstanceMetadataOptionsInput{
				InstanceId: &w.instance, HttpTokens: ec2types.HttpTokensStateOptional,
			}))
		},
	},
	{
		name: "ec2: CreateLaunchTemplateVersion of a launch template of others", given: (*fixture).network,
		needs: []statement{passAdmin(), onlyMine("ec2:CreateLaunchTemplateVersion")},
		stops: []statement{allow("ec2:CreateLaunchTemplateVersion").on(ec2ARN("launch-template/*"))}, try: addVersion,
	},
	{
		name: "ec2: ModifyLaunchTemplate of a launch template of others", given: (*fixture).network,
		needs: []statement{passAdmin(), allow("ec2:CreateLaunchTemplateVersion"), onlyMine("ec2:ModifyLaunchTemplate")},
		stops: []statement{allow("ec2:ModifyLaunchTemplate").on(ec2ARN("launch-template/*"))}, try: setDefault,
	},
	{
		name: "ec2: DescribeLaunchTemplateVersions, whose user data may hold secrets", given: (*fixture).network,
		needs: []statement{
			allow("ec2:DescribeLaunchTemplates"),
		}, stops: []statement{allow("ec2:DescribeLaunchTemplateVersions")},
		try: func(w *fixture) error {
			return failed(
				w.me.ec2.DescribeLaunchTemplateVersions(
					w.t.Context(),
					&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &w.template},
				),
			)
		},
	},
	{
		name: "ec2: GetLaunchTemplateData of an instance of others", given: (*fixture).instances,
		needs: []statement{allow("ec2:DescribeInstances")},
		stops: []statement{allow("ec2:GetLaunchTemplateData")},
		try: func(w *fixture) error {
			return failed(
				w.me.ec2.GetLaunchTemplateData(w.t.Context(), &ec2.GetLaunchTemplateDataInput{InstanceId: &w.instance}),
			)
		},
	},
	{
		name: "ec2: AuthorizeSecurityGroupIngress of a group of others",
		given: func(w *fixture) {
			w.network()
			out, err := w.root.ec2.CreateSecurityGroup(w.t.Context(), &ec2.CreateSecurityGroupInput{
				GroupName: p("inner"), Description: p("inner"), VpcId: &w.vpc,
			})
			w.do(nil, err)
			w.id = *out.GroupId
		},
		needs: []statement{onlyMine("ec2:AuthorizeSecurityGroupIngress")},
		stops: []statement{allow("ec2:AuthorizeSecurityGroupIngress")},
		try: func(w *fixture) error {
			return failed(w.me.ec2.AuthorizeSecurityGroupIngress(w.t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
				GroupId: &w.id, IpProtocol: p("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22),
				CidrIp: p("0.0.0.0/0"),
			}))
		},
	},
}

// requestsSpot asks for a spot instance with the role that may do everything, as mallory.
func requestsSpot(w *fixture) error {
	return failed(w.me.ec2.RequestSpotInstances(w.t.Context(), &ec2.RequestSpotInstancesInput{
		LaunchSpecification: &ec2types.RequestSpotLaunchSpecification{
			ImageId: machineImage, InstanceType: "m5.large", SubnetId: &w.subnetA, IamInstanceProfile: adminProfile(),
		},
	}))
}

// fleet launches an instance from a version of the launch template by an instant fleet, as mallory. Such a fleet says
// in its answer why it could not launch.
func fleet(version string, overrides ...ec2types.FleetLaunchTemplateOverridesRequest) func(*fixture) error {
	return func(w *fixture) error {
		if len(overrides) == 0 {
			overrides = []ec2types.FleetLaunchTemplateOverridesRequest{{SubnetId: &w.subnetA}}
		}
		out, err := w.me.ec2.CreateFleet(w.t.Context(), &ec2.CreateFleetInput{
			Type: ec2types.FleetTypeInstant,
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
				TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand,
			},
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
				LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
					LaunchTemplateId: &w.template,
					Version:          &version,
				},
				Overrides: overrides,
			}},
		})
		if err == nil && len(out.Errors) > 0 {
			return &smithy.GenericAPIError{
				Code:    *out.Errors[0].ErrorCode,
				Message: aws.ToString(out.Errors[0].ErrorMessage),
			}
		}
		return err
	}
}

// fleetTables are the tables with records of a fleet that launches nothing: only its own.
var fleetTables = []string{"fleets", "ec2clienttokens"}

var fleetPaths = []path{
	{
		name: "ec2: CreateFleet with a profile, without PassRole", given: (*fixture).network,
		needs: []statement{allow("ec2:*")},
		stops: []statement{passAdmin()}, try: fleet("2"), changes: fleetTables,
	},
	{
		name: "ec2: CreateFleet with PassRole to another service", given: (*fixture).network,
		needs: []statement{
			allow("ec2:*"),
			passAdmin().when("StringEquals", "iam:PassedToService", "eks.amazonaws.com"),
		},
		stops: []statement{
			passAdmin().when("StringEquals", "iam:PassedToService", "ec2.amazonaws.com"),
		}, try: fleet("2"), changes: fleetTables,
	},
	{
		name: "ec2: CreateFleet without RunInstances", given: (*fixture).network,
		needs: []statement{allow("ec2:CreateFleet"), passAdmin()},
		stops: []statement{allow("ec2:RunInstances")}, try: fleet("2"), changes: fleetTables,
	},
	{
		name: "ec2: CreateFleet of a type that may not be launched", given: (*fixture).network,
		needs: []statement{
			allow("ec2:CreateFleet"), allow("ec2:RunInstances").except(ec2ARN("instance/*")),
			allow("ec2:RunInstances").on(ec2ARN("instance/*")).when("StringEquals", "ec2:InstanceType", "t3.micro"),
		},
		stops: []statement{
			allow("ec2:RunInstances").on(ec2ARN("instance/*")).when("StringEquals", "ec2:InstanceType", "m5.large"),
		},
		try: fleet("1"), changes: fleetTables,
	},
	{
		name: "ec2: CreateFleet with RunInstances alone", given: (*fixture).network,
		needs: []statement{allow("ec2:RunInstances"), passAdmin()},
		stops: []statement{allow("ec2:CreateFleet")}, try: fleet("2"),
	},
}
