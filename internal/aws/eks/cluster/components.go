package cluster

import (
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/record"
)

// What the owner of a cluster may set of its control-plane components. The defaults are upstream's;
// DescribeClusterVersions publishes these limits, and requests are checked against them.
const (
	defaultEventTTL, minEventTTL, maxEventTTL = "60m", "10m", "24h"
	defaultMinNodePort, defaultMaxNodePort    = 30000, 32767
	minNodePort, maxNodePort                  = 1024, 65535
	defaultHPASync, minHPASync, maxHPASync    = "15s", "5s", "5m"
	defaultPodGC, minPodGC, maxPodGC          = 12500, 1, 50000
	minResourceWeight, maxResourceWeight      = 1, 100
)

var singleUnit = regexp.MustCompile(`^\d+[smh]$`)

// durationWithin checks a single-unit duration such as 30m.
func durationWithin(cluster, member, value, least, most string) error {
	d, err := time.ParseDuration(value)
	if err != nil || !singleUnit.MatchString(value) {
		return exception.InvalidParameter(
			cluster, "%s %s is invalid: it must be a single-unit duration such as %s", member, value, least,
		)
	}
	low, _ := time.ParseDuration(least)
	high, _ := time.ParseDuration(most)
	if d < low || d > high {
		return exception.InvalidParameter(
			cluster, "%s %s is invalid: it must be between %s and %s", member, value, least, most,
		)
	}
	return nil
}

// checkComponents checks the component configuration of a request.
func checkComponents(
	cluster string, api *types.KubeApiServerConfigRequest, manager *types.KubeControllerManagerConfigRequest,
	scheduler *types.KubeSchedulerConfigRequest,
) error {
	if api != nil {
		if api.EventTtl != nil {
			if err := durationWithin(cluster, "eventTtl", *api.EventTtl, minEventTTL, maxEventTTL); err != nil {
				return err
			}
		}
		if r := api.ServiceNodePortRange; r != nil &&
			(r.MinPort < minNodePort || r.MaxPort > maxNodePort || r.MinPort > r.MaxPort) {
			return exception.InvalidParameter(
				cluster, "serviceNodePortRange %d-%d is invalid: it must lie within %d-%d", r.MinPort, r.MaxPort, minNodePort,
				maxNodePort,
			)
		}
	}
	if manager != nil {
		if h := manager.HorizontalPodAutoscalerControllerConfig; h != nil &&
			h.HorizontalPodAutoscalerSyncPeriod != nil {
			period := *h.HorizontalPodAutoscalerSyncPeriod
			err := durationWithin(cluster, "horizontalPodAutoscalerSyncPeriod", period, minHPASync, maxHPASync)
			if err != nil {
				return err
			}
		}
		if g := manager.PodGcControllerConfig; g != nil && g.TerminatedPodGcThreshold != nil &&
			(*g.TerminatedPodGcThreshold < minPodGC || *g.TerminatedPodGcThreshold > maxPodGC) {
			return exception.InvalidParameter(
				cluster, "terminatedPodGcThreshold %d is invalid: it must be between %d and %d", *g.TerminatedPodGcThreshold,
				minPodGC, maxPodGC,
			)
		}
	}
	if scheduler == nil || scheduler.NodeResourcesFit == nil || scheduler.NodeResourcesFit.ScoringStrategy == nil {
		return nil
	}
	strategy := scheduler.NodeResourcesFit.ScoringStrategy
	switch strategy.Type {
	case "", types.ScoringStrategyTypeLeastAllocated, types.ScoringStrategyTypeMostAllocated:
	default:
		return exception.InvalidParameter(
			cluster, "Scoring strategy %s is invalid: it must be one of [LeastAllocated, MostAllocated]", strategy.Type,
		)
	}
	seen := map[string]bool{}
	for _, r := range strategy.Resources {
		name := aws.ToString(r.Name)
		switch {
		case name == "":
			return exception.InvalidParameter(cluster, "A resource of the scoring strategy has no name")
		case seen[name]:
			return exception.InvalidParameter(
				cluster, "Resource %s of the scoring strategy is specified more than once", name,
			)
		case r.Weight != nil && (*r.Weight < minResourceWeight || *r.Weight > maxResourceWeight):
			return exception.InvalidParameter(
				cluster, "Weight %d of resource %s is invalid: it must be between %d and %d", *r.Weight, name, minResourceWeight,
				maxResourceWeight,
			)
		}
		seen[name] = true
	}
	return nil
}

func apiServerConfig(in *types.KubeApiServerConfigRequest) *types.KubeApiServerConfigResponse {
	if in == nil {
		return nil
	}
	return &types.KubeApiServerConfigResponse{EventTtl: in.EventTtl, ServiceNodePortRange: in.ServiceNodePortRange}
}

func controllerManagerConfig(in *types.KubeControllerManagerConfigRequest) *types.KubeControllerManagerConfigResponse {
	if in == nil {
		return nil
	}
	out := &types.KubeControllerManagerConfigResponse{}
	if h := in.HorizontalPodAutoscalerControllerConfig; h != nil {
		out.HorizontalPodAutoscalerControllerConfig = &types.HorizontalPodAutoscalerControllerConfigResponse{
			HorizontalPodAutoscalerSyncPeriod: h.HorizontalPodAutoscalerSyncPeriod,
		}
	}
	if g := in.PodGcControllerConfig; g != nil {
		out.PodGcControllerConfig = &types.PodGcControllerConfigResponse{
			TerminatedPodGcThreshold: g.TerminatedPodGcThreshold,
		}
	}
	return out
}

