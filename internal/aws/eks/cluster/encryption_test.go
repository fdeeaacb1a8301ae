package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func encryptionWith(key string) []types.EncryptionConfig {
	return []types.EncryptionConfig{{Resources: []string{"secrets"}, Provider: &types.Provider{KeyArn: &key}}}
}

func TestEncryptionConfig(t *testing.T) {
	t.Parallel()
	f := ekstest.New(t)
	ctx := t.Context()
	key := awstest.Must[*kms.CreateKeyOutput](t)(f.KMS.CreateKey(ctx, &kms.CreateKeyInput{})).KeyMetadata
	grants := func() int {
		t.Helper()
		return len(awstest.Must[*kms.ListGrantsOutput](t)(f.KMS.ListGrants(ctx,
			&kms.ListGrantsInput{KeyId: key.KeyId})).Grants)
	}
	associate := func(cluster, key string) (*types.Update, error) {
		out, err := f.Client.AssociateEncryptionConfig(ctx, &eks.AssociateEncryptionConfigInput{ClusterName: &cluster,
			EncryptionConfig: encryptionWith(key)})
		if err != nil {
			return nil, err
		}
		return out.Update, nil
	}

	made := f.Create("born", func(in *eks.CreateClusterInput) { in.EncryptionConfig = encryptionWith(*key.Arn) })
	if c := made.EncryptionConfig; len(c) != 1 || *c[0].Provider.KeyArn != *key.Arn ||
		!slices.Equal(c[0].Resources, []string{"secrets"}) {
		t.Errorf("described with %+v", c)
	}
	granted := f.Target("kms:CreateGrant")
	if granted.Resource != *key.Arn ||
		!slices.Equal(granted.Conditions["kms:ViaService"], []string{"eks." + ekstest.Region + ".amazonaws.com"}) ||
		!slices.Equal(granted.Conditions["kms:GrantIsForAWSResource"], []string{"false"}) {
		t.Errorf("asked for a grant by %+v", granted)
	}
	if n := grants(); n != 1 {
		t.Errorf("%d grants after the first cluster", n)
	}
	if _, err := associate("born", *key.Arn); awstest.Code(err) != "InvalidParameterException" ||
		!strings.Contains(err.Error(), "already has an encryptionConfig") {
		t.Errorf("a second key: %v", err)
	}

	if c := f.Create("later").EncryptionConfig; c != nil {
		t.Errorf("without a key: %+v", c)
	}
	alias := "arn:aws:kms:" + ekstest.Region + ":" + ekstest.Account + ":alias/secrets"
	awstest.Must[*kms.CreateAliasOutput](t)(f.KMS.CreateAlias(ctx, &kms.CreateAliasInput{TargetKeyId: key.KeyId,
		AliasName: aws.String("alias/secrets")}))
	awstest.Must[*kms.DisableKeyOutput](t)(f.KMS.DisableKey(ctx, &kms.DisableKeyInput{KeyId: key.KeyId}))
	if _, err := associate("later", alias); awstest.Code(err) != "InvalidParameterException" ||
		!strings.Contains(err.Error(), "is disabled") {
		t.Errorf("a disabled key: %v", err)
	}
	awstest.Must[*kms.EnableKeyOutput](t)(f.KMS.EnableKey(ctx, &kms.EnableKeyInput{KeyId: key.KeyId}))
	for _, action := range []string{"kms:DescribeKey", "kms:CreateGrant"} {
		f.Mu.Lock()
		f.Deny = func(_ wire.Caller, t wire.Target) bool { return t.Action == action }
		f.Mu.Unlock()
		if _, err := associate("later", alias); awstest.Code(err) != "AccessDeniedException" {
			t.Errorf("without %s: %v", action, err)
		}
	}
	f.Mu.Lock()
	f.Deny = nil
	f.Mu.Unlock()
	if n := grants(); n != 1 {
		t.Errorf("%d grants after refused requests", n)
	}
	update, err := associate("later", alias)
	if err != nil {
		t.Fatal(err)
	}
	if update.Type != types.UpdateTypeAssociateEncryptionConfig || update.Status != types.UpdateStatusInProgress ||
		!strings.Contains(ekstest.Params(update)[types.UpdateParamTypeEncryptionConfig], *key.Arn) {
		t.Errorf("update %+v", update)
	}
	f.Finish("later", *update.Id, types.UpdateStatusSuccessful)
	if c := f.Describe("later").EncryptionConfig; len(c) != 1 || *c[0].Provider.KeyArn != *key.Arn {
		t.Errorf("described with %+v", c)
	}
	if n := grants(); n != 2 {
		t.Errorf("%d grants", n)
	}
}
