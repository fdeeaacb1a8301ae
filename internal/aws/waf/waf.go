// Package waf answers what clients of load balancers ask AWS WAF ([V2]) and its predecessor ([Regional]): there are no
// web ACLs, so none is associated with a load balancer, and none can be.
//
// https://docs.aws.amazon.com/waf/latest/APIReference/Welcome.html
package waf

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Options configures the services.
type Options struct{ Store *store.Store }

// service is what both APIs share.
type service struct {
	balancers store.Table[record.LoadBalancer]
}

// Register serves the operations of both APIs.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awswafv2.html
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awswafregional.html
func Register(mux *wire.Mux, o Options) {
	s := service{}
	if o.Store != nil {
		s.balancers = record.LoadBalancers(o.Store)
	}
	mux.Register(wire.WAFv2, V2{s}.handlers()...)
	mux.Register(wire.WAFRegional, Regional{s}.handlers()...)
}

// exists reports whether the caller has a load balancer of that ARN.
func (s service) exists(ctx context.Context, arn *string) (bool, error) {
	rows, err := s.balancers.List(ctx, store.Prefix(wire.CallerFrom(ctx).Account, wire.RegionFrom(ctx)))
	return slices.ContainsFunc(rows, func(row store.Row[record.LoadBalancer]) bool {
		return row.Value.ARN() == aws.ToString(arn)
	}), err
}

// on returns a target for each ARN of a request that has one.
func on(action string, arns ...*string) ([]wire.Target, error) {
	var targets []wire.Target
	for _, arn := range arns {
		if arn == nil {
			continue
		}
		t := wire.Target{Action: action, Resource: *arn}
		if parts := strings.SplitN(*arn, ":", 6); len(parts) == 6 {
			t.Owner = parts[4]
		}
		targets = append(targets, t)
	}
	if targets == nil {
		targets = []wire.Target{{Action: action, Resource: "*"}}
	}
	return targets, nil
}

// noResource returns the message about a resource that does not exist.
func noResource(arn *string) *string {
	return new(fmt.Sprintf("AWS WAF couldn't perform the operation because your resource doesn't exist: there is no load "+
		"balancer %s.", aws.ToString(arn)))
}

// noACL returns the message about web ACLs, of which there are none.
func noACL(id *string) *string {
	return new(fmt.Sprintf("AWS WAF couldn't perform the operation because your resource doesn't exist: there is no web "+
		"ACL %s, as coracle has none. Take it off the load balancer.", aws.ToString(id)))
}
