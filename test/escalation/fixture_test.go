package escalation

import (
	"crypto/ecdsa"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/ami"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
	"github.com/coracle-eks/coracle/test/operations"
)

const (
	account   = iamtest.Account
	region    = iamtest.Region
	prefix    = "arn:aws:iam::" + account + ":"
	mallory   = prefix + "user/mallory"
	bossARN   = prefix + "user/bosses/boss"
	adminARN  = prefix + "role/admin"
	weakARN   = prefix + "role/weak"
	ownARN    = prefix + "policy/own"
	adminOf   = "arn:aws:iam::aws:policy/AdministratorAccess"
	readOnly  = "arn:aws:iam::aws:policy/ReadOnlyAccess"
	everybody = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`
)

// clients are the SDK's, with the credentials of one identity.
type clients struct {
	iam *iam.Client
	sts *sts.Client
	ec2 *ec2.Client
	asg *autoscaling.Client
	eks *eks.Client
	ssm *ssm.Client
	ecr *ecr.Client
}

// fixture is an account with somebody who may do everything, roles that may, and mallory, who is in the group "crew"
// and has the policy "own", whose second version, which is not its default, allows everything.
type fixture struct {
	*iamtest.AWS
	t    *testing.T
	root clients // of the account
	me   clients // mallory's
	them clients // the root user's of another account

	vpc, subnetA, subnetB, template, instance string            // what network and instances make
	id                                        string            // of whatever else a path begins with, or tries with
	key                                       *ecdsa.PrivateKey // of a token issuer
}

// register serves, behind mux, every service whose operations are tried.
func (w *fixture) register(mux *wire.Mux) {
	w.t.Helper()
	operations.Register(w.t, w.AWS, mux)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{AWS: iamtest.New(t), t: t}
	w.register(w.Mux)
	w.root = w.clients(w.Root)
	w.them = w.clients(w.NewAccount(t, iamtest.Other))

	w.user("boss", "/bosses/")
	w.do(
		w.root.iam.AttachUserPolicy(
			t.Context(),
			&iam.AttachUserPolicyInput{UserName: aws.String("boss"), PolicyArn: aws.String(adminOf)},
		),
	)
	for _, group := range []string{"admins", "crew"} {
		w.do(w.root.iam.CreateGroup(t.Context(), &iam.CreateGroupInput{GroupName: &group}))
	}
	w.do(
		w.root.iam.AttachGroupPolicy(
			t.Context(),
			&iam.AttachGroupPolicyInput{GroupName: aws.String("admins"), PolicyArn: aws.String(adminOf)},
		),
	)
	for _, role := range []string{"admin", "weak"} {
		w.NewRole(
			t,
			role,
			trust(
				`{"Service":["ec2.amazonaws.com","eks.amazonaws.com","pods.eks.amazonaws.com"]}`,
				"sts:AssumeRole",
				"sts:TagSession",
			),
		)
		w.profile(role+"-profile", role)
	}
	w.profile("empty-profile", "")
	w.do(
		w.root.iam.AttachRolePolicy(
			t.Context(),
			&iam.AttachRolePolicyInput{RoleName: aws.String("admin"), PolicyArn: aws.String(adminOf)},
		),
	)

	w.me = w.clients(w.NewUser(t, "mallory", ""))
	w.do(
		w.root.iam.AddUserToGroup(
			t.Context(),
			&iam.AddUserToGroupInput{GroupName: aws.String("crew"), UserName: aws.String("mallory")},
		),
	)
	w.policy("own", document(allow("sts:GetCallerIdentity")))
	w.do(
		w.root.iam.CreatePolicyVersion(
			t.Context(),
			&iam.CreatePolicyVersionInput{PolicyArn: aws.String(ownARN), PolicyDocument: aws.String(everybody)},
		),
	)
	w.do(
		w.root.iam.AttachUserPolicy(
			t.Context(),
			&iam.AttachUserPolicyInput{UserName: aws.String("mallory"), PolicyArn: aws.String(ownARN)},
		),
	)
	return w
}

// do checks that a step of a fixture succeeds.
func (w *fixture) do(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) clients(with aws.Credentials) clients {
	provider, url := credentials.StaticCredentialsProvider{Value: with}, aws.String(w.URL)
	return clients{
		iam: w.IAM(with), sts: w.STS(with),
		ec2: ec2.New(ec2.Options{Region: region, BaseEndpoint: url, HTTPClient: awsclient.HTTP(),
			Credentials: provider, RetryMaxAttempts: 1}),
		asg: autoscaling.New(
			autoscaling.Options{Region: region, BaseEndpoint: url, HTTPClient: awsclient.HTTP(),
				Credentials: provider, RetryMaxAttempts: 1},
		),
		eks: eks.New(eks.Options{Region: region, BaseEndpoint: url, HTTPClient: awsclient.HTTP(),
			Credentials: provider, RetryMaxAttempts: 1}),
		ssm: ssm.New(ssm.Options{Region: region, BaseEndpoint: url, HTTPClient: awsclient.HTTP(),
			Credentials: provider, RetryMaxAttempts: 1}),
		ecr: ecr.New(ecr.Options{Region: region, BaseEndpoint: url, HTTPClient: awsclient.HTTP(),
			Credentials: provider, RetryMaxAttempts: 1}),
	}
}

// with returns the clients of a session.
func (w *fixture) with(c *ststypes.Credentials) clients {
	return w.clients(
		aws.Credentials{
			AccessKeyID:     *c.AccessKeyId,
			SecretAccessKey: *c.SecretAccessKey,
			SessionToken:    *c.SessionToken,
		},
	)
}

// may makes the statements all that mallory may do, beside what the policy "own" allows.
func (w *fixture) may(statements ...statement) {
	w.t.Helper()
	w.do(w.root.iam.PutUserPolicy(w.t.Context(), &iam.PutUserPolicyInput{
		UserName: aws.String("mallory"), PolicyName: aws.String("may"),
		PolicyDocument: aws.String(document(append(statements, allow("sts:GetCallerIdentity"))...)),
	}))
}

func (w *fixture) user(name, path string) {
	w.t.Helper()
	w.do(w.root.iam.CreateUser(w.t.Context(), &iam.CreateUserInput{UserName: &name, Path: &path}))
}

// policy makes a managed policy and is its ARN.
func (w *fixture) policy(name, text string) string {
	w.t.Helper()
	w.do(w.root.iam.CreatePolicy(w.t.Context(), &iam.CreatePolicyInput{PolicyName: &name, PolicyDocument: &text}))
	return prefix + "policy/" + name
}

func (w *fixture) profile(name, role string) {
	w.t.Helper()
	w.do(w.root.iam.CreateInstanceProfile(w.t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name}))
	if role != "" {
		w.do(
			w.root.iam.AddRoleToInstanceProfile(
				w.t.Context(),
				&iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role},
			),
		)
	}
}

// role makes a role that its trust policy lets mallory assume and that may do what text says.
func (w *fixture) role(name, trust, text string) string {
	w.t.Helper()
	arn := w.NewRole(w.t, name, trust)
	w.do(
		w.root.iam.PutRolePolicy(
			w.t.Context(),
			&iam.PutRolePolicyInput{RoleName: &name, PolicyName: aws.String("may"), PolicyDocument: &text},
		),
	)
	return arn
}

// assume assumes a role that has to be free to mallory.
func (w *fixture) assume(name string, edit ...func(*sts.AssumeRoleInput)) clients {
	w.t.Helper()
	in := assuming(name)
	for _, e := range edit {
		e(in)
	}
	out, err := w.me.sts.AssumeRole(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.with(out.Credentials)
}

func assuming(name string) *sts.AssumeRoleInput {
	return &sts.AssumeRoleInput{RoleArn: aws.String(prefix + "role/" + name), RoleSessionName: aws.String("session")}
}

// machineImages returns the images that an instance can be launched from.
func machineImages() []string {
	var ids []string
	for _, i := range ami.All(region) {
		if i.Family == ami.AL2023 && i.Architecture == "x86_64" && i.KubernetesVersion != "" &&
			strings.Contains(i.Name, "standard") {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

var machineImage = &machineImages()[0]

// network creates a VPC with two subnets, and a launch template whose first version, the default, is empty, and whose
// second has the profile of the role that may do everything.
func (w *fixture) network() {
	w.t.Helper()
	ctx := w.t.Context()
	vpc, err := w.root.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	w.do(nil, err)
	w.vpc = *vpc.Vpc.VpcId
	for i, id := range []*string{&w.subnetA, &w.subnetB} {
		subnet, err := w.root.ec2.CreateSubnet(
			ctx,
			&ec2.CreateSubnetInput{
				VpcId:            &w.vpc,
				CidrBlock:        aws.String([]string{"10.0.0.0/24", "10.0.1.0/24"}[i]),
				AvailabilityZone: aws.String(region + "ab"[i:i+1]),
			},
		)
		w.do(nil, err)
		*id = *subnet.Subnet.SubnetId
	}
	template, err := w.root.ec2.CreateLaunchTemplate(
		ctx,
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("plain"), LaunchTemplateData: launched("")},
	)
	w.do(nil, err)
	w.template = *template.LaunchTemplate.LaunchTemplateId
	w.do(
		w.root.ec2.CreateLaunchTemplateVersion(
			ctx,
			&ec2.CreateLaunchTemplateVersionInput{
				LaunchTemplateId:   &w.template,
				LaunchTemplateData: launched("admin-profile"),
			},
		),
	)
}

// launched returns the data of a launch template.
func launched(profile string) *ec2types.RequestLaunchTemplateData {
	data := &ec2types.RequestLaunchTemplateData{ImageId: machineImage, InstanceType: "m5.large"}
	if profile != "" {
		data.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &profile}
	}
	return data
}

// instances creates a stopped instance, in a network.
func (w *fixture) instances() {
	w.t.Helper()
	w.network()
	out, err := w.root.ec2.RunInstances(w.t.Context(), w.running())
	w.do(nil, err)
	w.instance = *out.Instances[0].InstanceId
	w.boots(w.instance)
	w.do(w.root.ec2.StopInstances(w.t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{w.instance}}))
	w.boots(w.instance)
}

// boots makes the machine of an instance what is wanted of it.
func (w *fixture) boots(instance string) {
	w.t.Helper()
	key := record.EC2Key(account, region, instance)
	row, err := record.Instances(w.Store).Get(w.t.Context(), key)
	w.do(nil, err)
	w.do(
		record.Machines(w.Store).
			Put(w.t.Context(), key, record.Machine{InstanceID: instance, State: row.Value.Wanted,
				Boot: row.Value.Boot}),
	)
}

// running returns a launch of one instance.
func (w *fixture) running() *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		ImageId:      machineImage,
		InstanceType: "m5.large",
		SubnetId:     &w.subnetA,
		MinCount:     aws.Int32(1),
		MaxCount:     aws.Int32(1),
	}
}

// cluster creates an active cluster "dev", in a network; role "cluster" is its role, and "node" one for nodes.
func (w *fixture) cluster() {
	w.t.Helper()
	w.network()
	w.NewRole(w.t, "cluster", trust(`{"Service":"eks.amazonaws.com"}`, "sts:AssumeRole", "sts:TagSession"))
	w.NewRole(w.t, "node", trust(`{"Service":"ec2.amazonaws.com"}`, "sts:AssumeRole"))
	w.do(w.root.eks.CreateCluster(w.t.Context(), w.clusterNamed("dev")))
	w.serves("dev")
}

// nodeTemplate makes a launch template of two versions for nodes, which leaves the image to EKS.
func (w *fixture) nodeTemplate() {
	w.t.Helper()
	data := &ec2types.RequestLaunchTemplateData{TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{
		ResourceType: ec2types.ResourceTypeInstance,
		Tags:         []ec2types.Tag{{Key: aws.String("team"), Value: aws.String("crew")}},
	}}}
	out, err := w.root.ec2.CreateLaunchTemplate(w.t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: data,
	})
	w.do(nil, err)
	w.id = *out.LaunchTemplate.LaunchTemplateId
	w.do(w.root.ec2.CreateLaunchTemplateVersion(w.t.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &w.id, LaunchTemplateData: data,
	}))
}

func (w *fixture) clusterNamed(name string) *eks.CreateClusterInput {
	return &eks.CreateClusterInput{
		Name: &name, RoleArn: aws.String(prefix + "role/cluster"),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{w.subnetA, w.subnetB}},
		AccessConfig:       &ekstypes.CreateAccessConfigRequest{AuthenticationMode: ekstypes.AuthenticationModeApi},
	}
}

// serves makes a cluster active.
func (w *fixture) serves(name string) {
	w.t.Helper()
	row, err := record.Clusters(w.Store).Get(w.t.Context(), record.ClusterKey(account, region, name))
	w.do(nil, err)
	c := row.Value
	w.do(record.ControlPlanes(w.Store).Put(w.t.Context(), c.Key(), record.ControlPlane{
		ClusterID: c.ID, Ready: true, Endpoint: "https://127.0.0.1:34567", CertificateAuthority: []byte("PEM"),
		Version: c.Version, ClusterSecurityGroupID: "sg-cluster", ObservedAt: time.Now(),
	}))
}

// linked makes the service-linked role of a service.
func (w *fixture) linked(service string) {
	w.t.Helper()
	w.do(nil, iamservice.NewServiceLinkedRoles(w.Store, nil).Ensure(w.t.Context(), account, service))
}

// statement is one of a policy.
type statement map[string]any

func allow(actions ...string) statement {
	return statement{"Effect": "Allow", "Action": actions, "Resource": "*"}
}

func deny(actions ...string) statement {
	return statement{"Effect": "Deny", "Action": actions, "Resource": "*"}
}

// on returns the statement about resources.
func (s statement) on(resources ...string) statement {
	s["Resource"] = resources
	return s
}

// except returns the statement about all other resources.
func (s statement) except(resources ...string) statement {
	delete(s, "Resource")
	s["NotResource"] = resources
	return s
}

// when adds a condition to the statement.
func (s statement) when(operator, key string, values ...string) statement {
	all, _ := s["Condition"].(map[string]any)
	if all == nil {
		all = map[string]any{}
		s["Condition"] = all
	}
	all[operator] = map[string]any{key: values}
	return s
}

// document returns a policy of statements.
func document(statements ...statement) string {
	text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}

// trust returns a trust policy.
func trust(principal string, actions ...string) string {
	return document(statement{"Effect": "Allow", "Principal": json.RawMessage(principal), "Action": actions})
}

// toMe returns a trust policy that trusts mallory.
func toMe(actions ...string) string {
	return trust(`{"AWS":"`+mallory+`"}`, append(actions, "sts:AssumeRole")...)
}

// runs makes a node group what is wanted of it.
func (w *fixture) runs(name string) {
	w.t.Helper()
	row, err := record.Nodegroups(w.Store).Get(w.t.Context(), record.NodegroupKey(account, region, "dev", name))
	w.do(nil, err)
	n := row.Value
	w.do(record.NodegroupStates(w.Store).Put(w.t.Context(), n.Key(), record.NodegroupState{
		NodegroupID: n.ID, Created: true, Scaling: n.Scaling, ScalingChange: n.ScalingChange, Template: n.Template,
		TemplateHash:     "hash",
		AutoScalingGroup: "eks-" + name + "-" + n.ID,
	}))
}

// applies makes an add-on what is wanted of it.
func (w *fixture) applies(name string) {
	w.t.Helper()
	row, err := record.Addons(w.Store).
		Get(w.t.Context(), record.Addon{Account: account, Region: region, Cluster: "dev", Name: name}.Key())
	w.do(nil, err)
	a := row.Value
	w.do(record.AddonStates(w.Store).Put(w.t.Context(), a.Key(), record.AddonState{
		AddonID: a.ID, Change: a.Change, Applied: a.Wanted, Created: true,
	}))
}
