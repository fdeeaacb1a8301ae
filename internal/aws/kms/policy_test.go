package kms_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

const mayAll = `{"Effect":"Allow","Action":"kms:*","Resource":"*"}`

// TestPolicyMatrix tries a key with each kind of policy as callers with each kind of policy of their own.
func TestPolicyMatrix(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	aliceARN, bobARN := "arn:aws:iam::"+account+":user/alice", "arn:aws:iam::"+other+":user/bob"
	roleARN, roleSession := w.role("app", "")
	callers := map[string]*kms.Client{
		"root":  w.Client,
		"alice": w.user("alice", ""),
		"admin": w.user("admin", mayAll),
		"denied": w.user("denied", mayAll+
			`,{"Effect":"Deny","Action":"kms:Encrypt","Resource":"*"}`),
		"tagged": w.user("tagged", `{"Effect":"Allow","Action":"kms:*","Resource":"*",`+
			`"Condition":{"StringEquals":{"aws:ResourceTag/team":"a"}}}`),
		"byAlias": w.user("byAlias", `{"Effect":"Allow","Action":"kms:*","Resource":"*",`+
			`"Condition":{"ForAnyValue:StringEquals":{"kms:ResourceAliases":"alias/matrix"}}}`),
		"session":    roleSession,
		"bob":        w.otherUser("bob", ""),
		"otherAdmin": w.otherUser("admin", mayAll),
		"otherRoot":  w.client(w.otherRoot),
	}
	for name, test := range map[string]struct {
		policy string
		tags   map[string]string
		alias  bool
		may    string // the callers who may encrypt
	}{
		"the default policy":        {policy: rootOnly, may: "root admin"},
		"the default, and a tag":    {policy: rootOnly, tags: map[string]string{"team": "a"}, may: "root admin tagged"},
		"the default, and an alias": {policy: rootOnly, alias: true, may: "root admin byAlias"},
		"a user alone":              {policy: allow(`"kms:*"`, principal(aliceARN), "*"), may: "alice"},
		"a user, and the root user": {policy: allow(`"kms:*"`, principal(aliceARN), "*") + "," + rootOnly,
			may: "root admin alice"},
		"a user for another action": {policy: allow(`"kms:Decrypt"`, principal(aliceARN), "*"), may: ""},
		"a role":                    {policy: allow(`"kms:Encrypt"`, principal(roleARN), "*"), may: "session"},
		"a user of another account": {policy: allow(`"kms:*"`, principal(bobARN), "*"), may: ""},
		"another account": {policy: allow(`"kms:*"`, principal("arn:aws:iam::"+other+":root"), "*"),
			may: "otherAdmin otherRoot"},
		"everybody": {policy: `{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*"}`,
			may: "root alice admin tagged byAlias session otherAdmin otherRoot"},
		"all but a user": {policy: rootOnly + `,{"Effect":"Deny",` + principal("arn:aws:iam::"+account+":user/admin") +
			`"Action":"kms:Encrypt","Resource":"*"}`, may: "root"},
		"through EKS only": {policy: `{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*",` +
			`"Condition":{"StringEquals":{"kms:ViaService":"eks.` + region + `.amazonaws.com"}}}`, may: ""},
		"in a context": {policy: `{"Effect":"Allow",` + principal(aliceARN) + `"Action":"kms:*","Resource":"*",` +
			`"Condition":{"StringEquals":{"kms:EncryptionContext:app":"shop"}}}`, may: "alice"},
		"in another context": {policy: `{"Effect":"Allow",` + principal(aliceARN) + `"Action":"kms:*","Resource":"*",` +
			`"Condition":{"StringEquals":{"kms:EncryptionContext:app":"bank"}}}`, may: ""},
		"with keys of the context": {policy: `{"Effect":"Allow",` + principal(aliceARN) +
			`"Action":"kms:*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"kms:EncryptionContextKeys":` +
			`["app"]},"Null":{"kms:EncryptionContextKeys":"false"}}}`, may: "alice"},
		"callers of an account": {policy: `{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*",` +
			`"Condition":{"StringEquals":{"kms:CallerAccount":"` + other + `"}}}`, may: "otherAdmin otherRoot"},
	} {
		key := w.key(test.policy + "," + allow(`"kms:TagResource","kms:CreateAlias","kms:DeleteAlias"`,
			principal("arn:aws:iam::"+account+":root"), "*"))
		arn := ownARN + "key/" + key
		for k, v := range test.tags {
			awstest.Must[*kms.TagResourceOutput](t)(w.TagResource(ctx, &kms.TagResourceInput{KeyId: &key,
				Tags: []types.Tag{{TagKey: &k, TagValue: &v}}}))
		}
		if test.alias {
			awstest.Must[*kms.CreateAliasOutput](t)(w.CreateAlias(ctx, &kms.CreateAliasInput{TargetKeyId: &key,
				AliasName: aws.String("alias/matrix")}))
		}
		for who, client := range callers {
			may := strings.Contains(" "+test.may+" ", " "+who+" ")
			_, err := client.Encrypt(ctx, &kms.EncryptInput{KeyId: &arn, Plaintext: []byte("x"),
				EncryptionContext: map[string]string{"app": "shop"}})
			if may && err != nil || !may && awstest.Code(err) != "AccessDeniedException" {
				t.Errorf("%s, %s: may encrypt is %v: %v", name, who, may, err)
			}
		}
	}
}

