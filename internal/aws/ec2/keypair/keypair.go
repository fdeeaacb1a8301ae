package keypair

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/crypto/ssh"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func (s *Service) newKeyPairView() resource.View[record.KeyPair, types.KeyPairInfo] {
	type v = types.KeyPairInfo
	return resource.View[record.KeyPair, v]{
		Kind: s.KeyPairs,
		Show: func(sc resource.Scope, r record.KeyPair) v {
			return v{
				CreateTime: aws.Time(r.CreatedAt), KeyFingerprint: aws.String(r.Fingerprint),
				KeyName:   aws.String(r.Name),
				KeyPairId: aws.String(r.ID), KeyType: r.Type, PublicKey: aws.String(r.PublicKey),
				Tags: s.ListTagSet(sc, r.ID),
			}
		},
		Tagged: func(x v) []types.Tag { return x.Tags },
		Filters: resource.Filters[v]{
			"key-pair-id": resource.StringFilter(func(x v) *string { return x.KeyPairId }),
			"fingerprint": resource.StringFilter(func(x v) *string { return x.KeyFingerprint }),
			"key-name":    resource.StringFilter(func(x v) *string { return x.KeyName }),
		},
	}
}

// newKeyPair adds a key pair under a name that is free.
func newKeyPair(c *resource.Change, id string, name *string, key record.KeyPair) error {
	switch {
	case aws.ToString(name) == "":
		return resource.MissingParameter("keyName")
	case len(*name) > 255:
		return resource.InvalidValue(*name, "keyName", "Key names are up to 255 characters long.")
	}
	claim := store.Key(c.Account, c.Region, *name)
	if _, err := c.KeyPairNames.Get(c, claim); err == nil {
		return wire.Errorf("InvalidKeyPair.Duplicate", "The key pair '%s' already exists.", *name)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	key.EC2Resource, key.Name = c.NewResource(id, nil), *name
	c.Add("keyname/"+*name, func() store.Op {
		return c.KeyPairNames.CreateOp(claim,
			record.KeyPairName{KeyPairID: key.ID})
	})
	c.KeyPairs.CreateRecord(c, key)
	return nil
}

// keyPairHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) keyPairHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateKeyPair, resource.Creating[ec2.CreateKeyPairInput](s.Records, types.ResourceTypeKeyPair)),
		wire.Handle(s.ImportKeyPair, resource.Creating[ec2.ImportKeyPairInput](s.Records, types.ResourceTypeKeyPair)),
		wire.Handle(s.DescribeKeyPairs, resource.OnRegion),
		wire.Handle(s.DeleteKeyPair, resource.Touching[ec2.DeleteKeyPairInput](s.Records)),
	}
}

// CreateKeyPair makes a key pair and hands out its private half, which is kept nowhere.
func (s *Service) CreateKeyPair(ctx context.Context, in *ec2.CreateKeyPairInput) (*ec2.CreateKeyPairOutput, error) {
	if in.KeyFormat != "" && in.KeyFormat != types.KeyFormatPem {
		return nil, resource.Unsupported("KeyFormat=" + string(in.KeyFormat))
	}
	key, private, err := generateKey(in.KeyType)
	if err != nil {
		return nil, err
	}
	out, err := s.keyPairView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			return newKeyPair(c, id, in.KeyName, key)
		})
	if err != nil {
		return nil, err
	}
	return &ec2.CreateKeyPairOutput{KeyFingerprint: out.KeyFingerprint, KeyMaterial: aws.String(private),
		KeyName: out.KeyName, KeyPairId: out.KeyPairId, Tags: out.Tags}, nil
}

// generateKey makes a key pair: the row and the private half in PEM. The fingerprint of an RSA key that AWS made is
// the SHA-1 digest of the private key in PKCS #8, that of an ED25519 key OpenSSH's.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/verify-keys.html
func generateKey(kind types.KeyType) (record.KeyPair, string, error) {
	switch kind {
	case "", types.KeyTypeRsa:
		private, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return record.KeyPair{}, "", fmt.Errorf("generate an RSA key: %w", err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return record.KeyPair{}, "", fmt.Errorf("encode an RSA key: %w", err)
		}
		digest := sha1.Sum(der)
		key, err := publicHalf(types.KeyTypeRsa, private.Public(), formatFingerprint(digest[:]))
		return key, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(private)})), err
	case types.KeyTypeEd25519:
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return record.KeyPair{}, "", fmt.Errorf("generate an ED25519 key: %w", err)
		}
		block, err := ssh.MarshalPrivateKey(private, "")
		if err != nil {
			return record.KeyPair{}, "", fmt.Errorf("encode an ED25519 key: %w", err)
		}
		key, err := publicHalf(types.KeyTypeEd25519, public, "")
		return key, string(pem.EncodeToMemory(block)), err
	}
	return record.KeyPair{}, "", resource.InvalidValue(kind, "keyType", "The key type must be rsa or ed25519.")
}

// publicHalf returns the record of a public key; it computes OpenSSH's fingerprint when there is no other.
func publicHalf(kind types.KeyType, public crypto.PublicKey, fingerprint string) (record.KeyPair, error) {
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return record.KeyPair{}, fmt.Errorf("encode a public key: %w", err)
	}
	if fingerprint == "" {
		digest := sha256.Sum256(key.Marshal())
		fingerprint = base64.StdEncoding.EncodeToString(digest[:])
	}
	return record.KeyPair{Type: kind, Fingerprint: fingerprint,
		PublicKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))}, nil
}

