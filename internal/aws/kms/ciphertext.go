package kms

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// A ciphertext blob has a header that names the key and its material, and the sealed plaintext:
//
//	version (1 byte), account (6), key ID (16), number of the material (4), salt (16), AES-256-GCM ciphertext and tag
//
// The AES key and the nonce are derived from the key material and the salt (HKDF with SHA-256), so that no key encrypts
// so many messages that nonces collide. The header and the encryption context are authenticated.
const (
	blobVersion = 1
	idSize      = 16
	saltSize    = 16
	headerSize  = 1 + 6 + idSize + 4 + saltSize

	maxPlaintext = 4096
	secretSize   = 32
	nonceSize    = 12
	tagSize      = 16
)

// header is what a ciphertext blob says in clear.
type header struct {
	account  string
	keyID    string
	material int
	salt     []byte
}

func (h header) encode() ([]byte, error) {
	account, err := strconv.ParseUint(h.account, 10, 48)
	if err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(strings.ReplaceAll(h.keyID, "-", ""))
	if err != nil || len(id) != idSize {
		return nil, errors.New("the key's ID is no UUID: " + h.keyID)
	}
	b := make([]byte, 0, headerSize)
	b = append(b, blobVersion)
	b = append(b, binary.BigEndian.AppendUint64(nil, account)[2:]...)
	b = append(b, id...)
	b = binary.BigEndian.AppendUint32(b, uint32(h.material)) //nolint:gosec // rotations are counted, and few
	return append(b, h.salt...), nil
}

// parseHeader reads the header of a ciphertext blob, which nothing has authenticated yet.
func parseHeader(blob []byte) (header, error) {
	if len(blob) < headerSize+tagSize || blob[0] != blobVersion {
		return header{}, invalidCiphertext()
	}
	account := binary.BigEndian.Uint64(append([]byte{0, 0}, blob[1:7]...))
	id := hex.EncodeToString(blob[7 : 7+idSize])
	h := header{
		account: strconv.FormatUint(account, 10),
		keyID:   id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:],
		salt:    blob[headerSize-saltSize : headerSize],
	}
	h.account = strings.Repeat("0", max(0, 12-len(h.account))) + h.account
	if len(h.account) != 12 {
		return header{}, invalidCiphertext()
	}
	h.material = int(binary.BigEndian.Uint32(blob[7+idSize:]))
	return h, nil
}

// canonicalContext returns an encryption context in the one form that it has: pairs in the order of their keys, each
// text with its length before it.
func canonicalContext(pairs map[string]string) []byte {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		for _, text := range []string{k, pairs[k]} {
			b = binary.BigEndian.AppendUint32(b, uint32(len(text))) //nolint:gosec // bounded by the request
			b = append(b, text...)
		}
	}
	return b
}

// newAEAD derives the key and the nonce of one message.
func newAEAD(secret, salt []byte) (cipher.AEAD, []byte, error) {
	derived, err := hkdf.Key(sha256.New, secret, salt, "coracle kms AES-256-GCM", secretSize+nonceSize)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(derived[:secretSize])
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, derived[secretSize:], err
}

// seal encrypts with the current material of a key.
func (s *Service) seal(ctx context.Context, k record.KMSKey, plaintext []byte, pairs map[string]string) (
	[]byte, error) {
	material, err := s.materials.Get(ctx, record.KMSKeyMaterialKey(k.Account, k.Region, k.ID, k.Material))
	if err != nil {
		return nil, err
	}
	h := header{account: k.Account, keyID: k.ID, material: k.Material, salt: make([]byte, saltSize)}
	rand.Read(h.salt)
	blob, err := h.encode()
	if err != nil {
		return nil, err
	}
	aead, nonce, err := newAEAD(material.Value.Secret, h.salt)
	if err != nil {
		return nil, err
	}
	additional := append(slices.Clone(blob), canonicalContext(pairs)...)
	return aead.Seal(blob, nonce, plaintext, additional), nil
}

// open undoes seal, with the material that the blob names. materialID identifies that.
func (s *Service) open(ctx context.Context, k record.KMSKey, blob []byte, pairs map[string]string) (
	plaintext []byte, materialID string, err error) {
	h, err := parseHeader(blob)
	if err != nil {
		return nil, "", err
	}
	if h.account != k.Account || h.keyID != k.ID {
		return nil, "", invalidCiphertext()
	}
	material, err := s.materials.Get(ctx, record.KMSKeyMaterialKey(k.Account, k.Region, k.ID, h.material))
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", invalidCiphertext()
	}
	if err != nil {
		return nil, "", err
	}
	aead, nonce, err := newAEAD(material.Value.Secret, h.salt)
	if err != nil {
		return nil, "", err
	}
	additional := append(bytes.Clone(blob[:headerSize]), canonicalContext(pairs)...)
	plaintext, err = aead.Open(nil, nonce, blob[headerSize:], additional)
	if err != nil {
		return nil, "", invalidCiphertext()
	}
	return plaintext, material.Value.ID, nil
}

// newMaterial returns key material that nobody has seen.
func (s *Service) newMaterial() record.KMSKeyMaterial {
	m := record.KMSKeyMaterial{Secret: make([]byte, secretSize), CreatedAt: s.timestamp()}
	rand.Read(m.Secret)
	m.ID = newHexID()
	return m
}

// newHexID returns 64 random hexadecimal digits.
func newHexID() string {
	id := make([]byte, 32)
	rand.Read(id)
	return hex.EncodeToString(id)
}
