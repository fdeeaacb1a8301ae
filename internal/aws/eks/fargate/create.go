package fargate

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// DefaultPerCluster is the default quota of Fargate profiles per cluster.
// https://docs.aws.amazon.com/general/latest/gr/eks.html#limits_eks
const DefaultPerCluster = 10

// QuotaVariable is the variable of the environment that raises the quota, as a request to Service Quotas does on AWS.
const QuotaVariable = "CORACLE_FARGATE_PROFILES_PER_CLUSTER"

// createHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) createHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateFargateProfile, func(
			ctx context.Context, action string, in *eks.CreateFargateProfileInput,
		) ([]wire.Target, error) {
			targets, err := s.OnCluster(ctx, action, in.ClusterName, func(c resource.Conditions) { c.RequestTags(in.Tags) })
			at := resource.ScopeOf(ctx)
			p := record.FargateProfile{Account: at.Account, Region: at.Region, Cluster: aws.ToString(in.ClusterName),
				Name: aws.ToString(in.FargateProfileName), ID: "*"}
			return resource.WithTagging(targets, p.ARN(), in.Tags), err
		}),
	}
}

// CreateFargateProfile records a Fargate profile in CREATING; the Fargate controller makes it ACTIVE.
func (s *Service) CreateFargateProfile(
	ctx context.Context, in *eks.CreateFargateProfileInput,
) (*eks.CreateFargateProfileOutput, error) {
	hash := wire.Fingerprint(in)
	f := exception.About{Cluster: aws.ToString(in.ClusterName), FargateProfile: aws.ToString(in.FargateProfileName)}
	for {
		c, err := s.Cluster(ctx, f.Cluster)
		if err != nil {
			return nil, err
		}
		if out, err := s.createdBefore(ctx, c.Value, f, in, hash); out != nil || err != nil {
			return out, err
		}
		active, err := s.ActiveCluster(ctx, c.Value, f)
		if err != nil {
			return nil, err
		}
		p, err := s.newFargateProfile(ctx, active, f, in)
		if err != nil {
			return nil, err
		}
		p.ClientRequestToken, p.RequestHash = aws.ToString(in.ClientRequestToken), hash
		err = s.principals.EnsureServiceLinkedRole(ctx, c.Value, servicePrincipal, fargate.ServiceLinkedRole)
		if err != nil {
			return nil, err
		}
		// The cluster's row is written, too: whoever deletes it, or another profile of it, at this moment has to look
		// for profiles again.
		err = s.Store.Txn(ctx, s.Clusters.UpdateOp(c), s.FargateProfiles.CreateOp(p.Key(), p))
		if resource.LostRace(err) {
			continue // see whether somebody made this very profile
		} else if err != nil {
			return nil, err
		}
		return s.describeCreated(ctx, p)
	}
}

// createdBefore answers for a profile that exists: as the first time if it is this request again, else with an error.
func (s *Service) createdBefore(
	ctx context.Context, c record.Cluster, f exception.About, in *eks.CreateFargateProfileInput, hash string,
) (*eks.CreateFargateProfileOutput, error) {
	row, err := s.FargateProfiles.Get(ctx, record.FargateProfileKey(c.Account, c.Region, f.Cluster, f.FargateProfile))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	same, err := wire.Repeated(ctx, in.ClientRequestToken, hash, row.Value.ClientRequestToken, row.Value.RequestHash)
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, f.InUse("A Fargate Profile already exists with this name in this cluster.")
	}
	return s.describeCreated(ctx, row.Value)
}

func (s *Service) describeCreated(
	ctx context.Context, p record.FargateProfile,
) (*eks.CreateFargateProfileOutput, error) {
	out, err := s.describe(ctx, p)
	if err != nil {
		return nil, err
	}
	return &eks.CreateFargateProfileOutput{FargateProfile: out}, nil
}

// newFargateProfile validates a request and returns the profile that it asks for.
func (s *Service) newFargateProfile(
	ctx context.Context, c record.Cluster, f exception.About, in *eks.CreateFargateProfileInput,
) (record.FargateProfile, error) {
	var none record.FargateProfile
	if err := checkName(f); err != nil {
		return none, err
	}
	profiles, err := s.FargateProfilesOf(ctx, c)
	if err != nil {
		return none, err
	}
	if len(profiles) >= s.perCluster {
		return none, f.LimitExceeded(
			"Cluster %s has %d Fargate profiles, as many as the quota 'Fargate profiles per cluster' allows. Delete "+
				"some, or raise the quota: coracle serve reads it from %s",
			c.Name,
			len(profiles),
			QuotaVariable,
		)
	}
	if other, status, err := s.firstOf(ctx, profiles, changing); err != nil {
		return none, err
	} else if other != "" {
		return none, f.InUse(
			"Cannot create Fargate Profile %s because cluster %s currently has Fargate profile %s in status %s",
			f.FargateProfile, c.Name, other, status,
		)
	}
	p := record.FargateProfile{
		Account: c.Account, Region: c.Region, Cluster: c.Name, ClusterID: c.ID, Name: f.FargateProfile,
		ID: uuid.NewString(), CreatedAt: s.Timestamp(),
		PodExecutionRoleARN: aws.ToString(in.PodExecutionRoleArn), Tags: in.Tags,
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return none, f.InvalidParameter("%s", fault)
	}
	if p.Selectors, err = newSelectors(f, in.Selectors); err != nil {
		return none, err
	}
	if err := s.checkRole(ctx, f, c, p); err != nil {
		return none, err
	}
	p.SubnetIDs, err = s.privateSubnets(ctx, f, c, in.Subnets)
	return p, err
}

// firstOf returns the name and status of the first profile whose status is one of those; "" if there is none.
func (s *Service) firstOf(
	ctx context.Context, profiles []record.FargateProfile, is func(types.FargateProfileStatus) bool,
) (name string, status types.FargateProfileStatus, err error) {
	for _, p := range profiles {
		state, err := s.observe(ctx, p)
		if err != nil {
			return "", "", err
		}
		if status := record.FargateProfileStatus(p, state); is(status) {
			return p.Name, status, nil
		}
	}
	return "", "", nil
}

// namePattern matches the names that EKS allows.
var namePattern = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}_-]*$`)

const (
	reservedPrefix = "eks-"
	longestName    = 100 // characters
)

// checkName demands a name that EKS allows, and that can be the value of the label eks.amazonaws.com/fargate-profile:
// EKS takes others, but every pod of such a profile would be refused.
func checkName(f exception.About) error {
	name := f.FargateProfile
	switch {
	case utf8.RuneCountInString(name) > longestName:
		return f.InvalidParameter(
			"The Fargate profile name parameter should not be greater than %d characters.", longestName,
		)
	case !namePattern.MatchString(name):
		return f.InvalidParameter(
			"The Fargate profile name parameter contains invalid characters. It should begin with letter or digit and " +
				"can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores.",
		)
	case strings.HasPrefix(name, reservedPrefix):
		return f.InvalidParameter("The fargate profile name starts with the reserved prefix: '%s'.", reservedPrefix)
	}
	if faults := validation.IsValidLabelValue(name); len(faults) > 0 {
		return f.InvalidParameter(
			"The Fargate profile name parameter is the value of a label of the profile's pods, which %s can't be: %s",
			name, faults[0],
		)
	}
	return nil
}
