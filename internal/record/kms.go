package record

import (
	"fmt"
	"time"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// KMSKey is a symmetric key of AWS KMS. Its key material is in rows of their own (KMSKeyMaterial).
//
// Writer: internal/aws/kms.
type KMSKey struct {
	Account string
	Region  string
	ID      string // a UUID
	// ManagedBy is the service of an AWS managed key, such as "ssm"; empty for keys of customers.
	ManagedBy   string `json:",omitempty"`
	Description string `json:",omitempty"`
	CreatedAt   time.Time
	State       kmstypes.KeyState // Enabled, Disabled or PendingDeletion
	// DeleteAt is the time at which a key that is PendingDeletion is deleted.
	DeleteAt time.Time `json:",omitzero"`

	Policy string
	// PolicyIDs are the unique IDs of the users and roles that Policy names, by ARN.
	PolicyIDs map[string]string `json:",omitempty"`
	Tags      map[string]string `json:",omitempty"`

	// Material is the number of the current key material, from 1. Earlier material decrypts what it has encrypted.
	Material int
	// MaterialID identifies the current key material to users: 64 hexadecimal digits.
	MaterialID string
	// OnDemand counts rotations on demand.
	OnDemand int `json:",omitempty"`
	// RotationPeriod is in days; 0 without automatic rotation. RotateAt is the next rotation.
	RotationPeriod int32     `json:",omitempty"`
	RotateAt       time.Time `json:",omitzero"`
}

// ARN returns the key's Amazon Resource Name.
func (k KMSKey) ARN() string { return KMSKeyARN(k.Account, k.Region, k.ID) }

// Key returns the key's row key.
func (k KMSKey) Key() string { return KMSKeyKey(k.Account, k.Region, k.ID) }

// KMSKeyARN returns the Amazon Resource Name of a key.
func KMSKeyARN(account, region, id string) string {
	return "arn:aws:kms:" + region + ":" + account + ":key/" + id
}

// KMSKeyKey returns the row key of a KMS key.
func KMSKeyKey(account, region, id string) string { return store.Key(account, region, id) }

// KMSKeys returns the table of KMS keys, by KMSKeyKey.
func KMSKeys(s *store.Store) store.Table[KMSKey] { return store.NewTable[KMSKey](s, "kmskeys") }

// KMSKeyMaterial is one generation of the key material of a key. It never leaves the daemon, and never changes.
//
// Writer: internal/aws/kms.
type KMSKeyMaterial struct {
	ID        string // 64 hexadecimal digits
	Secret    []byte // 32 bytes
	CreatedAt time.Time
	// Rotation is why the key was rotated to this material; empty for the first.
	Rotation kmstypes.RotationType `json:",omitempty"`
}

// KMSKeyMaterialKey returns the row key of the material with that number; those of a key are in order.
func KMSKeyMaterialKey(account, region, id string, number int) string {
	return store.Key(account, region, id, fmt.Sprintf("%010d", number))
}

// KMSKeyMaterials returns the table of key material, by KMSKeyMaterialKey.
func KMSKeyMaterials(s *store.Store) store.Table[KMSKeyMaterial] {
	return store.NewTable[KMSKeyMaterial](s, "kmskeymaterials")
}

// KMSAlias is a name of a KMS key.
//
// Writer: internal/aws/kms.
type KMSAlias struct {
	Account   string
	Region    string
	Name      string // "alias/team"
	KeyID     string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// ARN returns the alias's Amazon Resource Name.
func (a KMSAlias) ARN() string { return KMSAliasARN(a.Account, a.Region, a.Name) }

// KMSAliasARN returns the Amazon Resource Name of an alias; name begins with "alias/".
func KMSAliasARN(account, region, name string) string {
	return "arn:aws:kms:" + region + ":" + account + ":" + name
}

// KMSAliasKey returns the row key of an alias.
func KMSAliasKey(account, region, name string) string { return store.Key(account, region, name) }

// KMSAliases returns the table of aliases, by KMSAliasKey.
func KMSAliases(s *store.Store) store.Table[KMSAlias] {
	return store.NewTable[KMSAlias](s, "kmsaliases")
}

// KMSGrant lets a principal use a KMS key.
//
// Writer: internal/aws/kms.
type KMSGrant struct {
	Account string // of the key
	Region  string
	KeyID   string
	ID      string // 64 hexadecimal digits
	Name    string `json:",omitempty"`
	// Grantee and Retirer are ARNs of principals. Their IDs are unique: a user or role that has the name of one later
	// is another. They are empty for an account, and for principals of accounts that are not here.
	Grantee   string
	GranteeID string `json:",omitempty"`
	Retirer   string `json:",omitempty"`
	RetirerID string `json:",omitempty"`
	// Issuer is the account whose principal made the grant.
	Issuer     string
	Operations []kmstypes.GrantOperation
	// ContextEquals and ContextSubset constrain the encryption context; at most one of them is set.
	ContextEquals map[string]string `json:",omitempty"`
	ContextSubset map[string]string `json:",omitempty"`
	CreatedAt     time.Time
}

// Key returns the grant's row key.
func (g KMSGrant) Key() string { return KMSGrantKey(g.Account, g.Region, g.KeyID, g.ID) }

// KMSGrantKey returns the row key of a grant.
func KMSGrantKey(account, region, keyID, id string) string {
	return store.Key(account, region, keyID, id)
}

// KMSGrants returns the table of grants, by KMSGrantKey.
func KMSGrants(s *store.Store) store.Table[KMSGrant] {
	return store.NewTable[KMSGrant](s, "kmsgrants")
}