func TestAKeyPolicyMeansItsPrincipalsNotTheirNames(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	arn, session := w.role("app", "")
	key := w.key(allow(`"kms:*"`, principal(arn), "*") + "," + rootOnly)
	in := &kms.EncryptInput{KeyId: &key, Plaintext: []byte("x")}
	awstest.Must[*kms.EncryptOutput](t)(session.Encrypt(ctx, in))
	ofSession := w.key(rootOnly + "," + allow(`"kms:Encrypt"`,
		principal("arn:aws:sts::"+account+":assumed-role/app/session"), "*"))
	awstest.Must[*kms.EncryptOutput](t)(session.Encrypt(ctx, &kms.EncryptInput{KeyId: &ofSession,
		Plaintext: []byte("x")}))
	granted := w.key("")
	awstest.Must[*kms.CreateGrantOutput](t)(w.CreateGrant(ctx, &kms.CreateGrantInput{KeyId: &granted,
		GranteePrincipal: &arn, Operations: grantOps(types.GrantOperationEncrypt)}))
	awstest.Must[*kms.EncryptOutput](t)(session.Encrypt(ctx, &kms.EncryptInput{KeyId: &granted, Plaintext: []byte("x")}))

	awstest.Must[*awsiam.DeleteRoleOutput](t)(w.IAM(w.Root).DeleteRole(ctx,
		&awsiam.DeleteRoleInput{RoleName: aws.String("app")}))
	awstest.Must[*awsiam.DeleteAccessKeyOutput](t)(w.deleteAccessKeys("app-assumer"))
	awstest.Must[*awsiam.DeleteUserPolicyOutput](t)(w.IAM(w.Root).DeleteUserPolicy(ctx, &awsiam.DeleteUserPolicyInput{
		UserName: aws.String("app-assumer"), PolicyName: aws.String("inline")}))
	awstest.Must[*awsiam.DeleteUserOutput](t)(w.IAM(w.Root).DeleteUser(ctx,
		&awsiam.DeleteUserInput{UserName: aws.String("app-assumer")}))
	again, session := w.role("app", "")
	if again != arn {
		t.Fatalf("the role is %s", again)
	}
	_, err := session.Encrypt(ctx, in)
	awstest.WantCode(t, err, "AccessDeniedException")
	for _, other := range []string{ofSession, granted} {
		_, err = session.Encrypt(ctx, &kms.EncryptInput{KeyId: &other, Plaintext: []byte("x")})
		awstest.WantCode(t, err, "AccessDeniedException")
	}
}

