package kms_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestBadRequests shows that each gets AWS's error, and changes nothing.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	key, disabled, pending := w.key(""), w.key(""), w.key("")
	blob := w.encrypted(key, nil)
	old := w.encrypted(pending, nil)
	asleep := w.encrypted(disabled, nil)
	awstest.Must[*kms.CreateAliasOutput](t)(w.CreateAlias(ctx, &kms.CreateAliasInput{TargetKeyId: &key,
		AliasName: ptr("alias/taken")}))
	awstest.Must[*kms.DisableKeyOutput](t)(w.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &disabled}))
	awstest.Must[*kms.ScheduleKeyDeletionOutput](t)(w.ScheduleKeyDeletion(ctx,
		&kms.ScheduleKeyDeletionInput{KeyId: &pending}))
	rootARN := "arn:aws:iam::" + account + ":root"

	create := func(in kms.CreateKeyInput) func() error {
		return func() error { return failed(w.CreateKey(ctx, &in)) }
	}
	describe := func(id string) func() error {
		return func() error { return failed(w.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &id})) }
	}
	alias := func(name, key string) func() error {
		return func() error {
			return failed(w.CreateAlias(ctx, &kms.CreateAliasInput{AliasName: &name, TargetKeyId: &key}))
		}
	}
	grant := func(edit func(*kms.CreateGrantInput)) func() error {
		return func() error {
			in := &kms.CreateGrantInput{KeyId: &key, GranteePrincipal: &rootARN,
				Operations: grantOps(types.GrantOperationEncrypt)}
			edit(in)
			return failed(w.CreateGrant(ctx, in))
		}
	}
	encrypt := func(edit func(*kms.EncryptInput)) func() error {
		return func() error {
			in := &kms.EncryptInput{KeyId: &key, Plaintext: []byte("x")}
			edit(in)
			return failed(w.Encrypt(ctx, in))
		}
	}
	decrypt := func(in kms.DecryptInput) func() error {
		return func() error { return failed(w.Decrypt(ctx, &in)) }
	}
	dataKey := func(edit func(*kms.GenerateDataKeyInput)) func() error {
		return func() error {
			in := &kms.GenerateDataKeyInput{KeyId: &key}
			edit(in)
			return failed(w.GenerateDataKey(ctx, in))
		}
	}
	policy := func(text string) func() error {
		return func() error { return failed(w.PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{KeyId: &key, Policy: &text})) }
	}
	schedule := func(id string, days int32) func() error {
		return func() error {
			return failed(w.ScheduleKeyDeletion(ctx, &kms.ScheduleKeyDeletionInput{KeyId: &id, PendingWindowInDays: &days}))
		}
	}
	rotate := func(id string, days int32) func() error {
		return func() error {
			return failed(w.EnableKeyRotation(ctx, &kms.EnableKeyRotationInput{KeyId: &id, RotationPeriodInDays: &days}))
		}
	}
	tags := func(all ...string) []types.Tag {
		var list []types.Tag
		for _, k := range all {
			list = append(list, types.Tag{TagKey: aws.String(k), TagValue: aws.String("")})
		}
		return list
	}
	tag := func(all ...string) func() error {
		return func() error {
			return failed(w.TagResource(ctx, &kms.TagResourceInput{KeyId: &key, Tags: tags(all...)}))
		}
	}
	var many []string
	for i := range 51 {
		many = append(many, "k"+strings.Repeat("x", i))
	}

	requests := []struct {
		name string
		call func() error
		code string
		says string // in the message
	}{
		{"CreateKey: HMAC", create(kms.CreateKeyInput{KeySpec: types.KeySpecHmac256, KeyUsage: types.KeyUsageTypeGenerateVerifyMac}), "UnsupportedOperationException", "HMAC_256"},
		{"CreateKey: RSA", create(kms.CreateKeyInput{KeySpec: types.KeySpecRsa2048}), "UnsupportedOperationException", "RSA_2048"},
		{"CreateKey: old name of a spec", create(kms.CreateKeyInput{CustomerMasterKeySpec: types.CustomerMasterKeySpecEccNistP256}), "UnsupportedOperationException", "ECC_NIST_P256"},
		{"CreateKey: both names", create(kms.CreateKeyInput{KeySpec: types.KeySpecSymmetricDefault, CustomerMasterKeySpec: types.CustomerMasterKeySpecSymmetricDefault}), "ValidationException", "deprecated"},
		{"CreateKey: no such spec", create(kms.CreateKeyInput{KeySpec: "AES"}), "ValidationException", "keySpec"},
		{"CreateKey: usage", create(kms.CreateKeyInput{KeyUsage: types.KeyUsageTypeSignVerify}), "ValidationException", "SIGN_VERIFY"},
		{"CreateKey: origin", create(kms.CreateKeyInput{Origin: types.OriginTypeExternal}), "UnsupportedOperationException", "EXTERNAL"},
		{"CreateKey: multi-Region", create(kms.CreateKeyInput{MultiRegion: ptr(true)}), "UnsupportedOperationException", "Multi-Region"},
		{"CreateKey: key store", create(kms.CreateKeyInput{CustomKeyStoreId: ptr("cks-1")}), "UnsupportedOperationException", "key stores"},
		{"CreateKey: long description", create(kms.CreateKeyInput{Description: ptr(strings.Repeat("x", 8193))}), "ValidationException", "description"},
		{"CreateKey: reserved tag", create(kms.CreateKeyInput{Tags: tags("aws:x")}), "TagException", "aws:x"},
		{"CreateKey: tag twice", create(kms.CreateKeyInput{Tags: tags("a", "a")}), "TagException", "Duplicate"},
		{"CreateKey: policy is no JSON", create(kms.CreateKeyInput{Policy: ptr("{")}), "MalformedPolicyDocumentException", ""},
		{"CreateKey: policy without principal", create(kms.CreateKeyInput{Policy: ptr(document(mayAll))}), "MalformedPolicyDocumentException", "rincipal"},
		{"CreateKey: policy with nobody", create(kms.CreateKeyInput{Policy: ptr(document(rootOnly + "," + allow(`"kms:*"`, principal("arn:aws:iam::"+account+":user/nobody"), "*")))}), "MalformedPolicyDocumentException", "invalid principals"},
		{"CreateKey: policy with a session of nobody", create(kms.CreateKeyInput{Policy: ptr(document(rootOnly + "," +
			allow(`"kms:*"`, principal("arn:aws:sts::"+account+":assumed-role/nobody/s"), "*")))}),
			"MalformedPolicyDocumentException", "invalid principals"},
		{"CreateKey: long policy", create(kms.CreateKeyInput{Policy: ptr(document(rootOnly) + strings.Repeat(" ", 33<<10))}), "LimitExceededException", "32768"},

		{"DescribeKey: no identifier", describe("nothing"), "NotFoundException", "Invalid keyId 'nothing'"},
		{"DescribeKey: absent", describe(absent), "NotFoundException", "Key '" + ownARN + "key/" + absent + "' does not exist"},
		{"DescribeKey: absent alias", describe("alias/absent"), "NotFoundException", "Alias " + ownARN + "alias/absent is not found."},
		{"DescribeKey: no ARN", describe("arn:aws:kms"), "InvalidArnException", "arn:aws:kms"},
		{"DescribeKey: another service", describe("arn:aws:s3:" + region + ":" + account + ":key/" + key), "InvalidArnException", "s3"},
		{"DescribeKey: another region", describe("arn:aws:kms:eu-west-1:" + account + ":key/" + key), "NotFoundException", "Invalid arn eu-west-1"},
		{"DescribeKey: another kind", describe(ownARN + "keys/" + key), "InvalidArnException", "keys/"},
		{"DescribeKey: grant token", func() error {
			return failed(w.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &key, GrantTokens: []string{"x"}}))
		}, "InvalidGrantTokenException", ""},
		{"EnableKey: alias", func() error { return failed(w.EnableKey(ctx, &kms.EnableKeyInput{KeyId: ptr("alias/taken")})) }, "NotFoundException", "Invalid keyId"},
		{"EnableKey: alias ARN", func() error {
			return failed(w.EnableKey(ctx, &kms.EnableKeyInput{KeyId: ptr(ownARN + "alias/taken")}))
		}, "InvalidArnException", "alias/taken"},
		{"EnableKey: pending deletion", func() error { return failed(w.EnableKey(ctx, &kms.EnableKeyInput{KeyId: &pending})) }, "KMSInvalidStateException", " is pending deletion."},
		{"DisableKey: pending deletion", func() error { return failed(w.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &pending})) }, "KMSInvalidStateException", pending},
		{"UpdateKeyDescription: pending deletion", func() error {
			return failed(w.UpdateKeyDescription(ctx, &kms.UpdateKeyDescriptionInput{KeyId: &pending, Description: ptr("x")}))
		}, "KMSInvalidStateException", pending},
		{"ScheduleKeyDeletion: soon", schedule(key, 6), "ValidationException", "greater than or equal to 7"},
		{"ScheduleKeyDeletion: late", schedule(key, 31), "ValidationException", "less than or equal to 30"},
		{"ScheduleKeyDeletion: again", schedule(pending, 7), "KMSInvalidStateException", "pending"},
		{"CancelKeyDeletion: not pending", func() error { return failed(w.CancelKeyDeletion(ctx, &kms.CancelKeyDeletionInput{KeyId: &key})) }, "KMSInvalidStateException", " is not pending deletion."},
		{"ListKeys: limit", func() error { return failed(w.ListKeys(ctx, &kms.ListKeysInput{Limit: ptr(int32(1001))})) }, "ValidationException", "limit"},
		{"ListKeys: marker", func() error { return failed(w.ListKeys(ctx, &kms.ListKeysInput{Marker: ptr("x")})) }, "InvalidMarkerException", ""},

		{"CreateAlias: no prefix", alias("team", key), "InvalidAliasNameException", "alias/"},
		{"CreateAlias: nothing behind it", alias("alias/", key), "InvalidAliasNameException", ""},
		{"CreateAlias: of AWS", alias("alias/aws/eks", key), "InvalidAliasNameException", "reserved"},
		{"CreateAlias: a colon", alias("alias/a:b", key), "InvalidAliasNameException", "invalid characters"},
		{"CreateAlias: characters", alias("alias/a b", key), "ValidationException", "aliasName"},
		{"CreateAlias: taken", alias("alias/taken", disabled), "AlreadyExistsException", "An alias with the name " + ownARN + "alias/taken already exists"},
		{"CreateAlias: of an alias", alias("alias/new", "alias/taken"), "ValidationException", "Not aliases"},
		{"CreateAlias: absent key", alias("alias/new", absent), "NotFoundException", absent},
		{"CreateAlias: pending deletion", alias("alias/new", pending), "KMSInvalidStateException", pending},
		{"UpdateAlias: absent", func() error {
			return failed(w.UpdateAlias(ctx, &kms.UpdateAliasInput{AliasName: ptr("alias/absent"), TargetKeyId: &key}))
		}, "NotFoundException", "alias/absent"},
		{"DeleteAlias: absent", func() error { return failed(w.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: ptr("alias/absent")})) }, "NotFoundException", "alias/absent"},
		{"ListAliases: of an absent key", func() error { return failed(w.ListAliases(ctx, &kms.ListAliasesInput{KeyId: ptr(absent)})) }, "NotFoundException", absent},

		{"CreateGrant: nobody", grant(func(in *kms.CreateGrantInput) { in.GranteePrincipal = nil }), "ValidationException", "granteePrincipal"},
		{"CreateGrant: no ARN", grant(func(in *kms.CreateGrantInput) { in.GranteePrincipal = ptr("alice") }), "InvalidArnException", "alice"},
		{"CreateGrant: absent user", grant(func(in *kms.CreateGrantInput) { in.GranteePrincipal = ptr("arn:aws:iam::" + account + ":user/nobody") }), "InvalidArnException", "nobody"},
		{"CreateGrant: absent retirer", grant(func(in *kms.CreateGrantInput) { in.RetiringPrincipal = ptr("arn:aws:iam::" + account + ":role/nobody") }), "InvalidArnException", "nobody"},
		{"CreateGrant: nothing", grant(func(in *kms.CreateGrantInput) { in.Operations = []types.GrantOperation{} }), "ValidationException", "operations"},
		{"CreateGrant: no such operation", grant(func(in *kms.CreateGrantInput) { in.Operations = grantOps("DisableKey") }), "ValidationException", "perations"},
		{"CreateGrant: of other keys", grant(func(in *kms.CreateGrantInput) { in.Operations = grantOps(types.GrantOperationSign) }), "ValidationException", "Sign"},
		{"CreateGrant: both constraints", grant(func(in *kms.CreateGrantInput) {
			in.Constraints = &types.GrantConstraints{EncryptionContextEquals: map[string]string{"a": "b"}, EncryptionContextSubset: map[string]string{"a": "b"}}
		}), "ValidationException", "Only one"},
		{"CreateGrant: many pairs", grant(func(in *kms.CreateGrantInput) {
			pairs := map[string]string{}
			for i := range 9 {
				pairs[fmt.Sprint(i)] = ""
			}
			in.Constraints = &types.GrantConstraints{EncryptionContextSubset: pairs}
		}), "ValidationException", "less than or equal to 8"},
		{"CreateGrant: a long pair", grant(func(in *kms.CreateGrantInput) {
			in.Constraints = &types.GrantConstraints{EncryptionContextEquals: map[string]string{"a": strings.Repeat("b", 385)}}
		}), "ValidationException", "less than or equal to 384"},
		{"CreateGrant: service", grant(func(in *kms.CreateGrantInput) { in.GranteeServicePrincipal = ptr("eks.amazonaws.com") }), "UnsupportedOperationException", "service principals"},
		{"CreateGrant: pending deletion", grant(func(in *kms.CreateGrantInput) { in.KeyId = &pending }), "KMSInvalidStateException", pending},
		{"RevokeGrant: absent", func() error { return failed(w.RevokeGrant(ctx, &kms.RevokeGrantInput{KeyId: &key, GrantId: ptr("x")})) }, "NotFoundException", "Grant ID x not found"},
		{"RetireGrant: nothing", func() error { return failed(w.RetireGrant(ctx, &kms.RetireGrantInput{})) }, "ValidationException", "grant token"},
		{"RetireGrant: token", func() error { return failed(w.RetireGrant(ctx, &kms.RetireGrantInput{GrantToken: ptr("x")})) }, "InvalidGrantTokenException", ""},
		{"ListRetirableGrants: of another account", func() error {
			return failed(w.ListRetirableGrants(ctx, &kms.ListRetirableGrantsInput{
				RetiringPrincipal: ptr("arn:aws:iam::" + other + ":root")}))
		}, "InvalidArnException", other},

		{"Encrypt: disabled", encrypt(func(in *kms.EncryptInput) { in.KeyId = &disabled }), "DisabledException", ownARN + "key/" + disabled + " is disabled."},
		{"Encrypt: pending deletion", encrypt(func(in *kms.EncryptInput) { in.KeyId = &pending }), "KMSInvalidStateException", pending},
		{"Encrypt: nothing", encrypt(func(in *kms.EncryptInput) { in.Plaintext = []byte{} }), "ValidationException", "plaintext"},
		{"Encrypt: too much", encrypt(func(in *kms.EncryptInput) { in.Plaintext = make([]byte, 4097) }), "ValidationException", "plaintext"},
		{"Encrypt: algorithm", encrypt(func(in *kms.EncryptInput) { in.EncryptionAlgorithm = types.EncryptionAlgorithmSpecRsaesOaepSha256 }), "InvalidKeyUsageException", "RSAES"},
		{"Encrypt: long context", encrypt(func(in *kms.EncryptInput) { in.EncryptionContext = map[string]string{"a": strings.Repeat("x", 8192)} }), "ValidationException", "8192"},
		{"Encrypt: only tried", encrypt(func(in *kms.EncryptInput) { in.DryRun = ptr(true) }), "DryRunOperationException", "DryRun"},
		{"Decrypt: nothing of KMS", decrypt(kms.DecryptInput{CiphertextBlob: make([]byte, 100)}), "InvalidCiphertextException", ""},
		{"Decrypt: disabled", decrypt(kms.DecryptInput{CiphertextBlob: asleep}), "DisabledException", disabled},
		{"Decrypt: pending deletion", decrypt(kms.DecryptInput{CiphertextBlob: old}), "KMSInvalidStateException", pending},
		{"Decrypt: another region", func() error {
			return failed(w.clientIn("eu-west-1", w.Root).Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob}))
		}, "NotFoundException", key},
		{"Decrypt: enclave", decrypt(kms.DecryptInput{CiphertextBlob: blob, Recipient: &types.RecipientInfo{AttestationDocument: []byte("x")}}), "UnsupportedOperationException", "Nitro"},
		{"ReEncrypt: disabled", func() error {
			return failed(w.ReEncrypt(ctx, &kms.ReEncryptInput{CiphertextBlob: blob, DestinationKeyId: &disabled}))
		}, "DisabledException", disabled},
		{"GenerateDataKey: no size", dataKey(func(*kms.GenerateDataKeyInput) {}), "ValidationException", "number of bytes or key spec"},
		{"GenerateDataKey: two sizes", dataKey(func(in *kms.GenerateDataKeyInput) {
			in.NumberOfBytes, in.KeySpec = ptr(int32(1)), types.DataKeySpecAes128
		}), "ValidationException", "number of bytes or key spec"},
		{"GenerateDataKey: too much", dataKey(func(in *kms.GenerateDataKeyInput) { in.NumberOfBytes = ptr(int32(1025)) }), "ValidationException", "numberOfBytes"},
		{"GenerateRandom: nothing", func() error { return failed(w.GenerateRandom(ctx, &kms.GenerateRandomInput{})) }, "ValidationException", "numberOfBytes"},

		{"PutKeyPolicy: no JSON", policy("x"), "MalformedPolicyDocumentException", ""},
		{"PutKeyPolicy: name", func() error {
			return failed(w.PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{KeyId: &key, Policy: ptr(document(rootOnly)),
				PolicyName: ptr("other")}))
		}, "NotFoundException", "No such policy"},
		{"PutKeyPolicy: pending deletion", func() error {
			return failed(w.PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{KeyId: &pending, Policy: ptr(document(rootOnly))}))
		}, "KMSInvalidStateException", pending},
		{"EnableKeyRotation: often", rotate(key, 89), "ValidationException", "rotationPeriodInDays"},
		{"EnableKeyRotation: seldom", rotate(key, 2561), "ValidationException", "rotationPeriodInDays"},
		{"EnableKeyRotation: disabled", rotate(disabled, 90), "DisabledException", disabled},
		{"RotateKeyOnDemand: disabled", func() error { return failed(w.RotateKeyOnDemand(ctx, &kms.RotateKeyOnDemandInput{KeyId: &disabled})) }, "DisabledException", disabled},
		{"TagResource: reserved", tag("AWS:x"), "TagException", "AWS:x"},
		{"TagResource: too many", tag(many...), "TagException", "Too many"},
		{"TagResource: absent", func() error {
			return failed(w.TagResource(ctx, &kms.TagResourceInput{KeyId: ptr(absent), Tags: tags("a")}))
		}, "NotFoundException", absent},
		{"GenerateMac is not served", func() error {
			return failed(w.GenerateMac(ctx, &kms.GenerateMacInput{KeyId: &key, Message: []byte("x"), MacAlgorithm: types.MacAlgorithmSpecHmacSha256}))
		}, "NotImplemented", "not implemented by coracle"},
	}
	before := w.rows()
	for _, r := range requests {
		code, message, _ := awstest.Failure(r.call())
		if code != r.code || !strings.Contains(message, r.says) {
			t.Errorf("%s: %s: %s, want %s with %q", r.name, code, message, r.code, r.says)
		}
	}
	if after := w.rows(); !slices.Equal(before, after) {
		t.Errorf("the requests changed something: %v, and now %v", before, after)
	}
}

// rows lists the keys of all records of KMS with their revisions.
func (w *fixture) rows() (all []string) {
	w.t.Helper()
	all = append(all, rowsOf(w, record.KMSKeys(w.Store))...)
	all = append(all, rowsOf(w, record.KMSKeyMaterials(w.Store))...)
	all = append(all, rowsOf(w, record.KMSAliases(w.Store))...)
	return append(all, rowsOf(w, record.KMSGrants(w.Store))...)
}

func rowsOf[T any](w *fixture, table store.Table[T]) (all []string) {
	w.t.Helper()
	rows, err := table.List(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		all = append(all, fmt.Sprint(r.Key, "@", r.Revision))
	}
	return all
}
