package elb

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// onClassic returns a Classic Load Balancer as the target.
func (s *service) onClassic(ctx context.Context, action, name string, tags ...tag) (wire.Target, error) {
	at := placeOf(ctx)
	t := wire.Target{Action: action, Resource: record.LoadBalancingARN(at.account, at.region, "loadbalancer/"+name),
		Conditions: map[string][]string{}}
	row, err := s.balancers.Get(ctx, record.LoadBalancerKey(at.account, at.region, record.ClassicLoadBalancer, name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return t, err
	}
	addTags(t.Conditions, row.Value.Tags, tags)
	return t, nil
}

// onClassics returns Classic Load Balancers as the targets.
func (s *service) onClassics(ctx context.Context, action string, names []string, tags ...tag) (
	all []wire.Target, err error) {
	for _, name := range names {
		t, err := s.onClassic(ctx, action, name, tags...)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		t, err := s.onClassic(ctx, action, "*")
		return []wire.Target{t}, err
	}
	return all, nil
}

// addTags adds the condition keys about the tags of a resource and of a request.
func addTags(conditions map[string][]string, of map[string]string, requested []tag) {
	for k, v := range of {
		conditions["aws:ResourceTag/"+k] = []string{v}
		conditions["elasticloadbalancing:ResourceTag/"+k] = []string{v}
	}
	for _, t := range requested {
		conditions["aws:RequestTag/"+t.key] = []string{t.value}
		conditions["aws:TagKeys"] = append(conditions["aws:TagKeys"], t.key)
	}
}

// withTagging adds the permission to tag what a request creates with tags, which has an ARN of the path.
func withTagging(targets []wire.Target, path string, tags []tag) []wire.Target {
	if len(tags) == 0 {
		return targets
	}
	_, created, _ := strings.Cut(targets[0].Action, ":")
	t := wire.Target{Action: "elasticloadbalancing:AddTags", Resource: targets[0].Resource, Owner: targets[0].Owner,
		Conditions: map[string][]string{"elasticloadbalancing:CreateAction": {created}}}
	// What is created in a load balancer has its path, and another kind.
	if parts := strings.SplitN(t.Resource, ":", 6); path != "" && len(parts) == 6 {
		_, of, _ := strings.Cut(parts[5], "/")
		parts[5] = path + "/" + of + "/*"
		t.Resource = strings.Join(parts, ":")
	}
	addTags(t.Conditions, nil, tags)
	return append(targets, t)
}

// groupsAsked returns the security groups of a load balancer in subnets that a request leads to: where it names none,
// the default one of the VPC.
func (s *service) groupsAsked(ctx context.Context, groups, subnets []string) ([]string, error) {
	if len(groups) > 0 || len(subnets) == 0 {
		return groups, nil
	}
	sc, err := resource.ScopeOf(ctx)
	if err != nil {
		return nil, err
	}
	subnet, err := s.ec2.Subnets.GetRecord(sc, &subnets[0])
	if err == nil {
		var group record.SecurityGroup
		if group, err = s.ec2.SecurityGroupNamed(sc, subnet.VPCID, "default"); err == nil {
			return []string{group.ID}, nil
		}
	}
	if _, refused := errors.AsType[*wire.Error](err); refused { // the operation returns it
		return nil, nil
	}
	return nil, err
}

// resourceName is what an ARN of Elastic Load Balancing v2 names.
type resourceName struct {
	account, region string
	kind            string // "loadbalancer", "targetgroup", "listener", "listener-rule"
	name            string // of the load balancer or target group
	listener        string // ID
	rule            string // ID
}

// parseARN reads an ARN of the given kinds.
func parseARN(arn string, kinds ...string) (n resourceName, ok bool) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "elasticloadbalancing" {
		return n, false
	}
	n = resourceName{region: parts[3], account: parts[4]}
	path := strings.Split(parts[5], "/")
	if !slices.Contains(kinds, path[0]) || slices.Contains(path, "") {
		return n, false
	}
	n.kind = path[0]
	if n.kind == "targetgroup" {
		if len(path) != 3 {
			return n, false
		}
		n.name = path[1]
		return n, true
	}
	if len(path) != map[string]int{"loadbalancer": 4, "listener": 5, "listener-rule": 6}[n.kind] {
		return n, false
	}
	n.name = path[2]
	if len(path) > 4 {
		n.listener = path[4]
	}
	if len(path) > 5 {
		n.rule = path[5]
	}
	return n, true
}

func invalidARN(arn, what string) error {
	return invalid("'%s' is not a valid %s ARN", arn, what)
}

// targetOf returns what an ARN names as the target. One that is none names nothing, which the operation says to those
// who may call it on everything.
func (s *service) targetOf(ctx context.Context, action string, arn *string, kinds []string, tags ...tag) (
	wire.Target, error) {
	text := aws.ToString(arn)
	t := wire.Target{Action: action, Resource: text, Conditions: map[string][]string{}}
	n, ok := parseARN(text, kinds...)
	if !ok {
		t.Resource = "*"
		addTags(t.Conditions, nil, tags)
		return t, nil
	}
	if n.account != wire.CallerFrom(ctx).Account {
		t.Owner = n.account
		return t, nil
	}
	var of map[string]string
	if n.kind == "targetgroup" {
		g, err := s.getGroup(ctx, text)
		if err != nil && !isNotFound(err) {
			return t, err
		}
		of = g.Value.Tags
	} else {
		f, err := s.find(ctx, text)
		if err != nil && !isNotFound(err) {
			return t, err
		}
		if tags := f.tags(); err == nil && tags != nil {
			of = *tags
		}
	}
	addTags(t.Conditions, of, tags)
	return t, nil
}

