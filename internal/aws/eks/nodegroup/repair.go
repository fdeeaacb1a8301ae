package nodegroup

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
)

// changeRepair returns the node auto repair configuration of a group after a change, and the parameters of its update.
// A request that enables repair replaces the whole configuration: EKS chooses what it leaves out.
// https://docs.aws.amazon.com/eks/latest/userguide/node-health.html
func changeRepair(
	g exception.About, now, in *types.NodeRepairConfig,
) (*types.NodeRepairConfig, []types.UpdateParam, error) {
	if in == nil {
		return now, nil, nil
	}
	for _, either := range []struct {
		what              string
		count, percentage *int32
	}{
		{"maxUnhealthyNodeThreshold", in.MaxUnhealthyNodeThresholdCount, in.MaxUnhealthyNodeThresholdPercentage},
		{"maxParallelNodesRepaired", in.MaxParallelNodesRepairedCount, in.MaxParallelNodesRepairedPercentage},
	} {
		switch {
		case either.count != nil && either.percentage != nil:
			return nil, nil, g.InvalidParameter(
				"%sCount and %sPercentage can't be specified together: use one of them", either.what, either.what,
			)
		case either.count != nil && *either.count < 1:
			return nil, nil, g.InvalidParameter(
				"%sCount %d is invalid: it must be at least 1", either.what, *either.count,
			)
		case either.percentage != nil && (*either.percentage < 1 || *either.percentage > 100):
			return nil, nil, g.InvalidParameter(
				"%sPercentage %d is invalid: it must be between 1 and 100", either.what, *either.percentage,
			)
		}
	}
	overridden := make(map[[2]string]bool, len(in.NodeRepairConfigOverrides))
	for _, o := range in.NodeRepairConfigOverrides {
		if err := checkOverride(g, o); err != nil {
			return nil, nil, err
		}
		what := [2]string{aws.ToString(o.NodeMonitoringCondition), aws.ToString(o.NodeUnhealthyReason)}
		if overridden[what] {
			return nil, nil, g.InvalidParameter(
				"nodeRepairConfigOverrides has more than one member for nodeMonitoringCondition %s and "+
					"nodeUnhealthyReason %s", what[0], what[1],
			)
		}
		overridden[what] = true
	}
	out := *in
	if out.Enabled == nil {
		out.Enabled = new(now != nil && aws.ToBool(now.Enabled))
	}
	if details(out) && !*out.Enabled {
		return nil, nil, g.InvalidParameter(
			"nodeRepairConfig can't have anything beside enabled as long as node auto repair is disabled: set " +
				"enabled to true",
		)
	}
	params := []types.UpdateParam{
		resource.UpdateParam(types.UpdateParamTypeNodeRepairEnabled, fmt.Sprint(*out.Enabled)),
	}
	if details(out) {
		params = append(params, resource.UpdateParam(types.UpdateParamTypeNodeRepairConfig, repairJSON(out)))
	}
	return &out, params, nil
}

// details reports whether a config says more than that repair is on or off.
func details(c types.NodeRepairConfig) bool {
	return c.MaxUnhealthyNodeThresholdCount != nil || c.MaxUnhealthyNodeThresholdPercentage != nil ||
		c.MaxParallelNodesRepairedCount != nil ||
		c.MaxParallelNodesRepairedPercentage != nil ||
		len(c.NodeRepairConfigOverrides) > 0
}

func checkOverride(g exception.About, o types.NodeRepairConfigOverrides) error {
	switch {
	case aws.ToString(o.NodeMonitoringCondition) == "" || aws.ToString(o.NodeUnhealthyReason) == "" ||
		o.MinRepairWaitTimeMins == nil || o.RepairAction == "":
		return g.InvalidParameter(
			"A member of nodeRepairConfigOverrides must have all of nodeMonitoringCondition, nodeUnhealthyReason, " +
				"minRepairWaitTimeMins and repairAction",
		)
	case *o.MinRepairWaitTimeMins < 1:
		return g.InvalidParameter(
			"minRepairWaitTimeMins %d is invalid: it must be at least 1", *o.MinRepairWaitTimeMins,
		)
	}
	return nil
}

func repairJSON(c types.NodeRepairConfig) string {
	said := map[string]any{}
	for name, value := range map[string]*int32{
		"maxUnhealthyNodeThresholdCount":      c.MaxUnhealthyNodeThresholdCount,
		"maxUnhealthyNodeThresholdPercentage": c.MaxUnhealthyNodeThresholdPercentage,
		"maxParallelNodesRepairedCount":       c.MaxParallelNodesRepairedCount,
		"maxParallelNodesRepairedPercentage":  c.MaxParallelNodesRepairedPercentage,
	} {
		if value != nil {
			said[name] = *value
		}
	}
	var overrides []map[string]any
	for _, o := range c.NodeRepairConfigOverrides {
		overrides = append(overrides, map[string]any{
			"nodeMonitoringCondition": *o.NodeMonitoringCondition, "nodeUnhealthyReason": *o.NodeUnhealthyReason,
			"minRepairWaitTimeMins": *o.MinRepairWaitTimeMins, "repairAction": o.RepairAction,
		})
	}
	if overrides != nil {
		said["nodeRepairConfigOverrides"] = overrides
	}
	return resource.JSON(said)
}
