package kms_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	coracle "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = iamtest.Account
	other   = iamtest.Other
	region  = iamtest.Region
	ownARN  = "arn:aws:kms:" + region + ":" + account + ":"
	absent  = "01234567-89ab-cdef-0123-456789abcdef"
)

// fixture is KMS behind the real wire and the real IAM. Its client is the root user's.
type fixture struct {
	*kms.Client
	*iamtest.AWS
	t         testing.TB
	otherRoot aws.Credentials

	mu  sync.Mutex
	now time.Time // of KMS alone; zero: the time that it is
}

// Now returns the time of KMS's clock.
func (w *fixture) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.IsZero() {
		return time.Now()
	}
	return w.now
}

// SetNow stops the clock of KMS.
func (w *fixture) SetNow(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = t
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{AWS: iamtest.New(t), t: t}
	coracle.New(coracle.Options{Store: w.Store, Now: w.Now}).Register(w.Mux)
	w.otherRoot = w.NewAccount(t, other)
	w.Client = w.client(w.Root)
	return w
}

func (w *fixture) clientIn(region string, who aws.Credentials) *kms.Client {
	return kms.New(kms.Options{
		Region: region, BaseEndpoint: aws.String(w.URL), RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP(),
		Credentials: credentials.StaticCredentialsProvider{Value: who},
	})
}

func (w *fixture) client(who aws.Credentials) *kms.Client { return w.clientIn(region, who) }

// user returns a client of a new user of the account with an inline policy; none when statement is empty.
func (w *fixture) user(name, statement string) *kms.Client {
	w.t.Helper()
	if statement != "" {
		statement = document(statement)
	}
	return w.client(w.NewUser(w.t, name, statement))
}

// otherUser returns a client of a new user of the other account.
func (w *fixture) otherUser(name, statement string) *kms.Client {
	w.t.Helper()
	ctx, admin := context.Background(), w.IAM(w.otherRoot)
	awstest.Must[*awsiam.CreateUserOutput](w.t)(admin.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}))
	if statement != "" {
		awstest.Must[*awsiam.PutUserPolicyOutput](w.t)(admin.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{
			UserName: &name, PolicyName: aws.String("inline"), PolicyDocument: aws.String(document(statement)),
		}))
	}
	key := awstest.Must[*awsiam.CreateAccessKeyOutput](w.t)(admin.CreateAccessKey(ctx,
		&awsiam.CreateAccessKeyInput{UserName: &name})).AccessKey
	return w.client(aws.Credentials{AccessKeyID: *key.AccessKeyId, SecretAccessKey: *key.SecretAccessKey})
}

// role returns the ARN of a new role of the account, and a client of a session of it.
func (w *fixture) role(name, statement string) (string, *kms.Client) {
	w.t.Helper()
	ctx := context.Background()
	arn := w.NewRole(w.t, name, document(allow(`"sts:AssumeRole"`, principal("arn:aws:iam::"+account+":root"), "")))
	if statement != "" {
		awstest.Must[*awsiam.PutRolePolicyOutput](w.t)(w.IAM(w.Root).PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{
			RoleName: &name, PolicyName: aws.String("inline"), PolicyDocument: aws.String(document(statement)),
		}))
	}
	// The root user cannot assume roles.
	assumer := w.NewUser(w.t, name+"-assumer", document(allow(`"sts:AssumeRole"`, "", arn)))
	c := awstest.Must[*awssts.AssumeRoleOutput](w.t)(w.STS(assumer).AssumeRole(ctx, &awssts.AssumeRoleInput{
		RoleArn: &arn, RoleSessionName: aws.String("session"),
	})).Credentials
	return arn, w.client(aws.Credentials{AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey,
		SessionToken: *c.SessionToken})
}

// key returns the ID of a new key with that policy; the default one when statements is empty.
func (w *fixture) key(statements string) string {
	w.t.Helper()
	in := &kms.CreateKeyInput{}
	if statements != "" {
		in.Policy, in.BypassPolicyLockoutSafetyCheck = aws.String(document(statements)), true
	}
	return *awstest.Must[*kms.CreateKeyOutput](w.t)(w.CreateKey(context.Background(), in)).KeyMetadata.KeyId
}

// encrypted returns a ciphertext of "secret".
func (w *fixture) encrypted(key string, pairs map[string]string) []byte {
	w.t.Helper()
	return awstest.Must[*kms.EncryptOutput](w.t)(w.Encrypt(context.Background(), &kms.EncryptInput{KeyId: &key,
		Plaintext: []byte("secret"), EncryptionContext: pairs})).CiphertextBlob
}

func document(statements string) string {
	return `{"Version":"2012-10-17","Statement":[` + statements + `]}`
}

func principal(arn string) string { return fmt.Sprintf(`"Principal":{"AWS":%q},`, arn) }

// allow returns a statement. actions is JSON; who and resource may be empty, of which the second is then left out.
func allow(actions, who, resource string) string {
	if resource != "" {
		resource = fmt.Sprintf(`,"Resource":%q`, resource)
	}
	return `{"Effect":"Allow",` + who + `"Action":[` + actions + `]` + resource + `}`
}

// rootOnly enables the IAM policies of the account, as the default key policy does.
var rootOnly = allow(`"kms:*"`, principal("arn:aws:iam::"+account+":root"), "*")

func ptr[T any](v T) *T { return &v }

func grantOps(all ...types.GrantOperation) []types.GrantOperation { return all }
