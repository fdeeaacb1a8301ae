package addon

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// updateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) updateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.UpdateAddon, func(
			ctx context.Context, action string, in *eks.UpdateAddonInput,
		) ([]wire.Target, error) {
			return s.OnAddon(ctx, action, in.ClusterName, in.AddonName)
		}),
	}
}

// UpdateAddon changes the version, configuration, role or pod identity associations of an add-on, and answers with the
// update object that follows the change. What the request leaves out stays, but for serviceAccountRoleArn: without it
// the add-on loses its role, and uses that of the node. An update to what is wanted already has everything applied once
// more.
func (s *Service) UpdateAddon(ctx context.Context, in *eks.UpdateAddonInput) (*eks.UpdateAddonOutput, error) {
	about := exception.About{Cluster: aws.ToString(in.ClusterName), Addon: aws.ToString(in.AddonName)}
	update, err := s.StartUpdate(ctx, func() (at resource.Attempt, err error) {
		row, c, err := s.Addon(ctx, about)
		if err != nil {
			return at, err
		}
		a := &row.Value
		owner := resource.UpdateOwner{AddonID: a.ID}
		at, err = s.NewAttempt(ctx, c.Value, owner, types.UpdateTypeAddonUpdate, in.ClientRequestToken, in)
		if at.Before != nil || err != nil {
			return at, err
		}
		at.Update.AddonName = a.Name
		state, last, err := s.observe(ctx, *a)
		if err != nil {
			return at, err
		}
		switch now := status(*a, state, last); now {
		case types.AddonStatusCreating,
			types.AddonStatusUpdating,
			types.AddonStatusDeleting,
			types.AddonStatusDeleteFailed:
			return at, about.InUse("Addon %s cannot be updated as it is currently in %s state", a.Name, now)
		}
		active, err := s.ActiveCluster(ctx, c.Value, about)
		if err != nil {
			return at, err
		}
		before := a.Now(last)
		if a.Wanted, err = s.nextConfig(ctx, *a, about, active.Version, before, in); err != nil {
			return at, err
		}
		if in.PodIdentityAssociations != nil {
			if at.Ops, err = s.associate(ctx, a, about, in.PodIdentityAssociations); err != nil {
				return at, err
			}
		}
		// The associations are changed at once, and stay so if the update fails.
		before.PodIdentityAssociations = a.Wanted.PodIdentityAssociations
		at.Update.PreviousAddon, at.Update.Params = &before, updateParams(in)
		a.Change++
		a.LastUpdateID, a.ModifiedAt = at.Update.ID, at.Update.CreatedAt
		// The cluster must not be deleted or upgraded in between.
		at.Ops = append(at.Ops, s.Clusters.CheckOp(c), s.Addons.UpdateOp(row))
		return at, nil
	})
	if err != nil {
		return nil, err
	}
	return &eks.UpdateAddonOutput{Update: update}, nil
}

// nextConfig validates an update and returns the configuration of the add-on after it, without its pod identity
// associations.
func (s *Service) nextConfig(
	ctx context.Context, a record.Addon, about exception.About, kubernetes string, now record.AddonConfig,
	in *eks.UpdateAddonInput,
) (record.AddonConfig, error) {
	asked := in.AddonVersion
	if asked == nil {
		asked = &now.Version
	}
	_, version, err := s.version(about, kubernetes, asked)
	if err != nil {
		return now, err
	}
	now.Version, now.Conflicts = version.Version, orNone(in.ResolveConflicts)
	if in.ConfigurationValues != nil {
		now.Configuration = *in.ConfigurationValues
	}
	if err := checkConfiguration(ctx, about, version, now.Configuration); err != nil {
		return now, err
	}
	now.ServiceAccountRoleARN, err = s.serviceAccountRole(ctx, a, about, version, in.ServiceAccountRoleArn)
	return now, err
}

// updateParams returns the parameters of an update object, from the request.
func updateParams(in *eks.UpdateAddonInput) []types.UpdateParam {
	var params []types.UpdateParam
	said := func(kind types.UpdateParamType, value *string) {
		if value != nil {
			params = append(params, resource.UpdateParam(kind, *value))
		}
	}
	said(types.UpdateParamTypeAddonVersion, in.AddonVersion)
	said(types.UpdateParamTypeServiceAccountRoleArn, in.ServiceAccountRoleArn)
	said(types.UpdateParamTypeResolveConflicts, resource.OrNil(string(in.ResolveConflicts)))
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
		said(types.UpdateParamTypePodIdentityAssociations, new(resource.JSON(list)))
	}
	return params
}
