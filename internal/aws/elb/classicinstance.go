package elb

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
)

// instanceHandlers returns the handlers of this file's operations and how each is authorized.
func (s Classic) instanceHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.RegisterInstancesWithLoadBalancer, func(
			ctx context.Context, action string, in *elasticloadbalancing.RegisterInstancesWithLoadBalancerInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
		wire.Handle(s.DeregisterInstancesFromLoadBalancer, func(
			ctx context.Context, action string, in *elasticloadbalancing.DeregisterInstancesFromLoadBalancerInput,
		) ([]wire.Target, error) {
			return s.onClassics(ctx, action, []string{aws.ToString(in.LoadBalancerName)})
		}),
		wire.Handle(s.DescribeInstanceHealth, wire.OnAll),
	}
}

func invalidInstance(format string, args ...any) error {
	return wire.Errorf("InvalidInstance", format, args...)
}

// RegisterInstancesWithLoadBalancer adds instances to a load balancer.
func (s Classic) RegisterInstancesWithLoadBalancer(ctx context.Context,
	in *elasticloadbalancing.RegisterInstancesWithLoadBalancerInput) (
	*elasticloadbalancing.RegisterInstancesWithLoadBalancerOutput, error) {
	if len(in.Instances) == 0 {
		return nil, invalid("Instances: at least one instance must be specified")
	}
	sc, err := s.ec2.RequestScope(ctx)
	if err != nil {
		return nil, err
	}
	b, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		now := s.now().UTC()
		s.forgetDrained(b, now)
		for _, one := range in.Instances {
			id := aws.ToString(one.InstanceId)
			r, there, err := s.getInstance(sc, id)
			if err != nil {
				return err
			}
			state := s.ec2.InstanceState(sc, r)
			switch {
			case !there || state == ec2types.InstanceStateNameTerminated:
				return invalidInstance("Could not find EC2 instance %s.", id)
			case r.VPCID != b.VPCID:
				return invalidInstance("EC2 instance %s is not in the same VPC as the load balancer.", id)
			}
			i := slices.IndexFunc(b.Classic.Instances, func(r record.RegisteredInstance) bool { return r.ID == id })
			switch {
			case i < 0:
				b.Classic.Instances = append(b.Classic.Instances, record.RegisteredInstance{ID: id, RegisteredAt: now})
			case !b.Classic.Instances[i].DeregisteredAt.IsZero():
				b.Classic.Instances[i] = record.RegisteredInstance{ID: id, RegisteredAt: now}
			}
		}
		if len(b.Classic.Instances) > maxInstancesOfClassic {
			return invalidConfiguration("A load balancer has at most %d registered instances", maxInstancesOfClassic)
		}
		return s.checkLed(ctx, *b, nil)
	})
	return &elasticloadbalancing.RegisterInstancesWithLoadBalancerOutput{Instances: registered(b)}, err
}

// forgetDrained removes what has been deregistered for longer than connections drain.
func (s Classic) forgetDrained(b *record.LoadBalancer, now time.Time) {
	b.Classic.Instances = slices.DeleteFunc(b.Classic.Instances, func(i record.RegisteredInstance) bool {
		return !i.DeregisteredAt.IsZero() && !now.Before(i.DeregisteredAt.Add(b.ConnectionDraining()))
	})
}

func registered(b record.LoadBalancer) []types.Instance {
	all := []types.Instance{}
	if b.Classic == nil {
		return all
	}
	for _, i := range b.Classic.Instances {
		if i.DeregisteredAt.IsZero() {
			all = append(all, types.Instance{InstanceId: new(i.ID)})
		}
	}
	return all
}

// DeregisterInstancesFromLoadBalancer removes instances from a load balancer. Their connections drain.
func (s Classic) DeregisterInstancesFromLoadBalancer(ctx context.Context,
	in *elasticloadbalancing.DeregisterInstancesFromLoadBalancerInput) (
	*elasticloadbalancing.DeregisterInstancesFromLoadBalancerOutput, error) {
	b, err := s.modify(ctx, in.LoadBalancerName, func(b *record.LoadBalancer) error {
		now := s.now().UTC()
		for _, one := range in.Instances {
			i := slices.IndexFunc(b.Classic.Instances, func(r record.RegisteredInstance) bool {
				return r.ID == aws.ToString(one.InstanceId) && r.DeregisteredAt.IsZero()
			})
			if i < 0 {
				return invalidInstance("The specified instance %s is not registered with the load balancer.",
					aws.ToString(one.InstanceId))
			}
			b.Classic.Instances[i].DeregisteredAt = now
		}
		s.forgetDrained(b, now)
		return nil
	})
	return &elasticloadbalancing.DeregisterInstancesFromLoadBalancerOutput{Instances: registered(b)}, err
}

// DescribeInstanceHealth describes the instances of a load balancer: those that the request names, or all.
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/API_InstanceState.html
func (s Classic) DescribeInstanceHealth(ctx context.Context, in *elasticloadbalancing.DescribeInstanceHealthInput) (
	*elasticloadbalancing.DescribeInstanceHealthOutput, error) {
	row, err := s.getClassic(ctx, in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	b := row.Value
	observed, err := s.getHealth(ctx, b.Key(), b.ID)
	if err != nil {
		return nil, err
	}
	known := map[string]record.RegisteredInstance{}
	var ids []string
	for _, i := range b.Classic.Instances {
		if i.DeregisteredAt.IsZero() {
			known[i.ID] = i
			ids = append(ids, i.ID)
		}
	}
	if len(in.Instances) > 0 {
		ids = nil
		for _, i := range in.Instances {
			ids = append(ids, aws.ToString(i.InstanceId))
		}
	}
	out := &elasticloadbalancing.DescribeInstanceHealthOutput{InstanceStates: []types.InstanceState{}}
	for _, id := range ids {
		i, ok := known[id]
		if !ok {
			return nil, invalidInstance("The specified instance %s is not registered with the load balancer.", id)
		}
		view := types.InstanceState{InstanceId: &id, State: aws.String("OutOfService"), ReasonCode: aws.String("ELB"),
			Description: aws.String("Instance registration is still in progress.")}
		state, seen := observed[balancing.TargetName(id, 0)]
		switch {
		case !seen || !state.RegisteredAt.Equal(i.RegisteredAt):
		case state.State == record.TargetHealthy:
			view.State, view.ReasonCode, view.Description = aws.String("InService"), aws.String("N/A"), aws.String("N/A")
		case state.State == record.TargetUnhealthy:
			view.ReasonCode = aws.String("Instance")
			view.Description = aws.String("Instance has failed at least the UnhealthyThreshold number of health checks " +
				"consecutively.")
		}
		out.InstanceStates = append(out.InstanceStates, view)
	}
	return out, nil
}
