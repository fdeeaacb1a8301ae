package kms_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// TestGrantMatrix tries one key with one grant after the other.
func TestGrantMatrix(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	key := w.key("")
	arn := ownARN + "key/" + key
	aliceARN, bobARN := "arn:aws:iam::"+account+":user/alice", "arn:aws:iam::"+other+":user/bob"
	alice := w.user("alice", "")
	admin := w.user("admin", mayAll)
	denied := w.user("denied", `{"Effect":"Deny","Action":"kms:Decrypt","Resource":"*"}`)
	bob := w.otherUser("bob", "")
	roleARN, session := w.role("app", "")
	shop := map[string]string{"app": "shop", "tier": "1"}
	blob := w.encrypted(key, shop)
	encrypt := func(c *kms.Client, pairs map[string]string) error {
		return failed(c.Encrypt(ctx, &kms.EncryptInput{KeyId: &arn, Plaintext: []byte("x"), EncryptionContext: pairs}))
	}
	decrypt := func(c *kms.Client, pairs map[string]string) error {
		return failed(c.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob, EncryptionContext: pairs}))
	}
	equals := func(pairs map[string]string) *types.GrantConstraints {
		return &types.GrantConstraints{EncryptionContextEquals: pairs}
	}
	subset := func(pairs map[string]string) *types.GrantConstraints {
		return &types.GrantConstraints{EncryptionContextSubset: pairs}
	}
	both := grantOps(types.GrantOperationEncrypt, types.GrantOperationDecrypt)
	for name, test := range map[string]struct {
		grantee     string
		operations  []types.GrantOperation
		constraints *types.GrantConstraints
		call        func() error
		want        string // error code; empty when it succeeds
	}{
		"granted":           {aliceARN, both, nil, func() error { return encrypt(alice, nil) }, ""},
		"another operation": {aliceARN, both[:1], nil, func() error { return decrypt(alice, shop) }, "AccessDeniedException"},
		"to another":        {roleARN, both, nil, func() error { return encrypt(alice, nil) }, "AccessDeniedException"},
		"to a role":         {roleARN, both, nil, func() error { return encrypt(session, nil) }, ""},
		"to a session": {"arn:aws:sts::" + account + ":assumed-role/app/session", both, nil,
			func() error { return encrypt(session, nil) }, ""},
		"to another session": {"arn:aws:sts::" + account + ":assumed-role/app/other", both, nil,
			func() error { return encrypt(session, nil) }, "AccessDeniedException"},
		"to the account, of a user without policies": {"arn:aws:iam::" + account + ":root", both, nil,
			func() error { return encrypt(alice, nil) }, "AccessDeniedException"},
		"to a user of another account": {bobARN, both, nil, func() error { return encrypt(bob, nil) }, ""},
		"to another account": {"arn:aws:iam::" + other + ":root", both, nil,
			func() error { return encrypt(bob, nil) }, "AccessDeniedException"},
		"against a deny": {"arn:aws:iam::" + account + ":user/denied", both, nil,
			func() error { return decrypt(denied, shop) }, "AccessDeniedException"},
		"the very context": {aliceARN, both, equals(shop), func() error { return decrypt(alice, shop) }, ""},
		"case of keys":     {aliceARN, both, equals(map[string]string{"APP": "shop", "Tier": "1"}), func() error { return decrypt(alice, shop) }, ""},
		"more than the context": {aliceARN, both, equals(map[string]string{"app": "shop"}),
			func() error { return decrypt(alice, shop) }, "AccessDeniedException"},
		"a part of the context": {aliceARN, both, subset(map[string]string{"app": "shop"}),
			func() error { return decrypt(alice, shop) }, ""},
		"another value": {aliceARN, both, subset(map[string]string{"app": "bank"}),
			func() error { return decrypt(alice, shop) }, "AccessDeniedException"},
		"case of values": {aliceARN, both, subset(map[string]string{"app": "Shop"}),
			func() error { return decrypt(alice, shop) }, "AccessDeniedException"},
		"no context": {aliceARN, both, subset(map[string]string{"app": "shop"}),
			func() error { return encrypt(alice, nil) }, "AccessDeniedException"},
		"no context is needed to describe": {aliceARN, grantOps(types.GrantOperationDescribeKey),
			subset(map[string]string{"app": "shop"}),
			func() error { return failed(alice.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &arn})) }, ""},
		"data keys": {aliceARN, grantOps(types.GrantOperationGenerateDataKey), nil, func() error {
			return failed(alice.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &arn, KeySpec: "AES_256"}))
		}, ""},
		"encrypting again needs both halves": {aliceARN, grantOps(types.GrantOperationReEncryptFrom), nil, func() error {
			return failed(alice.ReEncrypt(ctx, &kms.ReEncryptInput{CiphertextBlob: blob, SourceEncryptionContext: shop,
				DestinationKeyId: &arn}))
		}, "AccessDeniedException"},
		"encrypting again": {aliceARN, grantOps(types.GrantOperationReEncryptFrom, types.GrantOperationReEncryptTo), nil,
			func() error {
				return failed(alice.ReEncrypt(ctx, &kms.ReEncryptInput{CiphertextBlob: blob, DestinationKeyId: &arn,
					SourceEncryptionContext: shop}))
			}, ""},
		"administration is not granted": {aliceARN, both, nil,
			func() error { return failed(alice.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &key})) }, "AccessDeniedException"},
		"passing on what is granted": {aliceARN, append(both[:1:1], types.GrantOperationCreateGrant), nil, func() error {
			return failed(alice.CreateGrant(ctx, &kms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &roleARN,
				Operations: both[:1], DryRun: ptr(true)}))
		}, "DryRunOperationException"},
		"passing on more": {aliceARN, append(both[:1:1], types.GrantOperationCreateGrant), nil, func() error {
			return failed(alice.CreateGrant(ctx, &kms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &roleARN,
				Operations: both}))
		}, "AccessDeniedException"},
		"passing on without the constraint": {aliceARN, append(both[:1:1], types.GrantOperationCreateGrant), subset(shop),
			func() error {
				return failed(alice.CreateGrant(ctx, &kms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &roleARN,
					Operations: both[:1], Constraints: subset(map[string]string{"app": "shop"})}))
			}, "AccessDeniedException"},
		"passing on with a stricter constraint": {aliceARN, append(both[:1:1], types.GrantOperationCreateGrant),
			subset(map[string]string{"app": "shop"}), func() error {
				return failed(alice.CreateGrant(ctx, &kms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &roleARN,
					Operations: both[:1], Constraints: equals(shop), DryRun: ptr(true)}))
			}, "DryRunOperationException"},
		"nobody grants without permission": {aliceARN, both, nil, func() error {
			return failed(alice.CreateGrant(ctx, &kms.CreateGrantInput{KeyId: &arn, GranteePrincipal: &roleARN,
				Operations: both}))
		}, "AccessDeniedException"},
	} {
		made := awstest.Must[*kms.CreateGrantOutput](t)(w.CreateGrant(ctx, &kms.CreateGrantInput{KeyId: &arn,
			GranteePrincipal: &test.grantee, Operations: test.operations, Constraints: test.constraints}))
		err := test.call()
		if test.want == "" && err != nil || test.want != "" && awstest.Code(err) != test.want {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		awstest.Must[*kms.RevokeGrantOutput](t)(admin.RevokeGrant(ctx, &kms.RevokeGrantInput{KeyId: &key,
			GrantId: made.GrantId}))
		if err := test.call(); awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s, without the grant: %v", name, err)
		}
	}
}

