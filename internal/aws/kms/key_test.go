package kms_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestAKeysLife(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	w.SetNow(now)
	made := awstest.Must[*kms.CreateKeyOutput](t)(w.CreateKey(ctx, &kms.CreateKeyInput{
		Description: aws.String("for Secrets"), Tags: []types.Tag{{TagKey: aws.String("team"), TagValue: aws.String("a")}},
	})).KeyMetadata
	id := made.KeyId
	if *made.Arn != ownARN+"key/"+*id || !made.Enabled || made.KeyState != types.KeyStateEnabled ||
		made.KeySpec != types.KeySpecSymmetricDefault || *made.Description != "for Secrets" ||
		made.KeyManager != types.KeyManagerTypeCustomer || !made.CreationDate.Equal(now) || *made.MultiRegion {
		t.Errorf("created %+v", made)
	}
	describe := func() *types.KeyMetadata {
		t.Helper()
		return awstest.Must[*kms.DescribeKeyOutput](t)(w.DescribeKey(ctx,
			&kms.DescribeKeyInput{KeyId: id})).KeyMetadata
	}
	policy := awstest.Must[*kms.GetKeyPolicyOutput](t)(w.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: id}))
	if !strings.Contains(*policy.Policy, "arn:aws:iam::"+account+":root") || *policy.PolicyName != "default" {
		t.Errorf("the default policy is %+v", policy)
	}
	names := awstest.Must[*kms.ListKeyPoliciesOutput](t)(w.ListKeyPolicies(ctx, &kms.ListKeyPoliciesInput{KeyId: id}))
	if !slices.Equal(names.PolicyNames, []string{"default"}) {
		t.Errorf("policies %v", names.PolicyNames)
	}

	blob := w.encrypted(*id, nil)
	awstest.Must[*kms.DisableKeyOutput](t)(w.DisableKey(ctx, &kms.DisableKeyInput{KeyId: id}))
	awstest.Must[*kms.DisableKeyOutput](t)(w.DisableKey(ctx, &kms.DisableKeyInput{KeyId: id}))
	if m := describe(); m.Enabled || m.KeyState != types.KeyStateDisabled {
		t.Errorf("disabled: %+v", m)
	}
	_, err := w.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob})
	awstest.WantCode(t, err, "DisabledException")
	awstest.Must[*kms.EnableKeyOutput](t)(w.EnableKey(ctx, &kms.EnableKeyInput{KeyId: made.Arn}))
	out := awstest.Must[*kms.DecryptOutput](t)(w.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob}))
	if string(out.Plaintext) != "secret" || *out.KeyId != *made.Arn {
		t.Errorf("decrypted %+v", out)
	}
	awstest.Must[*kms.UpdateKeyDescriptionOutput](t)(w.UpdateKeyDescription(ctx,
		&kms.UpdateKeyDescriptionInput{KeyId: id, Description: aws.String("other")}))
	if *describe().Description != "other" {
		t.Error("the description is as it was")
	}

	scheduled := awstest.Must[*kms.ScheduleKeyDeletionOutput](t)(w.ScheduleKeyDeletion(ctx,
		&kms.ScheduleKeyDeletionInput{KeyId: id, PendingWindowInDays: aws.Int32(7)}))
	due := now.Add(7 * 24 * time.Hour)
	if !scheduled.DeletionDate.Equal(due) || scheduled.KeyState != types.KeyStatePendingDeletion ||
		*scheduled.PendingWindowInDays != 7 || *scheduled.KeyId != *made.Arn {
		t.Errorf("scheduled %+v", scheduled)
	}
	_, err = w.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob})
	awstest.WantCode(t, err, "KMSInvalidStateException")
	awstest.Must[*kms.CancelKeyDeletionOutput](t)(w.CancelKeyDeletion(ctx, &kms.CancelKeyDeletionInput{KeyId: id}))
	if m := describe(); m.KeyState != types.KeyStateDisabled || m.DeletionDate != nil {
		t.Errorf("after the deletion was canceled: %+v", m)
	}

	// A real deletion, when it is due.
	awstest.Must[*kms.ScheduleKeyDeletionOutput](t)(w.ScheduleKeyDeletion(ctx,
		&kms.ScheduleKeyDeletionInput{KeyId: id, PendingWindowInDays: aws.Int32(7)}))
	life := coracle.NewLifecycle(coracle.Options{Store: w.Store, Now: w.Now})
	key := record.KMSKeyKey(account, region, *id)
	if again, gone, err := life.Reconcile(ctx, key); again != 7*24*time.Hour || gone || err != nil {
		t.Errorf("before it is due: %v, %v, %v", again, gone, err)
	}
	w.SetNow(due)
	_, err = w.CancelKeyDeletion(ctx, &kms.CancelKeyDeletionInput{KeyId: id}) // parts of it may be gone
	awstest.WantCode(t, err, "KMSInvalidStateException")
	if _, gone, err := life.Reconcile(ctx, key); !gone || err != nil {
		t.Errorf("when it is due: %v, %v", gone, err)
	}
	_, err = w.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: id})
	awstest.WantCode(t, err, "NotFoundException")
	_, err = w.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob})
	awstest.WantCode(t, err, "NotFoundException")
	if n := record.KMSKeyMaterials(w.Store).Count(store.Prefix(account, region, *id)); n != 0 {
		t.Errorf("%d generations of key material are left", n)
	}
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	var keys []string
	for range 3 {
		keys = append(keys, w.key(""))
	}
	slices.Sort(keys)
	var got []string
	pages := kms.NewListKeysPaginator(w, &kms.ListKeysInput{Limit: aws.Int32(2)})
	for n := 0; pages.HasMorePages(); n++ {
		page, err := pages.NextPage(ctx)
		if err != nil || len(page.Keys) > 2 || n > 1 {
			t.Fatal(page, err)
		}
		for _, k := range page.Keys {
			got = append(got, *k.KeyId)
			if *k.KeyArn != ownARN+"key/"+*k.KeyId {
				t.Errorf("key %s is %s", *k.KeyId, *k.KeyArn)
			}
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("listed %v, want %v", got, keys)
	}
	if out, err := w.clientIn("eu-west-1", w.Root).ListKeys(ctx, &kms.ListKeysInput{}); err != nil || len(out.Keys) != 0 {
		t.Errorf("another region: %v, %v", out, err)
	}
	if out, err := w.client(w.otherRoot).ListKeys(ctx, &kms.ListKeysInput{}); err != nil || len(out.Keys) != 0 {
		t.Errorf("another account: %v, %v", out, err)
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	first, second := w.key(""), w.key("")
	name := aws.String("alias/team/app")
	awstest.Must[*kms.CreateAliasOutput](t)(w.CreateAlias(ctx, &kms.CreateAliasInput{AliasName: name,
		TargetKeyId: &first}))
	blob := w.encrypted(*name, nil)
	for _, id := range []string{*name, ownARN + *name} {
		m := awstest.Must[*kms.DescribeKeyOutput](t)(w.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &id})).KeyMetadata
		if *m.KeyId != first {
			t.Errorf("%s is %s", id, *m.KeyId)
		}
	}
	awstest.Must[*kms.UpdateAliasOutput](t)(w.UpdateAlias(ctx, &kms.UpdateAliasInput{AliasName: name,
		TargetKeyId: &second}))
	out := awstest.Must[*kms.DecryptOutput](t)(w.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob}))
	if !strings.HasSuffix(*out.KeyId, first) {
		t.Errorf("decrypted with %s", *out.KeyId)
	}
	_, err := w.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob, KeyId: name})
	awstest.WantCode(t, err, "IncorrectKeyException")
	list := func(key *string) (names []string) {
		t.Helper()
		for _, a := range awstest.Must[*kms.ListAliasesOutput](t)(w.ListAliases(ctx,
			&kms.ListAliasesInput{KeyId: key})).Aliases {
			names = append(names, *a.AliasName+"="+*a.TargetKeyId)
			if *a.AliasArn != ownARN+*a.AliasName {
				t.Errorf("%s is %s", *a.AliasName, *a.AliasArn)
			}
		}
		return names
	}
	for key, want := range map[*string][]string{
		nil: {*name + "=" + second}, &second: {*name + "=" + second}, &first: nil,
	} {
		if got := list(key); !slices.Equal(got, want) {
			t.Errorf("aliases of %s: %v, want %v", aws.ToString(key), got, want)
		}
	}
	awstest.Must[*kms.DeleteAliasOutput](t)(w.DeleteAlias(ctx, &kms.DeleteAliasInput{AliasName: name}))
	if got := list(nil); got != nil {
		t.Errorf("after deletion: %v", got)
	}
	_, err = w.Encrypt(ctx, &kms.EncryptInput{KeyId: name, Plaintext: []byte("x")})
	awstest.WantCode(t, err, "NotFoundException")
}

