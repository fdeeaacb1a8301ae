package record

import (
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// EC2Resource has the fields of every EC2 resource; each record of a resource embeds it.
type EC2Resource struct {
	Account   string
	Region    string
	ID        string // "vpc-0123456789abcdef0"
	CreatedAt time.Time
	// ClientToken is the idempotency token of its creation, empty without one; its EC2ClientToken
	// row lives as long as the resource.
	ClientToken string `json:",omitempty"`
}

// EC2Key returns the key of an EC2 resource in the table of its kind.
func EC2Key(account, region, id string) string { return store.Key(account, region, id) }

// Key returns the resource's key.
func (r EC2Resource) Key() string { return EC2Key(r.Account, r.Region, r.ID) }

// Identity returns the part that all EC2 resources share.
func (r EC2Resource) Identity() EC2Resource { return r }

// EC2Region reports that the resources which every account finds in a region exist: the default
// DHCP options and the default VPC with all that belongs to it. The row is created with them, once;
// a default VPC that its owner deletes does not come back.
//
// Writer: internal/aws/ec2.
type EC2Region struct {
	DefaultDHCPOptionsID string
}

// EC2Regions returns the table of regions that an account has used, by Key(account, region).
func EC2Regions(s *store.Store) store.Table[EC2Region] {
	return store.NewTable[EC2Region](s, "ec2regions")
}

// EC2Tags are the tags of one EC2 resource of any kind. No row, no tags. The row goes with the resource.
//
// Writer: internal/aws/ec2.
type EC2Tags struct {
	ResourceID   string
	ResourceType ec2types.ResourceType
	Tags         map[string]string
}

// EC2TagsTable returns the table of tags, by EC2Key of the resource.
func EC2TagsTable(s *store.Store) store.Table[EC2Tags] { return store.NewTable[EC2Tags](s, "ec2tags") }

// EC2ClientToken remembers which resource the request with a client token created. It is written in
// the transaction that creates the resource and deleted in the one that deletes it.
//
// Writer: internal/aws/ec2.
type EC2ClientToken struct {
	// RequestHash is a digest of the request's parameters: the token with others is refused.
	RequestHash string
	ResourceID  string
}

// EC2ClientTokenKey returns the key of a client token; kind is the prefix of the ids that it creates ("eni-").
func EC2ClientTokenKey(account, region, kind, token string) string {
	return store.Key(account, region, kind, token)
}

// EC2ClientTokens returns the table of client tokens, by EC2ClientTokenKey.
func EC2ClientTokens(s *store.Store) store.Table[EC2ClientToken] {
	return store.NewTable[EC2ClientToken](s, "ec2clienttokens")
}