// What a key policy says of a user is said of their federated sessions as well.
func TestAFederatedSessionIsItsUser(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	const everything = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`
	alice := w.NewUser(t, "alice", everything)
	out := awstest.Must[*sts.GetFederationTokenOutput](t)(w.STS(alice).GetFederationToken(ctx,
		&sts.GetFederationTokenInput{Name: aws.String("guest"), Policy: aws.String(everything)}))
	guest := w.client(aws.Credentials{AccessKeyID: *out.Credentials.AccessKeyId,
		SecretAccessKey: *out.Credentials.SecretAccessKey, SessionToken: *out.Credentials.SessionToken})
	named := principal("arn:aws:iam::" + account + ":user/alice")
	const federated = "arn:aws:sts::" + account + ":federated-user/guest"
	for name, test := range map[string]struct {
		statements string
		may        bool
	}{
		"the account":        {rootOnly, true},
		"a denied user":      {rootOnly + `,{"Effect":"Deny",` + named + `"Action":"kms:*","Resource":"*"}`, false},
		"the user, alone":    {allow(`"kms:*"`, named, "*"), true},
		"aws:PrincipalArn":   {conditional(federated), true},
		"not that of a user": {conditional("arn:aws:iam::" + account + ":user/alice"), false},
	} {
		key := w.key(test.statements)
		_, err := guest.Encrypt(ctx, &kms.EncryptInput{KeyId: &key, Plaintext: []byte("x")})
		if test.may && err != nil || !test.may && awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s: may encrypt is %v: %v", name, test.may, err)
		}
	}
}

// conditional denies encryption to all but one aws:PrincipalArn.
func conditional(arn string) string {
	return rootOnly + `,{"Effect":"Deny","Principal":"*","Action":"kms:Encrypt","Resource":"*",` +
		`"Condition":{"ArnNotEquals":{"aws:PrincipalArn":"` + arn + `"}}}`
}

// deleteAccessKeys deletes the one access key of a user.
func (w *fixture) deleteAccessKeys(user string) (*awsiam.DeleteAccessKeyOutput, error) {
	w.t.Helper()
	ctx, admin := w.t.Context(), w.IAM(w.Root)
	keys := awstest.Must[*awsiam.ListAccessKeysOutput](w.t)(admin.ListAccessKeys(ctx,
		&awsiam.ListAccessKeysInput{UserName: &user}))
	return admin.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{UserName: &user,
		AccessKeyId: keys.AccessKeyMetadata[0].AccessKeyId})
}

func TestAPolicyThatLocksItsAuthorOutIsRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.user("alice", "")
	key := w.key("")
	locked := document(allow(`"kms:*"`, principal("arn:aws:iam::"+account+":user/alice"), "*"))
	put := func(bypass bool) error {
		_, err := w.PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{KeyId: &key, Policy: &locked, PolicyName: aws.String("default"),
			BypassPolicyLockoutSafetyCheck: bypass})
		return err
	}
	err := put(false)
	if code, message, _ := awstest.Failure(err); code != "MalformedPolicyDocumentException" ||
		message != "The new key policy will not allow you to update the key policy in the future." {
		t.Errorf("locked out: %v", err)
	}
	_, err = w.CreateKey(ctx, &kms.CreateKeyInput{Policy: &locked})
	awstest.WantCode(t, err, "MalformedPolicyDocumentException")
	if err := put(true); err != nil {
		t.Error(err)
	}
	_, err = w.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: &key})
	if code, message, _ := awstest.Failure(err); code != "AccessDeniedException" || !strings.HasSuffix(message,
		"because no resource-based policy allows the kms:GetKeyPolicy action") {
		t.Errorf("read by who is locked out: %v", err)
	}
}

// TestOthersLearnNothing shows that what does not exist, and what one may not see, look alike to other accounts.
func TestOthersLearnNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	key := w.key("")
	awstest.Must[*kms.CreateAliasOutput](t)(w.CreateAlias(ctx, &kms.CreateAliasInput{TargetKeyId: &key,
		AliasName: aws.String("alias/there")}))
	thief := w.otherUser("thief", mayAll)
	nobody := w.user("nobody", "")
	for _, id := range []string{"key/" + key, "key/" + absent, "alias/there", "alias/absent"} {
		arn := ownARN + id
		_, err := thief.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &arn})
		// The key of an alias is not for others to know.
		if awstest.Code(err) != "AccessDeniedException" || !strings.Contains(err.Error(), "on resource: "+arn+" because "+
			"no resource-based policy allows") {
			t.Errorf("%s, for another account: %v", id, err)
		}
		_, err = nobody.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &arn})
		if awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s, for a user without policies: %v", id, err)
		}
	}
	// Operations that work in one's own account only, even for those whom the key policy lets do everything.
	open := ownARN + "key/" + w.key(rootOnly+`,{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*"}`)
	for name, call := range map[string]func() error{
		"DisableKey": func() error { _, err := thief.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &open}); return err },
		"ScheduleKeyDeletion": func() error {
			_, err := thief.ScheduleKeyDeletion(ctx, &kms.ScheduleKeyDeletionInput{KeyId: &open})
			return err
		},
		"PutKeyPolicy": func() error {
			_, err := thief.PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{KeyId: &open, Policy: ptr(document(mayAll))})
			return err
		},
		"GetKeyPolicy": func() error { _, err := thief.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: &open}); return err },
		"TagResource": func() error {
			_, err := thief.TagResource(ctx, &kms.TagResourceInput{KeyId: &open, Tags: []types.Tag{}})
			return err
		},
		"CreateAlias": func() error {
			_, err := thief.CreateAlias(ctx, &kms.CreateAliasInput{TargetKeyId: &open, AliasName: ptr("alias/x")})
			return err
		},
		"RotateKeyOnDemand": func() error {
			_, err := thief.RotateKeyOnDemand(ctx, &kms.RotateKeyOnDemandInput{KeyId: &open})
			return err
		},
	} {
		if err := call(); awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s across accounts: %v", name, err)
		}
	}
	if _, err := thief.Encrypt(ctx, &kms.EncryptInput{KeyId: &open, Plaintext: []byte("x")}); err != nil {
		t.Errorf("Encrypt across accounts: %v", err)
	}
}

