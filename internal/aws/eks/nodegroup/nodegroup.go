// Package nodegroup serves the operations of the EKS API on managed node groups.
//
// It records the desired state ([record.Nodegroup], and [record.Update] for a change under way). The node-group
// controller reconciles it and records what it observes ([record.NodegroupState]), and DescribeNodegroup puts the two
// together. The controller ends updates and removes the record of a group whose deletion is complete.
//
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
package nodegroup

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures a Service.
type Options struct {
	Records    *resource.Records
	Principals *principal.Directory
	EC2        EC2
	// PerCluster is the quota of managed node groups, [DefaultPerCluster] unless set.
	PerCluster int
}

// Service serves the operations on managed node groups.
type Service struct {
	*resource.Records
	principals      *principal.Directory
	nodegroupStates store.Table[record.NodegroupState]
	subnets         store.Table[record.Subnet]
	securityGroups  store.Table[record.SecurityGroup]
	keyPairNames    store.Table[record.KeyPairName]
	ec2             EC2
	perCluster      int

	launchTemplates        store.Table[record.LaunchTemplate]
	launchTemplateNames    store.Table[record.LaunchTemplateName]
	launchTemplateVersions store.Table[record.LaunchTemplateVersion]
}

// New returns the service over the records.
func New(o Options) *Service {
	if o.PerCluster == 0 {
		o.PerCluster = DefaultPerCluster
	}
	rows := o.Records.Store
	return &Service{
		Records:         o.Records,
		principals:      o.Principals,
		nodegroupStates: record.NodegroupStates(rows),
		subnets:         record.Subnets(rows),
		securityGroups:  record.SecurityGroups(rows),
		keyPairNames:    record.KeyPairNames(rows),
		ec2:             o.EC2,
		perCluster:      o.PerCluster,

		launchTemplates:        record.LaunchTemplates(rows),
		launchTemplateNames:    record.LaunchTemplateNames(rows),
		launchTemplateVersions: record.LaunchTemplateVersions(rows),
	}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{
		s.handlers(), s.createHandlers(), s.deleteHandlers(), s.updateHandlers(), s.versionHandlers(),
	} {
		mux.Register(wire.EKS, handlers...)
	}
}

// CountByStatus returns how many node groups of all accounts have each status.
func (s *Service) CountByStatus(ctx context.Context) (map[string]int, error) {
	rows, err := s.Nodegroups.List(ctx, "")
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, row := range rows {
		state, last, err := s.observe(ctx, row.Value)
		if err != nil {
			return nil, err
		}
		counts[string(status(row.Value, state, last))]++
	}
	return counts, nil
}

func nameOf(n record.Nodegroup) exception.About {
	return exception.About{Cluster: n.Cluster, Nodegroup: n.Name}
}

// observe returns the observed state of a node group (zero for a new one) and its newest update (zero for one that was
// never updated).
func (s *Service) observe(
	ctx context.Context, n record.Nodegroup,
) (state record.NodegroupState, last record.Update, err error) {
	state, err = resource.ObservedState(
		ctx, s.nodegroupStates, n.Key(), func(state record.NodegroupState) bool { return state.NodegroupID == n.ID },
	)
	if err != nil {
		return state, last, err
	}
	last, err = s.LastUpdate(ctx, record.Cluster{Account: n.Account, Region: n.Region, Name: n.Cluster}, n.LastUpdateID)
	return state, last, err
}

// status returns a node group's status, from the desired state, the observed state, and the newest update.
func status(n record.Nodegroup, state record.NodegroupState, last record.Update) types.NodegroupStatus {
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

// scalingNow returns the size that a node group has: that of its Auto Scaling group, which others may change, or the
// desired size until that is applied.
func scalingNow(n record.Nodegroup, state record.NodegroupState) types.NodegroupScalingConfig {
	if state.ScalingChange == n.ScalingChange && state.Scaling.MaxSize != nil {
		return state.Scaling
	}
	return n.Scaling
}

// madeFrom returns the template of a group's nodes: the old one during an update.
func madeFrom(n record.Nodegroup, state record.NodegroupState, last record.Update) record.NodegroupTemplate {
	if state.TemplateHash != "" {
		return state.Template
	}
	return n.Wanted(last)
}

// describe returns the node group as the API shows it.
func (s *Service) describe(ctx context.Context, n record.Nodegroup) (*types.Nodegroup, error) {
	state, last, err := s.observe(ctx, n)
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
		Status:           status(n, state, last),
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
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if state.ModifiedAt.After(n.ModifiedAt) {
		out.ModifiedAt = new(state.ModifiedAt)
	}
	return out, nil
}

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
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
func (s *Service) DescribeNodegroup(
	ctx context.Context, in *eks.DescribeNodegroupInput,
) (*eks.DescribeNodegroupOutput, error) {
	cluster, name := aws.ToString(in.ClusterName), aws.ToString(in.NodegroupName)
	if err := s.waitForStable(ctx, cluster, name); err != nil {
		return nil, err
	}
	row, _, err := s.Nodegroup(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	out, err := s.describe(ctx, row.Value)
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
	page, next, err := wire.Page(
		ctx, groups, in.MaxResults, in.NextToken, func(n record.Nodegroup) string { return n.Name },
	)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(page))
	for i, n := range page {
		names[i] = n.Name
	}
	return &eks.ListNodegroupsOutput{Nodegroups: names, NextToken: next}, nil
}

// waitForStable returns once the node group is neither being created, updated nor deleted, at once unless a waiter
// asks.
func (s *Service) waitForStable(ctx context.Context, cluster, name string) error {
	at := resource.ScopeOf(ctx)
	key := record.NodegroupKey(at.Account, at.Region, cluster, name)
	updates := resource.Notify(s.Updates, store.Prefix(at.Account, at.Region, cluster))
	return resource.Await(ctx, s.Nodegroups, key, func(ctx context.Context, n record.Nodegroup) (bool, error) {
		state, last, err := s.observe(ctx, n)
		switch status(n, state, last) {
		case types.NodegroupStatusCreating, types.NodegroupStatusUpdating, types.NodegroupStatusDeleting:
			return false, err
		}
		return true, err
	}, resource.Notify(s.nodegroupStates, key), updates)
}
