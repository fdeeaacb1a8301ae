package addon

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/catalog"
)

// Catalog is the catalog of add-ons: *[catalog.Catalog].
type Catalog interface {
	Addons() []catalog.Addon
	Addon(name string) (catalog.Addon, bool)
}

// version returns the requested version, or the default one, of an add-on for a cluster of that Kubernetes version.
func (s *Service) version(
	about exception.About, kubernetes string, asked *string,
) (catalog.Addon, catalog.Version, error) {
	entry, ok := s.catalog.Addon(about.Addon)
	if !ok || !slices.ContainsFunc(entry.Versions, func(v catalog.Version) bool { return v.Serves(kubernetes) }) {
		return entry, catalog.Version{}, about.InvalidParameter(
			"Addon %s specified is not supported in %s kubernetes version", about.Addon, kubernetes,
		)
	}
	var version catalog.Version
	if asked == nil {
		version, ok = entry.Default(kubernetes)
	} else {
		version, ok = entry.Version(*asked)
	}
	if !ok || !version.Serves(kubernetes) {
		return entry, version, about.InvalidParameter("Addon version specified is not supported")
	}
	return entry, version, nil
}

// checkConfiguration checks configurationValues against the schema of a version.
func checkConfiguration(ctx context.Context, about exception.About, v catalog.Version, values string) error {
	err := v.Check(ctx, values)
	var fault *catalog.ConfigurationError
	if errors.As(err, &fault) {
		return about.InvalidParameter("%s", fault.Error())
	}
	return err
}

// versionHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) versionHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeAddonVersions, wire.OnAll),
		wire.Handle(s.DescribeAddonConfiguration, wire.OnAll),
	}
}

// DescribeAddonVersions lists the add-ons there are, with their versions and the Kubernetes versions that these are
// for. With a Kubernetes version it lists only what may be used with that.
func (s *Service) DescribeAddonVersions(
	ctx context.Context, in *eks.DescribeAddonVersionsInput,
) (*eks.DescribeAddonVersionsOutput, error) {
	infos := []types.AddonInfo{}
	for _, a := range s.catalog.Addons() {
		if in.AddonName != nil && a.Name != *in.AddonName || !matchesFilter(in.Types, a.Type) ||
			!matchesFilter(in.Publishers, a.Publisher) ||
			!matchesFilter(in.Owners, a.Owner) {
			continue
		}
		info := types.AddonInfo{
			AddonName: new(a.Name), Type: resource.OrNil(a.Type), Publisher: resource.OrNil(a.Publisher),
			Owner: resource.OrNil(a.Owner), DefaultNamespace: resource.OrNil(a.DefaultNamespace),
			MarketplaceInformation: a.Marketplace,
		}
		for _, v := range a.Versions {
			if compatible := compatibilities(v, in.KubernetesVersion); len(compatible) > 0 {
				info.AddonVersions = append(info.AddonVersions, types.AddonVersionInfo{
					AddonVersion: new(v.Version), Architecture: v.Architectures, ComputeTypes: v.ComputeTypes,
					Compatibilities:       compatible,
					RequiresConfiguration: v.RequiresConfiguration, RequiresIamPermissions: v.RequiresIAMPermissions,
				})
			}
		}
		if len(info.AddonVersions) > 0 {
			infos = append(infos, info)
		}
	}
	page, next, err := wire.Page(
		ctx, infos, in.MaxResults, in.NextToken, func(i types.AddonInfo) string { return *i.AddonName },
	)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeAddonVersionsOutput{Addons: page, NextToken: next}, nil
}

// matchesFilter reports whether a filter lets a value through: one without values lets all.
func matchesFilter(filter []string, value string) bool {
	return len(filter) == 0 || slices.Contains(filter, value)
}

// compatibilities returns the Kubernetes versions that a version is for; only the wanted one, if one is given.
func compatibilities(v catalog.Version, wanted *string) []types.Compatibility {
	var all []types.Compatibility
	for _, c := range v.Compatibilities {
		if wanted == nil || c.Minor == *wanted {
			all = append(
				all,
				types.Compatibility{
					ClusterVersion:   new(c.Minor),
					PlatformVersions: []string{"*"},
					DefaultVersion:   c.Default,
				},
			)
		}
	}
	return all
}

// DescribeAddonConfiguration returns the configuration schema of a version of an add-on, and which of its service
// accounts take an IAM role.
func (s *Service) DescribeAddonConfiguration(
	_ context.Context, in *eks.DescribeAddonConfigurationInput,
) (*eks.DescribeAddonConfigurationOutput, error) {
	about := exception.About{Addon: aws.ToString(in.AddonName)}
	entry, ok := s.catalog.Addon(about.Addon)
	if !ok {
		return nil, about.InvalidParameter("Addon specified is not supported")
	}
	v, ok := entry.Version(aws.ToString(in.AddonVersion))
	if !ok {
		return nil, about.InvalidParameter("Addon version specified is not supported")
	}
	out := &eks.DescribeAddonConfigurationOutput{
		AddonName:           new(entry.Name),
		AddonVersion:        new(v.Version),
		ConfigurationSchema: new(string(v.Schema)),
	}
	for _, i := range v.Identities {
		if i.PodIdentity {
			out.PodIdentityConfiguration = append(
				out.PodIdentityConfiguration,
				types.AddonPodIdentityConfiguration{
					ServiceAccount:             new(i.ServiceAccount),
					RecommendedManagedPolicies: i.ManagedPolicies,
				},
			)
		}
	}
	return out, nil
}
