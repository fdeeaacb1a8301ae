package stack_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// userHandler makes IAM users, as a client of IAM.
type userHandler struct{}

func (userHandler) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	if _, err := iam.NewFromConfig(r.Config).CreateUser(ctx, &iam.CreateUserInput{UserName: &r.Name}); err != nil {
		return resource.Result{}, err
	}
	return resource.Result{PhysicalID: r.Name}, nil
}

func (userHandler) Update(_ context.Context, r *resource.Request) (resource.Result, error) {
	return resource.Result{PhysicalID: r.PhysicalID}, nil
}

func (userHandler) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	_, err := iam.NewFromConfig(r.Config).DeleteUser(ctx, &iam.DeleteUserInput{UserName: &r.Name})
	if resource.IsNotFound(err) {
		err = nil
	}
	return resource.Result{PhysicalID: r.Name}, err
}

func (userHandler) Read(context.Context, *resource.Request) (properties, attributes map[string]any, err error) {
	return nil, nil, resource.ErrNotFound
}

// A stack acts with the permissions of its caller, or under the role that they may pass.
func TestAStackMayDoWhatItsCallerMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.types["AWS::IAM::User"] = resource.Type{Handler: userHandler{}, NameLimit: 64}
	const body = `{"Resources":{"U":{"Type":"AWS::IAM::User"}}}`
	w.NewRole(t, "cfn", `{"Version":"2012-10-17","Statement":{"Effect":"Allow",
		"Principal":{"Service":"cloudformation.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	w.NewRole(t, "stranger", `{"Version":"2012-10-17","Statement":{"Effect":"Allow",
		"Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	role := "arn:aws:iam::" + iamtest.Account + ":role/"
	if _, err := w.IAM(w.Root).PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: aws.String("cfn"),
		PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow",
			"Action":["iam:CreateUser","iam:DeleteUser"],"Resource":"*"}}`)}); err != nil {
		t.Fatal(err)
	}
	const stacks = `{"Effect":"Allow","Action":"cloudformation:*","Resource":"*"}`
	pass := func(name string) string {
		return `{"Effect":"Allow","Action":"iam:PassRole","Resource":"` + role + name + `"}`
	}
	policy := func(statements ...string) string {
		return `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`
	}
	for _, c := range []struct {
		name, policy, role string
		code               string // of CreateStack
		want               types.StackStatus
	}{
		{name: "stacks-only", policy: policy(stacks), want: types.StackStatusRollbackComplete},
		{name: "users", policy: policy(stacks, `{"Effect":"Allow","Action":"iam:*","Resource":"*"}`),
			want: types.StackStatusCreateComplete},
		{name: "via", want: types.StackStatusCreateComplete, policy: policy(stacks, `{"Effect":"Allow","Action":"iam:*",
			"Resource":"*","Condition":{"ForAnyValue:StringEquals":{"aws:CalledVia":"cloudformation.amazonaws.com"}}}`)},
		{name: "no-pass", policy: policy(stacks), role: "cfn", code: "AccessDenied"},
		{name: "pass", policy: policy(stacks, pass("cfn")), role: "cfn", want: types.StackStatusCreateComplete},
		{name: "untrusting", policy: policy(stacks, pass("stranger")), role: "stranger", code: "ValidationError"},
		{name: "nothing", policy: policy(pass("cfn")), code: "AccessDenied"},
	} {
		client := w.as(w.NewUser(t, c.name, c.policy))
		in := &cloudformation.CreateStackInput{StackName: aws.String(c.name), TemplateBody: aws.String(body),
			Capabilities: []types.Capability{types.CapabilityCapabilityIam}}
		if c.role != "" {
			in.RoleARN = aws.String(role + c.role)
		}
		_, err := client.CreateStack(t.Context(), in)
		if c.code != "" {
			if awstest.Code(err) != c.code {
				t.Errorf("%s: %v, want %s", c.name, err, c.code)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		w.await(c.name, c.want)
		if c.want == types.StackStatusRollbackComplete && !w.has(c.name, "is not authorized to perform: iam:CreateUser") {
			t.Errorf("%s: the events are\n%s", c.name, strings.Join(w.events(c.name), "\n"))
		}
	}
}
