// Package network is the data plane of VPCs: it stands in for the network of Amazon's data centers.
//
// A VPC is a Linux network namespace that routes. Everything else is plugged into it:
//
//	host ── cor-<owner> ── internet ──┬── vpc-<id> ──┬── i-<id>         an instance: eth0, eth1, … are its ENIs
//	        the host's        routes  │   the        ├── <cluster ID>   a cluster's leg in its VPC: EKS's ENIs
//	        own namespace     public  │   router     ├── nat-<id>       a NAT gateway
//	                          addresses└── vpc-<id> …  └── elb-<id>       a load balancer: its ENIs
//
// The router delivers by mapping, as the real VPC does: each private address (and each delegated prefix) of a plugged
// ENI is a route to its port; nothing is flooded. Route tables are routing tables of the kernel, chosen by the mark
// that a packet gets from the subnet it comes from. Security groups, network ACLs, and the addresses of internet
// gateways are one nftables table per router, whose rules look things up in sets and maps, so that what a packet costs
// does not grow with the number of ENIs. The addresses of the metadata service, of DNS and of the AWS APIs belong to
// the router itself; whoever serves them listens inside its namespace ([Network.Listen]).
//
// New connections to a Network Load Balancer are sent to its targets by the router (balancer.go), so that targets see
// the client's address. What a process serves for a load balancer listens in the namespace of its ENIs.
//
// What rules and routes match is interpreted by internal/vpcrule, as for analyses of internal/reachability.
//
// It reads the rows of internal/aws/ec2, ControlPlane, LoadBalancers, TargetGroups and TargetHealths, and writes none.
// [Network.Controllers] has two controllers, level-triggered like all: one reconciles each VPC, one the internet. What
// they make carries the owner's mark, in its path or its name, so that [Remove] finds it without a daemon or a store.
//
// https://docs.aws.amazon.com/vpc/latest/userguide/how-it-works.html
package network
