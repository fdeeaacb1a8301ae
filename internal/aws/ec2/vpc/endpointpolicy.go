package vpc

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// maxPolicy limits the characters in the policy of an endpoint.
// https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-limits-endpoints.html
const maxPolicy = 20480

func checkPolicy(document string) error {
	if n := utf8.RuneCountInString(document); n > maxPolicy {
		return resource.Invalid("The policy document has %d characters; the maximum is %d.", n, maxPolicy)
	}
	if !json.Valid([]byte(document)) {
		return wire.Errorf("MalformedPolicyDocument", "The policy document is not valid JSON.")
	}
	return nil
}

// endpointPolicy returns the policy of an endpoint.
func (s *Service) endpointPolicy(sc resource.Scope, e record.VPCEndpoint) string {
	row := resource.MustRead(s.VPCEndpointPolicies.Get(sc, e.Key()))
	return cmp.Or(row.Value.Document, e.InlinePolicy, openPolicy)
}

// setEndpointPolicy gives an endpoint another policy.
func setEndpointPolicy(c *resource.Change, e *record.VPCEndpoint, document string) error {
	if err := checkPolicy(document); err != nil {
		return err
	}
	key := e.Key()
	e.InlinePolicy = ""
	c.Add("policy/"+e.ID, func() store.Op {
		return c.VPCEndpointPolicies.PutOp(key, record.VPCEndpointPolicy{Document: document})
	})
	return nil
}

// removeEndpointPolicy leaves an endpoint the policy that lets everybody do everything.
func removeEndpointPolicy(c *resource.Change, e *record.VPCEndpoint) {
	key := e.Key()
	e.InlinePolicy = ""
	c.Add("policy/"+e.ID, func() store.Op { return c.VPCEndpointPolicies.RemoveOp(key) })
}

// checkEndpointQuota refuses one more endpoint where there are as many as may be. They are counted, and not read.
func checkEndpointQuota(c *resource.Change, e record.VPCEndpoint) error {
	full := c.GatewayEndpointsOf.Count(store.Key(c.Account, c.Region)) >= resource.MaxGatewayEndpoints
	what := "gateway endpoints in the region"
	if e.Type == types.VpcEndpointTypeInterface {
		full = c.InterfaceEndpointsOf.Count(c.Key(e.VPCID)) >= resource.MaxInterfaceEndpointsPerVPC
		what = "interface endpoints in " + e.VPCID
	}
	if full {
		return wire.Errorf("VpcEndpointLimitExceeded", "The maximum number of %s has been reached: delete some.", what)
	}
	return nil
}