// formatFingerprint formats a digest as 1f:51:ae:
func formatFingerprint(digest []byte) string {
	parts := make([]string, len(digest))
	for i, b := range digest {
		parts[i] = fmt.Sprintf("%02x", b)
	}
	return strings.Join(parts, ":")
}

// ImportKeyPair registers the public half of a key pair that its owner made: in OpenSSH's form, as DER in base64, or
// PEM.
func (s *Service) ImportKeyPair(ctx context.Context, in *ec2.ImportKeyPairInput) (*ec2.ImportKeyPairOutput, error) {
	if len(in.PublicKeyMaterial) == 0 {
		return nil, resource.MissingParameter("publicKeyMaterial")
	}
	key, err := importKey(in.PublicKeyMaterial)
	if err != nil {
		return nil, err
	}
	out, err := s.keyPairView.Create(ctx, resource.Creation{DryRun: in.DryRun, Tags: in.TagSpecifications},
		func(c *resource.Change, id string) error {
			return newKeyPair(c, id, in.KeyName, key)
		})
	if err != nil {
		return nil, err
	}
	return &ec2.ImportKeyPairOutput{KeyFingerprint: out.KeyFingerprint, KeyName: out.KeyName, KeyPairId: out.KeyPairId,
		Tags: out.Tags}, nil
}

// importKey reads a public key. The fingerprint of an imported RSA key is the MD5 digest of its DER form.
func importKey(material []byte) (record.KeyPair, error) {
	public, err := parsePublicKey(material)
	if err != nil {
		return record.KeyPair{}, wire.Errorf("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
	}
	switch public := public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits != 1024 && bits != 2048 && bits != 4096 {
			return record.KeyPair{}, wire.Errorf("InvalidKey.Format",
				"RSA keys must be 1024, 2048 or 4096 bits long; this one has %d.", bits)
		}
		der, err := x509.MarshalPKIXPublicKey(public)
		if err != nil {
			return record.KeyPair{}, fmt.Errorf("encode a public key: %w", err)
		}
		digest := md5.Sum(der)
		return publicHalf(types.KeyTypeRsa, public, formatFingerprint(digest[:]))
	case ed25519.PublicKey:
		return publicHalf(types.KeyTypeEd25519, public, "")
	}
	return record.KeyPair{}, wire.Errorf("InvalidKey.Format", "Only RSA and ED25519 keys are supported.")
}

func parsePublicKey(material []byte) (crypto.PublicKey, error) {
	if key, _, _, _, err := ssh.ParseAuthorizedKey(material); err == nil {
		if holder, ok := key.(ssh.CryptoPublicKey); ok {
			return holder.CryptoPublicKey(), nil
		}
	}
	if block, _ := pem.Decode(material); block != nil {
		return x509.ParsePKIXPublicKey(block.Bytes)
	}
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(material)))
	if err != nil {
		return nil, err
	}
	return x509.ParsePKIXPublicKey(der)
}

// DescribeKeyPairs lists key pairs.
func (s *Service) DescribeKeyPairs(ctx context.Context, in *ec2.DescribeKeyPairsInput) (
	*ec2.DescribeKeyPairsOutput, error) {
	sc, err := s.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.KeyPairIds)
	for _, name := range in.KeyNames {
		key, err := s.KeyPairNamed(sc, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, key.ID)
	}
	found, _, err := s.keyPairView.Describe(ctx, resource.Query{Operation: "DescribeKeyPairs", DryRun: in.DryRun,
		IDs: ids, Filters: in.Filters})
	if !aws.ToBool(in.IncludePublicKey) {
		for i := range found {
			found[i].PublicKey = nil
		}
	}
	return &ec2.DescribeKeyPairsOutput{KeyPairs: found}, err
}

// DeleteKeyPair deletes a key pair. One that does not exist is no error.
func (s *Service) DeleteKeyPair(ctx context.Context, in *ec2.DeleteKeyPairInput) (*ec2.DeleteKeyPairOutput, error) {
	out := &ec2.DeleteKeyPairOutput{Return: aws.Bool(true)}
	return out, s.ApplyChange(ctx, in.DryRun, func(c *resource.Change) error {
		id := aws.ToString(in.KeyPairId)
		switch {
		case id != "":
			if err := s.KeyPairs.Validate(id); err != nil {
				return err
			}
		case aws.ToString(in.KeyName) != "":
			row, err := s.KeyPairNames.Get(c, store.Key(c.Account, c.Region, *in.KeyName))
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			id = row.Value.KeyPairID
		default:
			return resource.MissingParameter("keyName")
		}
		if _, err := s.KeyPairs.Table.Get(c, c.Key(id)); errors.Is(err, store.ErrNotFound) {
			return nil
		}
		key, err := s.KeyPairs.DeleteRecord(c, id)
		if err != nil {
			return err
		}
		c.Add("keyname/"+key.Name, func() store.Op {
			return s.KeyPairNames.RemoveOp(store.Key(c.Account,
				c.Region, key.Name))
		})
		out.KeyPairId = aws.String(id)
		return nil
	})
}
