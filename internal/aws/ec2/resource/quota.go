package resource

// Quotas. AWS starts lower with VPCs and addresses (five each) and network interfaces (5,000), and raises them on
// request.
// https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
const (
	MaxVPCs              = 100
	MaxCIDRsPerVPC       = 5
	MaxSubnetsPerVPC     = 200
	MaxInternetGateways  = 100
	MaxNATGateways       = 100 // AWS: five in each zone, until it is asked for more
	MaxAddresses         = 100
	MaxRoutesPerTable    = 500
	MaxRouteTablesPerVPC = 200
	MaxACLsPerVPC        = 200
	MaxSecurityGroups    = 2500
	MaxNetworkInterfaces = 50000 // more than two for each instance
	// https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-limits-endpoints.html
	MaxGatewayEndpoints         = 20
	MaxInterfaceEndpointsPerVPC = 50
	// https://docs.aws.amazon.com/vpc/latest/reachability/reachability-analyzer-limits.html
	MaxNetworkInsightsPaths    = 100
	MaxNetworkInsightsAnalyses = 1000
	// The rules of each direction in a group, and the groups of an interface.
	MaxRulesPerSecurityGroup      = 60
	MaxSecurityGroupsPerInterface = 5
)
