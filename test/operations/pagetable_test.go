package operations_test

import "fmt"

// sizes are the limits of the size of a page, as AWS has them.
type sizes struct {
	min, max int32 // without max, there is no limit
	// capped means that a larger size than max is taken as max, not refused.
	capped bool
	// code, small and large are how a size outside of the range is refused, if not as a constraint of the model is; "%d"
	// is the size.
	code, small, large string
	// ids is the member of the request with IDs that cannot come together with a size, and both is the refusal.
	ids, both string
	// tokenOnly means that a request has no size, and its answers come in pages nevertheless.
	tokenOnly bool
}

// upTo returns the limits of most operations outside of EC2.
func upTo(max int32) sizes { return sizes{min: 1, max: max} }

// records returns the limits of operations of Auto Scaling.
func records(max int32) sizes {
	text := fmt.Sprintf("MaxRecords must be from 1 to %d, but is %%d", max)
	return sizes{min: 1, max: max, small: text, large: text}
}

// old returns the limits of the oldest operations of EC2, and of those of which no text is known. The request has IDs
// in a member, which the refusal calls by another name.
func old(min, max int32, member, name string) sizes {
	s := sizes{min: min, max: max, ids: member,
		small: fmt.Sprintf("Value ( %%d ) for parameter maxResults is invalid. Expecting a value greater than %d.", min),
		large: fmt.Sprintf(
			"Value ( %%d ) for parameter maxResults is invalid. Expecting a value less than or equal to %d.", max)}
	if member != "" {
		s.both = "The parameter " + name + " cannot be used with the parameter maxResults"
	}
	return s
}

// capped returns limits of which the upper one is silent.
func capped(s sizes) sizes {
	s.capped = true
	return s
}

// network returns the limits of operations of EC2 about what is in VPCs.
func network(ids string, max int32) sizes {
	return sizes{min: 5, max: max, ids: ids,
		small: "Value ( %d ) for parameter MaxResults is invalid. Expecting a value greater than or equal to 5.",
		large: fmt.Sprintf(
			"Value ( %%d ) for parameter MaxResults is invalid. Expecting a value smaller than or equal to %d.", max),
		both: "The parameter " + ids + " cannot be used with the parameter MaxResults"}
}

// groups returns the limits of operations of EC2 about security groups.
func groups(ids, both string) sizes {
	return sizes{min: 5, max: 1000, ids: ids, both: both,
		small: "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than 5.",
		large: "Value ( %d ) for parameter maxResults is invalid. Expecting a value smaller than 1000."}
}

