package ssm_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	coraclekms "github.com/coracle-eks/coracle/internal/aws/kms"
	coracle "github.com/coracle-eks/coracle/internal/aws/ssm"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// vault is Parameter Store and KMS behind the real wire and the real IAM.
type vault struct {
	*iamtest.AWS
	t testing.TB
}

func newVault(t testing.TB) *vault {
	t.Helper()
	w := &vault{AWS: iamtest.New(t), t: t}
	keys := coraclekms.New(coraclekms.Options{Store: w.Store})
	keys.Register(w.Mux)
	coracle.New(coracle.Options{Store: w.Store, KMS: keys}).Register(w.Mux)
	return w
}

func (w *vault) ssm(who aws.Credentials) *ssm.Client {
	return ssm.New(ssm.Options{Region: iamtest.Region, BaseEndpoint: &w.URL, RetryMaxAttempts: 1,
		HTTPClient: awsclient.HTTP(), Credentials: credentials.StaticCredentialsProvider{Value: who}})
}

func (w *vault) kms(who aws.Credentials) *kms.Client {
	return kms.New(kms.Options{Region: iamtest.Region, BaseEndpoint: &w.URL, RetryMaxAttempts: 1,
		HTTPClient: awsclient.HTTP(), Credentials: credentials.StaticCredentialsProvider{Value: who}})
}

func (w *vault) put(c *ssm.Client, name, value, key string, tier types.ParameterTier) error {
	in := &ssm.PutParameterInput{Name: &name, Value: &value, Type: types.ParameterTypeSecureString, Tier: tier,
		Overwrite: new(true)}
	if key != "" {
		in.KeyId = &key
	}
	_, err := c.PutParameter(w.t.Context(), in)
	return err
}

func (w *vault) get(c *ssm.Client, name string, decrypt bool) (string, error) {
	out, err := c.GetParameter(w.t.Context(), &ssm.GetParameterInput{Name: &name, WithDecryption: &decrypt})
	if err != nil {
		return "", err
	}
	return *out.Parameter.Value, nil
}

func wantRefusal(t *testing.T, err error, code, message string) {
	t.Helper()
	gotCode, got, _ := awstest.Failure(err)
	if gotCode != code || !strings.Contains(got, message) {
		t.Errorf("got %v, want %s with %q", err, code, message)
	}
}

