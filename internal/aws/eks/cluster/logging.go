package cluster

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
)

// logTypes are all control-plane log types, in the order in which EKS lists them.
var logTypes = []types.LogType{
	types.LogTypeApi,
	types.LogTypeAudit,
	types.LogTypeAuthenticator,
	types.LogTypeControllerManager,
	types.LogTypeScheduler,
}

// applyLogging returns the enabled log types after a request; types that it doesn't name do not change.
func applyLogging(cluster string, enabled []types.LogType, in *types.Logging) ([]types.LogType, error) {
	if in == nil {
		return enabled, nil
	}
	on := map[types.LogType]bool{}
	for _, t := range enabled {
		on[t] = true
	}
	said := map[types.LogType]bool{}
	for _, setup := range in.ClusterLogging {
		for _, t := range setup.Types {
			if !slices.Contains(logTypes, t) {
				return nil, exception.InvalidParameter(
					cluster,
					"Invalid log type %s: valid log types are [api, audit, authenticator, controllerManager, "+
						"scheduler]",
					t,
				)
			}
			enable := aws.ToBool(setup.Enabled)
			if before, ok := said[t]; ok && before != enable {
				return nil, exception.InvalidParameter(cluster, "Log type %s can't be both enabled and disabled", t)
			}
			said[t] = enable
			on[t] = enable
		}
	}
	var after []types.LogType
	for _, t := range logTypes {
		if on[t] {
			after = append(after, t)
		}
	}
	slices.Sort(after)
	return after, nil
}

// logging lists every log type as enabled or disabled.
func logging(enabled []types.LogType) *types.Logging {
	var on, off []types.LogType
	for _, t := range logTypes {
		if slices.Contains(enabled, t) {
			on = append(on, t)
		} else {
			off = append(off, t)
		}
	}
	out := &types.Logging{}
	if on != nil {
		out.ClusterLogging = append(out.ClusterLogging, types.LogSetup{Types: on, Enabled: new(true)})
	}
	if off != nil {
		out.ClusterLogging = append(out.ClusterLogging, types.LogSetup{Types: off, Enabled: new(false)})
	}
	return out
}

// loggingUpdate switches control-plane logs on and off.
func loggingUpdate(c *record.Cluster, in *types.Logging) ([]types.UpdateParam, error) {
	after, err := applyLogging(c.Name, c.LoggingTypes, in)
	if err != nil {
		return nil, err
	}
	if slices.Equal(after, c.LoggingTypes) {
		return nil, exception.InvalidParameter(c.Name, "No changes needed for the logging config provided")
	}
	c.LoggingTypes = after
	type setup struct {
		Types   []types.LogType `json:"types"`
		Enabled bool            `json:"enabled"`
	}
	var setups []setup
	for _, s := range in.ClusterLogging {
		setups = append(setups, setup{s.Types, aws.ToBool(s.Enabled)})
	}
	return []types.UpdateParam{
		resource.UpdateParam(
			types.UpdateParamTypeClusterLogging, resource.JSON(map[string]any{"clusterLogging": setups}),
		),
	}, nil
}
