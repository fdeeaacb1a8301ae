package nodegroup

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
)

// What a node group has whose creator doesn't say.
const (
	defaultMinSize     = 1
	defaultMaxSize     = 2
	defaultDesiredSize = 2
)

// newScaling returns the size of a new group. (wire has checked the minimum of each number.)
func newScaling(g exception.About, in *types.NodegroupScalingConfig) (types.NodegroupScalingConfig, error) {
	out := types.NodegroupScalingConfig{
		MinSize:     new(int32(defaultMinSize)),
		MaxSize:     new(int32(defaultMaxSize)),
		DesiredSize: new(int32(defaultDesiredSize)),
	}
	fillScaling(&out, in)
	return out, checkScaling(g, out)
}

// checkScaling refuses sizes that contradict each other.
func checkScaling(g exception.About, c types.NodegroupScalingConfig) error {
	switch least, most, desired := *c.MinSize, *c.MaxSize, *c.DesiredSize; {
	case least > most:
		return g.InvalidParameter("Minimum capacity %d can't be greater than maximum capacity %d", least, most)
	case least > desired:
		return g.InvalidParameter("Minimum capacity %d can't be greater than desired size %d", least, desired)
	case desired > most:
		return g.InvalidParameter("desired capacity %d can't be greater than max size %d", desired, most)
	}
	return nil
}

func fillScaling(out, in *types.NodegroupScalingConfig) {
	if in == nil {
		return
	}
	if in.MinSize != nil {
		out.MinSize = in.MinSize
	}
	if in.MaxSize != nil {
		out.MaxSize = in.MaxSize
	}
	if in.DesiredSize != nil {
		out.DesiredSize = in.DesiredSize
	}
}

// changeScaling returns the size of a group after a change, and the parameters of its update. now is the group's
// current size, whoever set it.
func changeScaling(
	g exception.About, now types.NodegroupScalingConfig, in *types.NodegroupScalingConfig,
) (types.NodegroupScalingConfig, []types.UpdateParam, error) {
	out := now
	fillScaling(&out, in)
	if err := checkScaling(g, out); err != nil {
		return out, nil, err
	}
	var params numbers
	params.add(types.UpdateParamTypeMinSize, in.MinSize)
	params.add(types.UpdateParamTypeMaxSize, in.MaxSize)
	params.add(types.UpdateParamTypeDesiredSize, in.DesiredSize)
	return out, params, nil
}

// numbers are parameters of an update that are numbers, of those that a request names.
type numbers []types.UpdateParam

func (p *numbers) add(kind types.UpdateParamType, value *int32) {
	if value != nil {
		*p = append(*p, resource.UpdateParam(kind, fmt.Sprint(*value)))
	}
}

// mostUnavailable is the maximum number of nodes that an update may replace at once.
const mostUnavailable = 100

// changeUpdateConfig returns the update configuration of a group after a change: either a number of nodes at once or a
// percentage of them.
func changeUpdateConfig(
	g exception.About, now types.NodegroupUpdateConfig, in *types.NodegroupUpdateConfig,
) (types.NodegroupUpdateConfig, []types.UpdateParam, error) {
	if in == nil {
		return now, nil, nil
	}
	var params numbers
	switch {
	case in.MaxUnavailable != nil && in.MaxUnavailablePercentage != nil:
		return now, nil, g.InvalidParameter(
			"maxUnavailable and maxUnavailablePercentage can't be specified together: use one of them",
		)
	case in.MaxUnavailable != nil:
		now.MaxUnavailable, now.MaxUnavailablePercentage = in.MaxUnavailable, nil
	case in.MaxUnavailablePercentage != nil:
		now.MaxUnavailable, now.MaxUnavailablePercentage = nil, in.MaxUnavailablePercentage
	case in.UpdateStrategy == "":
		return now, nil, g.InvalidParameter(
			"updateConfig must have one of maxUnavailable, maxUnavailablePercentage and updateStrategy",
		)
	}
	params.add(types.UpdateParamTypeMaxUnavailable, in.MaxUnavailable)
	params.add(types.UpdateParamTypeMaxUnavailablePercentage, in.MaxUnavailablePercentage)
	if in.UpdateStrategy != "" {
		now.UpdateStrategy = in.UpdateStrategy
		params = append(params, resource.UpdateParam(types.UpdateParamTypeUpdateStrategy, string(in.UpdateStrategy)))
	}
	return now, params, nil
}

// checkUnavailable holds an update config against the size of the group.
func checkUnavailable(
	g exception.About, config types.NodegroupUpdateConfig, scaling types.NodegroupScalingConfig,
) error {
	if n := config.MaxUnavailable; n != nil && *n > min(*scaling.MaxSize, mostUnavailable) {
		if *n > mostUnavailable {
			return g.InvalidParameter("maxUnavailable %d is invalid: the maximum number is %d", *n, mostUnavailable)
		}
		return g.InvalidParameter("max-unavailable must be within the range 1 and max size of the node group")
	}
	return nil
}
