package cluster

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// attachedHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) attachedHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.ListCapabilities, func(
			ctx context.Context, action string, in *eks.ListCapabilitiesInput,
		) ([]wire.Target, error) {
			return s.OnCluster(ctx, action, in.ClusterName)
		}),
	}
}

// ListCapabilities lists the EKS capabilities of a cluster. It tells the truth as long as nothing here can make one: a
// cluster has none.
func (s *Service) ListCapabilities(
	ctx context.Context, in *eks.ListCapabilitiesInput,
) (*eks.ListCapabilitiesOutput, error) {
	if err := resource.CheckMaxResults(in.MaxResults); err != nil {
		return nil, err
	}
	if _, err := s.Cluster(ctx, aws.ToString(in.ClusterName)); err != nil {
		return nil, err
	}
	return &eks.ListCapabilitiesOutput{Capabilities: []types.CapabilitySummary{}}, nil
}
