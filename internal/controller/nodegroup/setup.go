package nodegroup

import (
	"context"
	"slices"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// prepareUpdate runs the first phase: once the Auto Scaling group launches from the new version of the launch template
// (template.go makes it, scaling.go gives it), its sizes are remembered, and how far it has to grow. An update that
// changes nothing that nodes are made from, and one of a group without nodes, ends here.
func (g *group) prepareUpdate(ctx context.Context) (time.Duration, error) {
	if !g.current() {
		return 0, nil // the row of the Auto Scaling group changes when it is
	}
	if g.state.RollingUpdate == nil {
		before := ekstypes.NodegroupScalingConfig{MinSize: g.asg.MinSize, MaxSize: g.asg.MaxSize,
			DesiredSize: g.asg.DesiredCapacity}
		g.state.RollingUpdate = &record.NodegroupRollingUpdate{
			UpdateID: g.last.ID, Phase: record.NodegroupSetUp, Since: g.c.now(), Before: before,
		}
		if err := g.saveState(ctx); err != nil {
			return 0, err
		}
		crashRollBegun.Here()
	}
	if !slices.ContainsFunc(g.members, func(m member) bool { return m.Old }) {
		return 0, g.endUpdate(ctx, ekstypes.UpdateStatusSuccessful)
	}
	r := g.state.RollingUpdate
	if g.row.UpdateConfig.UpdateStrategy == ekstypes.NodegroupUpdateStrategiesMinimal {
		return 0, g.startPhase(ctx, record.NodegroupUpgrade)
	}
	r.Added = max(2*int32(len(g.asg.AvailabilityZones)), unavailable(g.row.UpdateConfig, *r.Before.DesiredSize))
	return 0, g.startPhase(ctx, record.NodegroupScaleUp)
}
