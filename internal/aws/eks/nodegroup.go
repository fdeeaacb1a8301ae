package eks

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// A managed node group goes as a cluster does: what is wanted is recorded here ([record.Nodegroup], and [record.Update] for a change on its
// way), the node-group controller makes it so and writes what it sees ([record.NodegroupState]), and DescribeNodegroup puts the rows together.
// The controller ends updates and removes the row of a group whose deletion is complete.
//
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html

func nameOf(n record.Nodegroup) exception.About {
	return exception.About{Cluster: n.Cluster, Nodegroup: n.Name}
}

// observedGroup is what was last seen of a node group (nothing, for a new one) and its newest update (nothing, for one that was never updated).
func (s *Service) observedGroup(ctx context.Context, n record.Nodegroup) (state record.NodegroupState, last record.Update, err error) {
	state, err = resource.ObservedState(ctx, s.nodegroupStates, n.Key(), func(state record.NodegroupState) bool { return state.NodegroupID == n.ID })
	if err != nil {
		return state, last, err
	}
	last, err = s.LastUpdate(ctx, record.Cluster{Account: n.Account, Region: n.Region, Name: n.Cluster}, n.LastUpdateID)
	return state, last, err
}

// nodegroupStatus is a node group's status, from what is wanted, what was observed, and the newest update.
func nodegroupStatus(n record.Nodegroup, state record.NodegroupState, last record.Update) types.NodegroupStatus {
	switch {
	case n.Deleting && state.DeleteFailed:
		return types.NodegroupStatusDeleteFailed
	case n.Deleting:
		return types.NodegroupStatusDeleting
	case state.Failed:
		return types.NodegroupStatusCreateFailed
	case !state.Created:
		return types.NodegroupStatusCreating
	case last.Status == types.UpdateStatusInProgress:
		return types.NodegroupStatusUpdating
	case len(state.Issues) > 0:
		return types.NodegroupStatusDegraded
	}
	return types.NodegroupStatusActive
}

// scalingNow is the size that a node group has: the one of its Auto Scaling group, which may be changed by others, or the wanted one until
// that was carried out.
func scalingNow(n record.Nodegroup, state record.NodegroupState) types.NodegroupScalingConfig {
	if state.ScalingChange == n.ScalingChange && state.Scaling.MaxSize != nil {
		return state.Scaling
	}
	return n.Scaling
}

// madeFrom is what a group's nodes are made from: the old template while an update is on its way.
func madeFrom(n record.Nodegroup, state record.NodegroupState, last record.Update) record.NodegroupTemplate {
	if state.TemplateHash != "" {
		return state.Template
	}
	return n.Wanted(last)
}

// describeGroup is the node group as the API shows it.
func (s *Service) describeGroup(ctx context.Context, n record.Nodegroup) (*types.Nodegroup, error) {
	state, last, err := s.observedGroup(ctx, n)
	if err != nil {
		return nil, err
	}
	scaling, template := scalingNow(n, state), madeFrom(n, state, last)
	out := &types.Nodegroup{
		NodegroupName:    new(n.Name),
		NodegroupArn:     new(n.ARN()),
		ClusterName:      new(n.Cluster),
		Version:          resource.OrNil(template.Version),
		ReleaseVersion:   resource.OrNil(template.ReleaseVersion),
		CreatedAt:        new(n.CreatedAt),
		ModifiedAt:       new(n.ModifiedAt),
		Status:           nodegroupStatus(n, state, last),
		CapacityType:     n.CapacityType,
		ScalingConfig:    &scaling,
		InstanceTypes:    n.InstanceTypes,
		Subnets:          n.SubnetIDs,
		RemoteAccess:     n.RemoteAccess,
		AmiType:          n.AMIType,
		NodeRole:         new(n.NodeRoleARN),
		Labels:           n.Labels,
		Taints:           n.Taints,
		LaunchTemplate:   template.LaunchTemplate,
		UpdateConfig:     &n.UpdateConfig,
		NodeRepairConfig: n.Repair,
		WarmPoolConfig:   n.WarmPool,
		Health:           &types.NodegroupHealth{Issues: state.Issues},
		Resources:        &types.NodegroupResources{RemoteAccessSecurityGroup: resource.OrNil(state.RemoteAccessGroup)},
		Tags:             n.Tags,
	}
	if n.DiskSize > 0 {
		out.DiskSize = new(n.DiskSize)
	}
	if state.AutoScalingGroup != "" {
		out.Resources.AutoScalingGroups = []types.AutoScalingGroup{{Name: new(state.AutoScalingGroup)}}
	}
	if out.Health.Issues == nil {
		out.Health.Issues = []types.Issue{}
	}
	if out.NodeRepairConfig == nil {
		out.NodeRepairConfig = &types.NodeRepairConfig{Enabled: new(false)}
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out, nil
}

// nodegroupHandlers are the operations of this file, each with what its caller needs permission for.
func (s *Service) nodegroupHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeNodegroup, func(
			ctx context.Context, action string, in *eks.DescribeNodegroupInput,
		) ([]wire.Target, error) {
			return s.OnNodegroup(ctx, action, in.ClusterName, in.NodegroupName)
		}),
		wire.Handle(s.ListNodegroups, func(
			ctx context.Context, action string, in *eks.ListNodegroupsInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// DescribeNodegroup describes a managed node group. A waiter is answered when there is something to tell.
func (s *Service) DescribeNodegroup(ctx context.Context, in *eks.DescribeNodegroupInput) (*eks.DescribeNodegroupOutput, error) {
	cluster, name := aws.ToString(in.ClusterName), aws.ToString(in.NodegroupName)
	if err := s.awaitNodegroup(ctx, cluster, name); err != nil {
		return nil, err
	}
	row, _, err := s.Nodegroup(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	out, err := s.describeGroup(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeNodegroupOutput{Nodegroup: out}, nil
}

// ListNodegroups lists the managed node groups of a cluster.
func (s *Service) ListNodegroups(ctx context.Context, in *eks.ListNodegroupsInput) (*eks.ListNodegroupsOutput, error) {
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	groups, err := s.NodegroupsOf(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, groups, in.MaxResults, in.NextToken, func(n record.Nodegroup) string { return n.Name })
	if err != nil {
		return nil, err
	}
	names := make([]string, len(page))
	for i, n := range page {
		names[i] = n.Name
	}
	return &eks.ListNodegroupsOutput{Nodegroups: names, NextToken: next}, nil
}

// awaitNodegroup returns once the node group is neither being created, updated nor deleted, at once unless a waiter asks.
func (s *Service) awaitNodegroup(ctx context.Context, cluster, name string) error {
	at := resource.PlaceOf(ctx)
	key := record.NodegroupKey(at.Account, at.Region, cluster, name)
	return resource.Await(ctx, s.Nodegroups, key, func(ctx context.Context, n record.Nodegroup) (bool, error) {
		state, last, err := s.observedGroup(ctx, n)
		switch nodegroupStatus(n, state, last) {
		case types.NodegroupStatusCreating, types.NodegroupStatusUpdating, types.NodegroupStatusDeleting:
			return false, err
		}
		return true, err
	}, resource.Notify(s.nodegroupStates, key), resource.Notify(s.Updates, store.Prefix(at.Account, at.Region, cluster)))
}
