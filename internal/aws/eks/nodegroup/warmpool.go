package nodegroup

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
)

// changeWarmPool returns the warm pool of group n after a change, and the parameters of its update. Fields that a
// request leaves out do not change. https://docs.aws.amazon.com/eks/latest/APIReference/API_WarmPoolConfig.html
func changeWarmPool(
	g exception.About, n record.Nodegroup, now, in *types.WarmPoolConfig,
) (*types.WarmPoolConfig, []types.UpdateParam, error) {
	if in == nil {
		return now, nil, nil
	}
	out := types.WarmPoolConfig{
		Enabled:        new(false),
		MinSize:        new(int32(0)),
		PoolState:      types.WarmPoolStateStopped,
		ReuseOnScaleIn: new(false),
	}
	if now != nil {
		out = *now
	}
	var params numbers
	if in.Enabled != nil {
		out.Enabled = in.Enabled
		params = append(params, resource.UpdateParam(types.UpdateParamTypeWarmPoolEnabled, fmt.Sprint(*in.Enabled)))
	}
	if in.MaxGroupPreparedCapacity != nil {
		out.MaxGroupPreparedCapacity = in.MaxGroupPreparedCapacity
		params.add(types.UpdateParamTypeWarmPoolMaxGroupPreparedCapacity, in.MaxGroupPreparedCapacity)
	}
	if in.MinSize != nil {
		out.MinSize = in.MinSize
		params.add(types.UpdateParamTypeWarmPoolMinSize, in.MinSize)
	}
	if in.PoolState != "" {
		out.PoolState = in.PoolState
		params = append(params, resource.UpdateParam(types.UpdateParamTypeWarmPoolState, string(in.PoolState)))
	}
	if in.ReuseOnScaleIn != nil {
		out.ReuseOnScaleIn = in.ReuseOnScaleIn
		params = append(
			params, resource.UpdateParam(types.UpdateParamTypeWarmPoolReuseOnScaleIn, fmt.Sprint(*in.ReuseOnScaleIn)),
		)
	}
	if err := checkWarmPool(g, n, out); err != nil {
		return nil, nil, err
	}
	return &out, params, nil
}

func checkWarmPool(g exception.About, n record.Nodegroup, w types.WarmPoolConfig) error {
	bottlerocket := strings.HasPrefix(string(n.AMIType), "BOTTLEROCKET")
	switch {
	case *w.MinSize < 0:
		return g.InvalidParameter("The minSize of warmPoolConfig must not be negative, but is %d", *w.MinSize)
	case w.MaxGroupPreparedCapacity != nil && *w.MaxGroupPreparedCapacity < *n.Scaling.MinSize:
		return g.InvalidParameter(
			"maxGroupPreparedCapacity %d can't be less than the minSize of the nodegroup, which is %d",
			*w.MaxGroupPreparedCapacity, *n.Scaling.MinSize,
		)
	case w.MaxGroupPreparedCapacity != nil && *w.MaxGroupPreparedCapacity < *w.MinSize:
		return g.InvalidParameter(
			"maxGroupPreparedCapacity %d can't be less than the minSize of the warm pool, which is %d",
			*w.MaxGroupPreparedCapacity, *w.MinSize,
		)
	case aws.ToBool(w.Enabled) && n.CapacityType == types.CapacityTypesSpot:
		return g.InvalidParameter("A warm pool can't be enabled for a nodegroup with capacityType %s", n.CapacityType)
	case aws.ToBool(w.ReuseOnScaleIn) && bottlerocket:
		return g.InvalidParameter("reuseOnScaleIn is not supported for amiType %s", n.AMIType)
	case w.PoolState == types.WarmPoolStateHibernated && bottlerocket:
		return g.InvalidParameter("poolState %s is not supported for amiType %s", w.PoolState, n.AMIType)
	case w.PoolState == types.WarmPoolStateHibernated:
		return g.InvalidParameter(
			"poolState %s is not implemented by Coracle, whose instances don't hibernate: use %s or %s",
			w.PoolState, types.WarmPoolStateStopped, types.WarmPoolStateRunning,
		)
	}
	return nil
}
