package resource

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// pageRule says which MaxResults an operation takes, and how it refuses others.
type pageRule struct {
	min, max int32 // of MaxResults; without max, every value from min on is taken as it is
	// capped means that a larger value than max counts as max.
	capped bool
	// size is the number of items on a page when the request names neither MaxResults nor IDs; 0 means all.
	size int32
	// code, small and large refuse a value outside of the range; "%d" is the value.
	code, small, large string
	// ids refuses MaxResults together with a list of IDs.
	ids string
}

// pageRules are the limits of the operations that have MaxResults. Where AWS's texts are known, they differ between
// operations, as do the names in them. The limits come from the API reference and, where it has none, from the older
// one of aws-sdk-go; that of DescribeSpotPriceHistory from Karpenter, which asks for 2000 prices.
//
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html#api-pagination
var pageRules = map[string]pageRule{
	"DescribeAddressesAttribute": oldPages("allocationIdsSet", 1, 1000),
	"DescribeDhcpOptions":        networkPages("DhcpOptionsIds", 1000),
	"DescribeEgressOnlyInternetGateways": {min: 5, max: 255,
		small: "Value (%d) for parameter maxResults is invalid. Expecting a value greater than 5.",
		large: "Value (%d) for parameter maxResults is invalid. Expecting a value less than 255.",
		ids:   "The parameter egressOnlyInternetGatewayIds cannot be used with the parameter maxResults"},
	"DescribeFleetInstances": sized(1000, oldPages("", 1, 1000)),
	"DescribeFleets":         sized(1000, oldPages("fleetIdSet", 1, 1000)),
	// AWS takes 4 and 1001, although the model has a range from 5 to 1000.
	"DescribeIamInstanceProfileAssociations": capped(oldPages("associationIdsSet", 1, 1000)),
	"DescribeImages":                         capped(oldPages("imageIdsSet", 5, 1000)),
	"DescribeInstanceCreditSpecifications": {min: 5, max: 1000, code: "InvalidRequest",
		small: "The value %d for the maxResults parameter must be between 5 and 1000. Change the value and try again.",
		large: "The value %d for the maxResults parameter must be between 5 and 1000. Change the value and try again.",
		ids:   "The parameter instancesSet cannot be used with the parameter maxResults"},
	"DescribeInstanceStatus":        capped(oldPages("instanceIdsSet", 5, 1000)),
	"DescribeInstanceTypeOfferings": typePages(1000),
	"DescribeInstanceTypes":         sized(100, typePages(100)),
	"DescribeInstances":             capped(oldPages("instancesSet", 5, 1000)),
	"DescribeInternetGateways":      networkPages("InternetGatewayIds", 1000),
	"DescribeLaunchTemplateVersions": {min: 1, max: 200, small: "Maximum results allowed are between 1 and 200",
		large: "Maximum results allowed are between 1 and 200"},
	"DescribeLaunchTemplates": {min: 1, max: 200, small: "Maximum results allowed are between 1 and 200",
		large: "Maximum results allowed are between 1 and 200",
		ids:   "The parameter launchTemplateIds cannot be used with the parameter maxResults"},
	"DescribeManagedPrefixLists": oldPages("prefixListIds", 1, 100),
	"DescribeNatGateways": {min: 5, max: 1000, code: "InvalidParameter",
		small: "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: " +
			"Member must have value greater than or equal to 5",
		large: "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: " +
			"Member must have value less than or equal to 1000",
		ids: "The parameter natGatewayIds cannot be used with the parameter maxResults"},
	"DescribeNetworkAcls":             networkPages("NetworkAclIds", 1000),
	"DescribeNetworkInsightsAnalyses": sized(100, oldPages("networkInsightsAnalysisIdSet", 1, 100)),
	"DescribeNetworkInsightsPaths":    sized(100, oldPages("networkInsightsPathIdSet", 1, 100)),
	"DescribeNetworkInterfaces":       networkPages("NetworkInterfaceIds", 1000),
	"DescribePrefixLists":             networkPages("PrefixListIds", 1000),
	"DescribeRouteTables":             networkPages("RouteTableIds", 100),
	"DescribeSecurityGroupRules": {min: 5, max: 1000,
		small: "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than 5.",
		large: "Value ( %d ) for parameter maxResults is invalid. Expecting a value smaller than 1000.",
		ids:   "The parameter 'securityGroupRuleIds' may not be used in combination with 'maxResults'."},
	"DescribeSecurityGroups": {min: 5, max: 1000,
		small: "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than 5.",
		large: "Value ( %d ) for parameter maxResults is invalid. Expecting a value smaller than 1000.",
		ids:   "The parameter securityGroupIdSet cannot be used with the parameter maxResults"},
	"DescribeSnapshots":                  sized(1000, capped(oldPages("snapshotIdsSet", 5, 1000))),
	"DescribeSpotInstanceRequests":       capped(oldPages("spotInstanceRequestIdsSet", 5, 1000)),
	"DescribeSpotPriceHistory":           sized(1000, oldPages("", 1, 0)),
	"DescribeSubnets":                    networkPages("SubnetIds", 1000),
	"DescribeTags":                       capped(oldPages("", 5, 1000)),
	"DescribeTrunkInterfaceAssociations": oldPages("associationIdsSet", 5, 255),
	"DescribeVolumeStatus":               capped(oldPages("volumeIdsSet", 5, 1000)),
	"DescribeVolumes":                    capped(oldPages("volumeIdsSet", 5, 500)),
	"DescribeVolumesModifications": {min: 5, max: 500, capped: true,
		small: "Value ( %d ) for parameter MaxResults is invalid. Expecting a value greater than 5.",
		ids:   "The parameter volumeModificationSet cannot be used with the parameter maxResults"},
	"DescribeVpcEndpointServices":              capped(oldPages("", 1, 1000)),
	"DescribeVpcEndpoints":                     capped(oldPages("vpcEndpointIds", 1, 1000)),
	"DescribeVpcs":                             networkPages("VpcIds", 1000),
	"GetInstanceTypesFromInstanceRequirements": sized(1000, oldPages("", 1, 1000)),
	"GetManagedPrefixListEntries":              oldPages("", 1, 100),
	"GetSecurityGroupsForVpc": {min: 5, max: 1000,
		small: "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than 5.",
		large: "Value ( %d ) for parameter maxResults is invalid. Expecting a value smaller than 1000."},
}

