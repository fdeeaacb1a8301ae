// Package balancer runs the load balancers: it checks the health of their targets, and keeps the process that forwards
// what the network does not.
//
// [Controller] has three controllers. One checks the targets of each Classic Load Balancer and of each target group
// that is in use, from the network namespace of the load balancer, as its owner has configured it. One writes the
// configuration of the process "balancer", which is "coracle endpoint" once more ([endpoint.Balancer]); it outlives the
// daemon. One observes whether a load balancer serves. Everything follows from the records: kill the daemon or the
// process at any instruction, and the next reconcile pass repairs it.
//
// It reads LoadBalancers, TargetGroups, NetworkInterfaces, Subnets, LogDeliverySources and LogDeliveries, and writes
// TargetHealths and LoadBalancerStatuses.
package balancer
