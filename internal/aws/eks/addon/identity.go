package addon

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// roleOf parses the ARN of a role that a request names for an add-on.
func roleOf(about exception.About, member, arn string) (principal.Principal, error) {
	p, ok := principal.Parse(arn)
	if !ok || p.Kind != "role" {
		return p, about.InvalidParameter("%s %s is not the ARN of an IAM role", member, arn)
	}
	return p, nil
}

// serviceAccountRole returns the role for an add-on's service account, which the caller must be allowed to pass. It
// does not check whether the role exists and lets the service account assume it: as on AWS, that shows when it is used.
// https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html
func (s *Service) serviceAccountRole(
	ctx context.Context, a record.Addon, about exception.About, v catalog.Version, arn *string,
) (string, error) {
	if arn == nil {
		return "", nil
	}
	p, err := roleOf(about, "serviceAccountRoleArn", *arn)
	if err != nil {
		return "", err
	}
	if len(v.Identities) == 0 {
		return "", about.InvalidParameter(
			"serviceAccountRoleArn can't be specified for addon %s: no service account of version %s uses an IAM role",
			about.Addon, v.Version,
		)
	}
	return *arn, principal.PassRole(ctx, p, principal.EKS, a.ARN())
}

// associationsOf returns the pod identity associations that an add-on owns.
func (s *Service) associationsOf(
	ctx context.Context, a record.Addon,
) ([]store.Row[record.PodIdentityAssociation], error) {
	rows, err := s.AssociationsIn(ctx, clusterOf(a))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(
		rows, func(r store.Row[record.PodIdentityAssociation]) bool { return r.Value.AddonID != a.ID },
	), nil
}

// associate changes the pod identity associations that an add-on owns to the wanted ones, and returns the operations to
// write with the add-on. The caller needs the permissions of the operations that would do the same.
// https://docs.aws.amazon.com/eks/latest/userguide/add-ons-iam.html
func (s *Service) associate(
	ctx context.Context, a *record.Addon, about exception.About, wanted []types.AddonPodIdentityAssociations,
) ([]store.Op, error) {
	roles, err := s.rolesOfPods(about, a.Wanted.Version, wanted)
	if err != nil {
		return nil, err
	}
	all, err := s.AssociationsIn(ctx, clusterOf(*a))
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	ids, now := []string{}, s.Timestamp()
	for _, row := range all {
		p := &row.Value
		role, want := roles[p.ServiceAccount]
		switch {
		case p.AddonID != a.ID && want && p.Namespace == a.Wanted.Namespace:
			return nil, about.InUse("Association already exists: %s", p.ID)
		case p.AddonID != a.ID:
		case !want:
			if err := wire.Authorize(ctx, resource.OnAssociation("eks:DeletePodIdentityAssociation", *p)); err != nil {
				return nil, err
			}
			ops = append(ops, s.Associations.DeleteOp(row))
		default:
			ids = append(ids, p.ID)
			delete(roles, p.ServiceAccount)
			if p.RoleARN == role.ARN {
				continue
			}
			change := resource.OnAssociation("eks:UpdatePodIdentityAssociation", *p)
			if err := s.checkPodRole(ctx, about, *p, role, change); err != nil {
				return nil, err
			}
			p.RoleARN, p.ModifiedAt = role.ARN, now
			ops = append(ops, s.Associations.UpdateOp(row))
		}
	}
	for _, w := range wanted { // those that are left, in the order of the request
		role, fresh := roles[*w.ServiceAccount]
		if !fresh {
			continue
		}
		p := record.PodIdentityAssociation{
			Account: a.Account, Region: a.Region, Cluster: a.Cluster, ClusterID: a.ClusterID, ID: principal.NewAssociationID(),
			Namespace: a.Wanted.Namespace, ServiceAccount: *w.ServiceAccount,
			RoleARN: role.ARN, AddonID: a.ID, OwnerARN: a.ARN(), CreatedAt: now, ModifiedAt: now,
		}
		create, err := s.OnCluster(ctx, "eks:CreatePodIdentityAssociation", &a.Cluster)
		if err != nil {
			return nil, err
		}
		if err := s.checkPodRole(ctx, about, p, role, create[0]); err != nil {
			return nil, err
		}
		ids = append(ids, p.ID)
		ops = append(ops, s.Associations.CreateOp(p.Key(), p))
	}
	a.Wanted.PodIdentityAssociations = ids
	return ops, nil
}

// rolesOfPods returns the wanted roles by service account. It refuses service accounts that no version of the add-on
// has.
func (s *Service) rolesOfPods(
	about exception.About, version string, wanted []types.AddonPodIdentityAssociations,
) (map[string]principal.Principal, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	entry, _ := s.catalog.Addon(about.Addon)
	v, _ := entry.Version(version)
	if !slices.ContainsFunc(v.Identities, func(i catalog.Identity) bool { return i.PodIdentity }) {
		return nil, about.InvalidParameter("Pod Identity feature is not supported for addon version: %s", version)
	}
	roles := map[string]principal.Principal{}
	for _, w := range wanted {
		account := aws.ToString(w.ServiceAccount)
		if !slices.ContainsFunc(
			v.Identities, func(i catalog.Identity) bool { return i.PodIdentity && i.ServiceAccount == account },
		) {
			return nil, about.InvalidParameter(
				"Service account %s in pod identity configuration is not supported for addon %s", account, about.Addon,
			)
		}
		if _, twice := roles[account]; twice {
			return nil, about.InvalidParameter(
				"Service account %s is specified more than once in pod identity configuration", account,
			)
		}
		role, err := roleOf(about, "roleArn", aws.ToString(w.RoleArn))
		if err != nil {
			return nil, err
		}
		roles[account] = role
	}
	return roles, nil
}

// checkPodRole demands that the caller may do what the target says, and may have pods assume the role for the
// association.
func (s *Service) checkPodRole(
	ctx context.Context, about exception.About, p record.PodIdentityAssociation, role principal.Principal,
	target wire.Target,
) error {
	if err := wire.Authorize(ctx, target); err != nil {
		return err
	}
	return s.principals.CheckPodRole(ctx, about, p, role)
}