// isNotFound reports whether an error says that there is no such resource: only authorized callers may learn it.
func isNotFound(err error) bool {
	var refused *wire.Error
	return errors.As(err, &refused) && strings.HasSuffix(refused.Code, "NotFound")
}

// getGroup returns the target group of an ARN.
func (s *service) getGroup(ctx context.Context, arn string) (store.Row[record.TargetGroup], error) {
	n, ok := parseARN(arn, "targetgroup")
	if !ok {
		return store.Row[record.TargetGroup]{}, invalidARN(arn, "target group")
	}
	missing := groupNotFound()
	at := placeOf(ctx)
	if n.account != at.account || n.region != at.region {
		return store.Row[record.TargetGroup]{}, missing
	}
	row, err := s.groups.Copy(ctx, record.TargetGroupKey(n.account, n.region, n.name))
	// Policies decide about the text: another that had the same name and ID in it would be another resource to them.
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != arn {
		return store.Row[record.TargetGroup]{}, missing
	}
	return row, err
}

// found is what an ARN names: a load balancer, or a listener or a rule of it.
type found struct {
	row      store.Row[record.LoadBalancer]
	listener int // index; -1 for none
	rule     int // index among those of the listener; -1 for none or its default rule
	isRule   bool
}

// tags returns where the tags of what was found are; nil of a default rule, which has none.
func (f *found) tags() *map[string]string {
	b := &f.row.Value
	switch {
	case f.listener < 0:
		return &b.Tags
	case !f.isRule:
		return &b.Listeners[f.listener].Tags
	case f.rule >= 0:
		return &b.Listeners[f.listener].Rules[f.rule].Tags
	}
	return nil
}

// getBalancer returns the load balancer of an ARN.
func (s *service) getBalancer(ctx context.Context, arn *string) (store.Row[record.LoadBalancer], error) {
	if _, ok := parseARN(aws.ToString(arn), "loadbalancer"); !ok {
		return store.Row[record.LoadBalancer]{}, invalidARN(aws.ToString(arn), "load balancer")
	}
	f, err := s.find(ctx, *arn)
	return f.row, err
}

// getListener returns the load balancer of a listener, and the listener's index.
func (s *service) getListener(ctx context.Context, arn *string) (row store.Row[record.LoadBalancer], i int, err error) {
	if _, ok := parseARN(aws.ToString(arn), "listener"); !ok {
		return row, -1, invalidARN(aws.ToString(arn), "listener")
	}
	f, err := s.find(ctx, *arn)
	return f.row, f.listener, err
}

// getRule returns what an ARN of a rule names.
func (s *service) getRule(ctx context.Context, arn *string) (found, error) {
	if _, ok := parseARN(aws.ToString(arn), "listener-rule"); !ok {
		return found{listener: -1, rule: -1}, invalidARN(aws.ToString(arn), "rule")
	}
	return s.find(ctx, *arn)
}

// find returns what the ARN of a load balancer, a listener or a rule names.
func (s *service) find(ctx context.Context, arn string) (f found, err error) {
	f = found{listener: -1, rule: -1}
	n, ok := parseARN(arn, "loadbalancer", "listener", "listener-rule")
	if !ok {
		return f, invalidARN(arn, "load balancer")
	}
	missing := wire.Errorf("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
	switch n.kind {
	case "listener":
		missing = wire.Errorf("ListenerNotFound", "One or more listeners not found")
	case "listener-rule":
		missing = wire.Errorf("RuleNotFound", "One or more rules not found")
	}
	at := placeOf(ctx)
	if n.account != at.account || n.region != at.region {
		return f, missing
	}
	f.row, err = s.balancers.Copy(ctx, record.LoadBalancerKey(n.account, n.region, record.NetworkLoadBalancer, n.name))
	if errors.Is(err, store.ErrNotFound) {
		return found{listener: -1, rule: -1}, missing
	}
	if err != nil {
		return found{listener: -1, rule: -1}, err
	}
	b := f.row.Value
	is := map[string]string{"loadbalancer": b.ARN(), "listener": b.ListenerARN(n.listener),
		"listener-rule": b.RuleARN(n.listener, n.rule)}[n.kind]
	if is != arn { // as in getGroup
		return found{listener: -1, rule: -1}, missing
	}
	if n.kind == "loadbalancer" {
		return f, nil
	}
	listeners := b.Listeners
	i := slices.IndexFunc(listeners, func(l record.Listener) bool { return l.ID == n.listener })
	if i < 0 {
		return f, missing
	}
	if n.kind == "listener" {
		f.listener = i
		return f, nil
	}
	j := slices.IndexFunc(listeners[i].Rules, func(r record.ListenerRule) bool { return r.ID == n.rule })
	if j < 0 && n.rule != listeners[i].DefaultRuleID() {
		return f, missing
	}
	f.listener, f.rule, f.isRule = i, j, true
	return f, nil
}
