package capability

import (
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/coracle-eks/coracle/internal/aws/eks/accesspolicy"
	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// defaultArgoNamespace is the namespace of Argo CD unless the request names another.
const defaultArgoNamespace = "argocd"

// createHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) createHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateCapability, func(
			ctx context.Context, action string, in *eks.CreateCapabilityInput,
		) ([]wire.Target, error) {
			targets, err := s.OnCluster(ctx, action, in.ClusterName, func(c resource.Conditions) { c.RequestTags(in.Tags) })
			at := resource.ScopeOf(ctx)
			c := record.Capability{
				Account: at.Account, Region: at.Region, Cluster: aws.ToString(in.ClusterName),
				Name: aws.ToString(in.CapabilityName), Type: in.Type, ID: "*",
			}
			return resource.WithTagging(targets, c.ARN(), in.Tags), err
		}),
	}
}

// CreateCapability records a capability in CREATING; the capability controller makes it ACTIVE. A cluster has one
// capability of each type.
func (s *Service) CreateCapability(
	ctx context.Context, in *eks.CreateCapabilityInput,
) (*eks.CreateCapabilityOutput, error) {
	name, hash := aws.ToString(in.ClusterName), wire.Fingerprint(in)
	about := exception.About{Cluster: name}
	for {
		cluster, err := s.Cluster(ctx, name)
		if err != nil {
			return nil, err
		}
		if out, err := s.createdBefore(ctx, cluster.Value, in, hash); out != nil || err != nil {
			return out, err
		}
		active, err := s.ActiveCluster(ctx, cluster.Value, about)
		if err != nil {
			return nil, err
		}
		c, err := newCapability(ctx, active, in)
		if err != nil {
			return nil, err
		}
		c.ID, c.CreatedAt = uuid.NewString(), s.Timestamp()
		c.ModifiedAt, c.ClientRequestToken, c.RequestHash = c.CreatedAt, aws.ToString(in.ClientRequestToken), hash
		access, err := s.grantAccess(ctx, cluster.Value, c, c.Wanted.RoleARN)
		if err != nil {
			return nil, err
		}
		// The cluster's row is written, too: whoever deletes it, or makes another capability of the type, at this moment
		// has to look for capabilities again.
		err = s.Store.Txn(ctx, append(access, s.Clusters.UpdateOp(cluster), s.Capabilities.CreateOp(c.Key(), c))...)
		if resource.LostRace(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		return s.describeCreated(ctx, c)
	}
}

// createdBefore answers for a capability with the name or the type of the request that exists: as the first time if it
// is this request again, else with an error.
func (s *Service) createdBefore(
	ctx context.Context, cluster record.Cluster, in *eks.CreateCapabilityInput, hash string,
) (*eks.CreateCapabilityOutput, error) {
	all, err := s.CapabilitiesOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	about := exception.About{Cluster: cluster.Name}
	for _, c := range all {
		if c.Name != aws.ToString(in.CapabilityName) {
			continue
		}
		same, err := wire.Repeated(ctx, in.ClientRequestToken, hash, c.ClientRequestToken, c.RequestHash)
		if err != nil {
			return nil, err
		}
		if same {
			return s.describeCreated(ctx, c)
		}
		return nil, about.InUse("Capability already exists with name %s and cluster name %s", c.Name, cluster.Name)
	}
	for _, c := range all {
		if c.Type == in.Type {
			return nil, about.InUse(
				"Capability of type %s already exists in cluster %s: %s", c.Type, cluster.Name, c.Name,
			)
		}
	}
	return nil, nil
}

func (s *Service) describeCreated(ctx context.Context, c record.Capability) (*eks.CreateCapabilityOutput, error) {
	out, err := s.describe(ctx, c)
	if err != nil {
		return nil, err
	}
	return &eks.CreateCapabilityOutput{Capability: out}, nil
}

// namePattern matches the names that the API reference allows. AWS does not say how long they may be; that of a cluster
// has 100 characters.
var namePattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// newCapability validates a request and returns the capability that it asks for.
func newCapability(
	ctx context.Context, cluster record.Cluster, in *eks.CreateCapabilityInput,
) (record.Capability, error) {
	about, name := exception.About{Cluster: cluster.Name}, aws.ToString(in.CapabilityName)
	c := record.Capability{
		Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name, ClusterID: cluster.ID, Name: name,
		Type: in.Type, DeletePropagationPolicy: in.DeletePropagationPolicy, Tags: in.Tags, Change: 1,
		Wanted: record.CapabilityConfig{RoleARN: aws.ToString(in.RoleArn)},
	}
	switch {
	case !namePattern.MatchString(name):
		return c, about.InvalidParameter("The capability name %s is invalid: it can contain only alphanumeric characters, "+
			"hyphens and underscores, must start with an alphanumeric character, and can't be longer than 100 characters",
			name)
	case !slices.Contains(in.Type.Values(), in.Type):
		return c, about.InvalidParameter(
			"type %s is invalid. Valid types are: %v", in.Type, in.Type.Values(),
		)
	case in.DeletePropagationPolicy != types.CapabilityDeletePropagationPolicyRetain:
		return c, about.InvalidParameter(
			"deletePropagationPolicy %s is invalid: the only supported value is RETAIN", in.DeletePropagationPolicy,
		)
	case cluster.AuthenticationMode == types.AuthenticationModeConfigMap:
		return c, about.InvalidRequest("The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] " +
			"to perform this operation.")
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return c, about.InvalidParameter("%s", fault)
	}
	config := in.Configuration
	if config == nil {
		config = &types.CapabilityConfigurationRequest{}
	}
	if err := checkSections(about, in.Type, config.Ack != nil, config.ArgoCd != nil); err != nil {
		return c, err
	}
	var err error
	switch in.Type {
	case types.CapabilityTypeAck:
		c.Wanted.Ack = newAck(config.Ack)
	case types.CapabilityTypeArgocd:
		c.Wanted.ArgoCD, err = newArgoCD(about, cluster, config.ArgoCd)
	}
	return c, err
}

// checkSections demands that the configuration of a capability is that of its type.
func checkSections(about exception.About, of types.CapabilityType, ack, argoCD bool) error {
	switch {
	case ack && of != types.CapabilityTypeAck:
		return about.InvalidParameter("configuration.ack can't be specified for capabilities of type %s", of)
	case argoCD && of != types.CapabilityTypeArgocd:
		return about.InvalidParameter("configuration.argoCd can't be specified for capabilities of type %s", of)
	}
	return nil
}

func newAck(in *types.AckConfigRequest) *types.AckConfigResponse {
	if in == nil {
		in = &types.AckConfigRequest{}
	}
	return &types.AckConfigResponse{
		DisabledServices: in.DisabledServices, EnableCrossNamespace: aws.Bool(aws.ToBool(in.EnableCrossNamespace)),
	}
}

// identityCenterARN matches the ARN of an instance of IAM Identity Center.
var identityCenterARN = regexp.MustCompile(`^arn:aws[a-z-]*:sso:::instance/(sso)?ins-[0-9A-Za-z.-]{16}$`)

func newArgoCD(
	about exception.About, cluster record.Cluster, in *types.ArgoCdConfigRequest,
) (*types.ArgoCdConfigResponse, error) {
	if in == nil || in.AwsIdc == nil {
		return nil, about.InvalidParameter("configuration.argoCd.awsIdc is required for capabilities of type ARGOCD")
	}
	out := &types.ArgoCdConfigResponse{
		AwsIdc: &types.ArgoCdAwsIdcConfigResponse{
			IdcInstanceArn: in.AwsIdc.IdcInstanceArn, IdcRegion: in.AwsIdc.IdcRegion,
		},
		EndpointPrefix: in.EndpointPrefix, Namespace: in.Namespace, RbacRoleMappings: in.RbacRoleMappings,
	}
	if arn := aws.ToString(in.AwsIdc.IdcInstanceArn); !identityCenterARN.MatchString(arn) {
		return nil, about.InvalidParameter("idcInstanceArn %s is not the ARN of an IAM Identity Center instance", arn)
	}
	if aws.ToString(out.AwsIdc.IdcRegion) == "" {
		out.AwsIdc.IdcRegion = aws.String(cluster.Region)
	}
	if out.Namespace == nil {
		out.Namespace = aws.String(defaultArgoNamespace)
	}
	if faults := validation.IsDNS1123Label(*out.Namespace); len(faults) > 0 {
		return nil, about.InvalidParameter("namespace %q is not the name of a Kubernetes namespace: %s", *out.Namespace,
			faults[0])
	}
	if in.NetworkAccess != nil {
		out.NetworkAccess = &types.ArgoCdNetworkAccessConfigResponse{VpceIds: in.NetworkAccess.VpceIds}
	}
	return out, checkRoleMappings(about, in.RbacRoleMappings)
}

// checkRoleMappings demands that each role of Argo CD is mapped once, to somebody.
func checkRoleMappings(about exception.About, mappings []types.ArgoCdRoleMapping) error {
	seen := map[types.ArgoCdRole]bool{}
	for _, m := range mappings {
		switch {
		case !slices.Contains(m.Role.Values(), m.Role):
			return about.InvalidParameter("role %s is invalid. Valid roles are: %v", m.Role, m.Role.Values())
		case seen[m.Role]:
			return about.InvalidParameter("role %s has more than one mapping", m.Role)
		case len(m.Identities) == 0:
			return about.InvalidParameter("the mapping of role %s has no identities", m.Role)
		}
		seen[m.Role] = true
		for _, id := range m.Identities {
			if !slices.Contains(id.Type.Values(), id.Type) {
				return about.InvalidParameter(
					"type %s of an identity is invalid. Valid types are: %v", id.Type, id.Type.Values(),
				)
			}
		}
	}
	return nil
}

// policies returns the access policies that the role of a capability needs. Those of types that do not run here get
// none.
// https://docs.aws.amazon.com/eks/latest/userguide/capabilities-security.html
func policies(of types.CapabilityType) []string {
	if of == types.CapabilityTypeKro {
		return []string{accesspolicy.KRO}
	}
	return nil
}

// grantAccess demands that the caller may pass a role to a capability, and that EKS may assume it, and returns what
// gives the role its access to the cluster.
func (s *Service) grantAccess(
	ctx context.Context, cluster record.Cluster, c record.Capability, roleARN string,
) ([]store.Op, error) {
	about := exception.About{Cluster: cluster.Name}
	role, ok := principal.Parse(roleARN)
	switch {
	case !ok || role.Kind != "role":
		return nil, about.InvalidParameter("roleArn %s is not the ARN of an IAM role", roleARN)
	case role.ServiceLinked():
		return nil, about.InvalidParameter("roleArn %s is a service-linked role, which can't be the role of a capability",
			roleARN)
	}
	if err := principal.PassRole(ctx, role, principal.Capabilities, c.ARN()); err != nil {
		return nil, err
	}
	exists, trusts, err := s.principals.Assumable(
		ctx, role, principal.Capabilities, principal.CapabilityTrust(c), "sts:AssumeRole", "sts:TagSession",
	)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, about.InvalidParameter("Role provided in the request does not exist.")
	case !trusts:
		return nil, about.InvalidParameter("The trust policy for the provided role is invalid. The policy must include "+
			"sts:AssumeRole and sts:TagSession actions granting access to the AWS service %s", principal.Capabilities)
	}
	wanted := policies(c.Type)
	if len(wanted) == 0 {
		return nil, nil
	}
	return s.entries.RoleEntryOp(ctx, cluster, role, wanted...)
}