// TestSecureStrings puts and reads SecureString parameters in each way that the API has, with each kind of key.
func TestSecureStrings(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	ctx, root, keys := t.Context(), w.ssm(w.Root), w.kms(w.Root)
	key := *awstest.Must[*kms.CreateKeyOutput](t)(keys.CreateKey(ctx, &kms.CreateKeyInput{})).KeyMetadata.Arn
	long := "secret" + strings.Repeat("x", 8000)
	for _, p := range []struct {
		name, value, key string
		tier             types.ParameterTier
	}{
		{"/app/managed", "secret of the account", "", ""},
		{"/app/own", "secret of a team", key, ""},
		{"/app/long", long, key, types.ParameterTierAdvanced},
		{"plain-name", "secret", key, types.ParameterTierIntelligentTiering},
	} {
		for _, value := range []string{"secret before", p.value} {
			if err := w.put(root, p.name, value, p.key, p.tier); err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
		}
		if got, err := w.get(root, p.name, true); err != nil || got != p.value {
			t.Errorf("%s: decrypted %.20q, %v", p.name, got, err)
		}
		if got, err := w.get(root, p.name, false); err != nil || strings.Contains(got, "secret") || len(got) < 60 {
			t.Errorf("%s: encrypted %.20q, %v", p.name, got, err)
		}
		out := awstest.Must[*ssm.GetParameterHistoryOutput](t)(root.GetParameterHistory(ctx,
			&ssm.GetParameterHistoryInput{Name: &p.name, WithDecryption: new(true)}))
		want := p.key
		if want == "" {
			want = "alias/aws/ssm"
		}
		if len(out.Parameters) != 2 || *out.Parameters[0].Value != "secret before" || *out.Parameters[1].Value != p.value ||
			aws.ToString(out.Parameters[1].KeyId) != want {
			t.Errorf("%s: history %+v", p.name, out.Parameters)
		}
	}
	rows := awstest.Must[[]store.Row[record.ParameterVersion]](t)(record.ParameterVersions(w.Store).List(ctx, ""))
	for _, row := range rows {
		if strings.Contains(row.Value.Value, "secret") {
			t.Errorf("the store has %.20q in clear", row.Value.Value)
		}
	}
	for _, decrypt := range []bool{false, true} {
		byPath := awstest.Must[*ssm.GetParametersByPathOutput](t)(root.GetParametersByPath(ctx,
			&ssm.GetParametersByPathInput{Path: aws.String("/app"), WithDecryption: &decrypt, ParameterFilters: []types.
				ParameterStringFilter{{Key: aws.String("KeyId"), Values: []string{key}}}})).Parameters
		byName := awstest.Must[*ssm.GetParametersOutput](t)(root.GetParameters(ctx, &ssm.GetParametersInput{
			Names: []string{"/app/long", "/app/own"}, WithDecryption: &decrypt})).Parameters
		for _, list := range [][]types.Parameter{byPath, byName} {
			if len(list) != 2 || strings.Contains(*list[0].Value, "secret") != decrypt ||
				strings.Contains(*list[1].Value, "secret") != decrypt {
				t.Errorf("with decryption %v: %d parameters", decrypt, len(list))
			}
		}
	}
	described := awstest.Must[*ssm.DescribeParametersOutput](t)(root.DescribeParameters(ctx, &ssm.DescribeParametersInput{
		ParameterFilters: []types.ParameterStringFilter{{Key: aws.String("KeyId"), Values: []string{"alias/aws/ssm"}}}}))
	if len(described.Parameters) != 1 || *described.Parameters[0].KeyId != "alias/aws/ssm" {
		t.Errorf("described: %+v", described.Parameters)
	}
	awstest.Must[*kms.DisableKeyOutput](t)(keys.DisableKey(ctx, &kms.DisableKeyInput{KeyId: &key}))
	_, err := w.get(root, "/app/own", true)
	wantRefusal(t, err, "InvalidKeyId", "is disabled")
	wantRefusal(t, w.put(root, "/app/own", "x", key, ""), "InvalidKeyId", "is disabled")
	if _, err := w.get(root, "/app/own", false); err != nil {
		t.Error(err)
	}
	wantRefusal(t, w.put(root, "new", "x", "alias/absent", ""), "InvalidKeyId", "alias/absent is not found")
	_, err = root.PutParameter(ctx, &ssm.PutParameterInput{Name: aws.String("open"), Value: aws.String("x"),
		Type: types.ParameterTypeString, KeyId: &key})
	wantRefusal(t, err, "ValidationException", "KeyId is for SecureString parameters only")
	_, err = root.PutParameter(ctx, &ssm.PutParameterInput{Name: aws.String("image"), Type: types.ParameterTypeSecureString,
		Value: aws.String("ami-0123456789abcdef0"), DataType: aws.String("aws:ec2:image")})
	wantRefusal(t, err, "ValidationException", "aws:ec2:image")
}

