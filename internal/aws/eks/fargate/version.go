package fargate

import (
	"context"
	"errors"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// HasOutdatedNodes reports whether a Fargate node of a cluster has another minor version than the cluster: it has to go
// with its pod before the cluster gets the next version. The version of a node is that of its machine's image.
// https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
func (s *Service) HasOutdatedNodes(ctx context.Context, c record.Cluster) (bool, error) {
	pods, err := resource.ValuesOf(ctx, s.pods, c, func(p record.FargatePod) string { return p.ClusterID })
	if err != nil {
		return false, err
	}
	for _, p := range pods {
		if p.InstanceID == "" || p.Ending {
			continue
		}
		row, err := s.instances.Get(ctx, record.EC2Key(c.Account, c.Region, p.InstanceID))
		if errors.Is(err, store.ErrNotFound) {
			continue
		} else if err != nil {
			return false, err
		}
		if image, ok := ami.Get(c.Region, row.Value.ImageID); ok && image.KubernetesVersion != c.Version {
			return true, nil
		}
	}
	return false, nil
}