// pages has the limits of every operation that lists something: of the API reference, of the texts of errors in public
// transcripts, and of what clients ask for. Karpenter asks for 2000 spot prices, 200 launch templates and 100 instance
// types; the AWS Load Balancer Controller for 5 tags; eksctl for 100 instance types of offerings.
var pages = map[string]sizes{
	"acm:ListCertificates": upTo(1000),

	"autoscaling:DescribeAutoScalingGroups":          records(100),
	"autoscaling:DescribeAutoScalingInstances":       records(50),
	"autoscaling:DescribeInstanceRefreshes":          records(100),
	"autoscaling:DescribeLaunchConfigurations":       records(100),
	"autoscaling:DescribeLoadBalancerTargetGroups":   records(100),
	"autoscaling:DescribeLoadBalancers":              records(100),
	"autoscaling:DescribeNotificationConfigurations": records(100),
	"autoscaling:DescribePolicies":                   records(100),
	"autoscaling:DescribeScalingActivities":          records(100),
	"autoscaling:DescribeScheduledActions":           records(100),
	"autoscaling:DescribeTags":                       records(100),
	"autoscaling:DescribeTrafficSources":             records(50),
	"autoscaling:DescribeWarmPool":                   records(50),

	"cloudformation:DescribeAccountLimits":       {tokenOnly: true},
	"cloudformation:DescribeChangeSet":           {tokenOnly: true},
	"cloudformation:DescribeStackEvents":         {tokenOnly: true},
	"cloudformation:DescribeStackResourceDrifts": upTo(100),
	"cloudformation:DescribeStacks":              {tokenOnly: true},
	"cloudformation:ListChangeSets":              {tokenOnly: true},
	"cloudformation:ListExports":                 {tokenOnly: true},
	"cloudformation:ListImports":                 {tokenOnly: true},
	"cloudformation:ListStackResources":          {tokenOnly: true},
	"cloudformation:ListStacks":                  {tokenOnly: true},
	"cloudformation:ListTypes":                   upTo(100),

	"cloudtrail:ListTrails": {tokenOnly: true},
	"cloudtrail:LookupEvents": {min: 1, max: 50, code: "InvalidMaxResultsException",
		small: "A max results value of %d is invalid. Specify max results between 1 and 50.",
		large: "A max results value of %d is invalid. Specify max results between 1 and 50."},
	"cloudwatch:GetMetricData": {tokenOnly: true},
	"cloudwatch:ListMetrics":   {tokenOnly: true},

	"cloudwatchlogs:DescribeConfigurationTemplates": upTo(50),
	"cloudwatchlogs:DescribeDeliveries":             upTo(50),
	"cloudwatchlogs:DescribeDeliveryDestinations":   upTo(50),
	"cloudwatchlogs:DescribeDeliverySources":        upTo(50),
	"cloudwatchlogs:DescribeLogGroups":              upTo(50),
	"cloudwatchlogs:DescribeLogStreams":             upTo(50),
	"cloudwatchlogs:DescribeQueries":                upTo(1000),
	"cloudwatchlogs:DescribeQueryDefinitions":       upTo(1000),
	"cloudwatchlogs:DescribeResourcePolicies":       upTo(50),
	"cloudwatchlogs:FilterLogEvents":                upTo(10000),
	"cloudwatchlogs:GetLogEvents":                   upTo(10000),
	"cloudwatchlogs:GetQueryResults":                {min: 0, max: 10000},
	"cloudwatchlogs:ListLogGroups":                  upTo(1000),
	"cloudwatchlogs:ListLogGroupsForQuery":          {min: 50, max: 500},
	"cloudwatchlogs:StartQuery":                     upTo(10000),

	"ec2:DescribeAddressesAttribute": old(1, 1000, "AllocationIds", "allocationIdsSet"),
	"ec2:DescribeDhcpOptions":        network("DhcpOptionsIds", 1000),
	"ec2:DescribeEgressOnlyInternetGateways": {min: 5, max: 255,
		small: "Value (%d) for parameter maxResults is invalid. Expecting a value greater than 5.",
		large: "Value (%d) for parameter maxResults is invalid. Expecting a value less than 255.",
		ids:   "EgressOnlyInternetGatewayIds",
		both:  "The parameter egressOnlyInternetGatewayIds cannot be used with the parameter maxResults"},
	"ec2:DescribeFleetInstances":                 old(1, 1000, "", ""),
	"ec2:DescribeFleets":                         old(1, 1000, "FleetIds", "fleetIdSet"),
	"ec2:DescribeIamInstanceProfileAssociations": capped(old(1, 1000, "AssociationIds", "associationIdsSet")),
	"ec2:DescribeImages":                         capped(old(5, 1000, "ImageIds", "imageIdsSet")),
	"ec2:DescribeInstanceCreditSpecifications": {min: 5, max: 1000, code: "InvalidRequest",
		small: "The value %d for the maxResults parameter must be between 5 and 1000. Change the value and try again.",
		large: "The value %d for the maxResults parameter must be between 5 and 1000. Change the value and try again.",
		ids:   "InstanceIds", both: "The parameter instancesSet cannot be used with the parameter maxResults"},
	"ec2:DescribeInstanceStatus": capped(old(5, 1000, "InstanceIds", "instanceIdsSet")),
	"ec2:DescribeInstanceTypeOfferings": {min: 5, max: 1000, code: "InvalidMaxResults",
		small: "Value ( %d ) for parameter maxResults is invalid. Expecting a value from ( 5 ) to  ( 1000 ).",
		large: "Value ( %d ) for parameter maxResults is invalid. Expecting a value from ( 5 ) to  ( 1000 )."},
	"ec2:DescribeInstanceTypes": {min: 5, max: 100, code: "InvalidMaxResults",
		small: "Value ( %d ) for parameter maxResults is invalid. Expecting a value from ( 5 ) to  ( 100 ).",
		large: "Value ( %d ) for parameter maxResults is invalid. Expecting a value from ( 5 ) to  ( 100 )."},
	"ec2:DescribeInstances":        capped(old(5, 1000, "InstanceIds", "instancesSet")),
	"ec2:DescribeInternetGateways": network("InternetGatewayIds", 1000),
	"ec2:DescribeLaunchTemplateVersions": {min: 1, max: 200, small: "Maximum results allowed are between 1 and 200",
		large: "Maximum results allowed are between 1 and 200"},
	"ec2:DescribeLaunchTemplates": {min: 1, max: 200, small: "Maximum results allowed are between 1 and 200",
		large: "Maximum results allowed are between 1 and 200", ids: "LaunchTemplateIds",
		both: "The parameter launchTemplateIds cannot be used with the parameter maxResults"},
	"ec2:DescribeManagedPrefixLists": old(1, 100, "PrefixListIds", "prefixListIds"),
	"ec2:DescribeNatGateways": {min: 5, max: 1000, code: "InvalidParameter", ids: "NatGatewayIds",
		both: "The parameter natGatewayIds cannot be used with the parameter maxResults"},
	"ec2:DescribeNetworkAcls":             network("NetworkAclIds", 1000),
	"ec2:DescribeNetworkInsightsAnalyses": old(1, 100, "NetworkInsightsAnalysisIds", "networkInsightsAnalysisIdSet"),
	"ec2:DescribeNetworkInsightsPaths":    old(1, 100, "NetworkInsightsPathIds", "networkInsightsPathIdSet"),
	"ec2:DescribeNetworkInterfaces":       network("NetworkInterfaceIds", 1000),
	"ec2:DescribePrefixLists":             network("PrefixListIds", 1000),
	"ec2:DescribeRouteTables":             network("RouteTableIds", 100),
	"ec2:DescribeSecurityGroupRules": groups("SecurityGroupRuleIds",
		"The parameter 'securityGroupRuleIds' may not be used in combination with 'maxResults'."),
	"ec2:DescribeSecurityGroups": groups("GroupIds",
		"The parameter securityGroupIdSet cannot be used with the parameter maxResults"),
	"ec2:DescribeSnapshots":                  capped(old(5, 1000, "SnapshotIds", "snapshotIdsSet")),
	"ec2:DescribeSpotInstanceRequests":       capped(old(5, 1000, "SpotInstanceRequestIds", "spotInstanceRequestIdsSet")),
	"ec2:DescribeSpotPriceHistory":           old(1, 0, "", ""),
	"ec2:DescribeSubnets":                    network("SubnetIds", 1000),
	"ec2:DescribeTags":                       capped(old(5, 1000, "", "")),
	"ec2:DescribeTrunkInterfaceAssociations": old(5, 255, "AssociationIds", "associationIdsSet"),
	"ec2:DescribeVolumeStatus":               capped(old(5, 1000, "VolumeIds", "volumeIdsSet")),
	"ec2:DescribeVolumes":                    capped(old(5, 500, "VolumeIds", "volumeIdsSet")),
	"ec2:DescribeVolumesModifications": {min: 5, max: 500, capped: true, ids: "VolumeIds",
		small: "Value ( %d ) for parameter MaxResults is invalid. Expecting a value greater than 5.",
		both:  "The parameter volumeModificationSet cannot be used with the parameter maxResults"},
	"ec2:DescribeVpcEndpointServices":              capped(old(1, 1000, "", "")),
	"ec2:DescribeVpcEndpoints":                     capped(old(1, 1000, "VpcEndpointIds", "vpcEndpointIds")),
	"ec2:DescribeVpcs":                             network("VpcIds", 1000),
	"ec2:GetInstanceTypesFromInstanceRequirements": old(1, 1000, "", ""),
	"ec2:GetManagedPrefixListEntries":              old(1, 100, "", ""),
	"ec2:GetSecurityGroupsForVpc":                  groups("", ""),

	"ecr:DescribeImages":                upTo(1000),
	"ecr:DescribePullThroughCacheRules": upTo(1000),
	"ecr:DescribeRepositories":          upTo(1000),
	"ecr:ListImages":                    upTo(1000),

	"efs:DescribeAccessPoints":              {min: 1, max: 100, capped: true},
	"efs:DescribeAccountPreferences":        {min: 1, max: 100, capped: true},
	"efs:DescribeFileSystems":               {min: 1, max: 100, capped: true},
	"efs:DescribeMountTargets":              {min: 1, max: 100, capped: true},
	"efs:DescribeReplicationConfigurations": {min: 1, max: 100, capped: true},
	"efs:DescribeTags":                      {min: 1, max: 100, capped: true},
	"efs:ListTagsForResource":               {min: 1, max: 100, capped: true},

	"eks:DescribeAddonVersions":        upTo(100),
	"eks:DescribeClusterVersions":      upTo(100),
	"eks:ListAccessEntries":            upTo(100),
	"eks:ListAccessPolicies":           upTo(100),
	"eks:ListAddons":                   upTo(100),
	"eks:ListAssociatedAccessPolicies": upTo(100),
	"eks:ListCapabilities":             upTo(100),
	"eks:ListCertificateAuthorities":   upTo(100),
	"eks:ListClusters":                 upTo(100),
	"eks:ListEksAnywhereSubscriptions": upTo(100),
	"eks:ListFargateProfiles":          upTo(100),
	"eks:ListIdentityProviderConfigs":  upTo(100),
	"eks:ListInsights":                 upTo(100),
	"eks:ListNodegroups":               upTo(100),
	"eks:ListPodIdentityAssociations":  upTo(100),
	"eks:ListUpdates":                  upTo(100),

	"elasticloadbalancing:DescribeAccountLimits": upTo(400),
	"elasticloadbalancing:DescribeLoadBalancers": upTo(400),

	"elasticloadbalancingv2:DescribeAccountLimits":        upTo(400),
	"elasticloadbalancingv2:DescribeListenerCertificates": upTo(400),
	"elasticloadbalancingv2:DescribeListeners":            upTo(400),
	"elasticloadbalancingv2:DescribeLoadBalancers":        upTo(400),
	"elasticloadbalancingv2:DescribeRules":                upTo(400),
	"elasticloadbalancingv2:DescribeSSLPolicies":          upTo(400),
	"elasticloadbalancingv2:DescribeTargetGroups":         upTo(400),

	"iam:GetAccountAuthorizationDetails": upTo(1000),
	"iam:GetGroup":                       upTo(1000),
	"iam:ListAccessKeys":                 upTo(1000),
	"iam:ListAccountAliases":             upTo(1000),
	"iam:ListAttachedGroupPolicies":      upTo(1000),
	"iam:ListAttachedRolePolicies":       upTo(1000),
	"iam:ListAttachedUserPolicies":       upTo(1000),
	"iam:ListEntitiesForPolicy":          upTo(1000),
	"iam:ListGroupPolicies":              upTo(1000),
	"iam:ListGroups":                     upTo(1000),
	"iam:ListGroupsForUser":              upTo(1000),
	"iam:ListInstanceProfileTags":        upTo(1000),
	"iam:ListInstanceProfiles":           upTo(1000),
	"iam:ListInstanceProfilesForRole":    upTo(1000),
	"iam:ListOpenIDConnectProviderTags":  upTo(1000),
	"iam:ListPolicies":                   upTo(1000),
	"iam:ListPolicyTags":                 upTo(1000),
	"iam:ListPolicyVersions":             upTo(1000),
	"iam:ListRolePolicies":               upTo(1000),
	"iam:ListRoleTags":                   upTo(1000),
	"iam:ListRoles":                      upTo(1000),
	"iam:ListUserPolicies":               upTo(1000),
	"iam:ListUserTags":                   upTo(1000),
	"iam:ListUsers":                      upTo(1000),
	"iam:SimulateCustomPolicy":           upTo(1000),
	"iam:SimulatePrincipalPolicy":        upTo(1000),

	"kms:ListAliases":         upTo(100),
	"kms:ListGrants":          upTo(100),
	"kms:ListKeyPolicies":     upTo(1000),
	"kms:ListKeyRotations":    upTo(1000),
	"kms:ListKeys":            upTo(1000),
	"kms:ListResourceTags":    upTo(50),
	"kms:ListRetirableGrants": upTo(100),

	"shield:ListProtections": {min: 0, max: 10000},

	"ssm:DescribeParameters":  upTo(50),
	"ssm:GetParameterHistory": upTo(50),
	"ssm:GetParametersByPath": upTo(10),

	"wafregional:ListWebACLs": {min: 0, max: 100},

	"wafv2:ListWebACLs": upTo(100),
}
