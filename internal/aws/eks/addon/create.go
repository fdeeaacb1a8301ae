package addon

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// createHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) createHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateAddon, func(
			ctx context.Context, action string, in *eks.CreateAddonInput,
		) ([]wire.Target, error) {
			targets, err := s.OnCluster(ctx, action, in.ClusterName, func(c resource.Conditions) { c.RequestTags(in.Tags) })
			at := resource.ScopeOf(ctx)
			a := record.Addon{Account: at.Account, Region: at.Region, Cluster: aws.ToString(in.ClusterName),
				Name: aws.ToString(in.AddonName), ID: "*"}
			return resource.WithTagging(targets, a.ARN(), in.Tags), err
		}),
	}
}

// CreateAddon records an add-on in CREATING; the add-on controller makes it ACTIVE. One whose creation failed may be
// created again, with what this request says: it is the same add-on, tried once more.
func (s *Service) CreateAddon(ctx context.Context, in *eks.CreateAddonInput) (*eks.CreateAddonOutput, error) {
	about := exception.About{Cluster: aws.ToString(in.ClusterName), Addon: aws.ToString(in.AddonName)}
	hash := wire.Fingerprint(in)
	for {
		c, err := s.Cluster(ctx, about.Cluster)
		if err != nil {
			return nil, err
		}
		old, err := s.Addons.Copy(ctx, record.AddonKey(c.Value.Account, c.Value.Region, about.Cluster, about.Addon))
		exists := err == nil
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		retry := exists && old.Value.ClusterID == c.Value.ID // else it was left by an earlier cluster of that name
		if retry {
			repeated, err := wire.Repeated(
				ctx, in.ClientRequestToken, hash, old.Value.ClientRequestToken, old.Value.RequestHash,
			)
			if err != nil {
				return nil, err
			}
			if repeated {
				return s.describeCreated(ctx, old.Value)
			}
			if err := s.requireCreateFailed(ctx, old.Value, about); err != nil {
				return nil, err
			}
		}
		active, err := s.ActiveCluster(ctx, c.Value, about)
		if err != nil {
			return nil, err
		}
		id := uuid.NewString()
		if retry {
			id = old.Value.ID
		}
		a, err := s.newAddon(ctx, active, about, id, in)
		if err != nil {
			return nil, err
		}
		if retry {
			a.CreatedAt, a.Change = old.Value.CreatedAt, old.Value.Change+1
			if a.Tags, err = tagAgain(ctx, old.Value, in.Tags); err != nil {
				return nil, err
			}
		}
		ops, err := s.associate(ctx, &a, about, in.PodIdentityAssociations)
		if err != nil {
			return nil, err
		}
		a.ClientRequestToken, a.RequestHash = aws.ToString(in.ClientRequestToken), hash
		op := s.Addons.CreateOp(a.Key(), a)
		if exists {
			old.Value = a
			op = s.Addons.UpdateOp(old)
		}
		// The cluster must not be deleted or upgraded in between.
		err = s.Store.Txn(ctx, append(ops, s.Clusters.CheckOp(c), op)...)
		if resource.LostRace(err) {
			continue // see whether somebody made this very add-on
		} else if err != nil {
			return nil, err
		}
		return s.describeCreated(ctx, a)
	}
}

func (s *Service) describeCreated(ctx context.Context, a record.Addon) (*eks.CreateAddonOutput, error) {
	out, err := s.describe(ctx, a)
	if err != nil {
		return nil, err
	}
	return &eks.CreateAddonOutput{Addon: out}, nil
}

// requireCreateFailed refuses to create an add-on that is there, unless it failed to come up.
func (s *Service) requireCreateFailed(ctx context.Context, a record.Addon, about exception.About) error {
	state, last, err := s.observe(ctx, a)
	if err != nil {
		return err
	}
	if status(a, state, last) != types.AddonStatusCreateFailed {
		return about.InUse("Addon already exists.")
	}
	return nil
}

// newAddon validates a request and returns the add-on that it asks for, without its pod identity associations.
func (s *Service) newAddon(
	ctx context.Context, c record.Cluster, about exception.About, id string, in *eks.CreateAddonInput,
) (record.Addon, error) {
	var none record.Addon
	entry, version, err := s.version(about, c.Version, in.AddonVersion)
	if err != nil {
		return none, err
	}
	now := s.Timestamp()
	a := record.Addon{
		Account: c.Account, Region: c.Region, Cluster: c.Name, ClusterID: c.ID, Name: entry.Name, ID: id,
		CreatedAt: now, ModifiedAt: now,
		Publisher: entry.Publisher, Owner: entry.Owner, Marketplace: entry.Marketplace, Tags: in.Tags, Change: 1,
		Wanted: record.AddonConfig{
			Version: version.Version, Namespace: entry.DefaultNamespace,
			Configuration: aws.ToString(in.ConfigurationValues), Conflicts: orNone(in.ResolveConflicts),
		},
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return none, about.InvalidParameter("%s", fault)
	}
	if in.NamespaceConfig != nil && in.NamespaceConfig.Namespace != nil {
		a.Wanted.Namespace = *in.NamespaceConfig.Namespace
		if faults := validation.IsDNS1123Label(a.Wanted.Namespace); len(faults) > 0 {
			return none, about.InvalidParameter(
				"Namespace %s in namespaceConfig is invalid: %s", a.Wanted.Namespace, faults[0],
			)
		}
	}
	if err := checkConfiguration(ctx, about, version, a.Wanted.Configuration); err != nil {
		return none, err
	}
	a.Wanted.ServiceAccountRoleARN, err = s.serviceAccountRole(ctx, a, about, version, in.ServiceAccountRoleArn)
	return a, err
}

func orNone(r types.ResolveConflicts) types.ResolveConflicts {
	if r == "" {
		return types.ResolveConflictsNone
	}
	return r
}

// tagAgain returns the tags of an add-on that is created again: those of the request, and those of AWS services that it
// has. Whoever does it may tag it so and remove the tags that it has: policies judge them by its tags, as it is there.
func tagAgain(ctx context.Context, a record.Addon, wanted map[string]string) (map[string]string, error) {
	tags, removed := map[string]string{}, []string(nil)
	maps.Copy(tags, wanted)
	for key, value := range a.Tags {
		switch _, stays := wanted[key]; {
		case stays:
		case wire.MaySetTag(ctx, key):
			removed = append(removed, key)
		default:
			tags[key] = value
		}
	}
	var targets []wire.Target
	add := func(action string, edit func(resource.Conditions)) {
		t := resource.NewTarget(action, a.ARN())
		resource.Conditions(t.Conditions).ResourceTags(a.Tags)
		edit(t.Conditions)
		targets = append(targets, t)
	}
	if len(removed) > 0 {
		slices.Sort(removed)
		add("eks:UntagResource", func(c resource.Conditions) { c.List("aws:TagKeys", removed) })
	}
	if wire.CountTags(wanted) > 0 || len(a.Tags) > 0 && len(removed) == 0 {
		add("eks:TagResource", func(c resource.Conditions) { c.RequestTags(wanted) })
	}
	if len(targets) == 0 {
		return tags, nil
	}
	return tags, wire.Authorize(ctx, targets...)
}