// oldPages returns the rule of the oldest operations, those of instances and volumes, and of those of which no other
// text is known. ids is the name of the list of IDs in the refusal; empty where a request has none.
func oldPages(ids string, min, max int32) pageRule {
	r := pageRule{min: min, max: max,
		small: fmt.Sprintf("Value ( %%d ) for parameter maxResults is invalid. Expecting a value greater than %d.", min),
		large: fmt.Sprintf(
			"Value ( %%d ) for parameter maxResults is invalid. Expecting a value less than or equal to %d.", max)}
	if ids != "" {
		r.ids = "The parameter " + ids + " cannot be used with the parameter maxResults"
	}
	return r
}

// networkPages returns the rule of operations about VPCs and what is in them.
func networkPages(ids string, max int32) pageRule {
	return pageRule{min: 5, max: max,
		small: "Value ( %d ) for parameter MaxResults is invalid. Expecting a value greater than or equal to 5.",
		large: fmt.Sprintf(
			"Value ( %%d ) for parameter MaxResults is invalid. Expecting a value smaller than or equal to %d.", max),
		ids: "The parameter " + ids + " cannot be used with the parameter MaxResults"}
}

// typePages returns the rule of operations about instance types.
func typePages(max int32) pageRule {
	// The two blanks are theirs.
	text := fmt.Sprintf("Value ( %%d ) for parameter maxResults is invalid. Expecting a value from ( 5 ) to  ( %d ).", max)
	return pageRule{min: 5, max: max, code: "InvalidMaxResults", small: text, large: text,
		ids: "The parameter instanceTypes cannot be used with the parameter maxResults"}
}

// capped returns a rule by which values above the maximum count as the maximum.
func capped(r pageRule) pageRule {
	r.capped = true
	return r
}

// sized returns a rule with the size of a page of a request without MaxResults.
func sized(size int32, r pageRule) pageRule {
	r.size = size
	return r
}

// Page returns the maximum number of items in the answer; nil for all. A dry run is answered before MaxResults is
// looked at, as on AWS.
func (q Query) Page() (*int32, error) {
	rule := pageRules[q.Operation]
	switch {
	case aws.ToBool(q.DryRun):
		return nil, nil
	case q.Max == nil && rule.size > 0 && len(q.IDs) == 0:
		return &rule.size, nil
	case q.Max == nil:
		return nil, nil
	case len(q.IDs) > 0 && rule.ids != "":
		return nil, wire.Errorf("InvalidParameterCombination", "%s", rule.ids)
	case *q.Max < rule.min:
		return nil, rule.refuse(rule.small, *q.Max)
	case rule.max == 0 || *q.Max <= rule.max:
		return q.Max, nil
	case rule.capped:
		return &rule.max, nil
	default:
		return nil, rule.refuse(rule.large, *q.Max)
	}
}

// CheckPage refuses a MaxResults that the operation does not take. Operations that look for what a request names call
// it first, as AWS does.
func (q Query) CheckPage() error {
	_, err := q.Page()
	return err
}

func (r pageRule) refuse(text string, value int32) error {
	code := r.code
	if code == "" {
		code = "InvalidParameterValue"
	}
	if strings.Contains(text, "%d") {
		text = fmt.Sprintf(text, value)
	}
	return wire.Errorf(code, "%s", text)
}
