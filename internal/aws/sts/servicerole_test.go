package sts_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracleiam "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// TestNobodyAssumesRolesOfServices has a role of a service in the service's own account, and an account in which
// everybody may assume any role.
func TestNobodyAssumesRolesOfServices(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, name := t.Context(), aws.String("manager")
	for range 2 { // each start of a daemon
		if err := coracleiam.EnsureServiceRole(ctx, a.Store, "602401143452", *name, "lambda.amazonaws.com"); err != nil {
			t.Fatal(err)
		}
	}
	role := aws.String("arn:aws:iam::602401143452:role/manager")
	alice := a.NewUser(t, "alice",
		`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole","Resource":"*"}}`)
	for who, with := range map[string]aws.Credentials{"the root user": a.Root, "a user": alice} {
		_, err := a.STS(with).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: role, RoleSessionName: name})
		if awstest.Code(err) != "AccessDenied" {
			t.Errorf("%s assumes the role: %v", who, err)
		}
	}
	if _, err := a.IAM(a.Root).UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: name,
		PolicyDocument: aws.String(trust(`{"AWS":"*"}`, `"sts:AssumeRole"`))}); awstest.Code(err) != "NoSuchEntity" {
		t.Errorf("another account changes the role: %v", err)
	}
	own, err := a.Identity.OwnRoleCredentials("602401143452", *name, "session", "own").Retrieve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.STS(own).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}); awstest.Code(err) !=
		"InvalidClientTokenId" {
		t.Errorf("the service's own credentials outside of the daemon: %v", err)
	}
	for service, with := range map[string]aws.Credentials{"own": own, "": a.Root} {
		presigned, err := sts.NewPresignClient(a.STS(with)).PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, presigned.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Coracle-Service", "own") // which nobody reads
		answer, err := a.Mux.Transport().RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || wire.ServiceOf(answer) != service ||
			service != "" && !strings.Contains(string(body), "arn:aws:sts::602401143452:assumed-role/manager/session") {
			t.Errorf("the service %q in the daemon: %d %s, %q, %v", service, answer.StatusCode, body,
				wire.ServiceOf(answer), err)
		}
	}
}
