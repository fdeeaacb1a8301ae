package elb

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/balancing"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// certificateHandlers returns the handlers of this file's operations and how each is authorized.
func (s V2) certificateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.AddListenerCertificates, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.AddListenerCertificatesInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.ListenerArn, listeners)
		}),
		wire.Handle(s.RemoveListenerCertificates, func(
			ctx context.Context, action string, in *elasticloadbalancingv2.RemoveListenerCertificatesInput,
		) ([]wire.Target, error) {
			return s.targets(ctx, action, in.ListenerArn, listeners)
		}),
		wire.Handle(s.DescribeListenerCertificates, wire.OnAll),
		wire.Handle(s.DescribeSSLPolicies, wire.OnAll),
	}
}

// requireCertificate demands that a certificate is there, issued, and stays while the change is made, which gives it to
// a listener.
func (s *service) requireCertificate(c *resource.Change, arn string) error {
	missing := wire.Errorf("CertificateNotFound", "Certificate '%s' not found", arn)
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) == 6 && parts[2] == "iam" {
		return wire.Errorf("CertificateNotFound", "Certificate '%s' not found (coracle has no server certificates of IAM: "+
			"import it into ACM)", arn)
	}
	at := placeOf(c)
	if len(parts) != 6 || parts[2] != "acm" || parts[3] != at.region || parts[4] != at.account {
		return missing // those of other regions and accounts cannot be used
	}
	id, ok := strings.CutPrefix(parts[5], "certificate/")
	if !ok || strings.Contains(id, "/") {
		return missing
	}
	row, err := s.certificates.Get(c, record.CertificateKey(at.account, at.region, id))
	// ACM finds those who use a certificate by its ARN: another text with the same ID in it would not be found.
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Value.ARN() != arn {
		return missing
	}
	if err != nil {
		return err
	}
	if row.Value.Status != acmtypes.CertificateStatusIssued {
		return wire.Errorf("UnsupportedCertificate", "The certificate '%s' must have been issued, and is %s", arn,
			row.Value.Status)
	}
	c.Add("certificate/"+row.Key, func() store.Op { return s.certificates.CheckOp(row) })
	c.Add("certificateuse/"+row.Key, func() store.Op { return s.uses.PutOp(row.Key, record.CertificateUse{}) })
	return nil
}

// countCertificates returns how many certificates a load balancer has beside the default ones of its listeners.
func countCertificates(b record.LoadBalancer) int {
	all := map[string]bool{}
	for _, l := range b.Listeners {
		for _, arn := range l.Certificates[min(1, len(l.Certificates)):] {
			all[arn] = true
		}
	}
	return len(all)
}

// AddListenerCertificates adds certificates to a listener, from which it chooses by the name that the client asks for.
// Those that it has stay.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AddListenerCertificates.html
func (s V2) AddListenerCertificates(ctx context.Context, in *elasticloadbalancingv2.AddListenerCertificatesInput) (
	out *elasticloadbalancingv2.AddListenerCertificatesOutput, err error) {
	if len(in.Certificates) != 1 {
		return nil, invalid("One certificate must be specified")
	}
	arn := aws.ToString(in.Certificates[0].CertificateArn)
	if in.Certificates[0].IsDefault != nil {
		return nil, invalid("Do not set IsDefault when specifying a certificate as an input")
	}
	err = s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
		row, i, err := s.getListener(c, in.ListenerArn)
		if err != nil {
			return err
		}
		l := &row.Value.Listeners[i]
		if l.SSLPolicy == "" {
			return wire.Errorf("OperationNotPermitted", "Certificates are for HTTPS and TLS listeners, and not for %s",
				l.Protocol)
		}
		if err := s.requireCertificate(c, arn); err != nil {
			return err
		}
		out = &elasticloadbalancingv2.AddListenerCertificatesOutput{Certificates: []types.Certificate{{
			CertificateArn: &arn, IsDefault: aws.Bool(false)}}}
		if slices.Contains(l.Certificates[1:], arn) {
			return nil
		}
		l.Certificates = append(l.Certificates, arn)
		if countCertificates(row.Value) > maxCertificates {
			return wire.Errorf("TooManyCertificates", "The maximum number of certificates of a load balancer, %d, has been "+
				"reached", maxCertificates)
		}
		if err := s.checkWeight(c, row.Value); err != nil {
			return err
		}
		s.planUpdate(c, row)
		return nil
	})
	return out, err
}

