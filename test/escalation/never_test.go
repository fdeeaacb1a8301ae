package escalation

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const (
	linkedName = "AWSServiceRoleForAutoScaling"
	theirRole  = "arn:aws:iam::" + other + ":role/theirs"
)

// withLinked creates the service-linked role of Auto Scaling in an account.
func withLinked(w *fixture) { w.linked("autoscaling.amazonaws.com") }

// withTheirs creates a role in another account, which trusts mallory's account, and a policy.
func withTheirs(w *fixture) {
	w.do(w.them.iam.CreateRole(w.t.Context(), &iam.CreateRoleInput{
		RoleName: p(
			"theirs",
		), AssumeRolePolicyDocument: p(trust(`{"Service":["ec2.amazonaws.com","eks.amazonaws.com"]}`,
			"sts:AssumeRole")),
	}))
	w.do(
		w.them.iam.CreatePolicy(
			w.t.Context(),
			&iam.CreatePolicyInput{PolicyName: p("theirs"), PolicyDocument: p(everybody)},
		),
	)
	w.do(
		w.them.iam.CreateInstanceProfile(
			w.t.Context(),
			&iam.CreateInstanceProfileInput{InstanceProfileName: p("theirs")},
		),
	)
	w.do(w.them.iam.AddRoleToInstanceProfile(w.t.Context(), &iam.AddRoleToInstanceProfileInput{
		InstanceProfileName: p("theirs"), RoleName: p("theirs"),
	}))
}

// theirVPC creates a VPC of another account; w.id names it.
func theirVPC(w *fixture) {
	w.network()
	out, err := w.them.ec2.CreateVpc(w.t.Context(), &ec2.CreateVpcInput{CidrBlock: p("10.9.0.0/16")})
	w.do(nil, err)
	w.id = *out.Vpc.VpcId
}

// theirTemplate creates a launch template of another account; w.id names it.
func theirTemplate(w *fixture) {
	w.network()
	out, err := w.them.ec2.CreateLaunchTemplate(w.t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: p("theirs"), LaunchTemplateData: launched(""),
	})
	w.do(nil, err)
	w.id = *out.LaunchTemplate.LaunchTemplateId
}

