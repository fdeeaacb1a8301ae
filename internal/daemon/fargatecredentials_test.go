package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestFargateCredentials assumes pod execution roles, whose trust policies say for which profiles Fargate may.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func TestFargateCredentials(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	ctx := t.Context()
	const profiles = "arn:aws:eks:" + walkRegion + ":" + walkAccount + ":fargateprofile/"
	const node = "fargate-ip-10-0-0-4.eu-west-1.compute.internal"
	client := iam.NewFromConfig(w.config(w.root))
	makeRole := func(name, service, condition string) string {
		_, err := client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name,
			AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow",
				"Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole","Condition":` + condition + `}}`)})
		w.must(err)
		return "arn:aws:iam::" + walkAccount + ":role/" + name
	}
	demo := `{"ArnLike":{"aws:SourceArn":"` + profiles + `demo/*"},"StringEquals":{"aws:SourceAccount":"` +
		walkAccount + `"}}`
	for name, test := range map[string]struct {
		role, profile, account string
		refused                bool
	}{
		"trusts Fargate": {role: makeRole("any", fargatePrincipal, "{}"), profile: profiles + "demo/fp/1"},
		"trusts it for the cluster": {role: makeRole("demo", fargatePrincipal, demo), profile: profiles +
			"demo/fp/1"},
		"trusts it for another cluster": {role: makeRole("other", fargatePrincipal, demo), profile: profiles +
			"two/fp/1", refused: true},
		"trusts EC2": {role: makeRole("nodes", ec2Principal, "{}"), profile: profiles + "demo/fp/1", refused: true},
		"is not there": {role: "arn:aws:iam::" + walkAccount + ":role/gone", profile: profiles + "demo/fp/1",
			refused: true},
		"of another account": {role: makeRole("foreign", fargatePrincipal, "{}"), profile: profiles + "demo/fp/1",
			account: "444455556666", refused: true},
	} {
		i := record.Instance{EC2Resource: record.EC2Resource{Account: walkAccount, Region: walkRegion, ID: "i-1"},
			Fargate: &record.FargateMachine{RoleARN: test.role, ProfileARN: test.profile, NodeName: node}}
		if test.account != "" {
			i.Account = test.account
		}
		c, err := w.daemon.profileCredentials(ctx, i)
		if test.refused {
			if !errors.Is(err, identity.ErrNotTrusted) || !strings.Contains(err.Error(), "cannot assume") {
				t.Errorf("a role that %s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("a role that %s: %v", name, err)
			continue
		}
		who, err := sts.NewFromConfig(w.config(c)).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		if err != nil || !strings.HasSuffix(*who.Arn, "/"+node) ||
			!strings.HasPrefix(*who.Arn, "arn:aws:sts::"+walkAccount+":assumed-role/") {
			t.Errorf("a role that %s: the session is %+v, %v", name, who, err)
		}
	}
}
