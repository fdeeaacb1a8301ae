package nodegroup

import (
	"context"
	"errors"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// DefaultPerCluster is the default quota of managed node groups per cluster.
// https://docs.aws.amazon.com/general/latest/gr/eks.html#limits_eks
const DefaultPerCluster = 30

// QuotaVariable is the variable of the environment that raises the quota, as a request to Service Quotas does on AWS.
const QuotaVariable = "CORACLE_NODEGROUPS_PER_CLUSTER"

// createHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) createHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateNodegroup, func(
			ctx context.Context, action string, in *eks.CreateNodegroupInput,
		) ([]wire.Target, error) {
			targets, err := s.OnCluster(ctx, action, in.ClusterName, func(c resource.Conditions) { c.RequestTags(in.Tags) })
			at := resource.ScopeOf(ctx)
			n := record.Nodegroup{Account: at.Account, Region: at.Region, Cluster: aws.ToString(in.ClusterName),
				Name: aws.ToString(in.NodegroupName), ID: "*"}
			return resource.WithTagging(targets, n.ARN(), in.Tags), err
		}),
	}
}

// CreateNodegroup records a node group in CREATING; the node-group controller makes it ACTIVE.
func (s *Service) CreateNodegroup(
	ctx context.Context, in *eks.CreateNodegroupInput,
) (*eks.CreateNodegroupOutput, error) {
	hash := wire.Fingerprint(in)
	g := exception.About{Cluster: aws.ToString(in.ClusterName), Nodegroup: aws.ToString(in.NodegroupName)}
	for {
		c, err := s.Cluster(ctx, g.Cluster)
		if err != nil {
			return nil, err
		}
		if out, err := s.createdBefore(ctx, c.Value, g, in, hash); out != nil || err != nil {
			return out, err
		}
		active, err := s.ActiveCluster(ctx, c.Value, g)
		if err != nil {
			return nil, err
		}
		n, err := s.newNodegroup(ctx, active, g, in)
		if err != nil {
			return nil, err
		}
		n.ClientRequestToken, n.RequestHash = aws.ToString(in.ClientRequestToken), hash
		if err := s.principals.EnsureServiceLinkedRole(ctx, c.Value, servicePrincipal, serviceLinkedRole); err != nil {
			return nil, err
		}
		// The cluster's row is written, too: whoever deletes it at this moment has to look for node groups again.
		err = s.Store.Txn(ctx, s.Clusters.UpdateOp(c), s.Nodegroups.CreateOp(n.Key(), n))
		if resource.LostRace(err) {
			continue // see whether somebody made this very group
		} else if err != nil {
			return nil, err
		}
		return s.describeCreated(ctx, n)
	}
}

// createdBefore answers for a node group that exists: as the first time if it is this request again, else with an
// error.
func (s *Service) createdBefore(
	ctx context.Context, c record.Cluster, g exception.About, in *eks.CreateNodegroupInput, hash string,
) (*eks.CreateNodegroupOutput, error) {
	row, err := s.Nodegroups.Get(ctx, record.NodegroupKey(c.Account, c.Region, g.Cluster, g.Nodegroup))
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
		return nil, g.InUse("NodeGroup already exists with name %s and cluster name %s", g.Nodegroup, g.Cluster)
	}
	return s.describeCreated(ctx, row.Value)
}

func (s *Service) describeCreated(ctx context.Context, n record.Nodegroup) (*eks.CreateNodegroupOutput, error) {
	out, err := s.describe(ctx, n)
	if err != nil {
		return nil, err
	}
	out.Labels = n.Labels // as on EKS, left out when there are none
	return &eks.CreateNodegroupOutput{Nodegroup: out}, nil
}

