// Package reachability computes whether packets get from a source to a destination in a VPC, and what decides: VPC
// Reachability Analyzer. It sends none. It reads the records of a VPC ([Load]) and writes nothing.
//
// [Network.Analyze] follows one packet, and then its answer, through source/destination checks, security groups,
// network ACLs, route tables, gateways and load balancers (walk.go), in the order in which the router of
// internal/host/network asks them, and by the same interpretation of the records (internal/vpcrule). What a path leaves
// open, such as the source port or an address on the internet, rules tell apart at the edges of their ranges only: one
// packet for each range between edges answers for all (search.go). The first packet that nothing stops is the path.
// Where all are stopped, the explanations are those of the packet that is stopped by the fewest rules.
//
// https://docs.aws.amazon.com/vpc/latest/reachability/how-reachability-analyzer-works.html
package reachability
