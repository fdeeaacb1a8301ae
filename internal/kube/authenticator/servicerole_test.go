package authenticator

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	coracleiam "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/kube/servicerole"
)

// roleOfEKS is whom STS tells of in a session of a role of EKS's own.
var roleOfEKS = caller{"arn:aws:sts::" + servicerole.Account + ":assumed-role/" + servicerole.Roles[0].Name + "/" +
	servicerole.Session, "AROAEKS:" + servicerole.Session, servicerole.Account}

// TestRolesOfEKS has sessions of a role of EKS's own that different services act in, and one of its namesake.
func TestRolesOfEKS(t *testing.T) {
	t.Parallel()
	for service, want := range map[string]string{
		servicerole.Principal: servicerole.Roles[0].User, "": "", servicerole.Service: "",
		"cloudformation.amazonaws.com": "",
	} {
		f := newFixture(t, onlyAPI)
		f.sts.services["ASIAEKS"], f.sts.services["ASIANAMESAKE"] = service, service
		namesake := roleOfEKS
		namesake.arn = strings.Replace(namesake.arn, servicerole.Account, account, 1)
		namesake.account = account
		for token, want := range map[string]string{f.token("ASIAEKS", roleOfEKS, name): want,
			f.token("ASIANAMESAKE", namesake, name): ""} {
			got := f.authenticate(token)
			if got.User.Username != want || got.Authenticated != (want != "") ||
				want == "" && got.Error != errNotMapped.Error() {
				t.Errorf("%q is %q (%s), want %q", service, got.User.Username, got.Error, want)
			}
		}
	}
}

// TestNobodyIsEKSByARN has an account of EKS's number from before it was refused, whose owner made a role of the name
// of one of EKS's own. They assume it, and are nobody; EKS's own sessions of the same role are EKS, and are of no use
// outside of the daemon.
func TestNobodyIsEKSByARN(t *testing.T) {
	t.Parallel()
	r := newRealSTS(t)
	r.auth.service = wire.ServiceOf
	ctx, role := t.Context(), servicerole.Roles[0]
	key, err := coracleiam.Bootstrap(ctx, r.aws.Store, servicerole.Account)
	r.put(err)
	owner := r.aws.IAM(aws.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret})
	made, err := owner.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &role.Name, AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + servicerole.Account +
			`"},"Action":"sts:AssumeRole"}]}`)})
	r.put(err)
	_, err = owner.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String("eve")})
	r.put(err)
	_, err = owner.PutUserPolicy(ctx, &iam.PutUserPolicyInput{UserName: aws.String("eve"), PolicyName: aws.String("all"),
		PolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}}`)})
	r.put(err)
	eve, err := owner.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: aws.String("eve")})
	r.put(err)
	r.put(coracleiam.EnsureServiceRole(ctx, r.aws.Store, servicerole.Account, role.Name, servicerole.Service))

	out, err := r.aws.STS(aws.Credentials{AccessKeyID: *eve.AccessKey.AccessKeyId,
		SecretAccessKey: *eve.AccessKey.SecretAccessKey}).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: made.Role.Arn,
		RoleSessionName: aws.String(servicerole.Session)})
	r.put(err)
	hers := aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId,
		SecretAccessKey: *out.Credentials.SecretAccessKey, SessionToken: *out.Credentials.SessionToken}
	if got := r.authenticate(r.token(hers, name, time.Now())); got.Authenticated || got.Error != errNotMapped.Error() {
		t.Errorf("who assumes the role is %q (%s)", got.User.Username, got.Error)
	}
	own, err := r.aws.Identity.OwnRoleCredentials(servicerole.Account, role.Name, servicerole.Session,
		servicerole.Principal).Retrieve(ctx)
	r.put(err)
	got := r.authenticate(r.token(own, name, time.Now()))
	if !got.Authenticated || got.User.Username != role.User {
		t.Errorf("EKS itself is %q (%s)", got.User.Username, got.Error)
	}
	if _, err := r.aws.STS(own).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}); err == nil {
		t.Error("credentials of EKS's own are good outside of the daemon")
	}
	// What is not the daemon's own mark is none, however the role was got.
	passed, err := r.aws.Identity.OwnRoleCredentials(servicerole.Account, role.Name, servicerole.Session,
		wire.CloudFormationPrincipal).Retrieve(ctx)
	r.put(err)
	if got := r.authenticate(r.token(passed, name, time.Now())); got.Authenticated {
		t.Errorf("a service to which the role was passed is %q", got.User.Username)
	}
}
