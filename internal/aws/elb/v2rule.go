package elb

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// ruleHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) ruleHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateRule, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.CreateRuleInput,
		) ([]wire.Target, error) {
			tags := v2Tags(in.Tags)
			t, err := s.targetOf(ctx, action, in.ListenerArn, listeners, tags...)
			return withTagging([]wire.Target{t}, "listener-rule", tags), err
		}),
		wire.Handle(s.ModifyRule, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.ModifyRuleInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.RuleArn, rules)
		}),
		wire.Handle(s.DeleteRule, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.DeleteRuleInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.RuleArn, rules)
		}),
		wire.Handle(s.SetRulePriorities, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.SetRulePrioritiesInput,
		) ([]wire.Target, error) {
			var all []wire.Target
			for _, p := range in.RulePriorities {
				t, err := s.targetOf(ctx, action, p.RuleArn, rules)
				if err != nil {
					return nil, err
				}
				all = append(all, t)
			}
			if len(all) == 0 {
				return wire.OnAll(ctx, action, in)
			}
			return all, nil
		}),
		wire.Handle(s.DescribeRules, wire.OnAll),
	}
}

// onApplication refuses rules of Network Load Balancers.
func onApplication(b record.LoadBalancer) error {
	if b.Kind != record.ApplicationLoadBalancer {
		return wire.Errorf("OperationNotPermitted", "Listeners of Network Load Balancers have no rules but their default "+
			"action")
	}
	return nil
}

// sortRules sorts the rules of a listener, and refuses two with one priority.
func sortRules(l *record.Listener) error {
	slices.SortStableFunc(l.Rules, func(a, b record.ListenerRule) int { return cmp.Compare(a.Priority, b.Priority) })
	for i := range l.Rules {
		if i > 0 && l.Rules[i-1].Priority == l.Rules[i].Priority {
			return priorityInUse(l.Rules[i].Priority)
		}
	}
	return nil
}

func priorityInUse(priority int32) error {
	return wire.Errorf("PriorityInUse", "Priority '%d' is currently in use", priority)
}

func countRules(b record.LoadBalancer) (n int) {
	for _, l := range b.Listeners {
		n += len(l.Rules)
	}
	return n
}

// CreateRule creates a rule of a listener. It returns the one that has the priority already if that was made with the
// same settings.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateRule.html
func (s V2) CreateRule(ctx context.Context, in *elasticloadbalancingv2.CreateRuleInput) (
	out *elasticloadbalancingv2.CreateRuleOutput, err error) {
	rule := record.ListenerRule{ID: newID(), Priority: aws.ToInt32(in.Priority)}
	if in.Priority == nil {
		return nil, invalid("A priority must be specified")
	}
	if err := checkRange("Rule priority", rule.Priority, 1, maxPriority); err != nil {
		return nil, err
	}
	if rule.Conditions, err = parseConditions(in.Conditions); err != nil {
		return nil, err
	}
	if rule.HostRewrite, rule.URLRewrite, err = parseTransforms(in.Transforms); err != nil {
		return nil, err
	}
	if rule.Tags, err = applyTags(ctx, nil, v2Tags(in.Tags)); err != nil {
		return nil, err
	}
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, i, err := s.getListener(c, in.ListenerArn)
		if err != nil {
			return err
		}
		b, l := &row.Value, &row.Value.Listeners[i]
		if err := onApplication(*b); err != nil {
			return err
		}
		if rule.Actions, err = s.parseActions(c, *b, *l, in.Actions, nil); err != nil {
			return err
		}
		for _, other := range l.Rules {
			if other.Priority != rule.Priority {
				continue
			}
			same := other
			if same.ID = rule.ID; !reflect.DeepEqual(same, rule) {
				return priorityInUse(rule.Priority)
			}
			out = &elasticloadbalancingv2.CreateRuleOutput{Rules: []types.Rule{s.describeRule(c, *b, *l, other)}}
			return nil
		}
		if countRules(*b) >= maxRules {
			return wire.Errorf("TooManyRules", "The maximum number of rules of a load balancer, %d, has been reached", maxRules)
		}
		before := b.TargetGroups()
		l.Rules = append(l.Rules, rule)
		if err := checkExpressions(*b); err != nil {
			return err
		}
		if err := sortRules(l); err != nil {
			return err
		}
		if err := s.planUses(c, *b, before); err != nil {
			return err
		}
		if err := s.checkBounds(c, *b); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.CreateRuleOutput{Rules: []types.Rule{s.describeRule(c, *b, *l, rule)}}
		s.planUpdate(c, row)
		return nil
	})
	return out, err
}

