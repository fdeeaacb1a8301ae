package authenticator

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
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

// TestNobodyIsEKSByARN has an account of EKS's number from before it was refused, and a role in it of the name of one
// of EKS's own. Its credentials are refused. A session of the role that is not EKS's is nobody; EKS's own is EKS, and
// of no use outside of the daemon.
func TestNobodyIsEKSByARN(t *testing.T) {
	t.Parallel()
	r := newRealSTS(t)
	r.auth.service = wire.ServiceOf
	ctx, role := t.Context(), servicerole.Roles[0]
	key, err := coracleiam.Bootstrap(ctx, r.aws.Store, servicerole.Account)
	r.put(err)
	r.put(coracleiam.EnsureServiceRole(ctx, r.aws.Store, servicerole.Account, role.Name, servicerole.Service))
	owner := aws.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret}
	theirs, err := r.aws.Identity.ServiceRoleCredentials(servicerole.Account, role.Name, servicerole.Session).Retrieve(ctx)
	r.put(err)
	for who, with := range map[string]aws.Credentials{"the owner": owner, "who assumed the role": theirs} {
		if _, err := r.aws.STS(with).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}); awstest.Code(err) !=
			"InvalidClientTokenId" {
			t.Errorf("%s calls STS: %v", who, err)
		}
		if got := r.authenticate(r.token(with, name, time.Now())); got.Authenticated {
			t.Errorf("%s is %q", who, got.User.Username)
		}
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