// TestNobodyMay tries what no permission allows, by somebody who may do everything; nothing changes.
func TestNobodyMay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		given func(*fixture)
		try   func(*fixture) error
		code  string
	}{
		{"DeleteRole of a service-linked role", withLinked, func(w *fixture) error {
			return failed(w.me.iam.DeleteRole(w.t.Context(), &iam.DeleteRoleInput{RoleName: p(linkedName)}))
		}, "UnmodifiableEntity"},
		{"PutRolePolicy of a service-linked role", withLinked, func(w *fixture) error {
			return failed(w.me.iam.PutRolePolicy(w.t.Context(), &iam.PutRolePolicyInput{
				RoleName: p(linkedName), PolicyName: p("x"), PolicyDocument: p(everybody),
			}))
		}, "UnmodifiableEntity"},
		{"AttachRolePolicy to a service-linked role", withLinked, func(w *fixture) error {
			return failed(w.me.iam.AttachRolePolicy(w.t.Context(), &iam.AttachRolePolicyInput{RoleName: p(linkedName),
				PolicyArn: p(adminOf)}))
		}, "UnmodifiableEntity"},
		{"UpdateAssumeRolePolicy of a service-linked role", withLinked,
			func(w *fixture) error { return trustMe(w, linkedName) }, "UnmodifiableEntity"},
		{"UpdateAssumeRolePolicy of a service-linked role, named in another letter case", withLinked,
			func(w *fixture) error {
				return trustMe(w, strings.ToLower(linkedName))
			}, "NoSuchEntity"},
		{"UpdateAssumeRolePolicy of a role, named in another letter case", nil,
			func(w *fixture) error { return trustMe(w, "ADMIN") }, "NoSuchEntity"},
		{"CreateAccessKey for a user, named in another letter case", nil, func(w *fixture) error {
			return failed(w.me.iam.CreateAccessKey(w.t.Context(), &iam.CreateAccessKeyInput{UserName: p("BOSS")}))
		}, "NoSuchEntity"},
		{"AssumeRole of a service-linked role", withLinked, func(w *fixture) error {
			return failed(w.me.sts.AssumeRole(w.t.Context(), assuming("aws-service-role/autoscaling.amazonaws.com/"+
				linkedName)))
		}, "AccessDenied"},
		{"CreateRole below the path of service-linked roles", nil, func(w *fixture) error {
			return failed(w.me.iam.CreateRole(w.t.Context(), &iam.CreateRoleInput{
				RoleName: p("x"), Path: p("/aws-service-role/eks.amazonaws.com/"), AssumeRolePolicyDocument: p(toMe()),
			}))
		}, ""},
		{"AttachRolePolicy of a service's policy", nil, func(w *fixture) error {
			return failed(w.me.iam.AttachRolePolicy(w.t.Context(), &iam.AttachRolePolicyInput{
				RoleName: p("weak"), PolicyArn: p(
					"arn:aws:iam::aws:policy/aws-service-role/AutoScalingServiceRolePolicy"),
			}))
		}, "PolicyNotAttachable"},
		{"CreatePolicyVersion of an AWS managed policy", nil, func(w *fixture) error { return writeVersion(w, readOnly) },
			"AccessDenied"},
		{"DeletePolicy of an AWS managed policy", nil, func(w *fixture) error {
			return failed(w.me.iam.DeletePolicy(w.t.Context(), &iam.DeletePolicyInput{PolicyArn: p(readOnly)}))
		}, "AccessDenied"},
		{"SetDefaultPolicyVersion of an AWS managed policy", nil, func(w *fixture) error {
			return failed(w.me.iam.SetDefaultPolicyVersion(w.t.Context(),
				&iam.SetDefaultPolicyVersionInput{PolicyArn: p(readOnly), VersionId: p("v1")}))
		}, "AccessDenied"},
		{"a policy of another account", withTheirs, func(w *fixture) error {
			return writeVersion(w, "arn:aws:iam::"+other+":policy/theirs")
		}, ""},
		{"AttachUserPolicy of another account's policy", withTheirs, func(w *fixture) error {
			return failed(w.me.iam.AttachUserPolicy(w.t.Context(), &iam.AttachUserPolicyInput{
				UserName: p("mallory"), PolicyArn: p("arn:aws:iam::" + other + ":policy/theirs"),
			}))
		}, ""},
		{"a role of another account, by its name", withTheirs, func(w *fixture) error { return trustMe(w, "theirs") },
			"NoSuchEntity"},
		{"AssumeRole of another account's role", withTheirs, func(w *fixture) error {
			return failed(w.me.sts.AssumeRole(w.t.Context(), &sts.AssumeRoleInput{RoleArn: p(theirRole),
				RoleSessionName: p("session")}))
		}, "AccessDenied"},
		{"RunInstances with another account's profile", func(w *fixture) { w.network(); withTheirs(w) },
			launches(func(_ *fixture, in *ec2.RunInstancesInput) {
				in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Arn: p("arn:aws:iam::" + other +
					":instance-profile/theirs")}
			}), "InvalidParameterValue"},
		{"RunInstances from another account's launch template", theirTemplate,
			launches(func(w *fixture, in *ec2.RunInstancesInput) {
				in.LaunchTemplate = &ec2types.LaunchTemplateSpecification{LaunchTemplateId: &w.id}
			}), "InvalidLaunchTemplateId.NotFound"},
		{"CreateSubnet in another account's VPC", theirVPC, func(w *fixture) error {
			return failed(w.me.ec2.CreateSubnet(w.t.Context(), &ec2.CreateSubnetInput{VpcId: &w.id,
				CidrBlock: p("10.9.0.0/24")}))
		}, "InvalidVpcID.NotFound"},
		{"DeleteVpc of another account", theirVPC, func(w *fixture) error {
			return failed(w.me.ec2.DeleteVpc(w.t.Context(), &ec2.DeleteVpcInput{VpcId: &w.id}))
		}, "InvalidVpcID.NotFound"},
		{"CreateTags on another account's VPC", theirVPC, func(w *fixture) error {
			return failed(w.me.ec2.CreateTags(w.t.Context(), &ec2.CreateTagsInput{
				Resources: []string{w.id}, Tags: []ec2types.Tag{{Key: p("team"), Value: p("crew")}},
			}))
		}, "InvalidVpcID.NotFound"},
		{"CreateCluster with another account's role", func(w *fixture) { w.cluster(); withTheirs(w) },
			createsCluster(func(in *eks.CreateClusterInput) {
				in.RoleArn = p(theirRole)
			}), "AccessDeniedException"},
		{"CreateNodegroup with another account's role", func(w *fixture) { w.cluster(); withTheirs(w) },
			createsNodes(func(_ *fixture, in *eks.CreateNodegroupInput) {
				in.NodeRole = p(theirRole)
			}), "AccessDeniedException"},
		{"CreateAddon with another account's role", func(w *fixture) { w.cluster(); withTheirs(w) },
			createsAddon(func(in *eks.CreateAddonInput) {
				in.ServiceAccountRoleArn = p(theirRole)
			}), "AccessDeniedException"},
		{"CreateNodegroup with a service-linked role", func(w *fixture) { w.cluster(); withLinked(w) },
			createsNodes(func(_ *fixture, in *eks.CreateNodegroupInput) {
				in.NodeRole = p(prefix + "role/aws-service-role/autoscaling.amazonaws.com/" + linkedName)
			}), "InvalidParameterException"},
		{"a cluster of another account", (*fixture).cluster, func(w *fixture) error {
			return failed(w.them.eks.CreateAccessEntry(w.t.Context(), &eks.CreateAccessEntryInput{ClusterName: p("dev"),
				PrincipalArn: p(mallory)}))
		}, "ResourceNotFoundException"},
		{"tags of another account's cluster", (*fixture).cluster, func(w *fixture) error {
			return failed(w.them.eks.TagResource(w.t.Context(), &eks.TagResourceInput{ResourceArn: p(devARN),
				Tags: map[string]string{"team": "crew"}}))
		}, "NotFoundException"},
		{"CreateAccessEntry with a group of the system", (*fixture).cluster,
			createsEntry(func(in *eks.CreateAccessEntryInput) {
				in.KubernetesGroups = []string{"system:masters"}
			}), "InvalidParameterException"},
		{"CreateAccessEntry with a group of the system, by a template", (*fixture).cluster,
			createsEntry(func(in *eks.CreateAccessEntryInput) {
				in.KubernetesGroups = []string{"{{SessionName}}system:masters"}
			}), "InvalidParameterException"},
		{"CreateAccessEntry with a user name of the system", (*fixture).cluster,
			createsEntry(func(in *eks.CreateAccessEntryInput) {
				in.Username = p("system:admin")
			}), "InvalidParameterException"},
		{"CreateAccessEntry of a node with groups", (*fixture).cluster,
			createsEntry(func(in *eks.CreateAccessEntryInput) {
				in.PrincipalArn, in.Type, in.KubernetesGroups = p(weakARN), p("EC2_LINUX"), []string{"admins"}
			}), "InvalidParameterException"},
		{"CreateAccessEntry for a service-linked role", func(w *fixture) { w.cluster(); withLinked(w) },
			createsEntry(func(in *eks.CreateAccessEntryInput) {
				in.PrincipalArn = p(prefix + "role/aws-service-role/autoscaling.amazonaws.com/" + linkedName)
			}), "InvalidParameterException"},
		{"UpdateAccessEntry to a group of the system", entered, updatesEntry(func(in *eks.UpdateAccessEntryInput) {
			in.KubernetesGroups = []string{"system:masters"}
		}), "InvalidParameterException"},
		{"UpdateAccessEntry to a user name of the system", entered, updatesEntry(func(in *eks.UpdateAccessEntryInput) {
			in.Username = p("system:admin")
		}), "InvalidParameterException"},
		{"AssociateAccessPolicy of what is no access policy", entered, func(w *fixture) error {
			return failed(w.me.eks.AssociateAccessPolicy(w.t.Context(), &eks.AssociateAccessPolicyInput{
				ClusterName: p("dev"), PrincipalArn: p(mallory), PolicyArn: p(adminOf), AccessScope: wholeCluster,
			}))
		}, ""},
		{"UpdateClusterConfig back to the ConfigMap alone", (*fixture).cluster, func(w *fixture) error {
			return failed(w.me.eks.UpdateClusterConfig(w.t.Context(), &eks.UpdateClusterConfigInput{
				Name: p("dev"), AccessConfig: &ekstypes.UpdateAccessConfigRequest{
					AuthenticationMode: ekstypes.AuthenticationModeConfigMap},
			}))
		}, ""},
		{"PutParameter in the path of AWS", nil, func(w *fixture) error {
			return failed(w.me.ssm.PutParameter(w.t.Context(), &ssm.PutParameterInput{
				Name:  p("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id"),
				Value: machineImage,
				Type:  "String", Overwrite: aws.Bool(true),
			}))
		}, ""},
		{"the repositories of another account", theirs("ecr:ListImages"), func(w *fixture) error {
			return failed(w.me.ecr.DescribeRepositories(w.t.Context(),
				&ecr.DescribeRepositoriesInput{RegistryId: p(other)}))
		}, "AccessDeniedException"},
		{"CreateRepository in the registry of another account", nil, func(w *fixture) error {
			return failed(w.me.ecr.CreateRepository(w.t.Context(), &ecr.CreateRepositoryInput{RegistryId: p(other),
				RepositoryName: p("mine")}))
		}, "AccessDeniedException"},
		{"AssumeRole with the credentials of a federated user",
			func(w *fixture) { w.role("free", anybodyHere("sts:AssumeRole"), everybody) }, func(w *fixture) error {
				return failed(w.federate().sts.AssumeRole(w.t.Context(), assuming("free")))
			}, "AccessDenied"},
		{"IAM with the credentials of a federated user", nil, func(w *fixture) error {
			return failed(w.federate().iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: p("friend")}))
		}, "InvalidClientTokenId"},
		{"IAM with the credentials of GetSessionToken", nil, func(w *fixture) error {
			return failed(w.session(w.me).iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: p("friend")}))
		}, "InvalidClientTokenId"},
		{"IAM with the root user's credentials of GetSessionToken", nil, func(w *fixture) error {
			return failed(w.session(w.root).iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: p("friend")}))
		}, "InvalidClientTokenId"},
		{"GetFederationToken with the credentials of GetSessionToken", nil, func(w *fixture) error {
			return failed(w.session(w.me).sts.GetFederationToken(w.t.Context(),
				&sts.GetFederationTokenInput{Name: p("guest"), Policy: p(everybody)}))
		}, "AccessDenied"},
		{"GetSessionToken with the credentials of a role", func(w *fixture) { w.role("free", toMe(), everybody) },
			func(w *fixture) error {
				return failed(w.assume("free").sts.GetSessionToken(w.t.Context(), &sts.GetSessionTokenInput{}))
			}, "AccessDenied"},
		{"a session of a chain that lasts longer than an hour", func(w *fixture) {
			w.role("free", toMe(), everybody)
			w.role("vault", anybodyHere("sts:AssumeRole"), everybody)
		}, func(w *fixture) error {
			in := assuming("vault")
			in.DurationSeconds = aws.Int32(3601)
			return failed(w.assume("free").sts.AssumeRole(w.t.Context(), in))
		}, "ValidationError"},
		{"CreateOpenIDConnectProvider below localhost", nil, func(w *fixture) error {
			return createProvider(w, "https://oidc.localhost/id")
		}, "InvalidInput"},
		{"CreateOpenIDConnectProvider at an address", nil, func(w *fixture) error {
			return createProvider(w, "https://169.254.169.254/")
		}, "InvalidInput"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			if test.given != nil {
				test.given(w)
			}
			w.may(allow("*"))
			before := storetest.Rows(t, w.Prefix)
			err := test.try(w)
			if err == nil || test.code != "" && errorCode(err) != test.code {
				t.Errorf("it is not refused with %s: %v", test.code, err)
			}
			for _, change := range differ(before, storetest.Rows(t, w.Prefix), nil) {
				t.Errorf("it was refused, but changed %s", change)
			}
		})
	}
}

// federate returns the clients of a federated user with all of mallory's permissions.
func (w *fixture) federate() clients {
	w.t.Helper()
	out, err := w.me.sts.GetFederationToken(
		w.t.Context(),
		&sts.GetFederationTokenInput{Name: p("guest"), Policy: p(everybody)},
	)
	w.do(nil, err)
	return w.with(out.Credentials)
}

// session returns the clients of a session of the holder of other clients.
func (w *fixture) session(of clients) clients {
	w.t.Helper()
	out, err := of.sts.GetSessionToken(w.t.Context(), &sts.GetSessionTokenInput{})
	w.do(nil, err)
	return w.with(out.Credentials)
}