// ModifyRule changes a rule. What the request leaves out stays.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyRule.html
func (s V2) ModifyRule(ctx context.Context, in *elasticloadbalancingv2.ModifyRuleInput) (
	out *elasticloadbalancingv2.ModifyRuleOutput, err error) {
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		f, err := s.getRule(c, in.RuleArn)
		if err != nil {
			return err
		}
		if f.rule < 0 {
			return wire.Errorf("OperationNotPermitted", "Default rule '%s' cannot be modified: change the default actions of "+
				"its listener", *in.RuleArn)
		}
		b, l := &f.row.Value, &f.row.Value.Listeners[f.listener]
		r, before := &l.Rules[f.rule], b.TargetGroups()
		if len(in.Conditions) > 0 {
			if r.Conditions, err = parseConditions(in.Conditions); err != nil {
				return err
			}
		}
		if len(in.Actions) > 0 {
			if r.Actions, err = s.parseActions(c, *b, *l, in.Actions, r.Actions); err != nil {
				return err
			}
		}
		switch {
		case aws.ToBool(in.ResetTransforms) && len(in.Transforms) > 0:
			return invalid("Transforms cannot be specified together with ResetTransforms")
		case aws.ToBool(in.ResetTransforms):
			r.HostRewrite, r.URLRewrite = nil, nil
		case len(in.Transforms) > 0:
			if r.HostRewrite, r.URLRewrite, err = parseTransforms(in.Transforms); err != nil {
				return err
			}
		}
		if len(in.Conditions)+len(in.Transforms) > 0 {
			if err := checkExpressions(*b); err != nil {
				return err
			}
		}
		if err := s.planUses(c, *b, before); err != nil {
			return err
		}
		if err := s.checkBounds(c, *b); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.ModifyRuleOutput{Rules: []types.Rule{s.describeRule(c, *b, *l, *r)}}
		s.planUpdate(c, f.row)
		return nil
	})
	return out, err
}

// DeleteRule deletes a rule.
func (s V2) DeleteRule(ctx context.Context, in *elasticloadbalancingv2.DeleteRuleInput) (
	*elasticloadbalancingv2.DeleteRuleOutput, error) {
	return &elasticloadbalancingv2.DeleteRuleOutput{}, s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		f, err := s.getRule(c, in.RuleArn)
		if err != nil {
			return err
		}
		if f.rule < 0 {
			return wire.Errorf("OperationNotPermitted", "Default rule '%s' cannot be deleted", *in.RuleArn)
		}
		l, before := &f.row.Value.Listeners[f.listener], f.row.Value.TargetGroups()
		l.Rules = slices.Delete(l.Rules, f.rule, f.rule+1)
		if err := s.planUses(c, f.row.Value, before); err != nil {
			return err
		}
		s.planUpdate(c, f.row)
		return nil
	})
}

// SetRulePriorities gives rules of a listener other priorities, all at once.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_SetRulePriorities.html
func (s V2) SetRulePriorities(ctx context.Context, in *elasticloadbalancingv2.SetRulePrioritiesInput) (
	out *elasticloadbalancingv2.SetRulePrioritiesOutput, err error) {
	if len(in.RulePriorities) == 0 {
		return nil, invalid("At least one rule priority must be specified")
	}
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		var first found
		wanted := map[string]int32{} // by ID
		for i, p := range in.RulePriorities {
			f, err := s.getRule(c, p.RuleArn)
			if err != nil {
				return err
			}
			if f.rule < 0 {
				return wire.Errorf("OperationNotPermitted", "The priority of the default rule '%s' cannot be set", *p.RuleArn)
			}
			if i == 0 {
				first = f
			}
			if f.row.Key != first.row.Key || f.listener != first.listener {
				return invalid("All rules must belong to the same listener")
			}
			id := f.row.Value.Listeners[f.listener].Rules[f.rule].ID
			if _, twice := wanted[id]; twice {
				return invalid("The rule '%s' is given twice", *p.RuleArn)
			}
			if wanted[id] = aws.ToInt32(p.Priority); p.Priority == nil {
				return invalid("A priority must be specified for the rule '%s'", *p.RuleArn)
			}
			if err := checkRange("Rule priority", wanted[id], 1, maxPriority); err != nil {
				return err
			}
		}
		b, l := &first.row.Value, &first.row.Value.Listeners[first.listener]
		for i, r := range l.Rules {
			if priority, there := wanted[r.ID]; there {
				l.Rules[i].Priority = priority
			}
		}
		if err := sortRules(l); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.SetRulePrioritiesOutput{}
		arns := s.arnsOf(c, *b, l.TargetGroups())
		for _, r := range l.Rules {
			if _, there := wanted[r.ID]; there {
				out.Rules = append(out.Rules, s.viewRule(arns, *b, *l, r))
			}
		}
		s.planUpdate(c, first.row)
		return nil
	})
	return out, err
}

