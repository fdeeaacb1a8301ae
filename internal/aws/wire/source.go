package wire

import "context"

// VPCSource is where a request comes from that was made inside a VPC. An address there is chosen by who owns the VPC,
// so that it is no aws:SourceIp.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-network-properties
type VPCSource struct {
	// PublicIP is the address under which the request would reach AWS over the internet. It is empty for one that comes
	// through a VPC endpoint, and for one that has no way to the internet.
	PublicIP string
	// VPCID, PrivateIP and EndpointID are those of a request without PublicIP. EndpointID is empty without an endpoint.
	VPCID, PrivateIP, EndpointID string
}

// conditions adds the condition keys of the source.
func (s VPCSource) conditions(keys map[string][]string) {
	for key, value := range map[string]string{
		"aws:SourceIp": s.PublicIP, "aws:SourceVpc": s.VPCID, "aws:VpcSourceIp": s.PrivateIP,
		"aws:SourceVpce": s.EndpointID,
	} {
		if value != "" {
			keys[key] = []string{value}
		}
	}
}

type vpcSourceKey struct{}

// WithVPCSource returns a context for requests that were made inside a VPC.
func WithVPCSource(ctx context.Context, s VPCSource) context.Context {
	return context.WithValue(ctx, vpcSourceKey{}, s)
}
