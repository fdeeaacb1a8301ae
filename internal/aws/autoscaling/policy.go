package autoscaling

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

var adjustmentTypes = []string{"ChangeInCapacity", "ExactCapacity", "PercentChangeInCapacity"}

// policyHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) policyHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.PutScalingPolicy, func(
			ctx context.Context, action string, in *autoscaling.PutScalingPolicyInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, policy: in.PolicyName})
		}),
		wire.Handle(s.DeletePolicy, func(
			ctx context.Context, action string, in *autoscaling.DeletePolicyInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, policy: in.PolicyName})
		}),
		wire.Handle(s.DescribePolicies, wire.OnAll),
		wire.Handle(s.ExecutePolicy, func(
			ctx context.Context, action string, in *autoscaling.ExecutePolicyInput,
		) ([]wire.Target, error) {
			return s.onGroups(ctx, action, named{group: in.AutoScalingGroupName, policy: in.PolicyName})
		}),
	}
}

// PutScalingPolicy makes or changes a policy that ExecutePolicy carries out. Policies that only an alarm of CloudWatch
// would ever carry out are refused.
func (s *Service) PutScalingPolicy(ctx context.Context, in *autoscaling.PutScalingPolicyInput) (
	*autoscaling.PutScalingPolicyOutput, error) {
	p := types.ScalingPolicy{
		PolicyName: in.PolicyName, PolicyType: new(cmp.Or(aws.ToString(in.PolicyType), "SimpleScaling")),
		AdjustmentType: in.AdjustmentType, Cooldown: in.Cooldown,
		Enabled: new(in.Enabled == nil || *in.Enabled), EstimatedInstanceWarmup: in.EstimatedInstanceWarmup,
		MetricAggregationType:  in.MetricAggregationType,
		MinAdjustmentMagnitude: in.MinAdjustmentMagnitude, MinAdjustmentStep: in.MinAdjustmentStep,
		ScalingAdjustment: in.ScalingAdjustment, StepAdjustments: in.StepAdjustments,
		Alarms: []types.Alarm{},
	}
	if p.MinAdjustmentMagnitude == nil {
		p.MinAdjustmentMagnitude = p.MinAdjustmentStep // its older name
	}
	kind := *p.PolicyType
	switch kind {
	case "SimpleScaling", "StepScaling":
	case "TargetTrackingScaling", "PredictiveScaling":
		return nil, unserved("PolicyType "+kind,
			"there are no CloudWatch alarms, so the policy would never act. Use the Cluster Autoscaler or Karpenter, "+
				"or a SimpleScaling or StepScaling policy with ExecutePolicy")
	default:
		return nil,
			validation(
				"PolicyType %s is invalid. Valid values: [SimpleScaling, StepScaling, TargetTrackingScaling, "+
					"PredictiveScaling]", kind)
	}
	switch {
	case p.AdjustmentType == nil:
		return nil, validation("AdjustmentType is required for policy type %s", kind)
	case !slices.Contains(adjustmentTypes, *p.AdjustmentType):
		return nil, validation("AdjustmentType %s is invalid. Valid values: [%s]", *p.AdjustmentType,
			strings.Join(adjustmentTypes, ", "))
	case p.MinAdjustmentMagnitude != nil && *p.AdjustmentType != "PercentChangeInCapacity":
		return nil, validation("MinAdjustmentMagnitude is only supported with AdjustmentType PercentChangeInCapacity")
	case kind == "SimpleScaling" && p.ScalingAdjustment == nil:
		return nil, validation("ScalingAdjustment is required for policy type SimpleScaling")
	case kind == "SimpleScaling" && len(p.StepAdjustments) > 0:
		return nil, validation("StepAdjustments are not supported for policy type SimpleScaling")
	case kind == "StepScaling" && len(p.StepAdjustments) == 0:
		return nil, validation("At least one StepAdjustment is required for policy type StepScaling")
	case kind == "StepScaling" && (p.ScalingAdjustment != nil || p.Cooldown != nil):
		return nil, validation("ScalingAdjustment and Cooldown are not supported for policy type StepScaling")
	}
	if err := checkSteps(p.StepAdjustments); err != nil {
		return nil, err
	}
	if kind == "StepScaling" && p.MetricAggregationType == nil {
		p.MetricAggregationType = aws.String("Average")
	}
	err := s.updateGroup(ctx, in.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		key := store.Key(g.Account, g.Region, g.Name, *in.PolicyName)
		id := newUUID()
		before, err := s.policies.Get(ctx, key)
		switch {
		case err == nil:
			id = before.Value.ID
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		default:
			rows, err := s.policies.List(ctx, store.Prefix(g.Account, g.Region, g.Name))
			if err != nil {
				return nil, err
			}
			if len(rows) >= maxPolicies {
				return nil, limitExceeded("You have already reached your limit of scaling policies (%d) for group %s",
					maxPolicies, g.Name)
			}
		}
		p.AutoScalingGroupName = &g.Name
		p.PolicyARN = aws.String("arn:aws:autoscaling:" + g.Region + ":" + g.Account + ":scalingPolicy:" + id +
			":autoScalingGroupName/" + g.Name + ":policyName/" + *in.PolicyName)
		return []store.Op{s.policies.PutOp(key, record.AutoScalingPolicy{ID: id, Policy: p})}, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.PutScalingPolicyOutput{PolicyARN: p.PolicyARN, Alarms: p.Alarms}, nil
}

// stepBounds returns the interval of a step; a bound that is left out is infinite.
func stepBounds(step types.StepAdjustment) (lower, upper float64) {
	lower, upper = math.Inf(-1), math.Inf(1)
	if step.MetricIntervalLowerBound != nil {
		lower = *step.MetricIntervalLowerBound
	}
	if step.MetricIntervalUpperBound != nil {
		upper = *step.MetricIntervalUpperBound
	}
	return lower, upper
}

func checkSteps(steps []types.StepAdjustment) error {
	sorted := slices.Clone(steps)
	slices.SortFunc(sorted, func(a, b types.StepAdjustment) int {
		la, _ := stepBounds(a)
		lb, _ := stepBounds(b)
		return cmp.Compare(la, lb)
	})
	for i, step := range sorted {
		lower, upper := stepBounds(step)
		if step.ScalingAdjustment == nil {
			return validation("A StepAdjustment has no ScalingAdjustment")
		}
		if lower >= upper {
			return validation("The lower bound %v of a StepAdjustment must be below its upper bound %v", lower, upper)
		}
		if i > 0 {
			_, before := stepBounds(sorted[i-1])
			if before > lower {
				return validation("StepAdjustment intervals can't overlap")
			}
			if before < lower {
				return validation("StepAdjustment intervals can't have gaps between them")
			}
		}
	}
	return nil
}

// findPolicy returns a scaling policy by its name and group, or by its ARN.
func (s *Service) findPolicy(ctx context.Context, group, name *string) (store.Row[record.AutoScalingPolicy], error) {
	at, asked := scopeOf(ctx), aws.ToString(name)
	owner := aws.ToString(group)
	if named, policy, ok := cutPolicyARN(asked); ok {
		if group != nil && *group != named {
			return store.Row[record.AutoScalingPolicy]{}, validation("The policy %s does not belong to the group %s",
				asked, owner)
		}
		owner, asked = named, policy
	} else if group == nil {
		return store.Row[record.AutoScalingPolicy]{},
			validation("AutoScalingGroupName is required unless PolicyName is an ARN")
	}
	if err := s.checkGroupExists(ctx, &owner); err != nil {
		return store.Row[record.AutoScalingPolicy]{}, err
	}
	row, err := s.policies.Get(ctx, store.Key(at.account, at.region, owner, asked))
	if errors.Is(err, store.ErrNotFound) || err == nil && asked != *name &&
		aws.ToString(row.Value.Policy.PolicyARN) != *name {
		return row, validation("No policy found with name: %s", *name)
	}
	return row, err
}

// cutPolicyARN returns the group and the name in the ARN of a scaling policy. ok is false for what is none.
func cutPolicyARN(arn string) (group, name string, ok bool) {
	_, rest, found := strings.Cut(arn, ":autoScalingGroupName/")
	if !found || !strings.HasPrefix(arn, "arn:") {
		return "", "", false
	}
	group, name, _ = strings.Cut(rest, ":policyName/")
	return group, name, true
}

// DeletePolicy deletes a scaling policy.
func (s *Service) DeletePolicy(ctx context.Context, in *autoscaling.DeletePolicyInput) (
	*autoscaling.DeletePolicyOutput, error) {
	row, err := s.findPolicy(ctx, in.AutoScalingGroupName, in.PolicyName)
	if err == nil {
		err = s.policies.Delete(ctx, row)
	}
	if err != nil {
		return nil, err
	}
	return &autoscaling.DeletePolicyOutput{}, nil
}

// DescribePolicies returns scaling policies.
func (s *Service) DescribePolicies(ctx context.Context, in *autoscaling.DescribePoliciesInput) (
	*autoscaling.DescribePoliciesOutput, error) {
	at := scopeOf(ctx)
	prefix := at.keyPrefix()
	if in.AutoScalingGroupName != nil {
		g, err := s.getGroup(ctx, in.AutoScalingGroupName)
		if err != nil {
			return nil, err
		}
		prefix = store.Prefix(at.account, at.region, g.Value.Name)
	}
	rows, err := s.policies.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r store.Row[record.AutoScalingPolicy]) bool {
		p := r.Value.Policy
		return len(in.PolicyNames) > 0 && !slices.Contains(in.PolicyNames, *p.PolicyName) &&
			!slices.Contains(in.PolicyNames, *p.PolicyARN) ||
			len(in.PolicyTypes) > 0 && !slices.Contains(in.PolicyTypes, *p.PolicyType)
	})
	rows, next, err := paginate(ctx, rows, pagesOf50Or100, in.MaxRecords, in.NextToken,
		func(r store.Row[record.AutoScalingPolicy]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &autoscaling.DescribePoliciesOutput{ScalingPolicies: []types.ScalingPolicy{}, NextToken: next}
	for _, row := range rows {
		out.ScalingPolicies = append(out.ScalingPolicies, row.Value.Policy)
	}
	return out, nil
}

// ExecutePolicy changes the desired capacity of a group as a policy says.
func (s *Service) ExecutePolicy(ctx context.Context, in *autoscaling.ExecutePolicyInput) (
	*autoscaling.ExecutePolicyOutput, error) {
	row, err := s.findPolicy(ctx, in.AutoScalingGroupName, in.PolicyName)
	if err != nil {
		return nil, err
	}
	p := row.Value.Policy
	if !*p.Enabled {
		return nil, validation("Policy %s is disabled", *p.PolicyName)
	}
	var adjustment int32
	switch *p.PolicyType {
	case "StepScaling":
		if in.MetricValue == nil || in.BreachThreshold == nil {
			return nil, validation("MetricValue and BreachThreshold are required for policies of type StepScaling")
		}
		difference := *in.MetricValue - *in.BreachThreshold
		i := slices.IndexFunc(p.StepAdjustments, func(step types.StepAdjustment) bool {
			lower, upper := stepBounds(step)
			if difference < 0 {
				return lower < difference && difference <= upper
			}
			return lower <= difference && difference < upper
		})
		if i < 0 {
			return nil,
				validation(
					"There is no step adjustment of policy %s for the metric value %v, which is %v from the threshold",
					*p.PolicyName, *in.MetricValue, difference)
		}
		adjustment = *p.StepAdjustments[i].ScalingAdjustment
	default:
		if in.MetricValue != nil || in.BreachThreshold != nil {
			return nil, validation("MetricValue and BreachThreshold are only for policies of type StepScaling")
		}
		adjustment = *p.ScalingAdjustment
	}
	err = s.updateGroup(ctx, p.AutoScalingGroupName, func(g *record.AutoScalingGroup) ([]store.Op, error) {
		if aws.ToBool(in.HonorCooldown) && *p.PolicyType == "SimpleScaling" {
			cooldown := g.DefaultCooldown
			if p.Cooldown != nil {
				cooldown = *p.Cooldown
			}
			if err := s.checkCooldown(ctx, *g, cooldown); err != nil {
				return nil, err
			}
		}
		to := min(max(adjusted(g.Desired, adjustment, *p.AdjustmentType, aws.ToInt32(p.MinAdjustmentMagnitude)), g.Min),
			g.Max)
		setDesired(g, to, s.timestamp(), "a user request executed policy "+*p.PolicyName)
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return &autoscaling.ExecutePolicyOutput{}, nil
}

// adjusted returns a capacity after an adjustment.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-scaling-simple-step.html#as-scaling-adjustment
func adjusted(capacity, adjustment int32, kind string, least int32) int32 {
	switch kind {
	case "ExactCapacity":
		return adjustment
	case "PercentChangeInCapacity":
		change := float64(capacity) * float64(adjustment) / 100
		whole := math.Trunc(change)
		if change > 0 && change < 1 {
			whole = 1
		} else if change < 0 && change > -1 {
			whole = -1
		}
		if math.Abs(whole) < float64(least) && adjustment != 0 {
			whole = math.Copysign(float64(least), float64(adjustment))
		}
		return capacity + int32(whole)
	}
	return capacity + adjustment
}
