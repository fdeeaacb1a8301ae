package podidentity

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// maxAssociations is the quota of associations of a cluster.
// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const maxAssociations = 5000

// changeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) changeHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreatePodIdentityAssociation, func(
			ctx context.Context, action string, in *eks.CreatePodIdentityAssociationInput,
		) ([]wire.Target, error) {
			targets, err := s.OnCluster(
				ctx, action, in.ClusterName, func(c resource.Conditions) { c.RequestTags(in.Tags) },
			)
			at := resource.ScopeOf(ctx)
			p := record.PodIdentityAssociation{Account: at.Account, Region: at.Region,
				Cluster: aws.ToString(in.ClusterName), ID: "*"}
			return resource.WithTagging(targets, p.ARN(), in.Tags), err
		}),
		wire.Handle(s.UpdatePodIdentityAssociation, func(
			ctx context.Context, action string, in *eks.UpdatePodIdentityAssociationInput,
		) ([]wire.Target, error) {
			return s.onAssociation(ctx, action, in.ClusterName, in.AssociationId)
		}),
		wire.Handle(s.DeletePodIdentityAssociation, func(
			ctx context.Context, action string, in *eks.DeletePodIdentityAssociationInput,
		) ([]wire.Target, error) {
			return s.onAssociation(ctx, action, in.ClusterName, in.AssociationId)
		}),
	}
}

// CreatePodIdentityAssociation gives the pods of a service account an IAM role. Neither the namespace nor the service
// account have to exist yet.
func (s *Service) CreatePodIdentityAssociation(
	ctx context.Context, in *eks.CreatePodIdentityAssociationInput,
) (*eks.CreatePodIdentityAssociationOutput, error) {
	hash := wire.Fingerprint(in)
	for {
		cluster, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
		if err != nil {
			return nil, err
		}
		c, about := cluster.Value, exception.About{Cluster: cluster.Value.Name}
		p := record.PodIdentityAssociation{
			Account: c.Account, Region: c.Region, Cluster: c.Name, ClusterID: c.ID, ID: principal.NewAssociationID(),
			Namespace: aws.ToString(in.Namespace), ServiceAccount: aws.ToString(in.ServiceAccount), Tags: in.Tags,
			CreatedAt: s.Timestamp(), ModifiedAt: s.Timestamp(),
			ClientRequestToken: aws.ToString(in.ClientRequestToken), RequestHash: hash,
		}
		other, taken, err := resource.AssociationOf(ctx, s.Associations, c, p.Namespace, p.ServiceAccount)
		if err != nil {
			return nil, err
		}
		if taken {
			same, err := wire.Repeated(
				ctx, in.ClientRequestToken, hash, other.ClientRequestToken, other.RequestHash,
			)
			if err != nil {
				return nil, err
			}
			if same {
				return &eks.CreatePodIdentityAssociationOutput{Association: describe(other)}, nil
			}
			return nil, about.InUse("Association already exists: %s", other.ID)
		}
		if err := checkSubject(ctx, about, p); err != nil {
			return nil, err
		}
		if c.Deleting {
			return nil, about.InvalidRequest("Cluster '%s' is not in ACTIVE status", c.Name)
		}
		if s.CountAssociations(c) >= maxAssociations {
			return nil, about.LimitExceeded(
				"The quota of %d EKS Pod Identity associations of a cluster has been reached", maxAssociations,
			)
		}
		e := edit{in.RoleArn, in.TargetRoleArn, in.DisableSessionTags, in.Policy}
		if err := s.apply(ctx, about, &p, e); err != nil {
			return nil, err
		}
		// Every association writes the cluster: two for one service account do not come about.
		err = s.Store.Txn(ctx, s.Clusters.UpdateOp(cluster), s.Associations.CreateOp(p.Key(), p))
		if resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.CreatePodIdentityAssociationOutput{Association: describe(p)}, nil
	}
}

// checkSubject demands that a service account can have its name.
func checkSubject(ctx context.Context, about exception.About, p record.PodIdentityAssociation) error {
	if faults := validation.IsDNS1123Label(p.Namespace); len(faults) > 0 {
		return about.InvalidParameter("namespace %q is not the name of a Kubernetes namespace: %s", p.Namespace,
			faults[0])
	}
	if faults := validation.IsDNS1123Subdomain(p.ServiceAccount); len(faults) > 0 {
		return about.InvalidParameter("serviceAccount %q is not the name of a Kubernetes service account: %s",
			p.ServiceAccount, faults[0])
	}
	if fault := resource.TagFault(ctx, p.Tags); fault != "" {
		return about.InvalidParameter("%s", fault)
	}
	return nil
}

