package kms

import (
	"context"
	"crypto/rand"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

const maxRandom = 1024 // bytes of a data key, and of GenerateRandom

// dataKeyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) dataKeyHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.GenerateDataKey, func(
			ctx context.Context, action string, in *kms.GenerateDataKeyInput,
		) ([]wire.Target, error) {
			return s.useTargets(ctx, action, *in.KeyId, cryptoUse(in.EncryptionContext))
		}).CheckingDryRun(),
		handle(s.GenerateDataKeyWithoutPlaintext, func(
			ctx context.Context, action string, in *kms.GenerateDataKeyWithoutPlaintextInput,
		) ([]wire.Target, error) {
			return s.useTargets(ctx, action, *in.KeyId, cryptoUse(in.EncryptionContext))
		}).CheckingDryRun(),
		wire.Handle(s.GenerateRandom, wire.OnAll),
	}
}

// dataKeySize returns how many bytes a data key is to have.
func dataKeySize(spec types.DataKeySpec, bytes *int32) (int, error) {
	switch {
	case spec != "" && bytes != nil, spec == "" && bytes == nil:
		return 0, validation("Please specify either number of bytes or key spec.")
	case spec == types.DataKeySpecAes128:
		return 16, nil
	case spec == types.DataKeySpecAes256:
		return 32, nil
	}
	return randomSize(bytes)
}

func randomSize(bytes *int32) (int, error) {
	n := aws.ToInt32(bytes)
	for _, limit := range []struct {
		broken bool
		must   string
	}{{n < 1, "greater than or equal to 1"}, {n > maxRandom, "less than or equal to 1024"}} {
		if limit.broken {
			return 0, validation("1 validation error detected: Value '%d' at 'numberOfBytes' failed to satisfy "+
				"constraint: Member must have value %s", n, limit.must)
		}
	}
	return int(n), nil
}

// GenerateDataKey returns a new key in clear, to be used outside of KMS, and encrypted, to be stored.
func (s *Service) GenerateDataKey(ctx context.Context, in *kms.GenerateDataKeyInput) (
	*kms.GenerateDataKeyOutput, error) {
	if err := checkCrypto(in.GrantTokens, in.Recipient, in.EncryptionContext); err != nil {
		return nil, err
	}
	size, err := dataKeySize(in.KeySpec, in.NumberOfBytes)
	if err != nil {
		return nil, err
	}
	k, err := s.encryptionKey(ctx, "kms:GenerateDataKey", *in.KeyId, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, dryRun()
	}
	plaintext, blob, err := s.newDataKey(ctx, k, size, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	return &kms.GenerateDataKeyOutput{KeyId: new(k.ARN()), Plaintext: plaintext, CiphertextBlob: blob,
		KeyMaterialId: &k.MaterialID}, nil
}

func (s *Service) newDataKey(ctx context.Context, k record.KMSKey, size int, pairs map[string]string) (
	plaintext, blob []byte, err error) {
	plaintext = make([]byte, size)
	rand.Read(plaintext)
	blob, err = s.seal(ctx, k, plaintext, pairs)
	return plaintext, blob, err
}

// GenerateDataKeyWithoutPlaintext returns a new key encrypted only.
func (s *Service) GenerateDataKeyWithoutPlaintext(ctx context.Context, in *kms.GenerateDataKeyWithoutPlaintextInput) (
	*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	if err := checkCrypto(in.GrantTokens, nil, in.EncryptionContext); err != nil {
		return nil, err
	}
	size, err := dataKeySize(in.KeySpec, in.NumberOfBytes)
	if err != nil {
		return nil, err
	}
	k, err := s.encryptionKey(ctx, "kms:GenerateDataKeyWithoutPlaintext", *in.KeyId, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, dryRun()
	}
	_, blob, err := s.newDataKey(ctx, k, size, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	return &kms.GenerateDataKeyWithoutPlaintextOutput{KeyId: new(k.ARN()), CiphertextBlob: blob,
		KeyMaterialId: &k.MaterialID}, nil
}

// GenerateRandom returns random bytes.
func (s *Service) GenerateRandom(_ context.Context, in *kms.GenerateRandomInput) (*kms.GenerateRandomOutput, error) {
	if err := checkCrypto(nil, in.Recipient); err != nil {
		return nil, err
	}
	if in.CustomKeyStoreId != nil {
		return nil, unsupported("Custom key stores are not implemented by coracle.")
	}
	size, err := randomSize(in.NumberOfBytes)
	if err != nil {
		return nil, err
	}
	out := &kms.GenerateRandomOutput{Plaintext: make([]byte, size)}
	rand.Read(out.Plaintext)
	return out, nil
}
