package sts_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

func TestWhoAmI(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	if who := whoAmI(t, a, a.Root); *who.Arn != "arn:aws:iam::111122223333:root" || *who.UserId != iamtest.Account ||
		*who.Account != iamtest.Account {
		t.Errorf("root is %s %s", *who.Arn, *who.UserId)
	}
	alice := a.NewUser(t, "alice", "") // no permission is needed
	if who := whoAmI(t, a, alice); *who.Arn != "arn:aws:iam::111122223333:user/alice" || !strings.HasPrefix(*who.UserId,
		"AIDA") {
		t.Errorf("alice is %s %s", *who.Arn, *who.UserId)
	}
	info := awstest.Must[*sts.GetAccessKeyInfoOutput](t)(a.STS(a.Root).GetAccessKeyInfo(t.Context(),
		&sts.GetAccessKeyInfoInput{AccessKeyId: &alice.AccessKeyID}))
	if *info.Account != iamtest.Account {
		t.Errorf("the key is of account %s", *info.Account)
	}
}

func TestAccessKeyIDAsSessionToken(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	alice := a.NewUser(t, "alice", "")
	whoAmI(t, a, alice)
	for _, with := range []aws.Credentials{
		{AccessKeyID: alice.AccessKeyID, SecretAccessKey: alice.SecretAccessKey, SessionToken: alice.AccessKeyID},
		{AccessKeyID: "ASIA" + alice.AccessKeyID[4:], SecretAccessKey: alice.SecretAccessKey,
			SessionToken: alice.AccessKeyID},
	} {
		if _, err := a.STS(with).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}); awstest.Code(err) !=
			"InvalidClientTokenId" {
			t.Errorf("%s: %v", with.AccessKeyID, err)
		}
	}
}