// edit has the members that requests to create and to change an association share.
type edit struct {
	role, target       *string
	disableSessionTags *bool
	policy             *string
}

// apply changes an association as a request asks, if the caller may pass its roles.
func (s *Service) apply(
	ctx context.Context, about exception.About, p *record.PodIdentityAssociation, e edit,
) error {
	if e.disableSessionTags != nil {
		p.DisableSessionTags = *e.disableSessionTags
	}
	if e.policy != nil {
		p.SessionPolicy = *e.policy
		if p.SessionPolicy != "" {
			if err := principal.CheckSessionPolicy(about, p.SessionPolicy); err != nil {
				return err
			}
		}
	}
	if p.SessionPolicy != "" && !p.DisableSessionTags {
		return about.InvalidParameter("disableSessionTags must be true when policy is specified")
	}
	if e.role != nil {
		p.RoleARN = *e.role
	}
	role, ok := principal.Parse(p.RoleARN)
	if !ok || role.Kind != "role" {
		return about.InvalidParameter("roleArn %s is not the ARN of an IAM role", p.RoleARN)
	}
	if e.target != nil {
		p.TargetRoleARN = *e.target
		if p.TargetRoleARN == "" {
			p.ExternalID = ""
		} else if target, ok := principal.Parse(p.TargetRoleARN); !ok || target.Kind != "role" {
			return about.InvalidParameter("targetRoleArn %s is not the ARN of an IAM role", p.TargetRoleARN)
		} else if p.ExternalID == "" {
			p.ExternalID = uuid.NewString()
		}
	}
	return s.principals.CheckPodRole(ctx, about, *p, role)
}

// UpdatePodIdentityAssociation changes the roles of an association, its session tags or its policy.
func (s *Service) UpdatePodIdentityAssociation(
	ctx context.Context, in *eks.UpdatePodIdentityAssociationInput,
) (*eks.UpdatePodIdentityAssociationOutput, error) {
	for {
		row, cluster, err := s.association(ctx, in.ClusterName, in.AssociationId)
		if err != nil {
			return nil, err
		}
		p, about := row.Value, exception.About{Cluster: cluster.Value.Name}
		if err := checkOwner(about, p, "updated"); err != nil {
			return nil, err
		}
		e := edit{in.RoleArn, in.TargetRoleArn, in.DisableSessionTags, in.Policy}
		if e.role == nil && e.target == nil && e.disableSessionTags == nil && e.policy == nil {
			return nil, about.InvalidParameter("No changes needed for the pod identity association")
		}
		if err := s.apply(ctx, about, &p, e); err != nil {
			return nil, err
		}
		p.ModifiedAt = s.Timestamp()
		row.Value = p
		if _, err := s.Associations.Update(ctx, row); resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.UpdatePodIdentityAssociationOutput{Association: describe(p)}, nil
	}
}

// DeletePodIdentityAssociation takes the role from the pods of a service account. Those that run keep their credentials
// until these expire.
func (s *Service) DeletePodIdentityAssociation(
	ctx context.Context, in *eks.DeletePodIdentityAssociationInput,
) (*eks.DeletePodIdentityAssociationOutput, error) {
	for {
		row, cluster, err := s.association(ctx, in.ClusterName, in.AssociationId)
		if err != nil {
			return nil, err
		}
		if err := checkOwner(exception.About{Cluster: cluster.Value.Name}, row.Value, "deleted"); err != nil {
			return nil, err
		}
		if err := s.Associations.Delete(ctx, row); resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return &eks.DeletePodIdentityAssociationOutput{Association: describe(row.Value)}, nil
	}
}

// checkOwner demands that no add-on owns an association.
func checkOwner(about exception.About, p record.PodIdentityAssociation, change string) error {
	if p.OwnerARN == "" {
		return nil
	}
	return about.InvalidRequest(
		"Association %s can't be %s because it is owned by %s: change the add-on instead", p.ID, change, p.OwnerARN,
	)
}