func TestTagsOfKeys(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.key("")
	tag := func(k, v string) types.Tag { return types.Tag{TagKey: &k, TagValue: &v} }
	awstest.Must[*kms.TagResourceOutput](t)(w.TagResource(ctx, &kms.TagResourceInput{KeyId: &id,
		Tags: []types.Tag{tag("a", "1"), tag("b", "2"), tag("c", "3")}}))
	awstest.Must[*kms.UntagResourceOutput](t)(w.UntagResource(ctx, &kms.UntagResourceInput{KeyId: &id,
		TagKeys: []string{"b", "none"}}))
	out := awstest.Must[*kms.ListResourceTagsOutput](t)(w.ListResourceTags(ctx, &kms.ListResourceTagsInput{KeyId: &id}))
	if len(out.Tags) != 2 || *out.Tags[0].TagKey != "a" || *out.Tags[1].TagValue != "3" {
		t.Errorf("tags %+v", out.Tags)
	}
}

func TestRotationKeepsOldMaterial(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	w.SetNow(now)
	id := w.key("")
	current := func() string {
		t.Helper()
		return *awstest.Must[*kms.DescribeKeyOutput](t)(w.DescribeKey(ctx,
			&kms.DescribeKeyInput{KeyId: &id})).KeyMetadata.CurrentKeyMaterialId
	}
	blobs := map[string][]byte{current(): w.encrypted(id, nil)}
	awstest.Must[*kms.RotateKeyOnDemandOutput](t)(w.RotateKeyOnDemand(ctx, &kms.RotateKeyOnDemandInput{KeyId: &id}))
	blobs[current()] = w.encrypted(id, nil)

	awstest.Must[*kms.EnableKeyRotationOutput](t)(w.EnableKeyRotation(ctx, &kms.EnableKeyRotationInput{KeyId: &id,
		RotationPeriodInDays: aws.Int32(90)}))
	due := now.Add(90 * 24 * time.Hour)
	status := awstest.Must[*kms.GetKeyRotationStatusOutput](t)(w.GetKeyRotationStatus(ctx,
		&kms.GetKeyRotationStatusInput{KeyId: &id}))
	if !status.KeyRotationEnabled || *status.RotationPeriodInDays != 90 || !status.NextRotationDate.Equal(due) {
		t.Errorf("status %+v", status)
	}
	w.SetNow(due)
	life := coracle.NewLifecycle(coracle.Options{Store: w.Store, Now: w.Now})
	again, gone, err := life.Reconcile(ctx, record.KMSKeyKey(account, region, id))
	if again != 90*24*time.Hour || gone || err != nil {
		t.Errorf("rotation: %v, %v, %v", again, gone, err)
	}
	blobs[current()] = w.encrypted(id, nil)
	if len(blobs) != 3 {
		t.Fatalf("%d generations of material, want 3", len(blobs))
	}
	for material, blob := range blobs {
		out := awstest.Must[*kms.DecryptOutput](t)(w.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: blob}))
		if string(out.Plaintext) != "secret" || *out.KeyMaterialId != material {
			t.Errorf("material %s: %q by %s", material, out.Plaintext, *out.KeyMaterialId)
		}
	}
	rotations := awstest.Must[*kms.ListKeyRotationsOutput](t)(w.ListKeyRotations(ctx,
		&kms.ListKeyRotationsInput{KeyId: &id})).Rotations
	if len(rotations) != 2 || rotations[0].RotationType != types.RotationTypeOnDemand ||
		rotations[1].RotationType != types.RotationTypeAutomatic || *rotations[1].KeyMaterialId != current() {
		t.Errorf("rotations %+v", rotations)
	}
	awstest.Must[*kms.DisableKeyRotationOutput](t)(w.DisableKeyRotation(ctx, &kms.DisableKeyRotationInput{KeyId: &id}))
	status = awstest.Must[*kms.GetKeyRotationStatusOutput](t)(w.GetKeyRotationStatus(ctx,
		&kms.GetKeyRotationStatusInput{KeyId: &id}))
	if status.KeyRotationEnabled || status.NextRotationDate != nil {
		t.Errorf("status %+v", status)
	}
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id, second := w.key(""), w.key("")
	pairs := map[string]string{"cluster": "ironman-2022", "ü": "€", "empty": ""}
	blob := w.encrypted(id, pairs)
	if bytes.Contains(blob, []byte("secret")) || bytes.Equal(blob, w.encrypted(id, pairs)) {
		t.Errorf("ciphertext %x", blob)
	}
	decrypt := func(in kms.DecryptInput) (string, error) {
		out, err := w.Decrypt(ctx, &in)
		if err != nil {
			return awstest.Code(err), err
		}
		return string(out.Plaintext), nil
	}
	altered := func(i int) []byte {
		b := bytes.Clone(blob)
		b[(i+len(b))%len(b)] ^= 1
		return b
	}
	for name, test := range map[string]struct {
		in   kms.DecryptInput
		want string
	}{
		"the same context": {kms.DecryptInput{CiphertextBlob: blob, EncryptionContext: pairs}, "secret"},
		"the key's ID":     {kms.DecryptInput{CiphertextBlob: blob, EncryptionContext: pairs, KeyId: &id}, "secret"},
		"another key's ID": {kms.DecryptInput{CiphertextBlob: blob, EncryptionContext: pairs, KeyId: &second},
			"IncorrectKeyException"},
		"no context": {kms.DecryptInput{CiphertextBlob: blob}, "InvalidCiphertextException"},
		"a part of the context": {kms.DecryptInput{CiphertextBlob: blob,
			EncryptionContext: map[string]string{"cluster": "ironman-2022"}}, "InvalidCiphertextException"},
		"another value": {kms.DecryptInput{CiphertextBlob: blob,
			EncryptionContext: map[string]string{"cluster": "hulk", "ü": "€", "empty": ""}}, "InvalidCiphertextException"},
		"the pairs run together": {kms.DecryptInput{CiphertextBlob: blob,
			EncryptionContext: map[string]string{"cluster": "ironman-2022ü€empty"}}, "InvalidCiphertextException"},
		"an altered tag":     {kms.DecryptInput{CiphertextBlob: altered(-1), EncryptionContext: pairs}, "InvalidCiphertextException"},
		"an altered text":    {kms.DecryptInput{CiphertextBlob: altered(44), EncryptionContext: pairs}, "InvalidCiphertextException"},
		"an altered salt":    {kms.DecryptInput{CiphertextBlob: altered(28), EncryptionContext: pairs}, "InvalidCiphertextException"},
		"another material":   {kms.DecryptInput{CiphertextBlob: altered(26), EncryptionContext: pairs}, "InvalidCiphertextException"},
		"another key":        {kms.DecryptInput{CiphertextBlob: altered(10), EncryptionContext: pairs}, "NotFoundException"},
		"another account":    {kms.DecryptInput{CiphertextBlob: altered(6), EncryptionContext: pairs}, "AccessDeniedException"},
		"another version":    {kms.DecryptInput{CiphertextBlob: altered(0), EncryptionContext: pairs}, "InvalidCiphertextException"},
		"a piece":            {kms.DecryptInput{CiphertextBlob: blob[:30], EncryptionContext: pairs}, "InvalidCiphertextException"},
		"only tried":         {kms.DecryptInput{CiphertextBlob: blob, EncryptionContext: pairs, DryRun: ptr(true)}, "DryRunOperationException"},
		"tried, and refused": {kms.DecryptInput{CiphertextBlob: blob, DryRun: ptr(true)}, "InvalidCiphertextException"},
	} {
		if got, err := decrypt(test.in); got != test.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, test.want, err)
		}
	}

	again := awstest.Must[*kms.ReEncryptOutput](t)(w.ReEncrypt(ctx, &kms.ReEncryptInput{CiphertextBlob: blob,
		SourceEncryptionContext: pairs, DestinationKeyId: &second,
		DestinationEncryptionContext: map[string]string{"a": "b"}}))
	if !strings.HasSuffix(*again.SourceKeyId, id) || !strings.HasSuffix(*again.KeyId, second) {
		t.Errorf("encrypted again: %+v", again)
	}
	if got, err := decrypt(kms.DecryptInput{CiphertextBlob: again.CiphertextBlob, KeyId: &second,
		EncryptionContext: map[string]string{"a": "b"}}); got != "secret" {
		t.Error(got, err)
	}

	data := awstest.Must[*kms.GenerateDataKeyOutput](t)(w.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &id,
		KeySpec: types.DataKeySpecAes256, EncryptionContext: pairs}))
	got, err := decrypt(kms.DecryptInput{CiphertextBlob: data.CiphertextBlob, EncryptionContext: pairs})
	if got != string(data.Plaintext) || len(got) != 32 {
		t.Error("data key", err)
	}
	blind := awstest.Must[*kms.GenerateDataKeyWithoutPlaintextOutput](t)(w.GenerateDataKeyWithoutPlaintext(ctx,
		&kms.GenerateDataKeyWithoutPlaintextInput{KeyId: &id, NumberOfBytes: aws.Int32(77)}))
	if got, err := decrypt(kms.DecryptInput{CiphertextBlob: blind.CiphertextBlob}); len(got) != 77 {
		t.Error("data key without plaintext", err)
	}
	random := awstest.Must[*kms.GenerateRandomOutput](t)(w.GenerateRandom(ctx,
		&kms.GenerateRandomInput{NumberOfBytes: aws.Int32(24)}))
	if len(random.Plaintext) != 24 || bytes.Equal(random.Plaintext, make([]byte, 24)) {
		t.Errorf("random bytes %x", random.Plaintext)
	}
}
