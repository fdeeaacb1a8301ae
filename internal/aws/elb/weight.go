package elb

import (
	"context"
	"encoding/json"
	"regexp/syntax"
	"slices"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/regexsize"
	"github.com/coracle-eks/coracle/internal/store"
)

// The weight of a load balancer is about how many bytes its listeners take in the process that forwards for all
// accounts, and in the configuration that the daemon writes for it. Each quota of AWS is small; their product is not:
// a listener has a copy of its rules, of its certificates and of the settings of its target groups in every zone.
const (
	maxWeight          = 8 << 20
	maxWeightOfAccount = 128 << 20 // in all regions
	// lightWeight is the weight up to which nobody looks at the other load balancers of the account.
	lightWeight = 256 << 10

	weightOfCertificate = record.MaxCertificateMaterial
	weightOfGroup       = 512
	weightOfInstruction = 200 // of a compiled regular expression, with the classes of characters in it
)

// weigh returns the weight of a load balancer.
func weigh(b record.LoadBalancer) (int, error) {
	weight, shared := 0, 0
	for _, l := range b.Listeners {
		weight += weightOfCertificate*len(l.Certificates) + weightOfGroup*len(l.TargetGroups())
		l.Tags, l.Rules = nil, slices.Clone(l.Rules) // the process does not get the tags
		for i, r := range l.Rules {
			l.Rules[i].Tags = nil
			shared += weightOfInstruction * instructions(r) // zones have compiled expressions in common
		}
		text, err := json.Marshal(l)
		if err != nil {
			return 0, err
		}
		weight += len(text)
	}
	return weight*max(len(b.Zones), 1) + shared, nil
}

// instructions returns about how many instructions the regular expressions of a rule are compiled to.
func instructions(r record.ListenerRule) (n int) {
	count := func(text string) {
		if tree, err := syntax.Parse(text, syntax.Perl); err == nil {
			n += regexsize.Estimate(tree)
		}
	}
	for _, c := range r.Conditions {
		for _, text := range c.Regex {
			count(text)
		}
	}
	for _, w := range []*record.Rewrite{r.HostRewrite, r.URLRewrite} {
		if w != nil {
			count(w.Regex)
		}
	}
	return n
}

// checkWeight refuses a load balancer whose listeners would take too much, by themselves or with those of the other
// load balancers of the account.
func (s *service) checkWeight(ctx context.Context, b record.LoadBalancer) error {
	weight, err := weigh(b)
	if err != nil {
		return err
	}
	if weight > maxWeight {
		return invalidConfiguration("The listeners of load balancer '%s', with their rules and certificates, would take %d "+
			"bytes in %d Availability Zones; the maximum is %d. Each certificate counts %d for each listener that has it",
			b.Name, weight, len(b.Zones), maxWeight, weightOfCertificate)
	}
	if weight <= lightWeight {
		return nil
	}
	rows, err := s.balancers.List(ctx, store.Prefix(b.Account))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Key == b.Key() {
			continue
		}
		other, err := weigh(row.Value)
		if err != nil {
			return err
		}
		weight += other
	}
	if weight > maxWeightOfAccount {
		return invalidConfiguration("The listeners of all load balancers of account %s, with their rules and certificates, "+
			"would take %d bytes; the maximum is %d", b.Account, weight, maxWeightOfAccount)
	}
	return nil
}

// checkBounds refuses a load balancer whose listeners would lead to too many targets, or take too much.
func (s *service) checkBounds(ctx context.Context, b record.LoadBalancer) error {
	if err := s.checkLed(ctx, b, nil); err != nil {
		return err
	}
	groups := 0
	for _, l := range b.Listeners {
		groups += len(l.TargetGroups())
	}
	if b.Kind == record.NetworkLoadBalancer && groups > maxLedGroups {
		return wire.Errorf("TooManyTargetGroups", "The listeners of load balancer '%s' would lead to %d target groups; the "+
			"maximum is %d", b.Name, groups, maxLedGroups)
	}
	return s.checkWeight(ctx, b)
}
