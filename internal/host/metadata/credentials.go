package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// renew is the remaining lifetime at which credentials are replaced: EC2 has new ones at least five minutes before the
// end.
const renew = 15 * time.Minute

// maxIssued is the number of instances whose credentials are kept: those that asked last.
const maxIssued = 10_000

// cache is the credentials that instances were given, by instance. It is a saving, not a fact: a daemon that starts
// gives new ones.
type cache struct {
	mu  sync.Mutex
	all *simplelru.LRU[string, *issued]
}

type issued struct {
	mu          sync.Mutex // held while they are made
	role        string
	at          time.Time
	credentials aws.Credentials
}

func (c *cache) entryFor(instanceID string) *issued {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all, _ = simplelru.NewLRU[string, *issued](maxIssued, nil) // only another size is an error
	}
	i, ok := c.all.Get(instanceID)
	if !ok {
		i = &issued{}
		c.all.Add(instanceID, i)
	}
	return i
}

// profile returns the instance profile of an instance, or store.ErrNotFound: it may have been deleted, and created
// again under its name.
func (s *Service) profile(ctx context.Context, i record.Instance) (record.InstanceProfile, error) {
	name := i.InstanceProfileARN[strings.LastIndexByte(i.InstanceProfileARN, '/')+1:]
	row, err := record.InstanceProfiles(s.o.Store).Get(ctx, record.InstanceProfileKey(i.Account, name))
	if err == nil && i.InstanceProfileID != "" && row.Value.ID != i.InstanceProfileID {
		return row.Value, fmt.Errorf("the instance profile %s is another now: %w", name, store.ErrNotFound)
	}
	return row.Value, err
}

// credentialsDocument is a JSON document of iam/info or iam/security-credentials.
type credentialsDocument struct {
	Code        string
	Message     string `json:",omitempty"`
	LastUpdated string

	InstanceProfileARN string `json:"InstanceProfileArn,omitempty"`
	InstanceProfileID  string `json:"InstanceProfileId,omitempty"`

	Type            string `json:",omitempty"`
	AccessKeyID     string `json:"AccessKeyId,omitempty"`
	SecretAccessKey string `json:",omitempty"`
	Token           string `json:",omitempty"`
	Expiration      string `json:",omitempty"`
}

func (d credentialsDocument) marshalAt(t time.Time) ([]byte, error) {
	d.LastUpdated = t.UTC().Format(time.RFC3339)
	return json.MarshalIndent(d, "", "  ")
}

const manual = " Please see documentation at " +
	"https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html#troubleshoot_iam-ec2_errors-info-doc."

// profileInfo returns the document iam/info.
func (s *Service) profileInfo(ctx context.Context, i record.Instance) ([]byte, error) {
	p, err := s.profile(ctx, i)
	if errors.Is(err, store.ErrNotFound) {
		return credentialsDocument{Code: "InstanceProfileNotFound", Message: "Instance Profile not found." +
			manual}.marshalAt(s.o.Clock.Now())
	}
	if err != nil {
		return nil, err
	}
	return credentialsDocument{
		Code: "Success", InstanceProfileARN: p.ARN(), InstanceProfileID: p.ID,
	}.marshalAt(s.o.Clock.Now())
}

// roleCredentials returns the document iam/security-credentials/<role>. When EC2 may not assume the role, the document
// says so, as on EC2.
func (s *Service) roleCredentials(ctx context.Context, i record.Instance, role string) ([]byte, error) {
	given := s.credentials.entryFor(i.ID)
	given.mu.Lock()
	defer given.mu.Unlock()
	now := s.o.Clock.Now()
	if given.role != role || now.Add(renew).After(given.credentials.Expires) {
		fresh, err := s.o.Credentials(ctx, i, role)
		switch {
		case err == nil:
			given.role, given.at, given.credentials = role, now, fresh
		case ctx.Err() != nil:
			return nil, err
		case given.role == role && now.Before(given.credentials.Expires):
			s.log.Warn("could not renew an instance's credentials; it keeps those it has", "instance", i.ID, "role",
				role, "error", err)
		default:
			s.log.Warn("an instance gets no credentials", "instance", i.ID, "role", role, "error", err)
			return credentialsDocument{
				Code: "AssumeRoleUnauthorizedAccess", Message: "EC2 cannot assume the role " + role + "." + manual,
			}.marshalAt(now)
		}
	}
	c := given.credentials
	return credentialsDocument{
		Code: "Success", Type: "AWS-HMAC", AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey,
		Token:      c.SessionToken,
		Expiration: c.Expires.UTC().Format(time.RFC3339),
	}.marshalAt(given.at)
}