func TestGrantConditions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	key := w.key("")
	roleARN, _ := w.role("app", "")
	conditional := func(name, condition string) *kms.Client {
		return w.user(name, `{"Effect":"Allow","Action":"kms:CreateGrant","Resource":"*","Condition":`+condition+`}`)
	}
	in := func(ops ...types.GrantOperation) *kms.CreateGrantInput {
		return &kms.CreateGrantInput{KeyId: &key, GranteePrincipal: &roleARN, Operations: ops, DryRun: ptr(true)}
	}
	constrained := in(types.GrantOperationDecrypt)
	constrained.Constraints = &types.GrantConstraints{EncryptionContextSubset: map[string]string{"a": "b"}}
	services := conditional("services", `{"Bool":{"kms:GrantIsForAWSResource":"true"}}`)
	decrypts := conditional("decrypts", `{"ForAllValues:StringEquals":{"kms:GrantOperations":["Decrypt"]}}`)
	grantee := conditional("grantee", `{"StringEquals":{"kms:GranteePrincipal":"`+roleARN+`"}}`)
	strict := conditional("strict", `{"StringEquals":{"kms:GrantConstraintType":"EncryptionContextSubset"}}`)
	for name, test := range map[string]struct {
		who *kms.Client
		in  *kms.CreateGrantInput
		may bool
	}{
		"no grant of a user is for a resource of AWS": {services, in(types.GrantOperationDecrypt), false},
		"operations":           {decrypts, in(types.GrantOperationDecrypt), true},
		"more operations":      {decrypts, in(types.GrantOperationDecrypt, types.GrantOperationEncrypt), false},
		"grantee":              {grantee, in(types.GrantOperationEncrypt), true},
		"a constraint":         {strict, constrained, true},
		"without a constraint": {strict, in(types.GrantOperationDecrypt), false},
	} {
		want := map[bool]string{true: "DryRunOperationException", false: "AccessDeniedException"}[test.may]
		if _, err := test.who.CreateGrant(ctx, test.in); awstest.Code(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestGrantsAreListedAndRetired(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	key := w.key("")
	arn := ownARN + "key/" + key
	aliceARN, bobARN := "arn:aws:iam::"+account+":user/alice", "arn:aws:iam::"+account+":user/bob"
	alice, bob, eve := w.user("alice", ""), w.user("bob", ""), w.user("eve", "")
	create := func(in kms.CreateGrantInput) *kms.CreateGrantOutput {
		t.Helper()
		in.KeyId, in.GranteePrincipal = &key, &aliceARN
		return awstest.Must[*kms.CreateGrantOutput](t)(w.CreateGrant(ctx, &in))
	}
	named := kms.CreateGrantInput{Name: aws.String("one"), RetiringPrincipal: &bobARN,
		Operations: grantOps(types.GrantOperationEncrypt, types.GrantOperationRetireGrant)}
	first := create(named)
	if again := create(named); *again.GrantId != *first.GrantId {
		t.Error("the same request made another grant")
	}
	named.Operations = named.Operations[:1]
	second := create(named)
	if *second.GrantId == *first.GrantId {
		t.Error("another request made no other grant")
	}
	third := create(kms.CreateGrantInput{Operations: named.Operations})

	list := awstest.Must[*kms.ListGrantsOutput](t)(w.ListGrants(ctx, &kms.ListGrantsInput{KeyId: &arn,
		GrantId: first.GrantId})).Grants
	if len(list) != 1 || *list[0].KeyId != arn || *list[0].GranteePrincipal != aliceARN || *list[0].Name != "one" ||
		*list[0].RetiringPrincipal != bobARN || *list[0].IssuingAccount != "arn:aws:iam::"+account+":root" {
		t.Errorf("grants %+v", list)
	}
	retirable := awstest.Must[*kms.ListRetirableGrantsOutput](t)(w.ListRetirableGrants(ctx,
		&kms.ListRetirableGrantsInput{RetiringPrincipal: &bobARN})).Grants
	if len(retirable) != 2 {
		t.Errorf("%d grants can be retired, want 2", len(retirable))
	}

	retire := func(c *kms.Client, id *string) error {
		return failed(c.RetireGrant(ctx, &kms.RetireGrantInput{KeyId: &arn, GrantId: id}))
	}
	for name, err := range map[string]error{
		"a stranger":                      retire(eve, first.GrantId),
		"a stranger with the token":       failed(eve.RetireGrant(ctx, &kms.RetireGrantInput{GrantToken: first.GrantToken})),
		"a grantee who may not":           retire(alice, second.GrantId),
		"who retires other grants":        retire(bob, third.GrantId),
		"what a stranger does not know":   retire(eve, aws.String(absent)),
		"a user of another account":       retire(w.otherUser("thief", mayAll), first.GrantId),
		"the root user of another":        retire(w.client(w.otherRoot), first.GrantId),
		"RevokeGrant, by the grantee":     failed(alice.RevokeGrant(ctx, &kms.RevokeGrantInput{KeyId: &arn, GrantId: first.GrantId})),
		"ListGrants, by the grantee":      failed(alice.ListGrants(ctx, &kms.ListGrantsInput{KeyId: &arn})),
		"ListRetirableGrants, by the one": failed(bob.ListRetirableGrants(ctx, &kms.ListRetirableGrantsInput{RetiringPrincipal: &bobARN})),
	} {
		if awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"the grantee, whom it allows": retire(alice, first.GrantId),
		"the retiring principal":      failed(bob.RetireGrant(ctx, &kms.RetireGrantInput{GrantToken: second.GrantToken})),
		"the account of the key":      retire(w.Client, third.GrantId),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	left := awstest.Must[*kms.ListGrantsOutput](t)(w.ListGrants(ctx, &kms.ListGrantsInput{KeyId: &arn})).Grants
	if len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
	awstest.WantCode(t, retire(w.Client, first.GrantId), "NotFoundException")
}
