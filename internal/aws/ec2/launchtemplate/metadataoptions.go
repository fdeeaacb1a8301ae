package launchtemplate

import (
	"cmp"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/record"
)

// EditMetadataOptions changes those options that are given.
func EditMetadataOptions(now *record.InstanceMetadataOptions, endpoint types.InstanceMetadataEndpointState,
	tokens types.HttpTokensState, hops *int32,
	tags types.InstanceMetadataTagsState, ipv6 types.InstanceMetadataProtocolState) error {
	for _, err := range []error{
		resource.CheckEnum(endpoint, "HttpEndpoint"), resource.CheckEnum(tokens, "HttpTokens"),
		resource.CheckEnum(tags, "InstanceMetadataTags"), resource.CheckEnum(ipv6, "HttpProtocolIpv6"),
	} {
		if err != nil {
			return err
		}
	}
	if hops != nil {
		if *hops < 1 || *hops > 64 {
			return resource.InvalidValue(*hops, "HttpPutResponseHopLimit", "Expecting a value between 1 and 64.")
		}
		now.HTTPPutResponseHopLimit = *hops
	}
	now.HTTPEndpoint = cmp.Or(endpoint, now.HTTPEndpoint)
	now.HTTPTokens = cmp.Or(tokens, now.HTTPTokens)
	now.InstanceMetadataTags = cmp.Or(tags, now.InstanceMetadataTags)
	now.HTTPProtocolIPv6 = cmp.Or(ipv6, now.HTTPProtocolIPv6)
	return nil
}
