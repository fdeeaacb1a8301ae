package waf

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/wafv2"
	"github.com/aws/aws-sdk-go-v2/service/wafv2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// V2 serves AWS WAF. It is safe for concurrent use.
type V2 struct{ service }

func (s V2) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetWebACLForResource, func(
			_ context.Context, action string, in *wafv2.GetWebACLForResourceInput,
		) ([]wire.Target, error) {
			return on(action, in.ResourceArn)
		}),
		wire.Handle(s.AssociateWebACL, func(
			_ context.Context, action string, in *wafv2.AssociateWebACLInput,
		) ([]wire.Target, error) {
			return on(action, in.WebACLArn, in.ResourceArn)
		}),
		wire.Handle(s.DisassociateWebACL, func(
			_ context.Context, action string, in *wafv2.DisassociateWebACLInput,
		) ([]wire.Target, error) {
			return on(action, in.ResourceArn)
		}),
		wire.Handle(s.ListWebACLs, wire.OnAll),
		wire.Handle(s.GetWebACL, func(
			ctx context.Context, action string, in *wafv2.GetWebACLInput,
		) ([]wire.Target, error) {
			if in.ARN != nil {
				return on(action, in.ARN)
			}
			scope := "regional"
			if in.Scope == types.ScopeCloudfront {
				scope = "global"
			}
			arn := "arn:aws:wafv2:" + wire.RegionFrom(ctx) + ":" + wire.CallerFrom(ctx).Account + ":" + scope + "/webacl/" +
				aws.ToString(in.Name) + "/" + aws.ToString(in.Id)
			return on(action, &arn)
		}),
		wire.Handle(s.ListResourcesForWebACL, func(
			_ context.Context, action string, in *wafv2.ListResourcesForWebACLInput,
		) ([]wire.Target, error) {
			return on(action, in.WebACLArn)
		}),
	}
}

// GetWebACLForResource returns the web ACL of a load balancer: none.
func (s V2) GetWebACLForResource(ctx context.Context, in *wafv2.GetWebACLForResourceInput) (
	*wafv2.GetWebACLForResourceOutput, error) {
	return &wafv2.GetWebACLForResourceOutput{}, s.find(ctx, in.ResourceArn)
}

// find refuses a resource that does not exist.
func (s V2) find(ctx context.Context, arn *string) error {
	ok, err := s.exists(ctx, arn)
	if err == nil && !ok {
		err = &types.WAFNonexistentItemException{Message: noResource(arn)}
	}
	return err
}

// AssociateWebACL refuses: no web ACL exists.
func (s V2) AssociateWebACL(_ context.Context, in *wafv2.AssociateWebACLInput) (*wafv2.AssociateWebACLOutput, error) {
	return nil, &types.WAFNonexistentItemException{Message: noACL(in.WebACLArn)}
}

// DisassociateWebACL takes the web ACL off a load balancer, which has none.
func (s V2) DisassociateWebACL(ctx context.Context, in *wafv2.DisassociateWebACLInput) (
	*wafv2.DisassociateWebACLOutput, error) {
	return &wafv2.DisassociateWebACLOutput{}, s.find(ctx, in.ResourceArn)
}

// ListWebACLs lists the web ACLs: none.
func (s V2) ListWebACLs(context.Context, *wafv2.ListWebACLsInput) (*wafv2.ListWebACLsOutput, error) {
	return &wafv2.ListWebACLsOutput{WebACLs: []types.WebACLSummary{}}, nil
}

// GetWebACL refuses: no web ACL exists.
func (s V2) GetWebACL(_ context.Context, in *wafv2.GetWebACLInput) (*wafv2.GetWebACLOutput, error) {
	id := in.ARN
	if id == nil {
		id = in.Name
	}
	return nil, &types.WAFNonexistentItemException{Message: noACL(id)}
}

// ListResourcesForWebACL refuses: no web ACL exists.
func (s V2) ListResourcesForWebACL(_ context.Context, in *wafv2.ListResourcesForWebACLInput) (
	*wafv2.ListResourcesForWebACLOutput, error) {
	return nil, &types.WAFNonexistentItemException{Message: noACL(in.WebACLArn)}
}