// namePattern matches the names that the user guide allows.
// https://docs.aws.amazon.com/eks/latest/userguide/create-managed-node-group.html
var namePattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]*$`)

const longestName = 63

// newNodegroup validates a request and returns the node group that it asks for.
func (s *Service) newNodegroup(
	ctx context.Context, c record.Cluster, g exception.About, in *eks.CreateNodegroupInput,
) (record.Nodegroup, error) {
	var none record.Nodegroup
	switch {
	case len(g.Nodegroup) > longestName:
		return none, g.InvalidParameter(
			"nodegroupName can't be longer than %d characters, but %s has %d", longestName, g.Nodegroup, len(g.Nodegroup),
		)
	case !namePattern.MatchString(g.Nodegroup):
		return none, g.InvalidParameter(
			"The nodegroup name parameter contains invalid characters. It should begin with letter or digit and can "+
				"have any of the following characters: the set of Unicode letters, digits, hyphens and underscores, "+
				"but is %q",
			g.Nodegroup,
		)
	}
	groups, err := s.NodegroupsOf(ctx, c)
	if err != nil {
		return none, err
	}
	if len(groups) >= s.perCluster {
		return none, g.LimitExceeded(
			"Cluster %s has %d nodegroups, as many as the quota 'Managed node groups per cluster' allows. Delete "+
				"some, or raise the quota: coracle serve reads it from %s",
			c.Name,
			len(groups),
			QuotaVariable,
		)
	}
	now := s.Timestamp()
	n := record.Nodegroup{
		Account: c.Account, Region: c.Region, Cluster: c.Name, ClusterID: c.ID, Name: g.Nodegroup, ID: uuid.NewString(),
		CreatedAt: now, ModifiedAt: now,
		NodeRoleARN: aws.ToString(in.NodeRole), SubnetIDs: in.Subnets, Tags: in.Tags, ScalingChange: 1,
	}
	if fault := resource.TagFault(ctx, in.Tags); fault != "" {
		return none, g.InvalidParameter("%s", fault)
	}
	if n.Scaling, err = newScaling(g, in.ScalingConfig); err != nil {
		return none, err
	}
	updateConfig := types.NodegroupUpdateConfig{
		MaxUnavailable: new(int32(1)), UpdateStrategy: types.NodegroupUpdateStrategiesDefault,
	}
	if n.UpdateConfig, _, err = changeUpdateConfig(g, updateConfig, in.UpdateConfig); err != nil {
		return none, err
	}
	if err := checkUnavailable(g, n.UpdateConfig, n.Scaling); err != nil {
		return none, err
	}
	if n.Labels, _, err = changeLabels(g, nil, &types.UpdateLabelsPayload{AddOrUpdateLabels: in.Labels}); err != nil {
		return none, err
	}
	if n.Taints, _, err = changeTaints(g, nil, &types.UpdateTaintsPayload{AddOrUpdateTaints: in.Taints}); err != nil {
		return none, err
	}
	if n.Repair, _, err = changeRepair(g, nil, in.NodeRepairConfig); err != nil {
		return none, err
	}
	if n.CapacityType, err = capacityType(g, in.CapacityType); err != nil {
		return none, err
	}
	template, err := s.usersTemplate(ctx, g, in.LaunchTemplate)
	if err != nil {
		return none, err
	}
	if err := setImage(g, &n, c, template, in); err != nil {
		return none, err
	}
	if n.InstanceTypes, err = instanceTypes(g, n.AMIType, in.InstanceTypes, template); err != nil {
		return none, err
	}
	if n.WarmPool, _, err = changeWarmPool(g, n, nil, in.WarmPoolConfig); err != nil {
		return none, err
	}
	if n.DiskSize, err = diskSize(g, in.DiskSize, template); err != nil {
		return none, err
	}
	if err := s.checkNodeRole(ctx, g, n); err != nil {
		return none, err
	}
	if err := s.checkNodeSubnets(ctx, g, c, n.SubnetIDs); err != nil {
		return none, err
	}
	if n.RemoteAccess, err = s.remoteAccess(ctx, g, c, in.RemoteAccess, template); err != nil {
		return none, err
	}
	return n, s.checkLaunch(ctx, g, n, template)
}

// capacityType returns the purchase option of the nodes.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types
func capacityType(g exception.About, asked types.CapacityTypes) (types.CapacityTypes, error) {
	switch asked {
	case "":
		return types.CapacityTypesOnDemand, nil
	case types.CapacityTypesCapacityBlock:
		return "", g.InvalidParameter(
			"capacityType %s is not implemented by Coracle, which has no capacity reservations: use %s or %s",
			asked, types.CapacityTypesOnDemand, types.CapacityTypesSpot,
		)
	}
	return asked, nil
}