// TestSecureStringsNeedTheirKey shows who may read them: those whom the key lets through Parameter Store.
func TestSecureStringsNeedTheirKey(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	ctx, root, keys := t.Context(), w.ssm(w.Root), w.kms(w.Root)
	key := *awstest.Must[*kms.CreateKeyOutput](t)(keys.CreateKey(ctx, &kms.CreateKeyInput{})).KeyMetadata.Arn
	for name, id := range map[string]string{"own": key, "managed": ""} {
		if err := w.put(root, name, "secret", id, ""); err != nil {
			t.Fatal(err)
		}
	}
	const all = `{"Effect":"Allow","Action":"ssm:*","Resource":"*"}`
	reader := w.NewUser(t, "reader", `{"Version":"2012-10-17","Statement":[`+all+`]}`)
	if got, err := w.get(w.ssm(reader), "managed", true); err != nil || got != "secret" {
		t.Errorf("with the key of Parameter Store: %q, %v", got, err)
	}
	_, err := w.get(w.ssm(reader), "own", true)
	wantRefusal(t, err, "AccessDeniedException", "kms:Decrypt")
	wantRefusal(t, w.put(w.ssm(reader), "other", "x", key, ""), "AccessDeniedException", "kms:Encrypt")
	wantRefusal(t, w.put(w.ssm(reader), "other", "x", key, types.ParameterTierAdvanced), "AccessDeniedException",
		"kms:GenerateDataKey")
	friend := w.NewUser(t, "friend", `{"Version":"2012-10-17","Statement":[`+all+`,{"Effect":"Allow","Action":"kms:Decrypt",
		"Resource":"`+key+`","Condition":{"StringEquals":{"kms:ViaService":"ssm.`+iamtest.Region+`.amazonaws.com",
		"kms:EncryptionContext:PARAMETER_ARN":"arn:aws:ssm:`+iamtest.Region+`:`+iamtest.Account+`:parameter/own"}}}]}`)
	if got, err := w.get(w.ssm(friend), "own", true); err != nil || got != "secret" {
		t.Errorf("with permission through Parameter Store: %q, %v", got, err)
	}
	encrypted := awstest.Must[*kms.EncryptOutput](t)(keys.Encrypt(ctx, &kms.EncryptInput{KeyId: &key,
		Plaintext: []byte("x")})).CiphertextBlob
	_, err = w.kms(friend).Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: encrypted})
	wantRefusal(t, err, "AccessDeniedException", "kms:Decrypt")

	// The root user, too, uses an AWS managed key through its service alone, and does not change it.
	managed := awstest.Must[*kms.DescribeKeyOutput](t)(keys.DescribeKey(ctx,
		&kms.DescribeKeyInput{KeyId: aws.String("alias/aws/ssm")})).KeyMetadata
	if managed.KeyManager != kmstypes.KeyManagerTypeAws {
		t.Errorf("the key is managed by %s", managed.KeyManager)
	}
	rotation := awstest.Must[*kms.GetKeyRotationStatusOutput](t)(keys.GetKeyRotationStatus(ctx,
		&kms.GetKeyRotationStatusInput{KeyId: managed.KeyId}))
	if !rotation.KeyRotationEnabled {
		t.Error("the AWS managed key is not rotated")
	}
	for name, call := range map[string]func() error{
		"encrypt": func() error {
			_, err := keys.Encrypt(ctx, &kms.EncryptInput{KeyId: managed.KeyId, Plaintext: []byte("x")})
			return err
		},
		"disable": func() error {
			_, err := keys.DisableKey(ctx, &kms.DisableKeyInput{KeyId: managed.KeyId})
			return err
		},
		"delete": func() error {
			_, err := keys.ScheduleKeyDeletion(ctx, &kms.ScheduleKeyDeletionInput{KeyId: managed.KeyId})
			return err
		},
		"name": func() error {
			_, err := keys.CreateAlias(ctx, &kms.CreateAliasInput{AliasName: aws.String("alias/mine"),
				TargetKeyId: managed.KeyId})
			return err
		},
		"policy": func() error {
			_, err := keys.PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{KeyId: managed.KeyId, Policy: aws.String("{}")})
			return err
		},
		"tag": func() error {
			_, err := keys.TagResource(ctx, &kms.TagResourceInput{KeyId: managed.KeyId, Tags: []kmstypes.Tag{
				{TagKey: aws.String("a"), TagValue: aws.String("b")}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, call(), "AccessDeniedException", "") })
	}
}
