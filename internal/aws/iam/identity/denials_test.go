package identity_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// TestDenials checks what is kept of requests that policies refuse: who, what, why, how often; of one's own account,
// for a day, and no more than there is room for.
func TestDenials(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, now := t.Context(), time.Now()
	a.SetNow(now)
	alice := a.NewUser(t, "alice", `{"Version":"2012-10-17","Statement":{"Sid":"NoRoles","Effect":"Deny",
		"Action":"iam:ListRoles","Resource":"*"}}`)
	for range 3 {
		if _, err := a.IAM(alice).ListUsers(ctx, nil); awstest.Code(err) != "AccessDenied" {
			t.Fatal(err)
		}
	}
	a.SetNow(now.Add(time.Minute))
	if _, err := a.IAM(alice).ListRoles(ctx, nil); awstest.Code(err) != "AccessDenied" {
		t.Fatal(err)
	}
	role := a.NewRole(t, "app", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},
		"Action":"sts:AssumeRole"}}`)
	a.SetNow(now.Add(2 * time.Minute))
	_, err := a.STS(alice).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: aws.String("s1")})
	if err == nil {
		t.Fatal("alice assumes a role that does not trust her")
	}
	var got []string
	for _, d := range a.Identity.Denials(iamtest.Account) {
		got = append(got, fmt.Sprintf("%s %s %s %d %s %s %s", d.Principal, d.Action, d.Resource, d.Count, d.Reason,
			d.Statement, d.Last.Sub(d.First)))
		if d.RequestID == "" || d.SourceIP != "127.0.0.1" || !strings.Contains(d.UserAgent, "aws-sdk-go") {
			t.Errorf("of the request: %+v", d)
		}
	}
	const user = "arn:aws:iam::111122223333:user/alice"
	want := []string{
		user + " sts:AssumeRole " + role + " 1 because no role trust policy allows the sts:AssumeRole action  0s",
		user + " iam:ListRoles arn:aws:iam::111122223333:role/ 1 with an explicit deny in an identity-based policy NoRoles 0s",
		user + " iam:ListUsers arn:aws:iam::111122223333:user/ 3 because no identity-based policy allows the iam:ListUsers " +
			"action  0s",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("denials:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if other := a.Identity.Denials(iamtest.Other); len(other) > 0 {
		t.Errorf("of another account: %+v", other)
	}
	for i := range 600 {
		_, _ = a.IAM(alice).GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(fmt.Sprint("r", i))})
	}
	if n := len(a.Identity.Denials(iamtest.Account)); n != 500 {
		t.Errorf("%d denials are kept", n)
	}
	a.SetNow(now.Add(25 * time.Hour))
	if old := a.Identity.Denials(iamtest.Account); len(old) > 0 {
		t.Errorf("after a day: %d", len(old))
	}
}

// TestDenialsKeepNoRequests checks that a denial does not keep the request in memory of which its texts are parts.
func TestDenialsKeepNoRequests(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	key := a.NewUser(t, "alice", "")
	_, caller, err := a.Identity.Lookup(t.Context(), key.AccessKeyID, "")
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100 {
		body := fmt.Sprintf("arn:aws:iam::111122223333:role/x%03d", i) + strings.Repeat("x", size)
		err := a.Identity.Authorize(t.Context(), caller, []wire.Target{{Action: "iam:PassRole", Resource: body[:35]}})
		if err == nil {
			t.Fatal("alice passes a role")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 50*size {
		t.Errorf("100 denials keep %d MiB", kept>>20)
	}
}
