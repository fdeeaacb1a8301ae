package kms

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// maxContext is the size of an encryption context, in bytes of its keys and values.
const maxContext = 8192

const symmetric = types.EncryptionAlgorithmSpecSymmetricDefault

// cryptoHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) cryptoHandlers() []wire.Handler {
	return []wire.Handler{
		handle(s.Encrypt, func(ctx context.Context, action string, in *kms.EncryptInput) ([]wire.Target, error) {
			return s.useTargets(ctx, action, *in.KeyId, cryptoUse(in.EncryptionContext))
		}).CheckingDryRun(),
		handle(s.Decrypt, func(ctx context.Context, action string, in *kms.DecryptInput) ([]wire.Target, error) {
			t, err := s.onCiphertext(ctx, action, in.CiphertextBlob, in.KeyId, cryptoUse(in.EncryptionContext))
			return []wire.Target{t}, err
		}).CheckingDryRun(),
		handle(s.ReEncrypt, s.reEncryptTargets).CheckingDryRun(),
	}
}

func cryptoUse(pairs map[string]string) use { return use{crypto: true, context: pairs} }

// useTargets returns the key that a request uses as the target.
func (s *Service) useTargets(ctx context.Context, action, id string, u use) ([]wire.Target, error) {
	r, err := s.resolve(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := s.target(ctx, action, r, u)
	return []wire.Target{t}, err
}

// onCiphertext returns the key that a ciphertext blob names as the target, which the blob alone decides.
func (s *Service) onCiphertext(ctx context.Context, action string, blob []byte, named *string, u use) (
	wire.Target, error) {
	r, err := s.resolveCiphertext(ctx, blob)
	if err != nil {
		return wire.Target{}, err
	}
	if named != nil {
		asked, err := parseReference(placeOf(ctx), *named)
		if err != nil {
			return wire.Target{}, err
		}
		r.alias = asked.alias
	}
	return s.target(ctx, action, r, u)
}

// resolveCiphertext finds the key that a ciphertext blob names.
func (s *Service) resolveCiphertext(ctx context.Context, blob []byte) (reference, error) {
	h, err := parseHeader(blob)
	if err != nil {
		return reference{}, err
	}
	return s.resolve(ctx, record.KMSKeyARN(h.account, wire.RegionFrom(ctx), h.keyID))
}

// decryptionKey returns the key that a ciphertext blob names, which must be the one that the request names, if it does.
func (s *Service) decryptionKey(ctx context.Context, blob []byte, named *string) (record.KMSKey, error) {
	r, err := s.resolveCiphertext(ctx, blob)
	if err != nil {
		return record.KMSKey{}, err
	}
	k, err := r.key()
	if err != nil {
		return k, err
	}
	if named != nil {
		asked, err := s.resolve(ctx, *named)
		if err != nil {
			return k, err
		}
		if asked.account != r.account || asked.keyID != r.keyID {
			return k, &types.IncorrectKeyException{Message: new("The key ID in the request does not identify a CMK " +
				"that can perform this operation.")}
		}
	}
	return k, requireEnabled(k)
}

func checkContext(pairs map[string]string) error {
	size := 0
	for k, v := range pairs {
		size += len(k) + len(v)
	}
	if size > maxContext {
		return validation("The encryption context has %d bytes, and may have %d.", size, maxContext)
	}
	return nil
}

func checkAlgorithm(spec types.EncryptionAlgorithmSpec) error {
	if spec != "" && spec != symmetric {
		return &types.InvalidKeyUsageException{Message: new("You cannot use the encryption algorithm " + string(spec) +
			" with a key whose KeySpec is SYMMETRIC_DEFAULT.")}
	}
	return nil
}

// checkCrypto refuses what is wrong with any cryptographic request.
func checkCrypto(tokens []string, recipient *types.RecipientInfo, contexts ...map[string]string) error {
	if recipient != nil {
		return unsupported("Recipient is not implemented by coracle: there are no Nitro enclaves.")
	}
	for _, pairs := range contexts {
		if err := checkContext(pairs); err != nil {
			return err
		}
	}
	return checkGrantTokens(tokens)
}

// Encrypt encrypts up to 4096 bytes.
func (s *Service) Encrypt(ctx context.Context, in *kms.EncryptInput) (*kms.EncryptOutput, error) {
	if err := checkCrypto(in.GrantTokens, nil, in.EncryptionContext); err != nil {
		return nil, err
	}
	if err := checkAlgorithm(in.EncryptionAlgorithm); err != nil {
		return nil, err
	}
	k, err := s.encryptionKey(ctx, "kms:Encrypt", *in.KeyId, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, dryRun()
	}
	blob, err := s.seal(ctx, k, in.Plaintext, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	return &kms.EncryptOutput{KeyId: new(k.ARN()), CiphertextBlob: blob, EncryptionAlgorithm: symmetric}, nil
}

// encryptionKey returns the key with which a request encrypts.
func (s *Service) encryptionKey(
	ctx context.Context, action, id string, pairs map[string]string,
) (record.KMSKey, error) {
	r, err := s.resolveAgain(ctx, action, id, cryptoUse(pairs))
	if err != nil {
		return record.KMSKey{}, err
	}
	return r.row.Value, requireEnabled(r.row.Value)
}

// Decrypt undoes Encrypt, GenerateDataKey and ReEncrypt.
func (s *Service) Decrypt(ctx context.Context, in *kms.DecryptInput) (*kms.DecryptOutput, error) {
	if err := checkCrypto(in.GrantTokens, in.Recipient, in.EncryptionContext); err != nil {
		return nil, err
	}
	if len(in.DryRunModifiers) > 0 {
		return nil, unsupported("DryRunModifiers are not implemented by coracle.")
	}
	if err := checkAlgorithm(in.EncryptionAlgorithm); err != nil {
		return nil, err
	}
	k, err := s.decryptionKey(ctx, in.CiphertextBlob, in.KeyId)
	if err != nil {
		return nil, err
	}
	plaintext, material, err := s.open(ctx, k, in.CiphertextBlob, in.EncryptionContext)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, dryRun()
	}
	return &kms.DecryptOutput{KeyId: new(k.ARN()), Plaintext: plaintext, KeyMaterialId: &material,
		EncryptionAlgorithm: symmetric}, nil
}

// reEncryptTargets returns the key that a ciphertext is encrypted with, and the one that it will be.
func (s *Service) reEncryptTargets(ctx context.Context, _ string, in *kms.ReEncryptInput) ([]wire.Target, error) {
	from, to, err := s.reEncryptUses(ctx, in)
	if err != nil {
		return nil, err
	}
	source, err := s.onCiphertext(ctx, "kms:ReEncryptFrom", in.CiphertextBlob, in.SourceKeyId, from)
	if err != nil {
		return nil, err
	}
	targets, err := s.useTargets(ctx, "kms:ReEncryptTo", *in.DestinationKeyId, to)
	return append([]wire.Target{source}, targets...), err
}

// reEncryptUses returns what ReEncrypt does with both keys.
func (s *Service) reEncryptUses(ctx context.Context, in *kms.ReEncryptInput) (from, to use, err error) {
	source, err := s.resolveCiphertext(ctx, in.CiphertextBlob)
	if err != nil {
		return from, to, err
	}
	destination, err := s.resolve(ctx, *in.DestinationKeyId)
	if err != nil {
		return from, to, err
	}
	same := source.account == destination.account && source.keyID == destination.keyID
	from, to = cryptoUse(in.SourceEncryptionContext), cryptoUse(in.DestinationEncryptionContext)
	from.keys = map[string][]string{"kms:ReEncryptOnSameKey": boolCondition(same)}
	to.keys = from.keys
	return from, to, nil
}

// ReEncrypt encrypts the content of a ciphertext with another key, or in another context.
func (s *Service) ReEncrypt(ctx context.Context, in *kms.ReEncryptInput) (*kms.ReEncryptOutput, error) {
	if err := checkCrypto(in.GrantTokens, nil, in.SourceEncryptionContext, in.DestinationEncryptionContext); err != nil {
		return nil, err
	}
	if len(in.DryRunModifiers) > 0 {
		return nil, unsupported("DryRunModifiers are not implemented by coracle.")
	}
	for _, spec := range []types.EncryptionAlgorithmSpec{in.SourceEncryptionAlgorithm,
		in.DestinationEncryptionAlgorithm} {
		if err := checkAlgorithm(spec); err != nil {
			return nil, err
		}
	}
	source, err := s.decryptionKey(ctx, in.CiphertextBlob, in.SourceKeyId)
	if err != nil {
		return nil, err
	}
	_, to, err := s.reEncryptUses(ctx, in)
	if err != nil {
		return nil, err
	}
	r, err := s.resolveAgain(ctx, "kms:ReEncryptTo", *in.DestinationKeyId, to)
	if err != nil {
		return nil, err
	}
	destination := r.row.Value
	if err := requireEnabled(destination); err != nil {
		return nil, err
	}
	plaintext, material, err := s.open(ctx, source, in.CiphertextBlob, in.SourceEncryptionContext)
	if err != nil {
		return nil, err
	}
	if aws.ToBool(in.DryRun) {
		return nil, dryRun()
	}
	blob, err := s.seal(ctx, destination, plaintext, in.DestinationEncryptionContext)
	if err != nil {
		return nil, err
	}
	return &kms.ReEncryptOutput{CiphertextBlob: blob, KeyId: new(destination.ARN()), SourceKeyId: new(source.ARN()),
		SourceEncryptionAlgorithm: symmetric, DestinationEncryptionAlgorithm: symmetric,
		SourceKeyMaterialId: &material, DestinationKeyMaterialId: &destination.MaterialID}, nil
}
