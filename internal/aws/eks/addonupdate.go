package eks

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// addonUpdateHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) addonUpdateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateAddon, func(
			ctx context.Context, action string, in *eks.UpdateAddonInput,
		) ([]wire.Target, error) {
			return s.onAddon(ctx, action, in.ClusterName, in.AddonName)
		}),
	}
}

// UpdateAddon changes the version, configuration, role or pod identity associations of an add-on, and answers with the update object that follows the
// change. What the request leaves out stays, but for serviceAccountRoleArn: without it the add-on loses its role, and uses that of the node. An
// update to what is wanted already has everything applied once more.
func (s *Service) UpdateAddon(ctx context.Context, in *eks.UpdateAddonInput) (*eks.UpdateAddonOutput, error) {
	about := subject{cluster: aws.ToString(in.ClusterName), addon: aws.ToString(in.AddonName)}
	update, err := s.start(ctx, func() (at attempt, err error) {
		row, c, err := s.addon(ctx, about)
		if err != nil {
			return at, err
		}
		a := &row.Value
		if at, err = s.attempt(ctx, c.Value, owner{addon: a.ID}, types.UpdateTypeAddonUpdate, in.ClientRequestToken, in); at.before != nil || err != nil {
			return at, err
		}
		at.update.AddonName = a.Name
		state, last, err := s.observedAddon(ctx, *a)
		if err != nil {
			return at, err
		}
		switch now := addonStatus(*a, state, last); now {
		case types.AddonStatusCreating, types.AddonStatusUpdating, types.AddonStatusDeleting, types.AddonStatusDeleteFailed:
			return at, about.inUse("Addon %s cannot be updated as it is currently in %s state", a.Name, now)
		}
		active, err := s.activeCluster(ctx, c.Value, about)
		if err != nil {
			return at, err
		}
		before := a.Now(last)
		if a.Wanted, err = s.nextAddon(ctx, *a, about, active.Version, before, in); err != nil {
			return at, err
		}
		if in.PodIdentityAssociations != nil {
			if at.ops, err = s.associate(ctx, a, about, in.PodIdentityAssociations); err != nil {
				return at, err
			}
		}
		// The associations are changed at once, and stay so if the update fails.
		before.PodIdentityAssociations = a.Wanted.PodIdentityAssociations
		at.update.PreviousAddon, at.update.Params = &before, addonParams(in)
		a.Change++
		a.LastUpdateID, a.ModifiedAt = at.update.ID, at.update.CreatedAt
		// The cluster must not be deleted or upgraded in between.
		at.ops = append(at.ops, s.clusters.CheckOp(c), s.addons.UpdateOp(row))
		return at, nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateAddonOutput{Update: update}, nil
}

// nextAddon is what an add-on is to be after an update, checked; but for its pod identity associations.
func (s *Service) nextAddon(ctx context.Context, a record.Addon, about subject, kubernetes string, now record.AddonConfig, in *eks.UpdateAddonInput) (record.AddonConfig, error) {
	asked := in.AddonVersion
	if asked == nil {
		asked = &now.Version
	}
	_, version, err := s.addonVersion(about, kubernetes, asked)
	if err != nil {
		return now, err
	}
	now.Version, now.Conflicts = version.Version, orNone(in.ResolveConflicts)
	if in.ConfigurationValues != nil {
		now.Configuration = *in.ConfigurationValues
	}
	if err := checkConfiguration(about, version, now.Configuration); err != nil {
		return now, err
	}
	now.ServiceAccountRoleARN, err = s.serviceAccountRole(ctx, a, about, version, in.ServiceAccountRoleArn)
	return now, err
}

// addonParams are the parameters of an update object: what the request says.
func addonParams(in *eks.UpdateAddonInput) []types.UpdateParam {
	var params []types.UpdateParam
	said := func(kind types.UpdateParamType, value *string) {
		if value != nil {
			params = append(params, param(kind, *value))
		}
	}
	said(types.UpdateParamTypeAddonVersion, in.AddonVersion)
	said(types.UpdateParamTypeServiceAccountRoleArn, in.ServiceAccountRoleArn)
	said(types.UpdateParamTypeResolveConflicts, orNil(string(in.ResolveConflicts)))
	said(types.UpdateParamTypeConfigurationValues, in.ConfigurationValues)
	if in.PodIdentityAssociations != nil {
		type association struct {
			ServiceAccount string `json:"serviceAccount"`
			RoleARN        string `json:"roleArn"`
		}
		list := []association{}
		for _, p := range in.PodIdentityAssociations {
			list = append(list, association{aws.ToString(p.ServiceAccount), aws.ToString(p.RoleArn)})
		}
		said(types.UpdateParamTypePodIdentityAssociations, new(asJSON(list)))
	}
	return params
}
