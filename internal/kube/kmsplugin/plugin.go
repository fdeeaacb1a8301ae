package kmsplugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
	"github.com/sourcegraph/conc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Requests hold a key of 32 bytes, or its ciphertext. Each reads so many bytes of the store at most, and is charged to
// no account: few are made at a time, and an API server that waits for one while it starts has a place that all
// accounts share. They wait for no turn of the account, which it can keep busy.
const (
	maxMessage = 64 << 10
	maxStreams = 16
	mostRead   = 8 << 20
)

// plugin is the KMS plugin of one cluster.
type plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	cluster record.Cluster
	kms     KMS
	log     *slog.Logger
	flipped func() // called when the health changes
	server  *grpc.Server
	serving conc.WaitGroup

	mu   sync.Mutex
	last error // of the last Status
}

func (g *plugin) stop() {
	g.server.Stop()
	g.serving.Wait()
}

func (g *plugin) health() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// probe is the text that Status encrypts and decrypts.
var probe = []byte("healthy")

// Status reports whether the key can be used, by use. An error makes the API server unready, and unable to write
// Secrets after three minutes.
func (g *plugin) Status(ctx context.Context, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	err := g.tryKey(ctx)
	if ctx.Err() == nil {
		g.record(err)
	}
	if err != nil {
		return nil, rpcError(err)
	}
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: g.cluster.EncryptionKeyARN}, nil
}

func (g *plugin) tryKey(ctx context.Context) error {
	ciphertext, err := g.encrypt(ctx, probe)
	if err != nil {
		return err
	}
	plaintext, err := g.decrypt(ctx, ciphertext)
	if err == nil && !bytes.Equal(plaintext, probe) {
		err = fmt.Errorf("key %s decrypts to other than was encrypted", g.cluster.EncryptionKeyARN)
	}
	return err
}

// record remembers the health, and tells when it has changed.
func (g *plugin) record(err error) {
	g.mu.Lock()
	changed := (err == nil) != (g.last == nil) || err != nil && ErrorCode(err) != ErrorCode(g.last)
	g.last = err
	g.mu.Unlock()
	if !changed {
		return
	}
	if err != nil {
		g.log.Warn("Secrets of a cluster cannot be encrypted and decrypted", "cluster", g.cluster.Name, "key",
			g.cluster.EncryptionKeyARN, "error", err)
	}
	g.flipped()
}

// Encrypt encrypts the seed of the keys with which the API server encrypts Secrets.
func (g *plugin) Encrypt(ctx context.Context, in *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	ciphertext, err := g.encrypt(ctx, in.Plaintext)
	if err != nil {
		return nil, rpcError(err)
	}
	return &kmsapi.EncryptResponse{Ciphertext: ciphertext, KeyId: g.cluster.EncryptionKeyARN}, nil
}

// Decrypt undoes Encrypt.
func (g *plugin) Decrypt(ctx context.Context, in *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	plaintext, err := g.decrypt(ctx, in.Ciphertext)
	if err != nil {
		return nil, rpcError(err)
	}
	return &kmsapi.DecryptResponse{Plaintext: plaintext}, nil
}

func (g *plugin) encrypt(ctx context.Context, plaintext []byte) ([]byte, error) {
	out, err := g.kms.Encrypt(store.Bounded(ctx, mostRead), &kms.EncryptInput{
		KeyId: &g.cluster.EncryptionKeyARN, Plaintext: plaintext,
		EncryptionContext: g.cluster.EncryptionContext()})
	if err != nil {
		return nil, err
	}
	return out.CiphertextBlob, nil
}

func (g *plugin) decrypt(ctx context.Context, ciphertext []byte) ([]byte, error) {
	out, err := g.kms.Decrypt(store.Bounded(ctx, mostRead), &kms.DecryptInput{
		KeyId: &g.cluster.EncryptionKeyARN, CiphertextBlob: ciphertext,
		EncryptionContext: g.cluster.EncryptionContext()})
	if err != nil {
		return nil, err
	}
	return out.Plaintext, nil
}

// ErrorCode returns the AWS error code of an error of KMS; empty for others.
func ErrorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// rpcError returns an error for the API server, which shows it to users: what AWS says, without the request.
func rpcError(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		return status.Errorf(codes.FailedPrecondition, "%s: %s", api.ErrorCode(), api.ErrorMessage())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// recoverPanic answers a request that panics with an error: it ends nothing else.
func recoverPanic(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (
	answer any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = status.Errorf(codes.Internal, "panic: %v", v)
		}
	}()
	return handle(ctx, request)
}

// retireGrant gives back the grant on the key of a cluster. It is no error that the key or the grant is gone: KMS
// denies what it does not let EKS know.
func retireGrant(ctx context.Context, client KMS, cluster record.Cluster) error {
	_, err := client.RetireGrant(ctx, &kms.RetireGrantInput{KeyId: &cluster.EncryptionKeyARN,
		GrantId: &cluster.EncryptionGrantID})
	var notFound *kmstypes.NotFoundException
	if errors.As(err, &notFound) || ErrorCode(err) == "AccessDeniedException" {
		return nil
	}
	return err
}