func schedulerConfig(in *types.KubeSchedulerConfigRequest) *types.KubeSchedulerConfigResponse {
	if in == nil {
		return nil
	}
	return &types.KubeSchedulerConfigResponse{NodeResourcesFit: in.NodeResourcesFit}
}

// componentUpdate changes the configuration of control-plane components. What a request doesn't name stays.
func componentUpdate(
	c *record.Cluster, api *types.KubeApiServerConfigRequest, manager *types.KubeControllerManagerConfigRequest,
	scheduler *types.KubeSchedulerConfigRequest,
) ([]types.UpdateParam, error) {
	if err := checkComponents(c.Name, api, manager, scheduler); err != nil {
		return nil, err
	}
	before := resource.JSON([]any{c.KubeAPIServer, c.KubeController, c.KubeScheduler})
	var params []types.UpdateParam
	if api != nil {
		merged := types.KubeApiServerConfigRequest{}
		if c.KubeAPIServer != nil {
			merged = *c.KubeAPIServer
		}
		if api.EventTtl != nil {
			merged.EventTtl = api.EventTtl
		}
		if api.ServiceNodePortRange != nil {
			merged.ServiceNodePortRange = api.ServiceNodePortRange
		}
		c.KubeAPIServer = &merged
		said := map[string]any{}
		if api.EventTtl != nil {
			said["eventTtl"] = api.EventTtl
		}
		if r := api.ServiceNodePortRange; r != nil {
			said["serviceNodePortRange"] = map[string]int32{"minPort": r.MinPort, "maxPort": r.MaxPort}
		}
		params = append(params, resource.UpdateParam(types.UpdateParamTypeKubeApiServerConfig, resource.JSON(said)))
	}
	if manager != nil {
		merged := types.KubeControllerManagerConfigRequest{}
		if c.KubeController != nil {
			merged = *c.KubeController
		}
		said := map[string]any{}
		if h := manager.HorizontalPodAutoscalerControllerConfig; h != nil {
			merged.HorizontalPodAutoscalerControllerConfig = h
			said["horizontalPodAutoscalerControllerConfig"] = map[string]any{
				"horizontalPodAutoscalerSyncPeriod": h.HorizontalPodAutoscalerSyncPeriod,
			}
		}
		if g := manager.PodGcControllerConfig; g != nil {
			merged.PodGcControllerConfig = g
			said["podGcControllerConfig"] = map[string]any{"terminatedPodGcThreshold": g.TerminatedPodGcThreshold}
		}
		c.KubeController = &merged
		params = append(
			params, resource.UpdateParam(types.UpdateParamTypeKubeControllerManagerConfig, resource.JSON(said)),
		)
	}
	if scheduler != nil {
		c.KubeScheduler = scheduler
		said := map[string]any{}
		if scheduler.NodeResourcesFit != nil && scheduler.NodeResourcesFit.ScoringStrategy != nil {
			strategy := scheduler.NodeResourcesFit.ScoringStrategy
			resources := []map[string]any{}
			for _, r := range strategy.Resources {
				resources = append(resources, map[string]any{"name": r.Name, "weight": r.Weight})
			}
			said["nodeResourcesFit"] = map[string]any{
				"scoringStrategy": map[string]any{"type": strategy.Type, "resources": resources},
			}
		}
		params = append(params, resource.UpdateParam(types.UpdateParamTypeKubeSchedulerConfig, resource.JSON(said)))
	}
	if resource.JSON([]any{c.KubeAPIServer, c.KubeController, c.KubeScheduler}) == before {
		return nil, exception.InvalidParameter(
			c.Name, "No changes needed for the control plane component config provided",
		)
	}
	return params, nil
}

// componentInfo publishes the defaults and limits above.
func componentInfo() *types.ControlPlaneConfigInfo {
	whole := func(least, most int32) *types.IntegerRangeConstraint {
		return &types.IntegerRangeConstraint{Min: new(least), Max: new(most)}
	}
	return &types.ControlPlaneConfigInfo{
		KubeApiServerConfig: &types.KubeApiServerVersionConfig{
			EventTtl: &types.DurationParameterConfig{
				DefaultValue: new(defaultEventTTL),
				Constraints:  &types.DurationConstraints{Min: new(minEventTTL), Max: new(maxEventTTL)},
			},
			ServiceNodePortRange: &types.PortRangeParameterConfig{
				DefaultValue: &types.ServiceNodePortRange{MinPort: defaultMinNodePort, MaxPort: defaultMaxNodePort},
				Constraints: &types.PortRangeConstraints{
					MinPort: whole(minNodePort, maxNodePort),
					MaxPort: whole(minNodePort, maxNodePort),
				},
			},
		},
		KubeControllerManagerConfig: &types.KubeControllerManagerVersionConfig{
			HorizontalPodAutoscalerControllerConfig: &types.HorizontalPodAutoscalerControllerVersionConfig{
				HorizontalPodAutoscalerSyncPeriod: &types.DurationParameterConfig{
					DefaultValue: new(defaultHPASync),
					Constraints:  &types.DurationConstraints{Min: new(minHPASync), Max: new(maxHPASync)},
				},
			},
			PodGcControllerConfig: &types.PodGcControllerVersionConfig{
				TerminatedPodGcThreshold: &types.IntegerParameterConfig{
					DefaultValue: new(int32(defaultPodGC)),
					Constraints:  &types.IntegerConstraints{Min: new(int32(minPodGC)), Max: new(int32(maxPodGC))},
				},
			},
		},
	}
}
