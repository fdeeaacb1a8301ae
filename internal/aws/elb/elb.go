// Package elb serves the lists of Elastic Load Balancing, of Classic Load Balancers ([Classic]) and of their successors
// ([V2]), which are two APIs under one name.
//
// Nothing here can make a load balancer, so an account has none: a list is empty, and a name or ARN is that of no load
// balancer. Clients such as "eksctl delete cluster" and Terraform ask before they go on. The package reads and writes
// nothing.
//
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/Welcome.html
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/Welcome.html
package elb

import "github.com/coracle-eks/coracle/internal/aws/wire"

// Register serves the operations of both APIs.
func Register(mux *wire.Mux) {
	mux.Register(wire.ELB, Classic{}.handlers()...)
	mux.Register(wire.ELBv2, V2{}.handlers()...)
}
