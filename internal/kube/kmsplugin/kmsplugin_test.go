package kmsplugin_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/kube/kmsplugin"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// bounded is KMS for requests that wait for no turn of their account.
type bounded struct {
	kmsplugin.KMS
	t *testing.T
}

func (b bounded) Encrypt(ctx context.Context, in *kms.EncryptInput, o ...func(*kms.Options)) (
	*kms.EncryptOutput, error) {
	b.check(ctx)
	return b.KMS.Encrypt(ctx, in, o...)
}

func (b bounded) Decrypt(ctx context.Context, in *kms.DecryptInput, o ...func(*kms.Options)) (
	*kms.DecryptOutput, error) {
	b.check(ctx)
	return b.KMS.Decrypt(ctx, in, o...)
}

func (b bounded) check(ctx context.Context) {
	if !store.IsMetered(ctx) {
		b.t.Error("a request of an API server that may be starting waits for a turn of its account")
	}
}

func TestPlugin(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	judge := awstest.NewJudge()
	mux := wire.NewMux(wire.Options{Credentials: judge, Authorizer: judge, Region: awstest.Region})
	coracle.New(coracle.Options{Store: storetest.New(t)}).Register(mux)
	client := kms.New(kms.Options{Region: awstest.Region, BaseEndpoint: aws.String("http://coracle.internal"),
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""), RetryMaxAttempts: 1,
		HTTPClient: &http.Client{Transport: mux.Transport()}})
	key := awstest.Must[*kms.CreateKeyOutput](t)(client.CreateKey(ctx, &kms.CreateKeyInput{})).KeyMetadata

	// Paths of sockets are short.
	dir, err := os.MkdirTemp("", "kms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	plugins := kmsplugin.New(kmsplugin.Options{Dir: dir, KMS: func(string, string) kmsplugin.KMS {
		return bounded{client, t}
	}})
	t.Cleanup(plugins.Close)
	var mu sync.Mutex
	var flips []string
	plugins.Subscribe(func(id string) {
		mu.Lock()
		defer mu.Unlock()
		flips = append(flips, id)
	})
	cluster := func(name, id string) record.Cluster {
		return record.Cluster{Account: awstest.Account, Region: awstest.Region, Name: name, ID: id,
			EncryptionKeyARN: *key.Arn}
	}
	dial := func(c record.Cluster) kmsapi.KeyManagementServiceClient {
		t.Helper()
		endpoint, err := plugins.Ensure(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := plugins.Ensure(c); err != nil || again != endpoint {
			t.Errorf("a second Ensure: %s, %v; the first: %s", again, err, endpoint)
		}
		conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return kmsapi.NewKeyManagementServiceClient(conn)
	}
	one, two := dial(cluster("one", strings.Repeat("1", 32))), dial(cluster("two", strings.Repeat("2", 32)))
	sockets, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	if err != nil || len(sockets) != 2 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	for _, path := range sockets {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}

	status := func(c kmsapi.KeyManagementServiceClient) (*kmsapi.StatusResponse, error) {
		return c.Status(context.WithoutCancel(ctx), &kmsapi.StatusRequest{})
	}
	if s, err := status(one); err != nil || s.Version != "v2" || s.Healthz != "ok" || s.KeyId != *key.Arn {
		t.Errorf("status %v, %v", s, err)
	}
	seed := []byte("thirty-two bytes of a key's seed")
	sealed, err := one.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: seed})
	if err != nil || sealed.KeyId != *key.Arn || bytes.Contains(sealed.Ciphertext, seed) {
		t.Fatalf("encrypted %v, %v", sealed, err)
	}
	opened, err := one.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: sealed.Ciphertext, KeyId: sealed.KeyId})
	if err != nil || !bytes.Equal(opened.Plaintext, seed) {
		t.Errorf("decrypted %v, %v", opened, err)
	}
	if opened, err := two.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: sealed.Ciphertext}); err == nil {
		t.Errorf("another cluster decrypts %v", opened)
	}

	awstest.Must[*kms.DisableKeyOutput](t)(client.DisableKey(ctx, &kms.DisableKeyInput{KeyId: key.KeyId}))
	if _, err := status(one); err == nil || !strings.Contains(err.Error(), "DisabledException") {
		t.Errorf("status with a disabled key: %v", err)
	}
	if err := plugins.Health(strings.Repeat("1", 32)); kmsplugin.ErrorCode(err) != "DisabledException" {
		t.Errorf("health with a disabled key: %v", err)
	}
	if _, err := one.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: sealed.Ciphertext}); err == nil {
		t.Error("a disabled key decrypts")
	}
	awstest.Must[*kms.EnableKeyOutput](t)(client.EnableKey(ctx, &kms.EnableKeyInput{KeyId: key.KeyId}))
	if _, err := status(one); err != nil || plugins.Health(strings.Repeat("1", 32)) != nil {
		t.Errorf("status with the key enabled again: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(flips) != 2 {
		t.Errorf("told of changes of %v", flips)
	}
}
