package record

import (
	"time"

	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Repository is a repository of Amazon ECR. Its images, with their tags, are in the registry (internal/host/image).
//
// Writer: internal/aws/ecr.
type Repository struct {
	Account   string
	Region    string
	Name      string // "team/app"
	CreatedAt time.Time
	// TagMutability reports whether a tag may be put on another image, Exclusions for which tags it is the other way
	// round.
	TagMutability ecrtypes.ImageTagMutability
	Exclusions    []ecrtypes.ImageTagMutabilityExclusionFilter `json:",omitempty"`
	// Policy is the repository policy, JSON; empty when there is none.
	Policy string `json:",omitempty"`
	// PolicyIDs are the unique IDs of the users and roles that Policy names, by ARN.
	PolicyIDs map[string]string `json:",omitempty"`
	Tags      map[string]string `json:",omitempty"`
}

// RepositoryKey returns the key of a repository.
func RepositoryKey(account, region, name string) string { return store.Key(account, region, name) }

// RepositoryARN returns the Amazon Resource Name of a repository.
func RepositoryARN(account, region, name string) string {
	return "arn:aws:ecr:" + region + ":" + account + ":repository/" + name
}

// ARN returns the repository's Amazon Resource Name.
func (r Repository) ARN() string { return RepositoryARN(r.Account, r.Region, r.Name) }

// Repositories returns the table of repositories, by RepositoryKey.
func Repositories(s *store.Store) store.Table[Repository] {
	return store.NewTable[Repository](s, "repositories")
}

// PullThroughCacheRule makes a part of an account's ECR registry a cache of a public registry: the repository
// "PREFIX/name" has the images of "UPSTREAM/name".
//
// Writer: internal/aws/ecr.
type PullThroughCacheRule struct {
	Account        string
	Region         string
	Prefix         string // "docker-hub"
	Upstream       string // "registry-1.docker.io"
	UpstreamPrefix string `json:",omitempty"` // before the name there; empty for none
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// PullThroughCacheRules returns the table of rules, by account, region and prefix.
func PullThroughCacheRules(s *store.Store) store.Table[PullThroughCacheRule] {
	return store.NewTable[PullThroughCacheRule](s, "pull-through-cache-rules")
}

// PullThroughCacheRuleKey returns the key of a rule.
func PullThroughCacheRuleKey(account, region, prefix string) string {
	return store.Key(account, region, prefix)
}