// DescribeRules describes the rules of a listener in the order of their priorities, the default rule last, or those
// that the request names.
func (s V2) DescribeRules(ctx context.Context, in *elasticloadbalancingv2.DescribeRulesInput) (
	*elasticloadbalancingv2.DescribeRulesOutput, error) {
	if (in.ListenerArn == nil) == (len(in.RuleArns) == 0) {
		return nil, invalid("You must specify either listener rule ARNs or a listener ARN")
	}
	all := []types.Rule{}
	for _, arn := range in.RuleArns {
		f, err := s.getRule(ctx, &arn)
		if err != nil {
			return nil, err
		}
		b, l := f.row.Value, f.row.Value.Listeners[f.listener]
		if f.rule < 0 {
			all = append(all, s.describeDefaultRule(s.arnsOfActions(ctx, b, actionsOf(l)), b, l))
		} else {
			all = append(all, s.describeRule(ctx, b, l, l.Rules[f.rule]))
		}
	}
	if in.ListenerArn != nil {
		row, i, err := s.getListener(ctx, in.ListenerArn)
		if err != nil {
			return nil, err
		}
		l := row.Value.Listeners[i]
		arns := s.arnsOf(ctx, row.Value, l.TargetGroups()) // which rules have in common
		for _, r := range l.Rules {
			all = append(all, s.viewRule(arns, row.Value, l, r))
		}
		all = append(all, s.describeDefaultRule(arns, row.Value, l))
	}
	page, next, err := wire.Page(ctx, all, in.PageSize, in.Marker, func(r types.Rule) string { return *r.RuleArn })
	return &elasticloadbalancingv2.DescribeRulesOutput{Rules: page, NextMarker: next}, err
}

// describeRule reads the target groups of a rule, and returns it as the API shows it.
func (s V2) describeRule(ctx context.Context, b record.LoadBalancer, l record.Listener, r record.ListenerRule,
) types.Rule {
	return s.viewRule(s.arnsOfActions(ctx, b, r.Actions), b, l, r)
}

// viewRule returns a rule as the API shows it, with the ARNs of target groups by their names.
func (s V2) viewRule(arns map[string]string, b record.LoadBalancer, l record.Listener, r record.ListenerRule,
) types.Rule {
	d := types.Rule{RuleArn: aws.String(b.RuleARN(l.ID, r.ID)), IsDefault: aws.Bool(false),
		Priority: aws.String(strconv.Itoa(int(r.Priority))), Conditions: describeConditions(r.Conditions),
		Actions: s.describeActions(arns, r.Actions), Transforms: []types.RuleTransform{}}
	rewrites := func(w *record.Rewrite) []types.RewriteConfig {
		return []types.RewriteConfig{{Regex: &w.Regex, Replace: &w.Replace}}
	}
	if r.HostRewrite != nil {
		d.Transforms = append(d.Transforms, types.RuleTransform{Type: types.TransformTypeEnumHostHeaderRewrite,
			HostHeaderRewriteConfig: &types.HostHeaderRewriteConfig{Rewrites: rewrites(r.HostRewrite)}})
	}
	if r.URLRewrite != nil {
		d.Transforms = append(d.Transforms, types.RuleTransform{Type: types.TransformTypeEnumUrlRewrite,
			UrlRewriteConfig: &types.UrlRewriteConfig{Rewrites: rewrites(r.URLRewrite)}})
	}
	return d
}

func (s V2) describeDefaultRule(arns map[string]string, b record.LoadBalancer, l record.Listener) types.Rule {
	return types.Rule{RuleArn: aws.String(b.RuleARN(l.ID, l.DefaultRuleID())), IsDefault: aws.Bool(true),
		Priority: aws.String("default"), Conditions: []types.RuleCondition{}, Transforms: []types.RuleTransform{},
		Actions: s.describeActions(arns, actionsOf(l))}
}

// parseTransforms returns the transforms of a rule that a request describes.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RuleTransform.html
func parseTransforms(list []types.RuleTransform) (host, url *record.Rewrite, err error) {
	for _, in := range list {
		var rewrites []types.RewriteConfig
		to := &host
		switch {
		case in.Type == types.TransformTypeEnumHostHeaderRewrite && in.HostHeaderRewriteConfig != nil &&
			in.UrlRewriteConfig == nil:
			rewrites = in.HostHeaderRewriteConfig.Rewrites
		case in.Type == types.TransformTypeEnumUrlRewrite && in.UrlRewriteConfig != nil && in.HostHeaderRewriteConfig == nil:
			rewrites, to = in.UrlRewriteConfig.Rewrites, &url
		default:
			return nil, nil, invalid("Transform type '%s' must be one of: host-header-rewrite, url-rewrite, with the "+
				"configuration of its type", in.Type)
		}
		if len(rewrites) != 1 || *to != nil {
			return nil, nil, invalid("A rule can have one rewrite of the type '%s'", in.Type)
		}
		w := &record.Rewrite{Regex: aws.ToString(rewrites[0].Regex), Replace: aws.ToString(rewrites[0].Replace)}
		if len(w.Regex) > 1024 || len(w.Replace) > 1024 || !isExpression(w.Regex) {
			return nil, nil, invalid("The rewrite of '%s' must have a valid regular expression, and at most 1024 characters",
				w.Regex)
		}
		*to = w
	}
	return host, url, nil
}