// RemoveListenerCertificates removes certificates from a listener, but not its default certificate. It succeeds for
// those that it does not have.
func (s V2) RemoveListenerCertificates(ctx context.Context,
	in *elasticloadbalancingv2.RemoveListenerCertificatesInput) (
	*elasticloadbalancingv2.RemoveListenerCertificatesOutput, error) {
	if len(in.Certificates) != 1 {
		return nil, invalid("One certificate must be specified")
	}
	arn := aws.ToString(in.Certificates[0].CertificateArn)
	return &elasticloadbalancingv2.RemoveListenerCertificatesOutput{},
		s.ec2.ApplyChange(ctx, nil, func(c *resource.Change) error {
			row, i, err := s.getListener(c, in.ListenerArn)
			if err != nil {
				return err
			}
			l := &row.Value.Listeners[i]
			if len(l.Certificates) == 0 {
				return nil
			}
			others := slices.DeleteFunc(slices.Clone(l.Certificates[1:]), func(other string) bool { return other == arn })
			if arn == l.Certificates[0] && len(others) == len(l.Certificates)-1 {
				return wire.Errorf("OperationNotPermitted", "The default certificate of a listener cannot be removed: '%s'", arn)
			}
			l.Certificates = append(l.Certificates[:1:1], others...)
			s.planUpdate(c, row)
			return nil
		})
}

// DescribeListenerCertificates returns the certificates of a listener, the default one first.
func (s V2) DescribeListenerCertificates(ctx context.Context,
	in *elasticloadbalancingv2.DescribeListenerCertificatesInput) (
	*elasticloadbalancingv2.DescribeListenerCertificatesOutput, error) {
	row, i, err := s.getListener(ctx, in.ListenerArn)
	if err != nil {
		return nil, err
	}
	all := []types.Certificate{}
	for n, arn := range row.Value.Listeners[i].Certificates {
		all = append(all, types.Certificate{CertificateArn: &arn, IsDefault: aws.Bool(n == 0)})
	}
	page, next, err := wire.Page(ctx, all, in.PageSize, in.Marker,
		func(c types.Certificate) string { return *c.CertificateArn })
	return &elasticloadbalancingv2.DescribeListenerCertificatesOutput{Certificates: page, NextMarker: next}, err
}

// DescribeSSLPolicies describes the security policies of HTTPS and TLS listeners.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeSSLPolicies.html
func (s V2) DescribeSSLPolicies(ctx context.Context, in *elasticloadbalancingv2.DescribeSSLPoliciesInput) (
	*elasticloadbalancingv2.DescribeSSLPoliciesOutput, error) {
	found := balancing.SecurityPolicies()
	if len(in.Names) > 0 {
		found = nil
		for _, name := range in.Names {
			p, known := balancing.SecurityPolicyNamed(name)
			if !known {
				return nil, wire.Errorf("SSLPolicyNotFound", "SSL policy '%s' not found", name)
			}
			found = append(found, p)
		}
	}
	switch in.LoadBalancerType {
	case "", types.LoadBalancerTypeEnumApplication, types.LoadBalancerTypeEnumNetwork:
	default:
		return nil, invalid("Load balancer type '%s' must be one of: application, network", in.LoadBalancerType)
	}
	page, next, err := wire.Page(ctx, found, in.PageSize, in.Marker,
		func(p balancing.SecurityPolicy) string { return p.Name })
	if err != nil {
		return nil, err
	}
	out := &elasticloadbalancingv2.DescribeSSLPoliciesOutput{NextMarker: next, SslPolicies: []types.SslPolicy{}}
	for _, p := range page {
		d := types.SslPolicy{Name: new(p.Name), SslProtocols: p.Protocols,
			SupportedLoadBalancerTypes: []string{"application", "network"}}
		for i, cipher := range p.Ciphers {
			d.Ciphers = append(d.Ciphers, types.Cipher{Name: new(cipher), Priority: aws.Int32(int32(i + 1))})
		}
		out.SslPolicies = append(out.SslPolicies, d)
	}
	return out, nil
}
