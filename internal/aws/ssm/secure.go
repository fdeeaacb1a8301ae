package ssm

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// KMS encrypts and decrypts for a service, with the permissions of its caller. kms.Service (internal/aws/kms)
// implements it.
type KMS interface {
	// ManagedKey returns the alias of the AWS managed key of a service in the caller's account and region.
	ManagedKey(ctx context.Context, service string) (string, error)
	EncryptVia(ctx context.Context, service string, in *kms.EncryptInput) (*kms.EncryptOutput, error)
	GenerateDataKeyVia(ctx context.Context, service string, in *kms.GenerateDataKeyInput) (*kms.GenerateDataKeyOutput,
		error)
	DecryptVia(ctx context.Context, service string, in *kms.DecryptInput) (*kms.DecryptOutput, error)
}

const serviceName = "ssm"

// encryptionContext binds a ciphertext to its parameter.
// https://docs.aws.amazon.com/kms/latest/developerguide/services-parameter-store.html
func encryptionContext(arn string) map[string]string { return map[string]string{"PARAMETER_ARN": arn} }

// protect encrypts the value of a new version of a SecureString: a Standard one with the KMS key, an Advanced one with
// a data key.
func (s *Service) protect(ctx context.Context, arn string, kind types.ParameterType, in *ssm.PutParameterInput,
	v *record.ParameterVersion) error {
	if kind != types.ParameterTypeSecureString {
		if in.KeyId != nil {
			return validation("KeyId is for SecureString parameters only, and this one is a %s.", kind)
		}
		return nil
	}
	if v.DataType != "text" {
		return validation("The data type %s is not supported for SecureString parameters: use text.", v.DataType)
	}
	v.KeyID = aws.ToString(in.KeyId)
	if v.KeyID == "" {
		var err error
		if v.KeyID, err = s.kms.ManagedKey(ctx, serviceName); err != nil {
			return err
		}
	}
	if v.Tier != types.ParameterTierAdvanced {
		out, err := s.kms.EncryptVia(ctx, serviceName, &kms.EncryptInput{KeyId: &v.KeyID, Plaintext: []byte(v.Value),
			EncryptionContext: encryptionContext(arn)})
		if err != nil {
			return keyError(err)
		}
		v.Value = base64.StdEncoding.EncodeToString(out.CiphertextBlob)
		return nil
	}
	out, err := s.kms.GenerateDataKeyVia(ctx, serviceName, &kms.GenerateDataKeyInput{KeyId: &v.KeyID,
		KeySpec: kmstypes.DataKeySpecAes256, EncryptionContext: encryptionContext(arn)})
	if err != nil {
		return keyError(err)
	}
	aead, err := newAEAD(out.Plaintext)
	if err != nil {
		return err
	}
	v.DataKey = out.CiphertextBlob
	v.Value = base64.StdEncoding.EncodeToString(aead.Seal(nil, nil, []byte(v.Value), []byte(arn)))
	return nil
}

// reveal returns the value of a version: of a SecureString its ciphertext, unless it is to be decrypted, which its
// reader needs permission for.
func (s *Service) reveal(ctx context.Context, p record.Parameter, v record.ParameterVersion, decrypt *bool) (
	string, error) {
	if p.Type != types.ParameterTypeSecureString || !aws.ToBool(decrypt) {
		return v.Value, nil
	}
	ciphertext, err := base64.StdEncoding.DecodeString(v.Value)
	if err != nil {
		return "", err
	}
	blob := ciphertext
	if v.DataKey != nil {
		blob = v.DataKey
	}
	out, err := s.kms.DecryptVia(ctx, serviceName, &kms.DecryptInput{CiphertextBlob: blob,
		EncryptionContext: encryptionContext(p.ARN())})
	if err != nil {
		return "", keyError(err)
	}
	if v.DataKey == nil {
		return string(out.Plaintext), nil
	}
	aead, err := newAEAD(out.Plaintext)
	if err != nil {
		return "", err
	}
	value, err := aead.Open(nil, nil, ciphertext, []byte(p.ARN()))
	return string(value), err
}

// newAEAD returns a cipher that puts a random nonce before each message.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// keyError returns what Parameter Store answers when KMS refuses. Denials stay as they are.
func keyError(err error) error {
	var denied *wire.Denied
	var api interface {
		error
		ErrorCode() string
		ErrorMessage() string
	}
	if errors.As(err, &denied) || !errors.As(err, &api) {
		return err
	}
	return &types.InvalidKeyId{Message: new("The KMS key of the parameter cannot be used: " + api.ErrorCode() + ": " +
		api.ErrorMessage())}
}
