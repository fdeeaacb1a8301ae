package record

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// KeyPair is the public half of a key pair; the private half is its owner's only.
//
// Writer: internal/aws/ec2.
type KeyPair struct {
	EC2Resource // ID is "key-…"
	Name        string
	Type        ec2types.KeyType
	Fingerprint string
	PublicKey   string // in authorized_keys form
}

// KeyPairs returns the table of key pairs, by EC2Key.
func KeyPairs(s *store.Store) store.Table[KeyPair] { return store.NewTable[KeyPair](s, "keypairs") }

// KeyPairName claims a key pair's name in its account and region.
//
// Writer: internal/aws/ec2.
type KeyPairName struct{ KeyPairID string }

// KeyPairNames returns the table of key pair names, by Key(account, region, name).
func KeyPairNames(s *store.Store) store.Table[KeyPairName] {
	return store.NewTable[KeyPairName](s, "keypairnames")
}