// TestAliasesAreAuthorizedOnBothSides shows that whoever gives or moves an alias must be allowed to on each key.
func TestAliasesAreAuthorizedOnBothSides(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	mine, theirs := w.key(""), w.key("")
	all := `"kms:CreateAlias","kms:UpdateAlias","kms:DeleteAlias"`
	alice := w.user("alice", allow(all, "", ownARN+"alias/*")+","+allow(all, "", ownARN+"key/"+mine))
	bob := w.user("bob", allow(all, "", ownARN+"key/*"))
	create := func(c *kms.Client, name, key string) error {
		_, err := c.CreateAlias(ctx, &kms.CreateAliasInput{AliasName: &name, TargetKeyId: &key})
		return err
	}
	update := func(c *kms.Client, name, key string) error {
		_, err := c.UpdateAlias(ctx, &kms.UpdateAliasInput{AliasName: &name, TargetKeyId: &key})
		return err
	}
	if err := create(w.Client, "alias/theirs", theirs); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"the key is not theirs":        create(alice, "alias/x", theirs),
		"the alias is not theirs":      create(bob, "alias/x", mine),
		"to a key that is not theirs":  update(alice, "alias/theirs", theirs),
		"from a key that is not":       update(alice, "alias/theirs", mine),
		"delete of a key that is not":  failed(alice.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: ptr("alias/theirs")})),
		"delete, without the alias":    failed(bob.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: ptr("alias/theirs")})),
		"an alias that does not exist": failed(bob.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: ptr("alias/absent")})),
	} {
		if awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := create(alice, "alias/mine", mine); err != nil {
		t.Error(err)
	}
	if err := failed(alice.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: ptr("alias/mine")})); err != nil {
		t.Error(err)
	}
}

// An alias that gets another key in the meantime is not changed by who may not take it from that key.
func TestAliasesThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	mine, theirs := w.key(""), w.key("")
	both := `"kms:DeleteAlias","kms:UpdateAlias"`
	alice := w.user("alice", allow(both, "", ownARN+"alias/*")+","+allow(both, "", ownARN+"key/"+mine))
	name := aws.String("alias/moving")
	awstest.Must[*kms.CreateAliasOutput](t)(w.CreateAlias(ctx, &kms.CreateAliasInput{AliasName: name,
		TargetKeyId: &mine}))
	for operation, call := range map[string]func() error{
		"DeleteAlias": func() error { return failed(alice.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: name})) },
		"UpdateAlias": func() error {
			return failed(alice.UpdateAlias(ctx, &kms.UpdateAliasInput{AliasName: name, TargetKeyId: &mine}))
		},
	} {
		move := func(to string) {
			if _, err := w.UpdateAlias(ctx, &kms.UpdateAliasInput{AliasName: name, TargetKeyId: &to}); err != nil {
				t.Error(err)
			}
		}
		move(mine)
		w.AfterAuthorization(func() { move(theirs) })
		if err := call(); awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

func failed[T any](_ T, err error) error { return err }
