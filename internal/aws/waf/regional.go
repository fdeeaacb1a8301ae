package waf

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/wafregional"
	"github.com/aws/aws-sdk-go-v2/service/wafregional/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Regional serves AWS WAF Classic Regional. It is safe for concurrent use.
type Regional struct{ service }

func (s Regional) handlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.GetWebACLForResource, func(
			_ context.Context, action string, in *wafregional.GetWebACLForResourceInput,
		) ([]wire.Target, error) {
			return on(action, in.ResourceArn)
		}),
		wire.Handle(s.AssociateWebACL, func(
			ctx context.Context, action string, in *wafregional.AssociateWebACLInput,
		) ([]wire.Target, error) {
			return on(action, webACL(ctx, in.WebACLId), in.ResourceArn)
		}),
		wire.Handle(s.DisassociateWebACL, func(
			_ context.Context, action string, in *wafregional.DisassociateWebACLInput,
		) ([]wire.Target, error) {
			return on(action, in.ResourceArn)
		}),
		wire.Handle(s.ListWebACLs, wire.OnAll),
		wire.Handle(s.GetWebACL, func(
			ctx context.Context, action string, in *wafregional.GetWebACLInput,
		) ([]wire.Target, error) {
			return on(action, webACL(ctx, in.WebACLId))
		}),
	}
}

// webACL returns the ARN of a web ACL.
func webACL(ctx context.Context, id *string) *string {
	return new("arn:aws:waf-regional:" + wire.RegionFrom(ctx) + ":" + wire.CallerFrom(ctx).Account + ":webacl/" +
		aws.ToString(id))
}

// GetWebACLForResource returns the web ACL of a load balancer: none.
func (s Regional) GetWebACLForResource(ctx context.Context, in *wafregional.GetWebACLForResourceInput) (
	*wafregional.GetWebACLForResourceOutput, error) {
	return &wafregional.GetWebACLForResourceOutput{}, s.find(ctx, in.ResourceArn)
}

// find refuses a resource that does not exist.
func (s Regional) find(ctx context.Context, arn *string) error {
	ok, err := s.exists(ctx, arn)
	if err == nil && !ok {
		err = &types.WAFNonexistentItemException{Message: noResource(arn)}
	}
	return err
}

// AssociateWebACL refuses: no web ACL exists.
func (s Regional) AssociateWebACL(_ context.Context, in *wafregional.AssociateWebACLInput) (
	*wafregional.AssociateWebACLOutput, error) {
	return nil, &types.WAFNonexistentItemException{Message: noACL(in.WebACLId)}
}

// DisassociateWebACL takes the web ACL off a load balancer, which has none.
func (s Regional) DisassociateWebACL(ctx context.Context, in *wafregional.DisassociateWebACLInput) (
	*wafregional.DisassociateWebACLOutput, error) {
	return &wafregional.DisassociateWebACLOutput{}, s.find(ctx, in.ResourceArn)
}

// ListWebACLs lists the web ACLs: none.
func (s Regional) ListWebACLs(context.Context, *wafregional.ListWebACLsInput) (*wafregional.ListWebACLsOutput, error) {
	return &wafregional.ListWebACLsOutput{WebACLs: []types.WebACLSummary{}}, nil
}

// GetWebACL refuses: no web ACL exists.
func (s Regional) GetWebACL(_ context.Context, in *wafregional.GetWebACLInput) (*wafregional.GetWebACLOutput, error) {
	return nil, &types.WAFNonexistentItemException{Message: noACL(in.WebACLId)}
}
