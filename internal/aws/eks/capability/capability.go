// Package capability serves the operations of the EKS API on EKS capabilities: Argo CD, ACK and kro as EKS runs them,
// outside of the cluster.
//
// What is wanted is recorded here ([record.Capability], and [record.Update] for a change under way). The capability
// controller carries it out and writes what it observes ([record.CapabilityState]), and DescribeCapability puts the two
// together. The controller ends updates, and removes the record of a capability whose deletion is complete. A
// capability keeps its cluster from being deleted.
//
// A capability that runs here acts in its cluster under its IAM role, which gets an access entry with the policies of
// its type together with the record.
//
// https://docs.aws.amazon.com/eks/latest/userguide/capabilities.html
package capability

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// AccessEntries gives the roles of capabilities their access to clusters.
type AccessEntries interface {
	// RoleEntryOp returns what gives a role an access entry in a cluster, or the one that it has these access policies in
	// the scope of the cluster; nothing when it has all of them.
	RoleEntryOp(ctx context.Context, c record.Cluster, role principal.Principal, policies ...string) ([]store.Op, error)
}

// Service serves the operations on capabilities.
type Service struct {
	*resource.Records
	principals *principal.Directory
	entries    AccessEntries
	states     store.Table[record.CapabilityState]
}

// New returns the service over the records.
func New(records *resource.Records, principals *principal.Directory, entries AccessEntries) *Service {
	return &Service{
		Records: records, principals: principals, entries: entries, states: record.CapabilityStates(records.Store),
	}
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	for _, handlers := range [][]wire.Handler{s.handlers(), s.createHandlers(), s.changeHandlers()} {
		mux.Register(wire.EKS, handlers...)
	}
}

// observe returns the observed state of a capability (zero for a new one) and its newest update (zero for one that was
// never updated).
func (s *Service) observe(
	ctx context.Context, c record.Capability,
) (state record.CapabilityState, last record.Update, err error) {
	state, err = resource.ObservedState(
		ctx, s.states, c.Key(), func(state record.CapabilityState) bool { return state.CapabilityID == c.ID },
	)
	if err != nil {
		return state, last, err
	}
	cluster := record.Cluster{Account: c.Account, Region: c.Region, Name: c.Cluster, ID: c.ClusterID}
	last, err = s.LastUpdate(ctx, cluster, c.LastUpdateID)
	return state, last, err
}

// describe returns the capability as the API shows it.
func (s *Service) describe(ctx context.Context, c record.Capability) (*types.Capability, error) {
	state, last, err := s.observe(ctx, c)
	if err != nil {
		return nil, err
	}
	now := c.Now(last)
	out := &types.Capability{
		CapabilityName:          new(c.Name),
		Arn:                     new(c.ARN()),
		ClusterName:             new(c.Cluster),
		Type:                    c.Type,
		RoleArn:                 new(now.RoleARN),
		Status:                  record.CapabilityStatus(c, state, last),
		Version:                 resource.OrNil(state.Version),
		Configuration:           &types.CapabilityConfigurationResponse{Ack: now.Ack, ArgoCd: now.ArgoCD},
		Tags:                    c.Tags,
		Health:                  &types.CapabilityHealth{Issues: state.Issues},
		CreatedAt:               new(c.CreatedAt),
		ModifiedAt:              new(c.ModifiedAt),
		DeletePropagationPolicy: c.DeletePropagationPolicy,
	}
	if state.ModifiedAt.After(c.ModifiedAt) {
		out.ModifiedAt = new(state.ModifiedAt)
	}
	if out.Health.Issues == nil {
		out.Health.Issues = []types.CapabilityIssue{}
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out, nil
}

// handlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.DescribeCapability, func(
			ctx context.Context, action string, in *eks.DescribeCapabilityInput,
		) ([]wire.Target, error) {
			return s.OnCapability(ctx, action, in.ClusterName, in.CapabilityName)
		}),
		wire.Handle(s.ListCapabilities, func(
			ctx context.Context, action string, in *eks.ListCapabilitiesInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// DescribeCapability describes a capability.
func (s *Service) DescribeCapability(
	ctx context.Context, in *eks.DescribeCapabilityInput,
) (*eks.DescribeCapabilityOutput, error) {
	row, _, err := s.Capability(ctx, aws.ToString(in.ClusterName), aws.ToString(in.CapabilityName))
	if err != nil {
		return nil, err
	}
	out, err := s.describe(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	return &eks.DescribeCapabilityOutput{Capability: out}, nil
}

// ListCapabilities lists the capabilities of a cluster.
func (s *Service) ListCapabilities(
	ctx context.Context, in *eks.ListCapabilitiesInput,
) (*eks.ListCapabilitiesOutput, error) {
	if err := resource.CheckMaxResults(in.MaxResults); err != nil {
		return nil, err
	}
	row, err := s.Cluster(ctx, aws.ToString(in.ClusterName))
	if err != nil {
		return nil, err
	}
	all, err := s.CapabilitiesOf(ctx, row.Value)
	if err != nil {
		return nil, err
	}
	summaries := []types.CapabilitySummary{}
	for _, c := range all {
		shown, err := s.describe(ctx, c)
		if err != nil {
			return nil, err
		}
		summaries = append(summaries, types.CapabilitySummary{
			Arn: shown.Arn, CapabilityName: shown.CapabilityName, CreatedAt: shown.CreatedAt,
			ModifiedAt: shown.ModifiedAt, Status: shown.Status, Type: shown.Type, Version: shown.Version,
		})
	}
	page, next, err := wire.Page(ctx, summaries, in.MaxResults, in.NextToken,
		func(c types.CapabilitySummary) string { return aws.ToString(c.CapabilityName) })
	if err != nil {
		return nil, err
	}
	return &eks.ListCapabilitiesOutput{Capabilities: page, NextToken: next}, nil
}
